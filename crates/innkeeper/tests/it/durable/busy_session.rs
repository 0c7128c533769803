//! A session with everything at once: two clients, tools with and without confirmation, streamed text, a queue, a
//! draft, titles, settings.

use ahp_types::actions::ActionEnvelope;
use innkeeper_faults::Random;
use innkeeper_testkit::official::{OfficialClient, SessionUris, message, queued};
use serde_json::{Value, json};

/// Two clients in one session, and a third one that left before anything happened.
pub(crate) struct BusySession {
    pub(crate) first: OfficialClient,
    pub(crate) second: OfficialClient,
    pub(crate) witness: OfficialClient,
    pub(crate) uris: SessionUris,
}

impl BusySession {
    /// Creates the session. Its name makes every id in it unlike those of other lives.
    pub(crate) async fn begin(address: &innkeeper_testkit::raw::Address, name: &str) -> Self {
        let first = OfficialClient::connect(address, &format!("{name}-first"))
            .await
            .of_a_mortal_host();
        let second = OfficialClient::connect(address, &format!("{name}-second"))
            .await
            .of_a_mortal_host();
        let mut witness = OfficialClient::connect(address, &format!("{name}-witness")).await;
        let uris = first.create_session(name).await;
        first.run_turn(&uris.chat, &format!("{name}-t0"), "hello").await;
        second.join(&uris.session).await;
        witness.join(&uris.session).await;
        witness.cut().await;
        Self {
            first,
            second,
            witness,
            uris,
        }
    }

    /// Runs everything until it is done.
    pub(crate) async fn go_on(&self, name: &str, random: &mut Random) {
        let deciding = self.decide(random.number());
        let acting = self.act(name, random);
        tokio::select! {
            () = acting => {}
            () = deciding => {}
        }
    }

    async fn act(&self, name: &str, random: &mut Random) {
        let Self {
            first, second, uris, ..
        } = self;
        let (session, chat) = (&uris.session, &uris.chat);
        first.dispatch(session, title(&format!("{name}, early"))).await;
        second.dispatch(session, mood("grumpy")).await;
        second.dispatch(chat, draft(&format!("{name} thinks"))).await;
        first.start_turn(chat, &format!("{name}-t1"), "/parallel 3").await;
        // A message queued while nothing runs would start at once instead of this turn.
        second
            .until("the turn runs", |view| {
                view.chat(chat).is_some_and(|chat| chat.active_turn.is_some())
            })
            .await;
        let waiting = ["/tool", "/confirm", "a word in between", "/stream 60 1 20", "/tool"];
        for (number, text) in waiting.iter().enumerate() {
            let who = if random.percent(50) { first } else { second };
            who.dispatch(chat, queued(&format!("{name}-q{number}"), text)).await;
            if random.percent(30) {
                let text = format!("{name} thinks again, {number}");
                who.dispatch(chat, draft(&text)).await;
            }
        }
        second.dispatch(session, title(&format!("{name}, late"))).await;
        let turns = 2 + waiting.len();
        for who in [first, second] {
            who.until("everything that waited is done", |view| {
                view.chat(chat).is_some_and(|chat| chat.turns.len() == turns)
            })
            .await;
        }
        second.dispatch(session, mood("cheerful")).await;
        first
            .dispatch(
                session,
                json!({ "type": "session/isArchivedChanged", "isArchived": true }),
            )
            .await;
        second.run_turn(chat, &format!("{name}-t2"), "/confirm").await;
        second.caught_up().await;
        first.caught_up().await;
    }

    /// Answers whatever is asked, sometimes for good.
    async fn decide(&self, seed: u64) {
        let mut random = Random::new(seed);
        loop {
            let who = if random.percent(50) { &self.first } else { &self.second };
            let wait = who.wait_for(&self.uris.session, "toolConfirmation").await;
            let decision = match random.below(4) {
                0 => json!({ "approved": false }),
                1 => allow("allow-session"),
                _ => allow("allow-once"),
            };
            who.decide(&wait, decision).await;
            let id = &wait["toolCall"]["toolCallId"];
            who.until("the decision is taken", |view| {
                let waits = view.waits(&self.uris.session);
                waits.iter().all(|wait| wait["toolCall"]["toolCallId"] != *id)
            })
            .await;
        }
    }

    /// Returns the actions that both clients got, in order and once each.
    pub(crate) fn told(&self) -> Vec<ActionEnvelope> {
        let mut told = self.first.view().actions.clone();
        told.extend(self.second.view().actions.iter().cloned());
        told.sort_by_key(|envelope| envelope.server_seq);
        told.dedup_by_key(|envelope| envelope.server_seq);
        told
    }
}

/// Whether an action of a client was accepted, as its echo says.
pub(crate) fn is_echo(envelope: &ActionEnvelope) -> bool {
    envelope.origin.is_some() && envelope.rejection_reason.is_none()
}

pub(crate) fn allow(option: &str) -> Value {
    json!({ "approved": true, "selectedOptionId": option })
}

pub(crate) fn title(text: &str) -> Value {
    json!({ "type": "session/titleChanged", "title": text })
}

pub(crate) fn mood(mood: &str) -> Value {
    json!({ "type": "session/configChanged", "config": { "mood": mood } })
}

pub(crate) fn draft(text: &str) -> Value {
    json!({ "type": "chat/draftChanged", "draft": message(text) })
}
