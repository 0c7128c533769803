//! A store of turns, so that every scenario runs with as little of a chat in memory as can be.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use ahp_types::state::Turn;
use bytes::Bytes;
use innkeeper_core::TurnChanges;
use innkeeper_core::agent::{Attachment, PastTurn, SpanEnd, TurnSpan};
use innkeeper_core::records::TurnSource;
use innkeeper_core::{AgentCommand, Effect, Input, past_turn, was_heard};

use super::Stage;

/// Turns by chat, as JSON.
#[derive(Debug, Default)]
pub struct TurnStore {
    chats: Mutex<HashMap<String, Vec<Bytes>>>,
}

impl TurnStore {
    /// Brings the turns of a chat up to date.
    pub fn apply(&self, chat: &str, changes: TurnChanges) {
        let mut chats = self.chats.lock().expect("no panic");
        if let Some((from, count)) = changes.copied {
            let copy = chats[&*from][..count].to_vec();
            chats.insert(chat.to_owned(), copy);
        }
        let rows = chats.entry(chat.to_owned()).or_default();
        assert!(changes.from <= rows.len(), "a gap in the turns of {chat}");
        rows.truncate(changes.from);
        let encode = |turn: &Arc<Turn>| serde_json::to_vec(&**turn).expect("serialises").into();
        rows.extend(changes.turns.iter().map(encode));
    }

    /// Forgets removed chats.
    fn retain(&self, live: &[String]) {
        self.chats
            .lock()
            .expect("no panic")
            .retain(|chat, _| live.contains(chat));
    }

    /// All turns of a chat.
    pub fn all(&self, chat: &str) -> Vec<Turn> {
        let chats = self.chats.lock().expect("no panic");
        let rows = chats.get(chat).map(Vec::as_slice).unwrap_or_default();
        rows.iter().map(decode).collect()
    }

    fn told(&self, span: &TurnSpan) -> Option<Vec<PastTurn>> {
        let turns = self.all(&span.chat);
        let end = match &span.end {
            SpanEnd::Before(end) => *end,
            SpanEnd::Through(id) => turns.iter().position(|turn| turn.id == *id)? + 1,
        };
        Some(
            turns[..end]
                .iter()
                .filter(|turn| was_heard(turn))
                .map(past_turn)
                .collect(),
        )
    }
}

fn decode(row: &Bytes) -> Turn {
    serde_json::from_slice(row).expect("a turn")
}

impl TurnSource for TurnStore {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        let chats = self.chats.lock().expect("no panic");
        let rows = chats.get(chat).and_then(|rows| rows.get(range.clone()));
        rows.map(<[Bytes]>::to_vec)
            .ok_or_else(|| format!("{chat} has no turns {range:?}"))
    }

    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String> {
        Ok(self.all(chat).iter().position(|turn| turn.id == turn_id))
    }
}

impl Stage {
    /// Brings back what an input needs.
    pub(super) fn load_for(&mut self, input: &Input) {
        while let Some((chat, range)) = self.core.turns_needed(input) {
            let model = self.core.chat_models().find(|(id, _)| *id == chat).expect("a chat").1;
            assert!(model.missing(range.clone()).is_some(), "only what is missing is needed");
            let rows = self.turns.read(&model.head().resource, range.clone()).expect("stored");
            self.loads.push((range.start, range.end));
            let loaded = Input::TurnsLoaded {
                chat,
                first: range.start,
                outcome: Ok(rows.iter().map(decode).collect()),
            };
            self.core.handle(self.now, loaded, &mut Vec::new());
        }
    }

    /// Stores what changed and lets everything leave memory but the last turn of each chat.
    pub(super) fn store_turns(&mut self) {
        let mut live = Vec::new();
        for (_, model) in self.core.chat_models() {
            if let Some(changes) = model.turn_changes() {
                self.turns.apply(&model.head().resource, changes);
                model.read_turns_from(Arc::clone(&self.turns) as Arc<dyn TurnSource>);
            }
            model.forget_turns(model.turn_count(), 1, 0);
            let idle = model.head().active_turn.is_none() && model.turn_count() > 0;
            assert!(
                !idle || model.last_turn().is_some(),
                "the last turn can be resumed at once"
            );
            live.push(model.head().resource.clone());
        }
        self.turns.retain(&live);
    }

    /// Reads the turns for an agent, as its driver does.
    pub(super) fn tell(&mut self, effect: &mut Effect) {
        match effect {
            Effect::Agent(AgentCommand::OpenChat(open)) => {
                if let Some(span) = open.history.earlier.take() {
                    let earlier = self.turns.told(&span).expect("stored");
                    self.spans.push(span);
                    open.history.recent.splice(..0, earlier);
                }
            }
            Effect::Agent(AgentCommand::StartTurn { start, .. }) => {
                for unread in std::mem::take(&mut start.unread_chats) {
                    let place = &mut start.info.attachments[unread.attachment];
                    if let (Some(transcript), Attachment::Text { label, .. }) = (self.turns.told(&unread.span), &place)
                    {
                        let label = label.clone();
                        let uri = unread.span.chat.to_string();
                        *place = Attachment::Chat { label, uri, transcript };
                    }
                    self.spans.push(unread.span);
                }
            }
            _ => {}
        }
    }
}
