//! The screen from a compacted text equals the screen from all output.
//!
//! Two judges decide: `vt100`, with which the text is made, and `avt`, which shares no code with it and follows xterm.
//! Where only the first judges, the second draws the output itself differently, or does not know the sequence.

use proptest::prelude::*;

use super::*;

const SIZE: TerminalSize = TerminalSize { cols: 20, rows: 6 };

fn emulator(text: &str, size: TerminalSize) -> Parser {
    let mut emulator = Parser::new(at_least_one(size.rows), at_least_one(size.cols), SCROLLBACK);
    Scan::of(text).write(&mut emulator, text, Modes::default());
    emulator
}

/// Everything that a user can see of a screen, and the state that decides about later output.
fn picture(emulator: &mut Parser) -> Vec<String> {
    let screen = emulator.screen_mut();
    let mut picture = vec![format!(
        "cursor {:?} hidden {} alternate {} paste {} keypad {} attributes {:?}",
        screen.cursor_position(),
        screen.hide_cursor(),
        screen.alternate_screen(),
        screen.bracketed_paste(),
        screen.application_cursor(),
        screen.attributes_formatted(),
    )];
    for offset in (0..=screen.scrollback_len()).rev() {
        screen.set_scrollback(offset);
        let rows = if offset == 0 { screen.size().0.get() } else { 1 };
        for row in 0..rows {
            let mut line = String::new();
            write_row(&mut line, screen, row);
            // A space looks like an empty cell.
            let mut line = line.as_str();
            while let Some(shorter) = line.strip_suffix(' ').or_else(|| line.strip_suffix("\x1b[0m")) {
                line = shorter;
            }
            picture.push(line.to_owned());
        }
    }
    screen.set_scrollback(0);
    picture
}

/// Compares the screen after all output with the one after its compacted form, now and after further output.
fn check(output: &str, after: &str, size: TerminalSize) {
    let compacted = compact(output, size);
    let mut all = emulator(output, size);
    let mut short = emulator(&compacted, size);
    assert_eq!(
        picture(&mut short),
        picture(&mut all),
        "{output:?} became {compacted:?}"
    );
    let mut all = emulator(&format!("{output}{after}"), size);
    let mut short = emulator(&format!("{compacted}{after}"), size);
    assert_eq!(
        picture(&mut short),
        picture(&mut all),
        "{output:?} became {compacted:?}, then {after:?}"
    );
}

/// The screen as `avt` draws it: characters, attributes, the cursor, and the text above the screen.
fn judged(texts: &[&str], size: TerminalSize) -> Vec<String> {
    let mut terminal =
        avt::Terminal::with_scrollback(size.cols.into(), size.rows.into(), Some(SCROLLBACK)).expect("a size");
    for text in texts {
        terminal.feed(*text);
    }
    let cursor = terminal.cursor();
    let alternate = terminal.active_screen_kind();
    let mut picture = vec![format!(
        "{cursor:?} {alternate:?} keys {}",
        terminal.cursor_key_app_mode()
    )];
    let rows = terminal.screen().all_lines().map(|line| {
        let mut row = String::new();
        let mut before = String::new();
        for cell in line.cells() {
            let pen = cell.pen();
            // A space shows only these attributes.
            let ground = format!("{:?} {} {}", pen.background(), pen.is_inverse(), pen.is_underline());
            let style = match cell.char() {
                ' ' => ground,
                _ => format!("{pen:?}"),
            };
            if style != before {
                row.push_str(&format!("<{style}>"));
                before = style;
            }
            row.push(cell.char());
        }
        row
    });
    picture.extend(rows);
    picture
}

/// Lets the second judge compare the screens, now and after further output.
fn judge(output: &str, after: &str, size: TerminalSize) {
    let compacted = compact(output, size);
    for after in ["", after] {
        assert_eq!(
            judged(&[&compacted, after], size),
            judged(&[output, after], size),
            "{output:?} became {compacted:?}, then {after:?}"
        );
    }
}

