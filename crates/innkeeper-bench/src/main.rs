//! Benchmarks of Innkeeper.
//!
//! Every benchmark measures the real host and, where a limit of the machine matters, a minimal
//! program at that limit in the same run, so that the figures worth keeping are ratios. The result
//! is one JSON object on stdout; progress for people goes to stderr.

mod core_bench;
mod delivery;
mod delta_scan;
mod fanout;
mod fanout_report;
mod fanout_round;
mod frames;
mod host_session;
mod idle;
mod machine;
mod process_usage;
mod raw_broadcaster;
mod server_process;
mod stats;
mod ws_client;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;

/// Measures the Innkeeper host and prints one JSON object.
#[derive(Parser)]
#[command(name = "innkeeper-bench", version)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

/// The benchmarks. A new one is a module with `Args` and `run`, a variant here and a line in `main`.
#[derive(Subcommand)]
enum Bench {
    /// Streams deltas to many clients, against a minimal raw broadcaster in the same run.
    Fanout(fanout::Args),
    /// Measures memory per idle connection, start time and the effect of subscribers that leave.
    Idle(idle::Args),
    /// Measures the core alone: what a delta costs in long turns and after long histories.
    Core(core_bench::Args),
    /// Serves as the raw broadcaster that `fanout` compares the host with.
    #[command(hide = true)]
    RawBroadcaster,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().bench {
        Bench::Fanout(args) => fanout::run(&args).and_then(print_report),
        Bench::Idle(args) => idle::run(&args).and_then(print_report),
        Bench::Core(args) => core_bench::run(&args).and_then(print_report),
        Bench::RawBroadcaster => raw_broadcaster::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("innkeeper-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a report as the one JSON object on stdout.
fn print_report<R: Serialize>(report: R) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
