//! A host that starts again finds everything as it was, and says what was interrupted.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ahp_types::state::TurnState;
use innkeeper_core::{Command, Input};
use innkeeper_host::changes::{
    Changes, ChangesSink, ChangesetView, CountedChanges, OperationError, OperationOutcome, OperationRequest, TurnMoment,
};
use innkeeper_host::contents::Contents;
use innkeeper_host::customizations::Following;
use innkeeper_host::journal::{CrashSurvivors, JournalError, MemoryJournal};
use innkeeper_host::resources::Content;
use innkeeper_host::terminals::{Launch, Opened, TerminalError, TerminalRecord, TerminalSink, Terminals};
use innkeeper_host::{Host, HostBuilder, Limits, async_trait};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, markdown, message, queued};
use innkeeper_testkit::raw::get;
use serde_json::{Value, json};
use tokio::sync::Notify;

fn host(journal: &MemoryJournal) -> HostBuilder {
    Host::builder().agent(TestAgent).journal(journal.clone())
}

async fn stop(running: Running) {
    running.host.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn p_5_a_client_absent_during_a_restart_gets_the_missed_actions() {
    let journal = MemoryJournal::new();
    let running = Running::start(host(&journal)).await;
    let mut client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello there").await;
    client.cut().await;
    let other = OfficialClient::connect(&running.address, "other").await;
    other.join(&uris.session).await;
    other
        .dispatch(
            &uris.session,
            json!({ "type": "session/titleChanged", "title": "Renamed" }),
        )
        .await;
    other.run_turn(&uris.chat, "t2", "and again").await;
    stop(running).await;

    let running = Running::start(host(&journal)).await;
    client.move_to(&running.address);
    let resumed = client.reconnect().await.expect("known across restarts");
    assert!(matches!(resumed, ReconnectOutcome::Replay { .. }), "{resumed:?}");
    assert_eq!(client.session(&uris.session).title, "Renamed");
    assert_eq!(client.chat(&uris.chat).turns.len(), 2);
    client.assert_converged().await;
    let turn = client.run_turn(&uris.chat, "t3", "still here?").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
}

#[tokio::test]
async fn p_4_a_turn_that_ended_with_the_host_is_closed_with_its_output() {
    let journal = MemoryJournal::mortal(innkeeper_core::Seq(1000));
    let running = Running::start(host(&journal)).await;
    let mut client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("kept").await;
    client.start_turn(&uris.chat, "t1", "/stream 100000 5").await;
    client.running_text(&uris.chat, 200).await;
    client.dispatch(&uris.chat, queued("q1", "later")).await;
    client
        .dispatch(
            &uris.chat,
            json!({ "type": "chat/draftChanged", "draft": message("not sent yet") }),
        )
        .await;
    client
        .until("the draft is there", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.draft.is_some())
        })
        .await;
    let left = journal.crash(CrashSurvivors::Durable);

    let second = Running::start(host(&left)).await;
    client.cut().await;
    client.move_to(&second.address);
    client.reconnect().await.expect("known across restarts");
    client
        .until("the turn is over", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.active_turn.is_none())
        })
        .await;
    let chat = client.chat(&uris.chat);
    let turn = chat.turns.last().expect("the turn is history");
    assert_eq!(turn.state, TurnState::Error);
    assert!(!markdown(&turn.response_parts).is_empty());
    let error = serde_json::to_value(turn.response_parts.last().expect("an error part")).expect("JSON");
    assert_eq!(error["error"]["errorType"], "hostRestarted");
    assert_eq!(
        chat.queued_messages.map(|queue| queue.len()),
        Some(1),
        "what waited still waits"
    );
    client.assert_converged().await;
    drop(running);
}

#[tokio::test]
async fn p_14_a_full_disk_makes_the_host_read_only_until_there_is_room() {
    let journal = MemoryJournal::new();
    let mut limits = Limits::default();
    // A summary that is written later would meet the full disk first, and no client would get the action at all.
    limits.core.summary_debounce_ms = 600_000;
    let running = Running::start(host(&journal).limits(limits)).await;
    let mut client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello there").await;
    journal.fail_with(JournalError::Full("the disk is full".to_owned()));
    client
        .dispatch(
            &uris.session,
            json!({ "type": "session/titleChanged", "title": "never kept" }),
        )
        .await;
    let refusal = client.refusal(1).await;
    assert!(refusal.contains("the disk is full"), "{refusal}");
    client.disconnected().await;
    let ready = get(&running.address, "/readyz", &[]).await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("the disk is full"), "{}", ready.body);

    client.reconnect().await.expect("reading works");
    assert_eq!(client.chat(&uris.chat).turns.len(), 1);
    assert_ne!(client.session(&uris.session).title, "never kept");
    client.start_turn(&uris.chat, "t2", "hello?").await;
    let refusal = client.refusal(2).await;
    assert!(refusal.contains("the disk is full"), "{refusal}");
    client.assert_converged().await;

    journal.recover();
    client.disconnected().await;
    client.reconnect().await.expect("writing works");
    assert_eq!(get(&running.address, "/readyz", &[]).await.status, 200);
    client.run_turn(&uris.chat, "t2", "hello?").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn an_idle_session_leaves_memory_and_comes_back_as_it_was() {
    let journal = MemoryJournal::new();
    let mut limits = Limits::default();
    limits.core.idle_session_ms = 50;
    let running = Running::start(host(&journal).limits(limits)).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("idle").await;
    client.run_turn(&uris.chat, "t1", "remember me").await;
    let before = client.view().comparable(&uris.chat);
    client.unsubscribe(&uris.chat).await;
    client.unsubscribe(&uris.session).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let listed = client.listed(&uris.session).await;
    assert_eq!(listed.resource, uris.session);
    let again = OfficialClient::connect(&running.address, "second").await;
    again.join(&uris.session).await;
    assert_eq!(again.view().comparable(&uris.chat), before);
    again.run_turn(&uris.chat, "t2", "and now?").await;
    again.assert_converged().await;
}

