//! Programs that the scenarios start: the host, and published clients in processes of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::version::{Runtime, Version};

/// Names another host to test, for instance one that was built elsewhere.
const OTHER_HOST: &str = "INNKEEPER_COMPAT_HOST";

/// Returns the `innkeeper` program of this build. Builds it if it is missing or older than its sources, which happens
/// when only this crate is tested.
pub fn host() -> PathBuf {
    if let Some(other) = std::env::var_os(OTHER_HOST) {
        return other.into();
    }
    let program = target_profile().join("innkeeper");
    if !is_fresh(&program) {
        cargo(&["build", "--package", "innkeeper", "--bin", "innkeeper"], &[]);
    }
    program
}

/// Builds the published clients that run in processes of their own.
pub fn build_published_clients() {
    for version in Version::ALL {
        if let Runtime::Process(folder) = version.runtime() {
            published_client(folder);
        }
    }
}

/// Builds the published client in this folder of `clients/` and returns its program.
pub fn published_client(folder: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(folder);
    let manifest = package.join("Cargo.toml").display().to_string();
    let target = target_profile().join("compat-clients");
    let program = target
        .join("debug")
        .join(format!("innkeeper-compat-client-{}", folder[1..].replace('_', "-")));
    if !is_fresh(&program) {
        let target = target.display().to_string();
        let build = [
            "build",
            "--locked",
            "--manifest-path",
            &manifest,
            "--target-dir",
            &target,
        ];
        cargo(
            &build,
            &[
                "a published client that cannot be linked beside 0.5.2 is built when its scenarios run;",
                "if its crates are not downloaded yet, run `cargo fetch --locked --manifest-path",
                &format!("crates/innkeeper-compat/clients/{folder}/Cargo.toml`"),
            ],
        );
    }
    program
}

/// Returns the folder of this build, such as `target/debug`. Tests are two folders below it, or one.
fn target_profile() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a file");
    let folder = this.parent().expect("a program is in a folder");
    let is_deps = folder.file_name().is_some_and(|name| name == "deps");
    let profile = if is_deps { folder.parent() } else { Some(folder) };
    profile.expect("the folder of this build").to_owned()
}

/// Whether a program is newer than all its sources, which Cargo lists beside it.
fn is_fresh(program: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(built) = modified(program) else {
        return false;
    };
    let Ok(list) = std::fs::read_to_string(program.with_extension("d")) else {
        return false;
    };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources).trim();
    // Spaces in paths are escaped; a path that is cut at one is not found and counts as changed.
    sources
        .split(' ')
        .all(|source| modified(Path::new(source)).is_some_and(|changed| changed <= built))
}

fn cargo(arguments: &[&str], hint: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(workspace)
        .output()
        .expect("cargo can be started");
    assert!(
        output.status.success(),
        "cargo {} failed: {}\n{}",
        arguments.join(" "),
        hint.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}
