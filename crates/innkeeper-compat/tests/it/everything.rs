//! One client of 1.0 does all the things there are, and clients of every older version watch.
//!
//! After each step, the fold of each watcher equals a fresh snapshot of the same version. All failures are collected,
//! so that one run shows every version and step that differs.

mod changes;

use innkeeper_compat::client::CompatClient;
use innkeeper_compat::version::Version;
use innkeeper_compat::words::Uris;
use innkeeper_testkit::process::{HostOptions, HostProcess};
use serde_json::{Value, json};

use crate::options;

const NEWEST: Version = Version::V1_0;

/// Set to have every version watch, which takes too long for every commit.
const ALL: &str = "INNKEEPER_COMPAT_ALL";

/// The versions that watch: one of each generation, or all.
fn watching() -> Vec<Version> {
    if std::env::var_os(ALL).is_some() {
        return Version::ALL.to_vec();
    }
    vec![
        Version::V0_1,
        Version::V0_3,
        Version::V0_4,
        Version::V0_5_2,
        Version::V0_8,
        Version::V0_9,
    ]
}

/// The client that acts, and the watchers.
struct Gallery {
    host: HostProcess,
    newest: CompatClient,
    uris: Uris,
    watchers: Vec<CompatClient>,
    steps: usize,
    failures: Vec<String>,
}

impl Gallery {
    async fn new(params: Value) -> Self {
        Self::with(options(), params).await
    }

    async fn with(options: HostOptions, params: Value) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let host = HostProcess::start(options.environment("PATH", path)).await;
        let url = host.address().url_with_token();
        let newest = CompatClient::connect(&url, NEWEST, "newest").await;
        let uris = newest.create_session("everything", params).await;
        let mut watchers = Vec::new();
        for version in watching() {
            let watcher = CompatClient::connect(&url, version, &format!("watcher-{}", version.number())).await;
            watcher.join(&uris.session).await;
            watchers.push(watcher);
        }
        Self {
            host,
            newest,
            uris,
            watchers,
            steps: 0,
            failures: Vec::new(),
        }
    }

    /// Checks all watchers.
    async fn check(&mut self, step: &str) {
        self.newest.caught_up().await;
        self.steps += 1;
        for watcher in &self.watchers {
            if let Some(divergence) = watcher.divergence().await {
                let failure = format!("{} after {step}: {divergence}", watcher.version.number());
                eprintln!("{failure}");
                self.failures.push(failure);
                // It begins again with a fresh state, so that each failure is reported once.
                let channels: Vec<String> = watcher.view().states.keys().cloned().collect();
                for channel in channels {
                    let _ = watcher.try_subscribe(&channel).await;
                }
            }
        }
    }

    async fn dispatch(&mut self, channel: &str, action: Value) {
        self.newest.dispatch(channel, action).await;
    }

    /// Dispatches an action about the session, and checks.
    async fn session(&mut self, step: &str, action: Value) {
        self.dispatch(&self.uris.session.clone(), action).await;
        self.check(step).await;
    }

    /// Dispatches an action about the chat, and checks.
    async fn chat(&mut self, step: &str, action: Value) {
        self.dispatch(&self.uris.chat.clone(), action).await;
        self.check(step).await;
    }

    async fn start(&mut self, turn: &str, text: &str) {
        self.newest.start_turn(&self.uris, turn, text).await;
    }

    /// Runs a turn to its end, and checks.
    async fn turn(&mut self, turn: &str, text: &str) {
        self.newest.run_turn(&self.uris, turn, text).await;
        self.check(text).await;
    }

    /// Starts a turn, waits for a call in this status, checks, acts on the call, and checks at the end.
    async fn call(&mut self, turn: &str, text: &str, status: &str, action: &str, more: Value) {
        self.start(turn, text).await;
        let call = self.newest.call_in(&self.uris, status).await;
        self.check(&format!("{text}: {status}")).await;
        self.newest
            .about_call(&self.uris, turn, &call, action, more.clone())
            .await;
        self.newest.turn_end(&self.uris, turn).await;
        self.check(&format!("{text}: {more}")).await;
    }

    async fn ended(&mut self, turn: &str) {
        self.newest.turn_end(&self.uris, turn).await;
    }

    /// Subscribes the watchers that have chats to another chat.
    async fn watch(&mut self, chat: &str) {
        self.newest.subscribe(chat).await;
        for watcher in self.watchers.iter().filter(|watcher| watcher.version.has_chats()) {
            watcher.subscribe(chat).await;
        }
    }

    async fn unwatch(&mut self, chat: &str) {
        self.newest.unsubscribe(chat).await;
        for watcher in self.watchers.iter().filter(|watcher| watcher.version.has_chats()) {
            watcher.unsubscribe(chat).await;
        }
    }

    /// Dispatches an action that gives the session another first directory, and checks: versions with one directory
    /// keep theirs, and get the other with their next subscription.
    async fn another_first_directory(&mut self, action: Value, (before, after): (&str, &str)) {
        let session = self.uris.session.clone();
        self.dispatch(&session, action).await;
        self.newest.caught_up().await;
        let shown = |watcher: &CompatClient| match watcher.version.has_active_clients() {
            true => watcher.state(&session)["workingDirectory"].clone(),
            false => watcher.state(&session)["summary"]["workingDirectory"].clone(),
        };
        for watcher in self
            .watchers
            .iter()
            .filter(|watcher| !watcher.version.has_directories())
        {
            watcher.caught_up().await;
            assert_eq!(shown(watcher), before, "{}", watcher.name());
            watcher.subscribe(&session).await;
            assert_eq!(shown(watcher), after, "{}", watcher.name());
        }
        self.check(&format!("{after} is the first directory")).await;
    }

    fn end(self, least: usize) {
        eprintln!(
            "{} steps, {} watchers, log:\n{}",
            self.steps,
            self.watchers.len(),
            self.host.log()
        );
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n\n"));
        assert!(self.steps >= least, "{} steps", self.steps);
    }
}

