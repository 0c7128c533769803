//! The task of one terminal: reads output, reports events, and does what it is told.
//!
//! At most one report is under way. Output that arrives meanwhile is merged into the next one; beyond a limit nothing is
//! read, and the program waits. So a flood of output runs at the speed of its readers and costs a fixed amount of memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use innkeeper_host::terminals::{Terminal, TerminalEvent, TerminalSink, TerminalSize};
use innkeeper_std::DRAIN_TIME;
use pty_process::{OwnedWritePty, Size};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::history::History;
use crate::output::OutputParser;
use crate::process::{Output, Process, Started};

/// Bytes of output that wait for the report under way.
const MAX_WAITING: usize = 256 << 10;
/// Bytes of output in one report.
const MAX_REPORT: usize = 128 << 10;
/// Requests that wait for a program that does not read its input.
const MAX_REQUESTS: usize = 1024;
/// Bytes of input that wait for a program that does not read.
const MAX_TYPED: usize = 4 << 20;
/// The time between hanging up and killing.
const HANG_UP_TIME: Duration = Duration::from_millis(500);

/// Receives the events of a terminal.
pub(crate) trait Report: Send + 'static {
    /// Reports events in order. Returns false if they are no longer wanted.
    fn report(&mut self, events: Vec<TerminalEvent>) -> impl Future<Output = bool> + Send;
}

impl Report for TerminalSink {
    fn report(&mut self, events: Vec<TerminalEvent>) -> impl Future<Output = bool> + Send {
        Self::report(self, events)
    }
}

/// A request to the task of a terminal.
#[derive(Debug)]
enum Request {
    Input(String),
    Resize(TerminalSize),
    Clear,
    Kill,
}

/// The handle of a terminal's task. The task ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    requests: mpsc::Sender<Request>,
    typed: TypedBytes,
}

/// Counts the bytes of input that wait for the program.
#[derive(Debug, Clone, Default)]
struct TypedBytes(Arc<AtomicUsize>);

impl TypedBytes {
    /// Returns false if too much waits already.
    fn add(&self, bytes: usize) -> bool {
        let added = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            let sum = waiting.saturating_add(bytes);
            (sum <= MAX_TYPED).then_some(sum)
        });
        added.is_ok()
    }

    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Terminal for Handle {
    fn input(&self, data: String) -> bool {
        let bytes = data.len();
        if !self.typed.add(bytes) {
            return false;
        }
        let is_sent = self.requests.try_send(Request::Input(data)).is_ok();
        if !is_sent {
            self.typed.remove(bytes);
        }
        is_sent
    }

    fn resize(&self, size: TerminalSize) {
        let _ = self.requests.try_send(Request::Resize(size));
    }

    fn clear(&self) {
        let _ = self.requests.try_send(Request::Clear);
    }

    fn kill(&self) {
        let _ = self.requests.try_send(Request::Kill);
    }
}

/// Spawns the task of a terminal.
pub(crate) fn spawn(started: Started, parser: OutputParser, history: History, sink: impl Report) -> Handle {
    let (requests, received) = mpsc::channel(MAX_REQUESTS);
    let typed_bytes = TypedBytes::default();
    let task = Task {
        typed_bytes: typed_bytes.clone(),
        process: started.process,
        output: started.output,
        parser,
        history,
        waiting: PendingEvents::default(),
    };
    let (typed, input) = mpsc::channel(MAX_REQUESTS);
    if let Some(pty) = started.input {
        tokio::spawn(write_input(pty, input, typed_bytes.clone()));
    }
    tokio::spawn(task.run(received, typed, sink));
    Handle {
        requests,
        typed: typed_bytes,
    }
}

/// Something to do with the input side of a terminal.
#[derive(Debug)]
enum ToProgram {
    Data(String),
    Size(TerminalSize),
}

/// Writes input, apart from reading output: a program may wait for one of them.
async fn write_input(mut input: OwnedWritePty, mut typed: mpsc::Receiver<ToProgram>, waiting: TypedBytes) {
    while let Some(next) = typed.recv().await {
        let outcome = match next {
            ToProgram::Data(data) => {
                let written = input.write_all(data.as_bytes()).await;
                waiting.remove(data.len());
                written
            }
            ToProgram::Size(size) => input.resize(Size::new(size.rows, size.cols)).map_err(io::Error::other),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "a terminal takes no input");
        }
    }
}

