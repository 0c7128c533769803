//! Scans of customizations: a large collection cold, and again after one changed file.
//!
//! The limit is reading the same files without looking at them. A scan reads less of some, looks for
//! many that are not there, and understands all; the ratio says what that costs.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahp_types::actions::{SessionCustomizationUpdatedAction, SessionCustomizationsChangedAction, StateAction};
use ahp_types::state::Customization;
use anyhow::{Context, Result, ensure};
use innkeeper_customizations::SourceDirectories;
use innkeeper_plugins::{Container, LoadState, Rescan, Sources, Tree, changes, scan};
use serde::Serialize;
use tempfile::TempDir;

use crate::report::machine::Machine;
use crate::report::stats::{median, ratio};
use crate::server::usage::{peak_resident_bytes, resident_bytes};

/// The content of each plugin: three skills, an agent, a rule, hooks and an MCP server.
const CHILDREN: usize = 7;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Plugins in the marketplace, with seven children each.
    #[arg(long, default_value_t = 500)]
    plugins: usize,
    /// How often each figure is measured.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Where the files go [default: a temporary directory].
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// The result. Times are medians over the rounds, in milliseconds.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    plugins: usize,
    children: usize,
    files: usize,
    file_bytes: u64,
    /// Listing the directories and reading the files, and nothing else.
    plain_read_ms: f64,
    /// A scan that knows nothing yet. The files are in the system's memory.
    cold_scan_ms: f64,
    /// A cold scan against the plain reading.
    cold_ratio: Option<f64>,
    /// The scan after one file of one plugin was written, and its comparison with the tree before.
    rescan_ms: f64,
    /// That against a cold scan.
    rescan_ratio: Option<f64>,
    /// A cold scan of a quarter of the plugins, each against a plugin of all: above one, it grows faster
    /// than what there is to read.
    growth: Option<f64>,
    /// Memory that the first scan took at its peak, the tree included.
    scan_peak_bytes: u64,
    /// Memory that is still taken when only the tree is left.
    tree_bytes: u64,
    /// Bytes of text of the tree that clients are shown.
    published_text_bytes: usize,
    /// Bytes of the action that publishes all of it to a session.
    action_bytes: usize,
    /// That against the text that is in it.
    action_ratio: Option<f64>,
    /// Bytes of the action that publishes one changed plugin.
    update_bytes: usize,
    /// Converting the tree for clients and agents, after each change.
    publish_ms: f64,
    machine: Machine,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    ensure!(
        args.plugins >= 4 && args.rounds > 0,
        "at least 4 plugins and one round are needed"
    );
    let directory = match &args.directory {
        Some(directory) => TempDir::new_in(directory),
        None => TempDir::new(),
    }
    .context("cannot create a directory for the files")?;
    // Without links, as the paths of events are.
    let root = fs::canonicalize(directory.path())?;
    eprintln!("writing {} plugins", args.plugins);
    write_marketplace(&root.join("all"), args.plugins)?;
    write_marketplace(&root.join("quarter"), args.plugins / 4)?;
    let all = sources(&root.join("all"));

    let (memory, tree) = measure_memory(&all)?;
    check(&tree, args.plugins)?;
    let published_text_bytes = published_text(&tree);
    drop(tree);
    let published = published(&root.join("all"))?;

    let mut measured = Rounds::default();
    for round in 0..args.rounds {
        measured.plain.push(timed(|| read_everything(&root.join("all")))?.0);
        measured.cold.push(timed(|| Ok(scan(&all)))?.0);
        let quarter = sources(&root.join("quarter"));
        measured.quarter.push(timed(|| Ok(scan(&quarter)))?.0);
        measured.rescan.push(rescan(&all, &root, round)?);
        eprintln!("round {} of {}", round + 1, args.rounds);
    }
    let (read, file_bytes) = read_everything(&root.join("all"))?;
    let [plain, cold, quarter, rescan] =
        [&measured.plain, &measured.cold, &measured.quarter, &measured.rescan].map(|times| middle(times));
    let each = |time: f64, plugins: usize| time / plugins as f64;
    Ok(Report {
        benchmark: "scan",
        plugins: args.plugins,
        children: args.plugins * CHILDREN,
        files: read,
        file_bytes,
        plain_read_ms: plain,
        cold_scan_ms: cold,
        cold_ratio: ratio(cold, plain),
        rescan_ms: rescan,
        rescan_ratio: ratio(rescan, cold),
        growth: ratio(each(cold, args.plugins), each(quarter, args.plugins / 4)),
        scan_peak_bytes: memory.peak,
        tree_bytes: memory.tree,
        published_text_bytes,
        action_bytes: published.all,
        action_ratio: ratio(published.all as f64, published_text_bytes as f64),
        update_bytes: published.one,
        publish_ms: published.time.as_secs_f64() * 1000.0,
        machine: Machine::current(),
    })
}

struct Published {
    all: usize,
    one: usize,
    time: Duration,
}

/// The report that a session gets, as it is sent.
fn published(collection: &Path) -> Result<Published> {
    let directories = SourceDirectories {
        collections: vec![collection.to_owned()],
        ..SourceDirectories::default()
    };
    let discovered = directories.look(&[]);
    let (time, entries) = timed(|| {
        let set = discovered.set();
        let entries = set.entries.iter().map(|entry| Customization::clone(entry));
        Ok(entries.collect::<Vec<_>>())
    })?;
    let one = entries.first().context("a plugin is published")?.clone();
    let one = SessionCustomizationUpdatedAction { customization: one };
    let all = SessionCustomizationsChangedAction {
        customizations: entries,
    };
    Ok(Published {
        all: serde_json::to_vec(&StateAction::SessionCustomizationsChanged(all))?.len(),
        one: serde_json::to_vec(&StateAction::SessionCustomizationUpdated(Box::new(one)))?.len(),
        time,
    })
}

