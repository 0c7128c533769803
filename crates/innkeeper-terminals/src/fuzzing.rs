//! The body of the fuzz target `terminal_output`. The tests replay its corpus.

use innkeeper_host::terminals::{TerminalEvent, TerminalSize};

use crate::{OutputParser, compact};

/// Parses any bytes as output, whole and in small pieces, and compacts the text.
///
/// # Panics
///
/// If the pieces give other events than the whole.
pub fn output(bytes: &[u8]) {
    let (length, bytes) = bytes
        .split_first()
        .map_or((1, bytes), |(first, rest)| (usize::from(*first).max(1), rest));
    let whole = events(std::iter::once(bytes));
    assert_eq!(
        events(bytes.chunks(length)),
        whole,
        "output in pieces of {length} bytes"
    );
    let size = TerminalSize { cols: 12, rows: 4 };
    let mut screen = String::new();
    for event in whole {
        if let TerminalEvent::Data(data) = event {
            screen.push_str(&data);
        }
    }
    let mut plain = Vec::new();
    let mut parser = OutputParser::of_command("").without_sequences();
    parser.push(bytes, &mut plain);
    parser.finish(None, &mut plain);
    for event in plain {
        if let TerminalEvent::Data(data) = event {
            assert!(!data.contains('\x1b'), "plain text with an escape character: {data:?}");
        }
    }
    let once = compact(&screen, size);
    compact(&once, size);
}

/// Returns the events of some output, with neighbouring text merged.
fn events<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<TerminalEvent> {
    let mut parser = OutputParser::new("nonce");
    let mut all = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut all);
    }
    parser.finish(None, &mut all);
    let mut merged: Vec<TerminalEvent> = Vec::new();
    for event in all {
        match (merged.last_mut(), event) {
            (Some(TerminalEvent::Data(before)), TerminalEvent::Data(data)) => before.push_str(&data),
            (_, event) => merged.push(event),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn terminal_output_survives_its_corpus() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/terminal_output");
        let inputs: Vec<_> = std::fs::read_dir(corpus).expect("a corpus").flatten().collect();
        assert!(inputs.len() >= 10, "the corpus is committed");
        for input in inputs {
            super::output(&std::fs::read(input.path()).expect("an input"));
        }
    }
}
