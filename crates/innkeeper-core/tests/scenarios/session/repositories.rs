//! The Git repository that a session works in, as its state and its summary show it.

use ahp::reducers::apply_action_to_session;
use ahp_types::actions::StateAction;
use ahp_types::state::SessionState;
use innkeeper_core::repository::{GitHubRepository, RepositoryChanges, RepositoryState};
use innkeeper_core::{ChannelId, ConnId, CoreConfig, Effect, Input, RepositoryCommand, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

const DIRECTORY: &str = "file:///home/me/inn/crates";

fn config() -> CoreConfig {
    CoreConfig {
        serves_repositories: true,
        ..CoreConfig::default()
    }
}

/// A session in a directory, with a subscriber to it and to the list.
fn stage() -> (Stage, ConnId, String) {
    let mut stage = Stage::able(config());
    let conn = stage.client("c", &["ahp-root://"]);
    let mut create = new_session(SESSION);
    create.working_directories = vec![DIRECTORY.to_owned()];
    stage.request(conn, innkeeper_core::Command::CreateSession(Box::new(create)));
    stage.opened(Ok(()));
    stage.subscribe(conn, SESSION);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, &chat);
    // A draft is in no list.
    stage.start_turn(conn, &chat, "t0");
    stage.ends(TurnEnd::Complete);
    stage.inbox(conn);
    (stage, conn, chat)
}

fn followed(stage: &Stage) -> Option<(ChannelId, String)> {
    stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Repositories(RepositoryCommand::Follow { session, directory }) => Some((*session, directory.clone())),
        _ => None,
    })
}

fn looks(stage: &Stage) -> usize {
    let is_look = |effect: &&Effect| matches!(effect, Effect::Repositories(RepositoryCommand::Refresh { .. }));
    stage.agent.iter().filter(is_look).count()
}

fn on_topic(uncommitted: u64) -> RepositoryState {
    RepositoryState {
        project_uri: "file:///home/me/inn".to_owned(),
        project_name: "inn".to_owned(),
        branch: Some("topic".to_owned()),
        base_branch: Some("main".to_owned()),
        outgoing: Some(2),
        uncommitted: Some(uncommitted),
        has_github_remote: true,
        github: Some(GitHubRepository {
            owner: "me".to_owned(),
            repo: "inn".to_owned(),
        }),
        changes: Some(RepositoryChanges {
            additions: 10 * uncommitted,
            deletions: uncommitted,
            files: uncommitted,
        }),
        ..RepositoryState::default()
    }
}

fn seen(stage: &mut Stage, state: Option<RepositoryState>) {
    let (session, directory) = followed(stage).expect("the repository is followed");
    let state = state.map(Box::new);
    stage.handle(Input::RepositorySeen {
        session,
        directory,
        state,
    });
}

/// The rows of the list.
fn rows(stage: &mut Stage, conn: ConnId) -> Value {
    stage.list(conn, None, None)["result"]["items"].clone()
}

#[test]
fn ses24_a_repository_status_is_published_once_in_state_and_list() {
    let (mut stage, conn, _) = stage();
    assert_eq!(followed(&stage).expect("followed").1, DIRECTORY);
    let mut mirror: SessionState = serde_json::from_value(stage.state(SESSION)).expect("a session");
    seen(&mut stage, Some(on_topic(3)));
    let told = stage.actions(conn);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["action"]["type"], "session/metaChanged");
    let git = json!({
        "hasGitHubRemote": true, "branchName": "topic", "baseBranchName": "main", "outgoingChanges": 2,
        "uncommittedChanges": 3, "githubOwner": "me", "githubRepo": "inn",
    });
    assert_eq!(stage.state(SESSION)["_meta"]["git"], git);
    let action: StateAction = serde_json::from_value(told[0]["action"].clone()).expect("an action");
    apply_action_to_session(&mut mirror, &action);
    assert_eq!(
        serde_json::to_value(&mirror).expect("JSON"),
        stage.state(SESSION),
        "folded is what a snapshot shows"
    );
    let row = rows(&mut stage, conn)[0].clone();
    assert_eq!(
        row["project"],
        json!({ "uri": "file:///home/me/inn", "displayName": "inn" })
    );
    assert_eq!(row["changes"], json!({ "additions": 30, "deletions": 3, "files": 3 }));
    assert_eq!(
        row["_meta"],
        json!({ "git": git, "github": { "owner": "me", "repo": "inn" } })
    );
    stage.inbox(conn);
    seen(&mut stage, Some(on_topic(3)));
    assert!(stage.actions(conn).is_empty(), "the same again is no news");
}

