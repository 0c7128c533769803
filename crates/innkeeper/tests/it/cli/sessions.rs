//! `innkeeper sessions` shows the same sessions with and without a host.

use std::time::Instant;

use serde_json::Value;

use super::support::{Home, TIMEOUT};

/// The bits of a session's status that say that something runs in it.
const IN_PROGRESS: u64 = ahp_types::state::SessionStatus::InProgress.bits() as u64;

/// A home whose host has come and gone, and left a session behind.
fn home_with_a_session() -> (Home, String) {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "hello there"]).code(0);
    let uri = only_session(&home);
    host.stop().code(0);
    (home, uri)
}

/// Asks again until something is so.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "it never came to be");
    }
}

fn only_session(home: &Home) -> String {
    let sessions = home.run(&["sessions", "list", "--json"]).code(0).json_lines();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions[0]["resource"].as_str().unwrap().to_owned()
}

#[test]
fn sessions_are_listed_with_and_without_a_host() {
    let home = Home::new();
    let host = home.host(&[]);
    for _ in 0..3 {
        home.run(&["send", "hello"]).code(0);
    }
    let bare = home.run(&["sessions", "--json"]).code(0).stdout;
    let online = home.run(&["sessions", "list", "--json"]).code(0).stdout;
    assert_eq!(bare, online);
    host.stop().code(0);
    let offline = home.run(&["sessions", "list", "--json"]).code(0);
    assert_eq!(offline.stdout, online, "the same lines without a host");
    assert_eq!(home.run(&["sessions"]).code(0).stdout.lines().count(), 4);
    let two = home.run(&["sessions", "list", "--json", "--limit", "2"]).code(0);
    assert_eq!(
        two.stdout.lines().collect::<Vec<_>>(),
        online.lines().take(2).collect::<Vec<_>>()
    );
    let none = home.run(&["sessions", "list", "--json", "--archived"]).code(0);
    assert_eq!(none.stdout, "");
}

#[test]
fn a_session_is_shown_with_and_without_a_host() {
    let (home, uri) = home_with_a_session();
    let last_part = uri.rsplit('/').next().unwrap().to_owned();
    let offline = home.run(&["sessions", "show", &last_part]).code(0);
    for expected in ["agent      tour", "> hello there", uri.as_str()] {
        assert!(
            offline.stdout.contains(expected),
            "{expected:?} is missing in {offline:#?}"
        );
    }
    let _host = home.host(&[]);
    let online = home.run(&["sessions", "show", &last_part[..8]]).code(0);
    assert!(online.stdout.contains("> hello there"), "{online:?}");
    let json = home
        .run(&["sessions", "show", &uri, "--json", "--turns", "1"])
        .code(0)
        .json_lines();
    assert_eq!(json[0]["session"], *uri);
    assert_eq!(json[0]["state"]["provider"], "tour");
    assert_eq!(json[0]["chats"][0]["turns"][0]["message"]["text"], "hello there");
}

#[test]
fn ambiguous_session_prefix_is_rejected() {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "one"]).code(0);
    home.run(&["send", "two"]).code(0);
    home.run(&["sessions", "show", "ahp-session:/"])
        .code(2)
        .says("may be any of");
    home.run(&["sessions", "show", "nothing-like-it"])
        .code(5)
        .says("there is no session");
    host.stop().code(0);
    home.run(&["sessions", "show", "ahp-session:/"])
        .code(2)
        .says("may be any of");
    home.run(&["sessions", "delete", "--yes", "nothing-like-it"])
        .code(5)
        .says("there is no session");
}

