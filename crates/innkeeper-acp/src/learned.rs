//! The facts that an agent tells about itself: they are known once it has run, and persisted for the next start of the
//! host, so that clients see models, modes and commands before the agent runs again.

use std::path::Path;

use innkeeper_host::agent::{Choice, Setting, SettingKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Most choices of one option that are offered.
const MAX_CHOICES: usize = 500;
/// Most options, modes or commands that are offered.
const MAX_OPTIONS: usize = 100;
/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Everything that an agent told about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Learned {
    /// The name that the agent gives itself.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The capabilities it announced.
    pub abilities: Abilities,
    /// The ways to sign in: a name, and a sentence about it.
    pub sign_in: Vec<(String, Option<String>)>,
    /// The options of its sessions. Values belong to one session, so none is known here; a default is.
    pub options: Vec<SessionOption>,
    /// Its slash commands.
    pub commands: Vec<SlashCommand>,
}

/// The capabilities of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Abilities {
    /// `session/load`: a session with a replay of its history.
    pub load: bool,
    /// `session/resume`: a session without a replay.
    pub resume: bool,
    /// `session/list`.
    pub list: bool,
    /// `session/fork`.
    pub fork: bool,
    /// `session/close`.
    pub close: bool,
    /// Images in messages.
    pub images: bool,
    /// Contents of files in messages.
    pub embedded: bool,
    /// MCP servers over HTTP.
    pub mcp_http: bool,
    /// Further working directories.
    pub directories: bool,
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// Its description.
    pub description: String,
    /// A hint about its input.
    pub hint: Option<String>,
}

/// An option of a session: a mode, a model, or a setting of the agent's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionOption {
    /// Its id.
    pub id: String,
    /// A title for users.
    pub name: String,
    /// A sentence about it.
    pub description: Option<String>,
    /// Whether it selects the model.
    pub is_model: bool,
    /// The values to choose from; `None` for yes or no.
    pub choices: Option<Vec<OptionChoice>>,
    /// The value now; null if it is unknown.
    #[serde(skip)]
    pub value: Value,
    /// The value that a new session of the agent has; null if it is unknown. A value that was chosen in one session never
    /// becomes the default of others.
    #[serde(default)]
    pub default: Value,
    /// The request that changes it.
    pub set_by: SetBy,
}

/// A value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionChoice {
    /// The value.
    pub id: String,
    /// A label for users.
    pub name: String,
    /// A sentence about it.
    pub description: Option<String>,
}

/// The request that changes an option. Agents of before the config options have a request per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetBy {
    /// `session/set_config_option`.
    Option,
    /// `session/set_mode`.
    Mode,
    /// `session/set_model`.
    Model,
}

