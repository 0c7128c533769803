//! Fields that the published types lack: the opt-in and the catalogue of `systemMessageTransform`, which AHP 1.0 does
//! not have yet, and the purpose of questions.
//!
//! The published types drop fields they do not know, so these are stored separately from the typed state and written
//! into every snapshot, echo and document (SMT-11, SMT-17, SMT-19). The patterns below are exhaustive: when upstream
//! adds the fields they no longer compile, and this module can be deleted.

use std::collections::BTreeMap;

use ahp_types::actions::{
    ChatInputRequestedAction, RootAgentsChangedAction, SessionActiveClientSetAction, SessionInputNeededSetAction,
    StateAction,
};
use ahp_types::state::{
    AgentInfo, ChatInputRequest, SessionActiveClient, SessionChatInputRequest, SessionInputRequest,
};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent::{AgentProfile, STANDARD_SECTIONS, Section};
use crate::protocol::action_table;
use crate::protocol::decode::plain;
use crate::protocol::frame::write_json;

/// Longest id of a section.
const MAX_ID_BYTES: usize = 256;

/// Prefix of the ids of questions that an MCP server asks.
pub const ELICITATION: &str = "elicitation-";
/// The field of an active client that says which sections it wants to rewrite.
const TRANSFORM: &str = "systemMessageTransform";
/// The field of an agent that says which sections it has.
const SECTIONS: &str = "systemMessageSections";

/// The sections that a client offers to rewrite: the value of `SessionActiveClient.systemMessageTransform`.
///
/// It is stored as the client sent it, without repetitions: an id that no agent has today may exist tomorrow, and
/// until then it is never asked for (SMT-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptIn {
    /// The ids of the sections, each once.
    pub sections: Vec<String>,
}

impl OptIn {
    /// Reads the opt-in of an active client's entry, if it has one. `Err` names the field that is
    /// wrong, from the entry on.
    pub fn read(entry: &Value) -> Result<Option<Self>, String> {
        match entry.get(TRANSFORM) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => Self::decode(value).map(Some),
        }
    }

    fn decode<'de, D: serde::Deserializer<'de, Error = serde_json::Error>>(json: D) -> Result<Self, String> {
        let mut opt_in: Self = serde_path_to_error::deserialize(json).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." {
                TRANSFORM.to_owned()
            } else {
                format!("{TRANSFORM}.{path}")
            };
            format!("{field}: {}", plain(error.inner()))
        })?;
        let mut seen = std::collections::HashSet::new();
        opt_in.sections.retain(|id| seen.insert(id.clone()));
        Ok(opt_in)
    }

    /// Whether it is within bounds; otherwise says which field is not.
    pub(crate) fn check(&self, most: usize) -> Result<(), String> {
        if self.sections.len() > most {
            return Err(format!("{TRANSFORM}.sections: a client names at most {most} sections"));
        }
        let is_id = |id: &String| (1..=MAX_ID_BYTES).contains(&id.len());
        match self.sections.iter().position(|id| !is_id(id)) {
            Some(index) => Err(format!(
                "{TRANSFORM}.sections[{index}]: has between 1 and {MAX_ID_BYTES} bytes"
            )),
            None => Ok(()),
        }
    }
}

/// Reads the opt-in from a `session/activeClientSet`, as it arrived or as it was persisted.
pub(crate) fn opt_in_of(action: &RawValue) -> Result<Option<OptIn>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Set<'a> {
        #[serde(borrow)]
        active_client: ActiveClientEntry<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ActiveClientEntry<'a> {
        #[serde(borrow, default)]
        system_message_transform: Option<&'a RawValue>,
    }
    let set: Set<'_> = serde_json::from_str(action.get()).map_err(|error| plain(&error))?;
    match set.active_client.system_message_transform {
        Some(raw) => OptIn::decode(&mut serde_json::Deserializer::from_str(raw.get())).map(Some),
        None => Ok(None),
    }
}

/// The sections that active clients of a session want to rewrite, by client id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptIns(BTreeMap<String, OptIn>);

