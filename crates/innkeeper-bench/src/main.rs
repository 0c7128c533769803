//! Benchmarks of Innkeeper.
//!
//! Every benchmark measures the real host and, where a limit of the machine matters, a minimal
//! program at that limit in the same run, so that the figures worth keeping are ratios. The result
//! is one JSON object on stdout; progress goes to stderr.

mod acp;
mod changes;
mod client;
mod core_bench;
mod dialects;
mod durable;
mod fanout;
mod filled_data;
mod history;
mod host_options;
mod idle;
mod mcp;
mod model;
mod report;
mod scan;
mod server;
mod soak;
mod stored;
mod terminal;

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

/// The benchmarks. A new one is a module with `Args` and `run`, a variant here, a line in `main`, and a small setting in xtask.
#[derive(Subcommand)]
enum Bench {
    /// Streams deltas to many clients, against a minimal raw broadcaster in the same run.
    Fanout(fanout::Args),
    /// Streams deltas to clients of older protocol versions, against clients of the newest in the same run.
    Dialects(dialects::Args),
    /// Measures memory per idle connection, start time and the effect of subscribers that leave.
    Idle(idle::Args),
    /// Measures the core alone: what a delta costs in long turns and after long histories.
    Core(core_bench::Args),
    /// Measures a host with very many stored sessions.
    Stored(stored::Args),
    /// Measures a chat with a very long history.
    History(history::Args),
    /// Measures durable actions against the disk's own limit, and streams that are written behind.
    Durable(durable::Args),
    /// Measures what the model agent adds between a provider and a client.
    Model(model::Args),
    /// Measures scans of many customizations, cold and after one changed file.
    Scan(scan::Args),
    /// Measures changesets of a large repository against the commands of Git.
    Changes(changes::Args),
    /// Measures terminals against a plain reader of a pseudo-terminal, and the memory of idle ones.
    Terminal(terminal::Args),
    /// Measures what the host adds to a call of an MCP tool.
    Mcp(mcp::Args),
    /// Measures what the host adds to an agent that speaks ACP.
    Acp(acp::Args),
    /// Shows a streamed chat in the full-screen client, and fails if the client grows or takes much CPU time.
    Chat(soak::chat::Args),
    /// Lets clients, sessions and streams come and go, and fails if memory, files, threads or CPU time grow.
    Soak(soak::Args),
    /// Serves as the raw broadcaster that `fanout` compares the host with.
    #[command(hide = true)]
    RawBroadcaster,
    /// Serves as the MCP server that `mcp` calls.
    #[command(hide = true)]
    McpServer,
    /// Serves as the agent that `acp` measures.
    #[command(hide = true)]
    AcpAgent,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().bench {
        Bench::Fanout(args) => fanout::run(&args).and_then(print_report),
        Bench::Dialects(args) => dialects::run(&args).and_then(|report| {
            let verdict = report.judge();
            print_report(report)?;
            verdict
        }),
        Bench::Idle(args) => idle::run(&args).and_then(print_report),
        Bench::Core(args) => core_bench::run(&args).and_then(print_report),
        Bench::Stored(args) => stored::run(&args).and_then(print_report),
        Bench::Durable(args) => durable::run(&args).and_then(print_report),
        Bench::Model(args) => model::run(&args).and_then(print_report),
        Bench::Mcp(args) => mcp::run(&args).and_then(print_report),
        Bench::Acp(args) => acp::run(&args).and_then(print_report),
        Bench::Scan(args) => scan::run(&args).and_then(print_report),
        Bench::Changes(args) => changes::run(&args).and_then(print_report),
        Bench::Terminal(args) => terminal::run(&args).and_then(print_report),
        Bench::History(args) => history::run(&args).and_then(print_report),
        Bench::Chat(args) => soak::chat::run(&args).and_then(|report| {
            let passed = report.passed();
            print_report(report)?;
            anyhow::ensure!(passed, "the client grew or took too much CPU time; see the report");
            Ok(())
        }),
        Bench::Soak(args) => soak::run(&args).and_then(|report| {
            let passed = report.passed();
            print_report(report)?;
            anyhow::ensure!(passed, "the host grew or left damage; see the report");
            Ok(())
        }),
        Bench::RawBroadcaster => fanout::raw_broadcaster::run(),
        Bench::McpServer => mcp::serve(),
        Bench::AcpAgent => acp::serve(),
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