#[test]
fn an_export_is_imported_elsewhere_and_exported_again_byte_by_byte() {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "hello"]).code(0);
    home.run(&["send", "/stream 50"]).code(0);
    // A host that runs is no obstacle, and what it acknowledged is in there.
    let file = home.path("all.jsonl");
    home.run(&["sessions", "export", "--all", "-o", file.to_str().unwrap()])
        .code(0)
        .says("2 sessions");
    host.stop().code(0);
    let exported = home.run(&["sessions", "export", "--all"]).code(0).stdout;

    let elsewhere = Home::new();
    let copy = elsewhere.write("copy.jsonl", &exported);
    let imported = elsewhere.run(&["sessions", "import", copy.to_str().unwrap()]).code(0);
    assert_eq!(imported.stdout.lines().count(), 2, "{imported:?}");
    assert_eq!(elsewhere.run(&["sessions", "export", "--all"]).code(0).stdout, exported);

    // Nothing is overwritten, and nothing is left half imported.
    elsewhere
        .run(&["sessions", "import", copy.to_str().unwrap()])
        .code(5)
        .says("--as URI");
    let torn = elsewhere.write("torn.jsonl", &exported[..exported.len() / 3]);
    elsewhere.run(&["sessions", "import", torn.to_str().unwrap()]).code(5);
    let empty = elsewhere.write("empty.jsonl", "");
    elsewhere
        .run(&["sessions", "import", empty.to_str().unwrap()])
        .code(5)
        .says("no session");
    assert_eq!(elsewhere.run(&["sessions", "export", "--all"]).code(0).stdout, exported);

    // The host there goes on with them, from standard input or not.
    let _host = elsewhere.host(&[]);
    let uri = home.run(&["sessions", "--json"]).code(0).json_lines()[0]["resource"]
        .as_str()
        .unwrap()
        .to_owned();
    elsewhere.run(&["send", "--session", &uri, "hello again"]).code(0);
}

#[test]
fn a_session_is_imported_under_another_name_beside_the_old_one() {
    use std::io::Write as _;
    let (home, uri) = home_with_a_session();
    let exported = home.run(&["sessions", "export", &uri]).code(0).stdout;
    let mut import = home.spawn_piped(&["sessions", "import", "-", "--as", "ahp-session:/copy"]);
    import.stdin.as_mut().unwrap().write_all(exported.as_bytes()).unwrap();
    import.stdin = None;
    let imported = import.wait().code(0);
    assert!(
        imported.stdout.starts_with("imported ahp-session:/copy"),
        "{imported:?}"
    );
    let shown = home
        .run(&["sessions", "show", "ahp-session:/copy", "--json"])
        .code(0)
        .json_lines();
    assert_eq!(shown[0]["chats"][0]["turns"][0]["message"]["text"], "hello there");
    // Both live, and what is said in one is not said in the other.
    let _host = home.host(&[]);
    home.run(&["send", "--session", "ahp-session:/copy", "only here"])
        .code(0);
    let old = home.run(&["sessions", "show", &uri]).code(0).stdout;
    assert!(old.contains("hello there") && !old.contains("only here"), "{old}");
    let new = home.run(&["sessions", "show", "ahp-session:/copy"]).code(0).stdout;
    assert!(new.contains("hello there") && new.contains("only here"), "{new}");
}

#[test]
fn a_running_host_takes_sessions_in_and_announces_them() {
    use std::io::Write as _;
    let (home, uri) = home_with_a_session();
    let exported = home.run(&["sessions", "export", &uri]).code(0).stdout;
    let elsewhere = Home::new();
    let host = elsewhere.host(&[]);
    elsewhere.run(&["send", "my own"]).code(0);
    let watcher = elsewhere.spawn(&["watch", "--json", "ahp-root://"]);
    while !watcher.line().contains("\"agents\"") {}
    let copy = elsewhere.write("copy.jsonl", &exported);
    let copy = copy.to_str().unwrap();
    let imported = elsewhere.run(&["sessions", "import", copy]).code(0);
    assert_eq!(imported.stdout, format!("imported {uri} (1 chats, 1 turns)\n"));
    let added = loop {
        let line: Value = serde_json::from_str(&watcher.line()).unwrap();
        if line["method"] == "root/sessionAdded" {
            break line;
        }
    };
    assert_eq!(added["params"]["summary"]["resource"], *uri);
    assert_eq!(elsewhere.run(&["sessions", "export", &uri]).code(0).stdout, exported);

    // It is a session like any other: it goes on, and what is refused changes nothing.
    elsewhere.run(&["send", "--session", &uri, "and here"]).code(0);
    elsewhere.run(&["sessions", "import", copy]).code(5).says("--as URI");
    let mut import = elsewhere.spawn_piped(&["sessions", "import", "-", "--as", "ahp-session:/copy"]);
    import.stdin.as_mut().unwrap().write_all(exported.as_bytes()).unwrap();
    import.stdin = None;
    import.wait().code(0);
    assert_eq!(elsewhere.run(&["sessions", "--json"]).code(0).json_lines().len(), 3);

    // After a kill everything is there.
    host.program.signal(rustix::process::Signal::KILL);
    drop(host);
    let shown = elsewhere.run(&["sessions", "show", &uri]).code(0).stdout;
    assert!(
        shown.contains("> hello there") && shown.contains("> and here"),
        "{shown}"
    );
    let _host = elsewhere.host(&[]);
    elsewhere.run(&["send", "--session", &uri, "still here"]).code(0);
    assert_eq!(elsewhere.run(&["sessions", "--json"]).code(0).json_lines().len(), 3);
}

