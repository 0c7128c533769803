//! What a tool gave back, within the bounds of a turn. What does not fit is kept beside the session, for people to
//! open (RES-03); the model reads what is shown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{CallOutcome, McpTool, bounds};
use crate::agent::{ToolContent, ToolResult};
use crate::contents::SessionContents;

/// Most bytes of text that one call adds to its turn, and most of its result for programs: models read all of it.
const MAX_TEXT_BYTES: usize = 96 << 10;
/// Most bytes of pictures and the like that one call adds, in base64: the largest picture that models take. It is
/// also what still passes to a client at once (`outbox_bytes`).
const MAX_EMBEDDED_BYTES: usize = 5_000_000;
/// Most of them in one turn, which has room for other things too (`turn_bytes`): the rest is kept for people.
const MAX_TURN_EMBEDDED_BYTES: usize = 16 << 20;
/// Longest URI of a server's that is told, and longest media type.
const MAX_URI_BYTES: usize = 4 << 10;
const MAX_TYPE_CHARS: usize = 256;
/// What a part of a text may take besides its text.
const PART_OVERHEAD: usize = 64;
/// Most pieces of content.
const MAX_PIECES: usize = 256;

/// What a result is put into.
pub(super) struct Place<'a> {
    /// Where what does not fit is kept.
    pub(super) contents: Option<&'a SessionContents>,
    /// What the server lists, by its own URIs, and what this host calls it.
    pub(super) listed: HashMap<String, Listed>,
    /// Bytes of pictures and the like that the turn has already.
    pub(super) embedded: &'a AtomicUsize,
}

/// Something that a server lists, as this host serves it.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) uri: String,
    pub(super) content_type: Option<String>,
    pub(super) size: Option<u64>,
}

