//! Paths of tools, confined to the working directories of a session and, for reading, to a few others.
//!
//! [`ConfinedRoot`] keeps every path inside. This module chooses the root, tells the model what is wrong with a path, and
//! knows which files are secrets.
//!
//! Writing never goes through a hard link: a file is replaced under its name, and its other names keep the old content.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use innkeeper_std::{ConfinedPath, ConfinedRoot, Opened, TargetError, Walk, WalkEnd, WalkedFile, leads_outside};
use url::Url;

use super::ToolEnv;
use super::outcome::{link, quoted};
use super::secret::{self, SecretFiles};

/// The opened working directories of a session.
#[derive(Debug, Clone)]
pub(super) struct WorkingDirectories {
    roots: Vec<Arc<WorkingDirectory>>,
}

/// One opened working directory.
#[derive(Debug)]
struct WorkingDirectory {
    confined: Arc<ConfinedRoot>,
    is_first: bool,
    /// Paths below it, without symlinks, whose files are secrets whatever their names are.
    secrets: Vec<PathBuf>,
}

/// A path below a working directory.
#[derive(Debug, Clone)]
pub(super) struct ToolPath {
    directory: Arc<WorkingDirectory>,
    confined: ConfinedPath,
}

impl WorkingDirectories {
    /// Opens the working directories. Those that are gone or elsewhere are passed over, unless
    /// nothing is left.
    pub(super) fn open(env: &ToolEnv) -> Result<Self, String> {
        Self::open_with(env, &SecretFiles::default())
    }

    /// The same, where further files count as secrets.
    pub(super) fn open_with(env: &ToolEnv, secrets: &SecretFiles) -> Result<Self, String> {
        let opened = env.working_directories.iter().enumerate();
        let roots: Vec<_> = opened
            .filter_map(|(index, uri)| WorkingDirectory::open(uri, index == 0, secrets).map(Arc::new))
            // A path within a working directory is resolved there first.
            .chain(env.readable.iter().filter_map(|path| {
                let root = WorkingDirectory::open_path(path.clone(), false, secrets)?;
                Some(Arc::new(root))
            }))
            .collect();
        if roots.is_empty() && env.working_directories.is_empty() {
            return Err(
                "this session has no working directory, so there are no files to work with: ask the user to add \
                 one to the session"
                    .to_owned(),
            );
        }
        if roots.is_empty() {
            return Err(format!(
                "none of the session's working directories can be opened ({}): ask the user to choose another",
                env.working_directories.join(", ")
            ));
        }
        Ok(Self { roots })
    }

    /// Resolves the path of something that exists.
    pub(super) fn existing(&self, path: &str) -> Result<ToolPath, String> {
        let (directory, relative) = self.locate(path)?;
        match directory.confined.existing(&relative) {
            Ok(confined) => Ok(ToolPath { directory, confined }),
            Err(error) => Err(self.complaint(path, &error)),
        }
    }

    /// Resolves a path; without one, the first working directory.
    pub(super) fn existing_or_first(&self, path: Option<&str>) -> Result<ToolPath, String> {
        self.existing(path.unwrap_or("."))
    }

    /// Resolves the path of something that may not exist yet, nor the directories it is in.
    pub(super) fn target(&self, path: &str) -> Result<ToolPath, String> {
        let (directory, relative) = self.locate(path)?;
        match directory.confined.target(&relative) {
            Ok(confined) => Ok(ToolPath { directory, confined }),
            Err(TargetError::Dangling { link, .. }) => Err(format!(
                "{} is a link that leads nowhere: remove it, or name its target",
                quoted(&link.to_string_lossy())
            )),
            Err(TargetError::Dots) => Err(format!("{} makes no sense: give it without `..`", quoted(path))),
            Err(TargetError::Io(error)) => Err(self.complaint(path, &error)),
        }
    }

    /// Chooses the working directory, and what is left of the path.
    fn locate(&self, path: &str) -> Result<(Arc<WorkingDirectory>, PathBuf), String> {
        if path.contains('\0') {
            return Err("a path cannot have a NUL character".to_owned());
        }
        if path == "~" || path.starts_with("~/") {
            return Err(format!(
                "{} is not known here: `~` stands for nothing, give the full path",
                quoted(path)
            ));
        }
        let path = match Url::parse(path) {
            Ok(url) if url.scheme() == "file" => url
                .to_file_path()
                .map_err(|()| format!("{} is not a file of this machine", quoted(path)))?,
            _ => PathBuf::from(path),
        };
        if !path.is_absolute() {
            // Another directory in its place would be a surprise to the user.
            let first = self.roots.first().filter(|root| root.is_first);
            let first = first.ok_or_else(|| {
                format!(
                    "the first working directory cannot be opened: give {} in full, within {}",
                    quoted(&path.to_string_lossy()),
                    self.names()
                )
            })?;
            return Ok((Arc::clone(first), path));
        }
        for root in &self.roots {
            if let Some(rest) = root.confined.strip(&path) {
                return Ok((Arc::clone(root), rest.to_owned()));
            }
        }
        Err(self.outside(&path.to_string_lossy()))
    }

