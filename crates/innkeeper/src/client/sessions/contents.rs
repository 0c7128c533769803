//! What is kept beside a session, in an export: lines around those of the session itself.
//!
//! A line before the session says that contents follow it, each of them is one line after the session's end, the
//! latest first, and a last line says how many they were. A session without contents is exported without any of
//! this, as it always was.

use std::io::Write;
use std::time::{Duration, SystemTime};

use ahp_types::common::ROOT_RESOURCE_URI;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_host::{Content, ContentLimits, Contents as _, content_name};
use innkeeper_local::KeptContents;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::connect::Connection;
use crate::failure::{Failure, Kind};
use crate::text::{one_line, warn};

use super::import::{MOST_AT_ONCE, unreadable};
use super::kept::Place;
use super::source::Source;

/// How the lines begin.
const FOLLOWS: &[u8] = b"{\"contents\":";
const ONE: &[u8] = b"{\"content\":";
const END: &[u8] = b"{\"contentsEnd\":";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Contents { session: String },
    Content(One),
    ContentsEnd { session: String, count: usize },
}

/// One content. Its name is a digest of what it is, so nobody changes it unnoticed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct One {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    kept_ms: u64,
    /// In base64.
    data: String,
}

/// Says that contents follow, if there are any now. Returns whether it did.
pub(super) fn announce(place: &Place, session: &str, out: &mut dyn Write) -> Result<bool, Failure> {
    let has_any = !list(place, session)?.is_empty();
    if has_any {
        let session = session.to_owned();
        write(out, &Line::Contents { session })?;
    }
    Ok(has_any)
}

/// Writes what is kept beside a session: whatever its turns refer to was kept before they were, so it is looked for
/// after them. What was announced gets its end, even if all of it has gone meanwhile.
pub(super) fn export(place: &Place, session: &str, announced: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let found = list(place, session)?;
    let has_end = announced || !found.is_empty();
    let mut left_out = LeftOut::default();
    let mut count = 0;
    for (name, kept_ms) in found {
        match KeptContents::look(&place.contents(), session, &name) {
            // The oldest go while a host runs; so it would be after the export.
            Ok(None) => {}
            Ok(Some(content)) if content_name(&content.bytes, content.content_type.as_deref()) != name => {
                left_out.add("their files are damaged");
            }
            Ok(Some(content)) => {
                count += 1;
                let line = Line::Content(One {
                    name,
                    content_type: content.content_type,
                    kept_ms,
                    data: STANDARD.encode(&content.bytes),
                });
                write(out, &line)?;
            }
            Err(error) => left_out.add(&format!("their files cannot be read ({error})")),
        }
    }
    left_out.tell(session);
    let end = Line::ContentsEnd {
        session: session.to_owned(),
        count,
    };
    match has_end {
        true => write(out, &end),
        false => Ok(()),
    }
}

/// Names and ages, the latest first.
fn list(place: &Place, session: &str) -> Result<Vec<(String, u64)>, Failure> {
    let directory = place.contents();
    let listed = KeptContents::list(&directory, session).map_err(|error| {
        let text = format!("{} cannot be read ({error})", directory.display());
        Failure::new(Kind::DataDirectory, text)
    })?;
    let milliseconds = |at: SystemTime| {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or_default()
    };
    let mut found: Vec<(String, u64)> = listed.into_iter().map(|(name, at)| (name, milliseconds(at))).collect();
    // The order that is left when it was imported, where fractions are gone.
    found.sort_by(|(one, at), (other, later)| later.cmp(at).then_with(|| one.cmp(other)));
    Ok(found)
}

fn write(out: &mut dyn Write, line: &Line) -> Result<(), Failure> {
    let written = serde_json::to_writer(&mut *out, line)
        .map_err(std::io::Error::from)
        .and_then(|()| out.write_all(b"\n"));
    written.map_err(|error| {
        let text = format!("what is kept beside the session cannot be written there ({error})");
        Failure::new(Kind::Unexpected, text)
    })
}

/// Who keeps what comes with a session.
pub(super) enum Keeper<'a> {
    /// The data directory, while no host runs on it, and the most bytes that its hosts read of one resource.
    Here(KeptContents, usize),
    /// A host that runs.
    Host(&'a Connection),
}