#[test]
fn numbers_of_an_imported_session_are_never_given_out_again() {
    let (home, uri) = home_with_a_session();
    let exported = home.run(&["sessions", "export", &uri]).code(0).stdout;
    // As if it had come from a host that has seen much more.
    let first: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    let seq = first["session"]["seq"].as_u64().unwrap();
    let high = seq + (1 << 40);
    let raised = exported.replacen(&format!("\"seq\":{seq}"), &format!("\"seq\":{high}"), 1);
    let elsewhere = Home::new();
    let _host = elsewhere.host(&[]);
    let file = elsewhere.write("raised.jsonl", &raised);
    elsewhere.run(&["sessions", "import", file.to_str().unwrap()]).code(0);
    let sent = elsewhere
        .run(&["send", "--json", "--session", &uri, "hello"])
        .code(0)
        .json_lines();
    let mut numbers = sent.iter().filter_map(|line| line["serverSeq"].as_u64());
    assert!(numbers.all(|number| number > high), "{sent:?}");
}

/// The URIs of what can be restored.
fn restorable(home: &Home) -> Vec<String> {
    let deleted = home.run(&["sessions", "restore", "--json"]).code(0).json_lines();
    let uris = deleted
        .iter()
        .map(|line| line["session"].as_str().unwrap_or_default().to_owned());
    uris.collect()
}

#[test]
fn a_deleted_session_can_be_restored_with_a_host_and_without_one() {
    let (home, uri) = home_with_a_session();
    let before = home.run(&["sessions", "export", &uri]).code(0).stdout;
    // Without a host.
    home.run(&["sessions", "restore"]).code(0).says("no deleted session");
    home.run(&["sessions", "delete", "--yes", &uri])
        .code(0)
        .says("sessions restore");
    home.run(&["sessions"]).code(0).says("no sessions yet");
    assert_eq!(restorable(&home), [uri.as_str()]);
    home.run(&["sessions", "show", &uri]).code(5);
    let restored = home.run(&["sessions", "restore", &uri]).code(0);
    assert_eq!(restored.stdout, format!("restored {uri} (1 chats, 1 turns)\n"));
    assert_eq!(home.run(&["sessions", "export", &uri]).code(0).stdout, before);
    assert_eq!(restorable(&home), Vec::<String>::new());
    home.run(&["sessions", "restore", &uri])
        .code(5)
        .says("no deleted session");
    // Deleted without a host and restored by one, and the other way round.
    home.run(&["sessions", "delete", "--yes", &uri]).code(0);
    let host = home.host(&[]);
    assert_eq!(restorable(&home), [uri.as_str()]);
    home.run(&["sessions", "restore", &uri]).code(0);
    assert_eq!(only_session(&home), uri);
    home.run(&["sessions", "delete", "--yes", &uri])
        .code(0)
        .says("sessions restore");
    host.stop().code(0);
    home.run(&["sessions", "restore", &uri]).code(0);
    assert_eq!(only_session(&home), uri);
    // For good, also what was deleted before.
    let _host = home.host(&[]);
    home.run(&["sessions", "delete", "--yes", &uri]).code(0);
    home.run(&["sessions", "delete", "--yes", "--for-good", &uri]).code(0);
    assert_eq!(restorable(&home), Vec::<String>::new());
}