    fn complaint(&self, path: &str, error: &io::Error) -> String {
        let path_quoted = quoted(path);
        if leads_outside(error) {
            return self.outside(path);
        }
        match error.kind() {
            ErrorKind::NotFound => format!("there is no {path_quoted}: look for it with `glob` or `list_directory`"),
            ErrorKind::NotADirectory => format!("{path_quoted} goes through something that is not a directory"),
            _ => format!("{path_quoted} cannot be opened: {error}"),
        }
    }

    fn outside(&self, path: &str) -> String {
        format!(
            "{} is outside the session's working directories ({}): only files inside them can be used",
            quoted(path),
            self.names()
        )
    }

    fn names(&self) -> String {
        let names: Vec<_> = self
            .roots
            .iter()
            .map(|root| root.confined.path().display().to_string())
            .collect();
        names.join(", ")
    }
}

impl WorkingDirectory {
    fn open(uri: &str, is_first: bool, secrets: &SecretFiles) -> Option<Self> {
        let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
        Self::open_path(url.to_file_path().ok()?, is_first, secrets)
    }

    fn open_path(path: PathBuf, is_first: bool, secrets: &SecretFiles) -> Option<Self> {
        let confined = Arc::new(ConfinedRoot::open(path).ok()?);
        Some(Self {
            secrets: secrets.below(confined.canonical()),
            confined,
            is_first,
        })
    }
}

impl ToolPath {
    /// The path below the root.
    pub(super) fn confined(&self) -> &ConfinedPath {
        &self.confined
    }

    /// The handle of the working directory.
    pub(super) fn root_dir(&self) -> &Dir {
        self.confined.root().dir()
    }

    /// A path below this directory, by names that a walk returned.
    pub(super) fn join(&self, relative: &Path) -> Self {
        Self {
            directory: Arc::clone(&self.directory),
            confined: self.confined.join(relative),
        }
    }

    /// Whether it is a file with secrets, or looks like one. Nothing of it is told before the user has allowed it.
    pub(super) fn is_secret(&self) -> bool {
        let relative = self.confined.relative();
        secret::is_secret_file(relative) || self.directory.secrets.iter().any(|secret| secret == relative)
    }

    /// Whether it makes other programs run something, or is a file with secrets. A rule that allows changes below a
    /// directory does not cover it.
    pub(super) fn is_sensitive(&self) -> bool {
        self.is_secret() || secret::triggers_execution(self.confined.relative())
    }

    /// The path in rules for approvals: from the first working directory, or in full and without symlinks.
    pub(super) fn rule_path(&self) -> String {
        let parts = |path: &Path| {
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            parts.join("/")
        };
        match self.directory.is_first {
            true => parts(self.confined.relative()),
            false => parts(&self.confined.canonical()).replacen("//", "/", 1),
        }
    }

    /// The path for the handle of the working directory.
    pub(super) fn within(&self) -> &Path {
        self.confined.within()
    }

    /// The path for users and the model: from the first working directory, or in full.
    pub(super) fn label(&self) -> String {
        if self.directory.is_first {
            return self.within().display().to_string();
        }
        self.path().display().to_string()
    }

    /// The label between backticks.
    pub(super) fn quoted(&self) -> String {
        quoted(&self.label())
    }

    /// A Markdown link to it.
    pub(super) fn link(&self) -> String {
        link(&self.label(), &self.uri())
    }

    /// The full path. Only for messages, URIs and commands: files are opened through the handle.
    pub(super) fn path(&self) -> PathBuf {
        self.confined.path()
    }

    /// The URI.
    pub(super) fn uri(&self) -> String {
        Url::from_file_path(self.path()).map_or_else(|()| self.label(), String::from)
    }

