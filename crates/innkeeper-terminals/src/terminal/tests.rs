//! The task of a terminal with real programs.

use std::path::PathBuf;

use super::*;
use crate::process::{CommandLine, start, start_with_pipe};

/// Collects events, and takes its time for each report.
struct Events {
    events: mpsc::UnboundedSender<TerminalEvent>,
    pace: Duration,
}

impl Report for Events {
    async fn report(&mut self, events: Vec<TerminalEvent>) -> bool {
        tokio::time::sleep(self.pace).await;
        events.into_iter().all(|event| self.events.send(event).is_ok())
    }
}

type Received = mpsc::UnboundedReceiver<TerminalEvent>;

fn line(script: &str) -> CommandLine {
    CommandLine {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: PathBuf::from("/"),
    }
}

fn open_with(started: Started, parser: OutputParser, history: History, pace: Duration) -> (Handle, Received) {
    let (events, received) = mpsc::unbounded_channel();
    (spawn(started, parser, history, Events { events, pace }), received)
}

fn open_slowly_read(script: &str, pace: Duration) -> (Handle, Received) {
    let size = TerminalSize::default();
    let started = start(line(script), size).expect("a pseudo-terminal");
    open_with(started, OutputParser::new(""), History::new(size), pace)
}

fn open(script: &str) -> (Handle, Received) {
    open_slowly_read(script, Duration::ZERO)
}

async fn until_shown(events: &mut Received, expected: &str) {
    let mut shown = String::new();
    while !shown.contains(expected) {
        match events.recv().await.expect("the program runs") {
            TerminalEvent::Data(data) => shown.push_str(&data),
            other => assert!(!matches!(other, TerminalEvent::Exited { .. }), "{shown}"),
        }
    }
}

/// Returns all output and the exit code.
async fn to_the_end(mut events: Received) -> (String, Option<i64>) {
    let mut output = String::new();
    let mut end = None;
    while let Some(event) = events.recv().await {
        assert_eq!(end, None, "the end is the last event");
        match event {
            TerminalEvent::Data(data) => output.push_str(&data),
            TerminalEvent::Exited { exit_code } => end = Some(exit_code),
            _ => {}
        }
    }
    (output, end.expect("the end is reported"))
}

#[tokio::test]
async fn input_for_a_program_that_does_not_read_is_bounded() {
    let (terminal, mut events) = open("stty raw -echo; echo ready; read go < /dev/null; sleep 1000");
    until_shown(&mut events, "ready").await;
    let piece = "x".repeat(1 << 20);
    let accepted = (0..64).filter(|_| terminal.input(piece.clone())).count();
    assert!((1..=5).contains(&accepted), "{accepted} megabytes wait");
    terminal.kill();
    to_the_end(events).await;
}

#[tokio::test]
async fn trm11_the_last_output_comes_before_the_end() {
    let (_terminal, events) = open("seq 1 5000; printf last; exit 6");
    let (output, end) = to_the_end(events).await;
    assert_eq!(end, Some(6));
    assert!(output.ends_with("5000\r\nlast"), "{}", output.len());
}

/// Runs a program that ends while so much output waits for the report under way that no more is read.
async fn check_output_of(count: usize, is_pty: bool) {
    let slow = Duration::from_millis(700);
    let script = format!("seq 1 {count}; printf last; exit 6");
    let (_terminal, events) = match is_pty {
        true => open_slowly_read(&script, slow),
        false => {
            let started = start_with_pipe(line(&script)).expect("a pipe");
            let parser = OutputParser::new("").without_sequences();
            open_with(started, parser, History::of_plain_text(), slow)
        }
    };
    let (output, end) = to_the_end(events).await;
    assert_eq!(end, Some(6));
    let expected = (1..=count).map(|number| number.to_string());
    assert!(output.lines().take(count).eq(expected), "{count} lines, {is_pty}");
    assert!(output.ends_with("last"), "{count} lines, {is_pty}");
}

#[tokio::test]
async fn trm11_the_last_output_is_not_lost_to_a_slow_reader() {
    // Each run waits for its reports, not for the processor.
    let mut running = tokio::task::JoinSet::new();
    for count in (42_000..60_000).step_by(3000) {
        running.spawn(check_output_of(count, true));
        running.spawn(check_output_of(count, false));
    }
    running.join_all().await;
}

#[tokio::test]
async fn a_process_that_is_left_does_not_delay_the_end() {
    for rest in ["yes", "while :; do echo more; sleep 0.05; done"] {
        let (_terminal, events) = open(&format!("trap '' HUP; ({rest}) & sleep 0.2; exit 3"));
        let end = timeout(Duration::from_secs(20), to_the_end(events)).await;
        let (output, end) = end.expect("the end is reported");
        assert_eq!(end, Some(3), "{rest}");
        assert!(output.contains('\n'), "{rest}");
    }
}

#[tokio::test]
async fn trm12_a_size_does_not_wait_behind_unread_input() {
    let script = "trap 'stty size' WINCH; stty raw -echo; echo ready; while :; do sleep 0.1; done";
    let (terminal, mut events) = open(script);
    until_shown(&mut events, "ready").await;
    assert!(terminal.input("x".repeat(3 << 20)));
    terminal.resize(TerminalSize { cols: 91, rows: 17 });
    let shown = timeout(Duration::from_secs(20), until_shown(&mut events, "17 91"));
    shown.await.expect("the new size");
}

#[tokio::test]
async fn an_interrupt_does_not_wait_behind_unread_input() {
    let script = "trap 'echo interrupted' INT; stty -echo; echo ready; sleep 1000; read line; echo \"read: $line\"";
    let (terminal, mut events) = open(script);
    until_shown(&mut events, "ready").await;
    let paste = "pasted\n".repeat(150_000);
    while terminal.input(paste.clone()) {}
    assert!(terminal.input("\x03".to_owned()), "a key has room beside the paste");
    let shown = timeout(Duration::from_secs(20), until_shown(&mut events, "interrupted"));
    shown.await.expect("the signal");
    // As on every terminal, an interrupt discards what the program has not read.
    assert!(terminal.input("typed\n".to_owned()));
    let shown = timeout(Duration::from_secs(20), until_shown(&mut events, "read: typed"));
    shown.await.expect("the line after the interrupt");
}

#[tokio::test]
async fn a_program_that_takes_ctrl_c_as_text_gets_it_in_order() {
    let script = "stty raw -echo; echo ready; sleep 0.5; head -c 200003 | tail -c 3 | od -An -c; sleep 1000";
    let (terminal, mut events) = open(script);
    until_shown(&mut events, "ready").await;
    for text in ["x".repeat(200_000), "a".to_owned(), "\x03".to_owned(), "b".to_owned()] {
        assert!(terminal.input(text));
    }
    let shown = timeout(Duration::from_secs(20), until_shown(&mut events, "a 003   b"));
    shown.await.expect("all that was typed");
}
