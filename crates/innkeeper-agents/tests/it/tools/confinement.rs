//! No path makes a tool read or write outside the working directories.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::tools::harness::{ToolHarness, fifo, put};

/// Tries to read, list, search, write and edit a path that leads outside. Every call must fail without a
/// confirmation.
async fn refused(harness: &ToolHarness, path: &str) {
    let attempts: [(&str, Value); 6] = [
        ("read_file", json!({ "path": path })),
        ("list_directory", json!({ "path": path })),
        ("search", json!({ "pattern": "hush", "path": path })),
        ("write_file", json!({ "path": path, "content": "mine" })),
        (
            "edit_file",
            json!({ "path": path, "old_string": "hush", "new_string": "mine" }),
        ),
        ("run_command", json!({ "command": "true", "directory": path })),
    ];
    for (tool, input) in attempts {
        let problem = harness.problem(tool, input).await;
        assert!(!problem.contains("hush"), "{tool} {path}: {problem}");
    }
}

async fn with_secret() -> ToolHarness {
    let harness = ToolHarness::new().await;
    put(&harness.outside.join("secret.txt"), "hush\n");
    harness
}

fn unharmed(harness: &ToolHarness) {
    let left: Vec<_> = std::fs::read_dir(&harness.outside)
        .expect("a directory")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let content = std::fs::read_to_string(harness.outside.join("secret.txt")).expect("still there");
    assert_eq!(content, "hush\n");
}

#[tokio::test]
async fn dotdot_does_not_leave_the_root() {
    let harness = with_secret().await;
    harness.put("sub/a.txt", "fine\n");
    for path in [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "./../outside/secret.txt",
        "nowhere/../../outside/secret.txt",
    ] {
        refused(&harness, path).await;
    }
    let full = format!("{}/../outside/secret.txt", harness.inside.display());
    refused(&harness, &full).await;
    unharmed(&harness);
    let text = harness.text("read_file", json!({ "path": "sub/../sub/a.txt" })).await;
    assert_eq!(text, "     1\tfine\n", "dots that stay inside are fine");
}

#[tokio::test]
async fn absolute_paths_are_accepted_only_inside() {
    let harness = with_secret().await;
    harness.put("a.txt", "fine\n");
    let inside = harness.inside.join("a.txt").display().to_string();
    assert_eq!(
        harness.text("read_file", json!({ "path": inside })).await,
        "     1\tfine\n"
    );
    let uri = format!("file://{inside}");
    assert_eq!(
        harness.text("read_file", json!({ "path": uri })).await,
        "     1\tfine\n"
    );
    let secret = harness.outside.join("secret.txt").display().to_string();
    for path in [
        secret.as_str(),
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "file:///etc/passwd",
    ] {
        refused(&harness, path).await;
    }
    // A directory with the same prefix in its name is a different one.
    put(
        Path::new(&format!("{}2/secret.txt", harness.inside.display())),
        "hush\n",
    );
    refused(&harness, &format!("{}2/secret.txt", harness.inside.display())).await;
    unharmed(&harness);
}

#[tokio::test]
async fn symlinks_to_the_outside_are_rejected() {
    let harness = with_secret().await;
    symlink(harness.outside.join("secret.txt"), harness.inside.join("file")).expect("a link");
    symlink("../outside/secret.txt", harness.inside.join("relative")).expect("a link");
    symlink(&harness.outside, harness.inside.join("directory")).expect("a link");
    symlink("/proc/self/root", harness.inside.join("root")).expect("a link");
    symlink("/proc/self/cwd", harness.inside.join("cwd")).expect("a link");
    symlink("directory/secret.txt", harness.inside.join("twice")).expect("a link");
    for path in [
        "file",
        "relative",
        "directory/secret.txt",
        "directory",
        "root/etc/passwd",
        "cwd",
        "twice",
    ] {
        refused(&harness, path).await;
    }
    let problem = harness
        .problem("write_file", json!({ "path": "directory/new.txt", "content": "mine" }))
        .await;
    assert!(
        problem.contains("outside the session's working directories"),
        "{problem}"
    );
    let text = harness.text("glob", json!({ "pattern": "**/*" })).await;
    assert_eq!(text, "No file fits `**/*`.\n");
    let text = harness.text("search", json!({ "pattern": "hush" })).await;
    assert_eq!(text, "Nothing matches `hush`.\n");
    unharmed(&harness);
}

#[tokio::test]
async fn dangling_symlinks_are_not_written_through() {
    let harness = with_secret().await;
    symlink(harness.outside.join("new.txt"), harness.inside.join("outwards")).expect("a link");
    symlink("missing.txt", harness.inside.join("inwards")).expect("a link");
    symlink("loop", harness.inside.join("loop")).expect("a link");
    for path in ["outwards", "inwards", "loop", "inwards/deeper"] {
        refused(&harness, path).await;
    }
    unharmed(&harness);
}

#[tokio::test]
async fn symlinks_inside_are_followed_and_preserved() {
    let harness = ToolHarness::new().await;
    harness.put("real/a.txt", "one\n");
    symlink("real", harness.inside.join("dir")).expect("a link");
    symlink("real/a.txt", harness.inside.join("file")).expect("a link");
    assert_eq!(
        harness.text("read_file", json!({ "path": "dir/a.txt" })).await,
        "     1\tone\n"
    );
    let edit = json!({ "path": "file", "old_string": "one", "new_string": "two" });
    let answer = harness.approved("edit_file", edit).await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(harness.get("real/a.txt"), "two\n");
    assert!(harness.inside.join("file").is_symlink(), "the link is still one");
}

