//! The set-up that the scenarios share.

use std::path::Path;

use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{ResponsePart, Turn};
use innkeeper_testkit::model_server::{Api, ConversationPart, ModelServer, ReceivedRequest, Script};
use innkeeper_testkit::official::{OfficialClient, SessionUris};
use innkeeper_testkit::process::{HostOptions, HostProcess};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The agent's id in all scenarios.
pub(crate) const PROVIDER: &str = "scripted";

/// The name of an API in the configuration.
pub(crate) fn api_name(api: Api) -> &'static str {
    match api {
        Api::Chat => "chat-completions",
        Api::Responses => "responses",
        Api::Messages => "messages",
    }
}

/// The set-up of a scenario.
pub(crate) struct Setup {
    pub(crate) api: Api,
    /// Lines of `[models]`.
    pub(crate) models: String,
    /// Lines of the provider.
    pub(crate) provider: String,
    pub(crate) options: HostOptions,
}

impl Setup {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            models: "titles = false".to_owned(),
            provider: "keyless = true\nmodels = [{ id = \"scripted\" }]".to_owned(),
            options: HostOptions::new(env!("CARGO_BIN_EXE_innkeeper")),
        }
    }

    pub(crate) fn models(mut self, lines: &str) -> Self {
        self.models = lines.to_owned();
        self
    }

    pub(crate) fn provider(mut self, lines: &str) -> Self {
        self.provider = lines.to_owned();
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(HostOptions) -> HostOptions) -> Self {
        self.options = change(self.options);
        self
    }

    /// Starts the host alone.
    pub(crate) async fn host(self, server: &ModelServer) -> HostProcess {
        let Self {
            api,
            models,
            provider,
            options,
        } = self;
        let config = format!(
            "[models]\ndiscover = false\n{models}\n[[models.providers]]\nid = \"{PROVIDER}\"\nname = \"Scripted\"\n\
             api = \"{}\"\nbase_url = \"{}\"\n{provider}\n",
            api_name(api),
            server.url()
        );
        HostProcess::start(options.setting(&config)).await
    }

    /// Starts a server with a script, the host, and a client with a session in a directory of its own.
    pub(crate) async fn stage(self, script: impl Into<Script>) -> Stage {
        let server = ModelServer::start(script).await;
        let host = self.host(&server).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        let directory = tempfile::tempdir().expect("a directory");
        let uris = create_session(&client, "work", directory.path()).await;
        Stage {
            server,
            host,
            client,
            directory,
            uris,
        }
    }
}

/// A scenario under way.
pub(crate) struct Stage {
    pub(crate) server: ModelServer,
    pub(crate) host: HostProcess,
    pub(crate) client: OfficialClient,
    pub(crate) directory: TempDir,
    pub(crate) uris: SessionUris,
}

impl Stage {
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).expect("read")
    }

    pub(crate) async fn start_turn(&self, id: &str, text: &str) {
        self.client.start_turn(&self.uris.chat, id, text).await;
    }

    pub(crate) async fn turn_end(&self, id: &str) -> Turn {
        self.client.turn_end(&self.uris.chat, id).await
    }

    pub(crate) async fn run_turn(&self, id: &str, text: &str) -> Turn {
        self.client.run_turn(&self.uris.chat, id, text).await
    }

    /// Resumes a turn and waits for its end.
    pub(crate) async fn resume(&self, id: &str) -> Turn {
        self.start_resume(id).await;
        self.turn_end(id).await
    }

    pub(crate) async fn start_resume(&self, id: &str) {
        let action = json!({ "type": "chat/turnResume", "turnId": id });
        self.client.dispatch(&self.uris.chat, action).await;
        self.client
            .until("the turn goes on", |view| {
                view.chat(&self.uris.chat)
                    .is_some_and(|chat| chat.active_turn.is_some())
                    || view
                        .ended_turn(&self.uris.chat, id)
                        .is_some_and(|turn| error_of(turn).is_none())
            })
            .await;
    }

    /// Waits for a confirmation and decides.
    pub(crate) async fn decide(&self, decision: Value) -> Value {
        let wait = self.client.wait_for(&self.uris.session, "toolConfirmation").await;
        self.client.decide(&wait, decision).await;
        self.client
            .until("the decision is known", |view| {
                let waits = view.waits(&self.uris.session);
                !waits
                    .iter()
                    .any(|other| other["toolCall"]["toolCallId"] == wait["toolCall"]["toolCallId"])
            })
            .await;
        wait
    }

    pub(crate) async fn approve(&self) -> Value {
        self.decide(json!({ "approved": true })).await
    }

    /// Kills the host, starts another one, and has the client come back.
    pub(crate) async fn kill_and_restart(self) -> Self {
        let Self {
            server,
            host,
            mut client,
            directory,
            uris,
        } = self;
        let host = host.kill_and_restart().await;
        client.cut().await;
        client.move_to(host.address());
        client.reconnect().await.expect("known across restarts");
        Self {
            server,
            host,
            client,
            directory,
            uris,
        }
    }

    /// Returns the last request.
    pub(crate) fn last_asked(&self) -> ReceivedRequest {
        self.server.requests().pop().expect("something was asked")
    }

    /// Everything that a scenario must leave behind: requests that providers take, and a mirror that is right.
    pub(crate) async fn assert_in_order(&self) {
        for asked in self.server.requests() {
            assert_well_formed(&asked);
        }
        self.client.assert_converged().await;
    }
}

