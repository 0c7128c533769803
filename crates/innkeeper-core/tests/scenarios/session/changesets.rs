//! Views of changed files (CHG).

use innkeeper_core::changesets::{
    ChangedFile, ChangedSide, ChangesetCommand, ChangesetInput, ChangesetSource, ComputedChangeset, CountedChanges,
    FileNote, InvokeOperation, OfferedOperation, OperationError, OperationOutcome, OperationScope,
};
use innkeeper_core::repository::RepositoryState;
use innkeeper_core::request::CreateSession;
use innkeeper_core::{
    ChangesCommand, ChannelId, ConnId, CoreConfig, Effect, Input, RepositoryCommand, RequestId, TurnEnd,
};
use serde_json::{Map, Value, json};

use crate::harness::*;

const DIRECTORY: &str = "file:///srv/project";
const UNCOMMITTED: &str = "ahp-session:/one/changeset/uncommitted";

fn config() -> CoreConfig {
    CoreConfig {
        serves_changes: true,
        serves_repositories: true,
        ..CoreConfig::default()
    }
}

/// A session in a directory, with a client that is subscribed to it.
fn stage() -> (Stage, ConnId) {
    let mut stage = Stage::opening(PersistedState::default(), config());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, Map::new());
    stage.opened(Ok(()));
    stage.subscribe(conn, SESSION);
    stage.dispatch(conn, SESSION, 1, title("Fix it"));
    (stage, conn)
}

fn create(stage: &mut Stage, conn: ConnId, config: Map<String, Value>) -> Value {
    let create = CreateSession {
        working_directories: vec![DIRECTORY.to_owned()],
        config,
        ..new_session(SESSION)
    };
    stage.create_with(conn, create)
}

/// Tells the host what the service saw in the directory.
fn sees(stage: &mut Stage, state: Option<RepositoryState>) {
    let followed = stage.agent.iter().find_map(|effect| match effect {
        Effect::Repositories(RepositoryCommand::Follow { session, directory }) => Some((*session, directory.clone())),
        _ => None,
    });
    let (session, directory) = followed.expect("the directory is followed");
    stage.handle(Input::RepositorySeen {
        session,
        directory,
        state: state.map(Box::new),
    });
}

fn repository() -> RepositoryState {
    RepositoryState {
        branch: Some("main".to_owned()),
        ..RepositoryState::default()
    }
}

/// The channel and view of the latest follow.
fn followed(stage: &Stage) -> Option<(ChannelId, ChangesetSource, Vec<String>)> {
    stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Changes(ChangesCommand::Follow { channel, view }) => {
            Some((*channel, view.source.clone(), view.directories.clone()))
        }
        _ => None,
    })
}

fn file(name: &str, version: &str) -> ChangedFile {
    let side = |version: &str| ChangedSide {
        uri: format!("{DIRECTORY}/{name}"),
        content: format!("innkeeper-content://change-{version}/{name}"),
        size: None,
        version: version.to_owned(),
        mode: Some("100644".to_owned()),
    };
    ChangedFile {
        before: Some(side("0")),
        after: Some(side(version)),
        added: Some(2),
        removed: Some(1),
        note: FileNote::default(),
    }
}

fn operation(disabled: Option<&str>) -> OfferedOperation {
    OfferedOperation {
        id: "discard",
        label: "Discard".to_owned(),
        description: "Sets files back".to_owned(),
        scopes: &[OperationScope::Changeset, OperationScope::Resource],
        confirmation: Some("Really?".to_owned()),
        icon: "discard",
        group: "revert",
        disabled: disabled.map(str::to_owned),
    }
}

fn computed(stage: &mut Stage, channel: ChannelId, files: Vec<ChangedFile>) {
    let computed = ComputedChangeset {
        files,
        operations: vec![operation(None)],
        notice: None,
    };
    let outcome = Ok(Box::new(computed));
    stage.handle(ChangesetInput::Computed { channel, outcome }.into());
}

