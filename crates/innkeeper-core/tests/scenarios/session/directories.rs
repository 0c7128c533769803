//! Where sessions and chats work.

use ahp_types::state::{AgentCapabilities, MultipleWorkingDirectoriesCapability};
use innkeeper_core::{AgentCommand, AgentProfile, CoreConfig, Effect, Seq, TurnEnd};
use serde_json::{Value, json};

use crate::harness::{SESSION, Stage, agent};
use crate::session::configuration::{create, stage};

/// An agent that works in several directories.
fn roamer(capability: MultipleWorkingDirectoriesCapability) -> AgentProfile {
    let mut profile: AgentProfile = agent("roamer").into();
    profile.info.capabilities = Some(AgentCapabilities {
        multiple_working_directories: Some(capability),
        ..AgentCapabilities::default()
    });
    profile
}

fn directory(name: &str, directory: &str) -> Value {
    json!({ "type": name, "directory": directory })
}

fn replacement(directory: &str, replacement: &str) -> Value {
    json!({ "type": "session/workingDirectoryReplaced", "directory": directory, "replacement": replacement })
}

const SET: &str = "session/workingDirectorySet";
const REMOVED: &str = "session/workingDirectoryRemoved";

#[test]
fn ses06_without_the_capability_only_the_first_directory_counts() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let answer = create(&mut stage, conn, json!({}), &["file:///a", "file:///b"]);
    assert_eq!(answer["result"], Value::Null);
    assert_eq!(stage.state(SESSION)["workingDirectories"], json!(["file:///a"]));
    let mut stage = self::stage(roamer(MultipleWorkingDirectoriesCapability::default()));
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({}), &["file:///a", "file:///b", "file:///a"]);
    assert_eq!(
        stage.state(SESSION)["workingDirectories"],
        json!(["file:///a", "file:///b"])
    );
}

/// The reasons that directories are refused for (SES-25, ROOT-04).
#[test]
fn ses25_directories_change_only_as_the_agent_can() {
    let neither = MultipleWorkingDirectoriesCapability::default();
    let immutable = MultipleWorkingDirectoriesCapability {
        immutable_primary: Some(true),
        primary_replacement: None,
    };
    let both = MultipleWorkingDirectoriesCapability {
        immutable_primary: Some(true),
        primary_replacement: Some(true),
    };
    let plain = || -> AgentProfile { agent("plain").into() };
    let keeps = "directory: this agent cannot change its first directory during a session";
    let one = "this session's agent works in the directory it started in; create another session to work elsewhere";
    let cases = [
        (plain(), directory(SET, "file:///c"), Some(one)),
        (plain(), directory(REMOVED, "file:///a"), Some(one)),
        (roamer(neither.clone()), directory(SET, "file:///c"), None),
        (roamer(neither.clone()), directory(SET, "file:///a"), None),
        (
            roamer(neither.clone()),
            directory(SET, "not a uri"),
            Some("directory: must be a URI, as in file:///home/me/project"),
        ),
        (roamer(neither.clone()), directory(REMOVED, "file:///a"), None),
        (roamer(neither.clone()), directory(REMOVED, "file:///none"), None),
        (roamer(immutable.clone()), directory(REMOVED, "file:///a"), Some(keeps)),
        (roamer(immutable.clone()), directory(REMOVED, "file:///b"), None),
        (
            roamer(both.clone()),
            directory(REMOVED, "file:///a"),
            Some("directory: the first directory can only be replaced, with session/workingDirectoryReplaced"),
        ),
        (
            roamer(neither.clone()),
            replacement("file:///a", "file:///c"),
            Some(keeps),
        ),
        (roamer(neither.clone()), replacement("file:///b", "file:///c"), None),
        (roamer(both.clone()), replacement("file:///a", "file:///c"), None),
        (
            roamer(both.clone()),
            replacement("file:///none", "file:///c"),
            Some(
                "directory: is not one of the session's working directories; perhaps another client replaced it first",
            ),
        ),
        (
            roamer(both),
            replacement("file:///a", ""),
            Some("replacement: must be a URI, as in file:///home/me/project"),
        ),
    ];
    for (profile, action, expected) in cases {
        let provider = profile.info.provider.clone();
        let mut stage = Stage::with_agents(CoreConfig::default(), vec![profile], Seq(1));
        let conn = stage.client("c", &[]);
        create(&mut stage, conn, json!({}), &["file:///a", "file:///b"]);
        stage.subscribe(conn, SESSION);
        stage.inbox(conn);
        stage.dispatch(conn, SESSION, 1, action.clone());
        assert_eq!(stage.refusal(conn).as_deref(), expected, "{provider} {action}");
    }
}

