//! The customizations of a session: as clients see them, and as agents use them, with fields that are not published.

use std::fmt;
use std::sync::Arc;

use ahp_types::state::Customization;
use async_trait::async_trait;
use innkeeper_core::customization::Shadows;

use super::hook::{Hooks, NoHooks};
use crate::services::mcp::ServerDeclaration;
use crate::services::resources::{Content, ResourceEntry, ResourceError};

/// Everything that was discovered for a session. In every list of the agents' view, the first one of a name wins.
#[derive(Clone)]
pub struct CustomizationSet {
    /// The entries that clients see: in order, with stable ids, and without enablement, which the core adds. Sessions
    /// that share a source share its entries.
    pub entries: Vec<Arc<Customization>>,
    /// Some sources are still being read. Clients see the entries, and turns wait for the next report: without it they
    /// would miss rules and hooks.
    pub is_preview: bool,
    /// Agents that a message can choose, or that a model can delegate to.
    pub agents: Vec<CustomAgent>,
    /// Skills and commands.
    pub skills: Vec<Skill>,
    /// Prompt files.
    pub prompts: Vec<PromptFile>,
    /// Rules and instructions.
    pub rules: Vec<Rule>,
    /// The declarations of MCP servers; each belongs to the customization with its id.
    pub mcp_servers: Vec<Arc<ServerDeclaration>>,
    /// Reads the files.
    pub texts: Arc<dyn Texts>,
    /// Runs hooks.
    pub hooks: Arc<dyn Hooks>,
    /// Names of plugins that their clients have not handed over yet. Turns wait a while for them: their rules and hooks
    /// would be missing.
    pub awaited: Vec<String>,
    /// Customizations that an enabled one of the same name shadows.
    pub shadows: Shadows,
}

impl Default for CustomizationSet {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            is_preview: false,
            agents: Vec::new(),
            skills: Vec::new(),
            prompts: Vec::new(),
            rules: Vec::new(),
            mcp_servers: Vec::new(),
            texts: Arc::new(NoTexts),
            hooks: Arc::new(NoHooks),
            awaited: Vec::new(),
            shadows: Shadows::new(),
        }
    }
}

impl fmt::Debug for CustomizationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomizationSet")
            .field("entries", &self.entries.len())
            .field("is_preview", &self.is_preview)
            .field("agents", &self.agents.len())
            .field("skills", &self.skills.len())
            .field("prompts", &self.prompts.len())
            .field("rules", &self.rules.len())
            .field("mcp_servers", &self.mcp_servers.len())
            .field("awaited", &self.awaited)
            .finish_non_exhaustive()
    }
}

/// The fields of every customization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Its id, the same as that of its entry.
    pub id: String,
    /// The id of its container.
    pub container: String,
    /// The name of its plugin, if it belongs to one.
    pub plugin: Option<String>,
    /// The directory of that plugin on this machine: the value of `${PLUGIN_ROOT}`.
    pub plugin_root: Option<std::path::PathBuf>,
    /// Its file.
    pub uri: String,
    /// Its name, without that of its plugin.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// An earlier customization that is the same file, reached through another directory. While that one is enabled,
    /// this one is not used.
    pub original: Option<Original>,
}

/// A customization that is the same file as another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Original {
    /// Its id.
    pub id: String,
    /// The id of its container.
    pub container: String,
}

impl About {
    /// The unambiguous name: `plugin:name`, or the name alone if it belongs to no plugin.
    pub fn full_name(&self) -> String {
        match &self.plugin {
            Some(plugin) => format!("{plugin}:{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A skill or a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skill {
    /// The fields of every customization.
    pub about: About,
    /// Usage of its arguments.
    pub argument_hint: Option<String>,
    /// Whether a model may use it on its own.
    pub for_models: bool,
    /// Whether users may call it by name.
    pub for_users: bool,
    /// The directory with its other files on this machine; `None` for a command.
    pub directory: Option<std::path::PathBuf>,
}

/// A prompt file: a slash command that expands to its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptFile {
    /// The fields of every customization.
    pub about: About,
    /// Usage of its arguments.
    pub argument_hint: Option<String>,
    /// The custom agent that it asks for, by name.
    pub agent: Option<String>,
    /// The model that it asks for.
    pub model: Option<String>,
    /// The tools that it is restricted to; empty for all.
    pub tools: Vec<String>,
}

/// A custom agent: instructions, and the model and tools for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomAgent {
    /// The fields of every customization.
    pub about: About,
    /// The model that it asks for; `None` for the session's model (CUS-25).
    pub model: Option<String>,
    /// The tools that it is restricted to; empty for all (CUS-25).
    pub tools: Vec<String>,
    /// Whether a model may delegate to it.
    pub for_models: bool,
    /// Whether users may choose it.
    pub for_users: bool,
}

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The fields of every customization.
    pub about: About,
    /// Whether it applies in every turn.
    pub always: bool,
    /// The files that it applies to. A turn that touches one of them follows the rule.
    pub globs: Vec<String>,
    /// The directory of relative globs on this machine; `None` for every working directory of the session.
    pub base: Option<std::path::PathBuf>,
}

/// Reads the files of customizations.
#[async_trait]
pub trait Texts: Send + Sync + 'static {
    /// Returns the text of a file without its frontmatter, or a sentence why it cannot be read.
    async fn read(&self, about: &About) -> Result<String, String>;

    /// Finds a file that the session shows by its URI, or one in the directory of a skill, for a client that sees the
    /// session (RES-03). Returns `None` if the session does not show it.
    async fn find(&self, _uri: &str, _access: FileAccess) -> Option<Result<SharedEntry, ResourceError>> {
        None
    }
}

/// The rights and limits of a client that reads a shown file.
#[derive(Debug, Clone, Copy)]
pub struct FileAccess {
    /// Whether the client has the scope to drive sessions. Others do not see the commands of hooks.
    pub drives: bool,
    /// Maximum bytes of a file.
    pub bytes: usize,
}

/// A file or directory that a session shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedEntry {
    /// On this machine, at this `file:` URI without symlinks.
    Here(String),
    /// A copied file of a client.
    File(Content),
    /// A copied directory of a client.
    Directory(Vec<ResourceEntry>),
}

/// Reads nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTexts;

#[async_trait]
impl Texts for NoTexts {
    async fn read(&self, about: &About) -> Result<String, String> {
        Err(format!("{} is not there", about.uri))
    }
}