/// A host whose core fails on the first input of a kind, once it is armed.
struct Trap(Arc<Mutex<Option<&'static str>>>);

impl Trap {
    fn set(&self, method: &'static str) {
        *self.0.lock().expect("no panic") = Some(method);
    }
}

fn name(input: &Input) -> &'static str {
    match input {
        Input::Dispatch { .. } => "dispatchAction",
        Input::Unsubscribe { .. } => "unsubscribe",
        Input::Request { command, .. } => match command {
            Command::Subscribe(_) => "subscribe",
            Command::ListSessions(_) => "listSessions",
            Command::CreateSession(_) => "createSession",
            Command::DisposeSession { .. } => "disposeSession",
            Command::CreateChat(_) => "createChat",
            Command::DisposeChat { .. } => "disposeChat",
            Command::MoveChat(_) => "moveChat",
            Command::FetchTurns { .. } => "fetchTurns",
            Command::Completions(_) => "completions",
            Command::ResolveSessionConfig(_) => "resolveSessionConfig",
            Command::SessionConfigCompletions(_) => "sessionConfigCompletions",
            Command::Authenticate(_) => "authenticate",
            // This host has no files to serve, and runs no MCP servers.
            Command::Mcp(_)
            | Command::Resource(_)
            | Command::RequestResource { .. }
            | Command::Part(_)
            | Command::Grants(_)
            | Command::Approvals(_)
            | Command::Initialize(_)
            | Command::Reconnect(_)
            | Command::Ping
            | Command::ListDeletedSessions
            | Command::RestoreSession { .. }
            | Command::ImportSession { .. } => "",
        },
        _ => "",
    }
}

#[tokio::test]
async fn f23_a_failure_in_any_handler_costs_that_request_and_one_reconnect() {
    let journal = MemoryJournal::new();
    let trap = Trap(Arc::default());
    let armed = Arc::clone(&trap.0);
    let breaking = host(&journal).break_on(move |input| {
        let mut armed = armed.lock().expect("no panic");
        let hits = armed.is_some_and(|method| method == name(input));
        if hits {
            *armed = None;
        }
        hits
    });
    let running = Running::start(breaking).await;
    let mut client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t0", "hello").await;
    let (session, chat) = (uris.session.as_str(), uris.chat.as_str());
    let root = "ahp-root://";
    let requests = [
        ("subscribe", json!({ "channel": chat })),
        ("listSessions", json!({ "channel": root })),
        ("createSession", json!({ "channel": "ahp-session:/other" })),
        ("createChat", json!({ "channel": session, "chat": "ahp-chat:/more" })),
        ("disposeChat", json!({ "channel": "ahp-chat:/more" })),
        (
            "moveChat",
            json!({ "channel": chat, "destination": { "kind": "newSession" } }),
        ),
        ("fetchTurns", json!({ "channel": chat })),
        (
            "completions",
            json!({ "channel": chat, "kind": "userMessage", "text": "/", "offset": 1 }),
        ),
        ("resolveSessionConfig", json!({ "channel": root, "config": {} })),
        (
            "sessionConfigCompletions",
            json!({ "channel": root, "property": "topic", "query": "", "config": {} }),
        ),
        (
            "authenticate",
            json!({ "channel": root, "resource": "https://a.example", "token": "t" }),
        ),
        ("disposeSession", json!({ "channel": session })),
    ];
    let mut cases = 0;
    for (method, params) in requests {
        trap.set(method);
        let (code, message) = client.refused(method, params).await;
        assert_eq!(code, -32603, "{method}: {message}");
        client.disconnected().await;
        client.reconnect().await.expect("the host goes on");
        client.assert_converged().await;
        cases += 1;
    }
    trap.set("dispatchAction");
    client
        .dispatch(session, json!({ "type": "session/titleChanged", "title": "half done" }))
        .await;
    client.disconnected().await;
    client.reconnect().await.expect("the host goes on");
    assert_ne!(client.session(session).title, "half done", "what failed did not happen");
    client.run_turn(chat, "t1", "still alive").await;
    client.assert_converged().await;
    println!("handlers that failed: {}", cases + 1);
}

