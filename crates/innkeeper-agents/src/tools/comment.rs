//! `comment_on_file`: comments on lines of a file, for a review. Users answer and resolve the comments.

use std::io::{BufRead as _, BufReader, Read as _};

use async_trait::async_trait;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{Description, Invocation, TextSpan, ToolContent, ToolDraft, ToolResult};
use serde_json::{Value, json};

use super::blocking::{self, CancelFlag};
use super::input::Input;
use super::outcome::{self, quoted};
use super::paths::{ToolPath, WorkingDirectories};
use super::secret::SecretFiles;
use super::{Announcement, HostTool, ToolAnswer, ToolEnv};
use crate::model::api::ToolSpec;

/// Maximum bytes that are read to count lines.
const MAX_COUNTED_BYTES: u64 = 64 << 20;
/// Maximum bytes of a comment.
const MAX_COMMENT: usize = 16 << 10;

/// Comments on a file.
#[derive(Debug)]
pub(super) struct CommentOnFile {
    pub(super) secrets: SecretFiles,
}

/// A parsed input.
#[derive(Debug)]
struct Request {
    path: String,
    /// The first and the last line, counted from 1; `None` for a comment on the whole file.
    lines: Option<(u64, u64)>,
    text: String,
}

impl Request {
    fn parse(input: &Value) -> Result<Self, String> {
        let input = Input::of(input)?;
        let limit = u64::from(u32::MAX);
        let first = input.number("line", 1, limit)?;
        let last = input.number("end_line", 1, limit)?;
        let lines = match (first, last) {
            (None, None) => None,
            (None, Some(_)) => return Err("`end_line` needs `line`, the first line of the comment".to_owned()),
            (Some(first), last) => Some((first, last.unwrap_or(first))),
        };
        if let Some((first, last)) = lines
            && last < first
        {
            return Err(format!(
                "`end_line` is {last} and comes before `line`, which is {first}"
            ));
        }
        let text = input.non_empty_text("text", "the comment")?;
        if text.len() > MAX_COMMENT {
            return Err(format!(
                "`text` is longer than {} KiB: shorten the comment",
                MAX_COMMENT >> 10
            ));
        }
        Ok(Self {
            path: input.non_empty_text("path", "the path of the file")?.to_owned(),
            lines,
            text: text.to_owned(),
        })
    }
}

#[async_trait]
impl HostTool for CommentOnFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "comment_on_file".to_owned(),
            description: "Leaves a comment on a file, or on lines of it, which the user sees beside the file, answers \
                          and resolves. Use it for the findings of a review; it changes no file."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "The file: relative to the first working directory, or absolute within one." },
                    "line": { "type": "integer", "minimum": 1, "description": "The line, counted from 1; left out, the comment is about the whole file." },
                    "end_line": { "type": "integer", "minimum": 1, "description": "The last line, if the comment is about several." },
                    "text": { "type": "string", "description": "The comment, as Markdown." },
                },
                "required": ["path", "text"],
            }),
        }
    }

    fn title(&self) -> &str {
        "Comment on a file"
    }

    fn is_parallel_safe(&self) -> bool {
        true
    }

    fn announcement(&self) -> Option<Announcement> {
        Some(Announcement {
            verb: "Commenting on",
            field: "path",
        })
    }

    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        let request = match Request::parse(&input) {
            Ok(request) => request,
            Err(problem) => return outcome::reject(draft, "Did not comment on a file", problem).await,
        };
        let attempt = format!("Did not comment on {}", quoted(&request.path));
        let (path, lines) = (request.path.clone(), request.lines);
        let (env, secrets) = (env.for_changes(), self.secrets.clone());
        let found = blocking::run(draft.cancelled(), move |cancel| {
            let place = WorkingDirectories::open_with(&env, &secrets)?.existing(&path)?;
            check_lines(&place, lines, cancel).map(|()| place)
        })
        .await?;
        let place = match found {
            Ok(place) => place,
            Err(problem) => return outcome::reject(draft, &attempt, problem).await,
        };
        let at = match request.lines {
            None => String::new(),
            Some((first, last)) if first == last => format!(", line {first}"),
            Some((first, last)) => format!(", lines {first} to {last}"),
        };
        let described = Description::with_markdown(
            format!("Comments on {}{at}", place.quoted()),
            format!("Comments on {}{at}", place.link()),
        );
        let call = draft.run(Invocation::new(described).input(input.to_string())).await?;
        let span = request.lines.map(|(first, last)| TextSpan {
            start_line: first - 1,
            start_character: 0,
            end_line: last,
            end_character: 0,
        });
        call.annotate(place.uri(), span, request.text.clone()).await?;
        let summary = format!("Commented on {}{at}", place.quoted());
        let markdown = format!("Commented on {}{at}", place.link());
        call.complete(ToolResult {
            success: true,
            summary: summary.clone(),
            summary_markdown: Some(markdown),
            content: vec![ToolContent::Text(request.text)],
            ..ToolResult::default()
        })
        .await?;
        Ok(ToolAnswer::ok(summary))
    }
}

/// Checks that the file is a regular one and has the lines.
fn check_lines(place: &ToolPath, lines: Option<(u64, u64)>, cancel: &CancelFlag) -> Result<(), String> {
    let file = place.open_file()?;
    let Some((_, last)) = lines else { return Ok(()) };
    // Nothing of a secret is told, not even its length.
    if place.is_secret() {
        return Ok(());
    }
    let mut reader = BufReader::new(file.take(MAX_COUNTED_BYTES));
    let mut count = 0;
    while count < last && !cancel.should_stop() {
        let read = reader.skip_until(b'\n').map_err(|error| place.complaint(&error))?;
        if read == 0 {
            let has = outcome::count(usize::try_from(count).unwrap_or(usize::MAX), "line", "lines");
            return Err(format!("{} has {has}, so it has no line {last}", place.quoted()));
        }
        count += 1;
    }
    Ok(())
}