pub(crate) async fn create_session(client: &OfficialClient, name: &str, directory: &Path) -> SessionUris {
    let params = json!({ "provider": PROVIDER, "workingDirectories": [uri_of(directory)] });
    client.create_session_with(name, params).await
}

pub(crate) fn uri_of(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Checks that every call has a result right after it, every result a call, and that the last message is not the
/// model's.
pub(crate) fn assert_well_formed(asked: &ReceivedRequest) {
    let said = asked.said();
    let mut open: Vec<String> = Vec::new();
    let mut results = false;
    for one in &said {
        match one {
            ConversationPart::Call { id, .. } => {
                assert!(!results || open.is_empty(), "a call among results: {said:#?}");
                results = false;
                assert!(!open.contains(id), "{id} twice: {said:#?}");
                open.push(id.clone());
            }
            ConversationPart::Result { call, .. } => {
                results = true;
                let position = open.iter().position(|id| id == call);
                let position = position.unwrap_or_else(|| panic!("a result without a call: {said:#?}"));
                open.remove(position);
            }
            ConversationPart::User(_) | ConversationPart::Image(_) | ConversationPart::Assistant(_) => {
                // The words of an answer may come before or after its calls; then no result is there yet.
                let is_of_answer = matches!(one, ConversationPart::Assistant(_)) && !results;
                assert!(open.is_empty() || is_of_answer, "a call without a result: {said:#?}");
            }
            ConversationPart::Thought(_) => {}
        }
    }
    assert!(open.is_empty(), "a call without a result: {said:#?}");
    assert!(
        matches!(
            said.last(),
            Some(ConversationPart::User(_) | ConversationPart::Image(_) | ConversationPart::Result { .. })
        ),
        "the model spoke last: {said:#?}"
    );
    assert!(!asked.system().is_empty(), "a system prompt");
}

/// Returns the user messages of a request.
pub(crate) fn users(asked: &ReceivedRequest) -> Vec<String> {
    let said = asked.said().into_iter();
    said.filter_map(|said| match said {
        ConversationPart::User(text) => Some(text),
        _ => None,
    })
    .collect()
}

/// Type, message and whether the turn can go on, if it ended with an error.
pub(crate) fn error_of(turn: &Turn) -> Option<(String, String, bool)> {
    match turn.response_parts.last() {
        Some(ResponsePart::Error(part)) => Some((
            part.error.error_type.clone(),
            part.error.message.clone(),
            part.resumable == Some(true),
        )),
        _ => None,
    }
}

/// The remarks of the system in a turn.
pub(crate) fn notices(turn: &Turn) -> Vec<String> {
    let parts = turn.response_parts.iter();
    parts
        .filter_map(|part| match part {
            ResponsePart::SystemNotification(part) => match &part.content {
                StringOrMarkdown::Plain(text) => Some(text.clone()),
                StringOrMarkdown::Markdown { markdown } => Some(markdown.clone()),
            },
            _ => None,
        })
        .collect()
}

/// Whether a request is the one for a title.
pub(crate) fn asks_for_title(asked: &ReceivedRequest) -> bool {
    asked.system().starts_with("You give conversations a title")
}

/// Whether a request is the one for a summary.
pub(crate) fn asks_for_summary(asked: &ReceivedRequest) -> bool {
    asked.system().starts_with("You shorten the beginning")
}
