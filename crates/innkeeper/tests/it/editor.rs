//! Editors: `innkeeper acp` between a real host and the official ACP client library, with a published AHP client as the
//! phone that watches the same sessions.

mod client;
mod registries;
mod websocket;

use std::path::Path;

use agent_client_protocol::v1::schema::{
    ListSessionsRequest, ResumeSessionRequest, SessionConfigOptionValue, SetSessionConfigOptionRequest, StopReason,
};
use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown};
use innkeeper_testkit::process::{HostOptions, HostProcess};
use innkeeper_testkit::scripted_acp_agent::{QUIRKS, STATE};
use serde_json::{Value, json};

use client::AcpEditor;

/// A host with the scripted agent.
async fn host(state: &Path) -> HostProcess {
    let program = std::env::current_exe().expect("a path");
    let section = format!(
        "[agents.scripted]\ntype = \"acp\"\nname = \"Scripted\"\ncommand = {program:?}\n\
         args = [\"--exact\", \"acp_agent\", \"--nocapture\"]\nenv = {{ {QUIRKS} = \"\", {STATE} = {state:?} }}\n"
    );
    let options = HostOptions::new(env!("CARGO_BIN_EXE_innkeeper")).environment("PATH", "/usr/bin:/bin");
    HostProcess::start(options.setting(&section)).await
}

/// A host, an editor with a session of the scripted agent, and a phone in the same session.
struct Desk {
    work: tempfile::TempDir,
    host: HostProcess,
    editor: AcpEditor,
    phone: OfficialClient,
    uris: SessionUris,
}

impl Desk {
    async fn new() -> Self {
        let work = tempfile::tempdir().expect("a directory");
        let host = host(work.path()).await;
        let editor = AcpEditor::start(&host, &["--provider", "scripted"]).await;
        let session = editor.new_session(work.path()).await.session_id.to_string();
        let phone = OfficialClient::connect(host.address(), "phone").await;
        let uris = phone.join(&session).await;
        Self {
            work,
            host,
            editor,
            phone,
            uris,
        }
    }

    fn session(&self) -> &str {
        &self.uris.session
    }

    /// Runs a prompt to its end.
    async fn prompt(&self, text: &str) -> StopReason {
        self.editor
            .begin(self.session(), text)
            .await
            .expect("an end")
            .stop_reason
    }

    /// The phone has seen the end of the last turn.
    async fn last_turn(&self) -> ahp_types::state::Turn {
        self.phone.at_rest(&self.uris.chat).await;
        self.phone.chat(&self.uris.chat).turns.last().cloned().expect("a turn")
    }
}

#[tokio::test]
async fn a_prompt_is_a_turn_that_a_phone_sees() {
    let desk = Desk::new().await;
    let info = desk.editor.initialized.agent_info.as_ref().expect("a name");
    assert_eq!(
        (&*info.name, desk.editor.initialized.agent_capabilities.load_session),
        ("innkeeper", true)
    );
    let answer = desk
        .editor
        .begin(desk.session(), "think of the inn")
        .await
        .expect("an end");
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert_eq!(desk.editor.text("agent_thought_chunk"), "of the inn");
    assert_eq!(desk.editor.text("agent_message_chunk"), "thought about it");
    // The editor shows its own message itself.
    assert_eq!(desk.editor.of_kind("user_message_chunk"), [] as [Value; 0]);
    let turn = desk.last_turn().await;
    assert_eq!(turn.message.text, "think of the inn");
    assert_eq!(markdown(&turn.response_parts), "thought about it");
    desk.phone.assert_converged().await;
}

#[tokio::test]
async fn an_editor_approves_a_tool_call() {
    let desk = Desk::new().await;
    let prompt = desk.editor.begin(desk.session(), "ask");
    let permission = async {
        let permission = desk.editor.permission().await;
        let request = serde_json::to_value(&permission.request).expect("JSON");
        let kinds: Vec<&str> = request["options"]
            .as_array()
            .expect("options")
            .iter()
            .filter_map(|option| option["kind"].as_str())
            .collect();
        assert_eq!(
            kinds,
            ["allow_once", "allow_always", "reject_once", "reject_once"],
            "{request}"
        );
        assert_eq!(
            (&request["toolCall"]["title"], &request["toolCall"]["kind"]),
            (&json!("Ring the bell"), &json!("execute"))
        );
        permission.choose("yes");
    };
    let (answer, ()) = tokio::join!(prompt, permission);
    assert_eq!(answer.expect("an end").stop_reason, StopReason::EndTurn);
    assert_eq!(desk.editor.text("agent_message_chunk"), "you chose yes");
    let call = desk.editor.call();
    assert_eq!(
        (&call["status"], &call["rawInput"]),
        (&json!("completed"), &json!({ "command": "ring" }))
    );
    desk.phone.nothing_waits(desk.session()).await;
}

