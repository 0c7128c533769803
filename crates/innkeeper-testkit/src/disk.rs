//! A disk of its own for a test: small, and full or read-only at will.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A file system in memory. It is gone with this.
#[derive(Debug)]
pub struct SmallDisk {
    place: TempDir,
}

impl SmallDisk {
    /// A disk of so many KiB; fails with the reason where this user may not mount anything.
    pub fn new(kib: usize) -> Result<Self, String> {
        let place = tempfile::tempdir().expect("a temporary directory");
        let size = format!("size={kib}k,mode=700");
        run("mount", &["-t", "tmpfs", "-o", &size, "innkeeper-test"], place.path())?;
        Ok(Self { place })
    }

    /// A path on the disk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Makes the disk read-only, or writable again.
    pub fn set_read_only(&self, read_only: bool) {
        let how = if read_only { "remount,ro" } else { "remount,rw" };
        run("mount", &["-o", how], self.place.path()).expect("the disk can be mounted in another way");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a host that is being killed may hold its files for another moment.
        if let Err(problem) = run("umount", &["-l"], self.place.path()) {
            eprintln!("{problem}");
        }
    }
}

fn run(program: &str, arguments: &[&str], place: &Path) -> Result<(), String> {
    let output = Command::new(program).args(arguments).arg(place).output();
    let output = output.map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} failed: {}", said.trim()))
}