#[test]
fn a_deletion_can_be_final_by_configuration() {
    let (home, uri) = home_with_a_session();
    let config = home.path("final.toml");
    std::fs::write(&config, "[retention]\ndeleted_days = 0\n").unwrap();
    let config = config.to_str().unwrap();
    home.run(&["sessions", "delete", "--yes", &uri, "--config", config])
        .code(0);
    assert_eq!(restorable(&home), Vec::<String>::new());
}

#[test]
fn deleting_without_a_question_takes_whole_names_only() {
    let (home, uri) = home_with_a_session();
    let last_part = uri.rsplit('/').next().unwrap();
    home.run(&["sessions", "delete", "--yes", &last_part[..8]])
        .code(2)
        .says("the whole name");
    assert_eq!(only_session(&home), uri);
    home.run(&["sessions", "delete", "--yes", last_part]).code(0);
    home.run(&["sessions"]).code(0).says("no sessions yet");
}

/// Counts the entries of a directory below the data directory.
fn entries(home: &Home, directory: &str) -> usize {
    std::fs::read_dir(home.data(directory)).map_or(0, Iterator::count)
}

/// A home with a session that left a terminal and a record of the files around a turn.
fn home_with_session_files() -> (Home, String) {
    let home = Home::new();
    let git = std::process::Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(home.path("."))
        .status();
    assert!(git.expect("git runs").success());
    let host = home.host(&[]);
    home.run(&["send", "/terminal"]).code(0);
    let uri = only_session(&home);
    host.stop().code(0);
    assert_eq!(
        (entries(&home, "terminals"), entries(&home, "changes/sessions")),
        (1, 1)
    );
    (home, uri)
}

#[test]
fn a_deletion_for_good_without_a_host_removes_all_files_of_the_session() {
    let (home, uri) = home_with_session_files();
    home.run(&["sessions", "delete", "--yes", &uri]).code(0);
    assert_eq!(
        (entries(&home, "terminals"), entries(&home, "changes/sessions")),
        (1, 1)
    );
    home.run(&["sessions", "delete", "--yes", "--for-good", &uri]).code(0);
    assert_eq!(
        (entries(&home, "terminals"), entries(&home, "changes/sessions")),
        (0, 0)
    );
}

#[test]
fn a_start_keeps_the_files_of_a_session_that_can_be_restored() {
    let (home, uri) = home_with_session_files();
    home.run(&["sessions", "delete", "--yes", &uri]).code(0);
    let (records, terminal) = (home.data("changes/sessions/00"), home.data("terminals/00-00.json"));
    std::fs::create_dir(&records).unwrap();
    std::fs::write(&terminal, "{}").unwrap();
    let host = home.host(&[]);
    // Files of unknown sessions are removed, terminals last.
    until(|| !terminal.exists());
    assert!(!records.exists());
    host.stop().code(0);
    assert_eq!(
        (entries(&home, "terminals"), entries(&home, "changes/sessions")),
        (1, 1)
    );
    home.run(&["sessions", "restore", &uri]).code(0);
    assert_eq!(only_session(&home), uri);
}

#[test]
fn delete_needs_a_confirmation_or_yes() {
    let (home, uri) = home_with_a_session();
    home.run(&["sessions", "delete", &uri]).code(2).says("--yes");
    assert_eq!(only_session(&home), uri);
    let host = home.host(&[]);
    home.run(&["sessions", "delete", &uri]).code(2).says("--yes");
    assert_eq!(only_session(&home), uri);

    let watcher = home.spawn(&["watch", "ahp-root://"]);
    while !watcher.line().contains("agent tour") {}
    let deleted = home.run(&["sessions", "delete", "--yes", &uri]).code(0);
    assert_eq!(deleted.stdout, format!("deleted {uri}\n"));
    while !watcher.line().contains("root/sessionRemoved") {}
    home.run(&["sessions"]).code(0).says("no sessions yet");
    host.stop().code(0);
    home.run(&["sessions"]).code(0).says("no sessions yet");
}

