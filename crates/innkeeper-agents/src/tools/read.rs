//! `read_file`: returns text with line numbers, and images.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read as _};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{
    ApprovalSubject, Confirmation, Description, FileAccess, Invocation, ToolContent, ToolDraft, ToolKind, Verdict,
};
use innkeeper_std::text::truncate_chars_counted;
use serde_json::{Value, json};

use super::blocking::{self, CancelFlag, CancellableReader};
use super::input::Input;
use super::outcome::{self, ToolOutput, count, quoted};
use super::paths::{ToolPath, WorkingDirectories};
use super::secret::SecretFiles;
use super::{Announcement, HostTool, ToolAnswer, ToolEnv, ToolLimits, text};
use crate::model::api::{Image, ToolSpec};

/// Maximum bytes that are read only to count the remaining lines.
const MAX_COUNTED_BYTES: u64 = 64 << 20;

/// Reads a file.
#[derive(Debug)]
pub(super) struct ReadFile {
    pub(super) limits: ToolLimits,
    pub(super) secrets: SecretFiles,
}

/// A parsed input.
#[derive(Debug, Clone)]
struct Request {
    path: String,
    offset: usize,
    limit: usize,
}

impl Request {
    fn parse(input: &Value, limits: &ToolLimits) -> Result<Self, String> {
        let input = Input::of(input)?;
        let limit = limits.read_lines as u64;
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            path: input.non_empty_text("path", "the path of the file to read")?.to_owned(),
            offset: input.number("offset", 1, u64::from(u32::MAX))?.map_or(1, number),
            limit: input.number("limit", 1, limit)?.map_or(limits.read_lines, number),
        })
    }
}

#[async_trait]
impl HostTool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description: format!(
                "Reads a file of the session's working directories. Lines come numbered, as in `     1\ttext`; the \
                 numbers are not part of the file. At most {} lines come at once; use `offset` and `limit` to read \
                 on. Images (PNG, JPEG, GIF, WebP) are shown. Other binary files are refused.",
                self.limits.read_lines
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "The file: relative to the first working directory, or absolute within one." },
                    "offset": { "type": "integer", "minimum": 1, "description": "The first line to read, counted from 1." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": self.limits.read_lines, "description": "How many lines to read." },
                },
                "required": ["path"],
            }),
        }
    }

    fn title(&self) -> &str {
        "Read a file"
    }

    fn is_parallel_safe(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Read)
    }

    fn announcement(&self) -> Option<Announcement> {
        Some(Announcement {
            verb: "Reading",
            field: "path",
        })
    }

    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        let limits = self.limits;
        let request = match Request::parse(&input, &limits) {
            Ok(request) => request,
            Err(problem) => return outcome::reject(draft, "Did not read a file", problem).await,
        };
        let name = quoted(&request.path);
        let attempt = format!("Did not read {name}");
        let (path, places, secrets) = (request.path.clone(), env.clone(), self.secrets.clone());
        let found = blocking::run(draft.cancelled(), move |_| {
            WorkingDirectories::open_with(&places, &secrets)?.existing(&path)
        })
        .await?;
        let place = match found {
            Ok(place) => place,
            Err(problem) => return outcome::reject(draft, &attempt, problem).await,
        };
        let described = Description::with_markdown(format!("Reads {name}"), format!("Reads {}", place.link()));
        let invocation = Invocation::new(described).input(input.to_string());
        let call = if place.is_secret() {
            let title = format!(
                "Let the model read {}? It looks like a file with secrets.",
                place.quoted()
            );
            let confirmation = Confirmation {
                title: Some(title),
                subject: ApprovalSubject::File {
                    access: FileAccess::Read,
                    path: place.rule_path(),
                    is_sensitive: true,
                },
                ..Confirmation::default()
            };
            match draft.confirm(invocation, confirmation).await? {
                Verdict::Approved(call, _) => call,
                Verdict::Denied(decision) => return Ok(outcome::denied(&decision)),
            }
        } else {
            draft.run(invocation).await?
        };
        let done = blocking::run(call.cancelled(), move |cancel| read(&place, &request, &limits, cancel)).await?;
        outcome::finish(call, &attempt, done).await
    }
}

fn read(place: &ToolPath, request: &Request, limits: &ToolLimits, cancel: &CancelFlag) -> Result<ToolOutput, String> {
    let mut file = place.open_file()?;
    let broken = |error| place.complaint(&error);
    let mut start = Vec::new();
    file.by_ref().take(8192).read_to_end(&mut start).map_err(broken)?;
    if let Some(media_type) = image_type(&start) {
        return read_image(place, file, start, media_type, limits);
    }
    if text::is_binary(&start) {
        return Err(format!(
            "{} is a binary file and cannot be read as text; `run_command` may have a program for it",
            place.quoted()
        ));
    }
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&start);
    let cancel = &cancel.with_timeout(limits.search_time);
    let mut reader = BufReader::new(CancellableReader {
        inner: start.chain(file),
        cancel,
    });
    let mut line_page = LinePage::default();
    match line_page.fill(&mut reader, request, limits) {
        Ok(()) => {}
        // The lines were read; only their total number is unknown.
        Err(error) if error.kind() == ErrorKind::TimedOut && line_page.shown > 0 => {}
        Err(error) => return Err(broken(error)),
    }
    Ok(line_page.done(place, request))
}