    /// Opens the directory.
    pub(super) fn open_dir(&self) -> Result<Dir, String> {
        self.confined.open_dir().map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => format!("{} is not a directory", self.quoted()),
            _ => self.complaint(&error),
        })
    }

    /// Walks through the directory.
    pub(super) fn walk(
        &self,
        walk: Walk<'_>,
        visit: &mut dyn FnMut(&WalkedFile<'_>) -> ControlFlow<()>,
    ) -> Result<WalkEnd, String> {
        walk.run(&self.confined, visit).map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => format!("{} is not a directory", self.quoted()),
            _ => self.complaint(&error),
        })
    }

    /// Opens a regular file to read it.
    pub(super) fn open_file(&self) -> Result<fs::File, String> {
        match self.confined.open_file() {
            Ok(Opened::File(file)) => Ok(file),
            Ok(Opened::Directory) => Err(format!(
                "{} is a directory: use `list_directory` to look into it",
                self.quoted()
            )),
            Ok(Opened::Special) => Err(format!(
                "{} is neither a file nor a directory but a pipe, socket or device, which is never opened",
                self.quoted()
            )),
            Err(error) => Err(self.complaint(&error)),
        }
    }

    pub(super) fn complaint(&self, error: &io::Error) -> String {
        if leads_outside(error) {
            return format!("{} leads outside the session's working directories", self.quoted());
        }
        match error.kind() {
            ErrorKind::NotFound => format!("{} no longer exists", self.quoted()),
            ErrorKind::PermissionDenied => format!("the host may not open {} (permission denied)", self.quoted()),
            _ => format!("{} cannot be opened: {error}", self.quoted()),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Component;

    use innkeeper_std::read_whole;
    use proptest::prelude::*;

    use super::*;

    /// A working directory with links of all kinds, and a secret beside it.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::TempDir::new().expect("a directory");
        let root = dir.path();
        fs::create_dir_all(root.join("inside/a/b")).expect("a directory");
        fs::create_dir(root.join("outside")).expect("a directory");
        fs::write(root.join("outside/f"), "hush").expect("a file");
        fs::write(root.join("inside/a/f"), "fine").expect("a file");
        symlink("..", root.join("inside/a/up")).expect("a link");
        symlink("../outside", root.join("inside/out")).expect("a link");
        symlink("../../../outside", root.join("inside/a/b/out")).expect("a link");
        symlink(root.join("outside"), root.join("inside/full")).expect("a link");
        symlink("/", root.join("inside/root")).expect("a link");
        dir
    }

    fn env(dir: &Path, names: &[&str]) -> ToolEnv {
        let uri = |name: &&str| Url::from_file_path(dir.join(name)).expect("absolute").to_string();
        ToolEnv {
            readable: Vec::new(),
            working_directories: names.iter().map(uri).collect(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn no_path_leads_outside(
            parts in prop::collection::vec(
                prop::sample::select(vec!["..", ".", "a", "b", "f", "up", "out", "full", "root", "outside", "inside", "", "new"]),
                0..9,
            ),
            is_absolute in any::<bool>(),
        ) {
            let dir = tree();
            let places = WorkingDirectories::open(&env(dir.path(), &["inside"])).expect("opened");
            let mut path = parts.join("/");
            if is_absolute {
                path = format!("{}/inside/{path}", dir.path().display());
            }
            if let Ok(place) = places.existing(&path)
                && let Ok(file) = place.open_file()
            {
                let bytes = read_whole(file, 100).expect("read").expect("short");
                prop_assert_eq!(bytes, b"fine");
            }
            if let Ok(place) = places.target(&path) {
                let inside = fs::canonicalize(dir.path().join("inside")).expect("there");
                let mut real = inside.join(place.confined.relative());
                prop_assert!(place.confined.relative().components().all(|part| matches!(part, Component::Normal(_))));
                while !real.exists() {
                    real.pop();
                }
                prop_assert!(fs::canonicalize(real).expect("there").starts_with(inside));
            }
        }
    }

    #[test]
    fn a_relative_path_is_never_looked_for_in_another_directory() {
        let dir = tree();
        let places = WorkingDirectories::open(&env(dir.path(), &["gone", "inside"])).expect("opened");
        let problem = places.existing("a/f").expect_err("the first directory is gone");
        assert!(
            problem.contains("the first working directory cannot be opened"),
            "{problem}"
        );
        let full = dir.path().join("inside/a/f").display().to_string();
        let place = places.existing(&full).expect("in full it is found");
        assert_eq!(place.label(), full);
        assert!(WorkingDirectories::open(&env(dir.path(), &["gone"])).is_err());
    }
}
