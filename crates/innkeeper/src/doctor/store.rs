//! Checks the persisted sessions.

use std::fs;
use std::path::PathBuf;

use innkeeper_store::{Archive, ErrorKind, FILE_NAME, Mode, StoreError};

use innkeeper_cli::discovery::DataDir;

use super::report::Report;

const SUBJECT: &str = "sessions";

/// A write-ahead log beyond this size has not been merged for long.
const LARGE_WAL: u64 = 512 << 20;

/// Reads the whole store and reports problems.
pub(super) fn check(dir: &DataDir, moved: Option<PathBuf>, report: &mut Report) {
    if let Some(moved) = moved {
        report.ok(SUBJECT, format!("the old file is now {}", moved.display()));
    }
    let path = dir.file(FILE_NAME);
    if !path.exists() {
        return report.ok(
            SUBJECT,
            format!("{} does not exist yet; the host creates it", path.display()),
        );
    }
    let archive = match Archive::open(&path, Mode::ReadOnly) {
        Ok(archive) => archive,
        Err(error) => return report.fail(SUBJECT, &error.message, advice(&error)),
    };
    let findings = match archive.check() {
        Ok(findings) => findings,
        Err(error) => return report.fail(SUBJECT, &error.message, advice(&error)),
    };
    for finding in &findings {
        let text = match &finding.session {
            Some(session) => format!("{session}: {}; {}", finding.what, finding.meaning),
            None => format!("{}; {}", finding.what, finding.meaning),
        };
        match finding.is_damage {
            true => report.fail(SUBJECT, text, &finding.remedy),
            false => report.warn(SUBJECT, text, &finding.remedy),
        }
    }
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    let wal = size(dir.file(&format!("{FILE_NAME}-wal")));
    let (count, bytes) = (archive.count().unwrap_or_default(), size(path.clone()));
    let text = format!(
        "{count} sessions in {} ({bytes} bytes, {wal} in its log); {} problems",
        path.display(),
        findings.len()
    );
    if wal > LARGE_WAL {
        report.warn(SUBJECT, text, "start the host and stop it again, which empties the log");
    } else if findings.is_empty() {
        report.ok(SUBJECT, text);
    }
}

/// Returns whether the store should be moved aside.
pub(super) fn is_beyond_use(dir: &DataDir) -> bool {
    let useless = |error: &StoreError| matches!(error.kind, ErrorKind::Foreign | ErrorKind::Damaged);
    match Archive::open(&dir.file(FILE_NAME), Mode::ReadOnly) {
        Ok(archive) => match archive.check() {
            Ok(findings) => findings.iter().any(|finding| finding.is_damage),
            Err(error) => useless(&error),
        },
        Err(error) => useless(&error),
    }
}

fn advice(error: &StoreError) -> &'static str {
    match error.kind {
        ErrorKind::Foreign => {
            "find out what put it there; `innkeeper doctor --move-aside` moves it out of the way and deletes nothing"
        }
        ErrorKind::Newer => "use the newer version of innkeeper that wrote it",
        ErrorKind::Damaged => {
            "restore it from a backup, or let `innkeeper doctor --move-aside` move it out of the way to start afresh"
        }
        ErrorKind::Full => "free some room on the disk",
        ErrorKind::Busy => "try again in a moment",
        ErrorKind::NotFound | ErrorKind::Refused | ErrorKind::Io => "correct its permissions, and look at the disk",
    }
}