#[test]
fn deleting_without_a_host_takes_the_session_and_no_other() {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "one"]).code(0);
    home.run(&["send", "two"]).code(0);
    host.stop().code(0);
    let sessions = home.run(&["sessions", "--json"]).code(0).json_lines();
    let uri = |at: usize| -> String { sessions[at]["resource"].as_str().unwrap().to_owned() };
    home.run(&["sessions", "delete", "--yes", &uri(0)]).code(0);
    assert_eq!(only_session(&home), uri(1));
}

#[test]
fn nothing_is_pruned_without_retention_limits() {
    let (home, uri) = home_with_a_session();
    home.run(&["sessions", "prune", "--yes"])
        .code(0)
        .says("Nothing to delete");
    // A limit alone leaves what was not put away.
    let config = home.write("keep.toml", "[retention]\nmax_total_bytes = 0\n");
    home.run(&["sessions", "prune", "--yes", "--config", config.to_str().unwrap()])
        .code(0)
        .says("Nothing to delete");
    // A host without `enabled` does not prune either.
    let config = home.write(
        "told.toml",
        "listen = \":0\"\n[retention]\nmax_total_bytes = 0\narchived_only = false\n",
    );
    let config = config.to_str().unwrap();
    let host = home.host(&["--config", config]);
    assert_eq!(only_session(&home), uri);
    let dry = home
        .run(&["sessions", "prune", "--dry-run", "--json", "--config", config])
        .code(0)
        .json_lines();
    assert_eq!(dry[0]["session"], *uri);
    assert!(
        dry[0]["bytes"].as_u64().unwrap() > 0 && dry[0]["reason"].is_string(),
        "{dry:?}"
    );
    home.run(&["sessions", "prune", "--config", config])
        .code(2)
        .says("--yes");
    assert_eq!(only_session(&home), uri);
    // Told to, it goes.
    let pruned = home.run(&["sessions", "prune", "--yes", "--config", config]).code(0);
    assert!(pruned.stdout.starts_with(&format!("deleted {uri}")), "{pruned:?}");
    home.run(&["sessions"]).code(0).says("no sessions yet");
    host.stop().code(0);
}

#[test]
fn pruning_without_a_host_works_too() {
    let (home, uri) = home_with_a_session();
    let config = home.write("told.toml", "[retention]\nmax_total_bytes = 0\narchived_only = false\n");
    let pruned = home
        .run(&["sessions", "prune", "--yes", "--config", config.to_str().unwrap()])
        .code(0);
    assert!(pruned.stdout.starts_with(&format!("deleted {uri}")), "{pruned:?}");
    home.run(&["sessions"]).code(0).says("no sessions yet");
}

#[test]
fn a_host_with_retention_enabled_prunes() {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "one"]).code(0);
    home.run(&["send", "two"]).code(0);
    host.stop().code(0);
    let config = home.write(
        "told.toml",
        "listen = \":0\"\n[retention]\nenabled = true\nmax_total_bytes = 0\narchived_only = false\n",
    );
    let host = home.host(&["--config", config.to_str().unwrap()]);
    // It does so when it starts; the list is empty once it has.
    until(|| home.run(&["sessions", "--json"]).code(0).stdout.is_empty());
    host.stop().code(0).says("deleted a session");
}

#[test]
fn a_session_in_use_is_not_pruned() {
    let (home, uri) = home_with_a_session();
    let host = home.host(&[]);
    let watcher = home.spawn(&["watch", "--json", &uri]);
    let _: Value = serde_json::from_str(&watcher.line()).unwrap();
    let config = home.write("told.toml", "[retention]\nmax_total_bytes = 0\narchived_only = false\n");
    home.run(&["sessions", "prune", "--yes", "--config", config.to_str().unwrap()])
        .code(0)
        .says("is in use");
    assert_eq!(only_session(&home), uri);
    drop(watcher);
    host.stop().code(0);
}

