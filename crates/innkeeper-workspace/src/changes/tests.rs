//! Changes in real repositories: every view, every kind of file, and every operation.

mod counts;
mod nested;
mod operations;
mod stores;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use innkeeper_host::changes::{
    ChangedFile, Changes as _, ChangesetSource, ChangesetView, ComputedChangeset, CountedChanges, OperationError,
    OperationRequest, OperationTarget, RecordedEdit, TurnMoment, TurnPhase,
};
use innkeeper_host::contents::content::ContentUri;
use innkeeper_host::contents::{ContentLimits, Contents as _, MemoryContents, content, content_name};
use innkeeper_host::resources::Content;
use serde_json::{Map, json};

use super::LocalChanges;
use crate::uri;

const SESSION: &str = "ahp-session:/one";

/// A repository with one commit, and the service.
struct TestRepository {
    directory: tempfile::TempDir,
    work: PathBuf,
    changes: LocalChanges,
    contents: Arc<MemoryContents>,
    edits: Vec<RecordedEdit>,
}

impl TestRepository {
    fn new() -> Self {
        let repository = Self::without_git();
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.git(&["config", "user.name", "Test"]);
        repository.git(&["config", "user.email", "test@example.org"]);
        repository.write("a.txt", "one\ntwo\nthree\n");
        repository.write("sub/b.txt", "b\n");
        repository.git(&["add", "."]);
        repository.git(&["commit", "--quiet", "-m", "First"]);
        repository
    }

    fn without_git() -> Self {
        let directory = tempfile::Builder::new().prefix("inn").tempdir().expect("a directory");
        let top = fs::canonicalize(directory.path()).expect("a path");
        let work = top.join("work tree");
        fs::create_dir(&work).expect("a directory");
        let contents = Arc::new(MemoryContents::new(ContentLimits {
            session_bytes: 1 << 20,
            total_bytes: 1 << 20,
        }));
        Self {
            changes: LocalChanges::new(top.join("data"), contents.clone(), environment()),
            directory,
            work,
            contents,
            edits: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    fn uri(&self, name: &str) -> String {
        uri::from_path(&self.path(name)).expect("a URI")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.work, arguments)
    }

    fn view(&self, source: ChangesetSource) -> ChangesetView {
        ChangesetView {
            session: SESSION.into(),
            directories: vec![uri::from_path(&self.work).expect("a URI")],
            source,
            edits: self.edits.as_slice().into(),
            title: "Fix it".to_owned(),
        }
    }

    async fn compute(&self, source: ChangesetSource) -> Result<ComputedChangeset, String> {
        self.changes.inner.compute(&self.view(source)).await
    }

    /// The names of the changed files, with their lines and the kind of change.
    async fn told(&self, source: ChangesetSource) -> Vec<String> {
        let computed = self.compute(source).await.expect("computed");
        computed.files.iter().map(|file| self.tell(file)).collect()
    }

    fn tell(&self, file: &ChangedFile) -> String {
        let name = |uri: &str| {
            let path = uri::to_path(uri).expect("a path");
            let path = path.strip_prefix(&self.work).expect("a file of the work tree");
            path.to_string_lossy().into_owned()
        };
        let side = |side: &innkeeper_host::changes::ChangedSide| name(&side.uri);
        let (before, after) = (file.before.as_ref().map(side), file.after.as_ref().map(side));
        let what = match (before, after) {
            (Some(before), Some(after)) if before == after => format!("M {after}"),
            (Some(before), Some(after)) => format!("R {before} {after}"),
            (None, Some(after)) => format!("A {after}"),
            (Some(before), None) => format!("D {before}"),
            (None, None) => "nothing".to_owned(),
        };
        match file.added.zip(file.removed) {
            Some((added, removed)) => format!("{what} +{added} -{removed}"),
            None => what,
        }
    }

    async fn content(&self, content: &str) -> String {
        let bytes = match ContentUri::parse(content).expect("a content") {
            ContentUri::Inline(bytes) => bytes,
            ContentUri::Change(name) => {
                let read = self.changes.read(SESSION, &name, 1 << 20).await;
                read.expect("readable").expect("published").bytes
            }
            other => panic!("{other:?}"),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    async fn turn(&self, turn: &str, phase: TurnPhase) -> Option<CountedChanges> {
        let moment = TurnMoment {
            session: SESSION.into(),
            directories: self.view(Session).directories,
            turn: turn.to_owned(),
            phase,
        };
        self.changes.record(moment).await
    }

    async fn invoke(
        &self,
        source: ChangesetSource,
        id: &str,
        target: Option<(&str, Option<(u64, u64)>)>,
    ) -> Result<String, OperationError> {
        self.invoke_with(source, id, target, Map::new()).await
    }

    async fn invoke_with(
        &self,
        source: ChangesetSource,
        id: &str,
        target: Option<(&str, Option<(u64, u64)>)>,
        values: Map<String, serde_json::Value>,
    ) -> Result<String, OperationError> {
        let view = self.view(source);
        let offered = self
            .changes
            .inner
            .compute(&view)
            .await
            .map_err(OperationError::Failed)?;
        assert!(offered.operations.iter().any(|offer| offer.id == id), "{id} is offered");
        let request = OperationRequest {
            id: id.to_owned(),
            target: target.map(|(name, lines)| OperationTarget {
                resource: self.uri(name),
                is_before: false,
                lines,
            }),
            values,
        };
        self.changes.invoke(view, request).await.map(|outcome| outcome.message)
    }
}

fn environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let mut environment: Vec<_> = std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        environment.push((name.into(), "/dev/null".into()));
    }
    environment
}

fn git_in(directory: &Path, arguments: &[&str]) -> String {
    let run = Command::new("git")
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(environment())
        .output()
        .expect("git runs");
    let problem = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "git {arguments:?}: {problem}");
    String::from_utf8_lossy(&run.stdout).trim_end().to_owned()
}

