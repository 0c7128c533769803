//! `search`: finds lines that match a regular expression, with ripgrep's engine.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use async_trait::async_trait;
use cap_std::fs::Dir;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use innkeeper_host::AgentError;
use innkeeper_host::agent::{Invocation, ToolDraft, ToolKind};
use innkeeper_std::text::truncate_chars_counted;
use innkeeper_std::{IgnoreFiles, Walk, WalkEnd};
use innkeeper_std::{Opened, open_regular};
use serde_json::{Value, json};

use super::blocking::{self, CancelFlag, CancellableReader};
use super::glob::incomplete_note;
use super::input::Input;
use super::outcome::{self, ToolOutput, count, quoted};
use super::paths::{ToolPath, WorkingDirectories};
use super::pattern::PathPattern;
use super::secret::SecretFiles;
use super::{Announcement, HostTool, ToolAnswer, ToolEnv, ToolLimits};
use crate::model::api::ToolSpec;

/// Maximum memory for one line of a file.
const MAX_LINE_HEAP: usize = 16 << 20;
/// Maximum characters of a line before it is truncated.
const LINE_CHARS: usize = 400;

/// Searches file contents.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) limits: ToolLimits,
    pub(super) secrets: SecretFiles,
}

/// A parsed input.
#[derive(Debug)]
struct Request {
    matcher: RegexMatcher,
    source: String,
    path: Option<String>,
    glob: Option<PathPattern>,
    context: usize,
    files_only: bool,
    include_ignored: bool,
    limit: usize,
}

impl Request {
    fn parse(input: &Value, limits: &ToolLimits) -> Result<Self, String> {
        let input = Input::of(input)?;
        let source = input.text("pattern", "a regular expression")?;
        if source.is_empty() {
            return Err("`pattern` is empty: give a regular expression".to_owned());
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(input.flag("ignore_case")?)
            .line_terminator(Some(b'\n'))
            .build(source)
            .map_err(|error| format!("`pattern` is not a regular expression that fits within a line: {error}"))?;
        let glob = input.optional_text("glob")?;
        let number =
            |number: Option<u64>, default| number.map_or(default, |number| usize::try_from(number).unwrap_or(default));
        Ok(Self {
            matcher,
            source: source.to_owned(),
            path: input.optional_text("path")?.map(str::to_owned),
            glob: glob.map(|glob| PathPattern::parse("glob", glob)).transpose()?,
            context: number(input.number("context", 0, 20)?, 0),
            files_only: input.flag("files_only")?,
            include_ignored: input.flag("include_ignored")?,
            limit: number(
                input.number("limit", 1, limits.search_matches as u64)?,
                limits.search_matches,
            ),
        })
    }
}

#[async_trait]
impl HostTool for Search {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search".to_owned(),
            description: format!(
                "Searches the contents of files for a regular expression (as ripgrep knows it), line by line. Gives \
                 `path:line: text`, at most {} matching lines. Files that the project ignores, binary files and files \
                 with secrets are left out. Prefer this to running `grep`.",
                self.limits.search_matches
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "pattern": { "type": "string", "description": "The regular expression; escape what should be taken literally, as in `foo\\(`." },
                    "path": { "type": "string", "description": "The directory or file to search; left out, it is the first working directory." },
                    "glob": { "type": "string", "description": "Only files whose path fits, such as `*.rs`; with a leading `!` only those that do not." },
                    "ignore_case": { "type": "boolean", "description": "Whether upper and lower case are the same." },
                    "context": { "type": "integer", "minimum": 0, "maximum": 20, "description": "How many lines to show around each match." },
                    "files_only": { "type": "boolean", "description": "Whether to give only the paths of files with a match." },
                    "include_ignored": { "type": "boolean", "description": "Whether ignored files count too." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": self.limits.search_matches, "description": "Most matches to give." },
                },
                "required": ["pattern"],
            }),
        }
    }

    fn title(&self) -> &str {
        "Search in files"
    }

    fn is_parallel_safe(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Search)
    }

    fn announcement(&self) -> Option<Announcement> {
        Some(Announcement {
            verb: "Searching for",
            field: "pattern",
        })
    }

    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        let request = match Request::parse(&input, &self.limits) {
            Ok(request) => request,
            Err(problem) => return outcome::reject(draft, "Did not search", problem).await,
        };
        let source = quoted(&request.source);
        let invocation = Invocation::new(format!("Searches for {source}")).input(input.to_string());
        let call = draft.run(invocation).await?;
        let (places, limits, secrets) = (env.clone(), self.limits, self.secrets.clone());
        let done = blocking::run(call.cancelled(), move |cancel| {
            search(
                &WorkingDirectories::open_with(&places, &secrets)?,
                &request,
                &limits,
                cancel,
            )
        })
        .await?;
        outcome::finish(call, &format!("Did not search for {source}"), done).await
    }
}

fn search(
    places: &WorkingDirectories,
    request: &Request,
    limits: &ToolLimits,
    cancel: &CancelFlag,
) -> Result<ToolOutput, String> {
    let start = places.existing_or_first(request.path.as_deref())?;
    let cancel = cancel.with_timeout(limits.search_time);
    let mut results = SearchResults::new(request, limits, &cancel);
    let end = if start.root_dir().is_dir(start.within()) {
        results.search_tree(&start)?
    } else {
        results.search_single_file(&start)?
    };
    Ok(results.done(end))
}

