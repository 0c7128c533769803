//! The actions that simulated clients dispatch: sound ones, hopeless ones, and some in between.

mod answers;

use ahp_types::state::{SessionActiveClient, ToolDefinition};
use innkeeper_core::decode::decode_action;
use innkeeper_core::snapshot::State;
use innkeeper_core::{ConnId, Dispatch, Input, uri};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::sim::client::requests::{Dispatched, Expected};
use crate::sim::customizations::published_plugins;
use crate::sim::operations::SESSIONS;
use crate::sim::operations::chats::{CHATS, is_subagent};
use crate::sim::{Choices, Sim, Violation};

/// An action and whether the host must refuse it in any state.
pub(in crate::sim) struct Draft {
    channel: String,
    action: Value,
    hopeless: bool,
}

impl Draft {
    pub(in crate::sim) fn fair(channel: impl Into<String>, action: Value) -> Self {
        Self {
            channel: channel.into(),
            action,
            hopeless: false,
        }
    }

    pub(in crate::sim) fn hopeless(channel: impl Into<String>, action: Value) -> Self {
        Self {
            channel: channel.into(),
            action,
            hopeless: true,
        }
    }
}

impl Sim {
    /// Dispatches something; about one in five is hopeless.
    pub(in crate::sim) fn dispatch(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let session = self.likely_session(conn, choices);
        let draft = match choices.below(40) {
            0..=4 => hopeless(session, choices),
            5 => Draft::fair(
                "ahp-session:/never-created",
                json!({ "type": "session/isReadChanged", "isRead": true }),
            ),
            6..=12 => self.for_session(conn, session, choices),
            13..=22 => {
                let chat = self.likely_chat(conn, session, choices);
                self.for_chat(&chat, choices)
            }
            n => {
                // A client that answers has mostly read the question.
                if choices.below(4) > 0 {
                    self.read(conn, usize::MAX)?;
                }
                let connection = self.conns.get(&conn);
                let draft = connection.and_then(|connection| match n {
                    23..=29 => answers::about_a_call(connection, choices),
                    _ => answers::to_a_question(connection, choices),
                });
                // Nothing to answer: something to answer may come of a turn.
                match draft {
                    Some(draft) => draft,
                    None => {
                        let chat = self.likely_chat(conn, session, choices);
                        self.for_chat(&chat, choices)
                    }
                }
            }
        };
        self.send_dispatch(conn, draft)
    }

    /// Does something about a tool call, if this connection sees one.
    pub(in crate::sim) fn dispatch_about_call(
        &mut self,
        conn: ConnId,
        choices: &mut Choices<'_>,
    ) -> Result<(), Violation> {
        let connection = self.conns.get(&conn);
        match connection.and_then(|connection| answers::about_a_call(connection, choices)) {
            Some(draft) => self.send_dispatch(conn, draft),
            None => Ok(()),
        }
    }

    /// Starts a turn in a chat that is probably there.
    pub(in crate::sim) fn start_turn(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let session = self.likely_session(conn, choices);
        let chat = self.likely_chat(conn, session, choices);
        let action = self.turn_started(choices);
        self.send_dispatch(conn, Draft::fair(chat, action))
    }

    /// Starts a turn of a new id in a chat.
    pub(in crate::sim) fn start_turn_in(&mut self, conn: ConnId, chat: &str) -> Result<(), Violation> {
        let action = self.turn_started(&mut Choices::new(&[1]));
        self.send_dispatch(conn, Draft::fair(chat, action))
    }

