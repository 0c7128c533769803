//! Malformed files, by accident and on purpose.

use std::fs;
use std::path::Path;

use crate::support::write;
use innkeeper_plugins::{Code, LoadState, Plugin, PluginSource, load_plugin};

const SKILL: &str = "---\nname: a\ndescription: Does a.\n---\nBody.\n";

fn load(root: &Path) -> Plugin {
    load_plugin(&PluginSource::new(root))
}

fn names(plugin: &Plugin) -> Vec<&str> {
    plugin
        .children
        .as_ref()
        .unwrap()
        .iter()
        .map(|child| child.name.as_str())
        .collect()
}

fn has(plugin: &Plugin, code: Code) -> bool {
    plugin.notes.iter().any(|note| note.code == code)
}

fn message(plugin: &Plugin) -> &str {
    match &plugin.load {
        LoadState::Degraded { message } | LoadState::Error { message } => message,
        LoadState::Loading | LoadState::Loaded => "",
    }
}

#[test]
fn a_directory_that_is_no_plugin_names_the_missing_file() {
    let temp = tempfile::tempdir().unwrap();
    let plugin = load(temp.path());
    assert!(matches!(plugin.load, LoadState::Error { .. }));
    assert_eq!(plugin.children.as_deref(), Some(&[][..]));
    assert!(message(&plugin).contains(".plugin/plugin.json"), "{}", message(&plugin));
    let plugin = load(&temp.path().join("nowhere"));
    assert!(matches!(plugin.load, LoadState::Error { .. }));
    write(temp.path(), ".claude-plugin/plugin.json", "{}");
    let plugin = load(&temp.path().join(".claude-plugin"));
    assert!(message(&plugin).contains("manifest"), "{}", message(&plugin));
}

#[cfg(unix)]
#[test]
fn d10_pipes_never_hold_up_a_scan() {
    let pipe = |path: &Path| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(status.success());
    };
    let temp = tempfile::tempdir().unwrap();
    pipe(&temp.path().join(".plugin/plugin.json"));
    assert!(matches!(load(temp.path()).load, LoadState::Error { .. }));

    let temp = tempfile::tempdir().unwrap();
    for path in [
        "skills/p/SKILL.md",
        "agents/p.md",
        "commands/p.md",
        "rules/p.md",
        "hooks.json",
        ".mcp.json",
    ] {
        pipe(&temp.path().join(path));
    }
    write(temp.path(), "skills/a/SKILL.md", SKILL);
    let plugin = load(temp.path());
    assert_eq!(names(&plugin), ["a"]);
    assert!(has(&plugin, Code::WrongKind));
    assert!(message(&plugin).contains("pipe"), "{}", message(&plugin));
}

#[cfg(unix)]
#[test]
fn d10_a_manifest_that_is_a_directory_or_a_link_outside_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir_all(temp.path().join("p/.plugin/plugin.json")).unwrap();
    let plugin = load(&temp.path().join("p"));
    assert!(
        message(&plugin).starts_with(".plugin/plugin.json: is a directory"),
        "{}",
        message(&plugin)
    );

    write(temp.path(), "secret.json", r#"{"name": "secret"}"#);
    crate::support::link(temp.path(), "q/.plugin/plugin.json", "../../secret.json");
    write(&temp.path().join("q"), "skills/a/SKILL.md", SKILL);
    let plugin = load(&temp.path().join("q"));
    assert!(matches!(plugin.load, LoadState::Error { .. }));
    assert_eq!(plugin.name, "q");
    assert!(names(&plugin).is_empty());
}

#[cfg(unix)]
#[test]
fn d14_d15_links_lead_nowhere_but_inside() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("p");
    write(temp.path(), "outside/SKILL.md", SKILL);
    write(temp.path(), "outside/x.md", SKILL);
    write(&root, "store/in/SKILL.md", SKILL);
    crate::support::link(&root, "skills/file/SKILL.md", temp.path().join("outside/SKILL.md"));
    crate::support::link(&root, "skills/dir", temp.path().join("outside"));
    crate::support::link(&root, "skills/absolute", root.join("store/in"));
    crate::support::link(&root, "agents", temp.path().join("outside"));
    crate::support::link(&root, "rules/x.md", temp.path().join("outside/x.md"));
    crate::support::link(&root, ".mcp.json", "/etc/passwd");
    let plugin = load(&root);
    assert_eq!(names(&plugin), ["a"], "{:?}", plugin.notes);
    assert!(plugin.children.as_ref().unwrap()[0].path.starts_with("skills/absolute"));
    let escapes = plugin.notes.iter().filter(|note| note.code == Code::PathEscape).count();
    assert_eq!(escapes, 5, "{:?}", plugin.notes);
}

