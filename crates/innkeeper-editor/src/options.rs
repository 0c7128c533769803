//! The choices of a session: agent, model and settings, as options of ACP.

use ahp_types::state::{AgentInfo, SessionConfigPropertySchema, SessionState};
use serde_json::{Value, json};

/// The option that chooses the agent.
pub(crate) const AGENT: &str = "agent";
/// The option that chooses the model.
pub(crate) const MODEL: &str = "model";
/// The value of the model that the agent chooses.
pub(crate) const OWN_CHOICE: &str = "default";
/// The settings that editors show as the mode of a session, the better one first.
const MODES: [&str; 2] = ["mode", "autoApprove"];

/// Everything that the options of a session depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices<'a> {
    pub(crate) agents: &'a [AgentInfo],
    pub(crate) session: &'a SessionState,
    /// The model that the editor chose, or that the last message had.
    pub(crate) model: Option<&'a str>,
    /// The agent can still be another one, because nothing was written yet.
    pub(crate) is_new: bool,
    /// The editor shows options that are on or off.
    pub(crate) booleans: bool,
}

impl Choices<'_> {
    /// Returns the options of the session.
    pub(crate) fn options(&self) -> Value {
        let settings = self.settings();
        let settings = settings.iter().filter_map(|(id, schema)| self.setting(id, schema));
        self.agent().into_iter().chain(self.model()).chain(settings).collect()
    }

    /// Returns the modes, for editors that know them but no options.
    pub(crate) fn modes(&self) -> Option<Value> {
        let (id, schema) = self.mode()?;
        let modes: Vec<Value> = choices(schema)
            .map(|(value, name, description)| match description {
                Some(description) => json!({ "id": value, "name": name, "description": description }),
                None => json!({ "id": value, "name": name }),
            })
            .collect();
        (!modes.is_empty()).then(|| json!({ "currentModeId": self.value(id, schema), "availableModes": modes }))
    }

    /// Returns the setting that is shown as the mode.
    pub(crate) fn mode_setting(&self) -> Option<&str> {
        self.mode().map(|(id, _)| id)
    }

    fn mode(&self) -> Option<(&str, &SessionConfigPropertySchema)> {
        let settings = self.settings();
        let of = |mode: &&str| {
            settings
                .iter()
                .copied()
                .find(|(id, schema)| id == mode && schema.r#enum.is_some())
        };
        MODES.iter().find_map(of)
    }

    fn agent(&self) -> Option<Value> {
        let provider = self.session.provider.as_str();
        let offered = self
            .agents
            .iter()
            .filter(|agent| self.is_new || agent.provider == provider);
        let options: Vec<Value> = offered
            .map(|agent| json!({ "value": agent.provider, "name": agent.display_name, "description": agent.description }))
            .collect();
        select(AGENT, "Agent", "_agent", provider, options)
    }

    fn model(&self) -> Option<Value> {
        let agent = self
            .agents
            .iter()
            .find(|agent| agent.provider == self.session.provider)?;
        if agent.models.is_empty() {
            return None;
        }
        let own = json!({ "value": OWN_CHOICE, "name": "Default", "description": "The agent's own choice." });
        let models = agent.models.iter().filter(|model| model.id != OWN_CHOICE);
        let models = models.map(|model| json!({ "value": model.id, "name": model.name }));
        let options: Vec<Value> = std::iter::once(own).chain(models).collect();
        let known = |model: &&str| agent.models.iter().any(|offered| offered.id == *model);
        let current = self.model.filter(known).unwrap_or(OWN_CHOICE);
        select(MODEL, "Model", "model", current, options)
    }

    /// Returns the settings that a client may change, in a stable order.
    fn settings(&self) -> Vec<(&str, &SessionConfigPropertySchema)> {
        let properties = self.session.config.iter().flat_map(|config| &config.schema.properties);
        let can_change = |schema: &SessionConfigPropertySchema| {
            schema.session_mutable == Some(true) && schema.read_only != Some(true)
        };
        let mut settings: Vec<_> = properties
            .filter(|(id, schema)| can_change(schema) && ![AGENT, MODEL].contains(&id.as_str()))
            .map(|(id, schema)| (id.as_str(), schema))
            .collect();
        settings.sort_by_key(|(id, _)| (MODES.iter().position(|mode| mode == id).unwrap_or(MODES.len()), *id));
        settings
    }

    fn setting(&self, id: &str, schema: &SessionConfigPropertySchema) -> Option<Value> {
        if schema.r#type == "boolean" {
            let value = self.stored(id, schema).and_then(Value::as_bool).unwrap_or(false);
            let option = json!({
                "type": "boolean", "id": id, "name": schema.title, "description": schema.description,
                "currentValue": value,
            });
            return self.booleans.then_some(option);
        }
        let options: Vec<Value> = choices(schema)
            .map(|(value, name, description)| json!({ "value": value, "name": name, "description": description }))
            .collect();
        let category = match self.mode_setting() == Some(id) {
            true => "mode",
            false => "_setting",
        };
        let mut option = select(id, &schema.title, category, &self.value(id, schema), options)?;
        option["description"] = json!(schema.description);
        Some(option)
    }

    fn stored<'a>(&'a self, id: &str, schema: &'a SessionConfigPropertySchema) -> Option<&'a Value> {
        let values = self.session.config.as_ref().map(|config| &config.values);
        values.and_then(|values| values.get(id)).or(schema.default.as_ref())
    }

    fn value(&self, id: &str, schema: &SessionConfigPropertySchema) -> String {
        let value = self.stored(id, schema).map(value_id);
        value
            .or_else(|| choices(schema).next().map(|(value, ..)| value))
            .unwrap_or_default()
    }

    /// Returns the value of a setting that an editor chose.
    ///
    /// # Errors
    ///
    /// With the reason, if there is no such setting, or no such value.
    pub(crate) fn chosen(&self, id: &str, value: &Value) -> Result<Value, String> {
        let settings = self.settings();
        let Some((_, schema)) = settings.iter().find(|(setting, _)| *setting == id) else {
            return Err(format!("the session has no option `{id}`"));
        };
        if schema.r#type == "boolean" {
            return match value.is_boolean() {
                true => Ok(value.clone()),
                false => Err(format!("the option `{id}` is on or off")),
            };
        }
        let chosen = value.as_str().unwrap_or_default();
        let offered = schema
            .r#enum
            .iter()
            .flatten()
            .find(|offered| value_id(offered) == chosen);
        offered
            .cloned()
            .ok_or_else(|| format!("the option `{id}` has no value `{chosen}`"))
    }
}

