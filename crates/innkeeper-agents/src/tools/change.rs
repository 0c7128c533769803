//! The only way to change a file: plan the change, show it to the user, and write exactly what was shown.
//!
//! If the file changes between confirmation and write, it is not written. `change/replace.rs` does the writing.

use std::io::ErrorKind;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{
    ApprovalSubject, Confirmation, Description, FileAccess, FileChange, FileSide, Invocation, ToolContent, ToolDraft,
    Verdict,
};
use innkeeper_std::{Opened, open_regular, read_whole};
use serde_json::Value;

use super::diff::FileDiff;
use super::outcome::{self, ToolOutput};
use super::paths::{ToolPath, WorkingDirectories};
use super::secret::SecretFiles;
use super::{Announcement, HostTool, ToolAnswer, ToolEnv, ToolLimits, blocking};
use crate::model::api::ToolSpec;

mod replace;

/// Settings for all changes.
#[derive(Debug, Clone)]
pub(super) struct ChangePolicy {
    pub(super) limits: ToolLimits,
    pub(super) secrets: SecretFiles,
    /// Permissions that new files and directories lack; `None` uses the process's umask.
    pub(super) umask: Option<u32>,
}

/// A tool that changes one file: `write_file` or `edit_file`.
#[derive(Debug)]
pub(super) struct ChangeTool {
    pub(super) policy: ChangePolicy,
    pub(super) definition: ChangeDefinition,
}

/// Definition of a tool that changes files.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeDefinition {
    pub(super) spec: fn() -> ToolSpec,
    pub(super) title: &'static str,
    /// Verb of the announcement, such as "Editing".
    pub(super) verb: &'static str,
    pub(super) plan: Plan,
}

#[async_trait]
impl HostTool for ChangeTool {
    fn spec(&self) -> ToolSpec {
        (self.definition.spec)()
    }

    fn title(&self) -> &str {
        self.definition.title
    }

    fn is_parallel_safe(&self) -> bool {
        false
    }

    fn announcement(&self) -> Option<Announcement> {
        Some(Announcement {
            verb: self.definition.verb,
            field: "path",
        })
    }

    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        run_change(draft, input, env, &self.policy, self.definition.plan).await
    }
}

/// A planned change of one file.
#[derive(Debug)]
pub(super) struct PlannedChange {
    pub(super) place: ToolPath,
    /// Current content; `None` if the file does not exist.
    pub(super) before: Option<Vec<u8>>,
    /// New content.
    pub(super) after: Vec<u8>,
    diff: FileDiff,
    /// Whether it looks like a file with secrets. Its content is never shown.
    is_secret: bool,
    /// Why the change is impossible. For files with secrets the reason reveals content, so it is reported only after
    /// the user has confirmed the change.
    problem: Option<String>,
}

impl PlannedChange {
    pub(super) fn new(place: ToolPath, before: Option<Vec<u8>>, after: Vec<u8>, limits: &ToolLimits) -> Self {
        let old = before.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let diff = FileDiff::between(&old, &String::from_utf8_lossy(&after), limits.diff_bytes);
        let is_secret = place.is_secret();
        Self {
            place,
            before,
            after,
            diff,
            is_secret,
            problem: None,
        }
    }

    /// A change that the file's content makes impossible. It fails at once, unless the reason would reveal content of
    /// a file with secrets: then the user is asked first.
    pub(super) fn blocked(place: ToolPath, before: Vec<u8>, problem: String) -> Result<Self, String> {
        if !place.is_secret() {
            return Err(problem);
        }
        Ok(Self {
            place,
            after: before.clone(),
            before: Some(before),
            diff: FileDiff::default(),
            is_secret: true,
            problem: Some(problem),
        })
    }

    /// Returns true if the file already has the new content.
    fn is_done(&self) -> bool {
        self.before.as_ref() == Some(&self.after)
    }

    /// Describes the change for the user.
    fn description(&self) -> Description {
        Description::with_markdown(
            self.description_with(&self.place.quoted()),
            self.description_with(&self.place.link()),
        )
    }