    /// Mostly a session whose chat this connection follows.
    pub(in crate::sim) fn likely_session(&self, conn: ConnId, choices: &mut Choices<'_>) -> &'static str {
        let followed: Vec<&'static str> = SESSIONS
            .into_iter()
            .filter(|session| {
                let chat = uri::default_chat(session);
                self.conns
                    .get(&conn)
                    .is_some_and(|connection| connection.host_subscriptions.contains(&chat))
            })
            .collect();
        match choices.below(4) {
            0 => SESSIONS[choices.below(SESSIONS.len())],
            _ => choices.pick(&followed).copied().unwrap_or(SESSIONS[0]),
        }
    }

    /// The session's own chat, or a further one that this connection follows, wherever that is.
    fn likely_chat(&self, conn: ConnId, session: &str, choices: &mut Choices<'_>) -> String {
        let followed = self.conns.get(&conn).map(|connection| &connection.host_subscriptions);
        let further = |uri: &&String| CHATS.contains(&uri.as_str()) || is_subagent(uri);
        let followed: Vec<&String> = followed.into_iter().flatten().filter(further).collect();
        match choices.pick(&followed) {
            Some(chat) if choices.below(2) == 0 => (*chat).clone(),
            _ => uri::default_chat(session),
        }
    }

    fn turn_started(&mut self, choices: &mut Choices<'_>) -> Value {
        let turn_id = match choices.below(8) {
            0 => "t1".to_owned(),
            _ => {
                self.next_turn += 1;
                format!("t{}", self.next_turn)
            }
        };
        json!({
            "type": "chat/turnStarted",
            "turnId": turn_id,
            "startedAt": self.now.rfc3339(),
            "message": self.message(),
        })
    }

    /// A message with words of its own, so that it can be told apart wherever it goes.
    pub(in crate::sim) fn message(&mut self) -> Value {
        self.next_words += 1;
        json!({ "text": format!("words {}", self.next_words), "origin": { "kind": "user" } })
    }

    pub(in crate::sim) fn send_dispatch(&mut self, conn: ConnId, draft: Draft) -> Result<(), Violation> {
        let exists = self.snapshot(&draft.channel).is_some();
        let repeats = self.repeats_announcement(&draft);
        let Some(connection) = self.conns.get_mut(&conn) else {
            return Ok(());
        };
        let subscribed = connection.host_subscriptions.contains(&draft.channel);
        let expected = match (exists, draft.hopeless, subscribed) {
            (false, _, _) => Expected::Silence,
            (true, true, _) => Expected::Rejection,
            (true, false, false) => Expected::RejectionOrSilence,
            (true, false, true) if repeats => Expected::OutcomeOrSilence,
            (true, false, true) => Expected::Outcome,
        };
        let client = &mut self.clients[connection.client];
        let client_seq = client.next_client_seq;
        client.next_client_seq += 1;
        connection.dispatched.insert(
            client_seq,
            Dispatched {
                expected,
                echoes: 0,
                rejections: 0,
            },
        );
        self.note(|| format!("{conn} dispatches {client_seq} to {}: {}", draft.channel, draft.action));
        let raw = RawValue::from_string(draft.action.to_string())
            .map_err(|error| Violation::new(format!("the simulator wrote bad JSON: {error}")))?;
        let action = decode_action(&raw);
        if let (Ok(action), true, Some(connection)) = (&action, subscribed, self.conns.get_mut(&conn)) {
            connection.unsettled.add(client_seq, &draft.channel, action.clone());
        }
        let dispatch = Box::new(Dispatch {
            channel: draft.channel,
            client_seq,
            raw,
            action,
            choice: None,
        });
        self.handle(Input::Dispatch { conn, dispatch })
    }

    /// Whether this announces a client exactly as the session already knows it.
    fn repeats_announcement(&self, draft: &Draft) -> bool {
        let Some(snapshot) = self.snapshot(&draft.channel) else {
            return false;
        };
        let state = serde_json::to_value(&snapshot.state).unwrap_or_default();
        let mut announced = draft.action["activeClient"].clone();
        if announced["systemMessageTransform"]["sections"] == json!(["tone", "safety", "tone"]) {
            announced["systemMessageTransform"]["sections"] = json!(["tone", "safety"]);
        }
        let members = state["activeClients"].as_array();
        members.is_some_and(|members| members.contains(&announced))
    }

    /// A client's announcement of itself, in one of few versions so that some repeat.
    pub(in crate::sim) fn announcement(&self, conn: ConnId, version: usize) -> SessionActiveClient {
        let client = self.conns.get(&conn).map_or(0, |connection| connection.client);
        SessionActiveClient {
            client_id: self.clients[client].id.clone(),
            display_name: (version > 1).then(|| format!("version {version}")),
            tools: (0..version)
                .map(|tool| offered(["open", "pick", "read"][tool % 3]))
                .collect(),
            customizations: published_plugins(&self.clients[client].id, version),
        }
    }

    fn for_session(&self, conn: ConnId, session: &str, choices: &mut Choices<'_>) -> Draft {
        let flag = choices.below(2) == 0;
        let action = match choices.below(13) {
            12 => self.toggle(session, choices),
            10 => {
                let mode = if flag { "default" } else { "autoApprove" };
                let action = json!({ "type": "root/configChanged", "config": { "autoApprove": mode, "noSuchSetting": 1 }, "replace": flag });
                return Draft::fair(uri::ROOT, action);
            }
            0 => json!({ "type": "session/titleChanged", "title": format!("named {}", choices.below(3)) }),
            1 => json!({ "type": "session/isReadChanged", "isRead": flag }),
            2 => json!({ "type": "session/isArchivedChanged", "isArchived": flag }),
            3..=6 => {
                let version = choices.below(4);
                let mut active_client = json!(self.announcement(conn, version));
                if flag {
                    // Extension fields that the published types lack (SMT-17).
                    let sections = &["tone", "safety", "tone"][..version];
                    active_client["systemMessageTransform"] = json!({ "sections": sections });
                }
                json!({ "type": "session/activeClientSet", "activeClient": active_client })
            }
            7 => {
                let config = match choices.below(4) {
                    0 => json!({ "autoApprove": if flag { "default" } else { "autoApprove" }, "noSuchSetting": 1 }),
                    1 => json!({ "approvedTools": if flag { json!([]) } else { json!(["run({\"n\":1})"]) } }),
                    2 => json!({ "workspaceApprovedTools": if flag { json!([]) } else { json!(["tool:read(*)"]) } }),
                    _ => json!({ "noSuchSetting": 1 }),
                };
                json!({ "type": "session/configChanged", "config": config })
            }
            _ => {
                let client_id = self.announcement(conn, 0).client_id;
                json!({ "type": "session/activeClientRemoved", "clientId": client_id })
            }
        };
        Draft::fair(session, action)
    }

    fn for_chat(&mut self, chat: &str, choices: &mut Choices<'_>) -> Draft {
        let flag = choices.below(2) == 0;
        let message = self.message();
        let pending = format!("q{}", choices.below(3));
        let active = self.active_turn(chat).unwrap_or_else(|| "none".to_owned());
        let action = match choices.below(15) {
            0..=3 => self.turn_started(choices),
            4 => json!({ "type": "chat/turnCancelled", "turnId": active, "duration": 12.5 }),
            5 | 6 => {
                json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": pending, "message": message })
            }
            7 => json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": pending, "message": message }),
            8 => {
                let kind = ["queued", "queued", "steering"][choices.below(3)];
                json!({ "type": "chat/pendingMessageRemoved", "kind": kind, "id": pending })
            }
            9 => json!({ "type": "chat/queuedMessagesReordered", "order": ["q2", pending] }),
            10 => match flag {
                true => json!({ "type": "chat/draftChanged", "draft": message }),
                false => json!({ "type": "chat/draftChanged" }),
            },
            11 => json!({ "type": "chat/isReadChanged", "isRead": flag }),
            13 => match self.any_turn(chat, choices) {
                Some(turn_id) => json!({ "type": "chat/truncated", "turnId": turn_id }),
                None => json!({ "type": "chat/truncated" }),
            },
            12 => json!({ "type": "session/titleChanged", "title": format!("chat {}", choices.below(3)) }),
            _ => {
                let turn_id = self.last_turn(chat).unwrap_or_default();
                json!({ "type": "chat/turnResume", "turnId": turn_id })
            }
        };
        Draft::fair(chat, action)
    }

    fn last_turn(&self, chat: &str) -> Option<String> {
        match self.snapshot(chat)?.state {
            State::Chat(_, history, _) => history.last().map(|turn| turn.id.clone()),
            State::Root(_) | State::Session(_) | State::SessionWithChat(..) | State::Part(_) => None,
        }
    }
}

/// A tool that a client runs.
fn offered(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: None,
        input_schema: None,
        output_schema: None,
        annotations: None,
        meta: None,
    }
}