#[tokio::test]
async fn a_phone_approves_a_call_that_the_editor_was_asked_about() {
    let desk = Desk::new().await;
    let prompt = desk.editor.begin(desk.session(), "ask");
    let on_the_phone = async {
        let late = desk.editor.permission().await;
        let wait = desk.phone.wait_for(desk.session(), "toolConfirmation").await;
        let decision = json!({ "approved": true, "confirmed": "user-action", "selectedOptionId": "always" });
        desk.phone.decide(&wait, decision).await;
        late
    };
    let (answer, late) = tokio::join!(prompt, on_the_phone);
    assert_eq!(answer.expect("an end").stop_reason, StopReason::EndTurn);
    assert_eq!(desk.editor.text("agent_message_chunk"), "you chose always");
    // An answer that comes too late changes nothing.
    late.choose("no");
    assert_eq!(desk.prompt("say still here").await, StopReason::EndTurn);
    assert!(desk.editor.text("agent_message_chunk").ends_with("still here"));
}

#[tokio::test]
async fn an_editor_sees_the_diff_before_and_after_it_is_made() {
    let desk = Desk::new().await;
    let path = desk.work.path().canonicalize().expect("a path").join("menu.txt");
    std::fs::write(&path, "old\n").expect("a file");
    let prompt = desk.editor.begin(desk.session(), &format!("edit {}", path.display()));
    let expected = json!({ "type": "diff", "path": path, "oldText": "old\n", "newText": "new\n" });
    let permission = async {
        let permission = desk.editor.permission().await;
        let call = serde_json::to_value(&permission.request.tool_call).expect("JSON");
        assert_eq!(call["content"], json!([expected]), "{call}");
        permission.choose("yes");
    };
    let (answer, ()) = tokio::join!(prompt, permission);
    assert_eq!(answer.expect("an end").stop_reason, StopReason::EndTurn);
    let call = desk.editor.call();
    assert_eq!((&call["content"], &call["kind"]), (&json!([expected]), &json!("edit")));
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "new\n");
}

#[tokio::test]
async fn an_editor_sees_commands_and_plans() {
    let desk = Desk::new().await;
    assert_eq!(desk.prompt("terminal echo rooms; exit 3").await, StopReason::EndTurn);
    let call = desk.editor.call();
    let output = call["content"][0]["content"]["text"].as_str().unwrap_or_default();
    assert!(output.contains("rooms") && output.contains("exit code 3"), "{call}");
    assert_eq!(desk.prompt("plan").await, StopReason::EndTurn);
    let plan = desk.editor.of_kind("plan").pop().expect("a plan");
    assert_eq!(plan["entries"][0]["status"], "completed", "{plan}");
    assert_eq!(plan["entries"][1]["content"], "Leave");
}

#[tokio::test]
async fn an_editor_cancels_its_turn() {
    let desk = Desk::new().await;
    let prompt = desk.editor.begin(desk.session(), "slow");
    let cancel = async {
        desk.editor
            .update("the first words", |update| update["content"]["text"] == "working")
            .await;
        desk.editor.cancel(desk.session());
    };
    let (answer, ()) = tokio::join!(prompt, cancel);
    assert_eq!(answer.expect("an end").stop_reason, StopReason::Cancelled);
    let turn = desk.last_turn().await;
    assert_eq!(turn.state, ahp_types::state::TurnState::Cancelled);
    assert_eq!(desk.prompt("say again").await, StopReason::EndTurn);
}