struct Task {
    typed_bytes: TypedBytes,
    process: Process,
    output: Output,
    parser: OutputParser,
    history: History,
    waiting: PendingEvents,
}

/// Events that wait for the report under way.
#[derive(Debug, Default)]
struct PendingEvents {
    events: Vec<TerminalEvent>,
    bytes: usize,
}

impl PendingEvents {
    fn push(&mut self, event: TerminalEvent) {
        self.bytes += event.weight();
        match (self.events.last_mut(), event) {
            (Some(TerminalEvent::Data(before)), TerminalEvent::Data(data)) if before.len() < MAX_REPORT => {
                before.push_str(&data);
            }
            (_, event) => self.events.push(event),
        }
    }

    /// Takes the next report.
    fn take(&mut self) -> Vec<TerminalEvent> {
        let mut bytes = 0;
        let mut count = 0;
        for event in &self.events {
            bytes += event.weight();
            if bytes > MAX_REPORT && count > 0 {
                break;
            }
            count += 1;
        }
        let rest = self.events.split_off(count);
        let report = std::mem::replace(&mut self.events, rest);
        self.bytes -= report.iter().map(TerminalEvent::weight).sum::<usize>();
        report
    }
}

/// The end of a program, as far as it is known.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The program runs.
    Running,
    /// It is told to end, and killed at this moment.
    HungUp(Instant),
    /// Its leader has ended; output is awaited until this moment.
    Ended(Option<i64>, Instant),
}

type Reporting<R> = Pin<Box<dyn Future<Output = (R, bool)> + Send>>;

impl Task {
    async fn run<R: Report>(mut self, mut requests: mpsc::Receiver<Request>, typed: mpsc::Sender<ToProgram>, sink: R) {
        let mut events = Vec::new();
        self.parser.begin(&mut events);
        self.take_events(events);
        let mut buffer = vec![0; 16 << 10];
        let mut end = End::Running;
        let mut is_open = true;
        let mut idle = Some(sink);
        let mut reporting: Option<Reporting<R>> = None;
        loop {
            if !self.waiting.events.is_empty()
                && let Some(mut sink) = idle.take()
            {
                let events = self.waiting.take();
                reporting = Some(Box::pin(async move {
                    let is_wanted = sink.report(events).await;
                    (sink, is_wanted)
                }));
            }
            if let End::Ended(exit_code, _) = end
                && !is_open
            {
                return self.finish(exit_code, idle, reporting).await;
            }
            let (deadline, has_deadline) = match end {
                End::Running => (Instant::now(), false),
                End::HungUp(at) | End::Ended(_, at) => (at, true),
            };
            tokio::select! {
                read = self.output.read(&mut buffer), if is_open && self.waiting.bytes < MAX_WAITING => match read {
                    Ok(0) | Err(_) => is_open = false,
                    Ok(length) => self.take_output(buffer.get(..length).unwrap_or_default()).await,
                },
                (sink, is_wanted) = next_report(&mut reporting), if reporting.is_some() => {
                    reporting = None;
                    if !is_wanted {
                        return;
                    }
                    idle = Some(sink);
                }
                request = requests.recv() => match request {
                    Some(Request::Kill) => {
                        if let End::Running = end {
                            self.process.hang_up();
                            end = End::HungUp(Instant::now() + HANG_UP_TIME);
                        }
                    }
                    Some(request) => self.perform(request, &typed),
                    // The terminal is disposed of.
                    None => {
                        self.process.hang_up();
                        let _ = tokio::time::timeout(HANG_UP_TIME, self.process.wait()).await;
                        return;
                    }
                },
                exit_code = self.process.wait(), if !matches!(end, End::Ended(..)) => {
                    // Jobs in the background lose their terminal with the shell.
                    self.process.hang_up();
                    end = End::Ended(exit_code, Instant::now() + DRAIN_TIME);
                }
                () = tokio::time::sleep_until(deadline), if has_deadline => match end {
                    End::HungUp(_) => {
                        self.process.kill();
                        end = End::HungUp(Instant::now() + HANG_UP_TIME);
                    }
                    // Processes that are left hold the terminal open.
                    End::Ended(..) => is_open = false,
                    End::Running => {}
                },
            }
        }
    }

    async fn take_output(&mut self, bytes: &[u8]) {
        let mut events = Vec::new();
        self.parser.push(bytes, &mut events);
        self.take_events(events);
        if self.history.is_full() {
            // It takes milliseconds, in which other tasks must not wait.
            let mut history = std::mem::take(&mut self.history);
            let compaction = tokio::task::spawn_blocking(move || {
                let compacted = history.compact();
                (history, compacted)
            });
            if let Ok((history, compacted)) = compaction.await {
                self.history = history;
                self.waiting.push(compacted);
            }
        }
    }