#[test]
fn root12_a_list_gets_the_branch_in_the_form_of_its_protocol_version() {
    let (mut stage, conn, _) = stage();
    let old = stage.connect();
    stage.initialize(old, "old", &["0.9.0"], &["ahp-root://"]);
    stage.pass(CoreConfig::default().summary_debounce_ms);
    seen(&mut stage, Some(on_topic(1)));
    stage.inbox(conn);
    stage.inbox(old);
    seen(&mut stage, Some(on_topic(2)));
    stage.pass(CoreConfig::default().summary_debounce_ms);
    let told = stage.notifications(old);
    let partial = told
        .iter()
        .find(|told| told["method"] == "root/sessionSummaryChanged")
        .expect("a change");
    let changes = &partial["params"]["changes"];
    assert_eq!(changes["_meta"]["git"]["uncommittedChanges"], 2, "{changes}");
    assert_eq!(changes["changes"]["files"], 2);
    assert!(
        told.iter().all(|told| told["method"] != "root/sessionAdded"),
        "{told:?}"
    );
    let told = stage.notifications(conn);
    let added = told
        .iter()
        .find(|told| told["method"] == "root/sessionAdded")
        .expect("E-36: the whole row");
    assert_eq!(added["params"]["summary"]["_meta"]["git"]["uncommittedChanges"], 2);
}

#[test]
fn a_repository_is_looked_at_again_after_each_turn() {
    let (mut stage, conn, chat) = stage();
    stage.start_turn(conn, &chat, "t1");
    let before = looks(&stage);
    stage.ends(TurnEnd::Complete);
    assert_eq!(looks(&stage), before + 1);
}

#[test]
fn a_directory_in_no_repository_shows_nothing_and_other_metadata_stays() {
    let (mut stage, conn, _) = stage();
    seen(&mut stage, None);
    assert!(stage.actions(conn).is_empty(), "there is nothing to tell");
    seen(&mut stage, Some(on_topic(1)));
    seen(&mut stage, None);
    assert_eq!(stage.state(SESSION)["_meta"], Value::Null);
    let row = rows(&mut stage, conn)[0].clone();
    assert_eq!([&row["project"], &row["changes"], &row["_meta"]], [&Value::Null; 3]);
}

#[test]
fn a_session_that_works_elsewhere_shows_the_repository_there() {
    let (mut stage, conn, _) = stage();
    let before = followed(&stage).expect("followed");
    let elsewhere = json!({ "type": "session/workingDirectorySet", "directory": "file:///home/me/other" });
    stage.dispatch(conn, SESSION, 1, elsewhere);
    assert_eq!(
        followed(&stage).expect("followed").1,
        DIRECTORY,
        "the first directory counts"
    );
    let gone = json!({ "type": "session/workingDirectoryRemoved", "directory": DIRECTORY });
    stage.dispatch(conn, SESSION, 2, gone);
    assert_eq!(followed(&stage).expect("followed").1, "file:///home/me/other");
    stage.inbox(conn);
    stage.handle(Input::RepositorySeen {
        session: before.0,
        directory: before.1,
        state: Some(Box::new(on_topic(1))),
    });
    assert!(
        stage.actions(conn).is_empty(),
        "what was seen where it worked before is of no interest"
    );
    stage.dispose(conn, SESSION);
    let forgotten = |effect: &Effect| matches!(effect, Effect::Repositories(RepositoryCommand::Unfollow { session }) if *session == before.0);
    assert!(stage.agent.iter().any(forgotten));
}

#[test]
fn no_repository_request_without_a_service() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let _chat = stage.session(conn, SESSION);
    assert!(followed(&stage).is_none());
}
