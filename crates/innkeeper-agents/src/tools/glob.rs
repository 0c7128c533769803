//! `glob`: finds files by path pattern, newest first.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::SystemTime;

use async_trait::async_trait;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{Invocation, ToolDraft, ToolKind};
use innkeeper_std::{IgnoreFiles, Walk, WalkEnd};
use serde_json::{Value, json};

use super::blocking::{self, CancelFlag};
use super::input::Input;
use super::outcome::{self, ToolOutput, count, quoted};
use super::paths::WorkingDirectories;
use super::pattern::PathPattern;
use super::{Announcement, HostTool, ToolAnswer, ToolEnv, ToolLimits};
use crate::model::api::ToolSpec;

/// Finds files by path.
#[derive(Debug)]
pub(super) struct Glob {
    pub(super) limits: ToolLimits,
}

/// A parsed input.
#[derive(Debug)]
struct Request {
    pattern: PathPattern,
    source: String,
    path: Option<String>,
    include_ignored: bool,
}

impl Request {
    fn parse(input: &Value) -> Result<Self, String> {
        let input = Input::of(input)?;
        let source = input.non_empty_text("pattern", "a pattern such as `src/**/*.rs`")?;
        Ok(Self {
            pattern: PathPattern::parse("pattern", source)?,
            source: source.to_owned(),
            path: input.optional_text("path")?.map(str::to_owned),
            include_ignored: input.flag("include_ignored")?,
        })
    }
}

#[async_trait]
impl HostTool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            description: format!(
                "Finds files by the pattern of their path, the most recently changed first, at most {}. `*` stands \
                 for anything within a name, `**` for any directories, `{{a,b}}` for alternatives. A pattern without \
                 `/` fits in every directory. Files that the project ignores are left out.",
                self.limits.glob_files
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "pattern": { "type": "string", "description": "The pattern, such as `*.rs` or `src/**/*.{ts,tsx}`." },
                    "path": { "type": "string", "description": "The directory to look in; left out, it is the first working directory." },
                    "include_ignored": { "type": "boolean", "description": "Whether ignored files count too." },
                },
                "required": ["pattern"],
            }),
        }
    }

    fn title(&self) -> &str {
        "Find files"
    }

    fn is_parallel_safe(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Search)
    }

    fn announcement(&self) -> Option<Announcement> {
        Some(Announcement {
            verb: "Looking for",
            field: "pattern",
        })
    }

    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        let request = match Request::parse(&input) {
            Ok(request) => request,
            Err(problem) => return outcome::reject(draft, "Did not look for files", problem).await,
        };
        let source = quoted(&request.source);
        let invocation = Invocation::new(format!("Looks for {source}")).input(input.to_string());
        let call = draft.run(invocation).await?;
        let (places, limits) = (env.clone(), self.limits);
        let done = blocking::run(call.cancelled(), move |cancel| {
            find(&WorkingDirectories::open(&places)?, &request, &limits, cancel)
        })
        .await?;
        outcome::finish(call, &format!("Did not look for {source}"), done).await
    }
}

fn find(
    places: &WorkingDirectories,
    request: &Request,
    limits: &ToolLimits,
    cancel: &CancelFlag,
) -> Result<ToolOutput, String> {
    let start = places.existing_or_first(request.path.as_deref())?;
    let cancel = cancel.with_timeout(limits.search_time);
    let walk = Walk {
        ignore: match request.include_ignored {
            true => IgnoreFiles::None,
            false => IgnoreFiles::Inside,
        },
        max_entries: limits.walk_entries,
        is_over: &|| cancel.should_stop(),
    };
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    let end = start.walk(walk, &mut |found| {
        if request.pattern.fits(&found.relative) {
            let place = start.join(&found.relative);
            // Through the handle of the working directory, so that a symlink to the outside counts as missing.
            if let Ok(data) = place.root_dir().metadata(place.within())
                && data.is_file()
            {
                let changed = data.modified().map_or(SystemTime::UNIX_EPOCH, |time| time.into_std());
                files.push((changed, found.relative.clone()));
            }
        }
        ControlFlow::Continue(())
    })?;
    // Newest first; files of the same age by name.
    files.sort_by(|(a_time, a), (b_time, b)| b_time.cmp(a_time).then_with(|| a.cmp(b)));
    let source = quoted(&request.source);
    let found = count(files.len(), "file", "files");
    let mut text = String::new();
    for (_, relative) in files.iter().take(limits.glob_files) {
        text.push_str(&start.join(relative).label().replace(['\n', '\r'], "?"));
        text.push('\n');
    }
    if files.is_empty() {
        text = format!("No file fits {source}.\n");
    }
    if files.len() > limits.glob_files {
        let more = files.len() - limits.glob_files;
        text.push_str(&format!("[{more} older files left out; use a narrower pattern]\n"));
    }
    text.push_str(incomplete_note(end));
    Ok(ToolOutput::text(format!("Found {found} for {source}"), text))
}

/// Note about an incomplete walk.
pub(super) fn incomplete_note(end: WalkEnd) -> &'static str {
    match end {
        WalkEnd::Complete => "",
        WalkEnd::TooMany => "[the tree is too large to see all of it; name a directory with `path`]\n",
        WalkEnd::Stopped => "[it took too long to see all of the tree; name a directory with `path`]\n",
    }
}
