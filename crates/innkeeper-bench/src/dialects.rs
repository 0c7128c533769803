//! The `dialects` benchmark: one streaming turn to clients of older versions, against clients of 1.0 in the same run.
//!
//! Streamed output means the same in every version with chats, so those clients get the shared bytes. Older clients
//! know no chats: their connections write another head before the shared bytes.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::Serialize;

use crate::{
    client::delivery::{Stamping, StreamPlan},
    fanout::report::RoundFigures,
    fanout::round::{self, Load, Target},
    report::machine::{self, Machine},
    report::stats::median,
    server::process::default_host_binary,
};

/// The measured versions; the first is the one that the others are compared with.
const VERSIONS: [&str; 4] = ["1.0.0", "0.9.0", "0.7.0", "0.2.0"];

/// The most that an older version may cost, as a multiple of the newest. The benchmark fails beyond it.
const LIMIT: f64 = 1.3;

/// The options of `dialects`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Clients of each version that subscribe to the chat.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Deltas of the measured turn.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    deltas: u64,
    /// Bytes of content in each delta.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,
    /// Rounds of all versions in turn; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// The host binary [default: `innkeeper` next to this program].
    #[arg(long, value_name = "PATH")]
    host_binary: Option<PathBuf>,
}

/// The result of `dialects`.
#[derive(Debug, Serialize)]
pub(crate) struct DialectsReport {
    bench: &'static str,
    machine: Machine,
    clients: u64,
    deltas: u64,
    bytes: u64,
    limit: f64,
    versions: Vec<VersionFigures>,
}

/// The medians of one version.
#[derive(Debug, Serialize)]
struct VersionFigures {
    version: &'static str,
    /// CPU time of the host, user and kernel, for one delivery.
    cpu_per_delivery_us: f64,
    deliveries_per_second: f64,
    /// CPU time as a multiple of that of the newest version.
    cost: f64,
}

impl DialectsReport {
    /// Fails if a version costs more than the limit.
    pub(crate) fn judge(&self) -> Result<()> {
        let beyond = self.versions.iter().filter(|figures| figures.cost > self.limit);
        let beyond: Vec<String> = beyond
            .map(|figures| format!("{} costs {:.2}", figures.version, figures.cost))
            .collect();
        let (beyond, limit) = (beyond.join(", "), self.limit);
        ensure!(beyond.is_empty(), "{beyond} times as much as 1.0; {limit} is the most");
        Ok(())
    }
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<DialectsReport> {
    machine::allow_open_files(args.clients + 64)?;
    let binary = match &args.host_binary {
        Some(path) => path.clone(),
        None => default_host_binary()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut rounds: Vec<Vec<RoundFigures>> = VERSIONS.iter().map(|_| Vec::new()).collect();
    for number in 1..=args.rounds {
        for (version, figures) in VERSIONS.into_iter().zip(&mut rounds) {
            let load = args.load(version)?;
            let outcome = runtime.block_on(round::run(Target::Host(&binary), &load));
            let outcome = outcome.with_context(|| format!("the round of {version} failed"))?;
            let round = RoundFigures::new(&outcome, load.measured.deltas)?;
            eprintln!("round {number} {version}: {round}");
            figures.push(round);
        }
    }
    let cpu = |figures: &[RoundFigures]| median(figures.iter().map(RoundFigures::cpu_per_delivery_us));
    let newest = cpu(&rounds[0]).context("there are no rounds")?;
    let versions = VERSIONS.into_iter().zip(&rounds).filter_map(|(version, figures)| {
        let cpu_per_delivery_us = cpu(figures)?;
        Some(VersionFigures {
            version,
            cpu_per_delivery_us,
            deliveries_per_second: median(figures.iter().map(RoundFigures::deliveries_per_second))?,
            cost: cpu_per_delivery_us / newest,
        })
    });
    Ok(DialectsReport {
        bench: "dialects",
        machine: Machine::current(),
        clients: args.clients,
        deltas: args.deltas,
        bytes: args.bytes,
        limit: LIMIT,
        versions: versions.collect(),
    })
}

impl Args {
    fn load(&self, version: &'static str) -> Result<Load> {
        let measured = StreamPlan {
            turn_id: "turn-2".to_owned(),
            client_seq: 2,
            deltas: usize::try_from(self.deltas)?,
            bytes: usize::try_from(self.bytes)?,
            delay_ms: 0,
            stamping: Stamping::Plain,
        };
        let warm_up = StreamPlan {
            turn_id: "turn-1".to_owned(),
            client_seq: 1,
            deltas: measured.deltas.min(2_000),
            ..measured.clone()
        };
        Ok(Load {
            clients: usize::try_from(self.clients)?,
            max_latency_ms: 0,
            version,
            warm_up,
            measured,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_beyond_the_limit_fails() {
        let figures = |version, cost| VersionFigures {
            version,
            cpu_per_delivery_us: cost / 10.0,
            deliveries_per_second: 1e6,
            cost,
        };
        let report = |versions| DialectsReport {
            bench: "dialects",
            machine: Machine::current(),
            clients: 1,
            deltas: 1,
            bytes: 1,
            limit: LIMIT,
            versions,
        };
        assert!(
            report(vec![figures("1.0.0", 1.0), figures("0.9.0", LIMIT)])
                .judge()
                .is_ok()
        );
        let error = report(vec![figures("1.0.0", 1.0), figures("0.2.0", 1.31)]).judge();
        let error = error.expect_err("it is beyond the limit").to_string();
        assert_eq!(error, "0.2.0 costs 1.31 times as much as 1.0; 1.3 is the most");
    }
}