/// The result as people and the model get it.
pub(super) async fn result_of(tool: &McpTool, outcome: CallOutcome, place: Place<'_>) -> ToolResult {
    let CallOutcome {
        is_error,
        content,
        structured,
    } = outcome;
    let shown = tool.shown_name();
    let mut shortened = Shortened::new(place);
    for piece in content {
        shortened.add(piece).await;
    }
    let structured = shortened.structured(structured).await;
    let content = shortened.finish().await;
    let texts = content.iter().filter_map(|piece| match piece {
        ToolContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let error = is_error.then(|| match texts.collect::<Vec<_>>().join("\n") {
        words if words.is_empty() => format!("{shown} failed and did not say why"),
        words => bounds::message(words),
    });
    ToolResult {
        success: !is_error,
        summary: match is_error {
            false => format!("Called {shown} of {}", tool.server_name),
            true => format!("{shown} of {} failed", tool.server_name),
        },
        content,
        structured,
        error,
    }
}

/// A result that is being shortened.
struct Shortened<'a> {
    place: Place<'a>,
    text: usize,
    embedded: usize,
    shown: Vec<ToolContent>,
    /// Text of pieces beyond the most that are shown, and how many pieces these are.
    beyond: String,
    omitted: usize,
}

impl<'a> Shortened<'a> {
    fn new(place: Place<'a>) -> Self {
        Self {
            place,
            text: MAX_TEXT_BYTES,
            embedded: MAX_EMBEDDED_BYTES,
            shown: Vec::new(),
            beyond: String::new(),
            omitted: 0,
        }
    }

    async fn add(&mut self, piece: ToolContent) {
        if self.shown.len() >= MAX_PIECES {
            self.omitted += 1;
            if let ToolContent::Text(text) = piece {
                self.beyond.push_str(&text);
                self.beyond.push('\n');
            }
            return;
        }
        match piece {
            ToolContent::Text(text) => self.add_text(text).await,
            ToolContent::Embedded { data, content_type } => {
                let content_type = media_type(&content_type);
                match self.has_room(data.len() + content_type.len()) {
                    true => self.shown.push(ToolContent::Embedded { data, content_type }),
                    false => self.add_bytes(data, content_type).await,
                }
            }
            ToolContent::Resource {
                uri,
                content_type,
                size,
            } => self.add_link(uri, content_type, size).await,
            // No server has these.
            ToolContent::FileEdit(_) | ToolContent::Terminal { .. } | ToolContent::Subagent { .. } => {}
        }
    }

    /// Takes room for a picture, if this call and this turn have it.
    fn has_room(&mut self, bytes: usize) -> bool {
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= MAX_TURN_EMBEDDED_BYTES);
        let fits = bytes <= self.embedded
            && self
                .place
                .embedded
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok();
        if fits {
            self.embedded -= bytes;
        }
        fits
    }

    /// Says where something is. Clients read every URI of a state from this host (RES-03), and what a server calls
    /// something may be a file of this machine: so only what the server lists is a link, under the host's own name
    /// for it, and the server's is but told.
    async fn add_link(&mut self, uri: String, content_type: Option<String>, size: Option<u64>) {
        let listed = self.place.listed.get(&uri).cloned();
        let content_type = content_type.as_deref().map(media_type);
        let kind = content_type
            .as_ref()
            .map(|kind| format!(" ({kind})"))
            .unwrap_or_default();
        let is_web = ["http://", "https://"].iter().any(|scheme| {
            let start = uri.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let what = match (&listed, is_web) {
            (Some(_), _) => "a resource of the server",
            (None, true) => "a link",
            (None, false) => "something that only the server can read",
        };
        let uri = bounds::cut(uri, MAX_URI_BYTES);
        self.add_text(format!("[{what}{kind}: {uri}]")).await;
        self.shown.extend(listed.map(|listed| ToolContent::Resource {
            uri: listed.uri,
            content_type: content_type.or_else(|| listed.content_type.as_deref().map(media_type)),
            size: size.or(listed.size),
        }));
    }

    async fn add_text(&mut self, text: String) {
        if text.len() <= self.text {
            self.text -= text.len();
            self.shown.push(ToolContent::Text(text));
            return;
        }
        // The beginning and the end say most.
        let room = std::mem::take(&mut self.text);
        let head = text.floor_char_boundary(room / 2);
        let tail = text.ceil_char_boundary(text.len() - (room - room / 2));
        let (head, tail) = (
            text.get(..head).unwrap_or_default(),
            text.get(tail..).unwrap_or_default(),
        );
        let left_out = text.len() - head.len() - tail.len();
        let (head, tail) = (head.to_owned(), tail.to_owned());
        let kept = self.keep_text(text).await;
        let note = match &kept {
            Ok(_) => format!("[{left_out} bytes are left out here; people can open the whole text]"),
            Err(why) => format!("[{left_out} bytes are left out here, and could not be kept: {why}; ask for less]"),
        };
        self.shown.push(ToolContent::Text(format!("{head}\n{note}\n{tail}")));
        self.shown.extend(kept.unwrap_or_default());
    }

    async fn add_bytes(&mut self, data: String, content_type: String) {
        let clean: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let (note, kept) = match STANDARD.decode(&clean) {
            Ok(bytes) => {
                let size = bytes.len();
                match self.keep(bytes, Some(content_type.clone())).await {
                    Ok(kept) => (
                        format!("[{content_type} of {size} bytes, which people can open]"),
                        Some(kept),
                    ),
                    Err(why) => (
                        format!("[{content_type} of {size} bytes is left out, and could not be kept: {why}]"),
                        None,
                    ),
                }
            }
            Err(_) => (
                format!("[{content_type} is left out: it is too large, and not base64]"),
                None,
            ),
        };
        self.shown.push(ToolContent::Text(note));
        self.shown.extend(kept);
    }

    /// The result for programs, if it is not too large: half of it is no use.
    async fn structured(&mut self, structured: Option<Map<String, Value>>) -> Option<Map<String, Value>> {
        let structured = structured?;
        let text = Value::Object(structured.clone()).to_string();
        if text.len() <= MAX_TEXT_BYTES {
            return Some(structured);
        }
        let size = text.len();
        let kept = self.keep(text.into_bytes(), Some("application/json".to_owned())).await;
        let note = match &kept {
            Ok(_) => format!("[the structured result has {size} bytes; people can open it]"),
            Err(why) => format!("[the structured result has {size} bytes, and could not be kept: {why}]"),
        };
        self.shown.push(ToolContent::Text(note));
        self.shown.extend(kept.ok());
        None
    }

    async fn finish(mut self) -> Vec<ToolContent> {
        if self.omitted > 0 {
            let omitted = self.omitted;
            let text = std::mem::take(&mut self.beyond);
            let kept = match text.is_empty() {
                true => Err(String::new()),
                false => self.keep_text(text).await,
            };
            let note = match &kept {
                Ok(_) => format!("[{omitted} more pieces are left out; people can open their text]"),
                Err(_) => format!("[{omitted} more pieces of the result are left out: ask for less]"),
            };
            self.shown.push(ToolContent::Text(note));
            self.shown.extend(kept.unwrap_or_default());
        }
        self.shown
    }

    /// Keeps a text, in as many parts as it takes to read it again.
    async fn keep_text(&self, text: String) -> Result<Vec<ToolContent>, String> {
        let most = self.place.contents.map_or(usize::MAX, SessionContents::most).max(4);
        // One part would push out another: half a text is no use.
        if let Some(room) = self.place.contents.map(SessionContents::room)
            && text.len().saturating_add(text.len() / most * PART_OVERHEAD) > room
        {
            return Err(format!("a session may keep {room} bytes, and this has {}", text.len()));
        }
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(most));
            let part = self.keep(part.as_bytes().to_vec(), Some("text/plain".to_owned()));
            parts.push(part.await?);
            rest = after;
        }
        Ok(parts)
    }

    async fn keep(&self, bytes: Vec<u8>, content_type: Option<String>) -> Result<ToolContent, String> {
        let contents = self.place.contents.ok_or("nothing is kept here")?;
        let kept = contents.keep(bytes, content_type.clone()).await?;
        Ok(ToolContent::Resource {
            uri: kept.uri,
            content_type,
            size: Some(kept.size),
        })
    }
}