/// Results so far.
struct SearchResults<'a> {
    request: &'a Request,
    searcher: Searcher,
    cancel: &'a CancelFlag,
    max_bytes: usize,
    max_entries: usize,
    text: String,
    matches: usize,
    files: usize,
    secrets: usize,
    is_full: bool,
}

impl<'a> SearchResults<'a> {
    fn new(request: &'a Request, limits: &ToolLimits, cancel: &'a CancelFlag) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(request.context)
            .after_context(request.context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE_HEAP))
            .build();
        Self {
            request,
            searcher,
            cancel,
            max_bytes: limits.search_bytes,
            max_entries: limits.walk_entries,
            text: String::new(),
            matches: 0,
            files: 0,
            secrets: 0,
            is_full: false,
        }
    }

    fn search_tree(&mut self, start: &ToolPath) -> Result<WalkEnd, String> {
        let (request, cancel) = (self.request, self.cancel);
        let walk = Walk {
            ignore: match request.include_ignored {
                true => IgnoreFiles::None,
                false => IgnoreFiles::Inside,
            },
            max_entries: self.max_entries,
            is_over: &|| cancel.should_stop(),
        };
        start.walk(walk, &mut |found| {
            let is_wanted = request.glob.as_ref().is_none_or(|glob| glob.fits(&found.relative));
            // The target of a symlink is found under its own name, or is outside.
            if found.is_link || !is_wanted {
                return ControlFlow::Continue(());
            }
            let place = start.join(&found.relative);
            if place.is_secret() {
                self.secrets += 1;
                return ControlFlow::Continue(());
            }
            self.search_file(found.dir, found.name, &place.label());
            if self.is_full {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    fn search_single_file(&mut self, place: &ToolPath) -> Result<WalkEnd, String> {
        if place.is_secret() {
            return Err(format!(
                "{} looks like a file with secrets and is not searched: use `read_file`, which asks the user",
                place.quoted()
            ));
        }
        drop(place.open_file()?);
        self.search_file(place.root_dir(), place.within(), &place.label());
        Ok(if self.cancel.should_stop() {
            WalkEnd::Stopped
        } else {
            WalkEnd::Complete
        })
    }

    /// Searches one file. Unreadable files are skipped.
    fn search_file(&mut self, dir: &Dir, name: &Path, label: &str) {
        let Ok(Opened::File(file)) = open_regular(dir, name) else {
            return;
        };
        let mut results = FileMatches {
            label,
            request: self.request,
            remaining: self.max_bytes.saturating_sub(self.text.len()),
            max_matches: self.request.limit.saturating_sub(self.matches),
            text: String::new(),
            matches: 0,
            is_full: false,
        };
        let reading = CancellableReader {
            inner: file,
            cancel: self.cancel,
        };
        let searched = self
            .searcher
            .search_reader(&self.request.matcher, reading, &mut results);
        let (text, matches) = (results.text, results.matches);
        self.is_full |= results.is_full;
        if matches == 0 {
            return;
        }
        self.files += 1;
        self.matches += matches;
        if self.request.context > 0 && !self.text.is_empty() && !self.request.files_only {
            self.text.push_str("--\n");
        }
        self.text.push_str(&text);
        if searched.is_err() && !self.cancel.should_stop() {
            self.text
                .push_str(&format!("[{label} could not be searched to its end]\n"));
        }
    }

    fn done(mut self, end: WalkEnd) -> ToolOutput {
        let source = quoted(&self.request.source);
        let files = count(self.files, "file", "files");
        let summary = if self.request.files_only {
            format!("Searched for {source} ({files})")
        } else {
            format!(
                "Searched for {source} ({} in {files})",
                count(self.matches, "match", "matches")
            )
        };
        if self.matches == 0 {
            self.text = format!("Nothing matches {source}.\n");
        }
        if self.is_full {
            self.text
                .push_str("[there are more matches; use a narrower `pattern`, `glob` or `path`]\n");
        }
        if self.secrets > 0 {
            let secrets = count(self.secrets, "file that looks", "files that look");
            self.text.push_str(&format!("[{secrets} like secrets not searched]\n"));
        }
        self.text.push_str(incomplete_note(end));
        ToolOutput::text(summary, self.text)
    }
}

/// Matches in one file.
struct FileMatches<'a> {
    label: &'a str,
    request: &'a Request,
    /// Remaining bytes.
    remaining: usize,
    max_matches: usize,
    text: String,
    matches: usize,
    is_full: bool,
}

impl FileMatches<'_> {
    /// Adds a line. Returns false if it does not fit.
    fn add(&mut self, line: &str) -> bool {
        if self.text.len() + line.len() > self.remaining {
            self.is_full = true;
            return false;
        }
        self.text.push_str(line);
        true
    }

    fn add_line(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let text = truncate_chars_counted(text.trim_end_matches(['\n', '\r']), LINE_CHARS);
        let number = number.unwrap_or_default();
        self.add(&format!("{}{mark}{number}{mark} {text}\n", self.label))
    }
}

impl Sink for FileMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.matches >= self.max_matches {
            self.is_full = true;
            return Ok(false);
        }
        if self.request.files_only {
            if self.add(&format!("{}\n", self.label)) {
                self.matches += 1;
            }
            return Ok(false);
        }
        let is_added = self.add_line(':', found.line_number(), found.bytes());
        self.matches += usize::from(is_added);
        Ok(is_added)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.add_line('-', context.line_number(), context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        Ok(self.add("--\n"))
    }
}