/// The requested lines.
#[derive(Debug, Default)]
struct LinePage {
    text: String,
    shown: usize,
    /// Lines counted so far.
    lines: usize,
    is_counted: bool,
}

impl LinePage {
    fn fill(&mut self, reader: &mut impl BufRead, request: &Request, limits: &ToolLimits) -> std::io::Result<()> {
        // Truncate long lines before decoding them.
        let longest = limits.line_chars.saturating_mul(4).saturating_add(8) as u64;
        let mut passed = 0_u64;
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut read = reader.by_ref().take(longest).read_until(b'\n', &mut line)? as u64;
            if read == 0 {
                self.is_counted = true;
                return Ok(());
            }
            let mut is_cut = false;
            if line.last() != Some(&b'\n') {
                let rest = skip_line(reader)?;
                is_cut = rest > 0;
                read += rest;
            }
            self.lines += 1;
            passed += read;
            if self.lines >= request.offset && self.shown < request.limit && self.text.len() < limits.read_bytes {
                let decoded = String::from_utf8_lossy(&line);
                let line = decoded.trim_end_matches(['\n', '\r']);
                let mut text = truncate_chars_counted(line, limits.line_chars).into_owned();
                if is_cut && !text.contains("more characters]") {
                    text.push_str("… [more]");
                }
                self.text.push_str(&format!("{:>6}\t{text}\n", self.lines));
                self.shown += 1;
            } else if self.lines >= request.offset && passed > MAX_COUNTED_BYTES {
                return Ok(());
            }
        }
    }

    fn done(mut self, place: &ToolPath, request: &Request) -> ToolOutput {
        let name = place.quoted();
        let how_much = match (self.shown, self.lines) {
            (_, 0) => "empty".to_owned(),
            (0, _) => format!("nothing from line {} on", request.offset),
            (shown, _) => count(shown, "line", "lines"),
        };
        let summary = format!("Read {name} ({how_much})");
        let markdown = format!("Read {} ({how_much})", place.link());
        if self.lines == 0 {
            return ToolOutput::text(summary, format!("{name} is empty.")).with_markdown(markdown);
        }
        if self.shown == 0 {
            let lines = count(self.lines, "line", "lines");
            return ToolOutput::text(summary, format!("{name} has only {lines}.")).with_markdown(markdown);
        }
        let next = request.offset + self.shown;
        if !self.is_counted {
            self.text
                .push_str(&format!("[many more lines; read on with `offset` {next}]\n"));
        } else if self.lines >= next {
            let more = count(self.lines + 1 - next, "more line", "more lines");
            self.text.push_str(&format!("[{more}; read on with `offset` {next}]\n"));
        }
        ToolOutput::text(summary, self.text).with_markdown(markdown)
    }
}

/// Skips the rest of a line and returns its length in bytes.
fn skip_line(reader: &mut impl BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(used);
        skipped += used as u64;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

/// Returns the media type of an image by its first bytes.
fn image_type(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn read_image(
    place: &ToolPath,
    file: File,
    start: Vec<u8>,
    media_type: &str,
    limits: &ToolLimits,
) -> Result<ToolOutput, String> {
    let mut bytes = start;
    let rest = limits.image_bytes.saturating_sub(bytes.len() as u64).saturating_add(1);
    let reading = file.take(rest).read_to_end(&mut bytes);
    reading.map_err(|error| place.complaint(&error))?;
    if bytes.len() as u64 > limits.image_bytes {
        return Err(format!(
            "{} is an image of more than {} bytes, which is too large to look at: make it smaller first",
            place.quoted(),
            limits.image_bytes
        ));
    }
    let size = count(bytes.len(), "byte", "bytes");
    let image = Image {
        media_type: media_type.to_owned(),
        base64: STANDARD.encode(&bytes),
    };
    Ok(ToolOutput {
        summary: format!("Looked at {}", place.quoted()),
        markdown: Some(format!("Looked at {}", place.link())),
        content: vec![ToolContent::Resource {
            uri: place.uri(),
            content_type: Some(media_type.to_owned()),
            size: None,
            mention: None,
        }],
        text: format!("{} is an image ({media_type}, {size}), shown here.", place.quoted()),
        images: vec![image],
    })
}