/// A view with one file that a client looks at.
fn looking() -> (Stage, ConnId, ChannelId) {
    let (mut stage, conn) = stage();
    let answer = stage.subscribe(conn, UNCOMMITTED);
    assert_eq!(
        answer["result"]["snapshot"]["state"],
        json!({ "status": "computing", "files": [] })
    );
    let (channel, ..) = followed(&stage).expect("followed");
    computed(&mut stage, channel, vec![file("a", "1")]);
    stage.inbox(conn);
    (stage, conn, channel)
}

#[test]
fn chg01_chg02_chg03_only_available_views_are_advertised() {
    let (mut stage, conn) = stage();
    assert_eq!(stage.state(SESSION).get("changesets"), None, "before anything is known");
    sees(&mut stage, None);
    let kinds = |stage: &Stage, uri: &str| -> Vec<String> {
        let state = stage.state(uri);
        let views = state["changesets"].as_array().cloned().unwrap_or_default().into_iter();
        views
            .map(|view| {
                assert!(
                    view["label"].is_string() && view["capabilities"]["review"].is_object(),
                    "{view}"
                );
                assert!(
                    view["uriTemplate"].as_str().is_some_and(|it| it.starts_with(uri)),
                    "{view}"
                );
                view["changeKind"].as_str().expect("a kind").to_owned()
            })
            .collect()
    };
    assert_eq!(
        kinds(&stage, SESSION),
        ["session", "turn", "compare-turns"],
        "without Git"
    );
    sees(&mut stage, Some(repository()));
    let all = ["uncommitted", "session", "branch", "turn", "compare-turns"];
    assert_eq!(kinds(&stage, SESSION), all);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    assert_eq!(kinds(&stage, &chat), ["turn", "compare-turns"]);
    assert_eq!(
        stage
            .action_types(conn)
            .iter()
            .filter(|name| *name == "session/changesetsChanged")
            .count(),
        2
    );
}

/// VS Code takes the views of a session that it lists from actions only, and lists it at `root/sessionAdded`.
#[test]
fn chg01_a_draft_advertises_uncommitted_changes_and_the_rest_later() {
    let mut stage = Stage::opening(PersistedState::default(), config());
    let conn = stage.client("c", &[ROOT]);
    create(&mut stage, conn, Map::new());
    stage.opened(Ok(()));
    stage.subscribe(conn, SESSION);
    sees(&mut stage, Some(repository()));
    let kinds = |views: &Value| -> Vec<String> {
        let views = views.as_array().cloned().unwrap_or_default().into_iter();
        views
            .map(|view| view["changeKind"].as_str().expect("a kind").to_owned())
            .collect()
    };
    assert_eq!(kinds(&stage.state(SESSION)["changesets"]), ["uncommitted"]);
    stage.inbox(conn);
    stage.start_turn(conn, &innkeeper_core::uri::default_chat(SESSION), "t1");
    let messages = stage.inbox(conn);
    let position = |found: &dyn Fn(&Value) -> bool| messages.iter().position(found).expect("it was sent");
    let added = position(&|message| message["method"] == "root/sessionAdded");
    let changed = position(&|message| message["params"]["action"]["type"] == "session/changesetsChanged");
    assert!(added < changed, "{messages:?}");
    let all = ["uncommitted", "session", "branch", "turn", "compare-turns"];
    assert_eq!(kinds(&messages[changed]["params"]["action"]["changesets"]), all);
}

#[test]
fn chg02_only_expanded_views_of_known_turns_can_be_subscribed_to() {
    let (mut stage, conn) = stage();
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.start_turn(conn, &chat, "t/1");
    let answer = stage.subscribe(conn, "ahp-session:/one/changeset/turn/t%2F1");
    assert!(answer.get("error").is_none(), "{answer}");
    let turn = ChangesetSource::Turn { turn: "t/1".to_owned() };
    assert_eq!(followed(&stage).map(|(_, source, _)| source), Some(turn));
    stage.ends(TurnEnd::Complete);
    for unknown in ["turns/t%2F1/t2", "x", ""] {
        let answer = stage.subscribe(conn, &format!("{SESSION}/changeset/{unknown}"));
        assert!(answer.get("error").is_some(), "{unknown} {answer}");
    }
    let of_chat = stage.subscribe(conn, &format!("{chat}/changeset/turns/t%2F1/t%2F1"));
    assert!(of_chat.get("error").is_none(), "{of_chat}");
}

