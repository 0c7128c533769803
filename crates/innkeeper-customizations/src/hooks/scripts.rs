//! Finds the files that hooks would run, and computes their digests. The author of the commands may be hostile, so each
//! search is limited, and content beyond the limits is not trusted.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::SourcedHooks;
use super::consent::visible;
use super::shell_words::{Role, Words};
use innkeeper_plugins::CommandLine;

/// Maximum number of paths that one search tries, of directories in which the words of one command are searched, and of
/// files of a plugin.
const MAX_TRIES: usize = 20_000;
const MAX_PLACES: usize = 16;
const MAX_FILES: usize = 4_000;
/// Maximum bytes that one search reads.
const MAX_BYTES: u64 = 64 << 20;

/// Files that one search has read, so that it reads none twice.
#[derive(Debug)]
pub(crate) struct ScriptDigests {
    digests: HashMap<PathBuf, Option<Vec<u8>>>,
    tries: usize,
    bytes: u64,
    most: u64,
}

impl Default for ScriptDigests {
    fn default() -> Self {
        Self {
            digests: HashMap::new(),
            tries: 0,
            bytes: 0,
            most: MAX_BYTES,
        }
    }
}

impl ScriptDigests {
    /// The files that a command runs, of those of its origin. Files that they load in turn are not searched.
    pub(super) fn scripts(
        &mut self,
        file: &SourcedHooks,
        command: &CommandLine,
    ) -> Result<Vec<(String, Vec<u8>)>, String> {
        let bases = [file.root.as_deref(), file.origin.workspace()].into_iter().flatten();
        let bases: Vec<&Path> = bases.collect();
        self.named(&bases, &words(command))
    }

    /// The files below some directories that words name and that may run, with digests of their content.
    pub(crate) fn named(&mut self, bases: &[&Path], words: &Words) -> Result<Vec<(String, Vec<u8>)>, String> {
        let bases: Vec<PathBuf> = bases.iter().filter_map(|base| base.canonicalize().ok()).collect();
        let mut places = bases.clone();
        let mut found: BTreeSet<PathBuf> = BTreeSet::new();
        // A directory comes before its files, as in `cd scripts && ./run`.
        for (word, role) in words.iter() {
            for place in places.clone() {
                for name in names(word, &place) {
                    self.tries += 1;
                    if self.tries > MAX_TRIES {
                        return Err("their commands have too many words to look for files among them".to_owned());
                    }
                    let Ok(path) = place.join(name).canonicalize() else {
                        continue;
                    };
                    if !bases.iter().any(|base| path.starts_with(base)) {
                        continue;
                    }
                    if path.is_file() {
                        if may_run(&path, role) {
                            found.insert(path);
                        }
                    } else if path.is_dir() && !places.contains(&path) {
                        if places.len() >= MAX_PLACES {
                            return Err("one of their commands names too many directories".to_owned());
                        }
                        places.push(path);
                    }
                }
            }
        }
        let mut digests = Vec::new();
        for path in found {
            let shown = bases.iter().find_map(|base| path.strip_prefix(base).ok());
            if let (Some(shown), Some(digest)) = (shown, self.digest_of(&path)?) {
                digests.push((visible(&shown.to_string_lossy()), digest));
            }
        }
        Ok(digests)
    }

