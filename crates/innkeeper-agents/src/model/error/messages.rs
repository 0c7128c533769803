//! Error messages, and the redaction of quoted provider messages.

use innkeeper_host::agent::Secret;

use super::{ErrorKind, Provider};

/// Maximum characters of a quoted message.
const MAX_QUOTE_CHARS: usize = 300;
/// Replaces a secret.
const REDACTED: &str = "[hidden]";
/// Shorter values are not redacted, because they would match ordinary words.
const MIN_SECRET_LEN: usize = 4;

/// Builds the message of an error.
pub(super) fn message(provider: &Provider, kind: ErrorKind, detail: &str) -> String {
    let host = &provider.host;
    let model = &provider.model;
    let (what, remedy) = match kind {
        ErrorKind::Auth if provider.has_key => (
            format!("{host} rejected the key"),
            "Check that the key is correct and valid, and that it may use this model.",
        ),
        ErrorKind::Forbidden if provider.has_key => (
            format!("{host} does not permit this with the key"),
            "Check that the key and its account may use this model from here.",
        ),
        ErrorKind::Auth | ErrorKind::Forbidden => (
            format!("{host} requires a key and none is configured"),
            "Configure a key for this provider, or sign in.",
        ),
        ErrorKind::Quota => (
            format!("the account at {host} has no credit or quota left"),
            "Add credit there, or choose a model of another provider.",
        ),
        ErrorKind::RateLimited => (
            format!("{host} limits the rate of requests from this account"),
            "Wait a little and try again.",
        ),
        ErrorKind::Overloaded => (
            format!("{host} is overloaded"),
            "Try again later, or choose another model.",
        ),
        ErrorKind::Server => (
            format!("{host} failed with an internal error"),
            "Try again. If the problem persists, check the provider's status page.",
        ),
        ErrorKind::ContextLength => (
            format!("the conversation exceeds the context window of {model} at {host}"),
            "Compact it, start a new one, or choose a model with a larger context window.",
        ),
        ErrorKind::BadRequest => (
            format!("{host} rejected the request"),
            "Check the settings of this provider and model: address, API and options.",
        ),
        ErrorKind::Network => (
            format!("{host} could not be reached"),
            "Check that the address is correct, that the server is running, and that this machine is online.",
        ),
        ErrorKind::Interrupted => (
            format!("the answer of {host} ended early"),
            "The received part is kept. Resume the turn, or try again.",
        ),
        ErrorKind::Malformed => (
            format!("the answer of {host} cannot be parsed"),
            "Check that the address is that of a model server and that the configured API is correct.",
        ),
        ErrorKind::Refused => (
            format!("{host} refuses to answer"),
            "Rephrase the request, or choose another model.",
        ),
        ErrorKind::NoModel => (
            format!("{host} has no model {model} for this key"),
            "Choose another model, or correct its name in the settings.",
        ),
    };
    let mut message = capitalised(&what);
    if !detail.is_empty() {
        message.push_str(": “");
        message.push_str(detail);
        message.push('”');
    }
    message.push_str(". ");
    message.push_str(remedy);
    message
}

fn capitalised(text: &str) -> String {
    // Host names keep their spelling; only a leading article is capitalised.
    match text.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => text.to_owned(),
    }
}

/// Prepares a provider's message for display: one line, redacted, shortened.
pub(crate) fn quote(detail: &str, secrets: &[Secret]) -> String {
    let mut text = detail.to_owned();
    // Redact first: a cut or a control character inside a secret would leave half of it.
    for secret in secrets {
        let secret = secret.reveal().trim();
        if secret.len() >= MIN_SECRET_LEN {
            text = text.replace(secret, REDACTED);
        }
    }
    let words: Vec<String> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().filter(|c| !is_invisible(*c)).collect())
        .collect();
    let text = redact_key_lookalikes(&words).join(" ");
    let mut chars = text.char_indices();
    match chars.nth(MAX_QUOTE_CHARS) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.trim_end_matches('.').to_owned(),
    }
}

/// Returns true for invisible and bidirectional control characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Redacts anything that looks like a key: `sk-…`, and the word after `Bearer`.
fn redact_key_lookalikes(words: &[String]) -> Vec<String> {
    let mut after_bearer = false;
    words
        .iter()
        .map(|word| {
            if std::mem::take(&mut after_bearer) {
                return REDACTED.to_owned();
            }
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            after_bearer = bare.to_ascii_lowercase().ends_with("bearer");
            redact_sk_tokens(word)
        })
        .collect()
}

fn redact_sk_tokens(word: &str) -> String {
    let mut redacted = String::new();
    let mut rest = word;
    while let Some(start) = rest.find("sk-") {
        let (before, found) = rest.split_at(start);
        let end = found
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.')))
            .unwrap_or(found.len());
        let (token, after) = found.split_at(end);
        redacted.push_str(before);
        // Words such as `task-list` are not keys.
        let inside_a_word = before.ends_with(|c: char| c.is_ascii_alphanumeric());
        redacted.push_str(if inside_a_word || token.len() < 8 {
            token
        } else {
            REDACTED
        });
        rest = after;
    }
    redacted.push_str(rest);
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_key_lookalikes_are_redacted() {
        let secrets = [Secret::new("s3cr3t-key-value\n")];
        assert_eq!(quote("bad key s3cr3t-key-value.", &secrets), "bad key [hidden]");
        assert_eq!(
            quote("Incorrect API key provided: sk-proj-abc***xyz. Find yours", &[]),
            "Incorrect API key provided: [hidden] Find yours"
        );
        assert_eq!(quote(r#"{"auth":"Bearer abcdef"}"#, &[]), r#"{"auth":"Bearer [hidden]"#);
        assert_eq!(
            quote("Authorization: Bearer abcdef was wrong", &[]),
            "Authorization: Bearer [hidden] was wrong"
        );
        assert_eq!(quote("the task-list-of-today", &[]), "the task-list-of-today");
    }

    #[test]
    fn a_secret_at_the_truncation_limit_is_redacted_completely() {
        let detail = format!("{} s3cr3t-key-value", "x".repeat(MAX_QUOTE_CHARS - 8));
        let shown = quote(&detail, &[Secret::new("s3cr3t-key-value")]);
        assert!(!shown.contains("s3cr"), "{shown}");
    }

    #[test]
    fn quotes_are_one_line_without_control_characters() {
        let shown = quote("a\n\tb\u{1b}[31m\u{202e}c", &[]);
        assert_eq!(shown, "a b [31mc");
        assert_eq!(quote(&"ä".repeat(1000), &[]).chars().count(), MAX_QUOTE_CHARS + 1);
    }
}