impl Learned {
    /// Reads the answer to `initialize`.
    pub(crate) fn of_initialize(answer: &Value) -> Self {
        let info = &answer["agentInfo"];
        let capabilities = &answer["agentCapabilities"];
        let session = &capabilities["sessionCapabilities"];
        let has = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let methods = answer["authMethods"].as_array().into_iter().flatten();
        Self {
            name: text(&info["title"]).or_else(|| text(&info["name"])),
            version: text(&info["version"]),
            abilities: Abilities {
                load: has(&capabilities["loadSession"]),
                resume: has(&session["resume"]),
                list: has(&session["list"]),
                fork: has(&session["fork"]),
                close: has(&session["close"]),
                images: has(&capabilities["promptCapabilities"]["image"]),
                embedded: has(&capabilities["promptCapabilities"]["embeddedContext"]),
                mcp_http: has(&capabilities["mcpCapabilities"]["http"]),
                directories: has(&session["additionalDirectories"]),
            },
            sign_in: methods
                .filter_map(|method| Some((text(&method["name"])?, sign_in_description(method))))
                .collect(),
            options: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Returns the option that selects the model.
    pub(crate) fn model_option(&self) -> Option<&SessionOption> {
        self.options.iter().find(|option| option.is_model)
    }

    /// Reads what an earlier run of the host persisted. A file that cannot be read is as good as none.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let is_short = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() <= MAX_FILE_BYTES);
        let bytes = is_short.then(|| std::fs::read(file).ok())??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Persists it. A failure costs no more than a shorter list at the next start.
    pub(crate) fn write(&self, file: &Path) {
        let written = (|| {
            if let Some(directory) = file.parent() {
                std::fs::create_dir_all(directory)?;
            }
            let temporary = file.with_extension("new");
            std::fs::write(&temporary, serde_json::to_vec(self)?)?;
            std::fs::rename(temporary, file)
        })();
        if let Err(error) = written {
            tracing::warn!(%error, file = %file.display(), "the abilities of an agent could not be persisted");
        }
    }
}

impl SessionOption {
    /// Returns the option as a setting of sessions.
    pub(crate) fn setting(&self) -> Setting {
        let kind = match &self.choices {
            None => SettingKind::Boolean,
            Some(choices) => SettingKind::Choice(choices.iter().map(choice).collect()),
        };
        Setting {
            id: self.id.clone(),
            title: self.name.clone(),
            description: self.description.clone(),
            kind,
            default: Some(&self.default).filter(|value| self.takes(value)).cloned(),
            mutable: true,
            read_only: false,
            required: false,
        }
    }

    /// Returns whether the option can have a value.
    pub(crate) fn takes(&self, value: &Value) -> bool {
        match &self.choices {
            None => value.is_boolean(),
            Some(choices) => choices.iter().any(|choice| *value == *choice.id),
        }
    }
}

/// Describes a way to sign in, with the arguments or variables that it needs.
fn sign_in_description(method: &Value) -> Option<String> {
    let words = |list: &Value, field: Option<&str>| {
        let entries = list.as_array().into_iter().flatten();
        let entries = entries.filter_map(|entry| field.map_or(entry, |field| &entry[field]).as_str());
        entries.map(str::to_owned).collect::<Vec<_>>()
    };
    let arguments = words(&method["args"], None).join(" ");
    let mut variables = words(&method["vars"], Some("name"));
    variables.extend(text(&method["varName"]));
    let needed = match () {
        () if method["type"] == "terminal" && !arguments.is_empty() => {
            Some(format!("run the agent's program with `{arguments}` in a terminal"))
        }
        () if !variables.is_empty() => Some(format!("set {}", variables.join(", "))),
        () => None,
    };
    let parts: Vec<String> = text(&method["description"]).into_iter().chain(needed).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn choice(choice: &OptionChoice) -> Choice {
    Choice {
        description: choice.description.clone(),
        ..Choice::new(&choice.id, &choice.name)
    }
}

/// Reads the options of a session from the answer to `session/new`, `session/load` or `session/resume`.
///
/// Modes and models of agents without config options become options too. Where an agent has both, the config option
/// counts: it also reaches what the older request does not.
pub(crate) fn options_of(answer: &Value) -> Vec<SessionOption> {
    let mut options = read_options(&answer["configOptions"]);
    let modes = &answer["modes"];
    if !options.iter().any(|option| option.id == "mode")
        && let Some(choices) = choices(&modes["availableModes"], "id")
    {
        options.push(SessionOption {
            id: "mode".to_owned(),
            name: "Mode".to_owned(),
            description: None,
            is_model: false,
            choices: Some(choices),
            value: modes["currentModeId"].clone(),
            default: Value::Null,
            set_by: SetBy::Mode,
        });
    }
    let models = &answer["models"];
    if !options.iter().any(|option| option.is_model)
        && let Some(choices) = choices(&models["availableModels"], "modelId")
    {
        options.push(SessionOption {
            id: "model".to_owned(),
            name: "Model".to_owned(),
            description: None,
            is_model: true,
            choices: Some(choices),
            value: models["currentModelId"].clone(),
            default: Value::Null,
            set_by: SetBy::Model,
        });
    }
    options
}

/// Takes the values of a session that is new as the defaults of all sessions.
pub(crate) fn take_defaults(options: &mut [SessionOption]) {
    for option in options {
        option.default = option.value.clone();
    }
}

/// Gives options the defaults that are known. An option that is not known has none.
pub(crate) fn keep_defaults(options: &mut [SessionOption], known: &[SessionOption]) {
    for option in options {
        let known = known.iter().find(|known| known.id == option.id);
        option.default = known.map_or(Value::Null, |known| known.default.clone());
    }
}

/// Returns options without the values of their session.
pub(crate) fn without_values(options: &[SessionOption]) -> Vec<SessionOption> {
    let without_value = |option: &SessionOption| SessionOption {
        value: Value::Null,
        ..option.clone()
    };
    options.iter().map(without_value).collect()
}

/// Reads config options; those of an unknown kind are left out.
pub(crate) fn read_options(list: &Value) -> Vec<SessionOption> {
    let entries = list.as_array().into_iter().flatten().take(MAX_OPTIONS);
    entries.filter_map(read_option).collect()
}

fn read_option(option: &Value) -> Option<SessionOption> {
    let id = text(&option["id"])?;
    let choices = match option["type"].as_str() {
        Some("boolean") => None,
        Some("select") | None => Some(choices(&option["options"], "value")?),
        Some(_) => return None,
    };
    Some(SessionOption {
        name: text(&option["name"]).unwrap_or_else(|| id.clone()),
        description: text(&option["description"]),
        is_model: option["category"] == "model" || (option["category"].is_null() && id == "model"),
        choices,
        value: option["currentValue"].clone(),
        default: Value::Null,
        set_by: SetBy::Option,
        id,
    })
}

/// Reads the values to choose from. Groups are flattened.
fn choices(list: &Value, id: &str) -> Option<Vec<OptionChoice>> {
    let mut found = Vec::new();
    for entry in list.as_array()?.iter().take(MAX_CHOICES) {
        match entry["options"].as_array() {
            Some(group) => found.extend(group.iter().filter_map(|entry| option_choice(entry, id))),
            None => found.extend(option_choice(entry, id)),
        }
    }
    (!found.is_empty()).then_some(found)
}

fn option_choice(entry: &Value, id: &str) -> Option<OptionChoice> {
    let id = text(&entry[id])?;
    Some(OptionChoice {
        name: text(&entry["name"]).unwrap_or_else(|| id.clone()),
        description: text(&entry["description"]),
        id,
    })
}

/// Reads the slash commands of a session.
pub(crate) fn commands_of(list: &Value) -> Vec<SlashCommand> {
    let entries = list.as_array().into_iter().flatten().take(MAX_OPTIONS);
    let command = |entry: &Value| {
        let name = text(&entry["name"])?;
        let name = name.trim_start_matches('/');
        // A name with a space could never be typed.
        let is_word = !name.is_empty() && !name.contains(char::is_whitespace);
        is_word.then(|| SlashCommand {
            name: name.to_owned(),
            description: text(&entry["description"]).unwrap_or_default(),
            hint: text(&entry["input"]["hint"]),
        })
    };
    entries.filter_map(command).collect()
}

/// Returns the request that sets an option: its method and parameters.
pub(crate) fn set_request(session: &str, option: &SessionOption, value: &Value) -> (&'static str, Value) {
    match option.set_by {
        SetBy::Mode => ("session/set_mode", json!({ "sessionId": session, "modeId": value })),
        SetBy::Model => ("session/set_model", json!({ "sessionId": session, "modelId": value })),
        SetBy::Option => {
            let mut params = json!({ "sessionId": session, "configId": option.id, "value": value });
            if option.choices.is_none() {
                params["type"] = json!("boolean");
            }
            ("session/set_config_option", params)
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gemini_modes_and_models_of_before_config_options_become_options() {
        let options = options_of(&json!({
            "sessionId": "s",
            "modes": { "availableModes": [{ "id": "default", "name": "Default" }, { "id": "yolo", "name": "YOLO" }],
                       "currentModeId": "default" },
            "models": { "availableModels": [{ "modelId": "flash", "name": "Flash" }], "currentModelId": "flash" },
        }));
        let ids: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
        assert_eq!(ids, ["mode", "model"]);
        let (method, params) = set_request("s", &options[0], &json!("yolo"));
        assert_eq!((method, &params["modeId"]), ("session/set_mode", &json!("yolo")));
        let (method, params) = set_request("s", &options[1], &json!("flash"));
        assert_eq!((method, &params["modelId"]), ("session/set_model", &json!("flash")));
    }

    #[test]
    fn pi_config_options_win_over_models_that_cannot_be_set() {
        let options = options_of(&json!({
            "configOptions": [
                { "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "a",
                  "options": [{ "group": "g", "name": "G", "options": [{ "value": "a", "name": "A" }] }] },
                { "id": "fast", "name": "Fast", "type": "boolean", "currentValue": false },
                { "id": "colour", "name": "Colour", "type": "wheel", "currentValue": "red" },
            ],
            "models": { "availableModels": [{ "modelId": "dead", "name": "Dead" }], "currentModelId": "dead" },
        }));
        let ids: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
        assert_eq!(ids, ["model", "fast"]);
        assert!(options[0].takes(&json!("a")) && !options[0].takes(&json!("dead")));
        let (method, params) = set_request("s", &options[1], &json!(true));
        assert_eq!(
            (method, &params["type"]),
            ("session/set_config_option", &json!("boolean"))
        );
    }

    #[test]
    fn learned_facts_are_persisted_and_a_broken_file_is_ignored() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("agents/a.json");
        assert_eq!(Learned::read(&file), None);
        let learned = Learned {
            version: Some("1.2".to_owned()),
            commands: commands_of(&json!([{ "name": "/plan", "description": "d" }, { "name": "two words" }])),
            ..Learned::of_initialize(&json!({ "agentCapabilities": { "loadSession": true,
                "sessionCapabilities": { "resume": {}, "fork": null } } }))
        };
        assert_eq!(learned.commands.len(), 1);
        assert!(learned.abilities.load && learned.abilities.resume && !learned.abilities.fork);
        learned.write(&file);
        assert_eq!(Learned::read(&file), Some(learned));
        std::fs::write(&file, "{").expect("a file");
        assert_eq!(Learned::read(&file), None);
    }
}