/// A symlink to a secret file is a secret too.
#[tokio::test]
async fn a_symlink_does_not_hide_a_secret_file() {
    let harness = ToolHarness::new().await;
    harness.put(".env", "TOKEN=hush\n");
    symlink(".env", harness.inside.join("notes.txt")).expect("a link");
    let call = harness.ask("read_file", json!({ "path": "notes.txt" })).await;
    harness
        .decide(&call, json!({ "approved": false, "reason": "denied" }))
        .await;
    assert!(!harness.answer().await.text.contains("hush"));
    let edit = json!({ "path": "notes.txt", "old_string": "TOKEN=hash", "new_string": "x" });
    let answer = harness.approved("edit_file", edit).await;
    assert!(answer.is_error, "{}", answer.text);
    assert!(!answer.text.contains("hush"), "no nearest lines: {}", answer.text);
}

/// Writing replaces the name inside; other hard links keep the old content.
#[tokio::test]
async fn writes_do_not_affect_other_hard_links() {
    let harness = with_secret().await;
    std::fs::hard_link(harness.outside.join("secret.txt"), harness.inside.join("hard")).expect("a link");
    let answer = harness
        .approved("write_file", json!({ "path": "hard", "content": "mine" }))
        .await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(harness.get("hard"), "mine");
    unharmed(&harness);
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_rejected_without_blocking() {
    let harness = with_secret().await;
    fifo(&harness.inside.join("pipe"));
    fifo(&harness.inside.join(".gitignore"));
    symlink("/dev/zero", harness.inside.join("zero")).expect("a link");
    let _socket = std::os::unix::net::UnixListener::bind(harness.inside.join("socket")).expect("a socket");
    for path in ["pipe", "zero", "socket"] {
        refused(&harness, path).await;
    }
    let text = harness.text("search", json!({ "pattern": "hush" })).await;
    assert_eq!(
        text, "Nothing matches `hush`.\n",
        "an ignore file that is a pipe does not hold it up"
    );
    let text = harness.text("list_directory", json!({})).await;
    assert!(text.contains("pipe (neither file nor directory)"), "{text}");
}

#[tokio::test]
async fn unusual_paths_are_rejected() {
    let harness = with_secret().await;
    for path in [
        "a\0b",
        "..",
        "../",
        "//etc/passwd",
        "~/.ssh/id_rsa",
        "file://elsewhere/etc/passwd",
    ] {
        refused(&harness, path).await;
        assert!(!harness.inside.join(path.replace('\0', "")).join("secret.txt").exists());
    }
    let long = "a/".repeat(5000);
    refused(&harness, &long).await;
    unharmed(&harness);
}

/// Swaps a directory and a symlink to the outside as fast as possible.
struct Swapping {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapping {
    fn start(harness: &ToolHarness, name: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (path, real) = (harness.inside.join(name), harness.inside.join(format!("{name}.real")));
        let outside = harness.outside.clone();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::fs::rename(&path, &real).expect("away");
                symlink(&outside, &path).expect("a link");
                std::fs::remove_file(&path).expect("the link");
                std::fs::rename(&real, &path).expect("back");
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[tokio::test]
async fn swapping_a_directory_for_a_symlink_never_leads_outside() {
    let harness = with_secret().await;
    harness.put("d/secret.txt", "fine\n");
    let swapping = Swapping::start(&harness, "d");
    for round in 0..60 {
        let answer = harness.call("read_file", json!({ "path": "d/secret.txt" })).await;
        assert!(!answer.text.contains("hush"), "{}", answer.text);
        let answer = harness.call("search", json!({ "pattern": "hush" })).await;
        assert!(!answer.text.contains("secret.txt"), "{}", answer.text);
        harness
            .begin(
                "write_file",
                json!({ "path": format!("d/new{round}.txt"), "content": "mine" }),
            )
            .await;
        // If the path leads outside at first, the call fails without a confirmation.
        match harness.question_or_end().await {
            Some(call) => harness.approve(&call).await,
            None => harness.answer().await,
        };
    }
    drop(swapping);
    unharmed(&harness);
}

#[tokio::test]
async fn cus28_skill_files_are_readable_but_not_writable_and_confined() {
    let harness = with_secret().await;
    let skill = harness.outside.with_file_name("skill");
    std::fs::create_dir_all(skill.join("scripts")).expect("a directory");
    put(&skill.join("scripts/ring.sh"), "echo ding\n");
    symlink("../outside/secret.txt", skill.join("out")).expect("a link");
    let file = skill.join("scripts/ring.sh").display().to_string();
    let read = harness.text("read_file", json!({ "path": file })).await;
    assert!(read.contains("echo ding"), "{read}");
    let listed = harness.text("list_directory", json!({ "path": skill })).await;
    assert!(listed.contains("scripts/"), "{listed}");
    for (tool, input) in [
        ("write_file", json!({ "path": file, "content": "mine" })),
        (
            "edit_file",
            json!({ "path": file, "old_string": "ding", "new_string": "dong" }),
        ),
        ("run_command", json!({ "command": "true", "directory": skill })),
        ("read_file", json!({ "path": skill.join("out") })),
        ("read_file", json!({ "path": skill.join("../outside/secret.txt") })),
    ] {
        let problem = harness.problem(tool, input).await;
        assert!(
            !problem.contains("hush") && problem.contains("outside"),
            "{tool}: {problem}"
        );
    }
    assert_eq!(std::fs::read_to_string(file).expect("there"), "echo ding\n");
    unharmed(&harness);
}