impl OptIns {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, client: &str) -> Option<&OptIn> {
        self.0.get(client)
    }

    /// Replaces the earlier opt-in of a client.
    pub(crate) fn set(&mut self, client: &str, opt_in: Option<OptIn>) {
        match opt_in {
            Some(opt_in) => self.0.insert(client.to_owned(), opt_in),
            None => self.0.remove(client),
        };
    }

    /// Applies a persisted action with the envelope `envelope`.
    pub(crate) fn follow(&mut self, action: &StateAction, envelope: &[u8]) -> Result<(), String> {
        match action {
            StateAction::SessionActiveClientSet(set) => {
                let opt_in = opt_in_of(action_of(envelope)?)?;
                self.set(&set.active_client.client_id, opt_in);
            }
            StateAction::SessionActiveClientRemoved(removed) => self.set(&removed.client_id, None),
            _ => {}
        }
        Ok(())
    }
}

/// The sections that agents have, by provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue(BTreeMap<String, Vec<Section>>);

impl Catalogue {
    /// The catalogue of these agents. `restricted` replaces the agents' own list of sections that clients may not
    /// rewrite.
    pub(crate) fn new(agents: &[AgentProfile], restricted: Option<&[String]>) -> Self {
        let published = agents.iter().filter(|agent| !agent.sections.is_empty());
        let by_provider = published.map(|agent| {
            let mut sections = agent.sections.clone();
            for section in &mut sections {
                section.restricted = restricted.map_or(section.restricted, |ids| ids.contains(&section.id));
            }
            (agent.info.provider.clone(), sections)
        });
        Self(by_provider.collect())
    }

    /// Whether clients may not rewrite a section of an agent (SMT-12). A section that its agent does
    /// not publish is treated as the standard one of that name.
    pub(crate) fn is_restricted(&self, provider: &str, id: &str, restricted: Option<&[String]>) -> bool {
        if let Some(ids) = restricted {
            return ids.iter().any(|restricted| restricted == id);
        }
        let mut published = self.0.get(provider).into_iter().flatten();
        match published.find(|section| section.id == id) {
            Some(section) => section.restricted,
            None => STANDARD_SECTIONS
                .iter()
                .any(|standard| standard.id == id && standard.restricted),
        }
    }

    /// Applies a persisted action of the root channel with the envelope `envelope`.
    pub(crate) fn follow(&mut self, action: &StateAction, envelope: &[u8]) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Changed {
            agents: Vec<AgentEntry>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct AgentEntry {
            provider: String,
            #[serde(default)]
            system_message_sections: Vec<Section>,
        }
        if let StateAction::RootAgentsChanged(_) = action {
            let changed: Changed =
                serde_json::from_str(action_of(envelope)?.get()).map_err(|error| error.to_string())?;
            let published = changed.agents.into_iter();
            let published = published.filter(|agent| !agent.system_message_sections.is_empty());
            self.0 = published
                .map(|agent| (agent.provider, agent.system_message_sections))
                .collect();
        }
        Ok(())
    }
}

fn action_of(envelope: &[u8]) -> Result<&RawValue, String> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        action: &'a RawValue,
    }
    let envelope: Envelope<'_> = serde_json::from_slice(envelope).map_err(|error| error.to_string())?;
    Ok(envelope.action)
}

/// Fields of an action that its published type lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExtensionFields<'a> {
    Nothing,
    OptIn(&'a OptIn),
    Catalogue(&'a Catalogue),
}

impl ExtensionFields<'_> {
    /// Writes an action as the published type would, with its extension fields.
    pub(crate) fn write(self, out: &mut Vec<u8>, action: &StateAction) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Set<'a> {
            r#type: &'a str,
            active_client: ActiveClient<'a>,
        }
        #[derive(Serialize)]
        struct Changed<'a> {
            r#type: &'a str,
            agents: Agents<'a>,
        }
        #[derive(Serialize)]
        struct Needed<'a> {
            r#type: &'a str,
            request: InputNeeded<'a>,
        }
        #[derive(Serialize)]
        struct Requested<'a> {
            r#type: &'a str,
            request: InputRequest<'a>,
        }
        let name = || action_table::rule(action).map_or("", |rule| rule.name);
        match (action, self) {
            (StateAction::SessionActiveClientSet(set), ExtensionFields::OptIn(opt_in)) => {
                let SessionActiveClientSetAction { active_client } = set;
                let set = Set {
                    r#type: name(),
                    active_client: ActiveClient(active_client, Some(opt_in)),
                };
                write_json(out, &set);
            }
            (StateAction::RootAgentsChanged(changed), ExtensionFields::Catalogue(catalogue)) => {
                let RootAgentsChangedAction { agents } = changed;
                let changed = Changed {
                    r#type: name(),
                    agents: Agents(agents, catalogue),
                };
                write_json(out, &changed);
            }
            (StateAction::ChatInputRequested(requested), _) => {
                let ChatInputRequestedAction { request } = requested;
                let requested = Requested {
                    r#type: name(),
                    request: InputRequest(request),
                };
                write_json(out, &requested);
            }
            (StateAction::SessionInputNeededSet(set), _) => {
                let SessionInputNeededSetAction { request } = &**set;
                let needed = Needed {
                    r#type: name(),
                    request: InputNeeded(request),
                };
                write_json(out, &needed);
            }
            (action, _) => write_json(out, action),
        }
    }
}

