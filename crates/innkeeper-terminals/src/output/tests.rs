//! Output becomes text with escapes, or events.

use proptest::prelude::*;

use super::*;

fn events_of(pieces: &[&[u8]]) -> Vec<TerminalEvent> {
    let mut parser = OutputParser::new("n0nce");
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut events);
    }
    parser.finish(None, &mut events);
    events
}

fn joined(events: &[TerminalEvent]) -> String {
    let data = events.iter().filter_map(|event| match event {
        TerminalEvent::Data(data) => Some(data.as_str()),
        _ => None,
    });
    data.collect()
}

/// Merges neighbouring text, which depends on how output arrived.
fn merged(events: Vec<TerminalEvent>) -> Vec<TerminalEvent> {
    let mut all: Vec<TerminalEvent> = Vec::new();
    for event in events {
        match (all.last_mut(), event) {
            (Some(TerminalEvent::Data(before)), TerminalEvent::Data(data)) => before.push_str(&data),
            (_, event) => all.push(event),
        }
    }
    all
}

fn data(text: &str) -> TerminalEvent {
    TerminalEvent::Data(text.to_owned())
}

fn started(id: &str, line: &str) -> TerminalEvent {
    TerminalEvent::CommandStarted {
        id: id.to_owned(),
        line: line.to_owned(),
    }
}

fn ended(id: &str, exit_code: Option<i64>) -> TerminalEvent {
    TerminalEvent::CommandEnded {
        id: id.to_owned(),
        exit_code,
    }
}

#[test]
fn trm16_plain_text_has_no_escape_sequences() {
    let mut parser = OutputParser::of_command("make").without_sequences();
    let mut events = Vec::new();
    for piece in
        b"\x1b[1;31merror\x1b[0m: \x1b]8;;http://x\x1b\\link\x1b]8;;\x07\x1b(B\t\xc3\xbc\n\x1bPq#0\x1b\\end\n".chunks(3)
    {
        parser.push(piece, &mut events);
    }
    parser.finish(Some(0), &mut events);
    assert_eq!(joined(&events), "error: link\tü\nend\n");
}

#[test]
fn trm07_reports_of_shell_integration_are_left_out_of_the_data() {
    let output = b"\x1b]633;A;n0nce\x07$ \x1b]633;B;n0nce\x07ls\r\n\x1b]633;E;ls;n0nce\x07\x1b]633;C;n0nce\x07a  b\r\n\
                   \x1b]633;D;0;n0nce\x07\x1b]633;P;Cwd=/tmp;n0nce\x07\x1b]633;A;n0nce\x07$ ";
    let events = events_of(&[output]);
    let expected = [
        TerminalEvent::CommandsDetected,
        data("$ ls\r\n"),
        started("1", "ls"),
        data("a  b\r\n"),
        ended("1", Some(0)),
        TerminalEvent::Directory("file:///tmp".to_owned()),
        data("$ "),
    ];
    assert_eq!(merged(events), expected);
}

#[test]
fn trm08_output_between_the_start_and_the_end_of_a_command_is_its_own() {
    let events = events_of(&[b"\x1b]133;A\x1b\\$ \x1b]133;C\x1b\\out\x1b]133;D;3\x1b\\\x1b]133;A\x1b\\$ "]);
    let expected = [
        TerminalEvent::CommandsDetected,
        data("$ "),
        started("1", ""),
        data("out"),
        ended("1", Some(3)),
        data("$ "),
    ];
    assert_eq!(merged(events), expected);
}

#[test]
fn reports_of_programs_are_ignored_once_the_shell_has_shown_its_nonce() {
    let events = events_of(&[
        b"\x1b]633;A;n0nce\x07\x1b]633;C;n0nce\x07",
        b"\x1b]633;D;0\x07\x1b]633;E;rm -rf /;wrong\x07\x1b]133;C\x07forged",
        b"\x1b]633;D;7;n0nce\x07",
    ]);
    let expected = [
        TerminalEvent::CommandsDetected,
        started("1", ""),
        data("forged"),
        ended("1", Some(7)),
    ];
    assert_eq!(merged(events), expected);
}

#[test]
fn an_unreported_end_comes_with_the_next_prompt_or_the_shell() {
    let events = events_of(&[b"\x1b]133;C\x07a\x1b]133;A\x07b\x1b]133;C\x07c"]);
    let expected = [
        TerminalEvent::CommandsDetected,
        started("1", ""),
        data("a"),
        ended("1", None),
        data("b"),
        started("2", ""),
        data("c"),
        ended("2", None),
    ];
    assert_eq!(merged(events), expected);
}