#[test]
fn text_colours_and_scrollback_are_drawn_again() {
    check("", "x", SIZE);
    check("hello\r\nworld", "!", SIZE);
    check(
        "\x1b[1;31mred\x1b[0m plain \x1b[48;5;9mback\x1b[38;2;1;2;3mtrue",
        "more",
        SIZE,
    );
    let lines: String = (0..50).map(|n| format!("\x1b[3{}mline {n}\r\n", n % 8)).collect();
    check(&lines, "next\r\n", SIZE);
    check("exactly twenty chars", "wraps", SIZE);
    check(
        "a line that is longer than one row\r\nand another one that wraps, too",
        "x",
        SIZE,
    );
    check("日本語テキスト日本語テキスト", "x", SIZE);
    check("e\u{301}\u{302} combining", "x", SIZE);
}

#[test]
fn the_cursor_and_modes_are_restored() {
    check("top\x1b[4;3Hthere\x1b[2;1H", "x", SIZE);
    check("\x1b[?25l\x1b[?2004h\x1b[?1h\x1b=\x1b[?1002h\x1b[?1006h", "x", SIZE);
    check("a\r\nb\r\nc\x1b[2;4r\x1b[3;1H", "1\n2\n3\n", SIZE);
    check("12345678901234567890\x1b[H\x1b[5 q", "x", SIZE);
}

#[test]
fn the_screen_survives_a_program_on_the_alternate_screen() {
    let before = "$ vim\r\n\x1b[32mcolour\x1b[0m\r\n";
    let vim = "\x1b[?1049h\x1b[2J\x1b[1;1H~\r\n~\r\n\x1b[7mstatus\x1b[0m\x1b[2;2H";
    check(&format!("{before}{vim}"), "typed\x1b[?1049l$ ", SIZE);
    check(&format!("{before}{vim}\x1b[?1049l"), "$ ls\r\n", SIZE);
    let many: String = (0..40).map(|n| format!("line {n}\r\n")).collect();
    check(&format!("{many}{vim}"), "\x1b[?1049l after", SIZE);
    check(&format!("{many}{vim}\x1b[?1049l"), " after", SIZE);
}

#[test]
fn a_cleared_screen_keeps_its_place_below_the_scrollback() {
    let many: String = (0..40).map(|n| format!("line {n}\r\n")).collect();
    check(&format!("{many}\x1b[2J\x1b[H$ "), "ls\r\nout\r\n$ ", SIZE);
}

#[test]
fn line_drawing_and_other_old_sequences_are_understood() {
    let compacted = compact("\x1b(0lqk\x1b(B x\x1bEnext\x1bDdown", SIZE);
    assert!(compacted.starts_with("┌─┐ x\r\nnext"), "{compacted:?}");
    let compacted = compact("\x1b(0", SIZE);
    assert!(compacted.contains("\x1b(0"), "{compacted:?}");
    let compacted = compact("\x1b[?7l\x1b[4h", SIZE);
    assert!(compacted.contains("\x1b[?7l\x1b[4h"), "{compacted:?}");
}

#[test]
fn lines_that_are_out_of_sight_are_left_out() {
    let many: String = (0..5000).map(|n| format!("\x1b[3{}mline {n}\r\n", n % 8)).collect();
    check(&many, "next", SIZE);
    check(&format!("{many}\x1b[5A\x1b[Jup"), "next", SIZE);
    judge(&format!("\x1b[2;4r{many}"), "next", SIZE);
    check(&format!("\x1b[?1049h{many}"), "\x1b[?1049l", SIZE);
    let compacted = compact(&many, SIZE);
    assert!(compacted.lines().count() <= SCROLLBACK + usize::from(SIZE.rows));
}

#[test]
fn rows_with_many_colours_are_bounded() {
    let size = TerminalSize { cols: 500, rows: 50 };
    let row: String = (0..500).map(|n| format!("\x1b[38;2;{};2;3m.", n % 256)).collect();
    let compacted = compact(&format!("{row}\r\n").repeat(1200), size);
    assert!(compacted.len() < MAX_BYTES + (100 << 10), "{}", compacted.len());
}

#[test]
fn a_compacted_text_stays_as_it_is() {
    let many: String = (0..100).map(|n| format!("\x1b[1mline\x1b[0m {n}\r\n")).collect();
    let once = compact(&many, SIZE);
    assert_eq!(compact(&once, SIZE), once);
}