    /// The number of files of a plugin, and the digest of all of them with their names. No file counts as data here: a
    /// script may load any of them, and their publisher is not trusted.
    pub(crate) fn everything(&mut self, root: &Path) -> Result<(usize, Vec<u8>), String> {
        let unread = |error: std::io::Error| format!("not all files of the plugin can be read ({error})");
        let root = root.canonicalize().map_err(unread)?;
        let (mut files, mut directories, mut seen) = (BTreeSet::new(), vec![root.clone()], 0);
        while let Some(directory) = directories.pop() {
            for entry in directory.read_dir().map_err(unread)? {
                let path = entry.map_err(unread)?.path();
                seen += 1;
                if seen > MAX_FILES {
                    return Err(format!("the plugin has more than {MAX_FILES} files"));
                }
                // A symlink counts as its target, which must be part of the plugin.
                let real = path.canonicalize().map_err(unread)?;
                if !real.starts_with(&root) {
                    return Err("the plugin has links that lead out of it".to_owned());
                }
                match path.symlink_metadata().map_err(unread)?.is_dir() {
                    true => directories.push(path),
                    false => drop(files.insert((path, real))),
                }
            }
        }
        let mut all = Sha256::new();
        for (path, real) in &files {
            let name = path.strip_prefix(&root).unwrap_or(path).as_os_str().as_encoded_bytes();
            all.update((name.len() as u64).to_le_bytes());
            all.update(name);
            // The target of a symlink to a directory counts by itself.
            let digest = match real.is_file() {
                true => self.digest_of(real)?.ok_or("not all files of the plugin can be read")?,
                false => real
                    .strip_prefix(&root)
                    .unwrap_or(real)
                    .as_os_str()
                    .as_encoded_bytes()
                    .to_vec(),
            };
            all.update((digest.len() as u64).to_le_bytes());
            all.update(digest);
        }
        Ok((files.len(), all.finalize().to_vec()))
    }

    /// The digest of a file; `None` if it cannot be read.
    fn digest_of(&mut self, path: &Path) -> Result<Option<Vec<u8>>, String> {
        if let Some(known) = self.digests.get(path) {
            return Ok(known.clone());
        }
        let digest = File::open(path).and_then(|mut file| {
            let (mut digest, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
            while self.bytes <= self.most {
                match file.read(&mut buffer)? {
                    0 => break,
                    read => {
                        self.bytes += read as u64;
                        digest.update(buffer.get(..read).unwrap_or_default());
                    }
                }
            }
            Ok(digest.finalize().to_vec())
        });
        if self.bytes > self.most {
            return Err(format!(
                "the files that they run have more than {} MiB",
                MAX_BYTES >> 20
            ));
        }
        let digest = digest.ok();
        self.digests.insert(path.to_owned(), digest.clone());
        Ok(digest)
    }
}

/// The words of a hook's command. A directory comes before its files.
pub(super) fn words(command: &CommandLine) -> Words {
    let mut words = Words::default();
    command.cwd.iter().for_each(|cwd| words.surrounding(cwd));
    match (&command.args, command.here()) {
        (Some(args), Some(program)) => words.program(std::iter::once(program).chain(args.iter().map(String::as_str))),
        (None, Some(line)) => words.line(line),
        (_, None) => {}
    }
    command.env.values().for_each(|value| words.surrounding(value));
    words
}

/// Whether a command runs a file of a directory by its name from there, as in `sh scripts/check.sh`.
pub(crate) fn runs_from(directory: &Path, words: &Words) -> bool {
    let Ok(directory) = directory.canonicalize() else {
        return false;
    };
    words.iter().any(|(word, role)| {
        let named = Path::new(word)
            .is_relative()
            .then(|| directory.join(word).canonicalize());
        let found = named.and_then(Result::ok);
        found.is_some_and(|path| path.starts_with(&directory) && path.is_file() && may_run(&path, role))
    })
}

/// Whether a file that a command names may run or be loaded. Only files with a known data format are excluded.
fn may_run(path: &Path, role: Role) -> bool {
    let has_no_sign = || match path.extension() {
        Some(_) => has_extension(path, DATA) || has_extension(path, RECORDS),
        None => role == Role::Given,
    };
    role == Role::Runs || is_program(path) || !has_no_sign()
}

/// File name endings of data, which does not run.
const RECORDS: &[&str] = &[
    "bak", "db", "db-shm", "db-wal", "err", "jsonl", "lock", "log", "ndjson", "out", "pid", "sqlite", "sqlite3",
    "stamp", "tmp",
];
const DATA: &[&str] = &[
    "csv", "dat", "htm", "html", "json", "md", "pdf", "png", "svg", "tsv", "txt",
];

fn has_extension(path: &Path, known: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| known.iter().any(|known| known.eq_ignore_ascii_case(extension)))
}

