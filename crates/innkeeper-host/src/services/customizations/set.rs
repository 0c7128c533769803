//! The customizations of a session: as clients see them, and as agents use them, with fields that are not published.

use std::fmt;
use std::sync::Arc;

use ahp_types::state::Customization;
use async_trait::async_trait;
use innkeeper_core::customization::Shadows;

use super::hook::{Hooks, NoHooks};
use crate::services::mcp::ServerDeclaration;
use crate::services::resources::{Content, Entry, ResourceError};

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
    /// How MCP servers are started; each belongs to the customization with its id.
    pub mcp_servers: Vec<Arc<ServerDeclaration>>,
    /// Reads what the files say.
    pub texts: Arc<dyn Texts>,
    /// Runs hooks.
    pub hooks: Arc<dyn Hooks>,
    /// The names of plugins of which nothing is here yet, because their clients are still asked for them. Turns
    /// wait a while for them: their rules and hooks would be missing.
    pub awaited: Vec<String>,
    /// Which of all that stands back behind something else of its name, while that is on.
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

/// What every customization has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Its id, which is also that of its entry in the session.
    pub id: String,
    /// The id of the container it is in.
    pub container: String,
    /// The name of the plugin it belongs to, if it belongs to one.
    pub plugin: Option<String>,
    /// The directory of that plugin, as a path of this machine: what `${PLUGIN_ROOT}` stands for.
    pub plugin_root: Option<std::path::PathBuf>,
    /// Its file.
    pub uri: String,
    /// Its name, without that of its plugin.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The one that comes earlier and is the very same file, reached through another directory. While
    /// that one is on, this one is not there a second time.
    pub original: Option<Original>,
}

/// Which one is the same file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Original {
    /// Its id.
    pub id: String,
    /// The id of the container it is in.
    pub container: String,
}

impl About {
    /// The name that tells it from others: `plugin:name`, or its name if it belongs to no plugin.
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
    /// What every customization has.
    pub about: About,
    /// What may follow its name.
    pub argument_hint: Option<String>,
    /// Whether a model may use it by itself.
    pub for_models: bool,
    /// Whether people may call it by name.
    pub for_people: bool,
    /// The directory with its other files, as a path of this machine; `None` for a command.
    pub directory: Option<std::path::PathBuf>,
}

/// A prompt file: a slash command that expands to its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptFile {
    /// What every customization has.
    pub about: About,
    /// What may follow its name.
    pub argument_hint: Option<String>,
    /// The custom agent that it wants, by name.
    pub agent: Option<String>,
    /// The model that it wants.
    pub model: Option<String>,
    /// The tools that it keeps to; empty means all.
    pub tools: Vec<String>,
}

/// A custom agent: a system prompt, and what it may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomAgent {
    /// What every customization has.
    pub about: About,
    /// The model that it wants; `None` means that of the session (CUS-25).
    pub model: Option<String>,
    /// The tools that it keeps to; empty means all (CUS-25).
    pub tools: Vec<String>,
    /// Whether a model may delegate to it.
    pub for_models: bool,
    /// Whether people may choose it.
    pub for_people: bool,
}

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// What every customization has.
    pub about: About,
    /// Whether it holds in every turn.
    pub always: bool,
    /// The files it is about; a turn that has to do with one of them follows it.
    pub globs: Vec<String>,
    /// The directory that relative globs are relative to, as a path of this machine; `None` means every
    /// directory that the session works in.
    pub base: Option<std::path::PathBuf>,
}

/// Reads what customizations say.
#[async_trait]
pub trait Texts: Send + Sync + 'static {
    /// What a file says, without its frontmatter, or in a sentence why it cannot be read.
    async fn read(&self, about: &About) -> Result<String, String>;

    /// Finds a file that the session shows by its URI, or one beside a skill, for a client that sees the
    /// session (RES-03). `None` says that it shows no such thing.
    async fn find(&self, _uri: &str, _look: Look) -> Option<Result<Shown, ResourceError>> {
        None
    }
}

/// How somebody looks at what a session shows.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Whether it may do more than look. Who may not does not see what commands are run.
    pub drives: bool,
    /// Most bytes of a file.
    pub bytes: usize,
}

/// Something that a session shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// It is on this machine, at this `file:` URI: on the way there is no link.
    Here(String),
    /// A file that only a client has, copied.
    File(Content),
    /// A directory that only a client has, copied.
    Directory(Vec<Entry>),
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