#[tokio::test]
async fn the_error_of_a_turn_is_the_answer_to_its_prompt() {
    let desk = Desk::new().await;
    let error = desk.editor.begin(desk.session(), "fail").await.expect_err("an error");
    assert!(error.message.contains("the model is overloaded"), "{error:?}");
    let empty = desk.editor.begin(desk.session(), " ").await.expect_err("an error");
    assert!(empty.message.contains("empty"), "{empty:?}");
}

#[tokio::test]
async fn an_editor_sees_the_turns_of_a_phone() {
    let desk = Desk::new().await;
    desk.phone.run_turn(&desk.uris.chat, "t1", "say hello").await;
    desk.editor
        .update("the answer", |update| {
            update["content"]["text"].as_str() == Some("hello")
        })
        .await;
    assert_eq!(desk.editor.text("user_message_chunk"), "say hello");
}

#[tokio::test]
async fn a_prompt_waits_behind_the_turn_of_a_phone() {
    let desk = Desk::new().await;
    desk.phone.start_turn(&desk.uris.chat, "t1", "slow").await;
    desk.editor
        .update("the phone's turn", |update| update["content"]["text"] == "working")
        .await;
    let prompt = desk.editor.begin(desk.session(), "say mine");
    let cancel = async {
        let chat = &desk.uris.chat;
        let is_queued = |view: &innkeeper_testkit::official::View| {
            view.chat(chat)
                .is_some_and(|chat| chat.queued_messages.iter().flatten().count() == 1)
        };
        desk.phone.until("the message is queued", is_queued).await;
        desk.phone.cancel_turn(chat, "t1").await;
    };
    let (answer, ()) = tokio::join!(prompt, cancel);
    assert_eq!(answer.expect("an end").stop_reason, StopReason::EndTurn);
    assert_eq!(markdown(&desk.last_turn().await.response_parts), "mine");
    assert_eq!(desk.editor.text("user_message_chunk"), "slow");
}

#[tokio::test]
async fn another_editor_lists_loads_and_resumes_a_session() {
    let desk = Desk::new().await;
    assert_eq!(desk.prompt("tool").await, StopReason::EndTurn);
    desk.phone.run_turn(&desk.uris.chat, "t2", "say from the phone").await;
    let first = desk.editor.call();
    let other = AcpEditor::start(&desk.host, &[]).await;
    let directory = desk.work.path().to_path_buf();
    let listed = other
        .request(ListSessionsRequest::new().cwd(directory))
        .await
        .expect("a list");
    let ids: Vec<String> = listed
        .sessions
        .iter()
        .map(|session| session.session_id.to_string())
        .collect();
    assert_eq!(ids, [desk.session()]);
    let elsewhere = other
        .request(ListSessionsRequest::new().cwd(std::path::PathBuf::from("/nowhere")))
        .await
        .expect("a list");
    assert!(elsewhere.sessions.is_empty());
    // The whole history comes before the answer.
    let loaded = other.load(desk.session()).await;
    assert!(loaded.config_options.is_some());
    assert_eq!(other.text("user_message_chunk"), "toolsay from the phone");
    assert_eq!(other.text("agent_message_chunk"), "read itfrom the phone");
    let replayed = other.call();
    for field in [
        "title",
        "status",
        "kind",
        "content",
        "locations",
        "rawInput",
        "rawOutput",
    ] {
        assert_eq!(replayed[field], first[field], "{field}");
    }
    let third = AcpEditor::start(&desk.host, &[]).await;
    let resume = ResumeSessionRequest::new(desk.session().to_owned(), "/");
    third.request(resume).await.expect("the session");
    assert_eq!(third.text("user_message_chunk"), "");
    assert_eq!(
        third.begin(desk.session(), "recall").await.expect("an end").stop_reason,
        StopReason::EndTurn
    );
    assert!(
        third.text("agent_message_chunk").contains("2 messages, told 0"),
        "{:?}",
        third.updates()
    );
    // The first editor followed it all.
    desk.editor
        .update("the third turn", |update| update["content"]["text"] == "recall")
        .await;
    let unknown = other
        .request(agent_client_protocol::v1::schema::LoadSessionRequest::new(
            "ahp-session:/none",
            "/",
        ))
        .await;
    assert_eq!(i32::from(unknown.expect_err("no session").code), -32002);
}

