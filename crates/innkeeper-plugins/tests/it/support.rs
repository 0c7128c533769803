//! Plugins made of fixtures, in temporary directories.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::Value;

/// Writes a file and the directories above it.
pub fn write(root: &Path, path: &str, contents: impl AsRef<[u8]>) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, contents).unwrap();
}

/// Makes a link and the directories above it.
#[cfg(unix)]
pub fn link(root: &Path, path: &str, target: impl AsRef<Path>) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(target, file).unwrap();
}

/// The cases of the loader, as they are in `fixtures/loader-cases.json`.
pub fn cases() -> Vec<Value> {
    let text = include_str!("../fixtures/loader-cases.json");
    serde_json::from_str(text).unwrap()
}

/// Makes the plugin of a case in a directory that bears its name, and returns the directory.
pub fn make(temp: &Path, case: &Value) -> PathBuf {
    let root = temp.join(case["case"].as_str().unwrap());
    fs::create_dir_all(&root).unwrap();
    for file in case["files"].as_array().unwrap() {
        let count = file["repeat"].as_u64().unwrap_or(1);
        for number in 0..count {
            make_file(&root, file, &format!("{number:04}"));
        }
    }
    root
}

fn make_file(root: &Path, file: &Value, number: &str) {
    let numbered = |text: &str| text.replace("{0000}", number);
    let path = numbered(file["path"].as_str().unwrap());
    #[cfg(unix)]
    if let Some(target) = file["symlink"].as_str() {
        return link(root, &path, target);
    }
    let mut bytes = match file["base64"].as_str() {
        Some(text) => base64::engine::general_purpose::STANDARD.decode(text).unwrap(),
        None => numbered(file["text"].as_str().unwrap()).into_bytes(),
    };
    if let Some(size) = file["padToBytes"].as_u64() {
        bytes.resize(usize::try_from(size).unwrap(), b'x');
    }
    write(root, &path, bytes);
    #[cfg(unix)]
    if file["mode"] == "0o0" {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(root.join(&path), fs::Permissions::from_mode(0o0)).unwrap();
    }
}

/// Whether permissions keep this process out of anything. Root is kept out of nothing: there the test of this name
/// is run by another user, in a process of its own, and has to succeed there.
#[cfg(unix)]
pub fn is_kept_out(test: &str) -> bool {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::process::CommandExt as _;
    /// The id of the user `nobody`, on every system.
    const NOBODY: u32 = 65_534;
    let temp = tempfile::tempdir().unwrap();
    let locked = temp.path().join("locked");
    fs::write(&locked, "").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&locked).is_err() {
        return true;
    }
    // The directory of this program may be closed to other users.
    let program = temp.path().join("program");
    let this = std::env::current_exe().unwrap();
    fs::hard_link(&this, &program)
        .or_else(|_| fs::copy(&this, &program).map(drop))
        .unwrap();
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(temp.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let ran = std::process::Command::new(&program)
        .args(["--exact", test, "--nocapture"])
        .env("TMPDIR", temp.path())
        .current_dir(temp.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && told.contains("1 passed"),
        "{told}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    false
}