/// VS Code subscribes to the changes of a turn before it dispatches `chat/turnStarted`.
#[test]
fn chg02_the_view_of_a_turn_can_be_subscribed_to_before_it_starts() {
    let (mut stage, conn) = stage();
    let chat = innkeeper_core::uri::default_chat(SESSION);
    let early = stage.subscribe(conn, &format!("{SESSION}/changeset/turn/t2"));
    assert_eq!(early["result"]["snapshot"]["state"]["status"], "ready", "{early}");
    assert_eq!(followed(&stage), None, "nothing is computed yet");
    stage.start_turn(conn, &chat, "t1");
    stage.ends(TurnEnd::Complete);
    assert_eq!(followed(&stage), None, "another turn");
    stage.start_turn(conn, &chat, "t2");
    assert_eq!(followed(&stage), None, "the files at its start are not recorded yet");
    stage.ends(TurnEnd::Complete);
    let turn = ChangesetSource::Turn { turn: "t2".to_owned() };
    assert_eq!(followed(&stage).map(|(_, source, _)| source), Some(turn));
}

#[test]
fn chg04_chg06_chg07_a_report_becomes_as_few_actions_as_possible() {
    let (mut stage, conn) = stage();
    stage.subscribe(conn, UNCOMMITTED);
    stage.inbox(conn);
    let (channel, ..) = followed(&stage).expect("followed");
    computed(&mut stage, channel, vec![file("a", "1"), file("b", "1")]);
    assert_eq!(
        stage.action_types(conn),
        ["changeset/contentChanged", "changeset/statusChanged"]
    );
    let shown = stage.state(UNCOMMITTED);
    assert_eq!(
        (&shown["status"], &shown["operations"][0]["status"]),
        (&json!("ready"), &json!("idle"))
    );
    assert_eq!(shown["files"][0]["edit"]["diff"], json!({ "added": 2, "removed": 1 }));
    computed(&mut stage, channel, vec![file("a", "1"), file("b", "1")]);
    assert_eq!(stage.action_types(conn), [] as [&str; 0], "nothing changed");
    stage.handle(ChangesetInput::Computing { channel }.into());
    assert_eq!(stage.state(UNCOMMITTED)["status"], "recomputing");
    assert_eq!(
        stage.state(UNCOMMITTED)["files"].as_array().map(Vec::len),
        Some(2),
        "the files stay"
    );
    computed(&mut stage, channel, vec![file("a", "2"), file("c", "1")]);
    let expected = ["statusChanged", "fileRemoved", "fileSet", "fileSet", "statusChanged"];
    assert_eq!(
        stage.action_types(conn),
        expected.map(|name| format!("changeset/{name}"))
    );
    let outcome = Err("the disk is gone".to_owned());
    stage.handle(ChangesetInput::Computed { channel, outcome }.into());
    let shown = stage.state(UNCOMMITTED);
    assert_eq!(
        (&shown["status"], &shown["error"]["message"]),
        (&json!("error"), &json!("the disk is gone"))
    );
    computed(&mut stage, channel, vec![file("a", "2"), file("c", "1")]);
    assert_eq!(stage.state(UNCOMMITTED).get("error"), None, "it recovered");
}

