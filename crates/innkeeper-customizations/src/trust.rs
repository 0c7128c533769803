//! Decisions of users about running programs of workspaces and plugins.
//!
//! Trust is given to content, not to a name (P12, T14): a decision covers an origin and the digest of everything that
//! was shown. Changed content is not trusted, and the user is asked again. The file is in the host's data directory,
//! outside every workspace, and readable by its owner only.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use innkeeper_host::ClientId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

/// The version of the file that this host writes, and the only one it reads.
const VERSION: u32 = 1;
/// Maximum number of decisions. Beyond it the oldest are dropped, and would be asked for again.
const MAX_DECISIONS: usize = 4096;
/// Maximum number of pieces of one decision.
pub(crate) const MAX_PIECES: usize = 200;
/// Maximum bytes of the file, for reading and writing.
const MAX_BYTES: u64 = 32 << 20;

/// The kind of program to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrustKind {
    /// Commands at certain moments.
    Hooks,
    /// An MCP server.
    McpServer,
}

impl TrustKind {
    /// The kind in a word for users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::McpServer => "MCP server",
        }
    }
}

/// The subject of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// The kind of program to run.
    pub kind: TrustKind,
    /// The origin: the path of a workspace or of a saved plugin, or the client and URI of a published one.
    pub place: String,
}

impl Subject {
    /// The subject of a plugin that a client published. Two clients can use the same URI for different plugins, so the
    /// text has both. The client's id is encoded, so that it cannot contain part of a URI.
    pub(crate) fn published(kind: TrustKind, client: &ClientId, uri: &str) -> Self {
        let id: String = url::form_urlencoded::byte_serialize(client.as_str().as_bytes()).collect();
        let place = format!("{id}@{uri}");
        Self { kind, place }
    }
}

/// Everything that a decision covers, piece by piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pieces: Vec<Piece>,
}

/// A command, or a file that is part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Piece {
    /// The name for users.
    pub what: String,
    /// The SHA-256 of its content.
    pub digest: String,
}

impl Contents {
    /// Adds a piece: a line for users, and its content.
    pub fn add(&mut self, what: impl Into<String>, bytes: &[u8]) {
        self.add_digest(what, &Sha256::digest(bytes));
    }

    pub(crate) fn add_digest(&mut self, what: impl Into<String>, digest: &[u8]) {
        let piece = Piece {
            what: what.into(),
            digest: hex(digest),
        };
        // Sorted, so that the order of a scan and duplicates make no difference.
        if let Err(position) = self.pieces.binary_search(&piece) {
            self.pieces.insert(position, piece);
        }
    }

    /// The pieces, sorted.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The digest of all pieces.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        for piece in &self.pieces {
            all.update((piece.what.len() as u64).to_le_bytes());
            all.update(piece.what.as_bytes());
            all.update(piece.digest.as_bytes());
        }
        hex(&all.finalize())
    }
}

/// The decision of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The user was asked and has not answered.
    Asked,
    /// It may run.
    Trusted,
    /// It may not.
    Refused,
}

/// The trust in some contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustStatus {
    /// The user has not decided.
    Unknown,
    /// They may run.
    Trusted,
    /// They may not.
    Refused,
    /// The user decided, and the contents have changed since.
    Changed {
        /// Pieces that are new or different.
        now: Vec<String>,
        /// Pieces that are gone or were different.
        before: Vec<String>,
    },
}

/// A persisted decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustRecord {
    /// The kind of program.
    pub kind: TrustKind,
    /// The origin.
    pub place: String,
    /// The decision of the user.
    pub verdict: Verdict,
    /// The contents that the user decided about.
    pub digest: String,
    /// The pieces of these contents.
    pub pieces: Vec<Piece>,
    /// The time, in seconds since 1970.
    pub at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    decisions: Vec<TrustRecord>,
}

/// The file with the decisions. It is read for every use, so that decisions of another process apply at once.
#[derive(Debug)]
pub struct TrustFile {
    path: PathBuf,
    /// Maximum bytes of the file.
    most: u64,
    /// Notified when this process has changed it.
    changed: Notify,
}

impl TrustFile {
    /// Uses a file, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            most: MAX_BYTES,
            changed: Notify::new(),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Completes when this process changes it. Changes of other processes are not noticed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the trust in some contents.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be read. Nothing is trusted then.
    pub fn status(&self, subject: &Subject, contents: &Contents) -> io::Result<TrustStatus> {
        let decisions = self.read()?;
        let mut answers = decisions.iter().filter(|decided| decided.verdict != Verdict::Asked);
        let decided = answers.find(|decided| decided.is_about(subject));
        Ok(match decided {
            None => TrustStatus::Unknown,
            Some(decided) if decided.digest != contents.digest() => changed(&decided.pieces, &contents.pieces),
            Some(decided) => match decided.verdict {
                Verdict::Asked => TrustStatus::Unknown,
                Verdict::Trusted => TrustStatus::Trusted,
                Verdict::Refused => TrustStatus::Refused,
            },
        })
    }

