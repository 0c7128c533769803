//! Gives an exported session and its chats other URIs.

use std::io::BufRead;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::failure::{Failure, Kind};

use super::import::unreadable;

/// Reads one exported session and gives it, and each of its chats, a new URI.
///
/// Documents and actions have URIs as whole JSON strings. Replaces these strings and leaves everything else unchanged,
/// byte by byte.
pub(crate) fn rename(lines: &mut dyn BufRead, uri: &str) -> Result<String, Failure> {
    let mut text = String::new();
    lines.read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    let mut names = Names::default();
    for line in text.lines() {
        names.add(line, uri)?;
    }
    if names.session.is_none() {
        return Err(Failure::new(Kind::Rejected, "there is no session in this file"));
    }
    let mut renamed = String::with_capacity(text.len());
    for line in text.lines() {
        renamed.push_str(&names.replace(line));
        renamed.push('\n');
    }
    Ok(renamed)
}

/// Old URIs as JSON strings, and the new ones.
#[derive(Default)]
struct Names {
    session: Option<String>,
    pairs: Vec<(String, String)>,
}

/// The part of a line that renaming needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Session(Named),
    Chat(Named),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Named {
    uri: String,
}

impl Names {
    fn add(&mut self, line: &str, uri: &str) -> Result<(), Failure> {
        // The store reports lines that cannot be read.
        let is_named = line.starts_with("{\"session\":") || line.starts_with("{\"chat\":");
        if !is_named {
            return Ok(());
        }
        match serde_json::from_str(line) {
            Ok(Line::Session(_)) if self.session.is_some() => Err(Failure::new(
                Kind::Usage,
                "--as names one session, and this file holds several",
            )
            .hint("export the one you mean alone")),
            Ok(Line::Session(session)) => {
                self.pair(&session.uri, uri);
                self.session = Some(session.uri);
                Ok(())
            }
            Ok(Line::Chat(chat)) => {
                // Default chats and chats of subagents are named after their session.
                let before = URL_SAFE_NO_PAD.encode(self.session.as_deref().unwrap_or_default());
                let new = match chat.uri.contains(&before) && !before.is_empty() {
                    true => chat.uri.replace(&before, &URL_SAFE_NO_PAD.encode(uri)),
                    false => format!("ahp-chat:/{}", uuid::Uuid::new_v4()),
                };
                self.pair(&chat.uri, &new);
                Ok(())
            }
            Ok(Line::Other) | Err(_) => Ok(()),
        }
    }

    fn pair(&mut self, old: &str, new: &str) {
        self.pairs.push((quoted(old), quoted(new)));
    }

    fn replace(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (old, new) in &self.pairs {
            if line.contains(old.as_str()) {
                line = line.replace(old.as_str(), new);
            }
        }
        line
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_chat(session: &str) -> String {
        format!("ahp-chat://default/{}", URL_SAFE_NO_PAD.encode(session))
    }

    #[test]
    fn every_mention_gets_the_new_name_and_nothing_else_changes() {
        let old = default_chat("ahp-session:/a");
        let file = format!(
            "{{\"session\":{{\"uri\":\"ahp-session:/a\",\"x\":{{\"json\":{{\"chats\":[\"{old}\",\"ahp-chat:/w\"],\"n\":1.0}}}}}}}}\n\
             {{\"chat\":{{\"uri\":\"{old}\"}}}}\n\
             {{\"chat\":{{\"uri\":\"ahp-chat:/w\",\"text\":\"about ahp-session:/a\"}}}}\n\
             {{\"end\":{{}}}}\n"
        );
        let renamed = rename(&mut file.as_bytes(), "ahp-session:/b").unwrap();
        assert!(
            !renamed.contains(&old) && !renamed.contains("\"ahp-chat:/w\""),
            "{renamed}"
        );
        assert!(renamed.contains("\"uri\":\"ahp-session:/b\"") && renamed.contains(&default_chat("ahp-session:/b")));
        assert!(
            renamed.contains("1.0") && renamed.contains("about ahp-session:/a"),
            "{renamed}"
        );
        assert_eq!(renamed.lines().count(), 4);
    }

    #[test]
    fn one_name_is_for_one_session() {
        let file = "{\"session\":{\"uri\":\"a:/1\"}}\n{\"session\":{\"uri\":\"a:/2\"}}\n";
        assert_eq!(
            rename(&mut file.as_bytes(), "ahp-session:/b").unwrap_err().kind(),
            Kind::Usage
        );
        assert_eq!(
            rename(&mut &b""[..], "ahp-session:/b").unwrap_err().kind(),
            Kind::Rejected
        );
    }
}