#[tokio::test]
async fn agent_model_and_settings_are_options() {
    let desk = Desk::new().await;
    let set = |option: &str, value: &str| {
        let value = SessionConfigOptionValue::value_id(value.to_owned());
        SetSessionConfigOptionRequest::new(desk.session().to_owned(), option.to_owned(), value)
    };
    // Nothing was written yet, so the agent can be another one.
    let answer = desk.editor.request(set("agent", "tour")).await.expect("another agent");
    let options = serde_json::to_value(&answer.config_options).expect("JSON");
    assert_eq!(options[0]["currentValue"], "tour", "{options}");
    let answer = desk
        .editor
        .request(set("agent", "scripted"))
        .await
        .expect("the first agent");
    let options = serde_json::to_value(&answer.config_options).expect("JSON");
    assert_eq!(
        (&options[0]["currentValue"], &options[0]["category"]),
        (&json!("scripted"), &json!("_agent"))
    );
    assert_eq!(desk.prompt("say hi").await, StopReason::EndTurn);
    assert_eq!(desk.editor.text("agent_message_chunk"), "hi");
    let refused = desk.editor.request(set("agent", "tour")).await.expect_err("too late");
    assert!(refused.message.contains("first message"), "{refused:?}");
    // A setting is the same for all clients.
    let phone = OfficialClient::connect(desk.host.address(), "second-phone").await;
    let uris = phone.join(desk.session()).await;
    let mode = "autoApprove";
    let answer = desk.editor.request(set(mode, "autoApprove")).await.expect("a setting");
    let options = serde_json::to_value(&answer.config_options).expect("JSON");
    let option = options
        .as_array()
        .expect("options")
        .iter()
        .find(|option| option["id"] == mode)
        .expect("the setting");
    assert_eq!(option["currentValue"], "autoApprove");
    phone
        .until("the setting", |view| {
            view.session(&uris.session).is_some_and(|session| {
                session
                    .config
                    .as_ref()
                    .is_some_and(|config| config.values[mode] == "autoApprove")
            })
        })
        .await;
    let back = json!({ "type": "session/configChanged", "config": { mode: "default" } });
    phone.dispatch(&uris.session, back).await;
    desk.editor
        .update("the phone's choice", |update| {
            let options = update["configOptions"].as_array();
            options.is_some_and(|options| {
                options
                    .iter()
                    .any(|option| option["id"] == mode && option["currentValue"] == "default")
            })
        })
        .await;
    let wrong = desk
        .editor
        .request(set(mode, "everything"))
        .await
        .expect_err("no such value");
    assert!(wrong.message.contains("no value"), "{wrong:?}");
}

#[tokio::test]
async fn an_editor_goes_on_after_a_crash_of_the_host() {
    let desk = Desk::new().await;
    assert_eq!(desk.prompt("say before").await, StopReason::EndTurn);
    let prompt = desk.editor.begin(desk.session(), "slow");
    desk.editor
        .update("the first words", |update| update["content"]["text"] == "working")
        .await;
    let _host = desk.host.kill_and_restart().await;
    // The turn did not survive; the editor's request does.
    let error = prompt.await.expect_err("an interrupted turn");
    assert!(error.message.contains("the host stopped"), "{error:?}");
    let data = error.data.expect("details");
    assert_eq!(data["errorType"], "hostRestarted", "{data}");
    assert_eq!(
        desk.editor
            .begin(&desk.uris.session, "say after")
            .await
            .expect("an end")
            .stop_reason,
        StopReason::EndTurn
    );
    let text = desk.editor.text("agent_message_chunk");
    assert!(text.starts_with("before") && text.ends_with("after"), "{text}");
    // Nothing was told twice.
    assert_eq!(text.matches("before").count(), 1, "{text}");
}

#[tokio::test]
async fn without_a_host_an_editor_gets_instructions() {
    let work = tempfile::tempdir().expect("a directory");
    let editor = AcpEditor::start_on(work.path(), &[]).await;
    let error = editor
        .request(agent_client_protocol::v1::schema::NewSessionRequest::new(work.path()))
        .await;
    let error = error.expect_err("no host");
    assert!(error.message.contains("no host runs"), "{error:?}");
    let relative = editor
        .request(agent_client_protocol::v1::schema::NewSessionRequest::new("inn"))
        .await;
    assert!(relative.expect_err("no path").message.contains("absolute"));
}