    fn description_with(&self, name: &str) -> String {
        let [does, ..] = self.verbs();
        if self.problem.is_some() {
            return format!("{does} {name}, which will fail; the model then gets the reason");
        }
        if self.is_done() {
            return format!("{does} {name}, which already has this content; the model then learns that");
        }
        format!("{does} {name} ({})", self.diff.counts())
    }

    /// Verbs for the announcement, the question and the result.
    fn verbs(&self) -> [&'static str; 3] {
        match self.before {
            None => ["Creates", "Create", "Created"],
            Some(_) => ["Changes", "Change", "Changed"],
        }
    }

    /// The edits shown with the confirmation. They contain both contents, because the new one is not on disk yet.
    fn confirmation_edits(&self, limits: &ToolLimits) -> Vec<FileChange> {
        if self.is_secret || !self.fits(limits) {
            return Vec::new();
        }
        vec![self.with_snapshots()]
    }

    /// The edit shown with the result. It contains both contents, because the file may change again. For files that
    /// are secret or too large it contains the URI only.
    fn result_edit(&self, limits: &ToolLimits) -> FileChange {
        if !self.is_secret && self.fits(limits) {
            return self.with_snapshots();
        }
        let uri = self.place.uri();
        FileChange {
            before: None,
            after: Some(FileSide::new(uri.clone(), uri)),
            added: self.diff.added,
            removed: self.diff.removed,
        }
    }

    fn fits(&self, limits: &ToolLimits) -> bool {
        let fits = |bytes: &[u8]| bytes.len() <= limits.side_bytes;
        fits(&self.after) && self.before.as_deref().is_none_or(fits)
    }

    fn with_snapshots(&self) -> FileChange {
        let side = |bytes: &[u8]| FileSide::new(self.place.uri(), data_uri(bytes));
        FileChange {
            before: self.before.as_deref().map(side),
            after: Some(side(&self.after)),
            added: self.diff.added,
            removed: self.diff.removed,
        }
    }

    fn output(&self, limits: &ToolLimits) -> ToolOutput {
        let [.., did] = self.verbs();
        let counts = self.diff.counts();
        let summary = format!("{did} {} ({counts})", self.place.quoted());
        let markdown = format!("{did} {} ({counts})", self.place.link());
        let mut content = vec![ToolContent::FileEdit(self.result_edit(limits))];
        let mut text = format!("{summary}.\n");
        if !self.is_secret {
            content.push(ToolContent::Text(self.diff.unified.clone()));
            // The model knows the content of a new file; of a changed one it needs the context lines.
            if self.before.is_some() {
                text.push_str(&self.diff.unified);
            }
        }
        ToolOutput {
            summary,
            markdown: Some(markdown),
            content,
            text,
            images: Vec::new(),
        }
    }
}

/// Encodes content as a data URI. The host stores it as a blob and replaces the URI.
fn data_uri(bytes: &[u8]) -> String {
    let media_type = match std::str::from_utf8(bytes) {
        Ok(_) => "text/plain;charset=utf-8",
        Err(_) => "application/octet-stream",
    };
    format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
}