impl Keeper<'_> {
    /// The data directory, with the bounds of its configuration.
    pub(super) fn here(place: &Place) -> Self {
        let limits = place.config.limits();
        let most = limits.resource_bytes;
        let limits = ContentLimits {
            session_bytes: limits.content_session_bytes,
            total_bytes: limits.content_total_bytes,
        };
        Self::Here(KeptContents::new(place.contents(), limits), most)
    }

    /// Keeps a content; or says why not.
    async fn keep(&self, session: &str, one: One) -> Result<(), String> {
        let no_room = "there is no room for them: content_session_bytes and content_total_bytes bound what is kept";
        match self {
            Self::Here(kept, most) => {
                let damaged = "they were changed on their way";
                let bytes = STANDARD.decode(&one.data).map_err(|_| damaged)?;
                if bytes.len() > *most {
                    return Err(format!("they are larger than the {most} bytes of resource_bytes"));
                }
                if content_name(&bytes, one.content_type.as_deref()) != one.name {
                    return Err(damaged.to_owned());
                }
                let content = Content {
                    bytes,
                    content_type: one.content_type,
                };
                let at = SystemTime::UNIX_EPOCH + Duration::from_millis(one.kept_ms);
                match kept.restore(session, &one.name, content, at).await? {
                    true => Ok(()),
                    false => Err(no_room.to_owned()),
                }
            }
            Self::Host(connection) => {
                if one.data.len() as u64 > MOST_AT_ONCE {
                    let why = "they are too large for a host that runs: to have them, delete the session, stop the \
                               host, import again, and start it";
                    return Err(why.to_owned());
                }
                let params = json!({
                    "channel": ROOT_RESOURCE_URI,
                    "session": session,
                    "name": one.name,
                    "contentType": one.content_type,
                    "keptMs": one.kept_ms,
                    "data": one.data,
                });
                let kept: Result<Kept, Failure> = connection.request("innkeeper/importContent", params).await;
                match kept {
                    Ok(Kept { kept: true }) => Ok(()),
                    Ok(Kept { kept: false }) => Err(no_room.to_owned()),
                    Err(failure) => Err(one_line(failure.message(), 300)),
                }
            }
        }
    }
}

/// What a host answers.
#[derive(Deserialize)]
struct Kept {
    kept: bool,
}

/// Whether contents follow the session that comes next.
pub(super) fn are_announced(source: &mut Source) -> Result<bool, Failure> {
    let is_announced = source.peek().map_err(|error| unreadable(&error))?.starts_with(FOLLOWS);
    if is_announced {
        source.take().map_err(|error| unreadable(&error))?;
    }
    Ok(is_announced)
}

/// Takes in what follows a session, which is there already. Returns how many were kept; what was left out is said.
pub(super) async fn import(
    source: &mut Source,
    announced: bool,
    session: &str,
    keeper: &Keeper<'_>,
) -> Result<usize, Failure> {
    let incomplete = || {
        let text = format!("the file is not complete: results kept beside {session} are missing in it");
        Failure::new(Kind::Rejected, text).hint("the session itself was imported; delete it before you try again")
    };
    let (mut kept, mut read) = (0, 0);
    let mut left_out = LeftOut::default();
    loop {
        let next = source.peek().map_err(|error| unreadable(&error))?;
        let (is_one, is_end) = (next.starts_with(ONE), next.starts_with(END));
        if !is_one && !is_end {
            left_out.tell(session);
            return match announced || read > 0 {
                true => Err(incomplete()),
                false => Ok(0),
            };
        }
        let line = source.take().map_err(|error| unreadable(&error))?;
        match serde_json::from_slice(&line) {
            Ok(Line::Content(one)) => {
                read += 1;
                match keeper.keep(session, one).await {
                    Ok(()) => kept += 1,
                    Err(why) => left_out.add(&why),
                }
            }
            Ok(Line::ContentsEnd { count, .. }) => {
                left_out.tell(session);
                return match count == read {
                    true => Ok(kept),
                    false => Err(incomplete()),
                };
            }
            Ok(Line::Contents { .. }) | Err(_) => {
                left_out.tell(session);
                return Err(incomplete());
            }
        }
    }
}

/// What was left out, and why.
#[derive(Default)]
struct LeftOut(Vec<(String, usize)>);

impl LeftOut {
    fn add(&mut self, why: &str) {
        match self.0.iter_mut().find(|(known, _)| known == why) {
            Some((_, count)) => *count += 1,
            None => self.0.push((why.to_owned(), 1)),
        }
    }

    fn tell(&self, session: &str) {
        for (why, count) in &self.0 {
            let session = one_line(session, 200);
            warn(&format!(
                "{count} results kept beside {session} are left out, and references to them lead nowhere: {why}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;
    use crate::data_dir::DataDir;

    #[test]
    fn what_was_announced_has_an_end_even_if_all_of_it_is_gone() {
        let temp = tempfile::tempdir().expect("a directory");
        let place = Place {
            dir: DataDir::existing(temp.path().to_owned()),
            config: ConfigFile::default(),
        };
        let exported = |announced: bool| {
            let mut out = Vec::new();
            export(&place, "ahp-session:/one", announced, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        let end = "{\"contentsEnd\":{\"session\":\"ahp-session:/one\",\"count\":0}}\n";
        assert_eq!((exported(true).as_str(), exported(false).as_str()), (end, ""));
    }
}
