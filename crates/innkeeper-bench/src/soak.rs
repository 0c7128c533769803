//! Churn for minutes or hours: connections, sessions, subscriptions and streams come and go, and
//! the host has to stay as it is.

pub(crate) mod chat;
mod churn;
mod client;
mod flatness;
mod mirror;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use self::{
    churn::{Churn, SLEEPERS},
    flatness::{Figure, Sample, judge},
};
use crate::{
    host_options::{HostOptions, on_one_thread},
    report::machine::Machine,
    report::stats::directory_bytes,
    server::process::ServerProcess,
    server::usage::cpu_time,
};

/// Bounds that a run of minutes reaches in its warm-up. With the defaults, which are for days, the
/// host would fill its replay windows and its memory of absent clients for an hour, and that
/// growth would hide any other.
const LIMITS: &str = "replay_channel_bytes = 262144\nreplay_total_bytes = 4194304\nreplay_age_ms = 20000\n\
    absent_clients = 50\ngrace_ms = 2000\nidle_session_ms = 2000\n";

/// How to soak.
#[derive(clap::Args)]
pub struct Args {
    /// How long.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Clients that work in sessions of their own.
    #[arg(long, default_value_t = 6)]
    residents: u64,
    /// Clients that look in at others and leave.
    #[arg(long, default_value_t = 4)]
    guests: u64,
    /// Time between samples.
    #[arg(long, default_value_t = 2000)]
    sample_ms: u64,
    #[command(flatten)]
    host: HostOptions,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    minutes: f64,
    passed: bool,
    figures: Vec<Figure>,
    /// Lines of the host's log at the level of errors: those are bugs, or a broken disk.
    errors_in_log: Vec<String>,
    warnings_in_log: usize,
    /// Damage in the data that the host left on the disk.
    findings_in_store: usize,
    store_bytes: u64,
    host_cpu_cores: f64,
    connections: u64,
    reconnects: u64,
    replays: u64,
    sessions: u64,
    turns: u64,
    actions_mirrored: u64,
    mirrors_compared: u64,
    machine: Machine,
}

impl Report {
    /// Whether everything stayed as it should.
    pub(crate) fn passed(&self) -> bool {
        self.passed
    }
}

/// Runs the soak.
pub fn run(args: &Args) -> Result<Report> {
    on_one_thread(soak(args))
}

async fn soak(args: &Args) -> Result<Report> {
    let host_binary = args.host.host_binary()?;
    let directory = args.host.directory()?;
    let data = directory.path().join("data");
    let host = ServerProcess::start_host_with(&host_binary, &[], Some(&data), LIMITS).await?;
    let time = Duration::from_secs_f64(args.minutes * 60.0);
    let churned = churn(args, &host, time).await;
    let Churned { samples, churn, cpu } = churned.map_err(|error| host.explain(error))?;
    let log = host.stderr()?;
    host.stop().await?;
    let figures = judge(&samples)?;
    let findings = findings_in(&data)?;
    let errors_in_log: Vec<String> = log
        .lines()
        .filter(|line| line.contains("ERROR") || line.contains("panicked"))
        .map(str::to_owned)
        .collect();
    let counts = &churn.counts;
    let report = Report {
        benchmark: "soak",
        minutes: args.minutes,
        passed: figures.iter().all(|figure| figure.is_flat) && errors_in_log.is_empty() && findings.is_empty(),
        errors_in_log,
        warnings_in_log: log.lines().filter(|line| line.contains("WARN")).count(),
        findings_in_store: findings.len(),
        store_bytes: directory_bytes(&data)?,
        host_cpu_cores: cpu.as_secs_f64() / time.as_secs_f64(),
        connections: counts.connections.load(Ordering::Relaxed),
        reconnects: counts.reconnects.load(Ordering::Relaxed),
        replays: counts.replays.load(Ordering::Relaxed),
        sessions: counts.sessions.load(Ordering::Relaxed),
        turns: counts.turns.load(Ordering::Relaxed),
        actions_mirrored: counts.actions.load(Ordering::Relaxed),
        mirrors_compared: counts.comparisons.load(Ordering::Relaxed),
        figures,
        machine: Machine::current(),
    };
    tell(&report, &findings);
    Ok(report)
}

struct Churned {
    samples: Vec<Sample>,
    churn: Arc<Churn>,
    cpu: Duration,
}

/// Lets all clients go on for a time and samples the host meanwhile.
async fn churn(args: &Args, host: &ServerProcess, time: Duration) -> Result<Churned> {
    let started = Instant::now();
    let churn = Churn::new(&host.url, started + time);
    churn.put_to_sleep().await?;
    let mut clients = JoinSet::new();
    for number in 0..args.residents {
        clients.spawn(Arc::clone(&churn).resident(number));
    }
    for number in 0..args.guests {
        clients.spawn(Arc::clone(&churn).guest(number));
    }
    let mut samples = Vec::new();
    let mut ticks = interval(Duration::from_millis(args.sample_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                None => break,
                Some(ended) => ended.context("a client's task died")??,
            },
            _ = ticks.tick(), if Instant::now() < churn.until => {
                let sample = Sample::take(host.pid(), started.elapsed().as_secs_f64())?;
                if samples.len() % 30 == 0 {
                    eprintln!("{:5.0} s  {sample}", started.elapsed().as_secs_f64());
                }
                samples.push(sample);
            }
        }
    }
    let cpu = cpu_time(host.pid())?;
    Ok(Churned { samples, churn, cpu })
}

/// Reads everything that the host left, and says what is wrong with it.
fn findings_in(data: &std::path::Path) -> Result<Vec<String>> {
    let path = data.join(innkeeper_store::FILE_NAME);
    let archive = innkeeper_store::Archive::open(&path, innkeeper_store::Mode::ReadOnly)?;
    let count = archive.count()?;
    if count != SLEEPERS as usize {
        bail!("{count} sessions are stored, and {SLEEPERS} should be");
    }
    Ok(archive
        .check()?
        .into_iter()
        .map(|finding| format!("{finding:?}"))
        .collect())
}

fn tell(report: &Report, findings: &[String]) {
    eprintln!("\n{}", Figure::heading());
    for figure in &report.figures {
        eprintln!("{}", figure.row());
    }
    eprintln!(
        "{} connections, {} reconnects ({} replayed), {} sessions, {} turns, {} actions mirrored, {} mirrors equal",
        report.connections,
        report.reconnects,
        report.replays,
        report.sessions,
        report.turns,
        report.actions_mirrored,
        report.mirrors_compared
    );
    for problem in report.errors_in_log.iter().chain(findings) {
        eprintln!("{problem}");
    }
    eprintln!("{}", if report.passed { "PASS" } else { "FAIL" });
}