    /// Persists a decision about some contents, and replaces the previous one.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written. Earlier decisions still apply.
    pub fn decide(&self, subject: &Subject, contents: &Contents, verdict: Verdict) -> io::Result<()> {
        if contents.pieces.len() > MAX_PIECES {
            let problem = format!("they have more than {MAX_PIECES} parts, too many to be remembered");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let decided = TrustRecord {
            kind: subject.kind,
            place: subject.place.clone(),
            verdict,
            digest: contents.digest(),
            pieces: contents.pieces.clone(),
            at: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        };
        self.change(|decisions| {
            // A question does not replace an answer: it may never be answered itself.
            let is_question = verdict == Verdict::Asked;
            decisions.retain(|known| !known.is_about(subject) || (is_question && known.verdict != Verdict::Asked));
            decisions.push(decided);
            while decisions.len() > MAX_DECISIONS {
                forget_one(decisions);
            }
        })
    }

    /// Returns all decisions, by origin.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be read.
    pub fn decisions(&self) -> io::Result<Vec<TrustRecord>> {
        let mut decisions = self.read()?;
        decisions.sort_by(|a, b| (&a.place, a.kind).cmp(&(&b.place, b.kind)));
        Ok(decisions)
    }

    /// Changes the decision about an origin, for the contents that the user was last asked about. Returns the number of
    /// changed decisions.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn change_verdict(&self, place: &str, verdict: Verdict) -> io::Result<usize> {
        let mut count = 0;
        self.change(|decisions| {
            let is_open = |decided: &TrustRecord| decided.place == place && decided.verdict == Verdict::Asked;
            let asked: Vec<TrustKind> = decisions
                .iter()
                .filter(|decided| is_open(decided))
                .map(|decided| decided.kind)
                .collect();
            decisions.retain(|decided| decided.place != place || is_open(decided) || !asked.contains(&decided.kind));
            for decided in decisions.iter_mut().filter(|decided| decided.place == place) {
                decided.verdict = verdict;
                count += 1;
            }
        })?;
        Ok(count)
    }

    /// Deletes the decisions about an origin, so that the user is asked again. Returns their number.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn revoke(&self, place: &str) -> io::Result<usize> {
        let mut count = 0;
        self.change(|decisions| {
            let before = decisions.len();
            decisions.retain(|decided| decided.place != place);
            count = before - decisions.len();
        })?;
        Ok(count)
    }

    fn read(&self) -> io::Result<Vec<TrustRecord>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(self.most + 1).read_to_string(&mut text)?;
        let document: Document = serde_json::from_str(&text).map_err(|error| self.damaged(&error.to_string()))?;
        if document.version != VERSION {
            return Err(self.damaged(&format!("it has version {}", document.version)));
        }
        Ok(document.decisions)
    }

    fn damaged(&self, why: &str) -> io::Error {
        let problem = format!(
            "{} cannot be read ({why}), so nothing in it counts; move it away to be asked again",
            self.path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, problem)
    }

    /// Changes the file atomically: readers see the old or the new file, and writers take turns.
    fn change(&self, change: impl FnOnce(&mut Vec<TrustRecord>)) -> io::Result<()> {
        let mut private = OpenOptions::new();
        private.create(true).write(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut private, 0o600);
        let lock = private.open(self.path.with_extension("lock"))?;
        lock.lock()?;
        let mut decisions = self.read()?;
        change(&mut decisions);
        let mut document = Document {
            version: VERSION,
            decisions,
        };
        let mut text = serde_json::to_vec_pretty(&document)?;
        while text.len() as u64 > self.most {
            let count = document.decisions.len();
            if count < 2 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it is too large to be remembered",
                ));
            }
            // Several at a time, because each write replaces the whole file.
            (0..count.div_ceil(8)).for_each(|_| forget_one(&mut document.decisions));
            text = serde_json::to_vec_pretty(&document)?;
        }
        let directory = match self.path.parent() {
            Some(directory) if directory != Path::new("") => directory,
            _ => Path::new("."),
        };
        // Created with owner-only permissions, and renamed once it is complete.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        #[cfg(unix)]
        File::open(directory)?.sync_all()?;
        drop(lock);
        self.changed.notify_waiters();
        Ok(())
    }
}

impl TrustRecord {
    fn is_about(&self, subject: &Subject) -> bool {
        self.kind == subject.kind && self.place == subject.place
    }
}

/// Drops the oldest question, else the oldest answer, but not the newest record: many questions must not displace
/// answers.
fn forget_one(decisions: &mut Vec<TrustRecord>) {
    let Some((_, older)) = decisions.split_last() else {
        return;
    };
    let question = older.iter().position(|decided| decided.verdict == Verdict::Asked);
    if !older.is_empty() {
        decisions.remove(question.unwrap_or(0));
    }
}

