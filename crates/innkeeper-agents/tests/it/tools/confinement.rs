//! Nothing outside the working directories is read or written, whatever a path looks like.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::tools::scene::{Scene, fifo, put};

/// Tries to read, list, search, write and edit a path that leads outside. Each must be refused, and nobody is asked.
async fn refused(scene: &Scene, path: &str) {
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
        let problem = scene.problem(tool, input).await;
        assert!(!problem.contains("hush"), "{tool} {path}: {problem}");
    }
}

async fn with_secret() -> Scene {
    let scene = Scene::new().await;
    put(&scene.outside.join("secret.txt"), "hush\n");
    scene
}

fn unharmed(scene: &Scene) {
    let left: Vec<_> = std::fs::read_dir(&scene.outside)
        .expect("a directory")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let content = std::fs::read_to_string(scene.outside.join("secret.txt")).expect("still there");
    assert_eq!(content, "hush\n");
}

#[tokio::test]
async fn dotdot_does_not_leave_the_root() {
    let scene = with_secret().await;
    scene.put("sub/a.txt", "fine\n");
    for path in [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "./../outside/secret.txt",
        "nowhere/../../outside/secret.txt",
    ] {
        refused(&scene, path).await;
    }
    let full = format!("{}/../outside/secret.txt", scene.inside.display());
    refused(&scene, &full).await;
    unharmed(&scene);
    let text = scene.text("read_file", json!({ "path": "sub/../sub/a.txt" })).await;
    assert_eq!(text, "     1\tfine\n", "dots that stay inside are fine");
}

#[tokio::test]
async fn absolute_paths_are_accepted_only_inside() {
    let scene = with_secret().await;
    scene.put("a.txt", "fine\n");
    let inside = scene.inside.join("a.txt").display().to_string();
    assert_eq!(
        scene.text("read_file", json!({ "path": inside })).await,
        "     1\tfine\n"
    );
    let uri = format!("file://{inside}");
    assert_eq!(scene.text("read_file", json!({ "path": uri })).await, "     1\tfine\n");
    let secret = scene.outside.join("secret.txt").display().to_string();
    for path in [
        secret.as_str(),
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "file:///etc/passwd",
    ] {
        refused(&scene, path).await;
    }
    // A directory whose name only begins alike is another one.
    put(Path::new(&format!("{}2/secret.txt", scene.inside.display())), "hush\n");
    refused(&scene, &format!("{}2/secret.txt", scene.inside.display())).await;
    unharmed(&scene);
}

#[tokio::test]
async fn symlinks_to_the_outside_are_rejected() {
    let scene = with_secret().await;
    symlink(scene.outside.join("secret.txt"), scene.inside.join("file")).expect("a link");
    symlink("../outside/secret.txt", scene.inside.join("relative")).expect("a link");
    symlink(&scene.outside, scene.inside.join("directory")).expect("a link");
    symlink("/proc/self/root", scene.inside.join("root")).expect("a link");
    symlink("/proc/self/cwd", scene.inside.join("cwd")).expect("a link");
    symlink("directory/secret.txt", scene.inside.join("twice")).expect("a link");
    for path in [
        "file",
        "relative",
        "directory/secret.txt",
        "directory",
        "root/etc/passwd",
        "cwd",
        "twice",
    ] {
        refused(&scene, path).await;
    }
    let problem = scene
        .problem("write_file", json!({ "path": "directory/new.txt", "content": "mine" }))
        .await;
    assert!(
        problem.contains("outside the session's working directories"),
        "{problem}"
    );
    let text = scene.text("glob", json!({ "pattern": "**/*" })).await;
    assert_eq!(text, "No file fits `**/*`.\n");
    let text = scene.text("search", json!({ "pattern": "hush" })).await;
    assert_eq!(text, "Nothing matches `hush`.\n");
    unharmed(&scene);
}

#[tokio::test]
async fn dangling_symlinks_are_not_written_through() {
    let scene = with_secret().await;
    symlink(scene.outside.join("new.txt"), scene.inside.join("outwards")).expect("a link");
    symlink("missing.txt", scene.inside.join("inwards")).expect("a link");
    symlink("loop", scene.inside.join("loop")).expect("a link");
    for path in ["outwards", "inwards", "loop", "inwards/deeper"] {
        refused(&scene, path).await;
    }
    unharmed(&scene);
}

#[tokio::test]
async fn symlinks_inside_are_followed_and_preserved() {
    let scene = Scene::new().await;
    scene.put("real/a.txt", "one\n");
    symlink("real", scene.inside.join("dir")).expect("a link");
    symlink("real/a.txt", scene.inside.join("file")).expect("a link");
    assert_eq!(
        scene.text("read_file", json!({ "path": "dir/a.txt" })).await,
        "     1\tone\n"
    );
    let edit = json!({ "path": "file", "old_string": "one", "new_string": "two" });
    let answer = scene.approved("edit_file", edit).await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(scene.get("real/a.txt"), "two\n");
    assert!(scene.inside.join("file").is_symlink(), "the link is still one");
}

