//! Exports the contents that the host stores beside a session.

use std::io::Write;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::sessions::{ContentsLine, ExportedContent, LeftOut};
use innkeeper_host::contents::content_name;
use innkeeper_workspace::BlobStore;

use super::offline::Offline;

/// Writes the announcement if the session has contents now. Returns whether it did.
pub(super) fn announce(data: &Offline, session: &str, out: &mut dyn Write) -> Result<bool, Failure> {
    let has_any = !list(data, session)?.is_empty();
    if has_any {
        let session = session.to_owned();
        write(out, &ContentsLine::Contents { session })?;
    }
    Ok(has_any)
}

/// Writes the contents of a session. Contents are stored before the turns that refer to them, so list them after the
/// turns were written. An announcement gets its end line, even if all contents were removed meanwhile.
pub(super) fn export(data: &Offline, session: &str, announced: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let found = list(data, session)?;
    let has_end = announced || !found.is_empty();
    let mut left_out = LeftOut::default();
    let mut count = 0;
    for (name, kept_ms) in found {
        match BlobStore::look(&data.contents(), session, &name) {
            // A running host removes the oldest contents.
            Ok(None) => {}
            Ok(Some(content)) if content_name(&content.bytes, content.content_type.as_deref()) != name => {
                left_out.add("their files are damaged");
            }
            Ok(Some(content)) => {
                count += 1;
                let line = ContentsLine::Content(ExportedContent {
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
    left_out.warn(session);
    let end = ContentsLine::ContentsEnd {
        session: session.to_owned(),
        count,
    };
    match has_end {
        true => write(out, &end),
        false => Ok(()),
    }
}

/// Returns names and times, the latest first.
fn list(data: &Offline, session: &str) -> Result<Vec<(String, u64)>, Failure> {
    let directory = data.contents();
    let listed = BlobStore::list(&directory, session).map_err(|error| {
        let text = format!("{} cannot be read ({error})", directory.display());
        Failure::new(Kind::DataDirectory, text)
    })?;
    let milliseconds = |at: SystemTime| {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or_default()
    };
    let mut found: Vec<(String, u64)> = listed.into_iter().map(|(name, at)| (name, milliseconds(at))).collect();
    // Sort by the milliseconds that an import restores.
    found.sort_by(|(one, at), (other, later)| later.cmp(at).then_with(|| one.cmp(other)));
    Ok(found)
}

fn write(out: &mut dyn Write, line: &ContentsLine) -> Result<(), Failure> {
    let written = serde_json::to_writer(&mut *out, line)
        .map_err(std::io::Error::from)
        .and_then(|()| out.write_all(b"\n"));
    written.map_err(|error| {
        let text = format!("the contents of the session cannot be written ({error})");
        Failure::new(Kind::Unexpected, text)
    })
}

#[cfg(test)]
mod tests {
    use innkeeper_cli::discovery::DataDir;

    use super::*;
    use crate::config::ConfigFile;

    #[test]
    fn announced_contents_have_an_end_line_even_if_all_are_removed() {
        let temp = tempfile::tempdir().expect("a directory");
        let data = Offline {
            dir: DataDir::existing(temp.path().to_owned()),
            config: ConfigFile::default(),
        };
        let exported = |announced: bool| {
            let mut out = Vec::new();
            export(&data, "ahp-session:/one", announced, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        let end = "{\"contentsEnd\":{\"session\":\"ahp-session:/one\",\"count\":0}}\n";
        assert_eq!((exported(true).as_str(), exported(false).as_str()), (end, ""));
    }
}
