//! How an agent introduces itself.

use ahp_types::state::{AgentCapabilities, MultipleChatsCapability, MultipleWorkingDirectoriesCapability};
use innkeeper_core::AgentProfile;
use innkeeper_core::agent::CommandInfo;

use super::{ModelInfo, ProtectedResource, STANDARD_SECTIONS, Section, Setting, ToolInfo};

/// The name, the description and the abilities of an agent, as clients show them.
///
/// ```
/// use innkeeper_host::AgentInfo;
/// use innkeeper_host::agent::{Choice, Directories, Setting, SettingKind, ToolInfo};
///
/// let info = AgentInfo::new("clerk", "Clerk", "Keeps the books.")
///     .with_model("quill", "Quill")
///     .with_history()
///     .with_side_chats()
///     .with_directories(Directories::Many)
///     .with_command("sum", "<column>", "adds up a column");
/// assert_eq!(info.models.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AgentInfo {
    /// The id that clients name in `createSession`.
    pub provider: String,
    /// A short name.
    pub display_name: String,
    /// A sentence.
    pub description: String,
    /// The models a message may choose from.
    pub models: Vec<ModelInfo>,
    can: Abilities,
    resources: Vec<ProtectedResource>,
    settings: Vec<Setting>,
    commands: Vec<CommandInfo>,
    tools: Vec<ToolInfo>,
    sections: Vec<Section>,
    sign_in_hint: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Abilities {
    history: bool,
    resume: bool,
    chats: bool,
    side_chats: bool,
    directories: Option<Directories>,
    app_sampling: bool,
}

/// The way in which an agent uses several working directories (SES-25).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directories {
    /// Any number of them, all equal.
    Many,
    /// Any number; the first stays what it is.
    ManyFixedPrimary,
    /// Any number; the first can be replaced by another, but not taken away.
    ManyReplaceablePrimary,
}

impl AgentInfo {
    /// An agent without a choice of models, with one chat and at most one directory per session.
    pub fn new(provider: &str, display_name: &str, description: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            display_name: display_name.to_owned(),
            description: description.to_owned(),
            models: Vec::new(),
            can: Abilities::default(),
            resources: Vec::new(),
            settings: Vec::new(),
            commands: Vec::new(),
            tools: Vec::new(),
            sections: Vec::new(),
            sign_in_hint: None,
        }
    }

    pub(crate) fn into_tools(self) -> Vec<ToolInfo> {
        self.tools
    }

    /// Says how to get the agent a token that it lacks, as the part of a sentence: "set THE_KEY and
    /// start the host again". Turns that cannot run without the token end with it.
    #[must_use]
    pub fn with_sign_in_hint(mut self, hint: &str) -> Self {
        self.sign_in_hint = Some(hint.to_owned());
        self
    }

    pub(crate) fn command_names(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().map(|command| command.name.as_str())
    }

    /// Offers a model.
    #[must_use]
    pub fn with_model(self, id: &str, name: &str) -> Self {
        self.with_model_info(ModelInfo::new(id, name))
    }

    /// Offers a model of which more is known.
    #[must_use]
    pub fn with_model_info(mut self, model: ModelInfo) -> Self {
        self.models.push(model);
        self
    }

    /// Adds something that the agent needs a token for, or can make use of one (AUTH-02).
    #[must_use]
    pub fn with_protected_resource(mut self, resource: ProtectedResource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Promises that `open_chat` honours [`ChatContext::history`](super::ChatContext::history). Users can then fork and
    /// truncate chats (CHT-05, TRC-05).
    #[must_use]
    pub fn with_history(mut self) -> Self {
        self.can.history = true;
        self
    }

    /// Promises that a turn that ended with the host can be resumed from the history alone: users are offered to resume
    /// it (TURN-12), unless a tool call was running. Implies [`Self::with_history`].
    #[must_use]
    pub fn with_resume(mut self) -> Self {
        self.can.history = true;
        self.can.resume = true;
        self
    }

    /// Promises that [`Agent::sampler`](super::Agent::sampler) has a model: apps of MCP servers are then offered
    /// `sampling` (MCP-15).
    #[must_use]
    pub fn with_app_sampling(mut self) -> Self {
        self.can.app_sampling = true;
        self
    }

    /// Allows several chats in one session.
    #[must_use]
    pub fn with_chats(mut self) -> Self {
        self.can.chats = true;
        self
    }

    /// Promises that `open_chat` honours [`ChatInfo::context`](super::ChatInfo::context) and
    /// [`ChatInfo::selection`](super::ChatInfo::selection). Users can then open a side chat (CHT-06).
    #[must_use]
    pub fn with_side_chats(mut self) -> Self {
        self.can.side_chats = true;
        self
    }

    /// Allows several working directories in one session.
    #[must_use]
    pub fn with_directories(mut self, directories: Directories) -> Self {
        self.can.directories = Some(directories);
        self
    }

    /// Adds something that a session can be set up with.
    #[must_use]
    pub fn with_setting(mut self, setting: Setting) -> Self {
        self.settings.push(setting);
        self
    }

    /// Adds a slash command: its name without the slash, how it is used, and what it does.
    #[must_use]
    pub fn with_command(mut self, name: &str, usage: &str, description: &str) -> Self {
        self.commands.push(CommandInfo {
            name: name.to_owned(),
            usage: usage.to_owned(),
            description: description.to_owned(),
        });
        self
    }

    /// Adds one of the agent's own tools. A client's tool of the same name is renamed for the
    /// model (ACT-04).
    #[must_use]
    pub fn with_tool(mut self, tool: ToolInfo) -> Self {
        self.tools.push(tool);
        self
    }

    /// Publishes a section of the system prompt, in the order they stand in it. Clients may then ask
    /// to rewrite it, unless it is restricted (SMT-11). One with the id of an earlier one replaces it.
    #[must_use]
    pub fn with_section(mut self, section: impl Into<Section>) -> Self {
        let section = section.into();
        match self.sections.iter_mut().find(|known| known.id == section.id) {
            Some(known) => *known = section,
            None => self.sections.push(section),
        }
        self
    }

    /// Publishes all [`STANDARD_SECTIONS`].
    #[must_use]
    pub fn with_standard_sections(self) -> Self {
        STANDARD_SECTIONS.into_iter().fold(self, Self::with_section)
    }

    pub(crate) fn into_profile(self) -> AgentProfile {
        let models = self.models.into_iter();
        let models = models.map(|model| model.into_wire(&self.provider));
        let resources: Vec<_> = self.resources.into_iter().map(ProtectedResource::into_wire).collect();
        AgentProfile {
            info: ahp_types::state::AgentInfo {
                models: models.collect(),
                provider: self.provider,
                display_name: self.display_name,
                description: self.description,
                protected_resources: (!resources.is_empty()).then_some(resources),
                customizations: None,
                capabilities: self.can.into_wire(),
            },
            restores_history: self.can.history,
            resumes_turns: self.can.resume,
            writes_for_apps: self.can.app_sampling,
            settings: self.settings,
            commands: self.commands,
            tools: self.tools,
            sections: self.sections,
            sign_in_hint: self.sign_in_hint,
        }
    }
}

