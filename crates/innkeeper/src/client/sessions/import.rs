//! `innkeeper sessions import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use ahp_types::common::ROOT_RESOURCE_URI;
use serde::Deserialize;
use serde_json::json;

use crate::cli::ImportArgs;
use crate::client::connect::Connection;
use crate::failure::{Failure, Kind};
use crate::text::{Output, note, one_line};

use super::contents::{self, Keeper};
use super::kept::{self, Place};
use super::rename;
use super::source::{OneSession, Source};

/// Takes in the sessions of a file, each as a whole or not at all.
pub(super) async fn run(args: ImportArgs) -> Result<(), Failure> {
    let place = Place::find(&args.connect.common)?;
    let mut lines = open(&args.file)?;
    let renamed = match &args.rename {
        Some(uri) => Some(rename::rename(&mut lines, uri)?),
        None => None,
    };
    let mut source = Source::new(match renamed {
        Some(text) => Box::new(io::Cursor::new(text)),
        None => lines,
    });
    let is_at_end = |source: &mut Source| source.is_at_end().map_err(|error| unreadable(&error));
    if is_at_end(&mut source)? {
        return Err(Failure::new(Kind::Rejected, "there is no session in this file"));
    }
    if args.connect.url.is_some() || place.has_host() {
        let connection = Connection::open(&args.connect).await?;
        let keeper = Keeper::Host(&connection);
        while !is_at_end(&mut source)? {
            let announced = contents::are_announced(&mut source)?;
            let taken = hand_over(&connection, &mut OneSession::of(&mut source)).await?;
            let kept = contents::import(&mut source, announced, &taken.session, &keeper).await;
            tell(&taken.session, taken.chats, taken.turns, kept.as_ref().ok())?;
            tell_reset(&taken.approvals_reset);
            kept?;
        }
        connection.close().await;
        return Ok(());
    }
    let (_lock, mut archive) = place.create()?;
    let keeper = Keeper::here(&place);
    while !is_at_end(&mut source)? {
        let announced = contents::are_announced(&mut source)?;
        let mut session = BufReader::new(OneSession::of(&mut source));
        let imported = archive
            .import(&mut session)
            .map_err(kept::failure)
            .map_err(with_a_way_out)?;
        let kept = contents::import(&mut source, announced, &imported.uri, &keeper).await;
        tell(&imported.uri, imported.chats, imported.turns, kept.as_ref().ok())?;
        tell_reset(&imported.approvals);
        kept?;
    }
    Ok(())
}

/// Has a running host take a session in.
async fn hand_over(connection: &Connection, session: &mut OneSession<'_>) -> Result<TakenIn, Failure> {
    let mut text = String::new();
    session
        .take(MOST_AT_ONCE + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(&error))?;
    let lines: Vec<&str> = text.lines().collect();
    let params = json!({ "channel": ROOT_RESOURCE_URI, "lines": lines });
    if text.len() as u64 > MOST_AT_ONCE || params.to_string().len() as u64 > MOST_AT_ONCE {
        return Err(Failure::new(
            Kind::Rejected,
            format!(
                "a session is larger than {} MiB, too large for a host that runs",
                MOST_AT_ONCE >> 20
            ),
        )
        .hint("stop the host, import, and start it again"));
    }
    let taken = connection.request("innkeeper/importSession", params).await;
    taken.map_err(with_a_way_out)
}

/// What a host answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TakenIn {
    session: String,
    chats: usize,
    turns: usize,
    #[serde(default)]
    approvals_reset: Vec<String>,
}

/// Hosts read no message beyond 16 MiB, and some of it is wrapping.
pub(super) const MOST_AT_ONCE: u64 = 15 << 20;

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

fn tell(uri: &str, chats: usize, turns: usize, kept: Option<&usize>) -> Result<(), Failure> {
    let kept = match kept {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} kept results"),
    };
    Output::stdout().show(&format!("imported {uri} ({chats} chats, {turns} turns{kept})\n"))
}

/// Says what was allowed where a session comes from: here, people are asked.
fn tell_reset(approvals: &[String]) {
    if approvals.is_empty() {
        return;
    }
    note("Its approvals were reset, so these are asked about again:");
    for approval in approvals {
        note(&format!("  {}", one_line(approval, 300)));
    }
}

/// Says how to get around what is there already.
fn with_a_way_out(failure: Failure) -> Failure {
    match failure.message().contains("is there already") {
        true => failure.hint("--as URI imports it under another name"),
        false => failure,
    }
}

pub(super) fn unreadable(error: &io::Error) -> Failure {
    Failure::new(Kind::Unexpected, format!("the input cannot be read ({error})"))
}
