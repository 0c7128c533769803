//! The edge of a connection whose client speaks an older version of the protocol.
//!
//! The core speaks the newest version only. The reader translates messages of the client up before they are routed, and
//! the writer translates messages down after they were encoded and merged for all connections. Both share one [`Translator`].
//! A connection of the newest version has none, and costs one branch per batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use innkeeper_core::snapshot::RpcAnswer;
use innkeeper_core::{ActionFrame, ReheadedFrame, RequestId, Version, Wire};
use innkeeper_dialects::{Offer, Translator, Up, negotiate};
use innkeeper_std::sync::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The version of one connection, shared by its reader, its writer and the main loop.
#[derive(Debug, Default)]
pub struct Edge {
    /// Whether the connection speaks the newest version for good, so that nothing of it is ever looked at.
    is_native: AtomicBool,
    /// How many channels the client can be subscribed to, if that is not the default.
    max_subscriptions: Option<usize>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    translator: Option<Translator>,
    /// Whether the handshake was answered; from then on the version stays (NEG-07).
    is_settled: bool,
}

impl Edge {
    /// The edge of a connection that can have so many subscriptions.
    pub fn new(max_subscriptions: usize) -> Self {
        Self {
            max_subscriptions: Some(max_subscriptions),
            ..Self::default()
        }
    }

    /// Whether the connection speaks the newest version, and its handshake is over.
    pub fn is_native(&self) -> bool {
        self.is_native.load(Ordering::Acquire)
    }

    /// Whether messages of this connection are translated.
    pub fn is_translated(&self) -> bool {
        !self.is_native() && self.inner.lock().translator.is_some()
    }

    /// The version of the connection.
    pub fn version(&self) -> Version {
        if self.is_native() {
            return Version::NEWEST;
        }
        let inner = self.inner.lock();
        inner.translator.as_ref().map_or(Version::NEWEST, Translator::version)
    }

    /// The connection is about to speak this version.
    pub fn begin(&self, version: Version, client_id: &str) {
        let mut inner = self.inner.lock();
        if !inner.is_settled {
            let translator = Translator::new(version, client_id);
            let translator = match self.max_subscriptions {
                Some(max) => translator.with_subscriptions(max),
                None => translator,
            };
            inner.translator = version.is_translated().then_some(translator);
        }
    }

    /// Translates a request up, to its method and its parameters.
    pub fn up_request(&self, id: &RequestId, method: &str, params: Option<&RawValue>) -> (String, Value) {
        let params = parsed(params);
        match &mut self.inner.lock().translator {
            Some(translator) => translator.up_request(id.as_json(), method, params),
            None => (method.to_owned(), params),
        }
    }

    /// Translates a notification up.
    pub fn up_notification(&self, method: &str, params: Option<&RawValue>, now_ms: i64) -> Up {
        let params = parsed(params);
        match &mut self.inner.lock().translator {
            Some(translator) => translator.up_notification(method, params, now_ms),
            None => {
                let method = method.to_owned();
                Up::Forward { method, params }
            }
        }
    }

    /// Translates a batch down.
    pub fn down(&self, messages: Vec<Wire>) -> Vec<Wire> {
        let inner = &mut *self.inner.lock();
        inner.is_settled = inner.is_settled || messages.iter().any(is_handshake);
        let Some(translator) = &mut inner.translator else {
            self.is_native.store(inner.is_settled, Ordering::Release);
            return messages;
        };
        let mut shown = Vec::with_capacity(messages.len());
        for message in messages {
            match message {
                Wire::Action(frame) => down_action(translator, frame, &mut shown),
                // Only this edge makes them.
                Wire::Reheaded(frame) => shown.push(Wire::Reheaded(frame)),
                Wire::Text(text) => {
                    let text = translator.down_text(&text);
                    shown.extend(text.map(|text| Wire::Text(text.into())));
                }
                // The core captured their snapshots for this version.
                Wire::Answer(bytes, answer) => {
                    learn(translator, &answer);
                    shown.push(Wire::Answer(bytes, answer));
                }
                Wire::Stream(answer) => {
                    learn(translator, &answer);
                    shown.push(Wire::Stream(answer));
                }
            }
        }
        shown
    }
}

