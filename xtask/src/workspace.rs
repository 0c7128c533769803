//! Where the workspace is, which files it consists of, and what cargo says about its crates.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The checked-out repository.
pub(crate) struct Workspace {
    root: PathBuf,
}

/// The part of `cargo metadata` that the chores use.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// One crate of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a dependency table of a crate.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Cargo says `null` for a normal dependency, otherwise `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Dependency {
    /// Returns whether only tests, examples and benches of the crate see this dependency.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Workspace {
    /// Finds the workspace this tool belongs to.
    pub(crate) fn locate() -> Result<Self> {
        // Cargo sets the variable at run time; the value from compile time would be wrong when two
        // checkouts share a target directory.
        let manifest_directory = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_directory
            .parent()
            .context("xtask must live in a folder of the workspace")?;
        if !root.join("Cargo.toml").is_file() {
            bail!(
                "{} holds no Cargo.toml; run this as `cargo xtask` inside the repository",
                root.display()
            );
        }
        Ok(Self {
            root: root.to_path_buf(),
        })
    }

    /// Returns a command of `program` that runs in the workspace root.
    pub(crate) fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command.current_dir(&self.root);
        command
    }

    /// Returns a command of the cargo that started this tool.
    pub(crate) fn cargo(&self) -> Command {
        self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// Asks cargo about the crates of the workspace.
    pub(crate) fn metadata(&self) -> Result<Metadata> {
        let output = self
            .cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("cannot start cargo metadata")?;
        if !output.status.success() {
            bail!(
                "cargo metadata failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata printed")
    }

    /// Returns the path of a file relative to the root, with `/` between its parts.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .to_string_lossy()
            .replace('\\', "/")
    }

    /// Returns where a file of the workspace is.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Reads a file of the workspace, or returns nothing when it does not exist or is not text.
    pub(crate) fn read_text(&self, relative: &str) -> Option<String> {
        fs::read_to_string(self.root.join(relative)).ok()
    }

    /// Writes a file of the workspace.
    pub(crate) fn write_text(&self, relative: &str, text: &str) -> Result<()> {
        fs::write(self.root.join(relative), text).with_context(|| format!("cannot write {relative}"))
    }

    /// Lists the files of the repository, sorted: tracked ones, and new ones that git does not ignore.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut files = match self.files_known_to_git() {
            Some(files) => files,
            // A source archive has no git directory, and the rules hold there as well.
            None => self.files_on_disk()?,
        };
        files.sort();
        files.dedup();
        Ok(files)
    }

    fn files_known_to_git(&self) -> Option<Vec<String>> {
        let output = self
            .command("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()
            .ok()?;
        if !output.status.success() {
            return None;
        }
        let listing = String::from_utf8_lossy(&output.stdout);
        let names = listing.split('\0').filter(|name| !name.is_empty());
        Some(names.map(str::to_owned).collect())
    }

    fn files_on_disk(&self) -> Result<Vec<String>> {
        let mut files = Vec::new();
        let mut pending = vec![self.root.clone()];
        while let Some(directory) = pending.pop() {
            let entries = fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
            for entry in entries {
                let entry = entry?;
                let kind = entry.file_type()?;
                let name = entry.file_name();
                if kind.is_dir() && name != "target" && name != ".git" {
                    pending.push(entry.path());
                } else if kind.is_file() {
                    files.push(self.relative(&entry.path()));
                }
            }
        }
        Ok(files)
    }
}
