//! A result that is put together piece by piece, within bounds. Of what is too much, the beginning and the end are
//! shown, and the whole is kept.

use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{ResultTarget, bounds};
use crate::agent::ToolContent;
use crate::services::contents::SessionContents;

/// Maximum bytes of text that one call adds to its turn, and most of its result for programs: models read all of it.
pub(super) const MAX_TEXT_BYTES: usize = 96 << 10;
/// Maximum bytes of binary content of one call, in base64: the largest image that models take. It is
/// also what still passes to a client at once (`outbox_bytes`).
pub(super) const MAX_EMBEDDED_BYTES: usize = 5_000_000;
/// The most of them in one turn, which needs space for other parts too (`turn_bytes`): the rest is stored for users.
const MAX_TURN_EMBEDDED_BYTES: usize = 16 << 20;
/// The longest URI of a server, and the longest media type, that is shown.
const MAX_URI_BYTES: usize = 4 << 10;
const MAX_TYPE_CHARS: usize = 256;
/// Longest of what a server says of something that it links to.
const MAX_ABOUT_BYTES: usize = 1 << 10;
/// The overhead of a part of a text beside its text.
const PART_OVERHEAD: usize = 64;
/// Most pieces of content.
pub(super) const MAX_PIECES: usize = 256;

/// A result that is being shortened.
pub(super) struct Shortened<'a> {
    place: ResultTarget<'a>,
    text: usize,
    embedded: usize,
    shown: Vec<ToolContent>,
    /// Text of pieces beyond the most that are shown, and how many pieces these are.
    beyond: String,
    omitted: usize,
}

impl<'a> Shortened<'a> {
    pub(super) fn new(place: ResultTarget<'a>) -> Self {
        Self {
            place,
            text: MAX_TEXT_BYTES,
            embedded: MAX_EMBEDDED_BYTES,
            shown: Vec::new(),
            beyond: String::new(),
            omitted: 0,
        }
    }

    pub(super) async fn add(&mut self, piece: ToolContent) {
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
                mention,
            } => self.add_link(uri, content_type, size, mention).await,
            // No server has these.
            ToolContent::FileEdit(_) | ToolContent::Terminal { .. } | ToolContent::Subagent { .. } => {}
        }
    }

    /// Reserves bytes for an image, if the limits of the call and the turn allow it.
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

    /// Adds a link. Clients read every URI of a state from this host (RES-03), and the URI of a server may look like a
    /// file of this machine: so only a resource that the server lists becomes a reference, under the host's own URI,
    /// while the model gets the server's URI. Any other link is text for both.
    async fn add_link(&mut self, uri: String, content_type: Option<String>, size: Option<u64>, about: Option<String>) {
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
        let about = about
            .map(|about| format!("{}; ", bounds::cut(about, MAX_ABOUT_BYTES)))
            .unwrap_or_default();
        let mention = format!("[{about}{what}{kind}: {uri}]");
        let Some(listed) = listed else {
            return self.add_text(mention).await;
        };
        self.shown.push(ToolContent::Resource {
            uri: listed.uri,
            content_type: content_type.or_else(|| listed.content_type.as_deref().map(media_type)),
            size: size.or(listed.size),
            mention: Some(mention),
        });
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
            Ok(_) => format!("[{left_out} bytes are left out here; users can open the whole text]"),
            Err(why) => format!("[{left_out} bytes are left out here, and could not be stored: {why}; ask for less]"),
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
                        format!("[{content_type} of {size} bytes, which users can open]"),
                        Some(kept),
                    ),
                    Err(why) => (
                        format!("[{content_type} of {size} bytes is left out, and could not be stored: {why}]"),
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
    pub(super) async fn structured(&mut self, structured: Option<Map<String, Value>>) -> Option<Map<String, Value>> {
        let structured = structured?;
        let text = Value::Object(structured.clone()).to_string();
        if text.len() <= MAX_TEXT_BYTES {
            return Some(structured);
        }
        let size = text.len();
        let kept = self.keep(text.into_bytes(), Some("application/json".to_owned())).await;
        let note = match &kept {
            Ok(_) => format!("[the structured result has {size} bytes; users can open it]"),
            Err(why) => format!("[the structured result has {size} bytes, and could not be stored: {why}]"),
        };
        self.shown.push(ToolContent::Text(note));
        self.shown.extend(kept.ok());
        None
    }

    pub(super) async fn finish(mut self) -> Vec<ToolContent> {
        if self.omitted > 0 {
            let omitted = self.omitted;
            let text = std::mem::take(&mut self.beyond);
            let kept = match text.is_empty() {
                true => Err(String::new()),
                false => self.keep_text(text).await,
            };
            let note = match &kept {
                Ok(_) => format!("[{omitted} more pieces are left out; users can open their text]"),
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
        let contents = self.place.contents.ok_or("this host stores no blobs")?;
        let kept = contents.keep(bytes, content_type.clone()).await?;
        Ok(ToolContent::Resource {
            uri: kept.uri,
            content_type,
            size: Some(kept.size),
            mention: None,
        })
    }
}

/// A media type as a server names it, which may be anything.
fn media_type(named: &str) -> String {
    named.chars().filter(|c| !c.is_control()).take(MAX_TYPE_CHARS).collect()
}