/// Services that store something beside sessions, and note the sessions whose files they remove.
#[derive(Clone, Default)]
struct SessionFiles {
    forgotten: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl SessionFiles {
    fn note(&self, service: &'static str, session: &str) {
        let mut forgotten = self.forgotten.lock().expect("no panic");
        forgotten.push((service, session.to_owned()));
    }

    /// Returns what was forgotten, in the order of the names.
    fn forgotten(&self) -> Vec<(&'static str, String)> {
        let mut forgotten = self.forgotten.lock().expect("no panic").clone();
        forgotten.sort();
        forgotten
    }

    /// Waits until every service has removed its files of a session.
    async fn until_erased(&self, session: &str) {
        let all = ["changes", "contents", "terminals"].map(|service| (service, session.to_owned()));
        let erased = async {
            while self.forgotten() != all {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let erased = tokio::time::timeout(Duration::from_secs(10), erased).await;
        assert!(erased.is_ok(), "{:?}", self.forgotten());
    }
}

#[async_trait]
impl Terminals for SessionFiles {
    async fn open(&self, _: Launch, _: TerminalSink) -> Result<Opened, TerminalError> {
        Err(TerminalError::CannotStart("not in this test".to_owned()))
    }

    async fn retain(&self, _: TerminalRecord) -> Result<(), TerminalError> {
        Ok(())
    }

    async fn recall(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    async fn forget(&self, _: &str) {}

    async fn forget_session(&self, session: &str) {
        self.note("terminals", session);
    }
}

#[async_trait]
impl Changes for SessionFiles {
    fn follow(&self, _: ChangesetView, _: Arc<Notify>, _: ChangesSink) -> Following {
        Following::new(())
    }

    async fn record(&self, _: TurnMoment) -> Option<CountedChanges> {
        None
    }

    async fn invoke(&self, _: ChangesetView, _: OperationRequest) -> Result<OperationOutcome, OperationError> {
        Err(OperationError::Failed("not in this test".to_owned()))
    }

    async fn read(&self, _: &str, _: &str, _: usize) -> Result<Option<Content>, String> {
        Ok(None)
    }

    async fn isolate(&self, _: &str, _: &str) -> Result<String, String> {
        Err("not in this test".to_owned())
    }

    async fn forget(&self, session: &str) {
        self.note("changes", session);
    }
}

#[async_trait]
impl Contents for SessionFiles {
    async fn keep(&self, _: &str, _: &str, _: Content) -> Result<(), String> {
        Ok(())
    }

    async fn read(&self, _: &str, _: &str) -> Result<Option<Content>, String> {
        Ok(None)
    }

    async fn restore(&self, _: &str, _: &str, _: Content, _: SystemTime) -> Result<bool, String> {
        Ok(false)
    }

    fn room(&self) -> u64 {
        0
    }

    fn open(&self, _: &str) {}

    fn close(&self, _: &str) {}

    async fn forget(&self, session: &str) {
        self.note("contents", session);
    }
}

fn host_with_files(journal: &MemoryJournal, files: &SessionFiles, undo_delete_ms: u64) -> HostBuilder {
    let mut limits = Limits::default();
    limits.core.undo_delete_ms = undo_delete_ms;
    let builder = host(journal).limits(limits);
    builder
        .terminals(files.clone())
        .changes(files.clone())
        .contents(files.clone())
}

async fn dispose(client: &OfficialClient, params: Value) {
    let _: Value = client.request("disposeSession", params).await.expect("disposed of");
}

#[tokio::test]
async fn ses38_a_purged_session_leaves_nothing_with_any_service() {
    let (journal, files) = (MemoryJournal::new(), SessionFiles::default());
    let running = Running::start(host_with_files(&journal, &files, 60_000)).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let deleted = client.create_listed_session("deleted").await;
    client.create_session("stays").await;
    dispose(&client, json!({ "channel": deleted.session })).await;
    stop(running).await;
    assert_eq!(files.forgotten(), [], "the deletion can be undone");

    // A host looks for expired deletions when it starts.
    let running = Running::start(host_with_files(&journal, &files, 1)).await;
    files.until_erased(&deleted.session).await;
    stop(running).await;
}

#[tokio::test]
async fn a_session_deleted_for_good_leaves_nothing_with_any_service() {
    let (journal, files) = (MemoryJournal::new(), SessionFiles::default());
    let running = Running::start(host_with_files(&journal, &files, 60_000)).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("deleted").await;
    let for_good = json!({ "channel": uris.session, "_meta": { "innkeeper.forGood": true } });
    dispose(&client, for_good).await;
    files.until_erased(&uris.session).await;
    stop(running).await;
}
