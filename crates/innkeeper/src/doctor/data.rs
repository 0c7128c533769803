//! Checks the data directory and the token.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::config::ConfigFile;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::discovery::{TOKEN_FILE_NAME, TokenFile};

use super::report::Report;

/// Free disk space below which the doctor warns, and below which it fails.
const LITTLE_ROOM: u64 = 1 << 30;
const NO_ROOM: u64 = 32 << 20;

/// Checks the directory, its owner and the token.
pub(super) fn check(dir: &DataDir, config: &ConfigFile, report: &mut Report) {
    directory(dir.path(), report);
    match dir.owner() {
        Some(owner) => report.ok("host", format!("{owner} runs on this data directory")),
        None => report.ok("host", "no host runs on this data directory"),
    }
    let token = config.token_file.clone().unwrap_or_else(|| dir.file(TOKEN_FILE_NAME));
    let narrow = [&config.drive_token_file, &config.view_token_file];
    for path in narrow.into_iter().flatten().chain([&token]) {
        token_file(path, report);
    }
}

fn directory(path: &Path, report: &mut Report) {
    const SUBJECT: &str = "data directory";
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return report.ok(SUBJECT, format!("{shown} does not exist yet; the host creates it"));
        }
        Err(error) => {
            let advice = "correct its permissions, or choose another one with --data DIR";
            return report.fail(SUBJECT, format!("{shown} cannot be read ({error})"), advice);
        }
    };
    if !found.is_dir() {
        return report.fail(
            SUBJECT,
            format!("{shown} is not a directory"),
            "choose another one with --data DIR",
        );
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        let advice = "run this as that user, or choose a directory of your own with --data DIR";
        return report.fail(SUBJECT, format!("{shown} belongs to another user"), advice);
    }
    let advice = format!("run `chmod 700 {shown}`");
    if found.mode() & 0o022 != 0 {
        return report.fail(SUBJECT, format!("other users can write to {shown}"), advice);
    }
    if found.mode() & 0o055 != 0 {
        report.warn(SUBJECT, format!("other users can look into {shown}"), advice);
    } else {
        report.ok(SUBJECT, format!("{shown} is there and private"));
    }
    room(path, report);
}

fn room(path: &Path, report: &mut Report) {
    const SUBJECT: &str = "room on disk";
    let free = match rustix::fs::statvfs(path) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => {
            return report.warn(
                SUBJECT,
                format!("how much is free is unknown ({error})"),
                "look for yourself",
            );
        }
    };
    let text = format!("{} MiB are free", free >> 20);
    match free {
        ..NO_ROOM => report.fail(SUBJECT, text, "free some: without room the host becomes read-only"),
        NO_ROOM..LITTLE_ROOM => report.warn(SUBJECT, text, "free some before it runs out"),
        _ => report.ok(SUBJECT, text),
    }
}

fn token_file(path: &Path, report: &mut Report) {
    const SUBJECT: &str = "token";
    let shown = path.display();
    if !path.exists() {
        return report.ok(SUBJECT, format!("{shown} does not exist yet; the host creates it"));
    }
    if let Err(failure) = TokenFile::read(path) {
        return report.fail(SUBJECT, failure.message(), failure.advice());
    }
    match fs::metadata(path) {
        Ok(found) if found.mode() & 0o044 != 0 => report.warn(
            SUBJECT,
            format!("other users can read {shown}"),
            format!("run `chmod 600 {shown}`, and delete the file if another user may have read it"),
        ),
        _ => report.ok(SUBJECT, format!("{shown} is there and private")),
    }
}
