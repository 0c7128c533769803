//! The customizations of a session as one turn uses them: rules that apply, skills that are loaded on demand, and the
//! custom agent of the turn.
//!
//! Instructions that a turn adds are [pinned](super::conversation::pinned_instruction) and survive compaction and
//! restarts.

mod role;
mod rule_globs;
mod rules;
mod skills;
mod tool_names;

pub(super) use role::Role;
pub(super) use rules::AlwaysRules;
pub(super) use skills::{has_skills, use_skill};
pub(super) use tool_names::ToolSelection;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_host::agent::{AppliedRule, Attachment};
use innkeeper_host::customizations::{About, TurnCustomizations};
use innkeeper_std::sync::{Mutex, MutexGuard};
use innkeeper_std::text::prefix;

use self::rule_globs::RuleScopes;
use super::conversation::pinned_instruction::PinnedInstruction;
use super::prompt::file_path;

/// Maximum number of files that are matched against rules before one request.
const MAX_TOUCHED_FILES: usize = 1000;

/// Reason of a rule that an earlier turn applied.
const EARLIER: &str = "earlier";

/// The session's customizations in one turn.
#[derive(Debug, Default)]
pub(super) struct TurnContext {
    /// The enabled customizations.
    pub(super) customizations: TurnCustomizations,
    /// Working directories of the session, as URIs.
    directories: Vec<String>,
    /// The custom agent of the turn.
    pub(super) role: Option<Role>,
    /// Compiled globs of the rules, built on first use.
    scopes: tokio::sync::OnceCell<Arc<RuleScopes>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Rules that apply in this turn.
    applied: Vec<AppliedRule>,
    /// Files of this turn that have not been matched against rules yet.
    touched: Vec<PathBuf>,
    /// Directories of skills in use, and of plugins that a text refers to.
    readable: Vec<PathBuf>,
    /// Instructions loaded by a call whose result is not in the conversation yet.
    loaded: Vec<PinnedInstruction>,
    /// Notices for the user.
    notices: Vec<String>,
}

impl TurnContext {
    pub(super) fn new(customizations: TurnCustomizations, directories: &[String], role: Option<Role>) -> Self {
        let turn_context = Self {
            customizations,
            directories: directories.to_vec(),
            role,
            scopes: tokio::sync::OnceCell::new(),
            state: Mutex::default(),
        };
        let root = turn_context.role.as_ref().and_then(|role| role.plugin_root.as_deref());
        turn_context.allow_reading_with_plugin(None, root);
        turn_context
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ids of all customizations that can be pinned; `None` if nothing was reported yet.
    pub(super) fn available_ids(&self) -> Option<HashSet<String>> {
        let customizations = &self.customizations;
        let skills = customizations.skills().map(|skill| &skill.about);
        let prompts = customizations.prompts().map(|prompt| &prompt.about);
        let rules = customizations.rules().map(|rule| &rule.about);
        let all = skills.chain(prompts).chain(rules);
        customizations
            .is_known()
            .then(|| all.map(|about| about.id.clone()).collect())
    }

    /// Rules applied so far.
    pub(super) fn applied_rules(&self) -> Vec<AppliedRule> {
        self.state().applied.clone()
    }

    /// Records an applied rule. The first reason counts, but [`EARLIER`] is replaced.
    fn apply(&self, rule: AppliedRule) {
        let mut state = self.state();
        match state.applied.iter_mut().find(|applied| applied.id == rule.id) {
            Some(applied) if applied.reason == EARLIER => *applied = rule,
            Some(_) => {}
            None => state.applied.push(rule),
        }
    }

    /// Directories that tools may read because a skill in use has them.
    pub(super) fn readable(&self) -> Vec<PathBuf> {
        self.state().readable.clone()
    }

    /// Lets tools read the files of a directory.
    pub(super) fn allow_reading(&self, directory: &Path) {
        let mut state = self.state();
        if !state.readable.iter().any(|readable| readable == directory) {
            state.readable.push(directory.to_owned());
        }
    }

    /// Lets tools read the directory of a text and of its plugin.
    pub(super) fn allow_reading_with_plugin(&self, directory: Option<&Path>, plugin_root: Option<&Path>) {
        for directory in directory.into_iter().chain(plugin_root) {
            self.allow_reading(directory);
        }
    }

    /// Adds a notice for the user, which is shown once per chat.
    pub(super) fn notify_once(&self, notice: impl Into<String>) {
        self.state().notices.push(notice.into());
    }

    /// Takes the notices for the user.
    pub(super) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notices)
    }

    /// Takes the instructions that calls have loaded.
    pub(super) fn take_loaded(&self) -> Vec<PinnedInstruction> {
        std::mem::take(&mut self.state().loaded)
    }

    /// Notes a file that a tool call names.
    pub(super) fn note_path(&self, path: &str) {
        let full = match url::Url::parse(path) {
            Ok(url) if url.scheme() == "file" => url.to_file_path().ok(),
            _ => {
                let first = self.directories.first().and_then(|uri| file_path(uri));
                // Joining an absolute path yields that path.
                first.map(|first| first.join(path)).or_else(|| Some(path.into()))
            }
        };
        self.touch(full);
    }

    /// Notes the files that are attached to a message.
    pub(super) fn note_attachments(&self, attachments: &[Attachment]) {
        for attachment in attachments {
            let uri = match attachment {
                Attachment::Resource { uri, .. } => Some(uri.as_str()),
                Attachment::Reference { meta, .. } => meta.get("uri").and_then(|uri| uri.as_str()),
                _ => None,
            };
            self.touch(uri.and_then(file_path));
        }
    }

    fn touch(&self, path: Option<PathBuf>) {
        let Some(path) = path.map(|path| normal(&path)) else {
            return;
        };
        let mut state = self.state();
        if state.touched.len() < MAX_TOUCHED_FILES && !state.touched.contains(&path) {
            state.touched.push(path);
        }
    }

    fn take_touched(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.state().touched)
    }
}

/// Resolves `.` and `..` lexically. The path is only compared, never opened.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// Returns the description of a customization in one line.
pub(super) fn description_line(about: &About) -> String {
    let description = about.description.as_deref().unwrap_or_default();
    description.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of a text and whether it was cut.
fn beginning(text: &str, most: usize) -> (&str, bool) {
    let text = text.trim();
    let start = prefix(text, most);
    (start, start.len() < text.len())
}
