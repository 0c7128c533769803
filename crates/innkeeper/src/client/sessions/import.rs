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
use crate::text::Output;

use super::kept::{self, Place};
use super::rename;

/// Takes in the sessions of a file, each as a whole or not at all.
pub(super) async fn run(args: ImportArgs) -> Result<(), Failure> {
    let place = Place::find(&args.connect.common)?;
    let mut lines = open(&args.file)?;
    let renamed = match &args.rename {
        Some(uri) => Some(rename::rename(&mut lines, uri)?),
        None => None,
    };
    let mut lines: Box<dyn BufRead> = match renamed {
        Some(text) => Box::new(io::Cursor::new(text)),
        None => lines,
    };
    if is_at_end(&mut lines)? {
        return Err(Failure::new(Kind::Rejected, "there is no session in this file"));
    }
    if args.connect.url.is_some() || place.has_host() {
        let connection = Connection::open(&args.connect).await?;
        while !is_at_end(&mut lines)? {
            let taken = hand_over(&connection, &mut OneSession::of(&mut lines)).await?;
            tell(&taken.session, taken.chats, taken.turns)?;
        }
        connection.close().await;
        return Ok(());
    }
    let (_lock, mut archive) = place.create()?;
    while !is_at_end(&mut lines)? {
        let mut session = BufReader::new(OneSession::of(&mut lines));
        let imported = archive
            .import(&mut session)
            .map_err(kept::failure)
            .map_err(with_a_way_out)?;
        tell(&imported.uri, imported.chats, imported.turns)?;
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
struct TakenIn {
    session: String,
    chats: usize,
    turns: usize,
}

/// Hosts read no message beyond 16 MiB, and some of it is wrapping.
const MOST_AT_ONCE: u64 = 15 << 20;

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

fn tell(uri: &str, chats: usize, turns: usize) -> Result<(), Failure> {
    Output::stdout().show(&format!("imported {uri} ({chats} chats, {turns} turns)\n"))
}

/// Says how to get around what is there already.
fn with_a_way_out(failure: Failure) -> Failure {
    match failure.message().contains("is there already") {
        true => failure.hint("--as URI imports it under another name"),
        false => failure,
    }
}

fn is_at_end(lines: &mut dyn BufRead) -> Result<bool, Failure> {
    let rest = lines.fill_buf().map_err(|error| unreadable(&error))?;
    Ok(rest.is_empty())
}

pub(super) fn unreadable(error: &io::Error) -> Failure {
    Failure::new(Kind::Unexpected, format!("the input cannot be read ({error})"))
}

/// The lines up to the end of one session: an export of several is one after the other.
struct OneSession<'a> {
    lines: &'a mut dyn BufRead,
    line: Vec<u8>,
    given: usize,
    is_over: bool,
}

impl<'a> OneSession<'a> {
    fn of(lines: &'a mut dyn BufRead) -> Self {
        Self {
            lines,
            line: Vec::new(),
            given: 0,
            is_over: false,
        }
    }
}

impl Read for OneSession<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.given == self.line.len() && !self.is_over {
            self.line.clear();
            self.given = 0;
            self.lines.read_until(b'\n', &mut self.line)?;
            self.is_over = self.line.is_empty() || self.line.starts_with(END);
        }
        let rest = self.line.get(self.given..).unwrap_or_default();
        let count = rest.len().min(room.len());
        for (to, from) in room.iter_mut().zip(rest) {
            *to = *from;
        }
        self.given += count;
        Ok(count)
    }
}

/// How the last line of a session begins.
const END: &[u8] = b"{\"end\":";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_in_one_file_are_told_apart() {
        let file = "{\"session\":1}\n{\"end\":{}}\n{\"session\":2}\n{\"end\":{}}\n";
        let mut lines: Box<dyn BufRead> = Box::new(file.as_bytes());
        let mut found = Vec::new();
        while !is_at_end(&mut lines).unwrap() {
            let mut text = String::new();
            OneSession::of(&mut lines).read_to_string(&mut text).unwrap();
            found.push(text);
        }
        assert_eq!(
            found,
            ["{\"session\":1}\n{\"end\":{}}\n", "{\"session\":2}\n{\"end\":{}}\n"]
        );
    }
}