/// A media type as a server names it, which may be anything.
fn media_type(named: &str) -> String {
    named.chars().filter(|c| !c.is_control()).take(MAX_TYPE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contents::{ContentLimits, Contents as _, MemoryContents, read};

    fn tool() -> McpTool {
        McpTool {
            tool: "read".to_owned(),
            server_name: "files".to_owned(),
            ..McpTool::default()
        }
    }

    fn contents(most: usize) -> (Arc<MemoryContents>, SessionContents) {
        let contents = Arc::new(MemoryContents::new(ContentLimits {
            session_bytes: 20 << 20,
            total_bytes: 20 << 20,
        }));
        let of_session = SessionContents::new(contents.clone(), "ahp-session:/s".into(), most);
        (contents, of_session)
    }

    /// What a call gives back in a turn of its own.
    async fn shortened(outcome: CallOutcome, contents: Option<&SessionContents>) -> ToolResult {
        let embedded = AtomicUsize::new(0);
        let place = Place {
            contents,
            listed: HashMap::new(),
            embedded: &embedded,
        };
        result_of(&tool(), outcome, place).await
    }

    fn picture(base64: usize) -> ToolContent {
        ToolContent::Embedded {
            data: "A".repeat(base64),
            content_type: "image/png".to_owned(),
        }
    }

    fn texts(content: &[ToolContent]) -> String {
        let texts = content.iter().filter_map(|piece| match piece {
            ToolContent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    fn kept(content: &[ToolContent]) -> Vec<(String, Option<String>, Option<u64>)> {
        let kept = content.iter().filter_map(|piece| match piece {
            ToolContent::Resource {
                uri,
                content_type,
                size,
            } => Some((uri.clone(), content_type.clone(), *size)),
            _ => None,
        });
        kept.collect()
    }

    #[tokio::test]
    async fn mcp12_an_error_of_the_tool_is_told_in_its_words() {
        let outcome = CallOutcome {
            is_error: true,
            content: vec![ToolContent::Text("no such file".to_owned())],
            structured: None,
        };
        let result = shortened(outcome, None).await;
        assert!(!result.success);
        assert_eq!(result.error.as_deref(), Some("no such file"));
        let silent = CallOutcome {
            is_error: true,
            ..CallOutcome::default()
        };
        let error = shortened(silent, None).await.error.expect("an error");
        assert_eq!(error, "read failed and did not say why");
    }

    #[tokio::test]
    async fn res03_f17_what_is_too_long_is_shortened_and_kept_as_a_whole() {
        let long = format!("begin{}ende", "ä".repeat(MAX_TEXT_BYTES));
        let picture = STANDARD.encode(vec![7; MAX_EMBEDDED_BYTES]);
        let outcome = CallOutcome {
            content: vec![
                ToolContent::Text(long.clone()),
                ToolContent::Text("more".to_owned()),
                ToolContent::Embedded {
                    data: picture,
                    content_type: "image/png".to_owned(),
                },
            ],
            structured: json(&long),
            ..CallOutcome::default()
        };
        let (store, of_session) = contents(8 << 20);
        let result = shortened(outcome, Some(&of_session)).await;
        let shown = texts(&result.content);
        assert!(shown.len() < MAX_TEXT_BYTES + 2048, "{}", shown.len());
        assert!(
            shown.starts_with("begin") && shown.contains("ende\n"),
            "both ends are shown"
        );
        assert_eq!(shown.matches("people can open").count(), 4, "{}", shown.len());
        assert_eq!(result.structured, None);
        let kept = kept(&result.content);
        let types: Vec<_> = kept
            .iter()
            .map(|(_, kind, _)| kind.as_deref().unwrap_or_default())
            .collect();
        assert_eq!(types, ["text/plain", "text/plain", "image/png", "application/json"]);
        for ((uri, _, size), expected) in kept.iter().zip([long.len(), 4, MAX_EMBEDDED_BYTES]) {
            let content = read(&*store, uri).await.expect("it is kept");
            assert_eq!((content.bytes.len(), *size), (expected, u64::try_from(expected).ok()));
        }
        store.forget("ahp-session:/s").await;
        let gone = read(&*store, &kept[0].0).await.expect_err("it is gone");
        assert!(gone.to_string().contains("not kept any more"), "{gone}");
    }

    #[tokio::test]
    async fn f17_what_is_too_long_to_be_read_at_once_is_kept_in_parts_and_what_cannot_be_kept_says_so() {
        let long = "ä".repeat(MAX_TEXT_BYTES);
        let outcome = || CallOutcome {
            content: vec![ToolContent::Text(long.clone())],
            ..CallOutcome::default()
        };
        let (store, of_session) = contents(MAX_TEXT_BYTES + 1);
        let result = shortened(outcome(), Some(&of_session)).await;
        let mut whole = Vec::new();
        for (uri, _, _) in kept(&result.content) {
            whole.extend(read(&*store, &uri).await.expect("it is kept").bytes);
        }
        assert_eq!(whole, long.as_bytes());
        let result = shortened(outcome(), None).await;
        assert!(texts(&result.content).contains("could not be kept"));
        assert!(kept(&result.content).is_empty());
    }

    #[tokio::test]
    async fn f17_a_text_whose_parts_would_push_each_other_out_is_not_kept_at_all() {
        let contents = Arc::new(MemoryContents::new(ContentLimits {
            session_bytes: 100 << 10,
            total_bytes: 20 << 20,
        }));
        let of_session = SessionContents::new(contents, "ahp-session:/s".into(), 60 << 10);
        let outcome = CallOutcome {
            content: vec![ToolContent::Text("x".repeat(110 << 10))],
            ..CallOutcome::default()
        };
        let content = shortened(outcome, Some(&of_session)).await.content;
        assert!(kept(&content).is_empty());
        assert!(texts(&content).contains("a session may keep 102400 bytes"));
    }

    #[tokio::test]
    async fn res03_only_what_a_server_lists_is_a_link_and_under_a_name_of_the_hosts() {
        let link = |uri: &str| ToolContent::Resource {
            uri: uri.to_owned(),
            content_type: None,
            size: None,
        };
        let outcome = CallOutcome {
            content: ["inn://rooms", "file:///etc/passwd", "HTTPS://inn.example/"]
                .map(link)
                .to_vec(),
            ..CallOutcome::default()
        };
        let listed = Listed {
            uri: "mcp-resource:/x".to_owned(),
            content_type: Some("text/plain".to_owned()),
            size: Some(9),
        };
        let place = Place {
            contents: None,
            listed: HashMap::from([("inn://rooms".to_owned(), listed)]),
            embedded: &AtomicUsize::new(0),
        };
        let content = result_of(&tool(), outcome, place).await.content;
        let served = ("mcp-resource:/x".to_owned(), Some("text/plain".to_owned()), Some(9));
        assert_eq!(kept(&content), [served]);
        assert_eq!(
            texts(&content),
            "[a resource of the server: inn://rooms]\n[something that only the server can read: \
             file:///etc/passwd]\n[a link: HTTPS://inn.example/]"
        );
    }

    #[tokio::test]
    async fn f17_what_a_server_calls_something_is_cut() {
        let long = "x".repeat(1 << 20);
        let outcome = CallOutcome {
            content: vec![
                ToolContent::Resource {
                    uri: format!("inn://{long}"),
                    content_type: Some(long.clone()),
                    size: None,
                },
                ToolContent::Embedded {
                    data: "AAAA".to_owned(),
                    content_type: format!("image/png\n{long}"),
                },
            ],
            ..CallOutcome::default()
        };
        let content = shortened(outcome, None).await.content;
        let size = format!("{content:?}").len();
        assert!(size < 8 << 10, "{size}");
    }

    #[tokio::test]
    async fn f17_pictures_are_shown_as_long_as_the_turn_has_room_and_then_kept() {
        let (_, of_session) = contents(8 << 20);
        let embedded = AtomicUsize::new(0);
        let mut shown = Vec::new();
        for _ in 0..4 {
            let place = Place {
                contents: Some(&of_session),
                listed: HashMap::new(),
                embedded: &embedded,
            };
            let outcome = CallOutcome {
                content: vec![picture(4_900_000), picture(1_000_000)],
                ..CallOutcome::default()
            };
            let content = result_of(&tool(), outcome, place).await.content;
            let is_shown = |piece: &&ToolContent| matches!(piece, ToolContent::Embedded { .. });
            shown.push((content.iter().filter(is_shown).count(), kept(&content).len()));
        }
        assert_eq!(
            shown,
            [(1, 1), (1, 1), (1, 1), (1, 1)],
            "the last time the small one has room"
        );
    }

    #[tokio::test]
    async fn f17_pieces_are_counted() {
        let outcome = CallOutcome {
            content: (0..300).map(|n| ToolContent::Text(format!("piece {n}"))).collect(),
            ..CallOutcome::default()
        };
        let (store, of_session) = contents(8 << 20);
        let content = shortened(outcome, Some(&of_session)).await.content;
        assert_eq!(content.len(), MAX_PIECES + 2);
        assert!(texts(&content).contains("44 more pieces"));
        let beyond = read(&*store, &kept(&content)[0].0).await.expect("it is kept");
        assert!(beyond.bytes.starts_with(b"piece 256\n"));
    }

    fn json(text: &str) -> Option<Map<String, Value>> {
        Some(Map::from_iter([("text".to_owned(), Value::String(text.to_owned()))]))
    }
}