/// Something no client may ever do.
fn hopeless(session: &str, choices: &mut Choices<'_>) -> Draft {
    let chat = uri::default_chat(session);
    let message = json!({ "text": "hello", "origin": { "kind": "user" } });
    match choices.below(10) {
        0 => Draft::hopeless(session, json!({ "type": "x-mine/thing", "a": [1, { "b": null }] })),
        1 => Draft::hopeless(session, json!({ "type": "session/titleChanged", "title": 5 })),
        2 => Draft::hopeless(session, json!({ "type": "session/ready" })),
        3 => Draft::hopeless(session, json!({ "type": "chat/isReadChanged", "isRead": true })),
        4 => Draft::hopeless(
            session,
            json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "another-client", "tools": [] } }),
        ),
        5 => Draft::hopeless(
            chat,
            json!({ "type": "chat/turnStarted", "turnId": "bad", "startedAt": "not-a-date", "message": message }),
        ),
        6 => Draft::hopeless(
            chat,
            json!({ "type": "chat/delta", "turnId": "t1", "partId": "p1", "content": "forged" }),
        ),
        7 => Draft::hopeless(
            chat,
            json!({ "type": "chat/draftChanged", "draft": { "text": "x", "origin": { "kind": "agent" } } }),
        ),
        8 => Draft::hopeless(
            uri::ROOT,
            json!({ "type": "root/configChanged", "config": { "silenceLimitMinutes": "long" } }),
        ),
        _ => Draft::hopeless(chat, [json!(5), json!(null), json!([])][choices.below(3)].clone()),
    }
}
