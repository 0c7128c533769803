//! Contents that a host keeps beside a session, in an export: the lines around those of the session itself.
//!
//! A line before the session announces contents. Each content is one line after the session's end, the latest first. The
//! last line has their count. A session without contents is exported without any of these lines.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind};
use crate::terminal::{one_line, warn};

use super::SessionBackend;
use super::export_file::ExportFile;
use super::import::unreadable;

/// How the lines begin.
const ANNOUNCEMENT: &[u8] = b"{\"contents\":";
const CONTENT: &[u8] = b"{\"content\":";
const END: &[u8] = b"{\"contentsEnd\":";

/// Why a content is left out that exceeds the limits.
pub const NO_ROOM: &str = "the limits content_session_bytes and content_total_bytes leave no room for them";

/// A line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContentsLine {
    /// Contents follow the session.
    Contents {
        /// The session.
        session: String,
    },
    /// One content.
    Content(ExportedContent),
    /// All contents of the session were written.
    ContentsEnd {
        /// The session.
        session: String,
        /// How many they are.
        count: usize,
    },
}

/// One content. Its name is a digest of the rest, so a change is noticed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedContent {
    /// The digest.
    pub name: String,
    /// Its media type, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// When it was stored, in milliseconds since 1970.
    pub kept_ms: u64,
    /// The bytes in base64.
    pub data: String,
}

/// Returns whether contents follow the next session, and skips the line that says so.
pub(super) fn are_announced(file: &mut ExportFile) -> Result<bool, Failure> {
    let next = file.peek().map_err(|error| unreadable(&error))?;
    let is_announced = next.starts_with(ANNOUNCEMENT);
    if is_announced {
        file.take().map_err(|error| unreadable(&error))?;
    }
    Ok(is_announced)
}

/// Imports the contents of a session that was just imported, and warns about those that were left out. Returns how many
/// were imported.
pub(super) async fn import(
    file: &mut ExportFile,
    announced: bool,
    session: &str,
    backend: &mut impl SessionBackend,
) -> Result<usize, Failure> {
    let incomplete = || {
        let text = format!("the file is incomplete: it lacks stored results of {session}");
        Failure::new(Kind::Rejected, text).hint("the session itself was imported; delete it before you try again")
    };
    let (mut imported, mut read) = (0, 0);
    let mut left_out = LeftOut::default();
    loop {
        let next = file.peek().map_err(|error| unreadable(&error))?;
        if !next.starts_with(CONTENT) && !next.starts_with(END) {
            left_out.warn(session);
            return match announced || read > 0 {
                true => Err(incomplete()),
                false => Ok(0),
            };
        }
        let line = file.take().map_err(|error| unreadable(&error))?;
        match serde_json::from_slice(&line) {
            Ok(ContentsLine::Content(content)) => {
                read += 1;
                match backend.import_content(session, content).await {
                    Ok(()) => imported += 1,
                    Err(why) => left_out.add(&why),
                }
            }
            Ok(ContentsLine::ContentsEnd { count, .. }) => {
                left_out.warn(session);
                return match count == read {
                    true => Ok(imported),
                    false => Err(incomplete()),
                };
            }
            Ok(ContentsLine::Contents { .. }) | Err(_) => {
                left_out.warn(session);
                return Err(incomplete());
            }
        }
    }
}

/// Contents that were left out, counted by reason.
#[derive(Debug, Default)]
pub struct LeftOut(Vec<(String, usize)>);

impl LeftOut {
    /// Counts one content.
    pub fn add(&mut self, why: &str) {
        match self.0.iter_mut().find(|(known, _)| known == why) {
            Some((_, count)) => *count += 1,
            None => self.0.push((why.to_owned(), 1)),
        }
    }

    /// Warns about each reason.
    pub fn warn(&self, session: &str) {
        for (why, count) in &self.0 {
            let session = one_line(session, 200);
            warn(&format!(
                "{count} stored results of {session} are left out, and references to them will not open: {why}"
            ));
        }
    }
}