#[test]
fn without_anything_there_is_nothing_to_work_on() {
    let home = Home::new();
    home.run(&["sessions", "list"]).code(69).says("no host runs");
    home.run(&["sessions", "export", "--all"])
        .code(73)
        .says("does not exist");
    home.run(&["sessions", "delete", "--yes", "x"])
        .code(73)
        .says("does not exist");
    home.run(&["sessions", "export"]).code(2);
    home.run(&["sessions", "import", "missing.jsonl"])
        .code(2)
        .says("cannot be read");
}

#[test]
fn a_second_process_looks_while_another_owns_the_data() {
    let home = Home::new();
    let owner = home.host(&[]);
    home.run(&["send", "hello"]).code(0);
    let uri = only_session(&home);
    let endpoint = std::fs::read(home.data("endpoint.json")).unwrap();
    let looker = home.host(&["--read-only"]);
    let token = home.data("token");
    let at = ["--url", looker.url(), "--token-file", token.to_str().unwrap()];
    let list = home
        .run(&[&["sessions", "--json"][..], &at].concat())
        .code(0)
        .json_lines();
    assert_eq!(list[0]["resource"], *uri);
    // It changes nothing, and says why.
    home.run(&[&["send", "no"][..], &at].concat())
        .code(5)
        .says("--read-only");
    home.run(&[&["sessions", "delete", "--yes", &uri][..], &at].concat())
        .code(5)
        .says("--read-only");
    // Changes of the owner are visible.
    home.run(&["send", "--session", &uri, "and more"]).code(0);
    let shown = || {
        home.run(&[&["sessions", "show", &uri][..], &at].concat())
            .code(0)
            .stdout
    };
    until(|| shown().contains("> and more"));
    looker.stop().code(0);
    assert_eq!(std::fs::read(home.data("endpoint.json")).unwrap(), endpoint);
    assert_eq!(only_session(&home), uri);
    owner.stop().code(0);
}

#[test]
fn sessions_of_a_killed_host_are_shown_as_the_next_host_recovers_them() {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "hello"]).code(0);
    let quiet = only_session(&home);
    let talk = home.spawn(&["send", "--json", "/stream 100000 1 20"]);
    while !talk.line().contains("chat/delta") {}
    let is_other = |session: &Value| session["resource"] != *quiet;
    let sessions = home.run(&["sessions", "--json"]).code(0).json_lines();
    let working = sessions.into_iter().find(is_other).expect("the other session");
    let uri = working["resource"].as_str().unwrap().to_owned();
    let is_in_progress = |session: &Value| session["status"].as_u64().unwrap() & IN_PROGRESS == IN_PROGRESS;
    assert!(is_in_progress(&working), "{working}");
    // A client that cannot find the owner of the directory reads the store without recovery.
    std::fs::remove_file(home.data("endpoint.json")).unwrap();
    let beside = home.run(&["sessions", "list", "--json"]).code(0).json_lines();
    let seen = beside.into_iter().find(is_other).expect("the other session");
    assert!(is_in_progress(&seen), "{seen}");
    host.program.signal(rustix::process::Signal::KILL);
    drop(host);

    let file = std::fs::read(home.data("sessions.db")).unwrap();
    let log = std::fs::read(home.data("sessions.db-wal")).unwrap();
    let offline = home.run(&["sessions", "list", "--json"]).code(0).json_lines();
    assert_eq!(offline.len(), 2);
    let ended = offline.into_iter().find(is_other).expect("the other session");
    assert!(!is_in_progress(&ended), "{ended}");
    let shown = home.run(&["sessions", "show", &uri, "--json"]).code(0).json_lines();
    let chat = &shown[0]["chats"][0];
    assert_eq!(chat["activeTurn"], Value::Null, "{chat}");
    assert_eq!(chat["turns"][0]["state"], "error", "{chat}");
    assert!(chat.to_string().contains("hostRestarted"), "{chat}");
    // Looking leaves everything as it was.
    assert!(std::fs::read(home.data("sessions.db")).unwrap() == file);
    assert!(std::fs::read(home.data("sessions.db-wal")).unwrap() == log);

    let _host = home.host(&[]);
    until(|| {
        let online = home.run(&["sessions", "--json"]).code(0).json_lines();
        let found = online.into_iter().find(is_other).expect("the other session");
        found["status"] == ended["status"]
    });
}
