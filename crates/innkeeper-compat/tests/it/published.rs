//! The published types and reducers of all versions, without their clients.

mod process;

use std::cell::RefCell;
use std::fmt;

use innkeeper_compat::client::AHEAD_OF_0_9;
use innkeeper_compat::comparison::{comparable, difference, remove};
use innkeeper_compat::version::Version as Words;
use innkeeper_dialects::Version;
use innkeeper_testkit::sim::{Intent, NewOlderMirror, OlderMirror};
use serde_json::{Value, json};

use self::process::MirrorProcess;

/// The versions, the oldest first.
pub const ALL: [NewOlderMirror; 12] = [
    v0_1::mirror,
    v0_2::mirror,
    v0_3::mirror,
    v0_4::mirror,
    v0_5_0::mirror,
    v0_5_1::mirror,
    v0_5_2::mirror,
    v0_6::mirror,
    v0_7::mirror,
    v0_8::mirror,
    v0_9::mirror,
    v1_0::mirror,
];

macro_rules! published {
    (@states linked($ahp:ident, $era:ident $(, $reads:ident)?)) => {
        innkeeper_compat::mirror!($ahp, $era $(, $reads)?);

        pub(super) fn perform() -> Box<Perform> {
            let mut mirror = Mirror::default();
            Box::new(move |command, argument| mirror.perform(command, argument))
        }
    };
    (@states process($folder:literal)) => {
        pub(super) fn perform() -> Box<Perform> {
            static PROCESS: MirrorProcess = MirrorProcess::new($folder);
            PROCESS.mirror()
        }
    };
    ($($name:ident, $version:ident, $runtime:ident $source:tt;)+) => {
        $(
            pub mod $name {
                use super::*;

                pub const VERSION: Version = Version::$version;

                /// The states of a new client.
                pub fn mirror() -> Box<dyn OlderMirror> {
                    let perform = RefCell::new(states::perform());
                    Box::new(PublishedMirror { words: Words::$version, perform })
                }

                mod states {
                    use super::super::*;

                    published!(@states $runtime $source);
                }
            }
        )+
    };
}

published! {
    v0_1, V0_1, linked(ahp_0_1, sessions);
    v0_2, V0_2, linked(ahp_0_2, channels);
    v0_3, V0_3, linked(ahp_0_3, channels);
    v0_4, V0_4, linked(ahp_0_4, chats);
    v0_5_0, V0_5_0, process("v0_5_0");
    v0_5_1, V0_5_1, process("v0_5_1");
    v0_5_2, V0_5_2, linked(ahp_0_5_2, chats);
    v0_6, V0_6, linked(ahp_0_6, chats, sign_ins);
    v0_7, V0_7, linked(ahp_0_7, chats, sign_ins);
    v0_8, V0_8, linked(ahp_0_8, chats, sign_ins);
    v0_9, V0_9, linked(ahp_0_9, chats, sign_ins);
    v1_0, V1_0, linked(ahp_1_0, chats, sign_ins);
}

/// Performs a command of [`innkeeper_compat::mirror!`].
pub(crate) type Perform = dyn FnMut(&str, &Value) -> Result<Value, String>;

/// The states of a client, in this program or in a process.
struct PublishedMirror {
    words: Words,
    perform: RefCell<Box<Perform>>,
}

impl fmt::Debug for PublishedMirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words.fmt(f)
    }
}

impl PublishedMirror {
    fn perform(&self, command: &str, argument: &Value) -> Result<Value, String> {
        (self.perform.borrow_mut())(command, argument)
    }
}

impl OlderMirror for PublishedMirror {
    fn version(&self) -> Version {
        self.words.published()
    }

    fn root(&self) -> &'static str {
        self.words.root()
    }

    fn show(&mut self, snapshot: &Value) -> Result<(), String> {
        self.perform("show", snapshot).map(drop)
    }

    fn reduce(&mut self, params: &Value) -> Result<(), String> {
        let outcome = self.perform("reduce", params)?;
        // Every client of 0.1 gets what happens on the root channel, and ignores it without a subscription.
        let is_ignored = !self.words.has_channels() && params["action"].get("session").is_none();
        match outcome.as_str().unwrap_or_default() {
            "reduced" => Ok(()),
            "elsewhere" if is_ignored => Ok(()),
            "elsewhere" => Err(format!("no state for {params}")),
            _ => unknown(self.version(), params),
        }
    }

    fn forget(&mut self, channel: &str) {
        // A mirror forgets channels that it does not have, too.
        let _ = self.perform("forget", &channel.into());
    }

    fn state(&self, channel: &str) -> Option<Value> {
        let state = self.perform("state", &channel.into());
        state.ok().filter(|state| !state.is_null())
    }

    fn difference(&self, mine: Value, fresh: Value) -> Option<String> {
        let (mut mine, mut fresh) = (comparable(self.words, mine), comparable(self.words, fresh));
        with_the_same_turns(&mut mine, &mut fresh);
        if self.version().session_is_chat() {
            without_tool_kinds(&mut mine);
            without_tool_kinds(&mut fresh);
        }
        difference(&mine, &fresh)
    }

    fn action(&self, intent: &Intent) -> Option<Value> {
        action(self.words, intent)
    }
}