#[cfg(unix)]
#[test]
fn d18_one_file_reached_in_two_ways_is_one_child() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "skills/a/SKILL.md", SKILL);
    crate::support::link(temp.path(), "skills/b", "a");
    crate::support::link(temp.path(), "commands/x.md", "y.md");
    write(temp.path(), "commands/y.md", "x");
    let plugin = load(temp.path());
    assert_eq!(names(&plugin), ["x", "a"]);
    assert_eq!(plugin.load, LoadState::Loaded);
}

#[test]
fn d11_manifests_of_any_size_and_depth_end_quickly() {
    for manifest in [
        format!("{{\"name\": \"{}\"}}", "x".repeat(50 * 1024 * 1024)),
        format!("{{\"name\": {}", "[".repeat(100_000)),
        format!("{{\"name\": {}", "{\"a\":".repeat(100_000)),
    ] {
        let temp = tempfile::tempdir().unwrap();
        write(temp.path(), ".plugin/plugin.json", &manifest);
        let plugin = load(temp.path());
        assert!(matches!(plugin.load, LoadState::Error { .. }));
        assert!(message(&plugin).len() < 500);
    }
}

#[test]
fn d32_d33_heads_of_any_size_and_depth_end_quickly() {
    let mut bomb = String::from("---\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    bomb.push_str("description: still here\n---\n");
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "skills/bomb/SKILL.md", bomb);
    write(
        temp.path(),
        "skills/deep/SKILL.md",
        format!("---\ndescription: d\nmetadata: {}\n---\n", "[".repeat(20_000)),
    );
    write(
        temp.path(),
        "skills/long/SKILL.md",
        format!("---\nname: no\ndescription: {}\n---\n", "x".repeat(70_000)),
    );
    let plugin = load(temp.path());
    let children = plugin.children.as_ref().unwrap();
    assert_eq!(names(&plugin), ["bomb", "deep", "long"]);
    assert_eq!(children[0].description.as_deref(), Some("still here"));
    assert_eq!(children[1].description.as_deref(), Some("d"));
    assert_eq!(
        children[2].description, None,
        "a head that does not end in time is not read"
    );
    assert_eq!(
        plugin.load,
        LoadState::Loaded,
        "none of it is a loss: {:?}",
        plugin.notes
    );
}

#[test]
fn d34_names_are_cleaned_for_lists_and_files_are_not() {
    let temp = tempfile::tempdir().unwrap();
    let name = format!("\"a\\nb\\u202E\\u0007{}\"", "x".repeat(10_000));
    write(
        temp.path(),
        "skills/s/SKILL.md",
        format!("---\nname: {name}\ndescription: d\n---\n"),
    );
    write(temp.path(), "agents/x\u{202e}y.md", "---\ndescription: d\n---\n");
    let plugin = load(temp.path());
    let names = names(&plugin);
    assert_eq!(names[0], "xy");
    assert!(plugin.children.as_ref().unwrap()[0].uri.contains("x%E2%80%AEy.md"));
    assert!(
        names[1].starts_with("a b x") && names[1].chars().count() == 257,
        "{}",
        names[1]
    );
}

#[test]
fn d12_directories_with_odd_names_have_proper_uris() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("a b#c?d%é");
    write(&root, "skills/x y/SKILL.md", "---\ndescription: d\n---\n");
    let plugin = load(&root);
    assert_eq!(plugin.name, "a b#c?d%é");
    assert!(plugin.uri.ends_with("/a%20b%23c%3Fd%25%C3%A9"), "{}", plugin.uri);
    let child = &plugin.children.as_ref().unwrap()[0];
    assert!(
        child.uri.starts_with(&plugin.uri) && child.uri.ends_with("/skills/x%20y/SKILL.md"),
        "{}",
        child.uri
    );
    assert_eq!(url::Url::parse(&plugin.uri).unwrap().to_file_path().unwrap(), root);
}