/// Sequences as the test program of terminals, `vttest`, sends them, part by part.
#[test]
fn the_screens_of_vttest_are_drawn_again() {
    let size = TerminalSize { cols: 20, rows: 8 };
    let letters: String = ('A'..='H')
        .map(|c| format!("{}\r\n", c.to_string().repeat(20)))
        .collect();
    let numbered: String = (1..=30).map(|n| format!("line {n}\r\n")).collect();
    let parts = [
        // Movements of the cursor: a frame around a screen of E.
        "\x1b#8\x1b[2;2H\x1b[1J\x1b[7;20H\x1b[0J\x1b[1;1H****\x1b[8;17H****\x1b[4;10H\x1b[5D\x1b[2C+\x1bD+\x1bM+\x1bE+"
            .to_owned(),
        // Wraparound on and off, and the last column.
        "\x1b[?7h12345678901234567890wrapped\x1b[5;1H\x1b[?7l12345678901234567890lost".to_owned(),
        "\x1b[3;20Hx\x08y\x1b[4;20Hz\r\nback".to_owned(),
        // Controls inside sequences, and leading zeros.
        "A\x1b[2\x08CB\x1b[\r2CC \x1b[1\x0bAD\x1b[00000000004;000000001Hzero".to_owned(),
        // Scroll regions, with origin mode and without it.
        format!("{numbered}\x1b[3;6r\x1b[6;1H{numbered}\x1b[1;1Htop"),
        format!("{letters}\x1b[3;6r\x1b[?6h\x1b[1;1Hfirst\x1b[4;1Hlast\n\n\x1b[2;3H"),
        "\x1b[2;5r\x1b[?6h\x1b[1;1H\x1bMup\x1b[?6l\x1b[r\x1b[8;1Hend".to_owned(),
        // Character sets.
        "\x1b(0lqqk\x1b(B\r\n\x1b)0\x0ex x\x0f x\r\n".to_owned(),
        // Attributes.
        "\x1b[0;1;4mbold\x1b[22mthin\x1b[7mturned\x1b[27;3mslanted\x1b[0mplain\x1b[38;5;200;48;2;1;2;3mx".to_owned(),
        // Saved cursors, of three kinds.
        "\x1b[3;5H\x1b[1m\x1b7\x1b[H\x1b[0mhome\x1b8there".to_owned(),
        "\x1b[4;4H\x1b[s\x1b[Hhome\x1b[uthere\x1b[6;6H\x1b[?1048h\x1b[H\x1b[?1048lagain".to_owned(),
        // Insertion and deletion of lines and characters.
        format!("{letters}\x1b[2;1H\x1b[2L\x1b[5;1H\x1b[M\x1b[6;3H\x1b[3@\x1b[7;3H\x1b[4P\x1b[3;3H\x1b[5X"),
        "abcdef\x1b[1;3H\x1b[4hXYZ\x1b[4l!".to_owned(),
        // Erasing in lines and on the screen, with a background.
        format!("{letters}\x1b[44m\x1b[2;5H\x1b[K\x1b[3;5H\x1b[1K\x1b[4;5H\x1b[2K\x1b[7;3H\x1b[J"),
        // Relative movements and repetition.
        "a\x1b[3ab\x1b[2ec\x1b[4bd".to_owned(),
        // A reset.
        "\x1b[?6h\x1b[3;5r\x1b[1mx\x1bcfresh".to_owned(),
    ];
    for part in parts {
        judge(&part, "after\r\nit", size);
    }
}