/// An action that the types of a version do not know: only those of 0.9 lack some that its clients get.
fn unknown(version: Version, params: &Value) -> Result<(), String> {
    let kind = params["action"]["type"].as_str().unwrap_or_default();
    match version == Version::V0_9 && AHEAD_OF_0_9.contains(&kind) {
        true => Ok(()),
        false => Err(format!("{version} does not know {params}")),
    }
}

/// Leaves out the oldest turns of the chat that has more of them: one of the two was loaded in part.
fn with_the_same_turns(mine: &mut Value, fresh: &mut Value) {
    let count = |state: &Value| state["turns"].as_array().map_or(0, Vec::len);
    let same = count(mine).min(count(fresh));
    for state in [mine, fresh] {
        remove(state, "turnsNextCursor");
        if let Some(turns) = state.get_mut("turns").and_then(Value::as_array_mut) {
            turns.drain(..turns.len() - same);
        }
    }
}

/// Leaves out the kind of tool calls: up to 0.3 a call keeps the `_meta` that it started with, and in the simulator a call
/// of any kind can become that of a subagent.
fn without_tool_kinds(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_tool_kinds),
        Value::Object(members) => {
            if members.contains_key("toolCallId")
                && let Some(meta) = members.get_mut("_meta")
            {
                remove(meta, "toolKind");
                if meta.as_object().is_some_and(serde_json::Map::is_empty) {
                    members.shift_remove("_meta");
                }
            }
            members.values_mut().for_each(without_tool_kinds);
        }
        _ => {}
    }
}

fn action(version: Words, intent: &Intent) -> Option<Value> {
    Some(match intent {
        Intent::StartTurn { turn, text } => version.turn_started(turn, text),
        Intent::CancelTurn { turn } => version.turn_cancelled(turn),
        Intent::Queue { id, text } => version.pending("queued", id, text),
        Intent::Decide {
            turn,
            call,
            is_approved,
        } => {
            let mut action = json!({ "type": version.of_chat("toolCallConfirmed"), "turnId": turn,
                "toolCallId": call, "approved": is_approved });
            match is_approved {
                true => action["confirmed"] = "user-action".into(),
                false => action["reason"] = "denied".into(),
            }
            action
        }
        Intent::Decline { request } => {
            json!({ "type": version.of_chat("inputCompleted"), "requestId": request, "response": "decline" })
        }
        Intent::Rename { title } => json!({ "type": "session/titleChanged", "title": title }),
        Intent::MarkRead { is_read } => json!({ "type": "session/isReadChanged", "isRead": is_read }),
        Intent::Review { files, reviewed } if version.has_times() => {
            json!({ "type": "changeset/filesReviewChanged", "files": files, "reviewed": reviewed })
        }
        Intent::Review { files, reviewed } if version.keeps_answers() => {
            json!({ "type": "changeset/filesReviewedChanged", "fileIds": files, "reviewed": reviewed })
        }
        Intent::Review { .. } => return None,
        Intent::Annotate {
            session,
            id,
            entry,
            resource,
            text,
        } => {
            let mut annotation = json!({ "id": id, "resource": resource, "resolved": false,
                "entries": [{ "id": entry, "text": text }] });
            match version.has_error_parts() {
                true => annotation["origin"] = json!({ "session": session }),
                false => annotation["turnId"] = "t1".into(),
            }
            json!({ "type": "annotations/set", "annotation": annotation })
        }
        Intent::Resolve { id, is_resolved } => {
            json!({ "type": "annotations/updated", "annotationId": id, "resolved": is_resolved })
        }
        Intent::WriteEntry { id, entry, text } => {
            let entry = json!({ "id": entry, "text": text });
            json!({ "type": "annotations/entrySet", "annotationId": id, "entry": entry })
        }
        Intent::RemoveEntry { id, entry } => {
            json!({ "type": "annotations/entryRemoved", "annotationId": id, "entryId": entry })
        }
        Intent::RemoveAnnotation { id } => json!({ "type": "annotations/removed", "annotationId": id }),
    })
}