/// A secret stays one under the name of a link.
#[tokio::test]
async fn a_symlink_does_not_hide_a_secret_file() {
    let scene = Scene::new().await;
    scene.put(".env", "TOKEN=hush\n");
    symlink(".env", scene.inside.join("notes.txt")).expect("a link");
    let call = scene.ask("read_file", json!({ "path": "notes.txt" })).await;
    scene
        .decide(&call, json!({ "approved": false, "reason": "denied" }))
        .await;
    assert!(!scene.answer().await.text.contains("hush"));
    let edit = json!({ "path": "notes.txt", "old_string": "TOKEN=hash", "new_string": "x" });
    let answer = scene.approved("edit_file", edit).await;
    assert!(answer.is_error, "{}", answer.text);
    assert!(!answer.text.contains("hush"), "no nearest lines: {}", answer.text);
}

/// Writing replaces the name inside; other names of the same file keep what they had.
#[tokio::test]
async fn writes_do_not_affect_other_hard_links() {
    let scene = with_secret().await;
    std::fs::hard_link(scene.outside.join("secret.txt"), scene.inside.join("hard")).expect("a link");
    let answer = scene
        .approved("write_file", json!({ "path": "hard", "content": "mine" }))
        .await;
    assert!(!answer.is_error, "{}", answer.text);
    assert_eq!(scene.get("hard"), "mine");
    unharmed(&scene);
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_rejected_without_blocking() {
    let scene = with_secret().await;
    fifo(&scene.inside.join("pipe"));
    fifo(&scene.inside.join(".gitignore"));
    symlink("/dev/zero", scene.inside.join("zero")).expect("a link");
    let _socket = std::os::unix::net::UnixListener::bind(scene.inside.join("socket")).expect("a socket");
    for path in ["pipe", "zero", "socket"] {
        refused(&scene, path).await;
    }
    let text = scene.text("search", json!({ "pattern": "hush" })).await;
    assert_eq!(
        text, "Nothing matches `hush`.\n",
        "an ignore file that is a pipe does not hold it up"
    );
    let text = scene.text("list_directory", json!({})).await;
    assert!(text.contains("pipe (neither file nor directory)"), "{text}");
}

#[tokio::test]
async fn unusual_paths_are_rejected() {
    let scene = with_secret().await;
    for path in [
        "a\0b",
        "..",
        "../",
        "//etc/passwd",
        "~/.ssh/id_rsa",
        "file://elsewhere/etc/passwd",
    ] {
        refused(&scene, path).await;
        assert!(!scene.inside.join(path.replace('\0', "")).join("secret.txt").exists());
    }
    let long = "a/".repeat(5000);
    refused(&scene, &long).await;
    unharmed(&scene);
}

/// Swaps a directory for a link to the outside and back, as fast as it can.
struct Swapping {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapping {
    fn start(scene: &Scene, name: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (path, real) = (scene.inside.join(name), scene.inside.join(format!("{name}.real")));
        let outside = scene.outside.clone();
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
    let scene = with_secret().await;
    scene.put("d/secret.txt", "fine\n");
    let swapping = Swapping::start(&scene, "d");
    for round in 0..60 {
        let answer = scene.call("read_file", json!({ "path": "d/secret.txt" })).await;
        assert!(!answer.text.contains("hush"), "{}", answer.text);
        let answer = scene.call("search", json!({ "pattern": "hush" })).await;
        assert!(!answer.text.contains("secret.txt"), "{}", answer.text);
        scene
            .begin(
                "write_file",
                json!({ "path": format!("d/new{round}.txt"), "content": "mine" }),
            )
            .await;
        // Sometimes the path leads outside already when the tool looks; then nobody is asked.
        match scene.question_or_end().await {
            Some(call) => scene.approve(&call).await,
            None => scene.answer().await,
        };
    }
    drop(swapping);
    unharmed(&scene);
}

#[tokio::test]
async fn cus28_skill_files_are_readable_but_not_writable_and_confined() {
    let scene = with_secret().await;
    let skill = scene.outside.with_file_name("skill");
    std::fs::create_dir_all(skill.join("scripts")).expect("a directory");
    put(&skill.join("scripts/ring.sh"), "echo ding\n");
    symlink("../outside/secret.txt", skill.join("out")).expect("a link");
    let file = skill.join("scripts/ring.sh").display().to_string();
    let read = scene.text("read_file", json!({ "path": file })).await;
    assert!(read.contains("echo ding"), "{read}");
    let listed = scene.text("list_directory", json!({ "path": skill })).await;
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
        let problem = scene.problem(tool, input).await;
        assert!(
            !problem.contains("hush") && problem.contains("outside"),
            "{tool}: {problem}"
        );
    }
    assert_eq!(std::fs::read_to_string(file).expect("there"), "echo ding\n");
    unharmed(&scene);
}
