//! The web app: its types, its tests, its build, and the scenarios in Chromium (`cargo xtask web`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{command_line, run as run_command, step};
use crate::workspace::Workspace;

/// The committed build.
const DIST: &str = "crates/innkeeper-web/dist";

/// Where systems install Chromium.
const CHROMIUM: &[&str] = &[
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// The oldest version of Node that the tools run on.
const OLDEST_NODE: u32 = 20;

/// Runs all checks. Fails if Node is missing.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    match missing() {
        Some(reason) => bail!("{reason}"),
        None => check(workspace),
    }
}

/// Returns why the checks cannot run.
fn missing() -> Option<String> {
    let Some(version) = output("node", &["--version"]) else {
        return Some("node is not installed".to_owned());
    };
    let major = version.trim_start_matches('v').split('.').next()?.parse::<u32>();
    if major.is_ok_and(|major| major < OLDEST_NODE) {
        return Some(format!("node {} is older than {OLDEST_NODE}", version.trim()));
    }
    output("npm", &["--version"])
        .is_none()
        .then(|| "npm is not installed".to_owned())
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()
}

fn check(workspace: &Workspace) -> Result<()> {
    let target = workspace.metadata()?.target_directory;
    let (debug, target) = (target.join("debug"), target.join("web"));
    fs::create_dir_all(&target).with_context(|| format!("cannot create {}", target.display()))?;
    install(workspace, &target)?;
    node_step(workspace, &["scripts/generate-types.mjs", "--check"])?;
    node_step(workspace, &["node_modules/typescript/bin/tsc", "--noEmit"])?;
    let cases = target.join("reducer-cases.jsonl");
    build_programs(workspace)?;
    let mut write = workspace.command(debug.join("examples/reducer_cases").to_string_lossy().as_ref());
    write.arg(&cases);
    step(&command_line(&write), || run_command(&mut write))?;
    let mut tests = node(workspace, &["node_modules/vitest/vitest.mjs", "run"]);
    tests.env("REDUCER_CASES", &cases);
    step(&command_line(&tests), || run_command(&mut tests))?;
    let built = target.join("dist");
    let mut build = node(
        workspace,
        &["node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"],
    );
    build.env("INNKEEPER_WEB_DIST", &built);
    step(&command_line(&build), || run_command(&mut build))?;
    compare(&workspace.path(DIST), &built)?;
    match CHROMIUM.iter().find(|path| Path::new(path).exists()) {
        Some(_) => {
            let mut play = node(workspace, &["e2e/scenarios.mjs"]);
            play.env("INNKEEPER", debug.join("innkeeper"));
            step(&command_line(&play), || run_command(&mut play))
        }
        None => {
            println!("\nChromium is not installed: the scenarios of the web app are skipped");
            Ok(())
        }
    }
}

/// Installs the packages below the target directory, once per lock file.
fn install(workspace: &Workspace, target: &Path) -> Result<()> {
    let modules = target.join("node_modules");
    let (lock, stamp) = (workspace.path("web/package-lock.json"), target.join("installed.json"));
    let wanted = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    if fs::read(&stamp).ok().as_ref() != Some(&wanted) || !modules.exists() {
        for file in ["package.json", "package-lock.json"] {
            let copied = fs::copy(workspace.path("web").join(file), target.join(file));
            copied.with_context(|| format!("cannot copy {file}"))?;
        }
        let mut npm = workspace.command("npm");
        npm.current_dir(target)
            .args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"]);
        step(&command_line(&npm), || run_command(&mut npm))?;
        fs::write(&stamp, wanted).context("cannot note what is installed")?;
    }
    // Node looks for packages beside the sources. A directory of the developer's own stays.
    let link = workspace.path("web/node_modules");
    if !link.exists() {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&modules, &link).context("cannot link web/node_modules")?;
    }
    Ok(())
}

fn node(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = workspace.command("node");
    command.current_dir(workspace.path("web")).args(arguments);
    command
}

fn node_step(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let mut command = node(workspace, arguments);
    step(&command_line(&command), || run_command(&mut command))
}

/// Fails if the committed build differs from a fresh one.
fn compare(committed: &Path, built: &Path) -> Result<()> {
    let (committed, built) = (files(committed)?, files(built)?);
    let names = committed.keys().chain(built.keys());
    let differing: Vec<String> = names
        .filter(|name| committed.get(*name) != built.get(*name))
        .map(|name| name.display().to_string())
        .collect();
    match differing.is_empty() {
        true => Ok(()),
        false => bail!(
            "{DIST} is out of date ({}); run `npm run build` in web and commit it",
            differing.join(", ")
        ),
    }
}

fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path)?;
                found.insert(path.strip_prefix(folder)?.to_owned(), content);
            }
        }
    }
    Ok(found)
}

/// Builds the host and the program that writes the cases for the reducers. With the features of the whole workspace,
/// because the tests have built both of them so.
fn build_programs(workspace: &Workspace) -> Result<()> {
    let mut build = workspace.cargo();
    build.args([
        "build",
        "--quiet",
        "--workspace",
        "--bin",
        "innkeeper",
        "--example",
        "reducer_cases",
    ]);
    step(&command_line(&build), || run_command(&mut build))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_compared_by_name_and_content() {
        let root = std::env::temp_dir().join(format!("xtask-web-{}", std::process::id()));
        let (one, two) = (root.join("one"), root.join("two"));
        for folder in [&one, &two] {
            fs::create_dir_all(folder.join("assets")).unwrap();
            fs::write(folder.join("assets/a.js"), "a").unwrap();
        }
        assert!(compare(&one, &two).is_ok());
        fs::write(two.join("assets/a.js"), "b").unwrap();
        assert!(compare(&one, &two).is_err());
        fs::write(two.join("assets/a.js"), "a").unwrap();
        fs::write(two.join("more.css"), "").unwrap();
        assert!(compare(&one, &two).is_err());
        fs::remove_dir_all(root).unwrap();
    }
}