/// A question to the user as the published type would write it, with its purpose: clients distinguish questions of
/// their agent from those of a server. The published type has no `_meta`, and the purpose follows from the id, so
/// nothing more is persisted.
pub(crate) struct InputRequest<'a>(pub(crate) &'a ChatInputRequest);

impl Serialize for InputRequest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Meta {
            purpose: &'static str,
        }
        let ChatInputRequest {
            id,
            message,
            url,
            questions,
            answers,
        } = self.0;
        let purpose = match url.is_some() || id.starts_with(ELICITATION) {
            true => "elicitation",
            false => "askUser",
        };
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("id", id)?;
        optional(&mut out, "message", message)?;
        optional(&mut out, "url", url)?;
        optional(&mut out, "questions", questions)?;
        optional(&mut out, "answers", answers)?;
        out.serialize_entry("_meta", &Meta { purpose })?;
        out.end()
    }
}

/// Something that a session waits for, likewise.
pub(crate) struct InputNeeded<'a>(pub(crate) &'a SessionInputRequest);

impl Serialize for InputNeeded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SessionInputRequest::ChatInput(needed) = self.0 else {
            return self.0.serialize(serializer);
        };
        let SessionChatInputRequest { id, chat, request } = needed;
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("kind", "chatInput")?;
        out.serialize_entry("id", id)?;
        out.serialize_entry("chat", chat)?;
        out.serialize_entry("request", &InputRequest(request))?;
        out.end()
    }
}

/// Active clients as the published type would write them, with their opt-ins.
pub(crate) struct ActiveClients<'a>(pub(crate) &'a [SessionActiveClient], pub(crate) &'a OptIns);

impl Serialize for ActiveClients<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_seq(entries.map(|entry| ActiveClient(entry, self.1.get(&entry.client_id))))
    }
}

struct ActiveClient<'a>(&'a SessionActiveClient, Option<&'a OptIn>);

impl Serialize for ActiveClient<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SessionActiveClient {
            client_id,
            display_name,
            tools,
            customizations,
        } = self.0;
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("clientId", client_id)?;
        optional(&mut out, "displayName", display_name)?;
        out.serialize_entry("tools", tools)?;
        optional(&mut out, "customizations", customizations)?;
        optional(&mut out, TRANSFORM, &self.1)?;
        out.end()
    }
}

/// Agents as the published type would write them, with their sections.
pub(crate) struct Agents<'a>(pub(crate) &'a [AgentInfo], pub(crate) &'a Catalogue);

impl Serialize for Agents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let agents = self.0.iter();
        serializer.collect_seq(agents.map(|agent| Agent(agent, self.1.0.get(&agent.provider))))
    }
}

struct Agent<'a>(&'a AgentInfo, Option<&'a Vec<Section>>);

impl Serialize for Agent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let AgentInfo {
            provider,
            display_name,
            description,
            models,
            protected_resources,
            customizations,
            capabilities,
        } = self.0;
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("provider", provider)?;
        out.serialize_entry("displayName", display_name)?;
        out.serialize_entry("description", description)?;
        out.serialize_entry("models", models)?;
        optional(&mut out, "protectedResources", protected_resources)?;
        optional(&mut out, "customizations", customizations)?;
        optional(&mut out, "capabilities", capabilities)?;
        optional(&mut out, SECTIONS, &self.1)?;
        out.end()
    }
}