    fn take_events(&mut self, events: Vec<TerminalEvent>) {
        for event in events {
            self.history.add(&event);
            self.waiting.push(event);
        }
    }

    fn perform(&mut self, request: Request, typed: &mpsc::Sender<ToProgram>) {
        let to_program = match request {
            Request::Input(data) => ToProgram::Data(data),
            Request::Resize(size) => {
                self.history.resize(size);
                ToProgram::Size(size)
            }
            Request::Clear => return self.history.clear(),
            Request::Kill => return,
        };
        if let Err(unsent) = typed.try_send(to_program) {
            if let ToProgram::Data(data) = unsent.into_inner() {
                self.typed_bytes.remove(data.len());
            }
            tracing::debug!("a program does not read its input; some of it is dropped");
        }
    }

    /// Reports the rest, and the end last (TRM-11).
    async fn finish<R: Report>(mut self, exit_code: Option<i64>, idle: Option<R>, reporting: Option<Reporting<R>>) {
        self.process.kill();
        let mut events = Vec::new();
        self.parser.finish(exit_code, &mut events);
        self.take_events(events);
        self.waiting.push(TerminalEvent::Exited { exit_code });
        let sink = match (idle, reporting) {
            (Some(sink), _) => Some(sink),
            (None, Some(reporting)) => {
                let (sink, is_wanted) = reporting.await;
                is_wanted.then_some(sink)
            }
            (None, None) => None,
        };
        let Some(mut sink) = sink else { return };
        while !self.waiting.events.is_empty() {
            let events = self.waiting.take();
            if !sink.report(events).await {
                return;
            }
        }
    }
}

async fn next_report<R>(reporting: &mut Option<Reporting<R>>) -> (R, bool) {
    match reporting {
        Some(reporting) => reporting.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::process::{CommandLine, start};

    /// Collects events.
    struct Events(mpsc::UnboundedSender<TerminalEvent>);

    impl Report for Events {
        async fn report(&mut self, events: Vec<TerminalEvent>) -> bool {
            events.into_iter().all(|event| self.0.send(event).is_ok())
        }
    }

    fn open(script: &str) -> (Handle, mpsc::UnboundedReceiver<TerminalEvent>) {
        let line = CommandLine {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            directory: PathBuf::from("/"),
        };
        let size = TerminalSize::default();
        let started = start(line, size).expect("a pseudo-terminal");
        let (events, received) = mpsc::unbounded_channel();
        let history = History::new(size);
        (spawn(started, OutputParser::new(""), history, Events(events)), received)
    }

    async fn until_shown(events: &mut mpsc::UnboundedReceiver<TerminalEvent>, expected: &str) {
        let mut shown = String::new();
        while !shown.contains(expected) {
            match events.recv().await.expect("the program runs") {
                TerminalEvent::Data(data) => shown.push_str(&data),
                other => assert!(!matches!(other, TerminalEvent::Exited { .. }), "{shown}"),
            }
        }
    }

    #[tokio::test]
    async fn input_for_a_program_that_does_not_read_is_bounded() {
        let (terminal, mut events) = open("stty raw -echo; echo ready; read go < /dev/null; sleep 1000");
        until_shown(&mut events, "ready").await;
        let piece = "x".repeat(1 << 20);
        let accepted = (0..64).filter(|_| terminal.input(piece.clone())).count();
        assert!((1..=5).contains(&accepted), "{accepted} megabytes wait");
        terminal.kill();
        while let Some(event) = events.recv().await {
            if let TerminalEvent::Exited { .. } = event {
                return;
            }
        }
        panic!("the end was not reported");
    }

    #[tokio::test]
    async fn trm11_the_last_output_comes_before_the_end() {
        let (_terminal, mut events) = open("seq 1 5000; printf last; exit 6");
        let mut output = String::new();
        let mut end = None;
        while let Some(event) = events.recv().await {
            match event {
                TerminalEvent::Data(data) => output.push_str(&data),
                TerminalEvent::Exited { exit_code } => end = Some(exit_code),
                _ => {}
            }
        }
        assert_eq!(end, Some(Some(6)));
        assert!(output.ends_with("5000\r\nlast"), "{}", output.len());
    }
}
