//! The `fanout` benchmark: one streaming turn to many clients, against the raw broadcaster.

pub(crate) mod raw_broadcaster;
pub(crate) mod report;
pub(crate) mod round;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::{
    client::delivery::{STAMP_DIGITS, Stamping, StreamPlan},
    client::delta_scan::DeltaFrame,
    client::host_session,
    fanout::raw_broadcaster::typical_delta_frame,
    fanout::report::{FanoutReport, RoundFigures},
    fanout::round::{Load, RoundOutcome, Target},
    report::machine,
    server::process::default_host_binary,
};

/// Deltas that open connections fully and page memory in before the measurement.
const WARM_UP_DELTAS: usize = 2_000;

/// CPU time of a round from which the kernel's coarse steps no longer matter.
const ENOUGH_CPU_TIME: Duration = Duration::from_millis(200);

/// The options of `fanout`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Clients that subscribe to the chat.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Deltas of the measured turn.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    deltas: u64,
    /// Bytes of content in each delta.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    /// Milliseconds between deltas; 0 is full speed, more also measures latency.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// The `maxLatencyMs` of the subscriptions.
    #[arg(long, default_value_t = 0)]
    max_latency_ms: u64,
    /// Rounds of host and broadcaster in turn; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Threads of this process that read what arrives.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    client_threads: u64,
    /// The host binary [default: `innkeeper` next to this program].
    #[arg(long, value_name = "PATH")]
    host_binary: Option<PathBuf>,
    /// Measures only the raw broadcaster.
    #[arg(long)]
    raw_only: bool,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<FanoutReport> {
    let load = args.load()?;
    machine::allow_open_files(args.clients + 64)?;
    let host_binary = match (&args.host_binary, args.raw_only) {
        (_, true) => None,
        (Some(path), false) => Some(path.clone()),
        (None, false) => Some(default_host_binary()?),
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::try_from(args.client_threads)?)
        .enable_all()
        .build()?
        .block_on(run_rounds(args, &load, host_binary))
}

async fn run_rounds(args: &Args, load: &Load, host_binary: Option<PathBuf>) -> Result<FanoutReport> {
    let mut host_rounds = Vec::new();
    let mut raw_rounds = Vec::new();
    let mut frame = typical_delta_frame();
    for round in 1..=args.rounds {
        if let Some(binary) = &host_binary {
            let outcome = round::run(Target::Host(binary), load)
                .await
                .context("the host's round failed")?;
            if let Some(seen) = longest_frame(&outcome) {
                frame = seen;
            }
            host_rounds.push(figures("host", round, &outcome, load)?);
        }
        let outcome = round::run(Target::Raw(&frame), load)
            .await
            .context("the broadcaster's round failed")?;
        raw_rounds.push(figures("raw ", round, &outcome, load)?);
    }
    let frame_bytes = frame.prefix.len() + load.measured.bytes + frame.suffix.len();
    FanoutReport::new(load, frame_bytes, host_rounds, raw_rounds)
}

impl Args {
    fn load(&self) -> Result<Load> {
        let stamping = if self.delay_ms > 0 {
            Stamping::Stamped
        } else {
            Stamping::Plain
        };
        let bytes = usize::try_from(self.bytes)?;
        if stamping == Stamping::Stamped && bytes < STAMP_DIGITS {
            bail!("a paced run stamps each delta with {STAMP_DIGITS} digits; give --bytes {STAMP_DIGITS} or more");
        }
        let measured = StreamPlan {
            turn_id: "turn-2".to_owned(),
            client_seq: 2,
            deltas: usize::try_from(self.deltas)?,
            bytes,
            delay_ms: self.delay_ms,
            stamping,
        };
        let warm_up = StreamPlan {
            turn_id: "turn-1".to_owned(),
            client_seq: 1,
            deltas: measured.deltas.min(WARM_UP_DELTAS),
            delay_ms: 0,
            ..measured.clone()
        };
        Ok(Load {
            clients: usize::try_from(self.clients)?,
            max_latency_ms: self.max_latency_ms,
            version: host_session::NEWEST,
            warm_up,
            measured,
        })
    }
}

/// Returns the shape of the longest frame that carried a single delta, for the broadcaster to copy.
fn longest_frame(outcome: &RoundOutcome) -> Option<DeltaFrame> {
    let frames = outcome
        .delivered
        .iter()
        .filter_map(|delivered| delivered.frame.as_ref());
    frames
        .max_by_key(|frame| frame.prefix.len() + frame.suffix.len())
        .cloned()
}

fn figures(name: &str, round: u64, outcome: &RoundOutcome, load: &Load) -> Result<RoundFigures> {
    let figures = RoundFigures::new(outcome, load.measured.deltas)?;
    eprintln!("round {round} {name}: {figures}");
    if outcome.server_cpu < ENOUGH_CPU_TIME {
        eprintln!("  CPU time is counted in steps of 10 ms; more deltas give a better figure");
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::parse_from(std::iter::once("fanout").chain(line.split_whitespace()))
    }

    #[test]
    fn paced_runs_stamp_and_need_room_for_the_stamp() {
        assert_eq!(
            args("--delay-ms 10").load().unwrap().measured.stamping,
            Stamping::Stamped
        );
        assert_eq!(args("").load().unwrap().measured.stamping, Stamping::Plain);
        assert!(args("--delay-ms 10 --bytes 15").load().is_err());
    }

    #[test]
    fn the_warm_up_is_short_and_never_paced() {
        let load = args("--deltas 50 --delay-ms 10").load().unwrap();
        assert_eq!((load.warm_up.deltas, load.warm_up.delay_ms), (50, 0));
        assert_ne!(load.warm_up.turn_id, load.measured.turn_id);
    }
}