fn message(text: &str) -> Value {
    NEWEST.message(text)
}

#[tokio::test]
async fn every_version_follows_turns_tools_and_questions() {
    let mut all = Gallery::new(json!({})).await;
    all.check("the beginning").await;
    all.turn("t1", "/stream 30 1 16").await;
    all.turn("t2", "Good evening").await;
    all.turn("t3", "/reason because").await;
    all.turn("t4", "/usage").await;
    all.turn("t5", "/long 8").await;
    all.turn("t6", "/tool").await;
    all.turn("t7", "/plan").await;
    let yes = || json!({ "approved": true, "confirmed": "user-action" });
    all.call("a1", "/confirm", "pending-confirmation", "toolCallConfirmed", yes())
        .await;
    let denied = json!({
        "approved": false, "reason": "denied", "reasonMessage": { "markdown": "*no*" }, "userSuggestion": message("whisper"),
    });
    all.call("a2", "/confirm", "pending-confirmation", "toolCallConfirmed", denied)
        .await;
    let edited = json!({ "approved": true, "editedToolInput": "{\"times\": 5}" });
    all.call("a3", "/confirm", "pending-confirmation", "toolCallConfirmed", edited)
        .await;
    let chosen = json!({ "approved": true, "selectedOptionId": "loudly" });
    all.call("a4", "/options", "pending-confirmation", "toolCallConfirmed", chosen)
        .await;
    let never = json!({ "approved": false, "selectedOptionId": "never" });
    all.call("a5", "/options", "pending-confirmation", "toolCallConfirmed", never)
        .await;
    all.call(
        "a6",
        "/result",
        "pending-result-confirmation",
        "toolCallResultConfirmed",
        yes_only(),
    )
    .await;
    let no = json!({ "approved": false });
    all.call(
        "a7",
        "/result",
        "pending-result-confirmation",
        "toolCallResultConfirmed",
        no,
    )
    .await;

    // The verdict about the risk arrives while the call waits.
    all.start("a8", "/confirm").await;
    let call = all.newest.call_in(&all.uris, "pending-confirmation").await;
    all.newest
        .until("the risk is assessed", |view| {
            view.states[&all.uris.chat].to_string().contains("It is loud")
        })
        .await;
    all.check("a verdict about the risk").await;
    all.newest
        .about_call(&all.uris, "a8", &call, "toolCallConfirmed", yes())
        .await;
    all.ended("a8").await;
    all.check("an approval after the verdict").await;

    all.start("a9", "/confirm again").await;
    let call = all.newest.call_in(&all.uris, "pending-confirmation").await;
    all.newest
        .about_call(&all.uris, "a9", &call, "toolCallConfirmed", yes())
        .await;
    all.newest
        .until("it asks again", |view| {
            view.states[&all.uris.chat].to_string().contains("once more")
        })
        .await;
    all.check("a call that asks again").await;
    all.newest
        .about_call(&all.uris, "a9", &call, "toolCallConfirmed", yes())
        .await;
    all.ended("a9").await;
    all.check("a call that was approved twice").await;

    all.start("a10", "/parallel 3").await;
    for number in 0..3 {
        let call = all.newest.call_in(&all.uris, "pending-confirmation").await;
        all.check(&format!("parallel calls, {number} decided")).await;
        all.newest
            .about_call(&all.uris, "a10", &call, "toolCallConfirmed", yes())
            .await;
        all.newest
            .until("it is decided", |view| {
                let parts = view.states[&all.uris.chat]["activeTurn"]["responseParts"].clone();
                let waits = |part: &Value| {
                    part["toolCall"]["toolCallId"] == call["toolCallId"]
                        && part["toolCall"]["status"] == "pending-confirmation"
                };
                !parts.as_array().is_some_and(|parts| parts.iter().any(waits))
            })
            .await;
    }
    all.ended("a10").await;
    all.check("parallel calls").await;

    // A call that waits for a sign-in.
    all.start("a11", "/auth").await;
    all.newest.call_in(&all.uris, "auth-required").await;
    all.check("a call that waits for a sign-in").await;
    let token = json!({ "channel": "ahp-root://", "resource": "https://guest-book.example.com", "token": "t" });
    all.newest.request("authenticate", token).await;
    all.ended("a11").await;
    all.check("a sign-in").await;
    all.start("a12", "/auth").await;
    all.newest.call_in(&all.uris, "auth-required").await;
    all.chat("a cancelled sign-in", NEWEST.turn_cancelled("a12")).await;

    // Questions: drafts, answers, refusals, a page, and a turn that is cancelled.
    all.start("q1", "/ask").await;
    let request = all.newest.question(&all.uris).await;
    all.check("a question").await;
    let mut draft = json!({
        "type": "chat/inputAnswerChanged", "requestId": request["id"], "questionId": "name",
        "answer": { "state": "draft", "value": { "kind": "text", "value": "Ad" } },
    });
    all.chat("a draft", draft.clone()).await;
    draft["answer"] = json!({ "state": "skipped", "freeformValues": ["later"] });
    all.chat("a skipped question", draft.clone()).await;
    draft.as_object_mut().expect("an object").shift_remove("answer");
    all.chat("a draft that is taken back", draft).await;
    let answers = json!({
        "name": { "state": "submitted", "value": { "kind": "text", "value": "Ada" } },
        "height": { "state": "submitted", "value": { "kind": "number", "value": 1.75 } },
        "meals": { "state": "submitted", "value": { "kind": "selected-many", "value": ["lunch"] } },
    });
    let completed = json!({
        "type": "chat/inputCompleted", "requestId": request["id"], "response": "accept", "answers": answers,
    });
    all.chat("an answer", completed).await;
    all.ended("q1").await;
    all.check("a turn with a question").await;
    for (turn, text, response) in [
        ("q2", "/ask", "decline"),
        ("q3", "/ask url", "cancel"),
        ("q4", "/ask url", "accept"),
    ] {
        all.start(turn, text).await;
        let request = all.newest.question(&all.uris).await;
        all.check(text).await;
        let completed = json!({ "type": "chat/inputCompleted", "requestId": request["id"], "response": response });
        all.dispatch(&all.uris.chat.clone(), completed).await;
        all.ended(turn).await;
        all.check(response).await;
    }
    all.start("q5", "/ask").await;
    all.newest.question(&all.uris).await;
    all.dispatch(&all.uris.chat.clone(), NEWEST.turn_cancelled("q5")).await;
    all.ended("q5").await;
    all.check("a question of a cancelled turn").await;
    all.end(45);
}