impl Abilities {
    /// A missing ability is omitted, never `false`: both mean the same, and older clients know only the former.
    fn into_wire(self) -> Option<AgentCapabilities> {
        // Forks and side chats imply several chats.
        let chats = self.chats || self.history || self.side_chats;
        if !chats && self.directories.is_none() {
            return None;
        }
        Some(AgentCapabilities {
            multiple_chats: chats.then(|| MultipleChatsCapability {
                fork: self.history.then_some(true),
                side_chat: self.side_chats.then_some(true),
            }),
            multiple_working_directories: self.directories.map(|directories| {
                MultipleWorkingDirectoriesCapability {
                    // A replaceable first directory is also called immutable, for clients that
                    // do not know replacing and must leave it alone.
                    immutable_primary: (directories != Directories::Many).then_some(true),
                    primary_replacement: (directories == Directories::ManyReplaceablePrimary).then_some(true),
                }
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn capabilities(info: AgentInfo) -> Value {
        let info = serde_json::to_value(info.into_profile().info).expect("JSON");
        info["capabilities"].clone()
    }

    #[test]
    fn cht02_ses25_abilities_become_capabilities_and_missing_ones_are_omitted() {
        let info = || AgentInfo::new("a", "A", "An agent.");
        assert_eq!(capabilities(info()), Value::Null);
        assert_eq!(capabilities(info().with_chats()), json!({ "multipleChats": {} }));
        assert_eq!(
            capabilities(info().with_history().with_side_chats()),
            json!({ "multipleChats": { "fork": true, "sideChat": true } })
        );
        assert!(info().with_history().into_profile().restores_history);
        let directories = |directories| capabilities(info().with_directories(directories));
        assert_eq!(
            directories(Directories::Many),
            json!({ "multipleWorkingDirectories": {} })
        );
        assert_eq!(
            directories(Directories::ManyFixedPrimary),
            json!({ "multipleWorkingDirectories": { "immutablePrimary": true } })
        );
        assert_eq!(
            directories(Directories::ManyReplaceablePrimary),
            json!({ "multipleWorkingDirectories": { "immutablePrimary": true, "primaryReplacement": true } })
        );
    }
}