#[test]
fn chg07_a_remark_about_the_list_is_shown_with_its_first_file() {
    let (mut stage, conn, channel) = looking();
    let computed = ComputedChangeset {
        files: vec![file("a", "1"), file("b", "1")],
        operations: vec![operation(None)],
        notice: Some("10001 files differ".to_owned()),
    };
    let outcome = Ok(Box::new(computed));
    stage.handle(ChangesetInput::Computed { channel, outcome }.into());
    let files = stage.state(UNCOMMITTED)["files"].clone();
    assert_eq!(files[0]["_meta"]["innkeeper.notice"], "10001 files differ");
    assert_eq!(files[1].get("_meta"), None);
    stage.inbox(conn);
}

#[test]
fn ses17_changes_on_disk_replace_those_that_tools_reported() {
    let mut stage = Stage::able(config());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, Map::new());
    stage.opened(Ok(()));
    stage.subscribe(conn, SESSION);
    stage.dispatch(conn, SESSION, 1, title("Fix it"));
    let count = |stage: &mut Stage, files, additions, deletions| {
        let changes = CountedChanges {
            files,
            additions,
            deletions,
        };
        let session = SESSION.into();
        stage.handle(ChangesetInput::Counted { session, changes }.into());
    };
    let listed = |stage: &mut Stage| stage.list(conn, None, None)["result"]["items"][0]["changes"].clone();
    let of_chat = |stage: &Stage| stage.state(SESSION)["chats"][0]["changes"].clone();
    let expected =
        |files, additions, deletions| json!({ "files": files, "additions": additions, "deletions": deletions });
    assert_eq!(listed(&mut stage), Value::Null);
    count(&mut stage, 2, 5, 1);
    assert_eq!(
        (listed(&mut stage), of_chat(&stage)),
        (expected(2, 5, 1), expected(2, 5, 1))
    );
    // After a revert there is nothing left.
    count(&mut stage, 0, 0, 0);
    assert_eq!(
        (listed(&mut stage), of_chat(&stage)),
        (expected(0, 0, 0), expected(0, 0, 0))
    );
    // With several chats, the files do not tell which of them changed them.
    stage.create_chat(conn, new_chat(SESSION, "ahp-chat:/second"));
    stage.opened(Ok(()));
    count(&mut stage, 1, 1, 0);
    assert_eq!(
        (listed(&mut stage), of_chat(&stage)),
        (expected(1, 1, 0), expected(0, 0, 0))
    );
    // A session that is gone.
    stage.dispose(conn, SESSION);
    count(&mut stage, 1, 1, 0);
}

#[test]
fn sub08_nothing_is_computed_without_a_subscriber() {
    let (mut stage, conn, channel) = looking();
    stage.unsubscribe(conn, UNCOMMITTED);
    let is_over = |stage: &Stage| {
        let mut effects = stage.agent.iter();
        effects
            .any(|effect| matches!(effect, Effect::Changes(ChangesCommand::Unfollow { channel: it }) if *it == channel))
    };
    assert!(!is_over(&stage), "it may come back soon");
    stage.pass(11_000);
    assert!(is_over(&stage));
    computed(&mut stage, channel, vec![file("late", "1")]);
    let answer = stage.subscribe(conn, UNCOMMITTED);
    assert_eq!(
        answer["result"]["snapshot"]["state"]["status"], "computing",
        "it starts over"
    );
}

#[test]
fn chg12_chg13_a_review_holds_until_the_content_changes() {
    let (mut stage, conn, channel) = looking();
    let id = format!("{DIRECTORY}/a");
    let review = json!({ "type": "changeset/filesReviewChanged", "files": [id, "unknown"], "reviewed": true });
    stage.accepted(conn, UNCOMMITTED, review);
    assert_eq!(stage.state(UNCOMMITTED)["files"][0]["reviewed"], true);
    computed(&mut stage, channel, vec![file("a", "1"), file("b", "1")]);
    assert_eq!(
        stage.state(UNCOMMITTED)["files"][0]["reviewed"],
        true,
        "it is the same content"
    );
    // It survives a restart of the host.
    let mut stage = stage.restart(config());
    let conn = stage.client("d", &[UNCOMMITTED]);
    let (channel, ..) = followed(&stage).expect("followed");
    computed(&mut stage, channel, vec![file("a", "1")]);
    assert_eq!(stage.state(UNCOMMITTED)["files"][0]["reviewed"], true);
    computed(&mut stage, channel, vec![file("a", "2")]);
    assert_eq!(
        stage.state(UNCOMMITTED)["files"][0].get("reviewed"),
        None,
        "it is another content"
    );
    let forged = json!({ "type": "changeset/cleared" });
    let reason = stage.refused(conn, UNCOMMITTED, forged);
    assert!(reason.contains("only the host"), "{reason}");
}

