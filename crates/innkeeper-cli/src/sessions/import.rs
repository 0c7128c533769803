//! `innkeeper sessions import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::args::ImportArgs;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, note, one_line};

use super::export_file::{ExportFile, OneSession};
use super::{ImportedSession, SessionBackend, contents, rename};

/// An export to import, opened and renamed if `--as` says so.
pub struct ImportSource {
    file: ExportFile,
}

impl ImportSource {
    /// Opens the file that the arguments name. The caller has checked the URI of `--as`.
    pub fn open(args: &ImportArgs) -> Result<Self, Failure> {
        let mut lines = open(&args.file)?;
        let renamed = match &args.rename {
            Some(uri) => Some(rename::rename(&mut lines, uri)?),
            None => None,
        };
        let mut file = ExportFile::new(match renamed {
            Some(text) => Box::new(io::Cursor::new(text)),
            None => lines,
        });
        if file.is_at_end().map_err(|error| unreadable(&error))? {
            return Err(Failure::new(Kind::Rejected, "there is no session in this file"));
        }
        Ok(Self { file })
    }
}

/// Imports the sessions of a file, each as a whole or not at all.
pub async fn run(source: ImportSource, backend: &mut impl SessionBackend) -> Result<(), Failure> {
    let ImportSource { mut file } = source;
    while !file.is_at_end().map_err(|error| unreadable(&error))? {
        let announced = contents::are_announced(&mut file)?;
        let imported = backend.import_session(&mut OneSession::of(&mut file)).await?;
        let contents = contents::import(&mut file, announced, &imported.session, backend).await;
        show(&imported, contents.as_ref().ok())?;
        note_reset(&imported.approvals_reset);
        contents?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|error| {
        Failure::new(Kind::Usage, format!("{} cannot be read ({error})", path.display()))
            .hint("name a file that `innkeeper sessions export` wrote")
    })?;
    Ok(Box::new(BufReader::new(file)))
}

fn show(imported: &ImportedSession, contents: Option<&usize>) -> Result<(), Failure> {
    let contents = match contents {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} stored results"),
    };
    let ImportedSession {
        session, chats, turns, ..
    } = imported;
    Output::stdout().show(&format!(
        "imported {session} ({chats} chats, {turns} turns{contents})\n"
    ))
}

/// Names the approvals that the session had where it was exported. They do not apply here.
fn note_reset(approvals: &[String]) {
    if approvals.is_empty() {
        return;
    }
    note("Its approvals were reset, so these are asked about again:");
    for approval in approvals {
        note(&format!("  {}", one_line(approval, 300)));
    }
}

/// Adds how to import a session whose URI is taken.
pub fn already_exists(failure: Failure) -> Failure {
    // The store's message, also when a host passes it on; the protocol has no code of its own for it.
    match failure.message().contains(" exists") && failure.message().contains("Nothing was changed") {
        true => failure.hint("--as URI imports it under another name"),
        false => failure,
    }
}

pub(crate) fn unreadable(error: &io::Error) -> Failure {
    Failure::new(Kind::Unexpected, format!("the input cannot be read ({error})"))
}