/// Output of programs: text, line ends, and the sequences that the emulator knows.
fn output() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z ]{1,30}",
        2 => Just("\r\n".to_owned()),
        1 => Just("日本".to_owned()),
        1 => Just("\t".to_owned()),
        1 => Just("\x08".to_owned()),
        1 => Just("\r".to_owned()),
        1 => Just("\n".to_owned()),
        2 => (0_u8..108).prop_map(|code| format!("\x1b[{code}m")),
        1 => (0_u16..8, 0_u16..24).prop_map(|(row, col)| format!("\x1b[{row};{col}H")),
        1 => (0_u16..4, prop::sample::select(vec!['A', 'B', 'C', 'D', 'G', 'J', 'K', 'L', 'M', 'P', 'S', 'T', 'X', '@', 'd']))
            .prop_map(|(count, last)| format!("\x1b[{count}{last}")),
        1 => Just("\x1b[?1049h".to_owned()),
        1 => Just("\x1b[?1049l".to_owned()),
        1 => Just("\x1bM".to_owned()),
        1 => Just("\x1b[?25l".to_owned()),
        1 => Just("\x1b]0;title\x07".to_owned()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Output on which both judges agree.
fn agreed() -> impl Strategy<Value = String> {
    // `vt100` has one saved cursor for both screens, other emulators have two. Whether one behind the last column is
    // restored there is not agreed either.
    let main = (
        agreed_pieces(),
        prop::option::of(Just("\x1b[5G\x1b7")),
        agreed_pieces(),
        prop::option::of(Just("\x1b8")),
    );
    let main = main.prop_map(|(one, save, two, restore)| {
        format!("{one}{}{two}{}", save.unwrap_or_default(), restore.unwrap_or_default())
    });
    // A program on the alternate screen, which may still run. Whether both screens share a scroll region is not agreed.
    let alternate = (agreed_pieces(), prop::option::of(Just("\x1b[r\x1b[?1049l")));
    (main, prop::option::of(alternate)).prop_map(|(before, alternate)| match alternate {
        None => before,
        Some((inside, end)) => format!(
            "{before}\x1b[r\x1b[2;5H\x1b[?1049h\x1b[H{inside}{}",
            end.unwrap_or_default()
        ),
    })
}

/// Text and sequences on which both judges agree. They differ about halves of wide characters.
fn agreed_pieces() -> impl Strategy<Value = String> {
    // Which attributes new rows and erased cells get is not agreed, so there are none that a space shows.
    let codes = vec![0_u8, 1, 2, 3, 22, 23, 31, 36, 39, 95];
    let piece = prop_oneof![
        4 => "[a-z ]{1,30}",
        2 => Just("\r\n".to_owned()),
        1 => Just("\t".to_owned()),
        1 => Just("\x08".to_owned()),
        1 => Just("\r".to_owned()),
        1 => Just("\x1b[3G\n".to_owned()),
        2 => prop::sample::select(codes).prop_map(|code| format!("\x1b[{code}m")),
        1 => (0_u16..8, 0_u16..24).prop_map(|(row, col)| format!("\x1b[{row};{col}H")),
        // From a column: what they do behind the last one is not agreed.
        2 => (1_u16..20, 0_u16..4, prop::sample::select(vec!['A', 'B', 'C', 'D', 'K', 'P', 'X', '@', 'd']))
            .prop_map(|(col, count, last)| format!("\x1b[{col}G\x1b[{count}{last}")),
        1 => (1_u16..20, 0_u16..2).prop_map(|(col, part)| format!("\x1b[{col}G\x1b[{part}J")),
        1 => (1_u16..4, 4_u16..7).prop_map(|(top, bottom)| format!("\x1b[{top};{bottom}r")),
        1 => Just("\x1b[r".to_owned()),
        1 => Just("\x1b[3G\x1bM".to_owned()),
        1 => Just("\x1b[?25l".to_owned()),
        1 => Just("\x1b[?1h".to_owned()),
        1 => Just("\x1b(0".to_owned()),
        1 => Just("\x1b(B".to_owned()),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn an_independent_judge_sees_the_same_screen(output in agreed(), after in "[a-z \r\n]{0,40}") {
        judge(&output, &after, SIZE);
    }

    #[test]
    fn the_screen_from_a_snapshot_equals_the_screen_from_all_output(
        output in output(),
        after in output(),
    ) {
        check(&output, &after, SIZE);
    }

    #[test]
    fn any_output_can_be_compacted(bytes in proptest::collection::vec(any::<u8>(), 0..400), cols in 1_u16..9, rows in 1_u16..5) {
        let mut parser = crate::OutputParser::new("");
        let mut events = Vec::new();
        parser.push(&bytes, &mut events);
        for event in events {
            if let innkeeper_host::terminals::TerminalEvent::Data(data) = event {
                compact(&data, TerminalSize { cols, rows });
            }
        }
    }
}