#[test]
fn ses28_chg14_chg15_a_view_is_cleared_before_its_session_goes() {
    let (mut stage, conn, _) = looking();
    stage.subscribe(conn, ROOT);
    stage.dispose(conn, SESSION);
    let heard = stage.inbox(conn);
    let is_cleared = |message: &Value| message["params"]["action"]["type"] == "changeset/cleared";
    let cleared = heard.iter().position(is_cleared);
    let removed = heard
        .iter()
        .position(|message| message["method"] == "root/sessionRemoved");
    assert!(cleared.is_some() && cleared < removed, "{heard:?}");
    let answer = stage.subscribe(conn, UNCOMMITTED);
    assert_eq!(error(&answer).0, -32001, "{answer}");
}

/// A host whose agents can do everything with chats, and a second chat in the session.
fn with_two_chats() -> (Stage, ConnId, &'static str) {
    let chat = "ahp-chat:/second";
    let mut stage = Stage::able(config());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, Map::new());
    stage.opened(Ok(()));
    stage.create_chat(conn, new_chat(SESSION, chat));
    stage.opened(Ok(()));
    stage.turn(conn, chat, "t1", "done");
    (stage, conn, chat)
}

#[test]
fn chg14_chg15_a_view_starts_over_when_its_directories_change() {
    let (mut stage, conn, chat) = with_two_chats();
    stage.subscribe(conn, SESSION);
    let view = format!("{chat}/changeset/turn/t1");
    stage.subscribe(conn, &view);
    let (channel, ..) = followed(&stage).expect("followed");
    computed(&mut stage, channel, vec![file("a", "1")]);
    stage.inbox(conn);
    let more = json!({ "type": "session/workingDirectorySet", "directory": "file:///srv/more" });
    stage.dispatch(conn, SESSION, 9, more);
    let heard = stage.action_types(conn);
    let about_views: Vec<&String> = heard.iter().filter(|name| name.starts_with("changeset/")).collect();
    assert_eq!(about_views, ["changeset/cleared", "changeset/statusChanged"]);
    assert_eq!(stage.state(&view)["status"], "computing");
    let (again, _, directories) = followed(&stage).expect("followed");
    assert_eq!(again, channel);
    assert_eq!(directories, [DIRECTORY, "file:///srv/more"]);
}