fn yes_only() -> Value {
    json!({ "approved": true })
}

#[tokio::test]
async fn every_version_follows_queues_failures_and_history() {
    let mut all = Gallery::new(json!({})).await;
    all.start("t1", "/confirm").await;
    let call = all.newest.call_in(&all.uris, "pending-confirmation").await;
    all.chat("a queued message", NEWEST.pending("queued", "a", "/usage"))
        .await;
    all.chat("two queued messages", NEWEST.pending("queued", "b", "two"))
        .await;
    all.chat("a third", NEWEST.pending("queued", "c", "three")).await;
    all.chat("an edited message", NEWEST.pending("queued", "b", "edited"))
        .await;
    let order = json!({ "type": "chat/queuedMessagesReordered", "order": ["c", "a", "b"] });
    all.chat("a new order", order).await;
    let removed = json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "a" });
    all.chat("one message less", removed).await;
    all.chat("steering", NEWEST.pending("steering", "s", "hurry")).await;
    let removed = json!({ "type": "chat/pendingMessageRemoved", "kind": "steering", "id": "s" });
    all.chat("no steering", removed).await;
    all.newest
        .about_call(&all.uris, "t1", &call, "toolCallConfirmed", yes_only())
        .await;
    all.newest
        .until("the queue is done", |view| {
            view.states[&all.uris.chat]["turns"]
                .as_array()
                .is_some_and(|turns| turns.len() == 3)
        })
        .await;
    all.newest.at_rest(&all.uris).await;
    all.check("queued turns").await;

    all.start("t2", "/steer 10").await;
    all.check("a turn that listens").await;
    all.dispatch(&all.uris.chat.clone(), NEWEST.pending("steering", "s1", "enough"))
        .await;
    all.ended("t2").await;
    all.check("a steered turn").await;

    all.start("t3", "/slow 30").await;
    all.newest
        .until("it shows its activity", |view| {
            view.states[&all.uris.chat]["activity"].is_string()
        })
        .await;
    all.check("an activity").await;
    all.dispatch(&all.uris.chat.clone(), NEWEST.turn_cancelled("t3")).await;
    all.ended("t3").await;
    all.check("a cancelled turn").await;

    all.turn("t4", "/error").await;
    all.turn("t5", "/error resumable").await;
    let resume = |turn: &str| json!({ "type": "chat/turnResume", "turnId": turn });
    all.dispatch(&all.uris.chat.clone(), resume("t5")).await;
    all.newest
        .until("the resumed turn ends well", |view| {
            let turns = view.states[&all.uris.chat]["turns"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            turns
                .last()
                .is_some_and(|turn| turn["id"] == "t5" && turn["state"] == "complete")
        })
        .await;
    all.check("a resumed turn").await;

    let attachments = json!([
        { "type": "simple", "label": "note", "modelRepresentation": "remember the milk" },
        { "type": "embeddedResource", "label": "image", "data": "aGVsbG8h", "contentType": "image/png" },
        { "type": "resource", "label": "main", "uri": "file:///inn/main.rs",
          "selection": { "range": { "start": { "line": 1, "character": 0 }, "end": { "line": 2, "character": 0 } } } },
    ]);
    let mut attached = NEWEST.turn_started("t6", "/attachments");
    attached["message"]["attachments"] = attachments;
    all.dispatch(&all.uris.chat.clone(), attached).await;
    all.ended("t6").await;
    all.check("attachments").await;

    let mut chosen = NEWEST.turn_started("t7", "/stream 1");
    chosen["message"]["model"] = json!({ "id": "tour" });
    all.dispatch(&all.uris.chat.clone(), chosen).await;
    all.ended("t7").await;
    all.check("a message with a model").await;
    let mut draft = json!({ "type": "chat/draftChanged", "draft": message("half a sent") });
    all.chat("a draft", draft.clone()).await;
    draft["draft"]["model"] = json!({ "id": "tour" });
    all.chat("a draft with a model", draft).await;
    all.chat("no draft", json!({ "type": "chat/draftChanged" })).await;

    all.chat("truncation", json!({ "type": "chat/truncated", "turnId": "t2" }))
        .await;
    all.turn("t8", "/stream 2").await;
    // A turn that is resumed as the first one of the chat.
    all.chat("truncation of everything", json!({ "type": "chat/truncated" }))
        .await;
    all.turn("t9", "/error resumable").await;
    all.dispatch(&all.uris.chat.clone(), resume("t9")).await;
    all.newest
        .until("the resumed turn ends well", |view| {
            let turns = view.states[&all.uris.chat]["turns"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            turns
                .last()
                .is_some_and(|turn| turn["id"] == "t9" && turn["state"] == "complete")
        })
        .await;
    all.check("a resumed first turn").await;
    all.end(26);
}

#[tokio::test]
async fn every_version_follows_the_session_and_its_chats() {
    let mut all = Gallery::new(json!({})).await;
    all.turn("t1", "/stream 3").await;
    all.session("a title", json!({ "type": "session/titleChanged", "title": "Lamps" }))
        .await;
    for flag in [true, false] {
        all.session("isRead", json!({ "type": "session/isReadChanged", "isRead": flag }))
            .await;
        all.session(
            "isArchived",
            json!({ "type": "session/isArchivedChanged", "isArchived": flag }),
        )
        .await;
        all.chat(
            "isRead of the chat",
            json!({ "type": "chat/isReadChanged", "isRead": flag }),
        )
        .await;
        all.chat(
            "isArchived of the chat",
            json!({ "type": "chat/isArchivedChanged", "isArchived": flag }),
        )
        .await;
    }
    all.session(
        "a session that is read",
        json!({ "type": "session/isReadChanged", "isRead": true }),
    )
    .await;
    all.chat(
        "a chat that is read",
        json!({ "type": "chat/isReadChanged", "isRead": true }),
    )
    .await;
    all.turn("t2", "/stream 3").await;
    let config =
        json!({ "type": "session/configChanged", "config": { "mood": "grumpy", "autoApprove": "autoApprove" } });
    all.session("settings", config).await;
    all.turn("t3", "/confirm").await;
    // A replacement must contain the settings that cannot change.
    let config = json!({ "mood": "cheerful", "isolation": "folder" });
    let config = json!({ "type": "session/configChanged", "config": config, "replace": true });
    all.session("other settings", config).await;
    let root = json!({ "type": "root/configChanged", "config": { "silenceLimitMinutes": 90 } });
    all.dispatch(NEWEST.root(), root).await;
    all.check("a setting of the host").await;

    let (second, third) = ("ahp-chat:/second", "ahp-chat:/third");
    let create = |chat: &str, more: Value| {
        let mut params = json!({ "channel": "ahp-session:/everything", "chat": chat });
        innkeeper_compat::words::merge(&mut params, more);
        params
    };
    all.newest
        .request(
            "createChat",
            create(second, json!({ "initialMessage": message("/stream 3") })),
        )
        .await;
    all.check("a second chat").await;
    all.watch(second).await;
    all.check("a second chat that is watched").await;
    let fork = json!({ "source": { "kind": "fork", "chat": all.uris.chat, "turnId": "t2" } });
    all.newest.request("createChat", create(third, fork)).await;
    all.watch(third).await;
    all.check("a forked chat").await;
    let side = json!({ "source": { "kind": "sideChat", "chat": all.uris.chat, "turnId": "t2" } });
    all.newest.request("createChat", create("ahp-chat:/side", side)).await;
    all.check("a side chat").await;
    let in_second = Uris {
        session: all.uris.session.clone(),
        chat: second.to_owned(),
    };
    all.newest.run_turn(&in_second, "s1", "/stream 3").await;
    all.check("a turn in the second chat").await;
    all.newest.start_turn(&in_second, "s2", "/confirm").await;
    let call = all.newest.call_in(&in_second, "pending-confirmation").await;
    all.check("a call that waits in the second chat").await;
    all.newest
        .about_call(&in_second, "s2", &call, "toolCallConfirmed", yes_only())
        .await;
    all.newest.turn_end(&in_second, "s2").await;
    all.check("a call in the second chat").await;
    all.dispatch(second, json!({ "type": "chat/isReadChanged", "isRead": true }))
        .await;
    all.check("a second chat that is read").await;
    for after in [Value::Null, json!(third)] {
        let mut destination = json!({ "kind": "session", "session": all.uris.session });
        if after.is_string() {
            destination["after"] = after;
        }
        let params = json!({ "channel": second, "destination": destination });
        all.newest.request("moveChat", params).await;
        all.check("another order of chats").await;
    }
    all.session(
        "another default chat",
        json!({ "type": "session/defaultChatChanged", "defaultChat": second }),
    )
    .await;
    all.session(
        "the first default chat",
        json!({ "type": "session/defaultChatChanged", "defaultChat": all.uris.chat }),
    )
    .await;
    all.unwatch(third).await;
    all.newest.request("disposeChat", json!({ "channel": third })).await;
    all.check("a disposed chat").await;

    // Subagents: one that asks, and one that goes on after the turn.
    all.start("w1", "/subagent").await;
    let subagent = all
        .newest
        .find("the subagent's chat is shown", |view| {
            let parts = view.states[&all.uris.chat]["activeTurn"]["responseParts"]
                .as_array()?
                .clone();
            let contents = parts.iter().filter_map(|part| part["toolCall"]["content"].as_array());
            let mut contents = contents.flatten();
            let subagent = contents.find(|content| content["type"] == "subagent")?;
            subagent["resource"].as_str().map(str::to_owned)
        })
        .await;
    all.newest.subscribe(&subagent).await;
    // Also versions without chats open a subagent by its URI.
    for watcher in &all.watchers {
        watcher.subscribe(&subagent).await;
    }
    let theirs = Uris {
        session: all.uris.session.clone(),
        chat: subagent.clone(),
    };
    let call = all.newest.call_in(&theirs, "pending-confirmation").await;
    all.check("a subagent that asks").await;
    let turn = all.newest.state(&subagent)["activeTurn"]["id"]
        .as_str()
        .expect("a turn")
        .to_owned();
    all.newest
        .about_call(&theirs, &turn, &call, "toolCallConfirmed", yes_only())
        .await;
    all.ended("w1").await;
    all.check("a subagent").await;
    all.turn("w2", "/background 1").await;
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    all.check("the end of background work").await;
    all.end(34);
}

#[tokio::test]
async fn every_version_follows_clients_directories_and_customizations() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().canonicalize().expect("there");
    for name in ["one", "two"] {
        let skill = root.join(format!("work/.claude/skills/{name}"));
        std::fs::create_dir_all(&skill).expect("created");
        let text = format!("---\nname: {name}\ndescription: Does it.\n---\nDo it.\n");
        std::fs::write(skill.join("SKILL.md"), text).expect("written");
    }
    std::fs::create_dir_all(root.join("other")).expect("created");
    std::fs::create_dir_all(root.join("third")).expect("created");
    let uri = |name: &str| format!("file://{}", root.join(name).display());
    let mut all = Gallery::new(json!({ "workingDirectories": [uri("work")] })).await;
    let session = all.uris.session.clone();
    let entry = all
        .newest
        .find("the skills are found", |view| {
            let entries = view.states[&session]["customizations"].as_array()?;
            let mut skills = entries.iter().filter(|entry| entry["name"] == ".claude/skills");
            skills
                .next()
                .filter(|entry| !entry.to_string().contains("\"loading\""))
                .cloned()
        })
        .await;
    all.check("customizations").await;
    let child = &entry["children"][0];
    for (id, scope) in [
        (&entry["id"], json!({ "kind": "session" })),
        (&child["id"], json!({ "kind": "session" })),
        (&entry["id"], json!({ "kind": "workspace", "uri": uri("work") })),
        (&entry["id"], json!({ "kind": "global" })),
    ] {
        for enabled in [false, true] {
            let mut scope = scope.clone();
            scope["enabled"] = enabled.into();
            let action = json!({ "type": "session/customizationToggled", "id": id, "enablement": [scope] });
            all.session(&format!("a switch: {action}"), action).await;
        }
    }
    let skill = root.join("work/.claude/skills/three");
    std::fs::create_dir_all(&skill).expect("created");
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: three\ndescription: New.\n---\nDo it.\n",
    )
    .expect("written");
    all.newest
        .until("the new skill is found", |view| {
            view.states[&session].to_string().contains("\"three\"")
        })
        .await;
    all.check("a new skill").await;

    let directory =
        |kind: &str, name: &str| json!({ "type": format!("session/workingDirectory{kind}"), "directory": uri(name) });
    all.session("a second directory", directory("Set", "other")).await;
    let mut replaced = directory("Replaced", "other");
    replaced["replacement"] = uri("third").into();
    all.session("a replaced directory", replaced).await;
    all.session("one directory", directory("Removed", "third")).await;
    let of_chat = |kind: &str| json!({ "type": format!("chat/workingDirectory{kind}"), "directory": uri("work") });
    all.chat("a directory of the chat", of_chat("Set")).await;
    all.chat("no directory of the chat", of_chat("Removed")).await;

    let client = |id: &str, tools: &[&str]| NEWEST.activated(NEWEST.active_client(id, tools));
    all.session("an active client", client("newest", &["open"])).await;
    all.session("more tools", client("newest", &["open", "close"])).await;
    all.start("c1", r#"/client-tool open {"path": "a.txt"}"#).await;
    let call = all.newest.call_in(&all.uris, "running").await;
    all.check("a call of a client's tool").await;
    let piece = json!({ "content": [{ "type": "text", "text": "opening" }] });
    all.newest
        .about_call(&all.uris, "c1", &call, "toolCallContentChanged", piece)
        .await;
    all.check("a piece of a result").await;
    let result = json!({
        "result": {
            "success": false, "pastTenseMessage": "Opened it", "error": { "message": "it was locked" },
            "content": [{ "type": "text", "text": "opened" }, { "type": "resource", "uri": "file:///a.txt" }],
        }
    });
    all.newest
        .about_call(&all.uris, "c1", &call, "toolCallComplete", result)
        .await;
    all.ended("c1").await;
    all.check("a result of a client").await;
    let url = all.host.address().url_with_token();
    let other = CompatClient::connect(&url, NEWEST, "other").await;
    other.subscribe(&session).await;
    other.dispatch(&session, client("other", &["jump"])).await;
    other.caught_up().await;
    all.check("a second active client").await;
    let plugin = json!([{
        "type": "plugin", "id": "house", "uri": "virtual://newest/house", "name": "House", "nonce": "1",
    }]);
    let mut publishing = client("newest", &["open"]);
    publishing["activeClient"]["customizations"] = plugin.clone();
    all.session("a plugin of a client", publishing.clone()).await;
    publishing["activeClient"]["customizations"][0]["enablement"] = json!([{ "kind": "global", "enabled": false }]);
    all.session("a plugin that is off", publishing).await;
    all.session("a client that leaves", NEWEST.deactivated("newest")).await;
    other.dispatch(&session, NEWEST.deactivated("other")).await;
    other.caught_up().await;
    all.check("no active client").await;

    // The first directory is the one that versions up to 0.6 show. No action of theirs changes it, so they see another
    // one with their next subscription.
    let mut replaced = directory("Replaced", "work");
    replaced["replacement"] = uri("third").into();
    all.another_first_directory(replaced, (&uri("work"), &uri("third")))
        .await;
    // The agent of these sessions does not let its first directory be removed.
    all.newest.rejected(&session, directory("Removed", "third")).await;
    all.check("a first directory that stays").await;
    all.end(27);
}

