//! `innkeeper trust`: the decisions about hooks and MCP servers of workspaces and plugins. Works with or without a
//! host: a running host reads the file whenever it needs it.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use innkeeper_customizations::{TrustFile, TrustRecord, Verdict};

use crate::cli::{TrustArgs, TrustCommand, TrustListArgs, TrustTargetArgs};
use crate::config::ConfigFile;
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::discovery::{self, DataDir};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal::{Output, note};

/// The file in the data directory.
pub(crate) const FILE_NAME: &str = "trust.json";

/// Lists, allows or revokes trust.
pub(crate) fn run(args: TrustArgs) -> Result<(), Failure> {
    match args.command.unwrap_or(TrustCommand::List(args.list)) {
        TrustCommand::List(args) => list(&args),
        TrustCommand::Allow(args) => {
            let (file, place) = find(&args)?;
            let count = file.change_verdict(&place, Verdict::Trusted);
            let count = count.map_err(|error| unusable(&file, &error))?;
            note(&format!(
                "{place} may run the listed commands ({}). After any change there you are asked again.",
                pieces(count)
            ));
            Ok(())
        }
        TrustCommand::Revoke(args) => {
            let (file, place) = find(&args)?;
            file.revoke(&place).map_err(|error| unusable(&file, &error))?;
            note(&format!("Nothing of {place} runs until a user is asked again."));
            Ok(())
        }
    }
}

fn pieces(count: usize) -> String {
    match count {
        1 => "1 decision".to_owned(),
        count => format!("{count} decisions"),
    }
}

fn file(common: &CommonArgs) -> Result<TrustFile, Failure> {
    let config = ConfigFile::load(common)?;
    let dir = DataDir::existing(config.data_dir(common)?);
    Ok(TrustFile::new(dir.file(FILE_NAME)))
}

fn decisions(file: &TrustFile) -> Result<Vec<TrustRecord>, Failure> {
    file.decisions().map_err(|error| unusable(file, &error))
}

fn unusable(file: &TrustFile, error: &io::Error) -> Failure {
    discovery::unusable(file.path(), error)
}

/// Returns the file, and the workspace or plugin that the argument names.
fn find(args: &TrustTargetArgs) -> Result<(TrustFile, String), Failure> {
    let file = file(&args.common)?;
    let known = decisions(&file)?;
    // As written, as an absolute path, or with symlinks resolved: the shell may have come through some.
    let full = std::path::absolute(Path::new(&args.place)).unwrap_or_default();
    let full: PathBuf = full.components().collect();
    let real = full.canonicalize().unwrap_or_default();
    let [full, real] = [full, real].map(|path| path.to_string_lossy().into_owned());
    // Plugins of clients have a URI. Show paths in full, because `.` alone is unclear.
    let asked = match args.place.contains("://") {
        true => args.place.clone(),
        false => full.clone(),
    };
    let mut names = [args.place.clone()].into_iter().chain([full, real]);
    let is_known = |name: &String| known.iter().any(|decided| decided.place == *name);
    match names.find(is_known) {
        Some(place) => Ok((file, place)),
        None => Err(
            Failure::new(Kind::Rejected, format!("there is no trust request for {asked}")).hint(
                "`innkeeper trust` lists the requests; a session asks when a hook or an MCP server would run for the first time",
            ),
        ),
    }
}

fn list(args: &TrustListArgs) -> Result<(), Failure> {
    let decisions = decisions(&file(&args.common)?)?;
    let mut output = Output::stdout();
    if args.json {
        for decided in &decisions {
            let line = serde_json::to_string(decided).map_err(|error| {
                let problem = format!("a decision cannot be written as JSON ({error})");
                Failure::new(Kind::Unexpected, problem)
            })?;
            output.show(&format!("{line}\n"))?;
        }
        return Ok(());
    }
    if decisions.is_empty() {
        note("No workspace or plugin has asked for trust yet: none of their hooks or MCP servers was about to run.");
        return Ok(());
    }
    output.show(&decisions.iter().map(in_words).collect::<String>())
}

fn in_words(decided: &TrustRecord) -> String {
    let verdict = match decided.verdict {
        Verdict::Asked => "asked, not decided",
        Verdict::Trusted => "may run",
        Verdict::Refused => "may not run",
    };
    let mut text = format!("{}\n  {}: {verdict}\n", decided.place, decided.kind.as_str());
    for piece in &decided.pieces {
        let digest = piece.digest.get(..12).unwrap_or_default();
        let _ = writeln!(text, "  {digest}  {}", piece.what);
    }
    text
}