/// Reads the current content; `None` if the file does not exist. Fails for files that are too large or
/// write-protected, before the user is asked.
pub(super) fn read_current(place: &ToolPath, limits: &ToolLimits) -> Result<Option<Vec<u8>>, String> {
    let file = match open_regular(place.root_dir(), place.within()) {
        Ok(Opened::File(file)) => file,
        Ok(Opened::Directory) => return Err(format!("{} is a directory, not a file", place.quoted())),
        Ok(Opened::Special) => {
            return Err(format!(
                "{} is a pipe, socket or device, which is never written",
                place.quoted()
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(place.complaint(&error)),
    };
    let data = file.metadata().map_err(|error| place.complaint(&error))?;
    if data.permissions().readonly() || !replace::may_write(place) {
        return Err(format!(
            "{} is write-protected: ask the user to change that",
            place.quoted()
        ));
    }
    let bytes = read_whole(file, limits.change_bytes).map_err(|error| place.complaint(&error))?;
    match bytes {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(format!(
            "{} has more than {} bytes, which is too large to change this way: use `run_command`",
            place.quoted(),
            limits.change_bytes
        )),
    }
}

/// Plans a change from an input, which the model wrote or the user edited.
pub(super) type Plan = fn(&Value, &WorkingDirectories, &ToolLimits) -> Result<PlannedChange, String>;

/// Plans a change, asks for confirmation and writes the file.
async fn run_change(
    draft: ToolDraft,
    input: Value,
    env: &ToolEnv,
    policy: &ChangePolicy,
    plan: Plan,
) -> Result<ToolAnswer, AgentError> {
    let limits = policy.limits;
    let planned = plan_in_background(draft.cancelled(), input.clone(), env, policy, plan).await?;
    let mut change = match planned {
        Ok(change) => change,
        Err(problem) => return outcome::reject(draft, "Did not change a file", problem).await,
    };
    let name = change.place.quoted();
    let attempt = format!("Did not change {name}");
    let [_, shall, _] = change.verbs();
    let message = change.description();
    let invocation = Invocation::new(message).input(input.to_string());
    // Don't report "already done" for secret files: it would confirm the file's content.
    if change.is_done() && !change.is_secret {
        let call = draft.run(invocation).await?;
        return outcome::finish(call, &attempt, Ok(unchanged(&change.place))).await;
    }
    let confirmation = Confirmation {
        title: Some(format!("{shall} {name}?")),
        editable: true,
        edits: change.confirmation_edits(&limits),
        subject: ApprovalSubject::File {
            access: FileAccess::Change,
            path: change.place.rule_path(),
            is_sensitive: change.place.is_sensitive(),
        },
        ..Confirmation::default()
    };
    let (call, decision) = match draft.confirm(invocation, confirmation).await? {
        Verdict::Approved(call, decision) => (call, decision),
        Verdict::Denied(decision) => return Ok(outcome::denied(&decision)),
    };
    let edited = decision.edited_input;
    if let Some(edited) = &edited {
        let input: Value = match serde_json::from_str(edited) {
            Ok(input) => input,
            Err(error) => {
                let problem = format!("the user edited the input, which is not valid JSON now: {error}");
                return outcome::finish(call, &attempt, Err(problem)).await;
            }
        };
        let planned = plan_in_background(call.cancelled(), input, env, policy, plan).await?;
        let again = match planned {
            Ok(again) => again,
            Err(problem) => {
                let problem = format!("the user edited the input: {problem}");
                return outcome::finish(call, &attempt, Err(problem)).await;
            }
        };
        if again.place.path() == change.place.path() && again.before != change.before {
            return outcome::finish(call, &attempt, Err(replace::changed_since_question(&change.place))).await;
        }
        change = again;
    }
    let umask = policy.umask;
    let done = blocking::run(call.cancelled(), move |cancel| {
        if let Some(problem) = change.problem {
            return Err(problem);
        }
        if change.is_done() {
            return Ok(unchanged(&change.place));
        }
        replace::write(&change, &limits, umask, cancel)?;
        Ok(change.output(&limits))
    })
    .await?;
    let answer = outcome::finish(call, &attempt, done).await?;
    Ok(outcome::after_edit(answer, edited.as_deref()))
}

fn unchanged(place: &ToolPath) -> ToolOutput {
    let name = place.quoted();
    let text = format!("{name} is already like that; nothing was written.");
    let markdown = format!("Left {} as it is", place.link());
    ToolOutput::text(format!("Left {name} as it is"), text).with_markdown(markdown)
}

async fn plan_in_background(
    cancelled: impl Future<Output = ()>,
    input: Value,
    env: &ToolEnv,
    policy: &ChangePolicy,
    plan: Plan,
) -> Result<Result<PlannedChange, String>, AgentError> {
    let (env, policy) = (env.for_changes(), policy.clone());
    blocking::run(cancelled, move |_| {
        plan(
            &input,
            &WorkingDirectories::open_with(&env, &policy.secrets)?,
            &policy.limits,
        )
    })
    .await
}