fn changed(before: &[Piece], now: &[Piece]) -> TrustStatus {
    let only = |some: &[Piece], others: &[Piece]| {
        let missing = some.iter().filter(|piece| !others.contains(piece));
        missing.map(|piece| piece.what.clone()).collect()
    };
    TrustStatus::Changed {
        now: only(now, before),
        before: only(before, now),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            kind: TrustKind::Hooks,
            place: "/project".to_owned(),
        }
    }

    fn contents(commands: &[&str]) -> Contents {
        let mut contents = Contents::default();
        for command in commands {
            contents.add(format!("Stop: {command}"), command.as_bytes());
        }
        contents
    }

    fn file() -> (tempfile::TempDir, TrustFile) {
        let directory = tempfile::tempdir().unwrap();
        let file = TrustFile::new(directory.path().join("trust.json"));
        (directory, file)
    }

    #[test]
    fn p12_trust_covers_contents_and_changes_are_named() {
        let (_directory, file) = file();
        let first = contents(&["one", "two"]);
        assert_eq!(file.status(&subject(), &first).unwrap(), TrustStatus::Unknown);
        file.decide(&subject(), &first, Verdict::Trusted).unwrap();
        assert_eq!(file.status(&subject(), &first).unwrap(), TrustStatus::Trusted);
        // Another process reads the same.
        let other = TrustFile::new(file.path());
        assert_eq!(other.status(&subject(), &first).unwrap(), TrustStatus::Trusted);
        let second = contents(&["one", "three"]);
        let expected = TrustStatus::Changed {
            now: vec!["Stop: three".to_owned()],
            before: vec!["Stop: two".to_owned()],
        };
        assert_eq!(file.status(&subject(), &second).unwrap(), expected);
        let elsewhere = Subject {
            place: "/other".to_owned(),
            ..subject()
        };
        assert_eq!(file.status(&elsewhere, &first).unwrap(), TrustStatus::Unknown);
        let server = Subject {
            kind: TrustKind::McpServer,
            ..subject()
        };
        assert_eq!(file.status(&server, &first).unwrap(), TrustStatus::Unknown);
    }

    #[test]
    fn a_no_is_remembered_and_both_can_be_taken_back() {
        let (_directory, file) = file();
        let it = contents(&["one"]);
        file.decide(&subject(), &it, Verdict::Refused).unwrap();
        file.decide(&subject(), &it, Verdict::Asked).unwrap();
        assert_eq!(file.status(&subject(), &it).unwrap(), TrustStatus::Refused);
        assert_eq!(file.change_verdict("/project", Verdict::Trusted).unwrap(), 1);
        assert_eq!(file.status(&subject(), &it).unwrap(), TrustStatus::Trusted);
        assert_eq!(file.revoke("/project").unwrap(), 1);
        assert_eq!(file.revoke("/project").unwrap(), 0);
        assert_eq!(file.status(&subject(), &it).unwrap(), TrustStatus::Unknown);
    }

    #[test]
    fn a_damaged_file_trusts_nothing_and_is_left_alone() {
        let (_directory, file) = file();
        for text in ["{", r#"{"version":2,"decisions":[]}"#, ""] {
            std::fs::write(file.path(), text).unwrap();
            let it = contents(&["one"]);
            assert!(
                file.status(&subject(), &it)
                    .unwrap_err()
                    .to_string()
                    .contains("move it away")
            );
            assert!(file.decide(&subject(), &it, Verdict::Trusted).is_err());
            assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
        }
    }

    #[test]
    fn p12_the_trust_file_stays_readable_and_answers_outlive_questions() {
        let (_directory, file) = file();
        let most = 64 << 10;
        let file = TrustFile { most, ..file };
        let many: Vec<String> = (0..=MAX_PIECES).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(file.decide(&subject(), &contents(&many), Verdict::Asked).is_err());
        file.decide(&subject(), &contents(&["one"]), Verdict::Trusted).unwrap();
        let large = contents(&[&"x".repeat(most as usize / 2 - 1024)]);
        for place in ["/a", "/b", "/c"] {
            let other = Subject {
                place: place.to_owned(),
                ..subject()
            };
            file.decide(&other, &large, Verdict::Asked).unwrap();
        }
        assert!(std::fs::metadata(file.path()).unwrap().len() <= most);
        assert_eq!(
            file.status(&subject(), &contents(&["one"])).unwrap(),
            TrustStatus::Trusted
        );
        let places: Vec<String> = file
            .decisions()
            .unwrap()
            .into_iter()
            .map(|decided| decided.place)
            .collect();
        assert_eq!(places, ["/b", "/c", "/project"]);
        let huge = contents(&[&"x".repeat(most as usize)]);
        assert!(file.decide(&subject(), &huge, Verdict::Refused).is_err());
        assert_eq!(
            file.status(&subject(), &contents(&["one"])).unwrap(),
            TrustStatus::Trusted
        );
    }

    #[cfg(unix)]
    #[test]
    fn p12_the_trust_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let (directory, file) = file();
        file.decide(&subject(), &contents(&["one"]), Verdict::Trusted).unwrap();
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?}", entry.path());
        }
    }

    #[test]
    fn two_writers_lose_nothing_of_one_another() {
        let (_directory, file) = file();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for number in 0..8 {
                        let place = format!("/{writer}/{number}");
                        let subject = Subject { place, ..subject() };
                        file.decide(&subject, &contents(&["one"]), Verdict::Trusted).unwrap();
                    }
                });
            }
        });
        assert_eq!(file.decisions().unwrap().len(), 32);
    }
}