fn is_handshake(message: &Wire) -> bool {
    match message {
        Wire::Answer(_, answer) | Wire::Stream(answer) => answer.is_handshake(),
        Wire::Action(_) | Wire::Reheaded(_) | Wire::Text(_) => false,
    }
}

/// Tells a translator about the sessions that its client is shown.
fn learn(translator: &mut Translator, answer: &RpcAnswer) {
    let version = translator.version();
    for snapshot in answer.snapshots() {
        if let Some((chat, is_read)) = snapshot.shown_chat() {
            translator.shows_chat_as(chat, &snapshot.resource, is_read);
        }
        if version.session_has_model()
            && let Some(session) = snapshot.session_json()
        {
            translator.shows_session(&snapshot.resource, &session);
        }
    }
}

fn down_action(translator: &mut Translator, frame: Arc<ActionFrame>, shown: &mut Vec<Wire>) {
    if frame.same <= translator.version() {
        shown.push(Wire::Action(frame));
    } else if frame.is_mergeable()
        && let Some((head, replaced)) = translator.streamed_head(&frame.bytes)
    {
        shown.push(Wire::Reheaded(ReheadedFrame::new(head, frame, replaced)));
    } else {
        let messages = translator.down_action(&frame.bytes, frame.before());
        shown.extend(messages.into_iter().map(|message| Wire::Text(message.into())));
    }
}

fn parsed(params: Option<&RawValue>) -> Value {
    params
        .and_then(|params| serde_json::from_str(params.get()).ok())
        .unwrap_or_default()
}

/// The version that an `initialize` is going to be answered in, and the client; `None` if the core refuses it.
pub(crate) fn chosen(params: Option<&RawValue>) -> Option<(Version, String)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        client_id: String,
    }
    let params = params?;
    let version = negotiate(&offer(params)?).ok()??.version;
    let Params { client_id } = serde_json::from_str(params.get()).ok()?;
    Some((version, client_id))
}

/// The versions that an `initialize` offers: a list, or the number of 0.1.
pub(crate) fn offer(params: &RawValue) -> Option<Offer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_versions: Option<Vec<String>>,
        protocol_version: Option<i64>,
    }
    let params: Params = serde_json::from_str(params.get()).ok()?;
    match (params.protocol_versions, params.protocol_version) {
        (Some(list), _) => Some(Offer::List(list)),
        (None, Some(number)) => Some(Offer::Number(number)),
        (None, None) => None,
    }
}

/// The client of a `reconnect`, which carries no version.
pub(crate) fn reconnecting(params: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        client_id: String,
    }
    let Params { client_id } = serde_json::from_str(params?.get()).ok()?;
    Some(client_id)
}

#[cfg(test)]
mod tests {
    use ahp_types::actions::{ChatDeltaAction, StateAction};
    use innkeeper_core::Seq;

    use super::*;

    fn delta() -> Arc<ActionFrame> {
        let action = StateAction::ChatDelta(ChatDeltaAction {
            turn_id: "t".into(),
            part_id: "p".into(),
            content: "a \"quoted\"\nline".into(),
            meta: None,
        });
        Arc::new(ActionFrame::from_action("ahp-chat:/c", &action, Seq(7)))
    }

    #[test]
    fn streamed_output_is_shared_by_all_versions() {
        for version in Version::ALL {
            let mut translator = Translator::new(version, "me");
            if version.session_is_chat() {
                translator.shows_chat_as("ahp-chat:/c", "ahp-session:/s", true);
            }
            let frame = delta();
            let mut shown = Vec::new();
            down_action(&mut translator, Arc::clone(&frame), &mut shown);
            assert_eq!(Arc::strong_count(&frame), 2, "{version} shares the bytes");
            match shown.as_slice() {
                [Wire::Action(_)] => assert!(!version.session_is_chat()),
                [Wire::Reheaded(reheaded)] => {
                    let translated = translator.down_action(&frame.bytes, None);
                    let parsed = |message: &[u8]| serde_json::from_slice::<Value>(message).unwrap();
                    assert_eq!(parsed(&reheaded.parts().concat()), parsed(&translated[0]), "{version}");
                }
                other => panic!("{version}: {other:?}"),
            }
        }
    }
}
