//! The task of one terminal: reads output, reports events, and does what it is told.
//!
//! At most one report is under way. Output that arrives meanwhile is merged into the next one; beyond a limit nothing is
//! read, and the program waits. So a flood of output runs at the speed of its readers and costs a fixed amount of memory.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use innkeeper_host::terminals::{Terminal, TerminalEvent, TerminalSink, TerminalSize};
use innkeeper_std::DRAIN_TIME;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::history::History;
use crate::input::{Input, TypedBytes};
use crate::output::OutputParser;
use crate::process::{Output, Process, Started};

/// Bytes of output that wait for the report under way.
const MAX_WAITING: usize = 256 << 10;
/// Bytes of output in one report.
const MAX_REPORT: usize = 128 << 10;
/// Bytes that are read after the end of a program. No terminal and no pipe holds more; a process that is left may print
/// for ever.
const MAX_REST: usize = 1 << 20;
/// Requests that wait for the task.
const MAX_REQUESTS: usize = 1024;
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
    let typed = TypedBytes::default();
    let input = started.input.map(|(pty, control)| {
        let (input, writing) = Input::new(pty, control, typed.clone());
        tokio::spawn(writing);
        input
    });
    let task = Task {
        typed: typed.clone(),
        process: started.process,
        input,
        output: started.output,
        parser,
        history,
        waiting: PendingEvents::default(),
    };
    tokio::spawn(task.run(received, sink));
    Handle { requests, typed }
}

struct Task {
    typed: TypedBytes,
    process: Process,
    /// The input side; `None` without a terminal.
    input: Option<Input>,
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
    /// Its leader has ended.
    Ended { exit_code: Option<i64>, rest: Rest },
}

/// The output of a program that has ended may still be under way.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// The time in which output is awaited. It passes only while the task reads: a slow report must not cost the rest.
    time: Duration,
    /// Bytes that may still be read.
    bytes: usize,
}

impl Rest {
    const ALL: Self = Self {
        time: DRAIN_TIME,
        bytes: MAX_REST,
    };
}

/// The next thing to do.
enum Next<R> {
    /// Output to take, or none within the time of the rest.
    Read(Option<io::Result<usize>>),
    Reported(R, bool),
    /// A request; none if the terminal is disposed of.
    Requested(Option<Request>),
    Ended(Option<i64>),
    KillTime,
}

type Reporting<R> = Pin<Box<dyn Future<Output = (R, bool)> + Send>>;

impl Task {
    async fn run<R: Report>(mut self, mut requests: mpsc::Receiver<Request>, sink: R) {
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
            if let End::Ended { exit_code, .. } = end
                && !is_open
            {
                return self.finish(exit_code, idle, reporting).await;
            }
            let kill_at = match end {
                End::HungUp(at) => Some(at),
                End::Running | End::Ended { .. } => None,
            };
            let rest = match end {
                End::Ended { rest, .. } => Some(rest),
                End::Running | End::HungUp(_) => None,
            };
            let may_read = is_open && self.waiting.bytes < MAX_WAITING;
            let asked_at = Instant::now();
            let next = tokio::select! {
                read = read(&mut self.output, &mut buffer, rest), if may_read => Next::Read(read),
                (sink, is_wanted) = next_report(&mut reporting), if reporting.is_some() => {
                    Next::Reported(sink, is_wanted)
                }
                request = requests.recv() => Next::Requested(request),
                exit_code = self.process.wait(), if rest.is_none() => Next::Ended(exit_code),
                () = sleep_until(kill_at.unwrap_or(asked_at)), if kill_at.is_some() => Next::KillTime,
            };
            if let End::Ended { rest, .. } = &mut end
                && may_read
            {
                rest.time = rest.time.saturating_sub(asked_at.elapsed());
            }
            match next {
                Next::Read(None | Some(Ok(0) | Err(_))) => is_open = false,
                Next::Read(Some(Ok(length))) => {
                    if let End::Ended { rest, .. } = &mut end {
                        rest.bytes = rest.bytes.saturating_sub(length);
                        is_open = rest.bytes > 0;
                    }
                    self.take_output(buffer.get(..length).unwrap_or_default()).await;
                }
                Next::Reported(sink, is_wanted) => {
                    reporting = None;
                    if !is_wanted {
                        return;
                    }
                    idle = Some(sink);
                }
                Next::Requested(Some(Request::Kill)) => {
                    if let End::Running = end {
                        self.process.hang_up();
                        end = End::HungUp(Instant::now() + HANG_UP_TIME);
                    }
                }
                Next::Requested(Some(request)) => self.perform(request),
                Next::Requested(None) => {
                    self.process.hang_up();
                    let _ = timeout(HANG_UP_TIME, self.process.wait()).await;
                    return;
                }
                Next::Ended(exit_code) => {
                    // Jobs in the background lose their terminal with the shell.
                    self.process.hang_up();
                    end = End::Ended {
                        exit_code,
                        rest: Rest::ALL,
                    };
                }
                Next::KillTime => {
                    self.process.kill();
                    end = End::HungUp(Instant::now() + HANG_UP_TIME);
                }
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

    fn perform(&mut self, request: Request) {
        match request {
            Request::Input(text) => match &self.input {
                Some(input) => input.write(text),
                None => self.typed.remove(text.len()),
            },
            Request::Resize(size) => {
                self.history.resize(size);
                if let Some(input) = &self.input {
                    input.resize(size);
                }
            }
            Request::Clear => self.history.clear(),
            Request::Kill => {}
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

/// Reads output. After the end of a program, returns none if there is no more within the time of the rest; output that
/// is there is read even if no time is left.
async fn read(output: &mut Output, buffer: &mut [u8], rest: Option<Rest>) -> Option<io::Result<usize>> {
    let read = output.read(buffer);
    match rest {
        None => Some(read.await),
        Some(rest) => timeout(rest.time, read).await.ok(),
    }
}

async fn next_report<R>(reporting: &mut Option<Reporting<R>>) -> (R, bool) {
    match reporting {
        Some(reporting) => reporting.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
