//! Tools that an agent runs on this machine: reading, searching and changing files, running commands, fetching pages.
//!
//! A tool drives its own call: it validates the input, asks for confirmation, reports progress and returns the result
//! to the model. Tools do not leave the session's working directories, except that files of skills in use may be
//! read. Tools with side effects ask first.
//!
//! `paths.rs` confines paths to those directories, `change.rs` is the only code that writes files, `outcome.rs`
//! completes calls. Each tool has its own file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{ToolDraft, ToolKind};
use innkeeper_std::text::prefix;
use innkeeper_std::{IgnoreFiles, Walk, WalkEnd};
use serde_json::Value;

use crate::model::api::{Image, ToolSpec};

mod blocking;
mod change;
mod command;
mod comment;
mod diff;
mod edit;
mod fetch;
mod glob;
mod input;
mod list;
mod outcome;
mod paths;
mod pattern;
mod read;
mod search;
mod secret;
mod settings;
mod text;
mod write;

use secret::SecretFiles;
pub use settings::{EnvironmentRules, FetchSettings, ToolLimits, ToolSettings};

/// A tool that an agent runs on the host's machine.
#[async_trait]
pub trait HostTool: Send + Sync + 'static {
    /// Definition for the model.
    fn spec(&self) -> ToolSpec;

    /// Display name.
    fn title(&self) -> &str;

    /// Returns true if calls may run in parallel with others, because they have no side effects.
    fn is_parallel_safe(&self) -> bool;

    /// How clients present its calls.
    fn kind(&self) -> Option<ToolKind> {
        None
    }

    /// The text that clients show while the input is being streamed.
    fn announcement(&self) -> Option<Announcement> {
        None
    }

    /// Runs one call, whose input is an object. It always completes the call. Failures are part of the answer; an
    /// error means that the turn has ended.
    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError>;
}

/// Text shown while the input of a call is streamed, such as "Editing `notes.txt`".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// The verb, such as "Editing".
    pub verb: &'static str,
    /// The input field with the subject.
    pub field: &'static str,
}

impl Announcement {
    /// Returns the text for a value of the field.
    pub(crate) fn text(self, value: &str) -> String {
        format!("{} {}", self.verb, outcome::quoted(value))
    }
}

/// The directories that a call may use.
#[derive(Debug, Clone, Default)]
pub struct ToolEnv {
    /// Working directories as `file:` URIs. Relative paths start at the first one.
    pub working_directories: Vec<String>,
    /// Further directories that may be read, as paths: those of skills in use. They are never changed, and no command
    /// runs there.
    pub readable: Vec<PathBuf>,
}

impl ToolEnv {
    /// Returns the working directories alone, for tools with side effects.
    fn for_changes(&self) -> Self {
        Self {
            working_directories: self.working_directories.clone(),
            readable: Vec::new(),
        }
    }
}

/// Lists the files below a directory as sorted relative paths, at most `most`, and returns whether the list is
/// complete. Blocks.
pub(crate) fn list_files(directory: &Path, limit: usize) -> Result<(Vec<String>, bool), String> {
    const MAX_ENTRIES: usize = 10_000;
    let env = ToolEnv {
        readable: vec![directory.to_owned()],
        ..ToolEnv::default()
    };
    let place = paths::WorkingDirectories::open(&env)?.existing(&directory.to_string_lossy())?;
    let cancel = blocking::CancelFlag::default().with_timeout(Duration::from_secs(5));
    let walk = Walk {
        ignore: IgnoreFiles::None,
        max_entries: MAX_ENTRIES,
        is_over: &|| cancel.should_stop(),
    };
    let mut files = Vec::new();
    let end = place.walk(walk, &mut |found| {
        files.push(found.relative.to_string_lossy().replace(['\n', '\r'], "?"));
        if files.len() > limit {
            return std::ops::ControlFlow::Break(());
        }
        std::ops::ControlFlow::Continue(())
    })?;
    let is_all = files.len() <= limit && end == WalkEnd::Complete;
    files.truncate(limit);
    Ok((files, is_all))
}

/// Reads at most `most` bytes of a file in a working directory, and returns whether that is the whole file. Fails for
/// anything outside and for anything but a regular file. Blocks.
pub(crate) fn read_prefix(directory: &str, name: &str, limit: usize) -> Result<(String, bool), String> {
    use std::io::Read as _;
    let env = ToolEnv {
        working_directories: vec![directory.to_owned()],
        ..ToolEnv::default()
    };
    let place = paths::WorkingDirectories::open(&env)?.existing(name)?;
    let mut bytes = Vec::new();
    let beginning = place.open_file()?.take(limit as u64 + 1);
    let read = std::io::BufReader::new(beginning).read_to_end(&mut bytes);
    read.map_err(|error| place.complaint(&error))?;
    let is_all = bytes.len() <= limit;
    let text = String::from_utf8_lossy(&bytes);
    Ok((prefix(&text, limit).to_owned(), is_all))
}

/// Result of a call for the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolAnswer {
    /// Text.
    pub text: String,
    /// Images.
    pub images: Vec<Image>,
    /// Whether the call failed.
    pub is_error: bool,
}

impl ToolAnswer {
    /// A successful result.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A failure: what is wrong and what to do.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            ..Self::default()
        }
    }
}

/// Returns all tools, in the order in which models see them. `fetch_url` is included only if the settings allow it.
pub fn standard_tools(settings: ToolSettings) -> Vec<Arc<dyn HostTool>> {
    let limits = settings.limits;
    let secrets = SecretFiles::new(settings.secret_files);
    let changes = change::ChangePolicy {
        limits,
        secrets: secrets.clone(),
        umask: settings.umask,
    };
    let commands = command::BackgroundCommands::default();
    let run = command::RunCommand::new(limits, settings.environment, settings.umask, commands.clone());
    let mut tools: Vec<Arc<dyn HostTool>> = vec![
        Arc::new(read::ReadFile {
            limits,
            secrets: secrets.clone(),
        }),
        Arc::new(list::ListDirectory { limits }),
        Arc::new(glob::Glob { limits }),
        Arc::new(search::Search {
            limits,
            secrets: secrets.clone(),
        }),
        Arc::new(change::ChangeTool {
            policy: changes.clone(),
            definition: write::WRITE_FILE,
        }),
        Arc::new(change::ChangeTool {
            policy: changes,
            definition: edit::EDIT_FILE,
        }),
        Arc::new(run),
        Arc::new(command::CheckCommand { limits, commands }),
        Arc::new(comment::CommentOnFile { secrets }),
    ];
    if let Some(fetch) = settings.fetch {
        tools.push(Arc::new(fetch::FetchUrl {
            limits,
            settings: fetch,
        }));
    }
    tools
}