/// Whether a file is executable by its content.
fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    let may_be_run = {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata()
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
    };
    #[cfg(not(unix))]
    let may_be_run = false;
    let mut start = [0; 2];
    may_be_run || File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && &start == b"#!")
}

/// The paths that a word may mean in a directory: the word itself, and the word without a leading directory that only a
/// shell knows, as in `${CLAUDE_PROJECT_DIR:-.}/x` or `$(pwd)/x`.
fn names(word: &str, place: &Path) -> Vec<PathBuf> {
    let mut names = vec![PathBuf::from(&*super::expand(word, place, place))];
    let rest = match word.strip_prefix('$') {
        Some(braced) if braced.starts_with('{') => braced.split_once('}').map(|(_, rest)| rest),
        Some(bare) => Some(bare.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')),
        None => Some(word).filter(|word| word.starts_with('/')),
    };
    let rest = rest
        .map(|rest| rest.trim_start_matches('/'))
        .filter(|rest| !rest.is_empty());
    names.extend(rest.map(PathBuf::from));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovered::Origin;

    fn found(command: &str, files: &[&str]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let settings = serde_json::json!({ "hooks": { "Stop": [{ "command": command }] } });
        std::fs::create_dir(directory.path().join(".claude")).unwrap();
        std::fs::write(directory.path().join(".claude/settings.json"), settings.to_string()).unwrap();
        let sources = innkeeper_plugins::Sources {
            workspaces: vec![directory.path().to_owned()],
            ..innkeeper_plugins::Sources::default()
        };
        let tree = innkeeper_plugins::scan(&sources);
        let source = Origin::Workspace(directory.path().into());
        let file = tree
            .entries
            .iter()
            .flat_map(|entry| SourcedHooks::of_entry(entry, &source, None));
        let file = file.last().unwrap();
        let innkeeper_plugins::HookAction::Command(command) = &file.file.hooks[0].action else {
            panic!("a command")
        };
        let scripts = ScriptDigests::default().scripts(&file, command).unwrap();
        scripts.into_iter().map(|(shown, _)| shown).collect()
    }

    #[cfg(unix)]
    #[test]
    fn p12_scripts_are_found_however_their_names_are_written() {
        for (command, file) in [
            ("sh scripts/run.sh", "scripts/run.sh"),
            ("sh 'my scripts/run it.sh'", "my scripts/run it.sh"),
            ("sh \"my scripts/run it.sh\" now", "my scripts/run it.sh"),
            ("sh my\\ scripts/it\\'s.sh", "my scripts/it's.sh"),
            ("\"$CLAUDE_PROJECT_DIR\"/'my run.sh'", "my run.sh"),
            ("${CLAUDE_PROJECT_DIR:-.}/run.sh", "run.sh"),
            ("$(pwd)/run.sh", "run.sh"),
            ("bash -c \"cd 'my scripts' && ./run.sh\"", "my scripts/run.sh"),
            ("node --require=scripts/run.js", "scripts/run.js"),
        ] {
            assert_eq!(found(command, &[file]), [file], "{command}");
        }
    }

    #[test]
    fn p12_contents_beyond_the_limits_are_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let big = File::create(directory.path().join("big")).unwrap();
        let few = || ScriptDigests {
            most: 1000,
            ..ScriptDigests::default()
        };
        big.set_len(1001).unwrap();
        let why = few().everything(directory.path()).unwrap_err();
        assert!(why.contains("MiB"), "{why}");
        big.set_len(999).unwrap();
        let mut looked = few();
        looked.everything(directory.path()).unwrap();
        looked.everything(directory.path()).unwrap();
        assert_eq!(looked.bytes, 999, "read once");
    }
}
