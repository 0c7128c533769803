//! What an agent can do on this machine: read, look around, change files, run commands.
//!
//! A tool drives its own call: from what the model wrote, over what people are asked, to what they
//! are shown and what the model reads. Nothing outside the session's directories is touched, but the
//! files of a skill in use may be read, and whatever changes something asks first.
//!
//! `place.rs` confines paths to those directories; `change.rs` is the one way to write; `outcome.rs`
//! ends calls. Each tool has a file of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::{AgentError, ToolDraft, ToolKind};
use serde_json::Value;

use crate::model::api::{Image, ToolSpec};

mod blocking;
mod change;
mod command;
mod diff;
mod edit;
mod fetch;
mod glob;
mod input;
mod list;
mod outcome;
mod place;
mod read;
mod search;
mod secret;
mod settings;
mod text;
mod walk;
mod write;

use secret::SecretFiles;
pub use settings::{EnvironmentRules, FetchSettings, ToolLimits, ToolSettings};

/// Something that an agent can do.
#[async_trait]
pub trait HostTool: Send + Sync + 'static {
    /// The tool as a model sees it.
    fn spec(&self) -> ToolSpec;

    /// A name for people.
    fn title(&self) -> &str;

    /// Whether calls may run beside other calls: they read, and change nothing.
    fn is_parallel_safe(&self) -> bool;

    /// How clients present its calls.
    fn kind(&self) -> Option<ToolKind> {
        None
    }

    /// What people read while a model still writes the input: a verb, and the field of the input that says on what.
    fn announcement(&self) -> Option<Announcement> {
        None
    }

    /// Carries out one call, whose input is an object. It ends the call, whatever comes of it;
    /// what goes wrong with it is an answer for the model, and an error only when the turn is over.
    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError>;
}

/// What is said of a call while its input streams, as in "Editing `notes.txt`".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// The verb, as in "Editing".
    pub verb: &'static str,
    /// The field of the input that names what it is about.
    pub field: &'static str,
}

impl Announcement {
    /// The words for a value of the field.
    pub(crate) fn text(self, value: &str) -> String {
        format!("{} {}", self.verb, outcome::quoted(value))
    }
}

/// Where a call takes place.
#[derive(Debug, Clone, Default)]
pub struct ToolEnv {
    /// The directories it may touch, as `file:` URIs; relative paths start at the first.
    pub working_directories: Vec<String>,
    /// Further directories whose files may be read, as paths: those of skills in use. Nothing in
    /// them is ever changed, and no command runs there.
    pub readable: Vec<PathBuf>,
}

impl ToolEnv {
    /// The working directories alone, for what changes something.
    fn for_changes(&self) -> Self {
        Self {
            working_directories: self.working_directories.clone(),
            readable: Vec::new(),
        }
    }
}

/// The files of a directory, with their paths from there, in order and at most so many; and
/// whether that is all. It may take as long as the disk does.
pub(crate) fn list_files(directory: &Path, most: usize) -> Result<(Vec<String>, bool), String> {
    const MAX_ENTRIES: usize = 10_000;
    let env = ToolEnv {
        readable: vec![directory.to_owned()],
        ..ToolEnv::default()
    };
    let place = place::Places::open(&env)?.existing(&directory.to_string_lossy())?;
    let cancel = blocking::CancelFlag::default();
    let walk = walk::Walk {
        include_ignored: true,
        max_entries: MAX_ENTRIES,
        cancel: &cancel.with_timeout(Duration::from_secs(5)),
    };
    let mut files = Vec::new();
    let end = walk.run(&place, &mut |found| {
        files.push(found.relative.to_string_lossy().replace(['\n', '\r'], "?"));
        if files.len() > most {
            return std::ops::ControlFlow::Break(());
        }
        std::ops::ControlFlow::Continue(())
    })?;
    let is_all = files.len() <= most && end == walk::WalkEnd::Complete;
    files.truncate(most);
    Ok((files, is_all))
}

/// The beginning of a file within a working directory, and whether that is all of it. What leads
/// out of the directory, or is no file, is refused. It may take as long as the disk does.
pub(crate) fn read_prefix(directory: &str, name: &str, most: usize) -> Result<(String, bool), String> {
    use std::io::Read as _;
    let env = ToolEnv {
        working_directories: vec![directory.to_owned()],
        ..ToolEnv::default()
    };
    let place = place::Places::open(&env)?.existing(name)?;
    let mut bytes = Vec::new();
    let beginning = place.open_file()?.take(most as u64 + 1);
    let read = std::io::BufReader::new(beginning).read_to_end(&mut bytes);
    read.map_err(|error| place.complaint(&error))?;
    let is_all = bytes.len() <= most;
    let text = String::from_utf8_lossy(&bytes);
    let end = text.floor_char_boundary(most);
    Ok((text.get(..end).unwrap_or_default().to_owned(), is_all))
}

/// What the model is told of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolAnswer {
    /// What it reads.
    pub text: String,
    /// What it looks at.
    pub images: Vec<Image>,
    /// Whether the call failed.
    pub is_error: bool,
}

impl ToolAnswer {
    /// What came of a call that worked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// What went wrong, and what to do about it.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            ..Self::default()
        }
    }
}

/// All tools, in the order in which models should see them. `fetch_url` is among them only where
/// the settings allow it.
pub fn standard_tools(settings: ToolSettings) -> Vec<Arc<dyn HostTool>> {
    let limits = settings.limits;
    let secrets = SecretFiles::new(settings.secret_files);
    let changes = change::ChangePolicy {
        limits,
        secrets: secrets.clone(),
        umask: settings.umask,
    };
    let mut tools: Vec<Arc<dyn HostTool>> = vec![
        Arc::new(read::ReadFile {
            limits,
            secrets: secrets.clone(),
        }),
        Arc::new(list::ListDirectory { limits }),
        Arc::new(glob::Glob { limits }),
        Arc::new(search::Search { limits, secrets }),
        Arc::new(write::WriteFile {
            policy: changes.clone(),
        }),
        Arc::new(edit::EditFile { policy: changes }),
        Arc::new(command::RunCommand::new(limits, settings.environment, settings.umask)),
    ];
    if let Some(fetch) = settings.fetch {
        tools.push(Arc::new(fetch::FetchUrl {
            limits,
            settings: fetch,
        }));
    }
    tools
}
