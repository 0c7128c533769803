//! What the session brings along, as one turn of the model agent uses it: rules that hold, skills
//! that are loaded when they are needed, and the custom agent whose role is played.
//!
//! What a turn takes in stays in the conversation as something [standing](super::conversation::pinned_instruction): it
//! outlives a summary and a restart.

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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use innkeeper_host::customizations::Customized;
use innkeeper_host::{AppliedRule, Attachment};

use self::rule_globs::RuleScopes;
use super::conversation::pinned_instruction::PinnedInstruction;
use super::prompt::file_path;

/// Most files of a turn that rules are looked up for before the next request.
const MAX_TOUCHED_FILES: usize = 1000;

/// Why a rule holds that joined the conversation in an earlier turn.
const EARLIER: &str = "earlier";

/// What the session brings along, in one turn.
#[derive(Debug, Default)]
pub(super) struct TurnContext {
    /// What is switched on.
    pub(super) customizations: Customized,
    /// Where the session works, as URIs.
    directories: Vec<String>,
    /// The custom agent whose role is played.
    pub(super) role: Option<Role>,
    /// What the rules for files are about, once somebody has asked.
    scopes: tokio::sync::OnceCell<Arc<RuleScopes>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The rules that hold in this turn.
    applied: Vec<AppliedRule>,
    /// Files that the turn has to do with, and that no rule was looked up for yet.
    touched: Vec<PathBuf>,
    /// The directories of skills in use, and of plugins whose files are named.
    readable: Vec<PathBuf>,
    /// What was loaded by a call whose result is not in the conversation yet.
    loaded: Vec<PinnedInstruction>,
    /// What people should know.
    notices: Vec<String>,
}

impl TurnContext {
    pub(super) fn new(customizations: Customized, directories: &[String], role: Option<Role>) -> Self {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of everything that can hold; `None` where nobody has reported yet what there is.
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

    /// The rules that were applied so far.
    pub(super) fn applied_rules(&self) -> Vec<AppliedRule> {
        self.state().applied.clone()
    }

    /// A rule applies. The first reason is shown, unless it is only that it did so before.
    fn apply(&self, rule: AppliedRule) {
        let mut state = self.state();
        match state.applied.iter_mut().find(|applied| applied.id == rule.id) {
            Some(applied) if applied.reason == EARLIER => *applied = rule,
            Some(_) => {}
            None => state.applied.push(rule),
        }
    }

    /// The directories whose files may be read because a skill in use has them.
    pub(super) fn readable(&self) -> Vec<PathBuf> {
        self.state().readable.clone()
    }

    /// Lets the files of a skill be read.
    pub(super) fn allow_reading(&self, directory: &Path) {
        let mut state = self.state();
        if !state.readable.iter().any(|readable| readable == directory) {
            state.readable.push(directory.to_owned());
        }
    }

    /// Lets the files be read that a text has beside it and in its plugin, as far as it names them.
    pub(super) fn allow_reading_with_plugin(&self, directory: Option<&Path>, plugin_root: Option<&Path>) {
        for directory in directory.into_iter().chain(plugin_root) {
            self.allow_reading(directory);
        }
    }

    /// Says something to people, once in a chat.
    pub(super) fn notify_once(&self, notice: impl Into<String>) {
        self.state().notices.push(notice.into());
    }

    /// What people should know.
    pub(super) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notices)
    }

    /// What calls have loaded since.
    pub(super) fn take_loaded(&self) -> Vec<PinnedInstruction> {
        std::mem::take(&mut self.state().loaded)
    }

    /// The turn has to do with a file, which a tool named as the model did.
    pub(super) fn note_path(&self, path: &str) {
        let full = match url::Url::parse(path) {
            Ok(url) if url.scheme() == "file" => url.to_file_path().ok(),
            _ => {
                let first = self.directories.first().and_then(|uri| file_path(uri));
                // An absolute path stays what it is.
                first.map(|first| first.join(path)).or_else(|| Some(path.into()))
            }
        };
        self.touch(full);
    }

    /// The turn has to do with files that came with a message.
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

/// A path without dots. Nothing is opened by it.
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

/// The beginning of a text, and whether it was cut.
fn beginning(text: &str, most: usize) -> (&str, bool) {
    let text = text.trim();
    let end = text.floor_char_boundary(most);
    (text.get(..end).unwrap_or_default(), end < text.len())
}