#[test]
fn chg14_the_views_of_a_chat_move_and_end_with_it() {
    let (mut stage, conn, chat) = with_two_chats();
    let view = format!("{chat}/changeset/turn/t1");
    let session_of = |stage: &Stage| {
        stage.agent.iter().rev().find_map(|effect| match effect {
            Effect::Changes(ChangesCommand::Follow { view, .. }) => Some(view.session.to_string()),
            _ => None,
        })
    };
    stage.subscribe(conn, &view);
    let (channel, ..) = followed(&stage).expect("followed");
    computed(&mut stage, channel, vec![file("a", "1")]);
    stage.inbox(conn);
    let moved = stage.move_chat(conn, chat, innkeeper_core::request::MoveDestination::NewSession);
    let target = moved["result"]["session"]
        .as_str()
        .unwrap_or_else(|| panic!("{moved}"))
        .to_owned();
    assert_eq!(session_of(&stage), Some(target.clone()), "the new session has the view");
    let (moved_view, ..) = followed(&stage).expect("followed");
    assert_eq!(
        stage.state(&view)["files"],
        json!([]),
        "and computes it from the beginning"
    );
    // The view ends with its chat.
    stage.create_chat(conn, new_chat(SESSION, "ahp-chat:/third"));
    stage.opened(Ok(()));
    stage.turn(conn, "ahp-chat:/third", "t2", "done");
    let third = "ahp-chat:/third/changeset/turn/t2";
    stage.subscribe(conn, third);
    let (channel, ..) = followed(&stage).expect("followed");
    computed(&mut stage, channel, vec![file("a", "1")]);
    stage.inbox(conn);
    stage.dispose_chat(conn, "ahp-chat:/third");
    assert!(stage.action_types(conn).contains(&"changeset/cleared".to_owned()));
    let is_unfollowed = |effect: &Effect| matches!(effect, Effect::Changes(ChangesCommand::Unfollow { channel: ended }) if *ended == channel);
    assert!(stage.agent.iter().any(is_unfollowed));
    let answer = stage.subscribe(conn, third);
    assert_eq!(error(&answer).0, -32001, "{answer}");
    // The moved chat's view ends with its new session.
    computed(&mut stage, moved_view, vec![file("a", "2")]);
    stage.inbox(conn);
    stage.dispose(conn, &target);
    assert!(stage.action_types(conn).contains(&"changeset/cleared".to_owned()));
}

fn invoke(stage: &mut Stage, conn: ConnId, operation: &str, target: Option<Value>) {
    let target = target.map(|target| serde_json::from_value(target).expect("a target"));
    let invoke = InvokeOperation {
        channel: UNCOMMITTED.to_owned(),
        operation: operation.to_owned(),
        target,
        values: Map::new(),
    };
    stage.handle(Input::Request {
        conn,
        id: RequestId::number(900),
        command: ChangesetCommand::Invoke(Box::new(invoke)).into(),
    });
}

#[test]
fn chg09_chg10_chg11_an_operation_is_checked_runs_and_is_answered() {
    let (mut stage, conn, channel) = looking();
    let refused = |stage: &mut Stage, operation: &str, target: Option<Value>| {
        invoke(stage, conn, operation, target);
        let answer = stage.inbox(conn).pop().expect("an answer");
        (error(&answer).0, error(&answer).1.to_owned())
    };
    let resource = |uri: &str| Some(json!({ "kind": "resource", "resource": uri }));
    let range = json!({ "kind": "range", "resource": format!("{DIRECTORY}/a"), "range": {
        "start": { "line": 0, "character": 0 }, "end": { "line": 1, "character": 0 } } });
    assert!(refused(&mut stage, "explode", None).1.contains("operationId"));
    assert!(refused(&mut stage, "discard", Some(range)).1.contains("target"));
    assert!(
        refused(&mut stage, "discard", resource("file:///elsewhere"))
            .1
            .contains("target.resource")
    );
    invoke(&mut stage, conn, "discard", resource(&format!("{DIRECTORY}/a")));
    assert_eq!(stage.state(UNCOMMITTED)["operations"][0]["status"], "running");
    stage.inbox(conn);
    assert_eq!(refused(&mut stage, "discard", None).0, -32011, "it runs already");
    let done = |outcome: Result<OperationOutcome, OperationError>| ChangesetInput::OperationDone {
        conn,
        id: RequestId::number(900),
        channel,
        operation: "discard".to_owned(),
        outcome,
    };
    let conflict = OperationError::Conflict("it changed".to_owned());
    stage.handle(done(Err(conflict)).into());
    let shown = stage.state(UNCOMMITTED)["operations"][0].clone();
    assert_eq!(
        (&shown["status"], &shown["error"]["message"]),
        (&json!("error"), &json!("it changed"))
    );
    invoke(&mut stage, conn, "discard", None);
    stage.inbox(conn);
    stage.agent.clear();
    let message = "1 file was set back".to_owned();
    stage.handle(done(Ok(OperationOutcome { message })).into());
    let is_refresh = |effect: &Effect| matches!(effect, Effect::Repositories(RepositoryCommand::Refresh { .. }));
    assert!(
        stage.agent.iter().any(is_refresh),
        "the row of the session shows the changes"
    );
    let answer = stage
        .inbox(conn)
        .into_iter()
        .find(|it| it["id"] == 900)
        .expect("an answer");
    assert_eq!(answer["result"], json!({ "message": "1 file was set back" }));
    let shown = stage.state(UNCOMMITTED)["operations"][0].clone();
    assert_eq!((&shown["status"], shown.get("error")), (&json!("idle"), None));
    let disabled = ComputedChangeset {
        operations: vec![operation(Some("nothing has changed"))],
        ..ComputedChangeset::default()
    };
    let outcome = Ok(Box::new(disabled));
    stage.handle(ChangesetInput::Computed { channel, outcome }.into());
    let (code, message) = refused(&mut stage, "discard", None);
    assert!(
        code == -32011 && message.contains("nothing has changed"),
        "{code} {message}"
    );
}