fn turn(turn: &str) -> ChangesetSource {
    ChangesetSource::Turn { turn: turn.to_owned() }
}

use ChangesetSource::{Branch, Session, Uncommitted};

#[tokio::test]
async fn chg08_every_kind_of_change_is_shown_with_both_sides() {
    let repository = TestRepository::new();
    repository.write("moved.txt", &"line\n".repeat(20));
    repository.write("gone.txt", "x\n");
    repository.write("run.sh", "#!/bin/sh\n");
    repository.git(&["add", "."]);
    repository.git(&["commit", "--quiet", "-m", "More"]);
    assert_eq!(repository.told(Uncommitted).await, [] as [&str; 0]);
    repository.write("a.txt", "one\n2\nthree\nfour\n");
    repository.write("new dir/ü.txt", "new\n");
    fs::write(repository.path("pixels"), [0, 1, 2, 0]).expect("a file");
    fs::remove_file(repository.path("gone.txt")).expect("removed");
    fs::rename(repository.path("moved.txt"), repository.path("elsewhere.txt")).expect("moved");
    fs::set_permissions(repository.path("run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    symlink("a.txt", repository.path("link")).expect("a symlink");
    let odd = repository.work.join(std::ffi::OsStr::from_bytes(b"odd\xff.txt"));
    fs::write(&odd, "odd\n").expect("a file");
    repository.write("ignored.log", "x\n");
    repository.write(".git/info/exclude", "*.log\n");
    let computed = repository.compute(Uncommitted).await.expect("computed");
    let mut told: Vec<String> = computed.files.iter().map(|file| repository.tell(file)).collect();
    told.sort_unstable();
    let expected = [
        "A link +1 -0",
        "A new dir/ü.txt +1 -0",
        "A odd\u{fffd}.txt +1 -0",
        "A pixels",
        "D gone.txt +0 -1",
        "M a.txt +2 -1",
        "M run.sh +0 -0",
        "R moved.txt elsewhere.txt +0 -0",
    ];
    assert_eq!(told, expected);
    let find = |name: &str| {
        computed
            .files
            .iter()
            .find(|file| repository.tell(file).contains(name))
            .expect(name)
    };
    let file = find("a.txt");
    assert_eq!(file.id(), repository.uri("a.txt"));
    let side = |side: &Option<innkeeper_host::changes::ChangedSide>| side.clone().expect("a side").content;
    assert_eq!(repository.content(&side(&file.before)).await, "one\ntwo\nthree\n");
    assert_eq!(repository.content(&side(&file.after)).await, "one\n2\nthree\nfour\n");
    assert_eq!(repository.content(&side(&find("link").after)).await, "a.txt");
    assert!(find("link").note.is_symlink && find("pixels").note.is_binary);
    assert_eq!(uri::to_path(find("odd").id()), Some(odd), "a name that is not UTF-8");
    let modes = find("run.sh");
    assert_ne!(
        modes.before.as_ref().map(|it| &it.mode),
        modes.after.as_ref().map(|it| &it.mode)
    );
    // Neither the index nor the objects of the repository changed, and other contents cannot be read.
    assert_eq!(repository.git(&["diff", "--cached", "--name-only"]), "");
    let tree = repository.git(&["rev-parse", "HEAD:run.sh"]);
    assert!(
        repository
            .changes
            .read("ahp-session:/other", &tree, 1 << 20)
            .await
            .expect("no error")
            .is_none()
    );
    let head = repository.git(&["rev-parse", "HEAD"]);
    assert!(
        repository
            .changes
            .read(SESSION, &head, 1 << 20)
            .await
            .expect("no error")
            .is_none()
    );
}

#[tokio::test]
async fn chg02_turns_and_sessions_show_all_changes_on_disk() {
    let repository = TestRepository::new();
    repository.write("before.txt", "not of the session\n");
    repository.turn("t1", TurnPhase::Before).await;
    assert_eq!(repository.told(turn("t1")).await, [] as [&str; 0], "it has just begun");
    repository.write("a.txt", "1\n");
    assert_eq!(repository.told(turn("t1")).await, ["M a.txt +1 -3"], "while it runs");
    repository.turn("t1", TurnPhase::After).await;
    repository.write("by hand.txt", "x\n");
    repository.turn("t2", TurnPhase::Before).await;
    repository.write("a.txt", "2\n");
    repository.turn("t2", TurnPhase::After).await;
    // A commit in between does not matter.
    repository.git(&["add", "."]);
    repository.git(&["commit", "--quiet", "-m", "All"]);
    repository.write("later.txt", "x\n");
    assert_eq!(repository.told(turn("t1")).await, ["M a.txt +1 -3"]);
    assert_eq!(repository.told(turn("t2")).await, ["M a.txt +1 -1"]);
    let turns = ChangesetSource::Turns {
        original: "t1".into(),
        modified: "t2".into(),
    };
    assert_eq!(repository.told(turns).await, ["M a.txt +1 -1", "A by hand.txt +1 -0"]);
    let all = ["M a.txt +1 -3", "A by hand.txt +1 -0", "A later.txt +1 -0"];
    assert_eq!(repository.told(Session).await, all);
    assert_eq!(repository.told(Uncommitted).await, ["A later.txt +1 -0"]);
    let problem = repository.compute(turn("no")).await.expect_err("unknown");
    assert!(problem.contains("not recorded"), "{problem}");
    // Another process finds the same.
    let data = repository.changes.inner.directory.clone();
    let again = TestRepository {
        changes: LocalChanges::new(data, repository.contents.clone(), environment()),
        ..repository
    };
    assert_eq!(again.told(turn("t1")).await, ["M a.txt +1 -3"]);
    again.changes.forget(SESSION).await;
    assert!(again.compute(turn("t1")).await.is_err());
    drop(again.directory);
}

#[tokio::test]
async fn chg02_a_branch_is_compared_with_its_base() {
    let repository = TestRepository::new();
    repository.git(&["checkout", "--quiet", "-b", "topic"]);
    repository.write("a.txt", "1\n");
    repository.git(&["commit", "--quiet", "-am", "Topic"]);
    repository.write("new.txt", "x\n");
    assert_eq!(repository.told(Branch).await, ["M a.txt +1 -3", "A new.txt +1 -0"]);
    assert_eq!(repository.told(Uncommitted).await, ["A new.txt +1 -0"]);
}

/// VS Code shows the view of the branch by default, also on a branch that all others leave.
#[tokio::test]
async fn chg02_a_branch_without_a_base_is_compared_with_its_last_commit() {
    let repository = TestRepository::new();
    assert!(repository.told(Branch).await.is_empty());
    repository.write("a.txt", "1\n");
    repository.write("new.txt", "x\n");
    assert_eq!(repository.told(Branch).await, ["M a.txt +1 -3", "A new.txt +1 -0"]);
    repository.git(&["commit", "--quiet", "-am", "Change"]);
    assert_eq!(repository.told(Branch).await, ["A new.txt +1 -0"]);
}

#[tokio::test]
async fn chg11_the_uncommitted_part_of_a_branch_is_committed() {
    let repository = TestRepository::new();
    repository.git(&["checkout", "--quiet", "-b", "topic"]);
    repository.write("a.txt", "1\n");
    repository.git(&["commit", "--quiet", "-am", "Topic"]);
    let first = |computed: ComputedChangeset| {
        let operation = computed.operations.into_iter().next().expect("an operation");
        (operation.id, operation.disabled.is_some())
    };
    assert_eq!(
        first(repository.compute(Branch).await.expect("computed")),
        ("commit", true)
    );
    // The same as on the base, so that only the last commit shows this change.
    repository.write("a.txt", "one\ntwo\nthree\n");
    repository.write("new.txt", "x\n");
    assert_eq!(
        first(repository.compute(Branch).await.expect("computed")),
        ("commit", false)
    );
    repository.invoke(Branch, "commit", None).await.expect("committed");
    assert_eq!(repository.told(Uncommitted).await, [] as [&str; 0]);
    assert_eq!(repository.told(Branch).await, ["A new.txt +1 -0"]);
    assert_eq!(
        first(repository.compute(Branch).await.expect("computed")),
        ("commit", true)
    );
    let nothing = repository
        .invoke(Branch, "commit", None)
        .await
        .expect_err("nothing to commit");
    assert!(matches!(nothing, OperationError::Conflict(_)), "{nothing:?}");
}

#[tokio::test]
async fn work_trees_submodules_and_subdirectories_are_covered() {
    let repository = TestRepository::new();
    let other = repository.directory.path().join("library");
    git_in(
        repository.directory.path(),
        &["clone", "--quiet", repository.work.to_str().expect("text"), "library"],
    );
    repository.git(&["submodule", "--quiet", "add", other.to_str().expect("text"), "vendored"]);
    repository.git(&["commit", "--quiet", "-m", "Submodule"]);
    repository.write("vendored/a.txt", "changed\n");
    repository.write("sub/b.txt", "B\n");
    let mut told = repository.told(Uncommitted).await;
    told.sort_unstable();
    assert_eq!(told, ["M sub/b.txt +1 -1", "M vendored/a.txt +1 -3"]);
    // A view of one directory shows no other.
    let view = ChangesetView {
        directories: vec![repository.uri("sub")],
        ..repository.view(Uncommitted)
    };
    let computed = repository.changes.inner.compute(&view).await.expect("computed");
    assert_eq!(
        computed
            .files
            .iter()
            .map(|file| repository.tell(file))
            .collect::<Vec<_>>(),
        ["M sub/b.txt +1 -1"]
    );
    // A work tree of the same repository has changes of its own.
    let linked = repository
        .changes
        .isolate(SESSION, &repository.uri("sub"))
        .await
        .expect("a work tree");
    let path = uri::to_path(&linked).expect("a path");
    assert_eq!(fs::read_to_string(path.join("b.txt")).expect("a file"), "b\n");
    fs::write(path.join("b.txt"), "other\n").expect("a file");
    let view = ChangesetView {
        directories: vec![linked],
        ..repository.view(Uncommitted)
    };
    let computed = repository.changes.inner.compute(&view).await.expect("computed");
    assert_eq!(computed.files.len(), 1, "{computed:?}");
    assert_eq!(uri::to_path(computed.files[0].id()), Some(path.join("b.txt")));
    assert_eq!(git_in(&path, &["branch", "--show-current"]), "innkeeper/one");
}

#[tokio::test]
async fn a_large_file_costs_little_and_is_never_lost() {
    let repository = TestRepository::new();
    let large = fs::File::create(repository.path("large")).expect("a file");
    large.set_len(2 << 30).expect("a sparse file");
    let begun = std::time::Instant::now();
    let computed = repository.compute(Uncommitted).await.expect("computed");
    assert!(begun.elapsed().as_secs() < 20, "it was not read");
    let [file] = computed.files.as_slice() else {
        panic!("{computed:?}")
    };
    assert!(file.note.is_omitted && file.added.is_none());
    let content = &file.after.as_ref().expect("a side").content;
    assert!(repository.content(content).await.contains("2147483648 bytes"));
    let first = file.fingerprint();
    large.set_len(1 << 30).expect("shorter");
    let computed = repository.compute(Uncommitted).await.expect("computed");
    assert_ne!(computed.files[0].fingerprint(), first, "a change of it is noticed");
    let refused = repository
        .invoke(Uncommitted, "discard", None)
        .await
        .expect_err("it cannot be stored");
    assert!(refused.message().contains("too large"), "{refused:?}");
    assert!(repository.path("large").exists());
    repository.write("a.txt", "1\n");
    let told = repository
        .invoke(Uncommitted, "commit", None)
        .await
        .expect("the rest is committed");
    assert!(told.contains("1 file cannot be stored"), "{told}");
    assert_eq!(repository.git(&["status", "--porcelain"]), "?? large");
}

#[tokio::test]
async fn ten_thousand_files_are_shown_and_more_are_counted() {
    let repository = TestRepository::new();
    for number in 0..10_050 {
        let name = format!("many/{}/{number}", number % 100);
        repository.write(&name, "x\n");
    }
    let computed = repository.compute(Uncommitted).await.expect("computed");
    assert_eq!(computed.files.len(), 10_000);
    let notice = computed.notice.expect("a notice");
    assert!(notice.starts_with("10050 files differ"), "{notice}");
}

#[tokio::test]
async fn locked_broken_and_missing_repositories_are_clear() {
    let repository = TestRepository::new();
    repository.write("a.txt", "1\n");
    fs::write(repository.path(".git/index.lock"), "").expect("a lock");
    assert_eq!(
        repository.told(Uncommitted).await,
        ["M a.txt +1 -3"],
        "a lock does not hinder a reader"
    );
    let refused = repository.invoke(Uncommitted, "stage", None).await.expect_err("locked");
    assert!(refused.message().contains("index.lock"), "{refused:?}");
    fs::remove_file(repository.path(".git/index.lock")).expect("unlocked");
    // A merge in progress.
    fs::write(repository.path(".git/MERGE_HEAD"), "").expect("a merge");
    let refused = repository
        .invoke(Uncommitted, "commit", None)
        .await
        .expect_err("a merge");
    assert!(refused.message().contains("in progress"), "{refused:?}");
    fs::remove_file(repository.path(".git/MERGE_HEAD")).expect("over");
    fs::write(repository.path(".git/HEAD"), "garbage").expect("damage");
    let problem = repository.compute(Uncommitted).await.expect_err("broken");
    assert!(problem.contains("git cannot read the repository"), "{problem}");
    fs::remove_dir_all(&repository.work).expect("removed");
    let problem = repository.compute(Uncommitted).await.expect_err("gone");
    assert!(problem.contains("cannot be read"), "{problem}");
}

#[tokio::test]
async fn no_program_of_the_repository_runs() {
    let repository = TestRepository::new();
    let mark = repository.directory.path().join("ran");
    let program = format!("touch '{}'; cat", mark.display());
    repository.write(".gitattributes", "*.txt filter=evil\n");
    for (key, value) in [
        ("filter.evil.clean", program.as_str()),
        ("filter.evil.smudge", &program),
        ("core.fsmonitor", &program),
        ("diff.external", &program),
    ] {
        repository.git(&["config", key, value]);
    }
    let hook = repository.path(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().expect("a parent")).expect("a directory");
    fs::write(&hook, format!("#!/bin/sh\n{program}\n")).expect("a hook");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
    repository.write("a.txt", "1\n");
    repository.turn("t", TurnPhase::Before).await;
    assert_eq!(repository.told(Uncommitted).await.len(), 2);
    repository.invoke(Uncommitted, "commit", None).await.expect("committed");
    repository.write("a.txt", "2\n");
    repository
        .invoke(Uncommitted, "discard", None)
        .await
        .expect("discarded");
    assert!(!mark.exists(), "a program of the repository ran");
}

#[tokio::test]
async fn chg11_discard_works_on_lines_files_and_everything() {
    let repository = TestRepository::new();
    let lines: String = (0..30).map(|number| format!("{number}\n")).collect();
    repository.write("a.txt", &lines);
    repository.git(&["commit", "--quiet", "-am", "Lines"]);
    repository.write(
        "a.txt",
        &lines.replace("\n3\n", "\nthree\n").replace("\n20\n", "\ntwenty\n"),
    );
    repository.write("sub/b.txt", "B\n");
    repository.write("new/c.txt", "c\n");
    repository
        .invoke(Uncommitted, "discard", Some(("a.txt", Some((20, 21)))))
        .await
        .expect("lines");
    assert_eq!(repository.read("a.txt"), Some(lines.replace("\n3\n", "\nthree\n")));
    let none = repository
        .invoke(Uncommitted, "discard", Some(("a.txt", Some((20, 21)))))
        .await;
    assert!(matches!(none, Err(OperationError::Conflict(_))), "{none:?}");
    repository
        .invoke(Uncommitted, "discard", Some(("sub/b.txt", None)))
        .await
        .expect("a file");
    assert_eq!(repository.read("sub/b.txt").as_deref(), Some("b\n"));
    repository
        .invoke(Uncommitted, "undo-discard", None)
        .await
        .expect("undone");
    assert_eq!(repository.read("sub/b.txt").as_deref(), Some("B\n"));
    repository
        .invoke(Uncommitted, "discard", None)
        .await
        .expect("everything");
    assert_eq!(repository.told(Uncommitted).await, [] as [&str; 0]);
    assert!(!repository.path("new").exists());
    repository
        .invoke(Uncommitted, "undo-discard", None)
        .await
        .expect("undone");
    let told = repository.told(Uncommitted).await;
    assert_eq!(told, ["M a.txt +1 -1", "A new/c.txt +1 -0", "M sub/b.txt +1 -1"]);
}

#[tokio::test]
async fn chg11_a_turn_is_reverted_beneath_later_changes_or_not_at_all() {
    let repository = TestRepository::new();
    let lines: String = (0..30).map(|number| format!("{number}\n")).collect();
    repository.write("a.txt", &lines);
    repository.git(&["mv", "sub/b.txt", "sub/c.txt"]);
    repository.git(&["commit", "--quiet", "-am", "Lines"]);
    repository.turn("t1", TurnPhase::Before).await;
    let first = lines.replace("\n3\n", "\nthree\n");
    repository.write("a.txt", &first);
    repository.write("made.txt", "x\n");
    fs::rename(repository.path("sub/c.txt"), repository.path("sub/d.txt")).expect("moved");
    repository.turn("t1", TurnPhase::After).await;
    repository.write("a.txt", &first.replace("\n20\n", "\ntwenty\n"));
    repository
        .invoke(turn("t1"), "revert", None)
        .await
        .expect("no conflict");
    assert_eq!(repository.read("a.txt"), Some(lines.replace("\n20\n", "\ntwenty\n")));
    assert_eq!(repository.read("made.txt"), None);
    assert_eq!(
        (repository.read("sub/c.txt").as_deref(), repository.read("sub/d.txt")),
        (Some("b\n"), None)
    );
    repository
        .invoke(turn("t1"), "undo-discard", None)
        .await
        .expect("undone");
    assert_eq!(repository.read("made.txt").as_deref(), Some("x\n"));
    repository.write("a.txt", &first.replace("three", "3.0"));
    let refused = repository
        .invoke(turn("t1"), "revert", None)
        .await
        .expect_err("a conflict");
    assert!(refused.message().contains("changed again"), "{refused:?}");
    assert_eq!(
        repository.read("made.txt").as_deref(),
        Some("x\n"),
        "nothing was touched"
    );
}

#[tokio::test]
async fn chg11_stage_commit_and_branch_work_with_git() {
    let repository = TestRepository::new();
    repository.write("a.txt", "1\n");
    repository.write("new.txt", "x\n");
    fs::remove_file(repository.path("sub/b.txt")).expect("removed");
    repository
        .invoke(Uncommitted, "stage", Some(("new.txt", None)))
        .await
        .expect("staged");
    assert_eq!(repository.git(&["diff", "--cached", "--name-only"]), "new.txt");
    let told = repository
        .invoke(Uncommitted, "create-branch", None)
        .await
        .expect("a branch");
    assert!(told.contains("innkeeper/fix-it"), "{told}");
    assert_eq!(repository.git(&["branch", "--show-current"]), "innkeeper/fix-it");
    let again = repository
        .invoke(Uncommitted, "create-branch", None)
        .await
        .expect_err("it exists");
    assert!(matches!(again, OperationError::Conflict(_)), "{again:?}");
    let values = json!({ "name": "a..b" }).as_object().cloned().expect("an object");
    let bad = repository
        .invoke_with(Uncommitted, "create-branch", None, values)
        .await
        .expect_err("no name");
    assert!(
        matches!(
            bad,
            OperationError::Invalid {
                field: "_meta.name",
                ..
            }
        ),
        "{bad:?}"
    );
    let values = json!({ "message": "Change things\n\nBecause." })
        .as_object()
        .cloned()
        .expect("an object");
    repository
        .invoke_with(Uncommitted, "commit", None, values)
        .await
        .expect("committed");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(
        repository.git(&["log", "-1", "--format=%B"]),
        "Change things\n\nBecause."
    );
    assert_eq!(repository.git(&["rev-list", "--count", "HEAD"]), "2");
    repository.write("a.txt", "2\n");
    repository.invoke(Uncommitted, "commit", None).await.expect("committed");
    assert_eq!(
        repository.git(&["log", "-1", "--format=%s"]),
        "Fix it",
        "the title of the session"
    );
    repository.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn chg11_an_isolated_session_is_applied_and_removed_on_request() {
    let mut repository = TestRepository::new();
    let main = repository.work.clone();
    let linked = repository
        .changes
        .isolate(SESSION, &repository.uri(""))
        .await
        .expect("a work tree");
    repository.work = uri::to_path(&linked).expect("a path");
    repository.turn("t1", TurnPhase::Before).await;
    repository.write("a.txt", "isolated\n");
    repository.write("new.txt", "x\n");
    assert_eq!(
        fs::read_to_string(main.join("a.txt")).expect("a file"),
        "one\ntwo\nthree\n"
    );
    fs::write(main.join("new.txt"), "in the way\n").expect("a file");
    let refused = repository.invoke(Session, "apply", None).await.expect_err("a conflict");
    assert!(refused.message().contains("nothing changed"), "{refused:?}");
    assert_eq!(
        fs::read_to_string(main.join("a.txt")).expect("a file"),
        "one\ntwo\nthree\n"
    );
    fs::remove_file(main.join("new.txt")).expect("out of the way");
    repository.invoke(Session, "apply", None).await.expect("applied");
    assert_eq!(fs::read_to_string(main.join("a.txt")).expect("a file"), "isolated\n");
    let refused = repository
        .invoke(Session, "remove-worktree", None)
        .await
        .expect_err("changes");
    assert!(refused.message().contains("not removed"), "{refused:?}");
    repository.invoke(Uncommitted, "commit", None).await.expect("committed");
    repository
        .invoke(Session, "remove-worktree", None)
        .await
        .expect("removed");
    assert!(!repository.work.exists());
    assert!(git_in(&main, &["branch", "--list", "innkeeper/one"]).contains("innkeeper/one"));
}

#[tokio::test]
async fn without_git_the_edits_of_tools_are_shown_and_reverted() {
    let mut repository = TestRepository::without_git();
    let keep = |text: &str, file: String| {
        let contents = repository.contents.clone();
        let bytes = text.as_bytes().to_vec();
        async move {
            let name = content_name(&bytes, None);
            let stored = Content {
                bytes,
                content_type: None,
            };
            contents.keep(SESSION, &name, stored).await.expect("stored");
            content::blob(&name, &file)
        }
    };
    let before = keep("one\ntwo\n", repository.uri("a.txt")).await;
    repository.write("a.txt", "one\n2\n3\n");
    repository.write("new.txt", "x\n");
    repository.write("command.txt", "not by a tool\n");
    for (name, before) in [("a.txt", Some(before)), ("new.txt", None)] {
        let (turn, file) = ("t1".to_owned(), repository.uri(name));
        repository.edits.push(RecordedEdit { turn, file, before });
    }
    assert_eq!(repository.told(Session).await, ["M a.txt +2 -1", "A new.txt +1 -0"]);
    assert_eq!(repository.told(turn("t1")).await, ["M a.txt +2 -1", "A new.txt +1 -0"]);
    repository.invoke(turn("t1"), "revert", None).await.expect("reverted");
    assert_eq!(
        (repository.read("a.txt").as_deref(), repository.read("new.txt")),
        (Some("one\ntwo\n"), None)
    );
    assert_eq!(repository.told(Session).await, [] as [&str; 0]);
    repository.invoke(Session, "undo-discard", None).await.expect("undone");
    assert_eq!(repository.read("a.txt").as_deref(), Some("one\n2\n3\n"));
}