#[test]
fn other_sequences_stay_as_they_are() {
    for kept in [
        "\x1b[31mred\x1b[0m",
        "\x1b]8;;http://x\x07link\x1b]8;;\x1b\\",
        "\x1bP1$r0m\x1b\\",
        "\x1b(0qqq\x1b(B",
        "\x1b[?1049h\x1b[2J\x1b[?1049l",
        "\x1b_Gf=24;AAAA\x1b\\",
        "\x1b[38:2::1:2:3mx",
        "a\rb\tc\x08\x07",
    ] {
        assert_eq!(joined(&events_of(&[kept.as_bytes()])), kept, "{kept:?}");
    }
}

#[test]
fn titles_and_directories_are_reported_once() {
    let events = events_of(&[
        b"\x1b]0;one\x07\x1b]2;one\x1b\\",
        b"\x1b]7;file://box/a\x07\x1b]7;file:///a\x07\x1b]2;two\x07",
    ]);
    let expected = [
        TerminalEvent::Title("one".to_owned()),
        data("\x1b]0;one\x07\x1b]2;one\x1b\\"),
        TerminalEvent::Directory("file:///a".to_owned()),
        TerminalEvent::Title("two".to_owned()),
        data("\x1b]2;two\x07"),
    ];
    assert_eq!(merged(events), expected);
}

#[test]
fn a_piece_of_data_ends_neither_in_a_sequence_nor_in_a_character() {
    let mut parser = OutputParser::new("");
    let mut events = Vec::new();
    parser.push("a\u{fc}".as_bytes().split_last().expect("bytes").1, &mut events);
    assert_eq!(std::mem::take(&mut events), [data("a")]);
    parser.push(&[0xbc, 0x1b], &mut events);
    assert_eq!(std::mem::take(&mut events), [data("ü")]);
    parser.push(b"[3", &mut events);
    assert_eq!(std::mem::take(&mut events), []);
    parser.push(b"1mb", &mut events);
    assert_eq!(events, [data("\x1b[31mb")]);
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_eight_bit_controls_removed() {
    assert_eq!(
        joined(&events_of(&[b"a\xff\xfeb\xe2\x82"])),
        "a\u{fffd}\u{fffd}b\u{fffd}"
    );
    assert_eq!(joined(&events_of(&["a\u{9b}31mb\u{a0}c".as_bytes()])), "a31mb\u{a0}c");
}

#[test]
fn an_endless_sequence_costs_bounded_memory_and_is_dropped() {
    let mut parser = OutputParser::new("");
    let mut events = Vec::new();
    parser.push(b"a\x1b]52;c;", &mut events);
    for _ in 0..64 {
        parser.push(&[b'A'; 64 << 10], &mut events);
        assert!(parser.sequence.capacity() <= 4 * MAX_SEQUENCE);
    }
    parser.push(b"\x1b\\b\x1b[1mc", &mut events);
    assert_eq!(joined(&events), "ab\x1b[1mc");
    // The same for a string that is no operating system command.
    parser.push(b"\x1bPq", &mut events);
    for _ in 0..64 {
        parser.push(&[b'A'; 64 << 10], &mut events);
    }
    parser.push(b"\x1b\\d", &mut events);
    assert_eq!(joined(&events), "ab\x1b[1mc\x1b\\d");
}

#[test]
fn a_malformed_sequence_does_not_swallow_the_next() {
    let events = events_of(&[b"\x1b[?1?2zx\x1b]633;A\x07y\x1b]0;t\x18z"]);
    assert!(events.contains(&TerminalEvent::CommandsDetected), "{events:?}");
    assert!(
        joined(&events).contains('y') && joined(&events).ends_with('z'),
        "{events:?}"
    );
}

/// Pieces from which escape sequences are likely.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\x1b".to_vec()),
        Just(b"\x1b[".to_vec()),
        Just(b"\x1b]633;C\x07".to_vec()),
        Just(b"\x1b]633;D;1".to_vec()),
        Just(b"\x1b]0;title".to_vec()),
        Just(b"\x1b\\".to_vec()),
        Just(b"\x07".to_vec()),
        Just(b"\x18".to_vec()),
        Just(b"\x1bP1$q".to_vec()),
        Just(b"1;2m".to_vec()),
        Just("ü✓".as_bytes().to_vec()),
        Just(b"\xff\xc3".to_vec()),
        Just(b"text\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_output_arrives(
        output in fragments(),
        cuts in proptest::collection::vec(0_usize..200, 0..8),
    ) {
        let whole = events_of(&[&output]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(output.len())).collect();
        cuts.sort_unstable();
        cuts.push(output.len());
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&output[from..cut]);
            from = cut;
        }
        prop_assert_eq!(merged(events_of(&pieces)), merged(whole));
    }

    #[test]
    fn commands_begin_before_they_end(output in fragments()) {
        let mut running = None;
        for event in events_of(&[&output]) {
            match event {
                TerminalEvent::CommandStarted { id, .. } => prop_assert!(running.replace(id).is_none()),
                TerminalEvent::CommandEnded { id, .. } => prop_assert_eq!(running.take(), Some(id)),
                _ => {}
            }
        }
        prop_assert!(running.is_none());
    }
}