/// VS Code names a file of a remote host by its own URI, and encodes other characters than the host does.
#[test]
fn chg10_a_file_is_found_by_the_uri_that_vs_code_gives_it() {
    let (mut stage, conn, channel) = looking();
    computed(&mut stage, channel, vec![file("a=b c.txt", "1"), file("c", "1")]);
    let wrapped = "vscode-agent-host://127.0.0.1__4813/srv/project/a%3Db%20c.txt?_ah%3DeyJzY2hlbWUiOiJmaWxlIn0";
    invoke(
        &mut stage,
        conn,
        "discard",
        Some(json!({ "kind": "resource", "resource": wrapped })),
    );
    let requested = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Changes(ChangesCommand::Invoke { request, .. }) => request.target.clone(),
        _ => None,
    });
    assert_eq!(
        requested.map(|target| target.resource),
        Some(format!("{DIRECTORY}/a=b c.txt"))
    );
}

#[test]
fn ses04_an_isolated_session_works_in_its_worktree() {
    let worktree = || {
        json!({ "isolation": "worktree" })
            .as_object()
            .cloned()
            .expect("an object")
    };
    for outcome in [
        Ok("file:///srv/project.worktrees/one".to_owned()),
        Err("there is no repository".to_owned()),
    ] {
        let mut stage = Stage::with(config());
        let conn = stage.client("c", &[]);
        let answer = create(&mut stage, conn, worktree());
        assert!(answer.get("error").is_none(), "{answer}");
        stage.subscribe(conn, SESSION);
        let wanted = stage.agent.iter().find_map(|effect| match effect {
            Effect::Changes(ChangesCommand::Isolate { session, directory, .. }) => Some((*session, directory.clone())),
            _ => None,
        });
        let (session, directory) = wanted.expect("a worktree is made");
        assert_eq!(directory, DIRECTORY);
        assert!(
            !stage.agent.iter().any(|effect| matches!(effect, Effect::Agent(_))),
            "the agent waits for it"
        );
        stage.handle(
            ChangesetInput::Isolated {
                session,
                outcome: outcome.clone(),
            }
            .into(),
        );
        let state = stage.state(SESSION);
        match outcome {
            Ok(directory) => {
                assert_eq!(state["workingDirectories"], json!([directory]));
                assert_eq!(stage.last_opened().info.working_directories, [directory]);
                stage.opened(Ok(()));
                assert_eq!(stage.state(SESSION)["lifecycle"], "ready");
            }
            Err(problem) => assert_eq!(state["creationError"]["message"], problem),
        }
    }
    // The folder is the default.
    let mut stage = Stage::with(config());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, Map::new());
    assert_eq!(stage.last_opened().info.working_directories, [DIRECTORY]);
    assert_eq!(stage.state(SESSION)["config"]["values"]["isolation"], "folder");
}