#[derive(Default)]
struct Rounds {
    plain: Vec<Duration>,
    cold: Vec<Duration>,
    quarter: Vec<Duration>,
    rescan: Vec<Duration>,
}

struct Memory {
    peak: u64,
    tree: u64,
}

/// The first scan of all in this process, so that its peak is the process's.
fn measure_memory(sources: &Sources) -> Result<(Memory, Tree)> {
    let pid = std::process::id();
    let before = resident_bytes(pid)?;
    let tree = scan(sources);
    let memory = Memory {
        peak: peak_resident_bytes(pid)?.saturating_sub(before),
        tree: resident_bytes(pid)?.saturating_sub(before),
    };
    Ok((memory, tree))
}

/// One file of one plugin is written, and what depends on it is read again.
fn rescan(sources: &Sources, root: &Path, round: usize) -> Result<Duration> {
    let mut known = Rescan::new(sources.clone());
    let before = known.scan();
    let path = root.join("all/plugins/p0003/agents/a.md");
    fs::write(
        &path,
        format!("---\nname: a\ndescription: Round {round}.\n---\nWork.\n"),
    )?;
    let (time, count) = timed(|| {
        known.forget([path]);
        let after = known.scan();
        Ok(changes(&before, &after).len())
    })?;
    ensure!(count == 1, "one changed file is one changed plugin, not {count}");
    Ok(time)
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let start = Instant::now();
    let outcome = black_box(work()?);
    Ok((start.elapsed(), outcome))
}

fn middle(times: &[Duration]) -> f64 {
    let milliseconds = times.iter().map(|time| time.as_secs_f64() * 1_000.0);
    median(milliseconds).unwrap_or_default()
}

fn sources(collection: &Path) -> Sources {
    Sources {
        collections: vec![collection.to_owned()],
        ..Sources::default()
    }
}

/// Reads all files below a directory; how many there are, and how many bytes they have.
fn read_everything(directory: &Path) -> Result<(usize, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let (more_files, more_bytes) = read_everything(&entry.path())?;
            files += more_files;
            bytes += more_bytes;
        } else {
            files += 1;
            bytes += black_box(fs::read(entry.path())?).len() as u64;
        }
    }
    Ok((files, bytes))
}

fn check(tree: &Tree, plugins: usize) -> Result<()> {
    let is_whole = |entry: &&Arc<Container>| {
        let is_loaded = matches!(&***entry, Container::Plugin(plugin) if plugin.load == LoadState::Loaded);
        is_loaded && entry.children().len() == CHILDREN
    };
    let whole = tree.entries.iter().filter(is_whole).count();
    ensure!(whole == plugins, "{whole} of {plugins} plugins were read completely");
    Ok(())
}

fn published_text(tree: &Tree) -> usize {
    let children = tree.entries.iter().flat_map(|entry| entry.children());
    let of_child = |child: &innkeeper_plugins::Child| {
        let description = child.description.as_deref().unwrap_or_default();
        child.id.len() + child.uri.len() + child.name.len() + description.len()
    };
    children.map(of_child).sum()
}

/// A marketplace as the public ones are: four formats, long descriptions, heads that are not YAML.
fn write_marketplace(root: &Path, plugins: usize) -> Result<()> {
    let mut listed = Vec::new();
    for number in 0..plugins {
        let name = format!("p{number:04}");
        write_plugin(&root.join("plugins").join(&name), number)?;
        listed.push(serde_json::json!({ "name": name, "source": format!("./{name}"), "description": "A plugin." }));
    }
    let index = serde_json::json!({ "name": "market", "metadata": { "pluginRoot": "./plugins" }, "plugins": listed });
    write(&root.join(".claude-plugin/marketplace.json"), &index.to_string())
}

fn write_plugin(root: &Path, number: usize) -> Result<()> {
    let metadata = [".plugin", ".claude-plugin", ".codex-plugin", ".cursor-plugin"];
    let metadata = metadata.get(number % metadata.len()).copied().unwrap_or(".plugin");
    let manifest = serde_json::json!({ "name": format!("p{number:04}"), "version": "1.0.0" });
    write(&root.join(metadata).join("plugin.json"), &manifest.to_string())?;
    let body = "What to do, step by step, in some detail.\n".repeat(100);
    let why = "Use when a user asks for it, and whenever it would help: always. ".repeat(4);
    for skill in 0..3 {
        let text = format!("---\nname: s{skill}\ndescription: \"{why}\"\n---\n{body}");
        write(&root.join(format!("skills/s{skill}/SKILL.md")), &text)?;
    }
    // As most heads of agents and of Cursor's rules are: no YAML.
    let agent = format!("---\nname: a\ndescription: {why} Examples: one\ntools: Read, Grep\n---\n{body}");
    write(&root.join("agents/a.md"), &agent)?;
    write(
        &root.join("rules/r.mdc"),
        &format!("---\nglobs: **/*.ts, *.{{a,b}}\n---\n{body}"),
    )?;
    let hooks =
        r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}}"#;
    let file = if number % 4 == 2 {
        "hooks.json"
    } else {
        "hooks/hooks.json"
    };
    write(&root.join(file), hooks)?;
    write(
        &root.join(".mcp.json"),
        r#"{"mcpServers": {"s": {"command": "server", "args": ["--stdio"]}}}"#,
    )
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
