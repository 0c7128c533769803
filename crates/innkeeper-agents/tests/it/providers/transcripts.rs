//! Recorded streams in the wire formats of real providers, with the expected events.
//!
//! Every `<name>.sse` under `tests/fixtures` has a `<name>.events` with one event per line, and the error if the
//! stream ends with one. `UPDATE_FIXTURES=1` rewrites them; review the differences.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use innkeeper_testkit::model_server::Api;

use crate::providers::support::{AnswerContent, decoder};

#[test]
fn chat_completions() {
    check(Api::Chat, "chat", 12);
}

#[test]
fn responses() {
    check(Api::Responses, "responses", 8);
}

#[test]
fn messages() {
    check(Api::Messages, "messages", 8);
}

/// Decodes all recordings of an API, of which there are at least `least`.
fn check(api: Api, folder: &str, least: usize) {
    let recordings = recordings(folder);
    assert!(
        recordings.len() >= least,
        "only {} recordings in {folder}",
        recordings.len()
    );
    for recording in recordings {
        let bytes = std::fs::read(&recording).expect("a recording");
        let at_once = read(api, &[&bytes]);
        let byte_by_byte: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(api, &byte_by_byte), at_once, "{}", recording.display());
        let with_returns = String::from_utf8(bytes)
            .expect("recordings are text")
            .replace('\n', "\r\n");
        assert_eq!(
            read(api, &[with_returns.as_bytes()]),
            at_once,
            "{}",
            recording.display()
        );

        let expected = recording.with_extension("events");
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::write(&expected, &at_once).expect("a folder to write to");
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(at_once, expected, "{}", recording.display());
    }
}

fn recordings(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(folder);
    let files = std::fs::read_dir(folder)
        .expect("the folder of recordings")
        .map(|entry| entry.expect("the folder of recordings").path());
    let mut recordings: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "sse"))
        .collect();
    recordings.sort();
    recordings
}

fn read(api: Api, pieces: &[&[u8]]) -> String {
    let mut decoder = decoder(api);
    let mut events = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        result = result.and_then(|()| decoder.push(piece, &mut events));
    }
    let result = result.and_then(|()| decoder.finish(&mut events));
    if result.is_ok() {
        // Combining the events checks their order.
        AnswerContent::of(&events);
    }
    let mut lines = String::new();
    for event in events {
        writeln!(lines, "{event:?}").expect("room in memory");
    }
    if let Err(error) = result {
        writeln!(lines, "{:?}: {error}", error.kind).expect("room in memory");
    }
    lines
}
