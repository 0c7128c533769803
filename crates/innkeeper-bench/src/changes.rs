//! Changesets of a large repository: the first one, and again after one edit.
//!
//! The limit is Git itself: `git status --porcelain` and `git diff --numstat`, which tell which files differ and how many
//! lines. A changeset also stores the contents of all changed files, so that both sides can be read later.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use innkeeper_host::changes::{ChangesetSource, ChangesetView};
use innkeeper_host::contents::{ContentLimits, MemoryContents};
use innkeeper_workspace::LocalChanges;
use serde::Serialize;
use tempfile::TempDir;

use crate::report::machine::Machine;
use crate::report::stats::{median, ratio};

/// Files in one directory.
const PER_DIRECTORY: usize = 100;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Files in the repository.
    #[arg(long, default_value_t = 50_000)]
    files: usize,
    /// Files that differ from the last commit.
    #[arg(long, default_value_t = 500)]
    changed: usize,
    /// How often each figure is measured.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// The result. Times are medians over the rounds, in milliseconds.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    files: usize,
    changed: usize,
    /// `git status --porcelain` and `git diff --numstat HEAD`, one after the other.
    git_ms: f64,
    /// A changeset of a work tree that the host has never seen.
    first_ms: f64,
    /// That against Git.
    first_ratio: Option<f64>,
    /// The changeset again after one edit.
    again_ms: f64,
    /// That against Git.
    again_ratio: Option<f64>,
    machine: Machine,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    ensure!(
        args.changed > 0 && args.changed <= args.files && args.rounds > 0,
        "some files must change"
    );
    let directory = TempDir::new().context("cannot create a directory for the files")?;
    let top = fs::canonicalize(directory.path())?;
    let work = top.join("work");
    eprintln!("writing {} files", args.files);
    write_repository(&work, args)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut plain, mut first, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        plain.push(timed(|| {
            git(&work, &["status", "--porcelain"])?;
            git(&work, &["diff", "--numstat", "HEAD"])
        })?);
        let changes = service(&top.join(format!("data-{round}")));
        first.push(timed(|| compute(&runtime, &changes, &work, args.changed))?);
        let edited = name(&work, 0);
        fs::write(edited, format!("edited in round {round}\n"))?;
        again.push(timed(|| compute(&runtime, &changes, &work, args.changed))?);
        eprintln!("round {} of {}", round + 1, args.rounds);
    }
    let middle = |times: &[Duration]| {
        let milliseconds = times.iter().map(|time| time.as_secs_f64() * 1000.0);
        median(milliseconds).unwrap_or_default()
    };
    let [git_ms, first_ms, again_ms] = [&plain, &first, &again].map(|times| middle(times));
    Ok(Report {
        benchmark: "changes",
        files: args.files,
        changed: args.changed,
        git_ms,
        first_ms,
        first_ratio: ratio(first_ms, git_ms),
        again_ms,
        again_ratio: ratio(again_ms, git_ms),
        machine: Machine::current(),
    })
}

fn name(work: &Path, number: usize) -> PathBuf {
    work.join(format!("{}/{number}.txt", number / PER_DIRECTORY))
}

fn write_repository(work: &Path, args: &Args) -> Result<()> {
    let text = "a line of a file that does not matter\n".repeat(20);
    for number in 0..args.files {
        let path = name(work, number);
        if number % PER_DIRECTORY == 0 {
            fs::create_dir_all(path.parent().context("a parent")?)?;
        }
        fs::write(path, format!("{number}\n{text}"))?;
    }
    git(work, &["init", "--quiet"])?;
    git(work, &["add", "."])?;
    git(
        work,
        &[
            "-c",
            "user.name=Bench",
            "-c",
            "user.email=bench@example.org",
            "commit",
            "--quiet",
            "-m",
            "All",
        ],
    )?;
    let step = (args.files / args.changed).max(1);
    for number in (0..args.files).step_by(step).take(args.changed) {
        fs::write(name(work, number), format!("{number} changed\n{text}"))?;
    }
    Ok(())
}

fn service(data: &Path) -> LocalChanges {
    let contents = MemoryContents::new(ContentLimits {
        session_bytes: 1 << 20,
        total_bytes: 1 << 20,
    });
    LocalChanges::with_own_environment(data.to_owned(), Arc::new(contents))
}

fn compute(runtime: &tokio::runtime::Runtime, changes: &LocalChanges, work: &Path, expected: usize) -> Result<()> {
    let view = ChangesetView {
        session: "ahp-session:/bench".into(),
        directories: vec![format!("file://{}", work.display())],
        source: ChangesetSource::Uncommitted,
        edits: Arc::new([]),
        title: "Bench".to_owned(),
    };
    let computed = runtime
        .block_on(changes.compute(&view))
        .map_err(|problem| anyhow!(problem))?;
    ensure!(
        computed.files.len() == expected,
        "{} files differ, not {expected}",
        computed.files.len()
    );
    Ok(())
}

fn git(work: &Path, arguments: &[&str]) -> Result<()> {
    let run = Command::new("git").args(arguments).current_dir(work).output()?;
    ensure!(
        run.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}