#[tokio::test]
async fn every_version_follows_mcp_servers() {
    let program = std::env::current_exe().expect("this program").display().to_string();
    let section = format!(
        "[mcp.servers.garden]\ncommand = {program:?}\nargs = [\"--exact\", \"odd_server\", \"--nocapture\"]\n\
         env = {{ {} = \"plain\" }}\n",
        innkeeper_testkit::misbehaving_server::KIND
    );
    let mut all = Gallery::with(options().setting(&section), json!({})).await;
    let session = all.uris.session.clone();
    let server = async |all: &Gallery, state: &str| {
        all.newest
            .find(&format!("the server is {state}"), |view| {
                let entries = view.states[&session]["customizations"].as_array()?.clone();
                let is_it = |entry: &Value| entry["name"] == "garden" && entry["state"]["kind"] == state;
                entries.into_iter().find(is_it)
            })
            .await
    };
    let id = server(&all, "ready").await["id"].clone();
    all.check("a server that is ready").await;
    let allowed = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    all.session("a setting", allowed).await;
    all.turn("t1", r#"/mcp garden echo {"text": "hello"}"#).await;
    let request = |kind: &str| json!({ "type": format!("session/mcpServer{kind}Requested"), "id": id });
    all.dispatch(&session, request("Stop")).await;
    server(&all, "stopped").await;
    all.check("a server that is stopped").await;
    all.dispatch(&session, request("Start")).await;
    server(&all, "ready").await;
    all.check("a server that is started").await;
    for enabled in [false, true] {
        let enablement = [json!({ "kind": "session", "enabled": enabled })];
        let toggle = json!({ "type": "session/customizationToggled", "id": id, "enablement": enablement });
        all.dispatch(&session, toggle).await;
        server(&all, if enabled { "ready" } else { "stopped" }).await;
        all.check("a server that is switched").await;
    }
    all.end(6);
}