fn select(id: &str, name: &str, category: &str, current: &str, options: Vec<Value>) -> Option<Value> {
    let option = json!({
        "type": "select", "id": id, "name": name, "category": category, "currentValue": current, "options": options,
    });
    (!options.is_empty()).then_some(option)
}

/// Returns the values of a setting with their names and descriptions.
fn choices(schema: &SessionConfigPropertySchema) -> impl Iterator<Item = (String, String, Option<&str>)> {
    let text = |texts: &Option<Vec<String>>, index: usize| texts.as_ref().and_then(|texts| texts.get(index).cloned());
    let values = schema.r#enum.iter().flatten().enumerate();
    values.map(move |(index, value)| {
        let id = value_id(value);
        let name = text(&schema.enum_labels, index).unwrap_or_else(|| id.clone());
        let descriptions = schema.enum_descriptions.as_ref();
        (
            id,
            name,
            descriptions.and_then(|texts| texts.get(index).map(String::as_str)),
        )
    })
}

fn value_id(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionState {
        let setting = |fields: Value| {
            let mut setting = json!({ "type": "string", "title": "Approvals", "sessionMutable": true });
            for (name, value) in fields.as_object().expect("fields") {
                setting[name] = value.clone();
            }
            setting
        };
        serde_json::from_value(json!({
            "provider": "model", "title": "", "status": 0, "lifecycle": "ready", "activeClients": [], "chats": [],
            "config": {
                "schema": { "type": "object", "properties": {
                    "autoApprove": setting(json!({ "enum": ["default", "autoApprove"], "enumLabels": ["Ask", "Allow"] })),
                    "effort": setting(json!({ "title": "Effort", "enum": [1, 2], "default": 2 })),
                    "fixed": setting(json!({ "enum": ["a"], "sessionMutable": false })),
                    "web": setting(json!({ "type": "boolean", "title": "Web" })),
                } },
                "values": { "autoApprove": "default", "web": true },
            },
        }))
        .expect("a session")
    }

    fn agents() -> Vec<AgentInfo> {
        serde_json::from_value(json!([
            { "provider": "model", "displayName": "Model", "description": "", "models": [
                { "id": "fast", "provider": "model", "name": "Fast" } ] },
            { "provider": "tour", "displayName": "Tour", "description": "", "models": [] },
        ]))
        .expect("agents")
    }

    fn ids(options: &Value) -> Vec<&str> {
        let options = options.as_array().expect("options");
        options.iter().filter_map(|option| option["id"].as_str()).collect()
    }

    #[test]
    fn a_session_has_its_agent_its_model_and_its_settings() {
        let (session, agents) = (session(), agents());
        let choices = Choices {
            agents: &agents,
            session: &session,
            model: Some("fast"),
            is_new: true,
            booleans: false,
        };
        let options = choices.options();
        assert_eq!(ids(&options), ["agent", "model", "autoApprove", "effort"]);
        assert_eq!(options[0]["options"].as_array().map(Vec::len), Some(2));
        assert_eq!(options[1]["currentValue"], "fast");
        assert_eq!(
            (&options[2]["category"], &options[3]["currentValue"]),
            (&json!("mode"), &json!("2"))
        );
        assert_eq!(
            choices.modes().expect("modes")["availableModes"][1],
            json!({ "id": "autoApprove", "name": "Allow" })
        );
        // Later the agent is what it is.
        let later = Choices {
            is_new: false,
            booleans: true,
            model: None,
            ..choices
        };
        let options = later.options();
        assert_eq!(options[0]["options"].as_array().map(Vec::len), Some(1));
        assert_eq!(options[1]["currentValue"], OWN_CHOICE);
        assert_eq!(ids(&options).last(), Some(&"web"));
    }

    #[test]
    fn chosen_values_have_to_be_offered() {
        let (session, agents) = (session(), agents());
        let choices = Choices {
            agents: &agents,
            session: &session,
            model: None,
            is_new: true,
            booleans: true,
        };
        assert_eq!(choices.chosen("effort", &json!("1")), Ok(json!(1)));
        assert_eq!(choices.chosen("web", &json!(false)), Ok(json!(false)));
        for (id, value) in [
            ("effort", json!("3")),
            ("web", json!("on")),
            ("fixed", json!("a")),
            ("none", json!("a")),
        ] {
            assert!(choices.chosen(id, &value).is_err(), "{id}");
        }
    }
}
