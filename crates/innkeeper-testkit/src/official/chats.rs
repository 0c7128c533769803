//! Chats, their queues and their history, as the published client handles them.

use ahp::{ClientError, SubscriptionEvent};
use ahp_types::commands::SubscribeResult;
use ahp_types::state::{ChatState, SessionState, SessionSummary};
use serde_json::{Value, json};

use super::{OfficialClient, SessionUris, View};

impl OfficialClient {
    /// Creates a chat and subscribes to it; `more` are further parameters of `createChat`.
    pub async fn create_chat(&self, session: &str, chat: &str, more: Value) {
        let mut params = json!({ "channel": session, "chat": chat });
        merge(&mut params, more);
        let created = self.request::<Value>("createChat", params).await;
        let created = created.unwrap_or_else(|error| panic!("createChat of {chat}: {error}"));
        assert_eq!(created, Value::Null, "createChat answers null (TRN-09)");
        self.subscribe(chat).await;
    }

    /// Sends a request that must be refused, and returns the code and the message.
    pub async fn refused(&self, method: &str, params: Value) -> (i64, String) {
        match self.request::<Value>(method, params.clone()).await {
            Err(ClientError::Rpc(error)) => (error.code.into(), error.message),
            other => panic!("{method} {params} was to be refused: {other:?}"),
        }
    }

    /// Subscribes to the last turns of a chat.
    pub async fn subscribe_to_last(&self, chat: &str, turns: usize) {
        let params = json!({ "channel": chat, "view": { "turns": turns } });
        let result: SubscribeResult = self.request("subscribe", params).await.expect("subscribe succeeds");
        self.subscribed(&result);
    }

    /// Cancels a turn and waits for its end.
    pub async fn cancel_turn(&self, chat: &str, turn_id: &str) {
        let cancel = json!({ "type": "chat/turnCancelled", "turnId": turn_id, "duration": 0 });
        self.dispatch(chat, cancel).await;
        self.turn_end(chat, turn_id).await;
    }

    /// Waits until nothing runs in a chat and nothing is queued.
    pub async fn at_rest(&self, chat: &str) {
        self.until("the chat is at rest", |view| {
            let state = view.chat(chat);
            state.is_some_and(|state| state.active_turn.is_none() && state.queued_messages.is_none())
        })
        .await;
    }

    /// A chat as it is mirrored.
    pub fn chat(&self, uri: &str) -> ChatState {
        self.view().chat(uri).cloned().expect("the chat is mirrored")
    }

    /// A session as it is mirrored.
    pub fn session(&self, uri: &str) -> SessionState {
        self.view().session(uri).cloned().expect("the session is mirrored")
    }

    /// A session that is ready and in lists, although nothing was said in it.
    pub async fn create_listed_session(&self, name: &str) -> SessionUris {
        let uris = self.create_session(name).await;
        self.keep_session(&uris.session).await;
        uris
    }

    /// Makes an ordinary session of a draft and leaves its state as it is: it is put away and brought back.
    pub async fn keep_session(&self, session: &str) {
        for is_archived in [true, false] {
            let action = json!({ "type": "session/isArchivedChanged", "isArchived": is_archived });
            self.dispatch(session, action).await;
        }
        self.caught_up().await;
    }

    /// The summary of a session in `listSessions`.
    pub async fn listed(&self, session: &str) -> SessionSummary {
        let listed: ahp_types::commands::ListSessionsResult = self
            .request("listSessions", json!({ "channel": "ahp-root://" }))
            .await
            .expect("listSessions succeeds");
        let found = listed.items.into_iter().find(|item| item.resource == session);
        found.unwrap_or_else(|| panic!("{session} is not listed"))
    }

    /// Proves that the summary which root notifications add up to is the one that a list shows.
    pub async fn assert_summary_converged(&self, session: &str) {
        let listed = self.listed(session).await;
        self.until("the announced summary is the listed one", |view| {
            view.summary(session).is_some_and(|summary| {
                // ROOT-14: what is cleared is announced as empty.
                let activity = summary.activity.as_deref().unwrap_or_default();
                let same_activity = activity == listed.activity.as_deref().unwrap_or_default();
                let rest = SessionSummary {
                    activity: listed.activity.clone(),
                    ..summary
                };
                same_activity && rest == listed
            })
        })
        .await;
    }
}

impl View {
    /// The chats of a session, in the order of its catalogue.
    pub fn catalogue(&self, session: &str) -> Vec<String> {
        let chats = self.session(session).map(|session| session.chats.as_slice());
        let chats = chats.unwrap_or_default().iter();
        chats.map(|chat| chat.resource.clone()).collect()
    }

    /// The summary of a session as the published runtime folds the root channel's notifications.
    pub fn summary(&self, session: &str) -> Option<SessionSummary> {
        let mut known: Option<SessionSummary> = None;
        for event in &self.notifications {
            match event {
                SubscriptionEvent::SessionAdded(added) if added.summary.resource == session => {
                    known = Some(added.summary.clone());
                }
                SubscriptionEvent::SessionRemoved(removed) if removed.session == session => known = None,
                SubscriptionEvent::SessionSummaryChanged(changed) if changed.session == session => {
                    if let Some(summary) = &mut known {
                        let changes = &changed.changes;
                        update(&mut summary.title, &changes.title);
                        update(&mut summary.status, &changes.status);
                        update(&mut summary.modified_at, &changes.modified_at);
                        update_optional(&mut summary.activity, &changes.activity);
                        update_optional(&mut summary.working_directories, &changes.working_directories);
                        update_optional(&mut summary.chats, &changes.chats);
                    }
                }
                _ => {}
            }
        }
        known
    }
}

fn update<T: Clone>(known: &mut T, next: &Option<T>) {
    if let Some(next) = next {
        known.clone_from(next);
    }
}

fn update_optional<T: Clone>(known: &mut Option<T>, next: &Option<T>) {
    if next.is_some() {
        known.clone_from(next);
    }
}

/// A user's message, as clients write it.
pub fn message(text: &str) -> Value {
    json!({ "text": text, "origin": { "kind": "user" } })
}

/// The action that queues a message, or changes one that is queued.
pub fn queued(id: &str, text: &str) -> Value {
    json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message(text) })
}

/// The action that takes a message out of the queue.
pub fn unqueued(id: &str) -> Value {
    json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": id })
}

/// The action that steers the running turn.
pub fn steering(id: &str, text: &str) -> Value {
    json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": id, "message": message(text) })
}

/// Adds the fields of one object to another.
fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