#[test]
fn ses25_a_replacement_keeps_the_place_and_no_directory_twice() {
    let both = MultipleWorkingDirectoriesCapability {
        immutable_primary: None,
        primary_replacement: Some(true),
    };
    let mut stage = stage(roamer(both));
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({}), &["file:///a", "file:///b", "file:///c"]);
    let steps = [
        (
            replacement("file:///a", "file:///x"),
            json!(["file:///x", "file:///b", "file:///c"]),
        ),
        (replacement("file:///b", "file:///c"), json!(["file:///x", "file:///c"])),
        (replacement("file:///c", "file:///x"), json!(["file:///x"])),
    ];
    for (action, expected) in steps {
        stage.dispatch(conn, SESSION, 1, action);
        assert_eq!(stage.state(SESSION)["workingDirectories"], expected);
    }
}

/// The agent's directories stand during a turn (DSP-17).
#[test]
fn ses25_a_directory_is_not_replaced_under_a_running_turn() {
    let mut stage = stage(roamer(MultipleWorkingDirectoriesCapability::default()));
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({}), &["file:///a", "file:///b"]);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.inbox(conn);
    stage.dispatch(conn, SESSION, 1, replacement("file:///b", "file:///c"));
    assert!(
        stage
            .refusal(conn)
            .is_some_and(|reason| reason.contains("a turn is running"))
    );
    stage.ends(TurnEnd::Complete);
    stage.inbox(conn);
    stage.dispatch(conn, SESSION, 2, replacement("file:///b", "file:///c"));
    assert_eq!(stage.refusal(conn), None);
    stage.start_turn(conn, &chat, "u");
    let start = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(start.info.working_directories.clone()),
        _ => None,
    });
    assert_eq!(start.expect("the turn starts"), ["file:///a", "file:///c"]);
}

#[test]
fn ses25_a_chat_keeps_to_the_directories_of_its_session() {
    let mut stage = stage(roamer(MultipleWorkingDirectoriesCapability::default()));
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({}), &["file:///a", "file:///b"]);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, &chat);
    stage.dispatch(conn, &chat, 1, directory("chat/workingDirectorySet", "file:///z"));
    let expected = "directory: is not one of the session's working directories; add it there first";
    assert_eq!(stage.refusal(conn).as_deref(), Some(expected));
    stage.dispatch(conn, &chat, 2, directory("chat/workingDirectorySet", "file:///b"));
    assert_eq!(stage.refusal(conn), None);
    assert_eq!(stage.state(&chat)["workingDirectories"], json!(["file:///b"]));
    assert_eq!(
        stage.state(SESSION)["chats"][0]["workingDirectories"],
        json!(["file:///b"])
    );
    // Removing what is not there is a repeat and no mistake.
    stage.dispatch(conn, &chat, 3, directory("chat/workingDirectoryRemoved", "file:///a"));
    assert_eq!(stage.refusal(conn), None);
}

#[test]
fn ses26_a_directory_removed_from_a_session_is_removed_from_its_chats() {
    let mut stage = stage(roamer(MultipleWorkingDirectoriesCapability::default()));
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({}), &["file:///a", "file:///b", "file:///c"]);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    for uri in ["file:///b", "file:///c"] {
        stage.dispatch(conn, &chat, 1, directory("chat/workingDirectorySet", uri));
    }
    stage.subscribe(conn, &chat);
    stage.inbox(conn);
    stage.dispatch(conn, SESSION, 2, replacement("file:///b", "file:///x"));
    assert_eq!(
        stage.action_types(conn),
        ["chat/workingDirectorySet", "chat/workingDirectoryRemoved"]
    );
    assert_eq!(
        stage.state(&chat)["workingDirectories"],
        json!(["file:///c", "file:///x"])
    );
    stage.dispatch(conn, SESSION, 3, directory(REMOVED, "file:///c"));
    assert_eq!(stage.action_types(conn), ["chat/workingDirectoryRemoved"]);
    assert_eq!(stage.state(&chat)["workingDirectories"], json!(["file:///x"]));
    let catalogue = &stage.state(SESSION)["chats"][0]["workingDirectories"];
    assert_eq!(*catalogue, json!(["file:///x"]));
}