/// Optional fields are omitted, never `null` (TRN-16).
fn optional<M: SerializeMap, T: Serialize>(out: &mut M, key: &str, value: &Option<T>) -> Result<(), M::Error> {
    match value {
        Some(value) => out.serialize_entry(key, value),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).expect("JSON")
    }

    fn read(transform: Value) -> Result<Option<OptIn>, String> {
        let entry = json!({ "clientId": "c", "tools": [], "systemMessageTransform": transform });
        let from_entry = OptIn::read(&entry);
        let from_action = opt_in_of(&raw(
            &json!({ "type": "session/activeClientSet", "activeClient": entry }),
        ));
        assert_eq!(from_entry, from_action, "both ways in read the same");
        from_entry
    }

    #[test]
    fn smt13_an_opt_in_keeps_unknown_ids_and_loses_repetitions() {
        let opt_in = read(json!({ "sections": ["tone", "of_tomorrow", "tone"], "more": 1 }));
        let sections = vec!["tone".to_owned(), "of_tomorrow".to_owned()];
        assert_eq!(opt_in, Ok(Some(OptIn { sections })));
        assert_eq!(read(Value::Null), Ok(None));
    }

    #[test]
    fn smt02_a_malformed_opt_in_is_refused_by_the_name_of_its_field() {
        for (value, problem) in [
            (json!(5), "systemMessageTransform: invalid type: integer `5`"),
            (json!({}), "systemMessageTransform: missing field `sections`"),
            (
                json!({ "sections": "tone" }),
                "systemMessageTransform.sections: invalid type: string",
            ),
            (
                json!({ "sections": ["tone", 7] }),
                "systemMessageTransform.sections[1]: invalid type: integer `7`",
            ),
        ] {
            let refused = read(value).expect_err("malformed");
            assert!(refused.starts_with(problem), "{refused}");
        }
    }

    #[test]
    fn smt15_an_opt_in_is_bounded() {
        let named = |sections: &[&str]| OptIn {
            sections: sections.iter().map(|id| (*id).to_owned()).collect(),
        };
        assert_eq!(named(&["a", "b"]).check(2), Ok(()));
        let refused = named(&["a", "b", "c"]).check(2);
        assert_eq!(
            refused,
            Err("systemMessageTransform.sections: a client names at most 2 sections".to_owned())
        );
        for id in ["", &"x".repeat(257)] {
            let refused = named(&["a", id]).check(2).expect_err("too short or too long");
            assert!(refused.starts_with("systemMessageTransform.sections[1]: "), "{refused}");
        }
    }

    #[test]
    fn smt12_restrictions_of_the_operator_replace_those_of_the_agent() {
        let mut agent = AgentProfile::from(AgentInfo {
            provider: "a".to_owned(),
            display_name: "A".to_owned(),
            description: "An agent.".to_owned(),
            models: Vec::new(),
            protected_resources: None,
            customizations: None,
            capabilities: None,
        });
        agent.sections = vec![
            Section::new("tone", "Tone"),
            Section::new("house", "House").restricted(),
        ];
        let agents = [agent];
        let as_agents_say = Catalogue::new(&agents, None);
        let restricted = |catalogue: &Catalogue, ids: Option<&[String]>| -> Vec<&str> {
            let known = ["tone", "house", "identity", "safety", "else"].into_iter();
            known.filter(|id| catalogue.is_restricted("a", id, ids)).collect()
        };
        assert_eq!(restricted(&as_agents_say, None), ["house", "identity", "safety"]);
        let ids = ["tone".to_owned(), "else".to_owned()];
        let overridden = Catalogue::new(&agents, Some(&ids));
        assert_eq!(restricted(&overridden, Some(&ids)), ["tone", "else"]);
        let shown = serde_json::to_value(Agents(&[agents[0].info.clone()], &overridden)).expect("JSON");
        assert_eq!(
            shown[0]["systemMessageSections"],
            json!([
                { "id": "tone", "label": "Tone", "restricted": true },
                { "id": "house", "label": "House" },
            ])
        );
    }
}
