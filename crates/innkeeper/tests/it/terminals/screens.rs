//! Late subscribers: they get the screen and the latest lines above it.
//!
//! `avt`, an emulator that shares no code with the host's, draws both the output that a client followed from the
//! beginning and the content that a late client gets. The screens must be equal.

use std::time::{Duration, Instant};

use avt::Terminal;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::TIMEOUT;
use serde_json::json;

use super::support::{TERMINAL, bash, shows, start_with_terminal, text, type_into};

const COLS: usize = 80;
const ROWS: usize = 24;
/// Lines above the screen that are compared; the host retains more.
const SCROLLED: usize = 900;

/// A screen with the lines above it, as a user sees them.
fn drawn(output: &str) -> Vec<String> {
    let mut terminal = Terminal::with_scrollback(COLS, ROWS, Some(SCROLLED)).expect("a size");
    terminal.feed(output);
    let screen = terminal.screen();
    let mut lines: Vec<String> = screen
        .all_lines()
        .map(|line| line.text().trim_end().to_owned())
        .collect();
    let cursor = terminal.cursor();
    lines.push(format!("cursor {} {} {}", cursor.col, cursor.row, cursor.visible));
    lines
}

/// Compares the screen of a client that followed with that of one that comes now, once the program is quiet.
async fn assert_same_screen(follower: &OfficialClient, late: &OfficialClient) {
    late.subscribe(TERMINAL).await;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let followed = text(&follower.view(), TERMINAL);
        let fresh = text(&late.view(), TERMINAL);
        let (followed, fresh) = (drawn(&followed), drawn(&fresh));
        if followed == fresh {
            break;
        }
        // The last actions may still be on their way to one of them.
        let lines = followed
            .iter()
            .zip(&fresh)
            .filter(|(followed, fresh)| followed != fresh);
        assert!(Instant::now() < deadline, "{:#?}", lines.collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    late.unsubscribe(TERMINAL).await;
}

#[tokio::test]
async fn trm14_a_late_client_gets_the_screen_and_the_latest_lines() {
    let (host, client) = start_with_terminal(bash()).await;
    let late = OfficialClient::connect(host.address(), "late").await;
    // Three megabytes, so that the oldest output was replaced several times.
    let lines = "for n in 1 2 3; do seq -f \"line $n %06.0f $(printf '%040d')\" 1 20000; done; echo do''ne\r";
    type_into(&client, TERMINAL, lines).await;
    shows(&client, TERMINAL, "done\r\n").await;
    type_into(
        &client,
        TERMINAL,
        "printf '\\e[31mred\\e[0m \\e[1mbold\\e[m\\n'; echo qui''et\r",
    )
    .await;
    shows(&client, TERMINAL, "quiet\r\n").await;
    assert!(text(&client.view(), TERMINAL).len() > 3_000_000);
    assert_same_screen(&client, &late).await;
    late.subscribe(TERMINAL).await;
    let fresh = text(&late.view(), TERMINAL);
    assert!(fresh.len() < 2_500_000, "{}", fresh.len());
    assert!(fresh.contains("\x1b[31mred"), "colours are intact");
}

/// Runs a program that uses the alternate screen on top of much output, and compares screens inside and after it.
async fn survives(start: &str, inside: &str, keys: &[(&str, &str)], leave: &str) {
    let (host, client) = start_with_terminal(bash()).await;
    let late = OfficialClient::connect(host.address(), "late").await;
    let file = host.path("text.txt");
    let content: String = (1..=500).map(|n| format!("row {n} of the text\n")).collect();
    std::fs::write(&file, content).expect("written");
    type_into(&client, TERMINAL, "seq 1 300000; echo rea''dy\r").await;
    shows(&client, TERMINAL, "ready\r\n").await;
    type_into(&client, TERMINAL, &format!("{start} {}\r", file.display())).await;
    shows(&client, TERMINAL, inside).await;
    assert_same_screen(&client, &late).await;
    for (key, shown) in keys {
        type_into(&client, TERMINAL, key).await;
        shows(&client, TERMINAL, shown).await;
        assert_same_screen(&client, &late).await;
    }
    type_into(&client, TERMINAL, leave).await;
    shows(&client, TERMINAL, "\x1b[?1049l").await;
    type_into(&client, TERMINAL, "echo ba''ck\r").await;
    shows(&client, TERMINAL, "back\r\n").await;
    assert_same_screen(&client, &late).await;
    let fresh = {
        late.subscribe(TERMINAL).await;
        drawn(&text(&late.view(), TERMINAL)).join("\n")
    };
    assert!(
        fresh.contains("300000\nready\n"),
        "the lines before the program are back"
    );
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !found {
        eprintln!("{program} is not installed, so it is not tried");
    }
    found
}

#[tokio::test]
async fn the_screen_survives_less_where_it_is_installed() {
    if is_installed("less") {
        survives("less", "row 1 of", &[("G", "row 500 of"), ("100g", "row 100 of")], "q").await;
    }
}

#[tokio::test]
async fn the_screen_survives_vim_where_it_is_installed() {
    if is_installed("vim") {
        let keys = [("G", "row 500 of"), ("onew text\x1b", "new text")];
        survives("vim -u NONE -N -n", "row 1 of", &keys, ":q!\r").await;
    }
}

#[tokio::test]
async fn the_screen_survives_a_program_on_the_alternate_screen() {
    let draw = "printf '\\e[?1049h\\e[2J\\e[5;10r\\e[7;3H\\e[44minside\\e[m\\e[?25l'; read key; \
                printf '\\e[r\\e[9;1Hsec''ond'; read key; printf '\\e[?25h\\e[?1049l'; :";
    survives(draw, "inside", &[("\r", "second")], "\r").await;
}

#[tokio::test]
async fn a_reload_of_a_client_and_a_lost_connection_leave_a_terminal_alone() {
    let (host, mut client) = start_with_terminal(bash()).await;
    type_into(&client, TERMINAL, "echo one; read line; echo \"got $line\"\r").await;
    shows(&client, TERMINAL, "one\r\n").await;
    // A lost connection: the client continues where it was.
    client.cut().await;
    client.reconnect().await.expect("known");
    type_into(&client, TERMINAL, "typed\r").await;
    shows(&client, TERMINAL, "got typed\r\n").await;
    // A reload: the client has the same id and nothing else.
    client.cut().await;
    let reloaded = OfficialClient::connect(host.address(), "first").await;
    reloaded.subscribe(TERMINAL).await;
    shows(&reloaded, TERMINAL, "got typed\r\n").await;
    type_into(&reloaded, TERMINAL, "echo stil''l here\r").await;
    shows(&reloaded, TERMINAL, "still here\r\n").await;
    reloaded.assert_converged().await;
    let size = json!({ "type": "terminal/resized", "cols": 90, "rows": 20 });
    reloaded.dispatch(TERMINAL, size).await;
    reloaded.caught_up().await;
    assert!(reloaded.view().refusals.is_empty());
}
