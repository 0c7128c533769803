//! `list_directory`: lists a directory.

use async_trait::async_trait;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{Invocation, ToolDraft, ToolKind};
use serde_json::{Value, json};

use super::blocking::{self, CancelFlag};
use super::input::Input;
use super::outcome::{self, ToolOutput, count, quoted};
use super::paths::WorkingDirectories;
use super::{Announcement, HostTool, ToolAnswer, ToolEnv, ToolLimits};
use crate::model::api::ToolSpec;

/// Maximum entries that are read, so that a directory with millions does not exhaust memory.
const MAX_READ: usize = 100_000;

/// Lists a directory.
#[derive(Debug)]
pub(super) struct ListDirectory {
    pub(super) limits: ToolLimits,
}

#[async_trait]
impl HostTool for ListDirectory {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_directory".to_owned(),
            description: "Lists the files and directories in one directory of the session's working directories, \
                          hidden and ignored ones included. Directories end in `/`, links show where they lead. Use \
                          `glob` to look for files in a whole tree."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "The directory; left out, it is the first working directory." },
                },
            }),
        }
    }

    fn title(&self) -> &str {
        "List a directory"
    }

    fn is_parallel_safe(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Read)
    }

    fn announcement(&self) -> Option<Announcement> {
        Some(Announcement {
            verb: "Listing",
            field: "path",
        })
    }

    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        let path = match Input::of(&input).and_then(|input| input.optional_text("path")) {
            Ok(path) => path.map(str::to_owned),
            Err(problem) => return outcome::reject(draft, "Did not list a directory", problem).await,
        };
        let name = quoted(path.as_deref().unwrap_or("."));
        let invocation = Invocation::new(format!("Lists {name}")).input(input.to_string());
        let call = draft.run(invocation).await?;
        let (places, limit) = (env.clone(), self.limits.list_entries);
        let done = blocking::run(call.cancelled(), move |cancel| {
            list(&WorkingDirectories::open(&places)?, path.as_deref(), limit, cancel)
        })
        .await?;
        outcome::finish(call, &format!("Did not list {name}"), done).await
    }
}

fn list(
    places: &WorkingDirectories,
    path: Option<&str>,
    limit: usize,
    cancel: &CancelFlag,
) -> Result<ToolOutput, String> {
    let place = places.existing_or_first(path)?;
    let dir = place.open_dir()?;
    let entries = dir.entries().map_err(|error| place.complaint(&error))?;
    let mut names = Vec::new();
    let mut is_whole = true;
    for entry in entries.flatten() {
        if names.len() >= MAX_READ || cancel.should_stop() {
            is_whole = false;
            break;
        }
        names.push(entry.file_name());
    }
    names.sort();
    let mut text = String::new();
    for name in names.iter().take(limit) {
        let shown = name.to_string_lossy();
        let line = match dir.symlink_metadata(name) {
            Ok(data) if data.is_dir() => format!("{shown}/"),
            Ok(data) if data.is_symlink() => match dir.read_link_contents(name) {
                Ok(target) => format!("{shown} -> {}", target.display()),
                Err(_) => format!("{shown} -> ?"),
            },
            Ok(data) if data.is_file() => format!("{shown} ({})", size(data.len())),
            Ok(_) => format!("{shown} (neither file nor directory)"),
            Err(_) => shown.into_owned(),
        };
        text.push_str(&line.replace(['\n', '\r'], "?"));
        text.push('\n');
    }
    let total = count(names.len(), "entry", "entries");
    let total = format!("{}{total}", if is_whole { "" } else { "more than " });
    let summary = format!("Listed {} ({total})", place.quoted());
    let markdown = format!("Listed {} ({total})", place.link());
    if names.is_empty() {
        return Ok(ToolOutput::text(summary, format!("{} is empty.", place.quoted())).with_markdown(markdown));
    }
    if names.len() > limit || !is_whole {
        let left_out = names.len().saturating_sub(limit);
        text.push_str(&format!(
            "[{left_out} or more entries left out; use `glob` to narrow it down]\n"
        ));
    }
    Ok(ToolOutput::text(summary, text).with_markdown(markdown))
}

/// Formats a size, such as "12 KiB".
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => count(usize::try_from(bytes).unwrap_or(usize::MAX), "byte", "bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