#[test]
fn d47_loading_starts_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let witness = temp.path().join("it-ran");
    let command = serde_json::json!(format!("touch {}", witness.display()));
    let root = temp.path().join("p");
    write(
        &root,
        ".mcp.json",
        format!(r#"{{"s": {{"command": "sh", "args": ["-c", {command}]}}}}"#),
    );
    write(
        &root,
        "hooks.json",
        format!(r#"{{"hooks": {{"SessionStart": [{{"command": {command}}}]}}}}"#),
    );
    let plugin = load(&root);
    assert_eq!(names(&plugin), ["hooks.json", "s"]);
    assert!(!witness.exists());
}

#[test]
fn an_edit_keeps_the_id_and_a_new_file_name_changes_it() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "agents/a.md", "---\nname: one\ndescription: d\n---\n");
    let id = load(temp.path()).children.unwrap()[0].id.clone();
    write(temp.path(), "agents/a.md", "---\nname: two\ndescription: e\n---\n");
    assert_eq!(load(temp.path()).children.unwrap()[0].id, id);
    fs::rename(temp.path().join("agents/a.md"), temp.path().join("agents/b.md")).unwrap();
    assert_ne!(load(temp.path()).children.unwrap()[0].id, id);
}

#[test]
fn parts_beyond_the_limits_are_named_as_missing() {
    let temp = tempfile::tempdir().unwrap();
    for number in 0..innkeeper_plugins::limits::MAX_ENTRIES + 1 {
        write(temp.path(), &format!("rules/{number}.x"), "");
    }
    write(temp.path(), "skills/a/SKILL.md", SKILL);
    let plugin = load(temp.path());
    assert!(has(&plugin, Code::Limit));
    assert!(matches!(plugin.load, LoadState::Degraded { .. }));
}

#[test]
fn files_made_to_be_slow_are_not() {
    let size = 60 * 1024;
    let heads = [
        "- ",
        "? ",
        "a: ",
        "a:\n ",
        "{a: ",
        "\"",
        "'",
        "!x ",
        "&a ",
        "*a ",
        "[a, ",
        "a,",
        "|\n",
        "# ",
        "%",
        ": ",
        "k\n",
        "name: x\n",
    ];
    let temp = tempfile::tempdir().unwrap();
    for (number, part) in heads.iter().enumerate() {
        let head = part.repeat(size / part.len());
        write(
            temp.path(),
            &format!("skills/s{number:02}/SKILL.md"),
            format!("---\n{head}\n---\n"),
        );
    }
    // One line, a million bytes, thousands of servers after a character that is not ASCII.
    let servers: Vec<String> = (0..40_000)
        .map(|number| format!("\"é{number}\":{{\"url\":\"x\"}}"))
        .collect();
    write(temp.path(), ".mcp.json", format!("{{{}}}", servers.join(",")));
    let plugin = load(temp.path());
    let children = plugin.children.as_ref().unwrap();
    assert_eq!(children.len(), heads.len() + innkeeper_plugins::limits::MAX_SERVERS);
    let last = children.last().unwrap().range.unwrap();
    assert!(last.end.character > last.start.character && last.start.line == 0);
    assert!(has(&plugin, Code::Limit));
}

/// Whether something is inside is decided when it is opened, not when it was looked at.
#[cfg(unix)]
#[test]
fn d21_a_directory_swapped_for_a_symlink_during_a_scan_leads_nowhere() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("p");
    write(temp.path(), "outside/SKILL.md", "---\nname: outside\n---\n");
    write(&root, "skills/a/SKILL.md", SKILL);
    crate::support::link(&root, "link", temp.path().join("outside"));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (a, link, aside) = (root.join("skills/a"), root.join("link"), root.join("aside"));
            while !is_done.load(Ordering::Relaxed) {
                fs::rename(&a, &aside).unwrap();
                fs::rename(&link, &a).unwrap();
                fs::rename(&a, &link).unwrap();
                fs::rename(&aside, &a).unwrap();
            }
        });
        for _ in 0..300 {
            let plugin = load(&root);
            assert!(!names(&plugin).contains(&"outside"), "{plugin:?}");
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn names_of_files_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt as _;

    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("agents");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join(std::ffi::OsStr::from_bytes(b"a\xff.md")),
        SKILL.replace("name: a\n", ""),
    )
    .unwrap();
    let plugin = load(temp.path());
    assert_eq!(names(&plugin), ["a\u{fffd}"]);
    assert!(plugin.children.unwrap()[0].uri.ends_with("/agents/a%FF.md"));
}

#[test]
fn d12_a_slash_at_the_end_makes_no_other_plugin() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "p/skills/a/SKILL.md", SKILL);
    let slashed = format!("{}/", temp.path().join("p").display());
    assert_eq!(load(Path::new(&slashed)), load(&temp.path().join("p")));
}
