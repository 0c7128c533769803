//! A person's message, with everything that came with it, as the model is told it.

use innkeeper_host::{Attachment, PastTurn};

use super::api::{ModelMessage, UserPart};
use super::picture;

/// The longest text of one attachment that is put into the message itself.
const MAX_ATTACHED: usize = 256 << 10;

/// Puts a message together.
pub(super) fn compose(text: &str, attachments: &[Attachment]) -> ModelMessage {
    let mut parts = Vec::new();
    let mut around = String::new();
    for attachment in attachments {
        match attachment {
            Attachment::Embedded { data, content_type, .. } => match picture::fit(content_type, data) {
                Some(image) => parts.push(UserPart::Image(image)),
                None => around.push_str(&describe(attachment)),
            },
            other => around.push_str(&describe(other)),
        }
    }
    // Pictures and attachments first: what the person asks about them comes last.
    if !around.is_empty() {
        parts.push(UserPart::Text(around));
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(UserPart::Text(text.to_owned()));
    }
    ModelMessage::User(parts)
}

fn describe(attachment: &Attachment) -> String {
    match attachment {
        Attachment::Text { label, text } => enclosed(label, text),
        Attachment::Reference { label, meta } => match meta.get("uri").and_then(|uri| uri.as_str()) {
            Some(uri) => format!("Attached: {label} ({})\n", place(uri)),
            None => format!("Attached: {label}\n"),
        },
        Attachment::Embedded {
            label,
            data,
            content_type,
        } => match text_of(data, content_type) {
            Some(text) => enclosed(label, &text),
            None => format!("Attached: {label}, {content_type}, which you cannot look into.\n"),
        },
        Attachment::Resource { label, uri, .. } => format!("Attached: {label} ({})\n", place(uri)),
        Attachment::Annotations { label, .. } => format!("Attached: {label}, remarks on files.\n"),
        Attachment::Chat { label, transcript, .. } => enclosed(label, &retold(transcript)),
    }
}

/// Where something is, as tools take it: a path rather than a URI.
fn place(uri: &str) -> String {
    let path = url::Url::parse(uri).ok().and_then(|url| url.to_file_path().ok());
    path.map_or_else(|| uri.to_owned(), |path| path.display().to_string())
}

fn text_of(data: &str, content_type: &str) -> Option<String> {
    use base64::Engine as _;
    let is_text = content_type.starts_with("text/") || matches!(content_type, "application/json" | "application/xml");
    if !is_text {
        return None;
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
    String::from_utf8(bytes).ok()
}

fn enclosed(label: &str, text: &str) -> String {
    let label = label.replace(['"', '\n'], " ");
    let end = text.floor_char_boundary(MAX_ATTACHED);
    let cut = if end < text.len() {
        "\n(The rest was left out because it is too long.)"
    } else {
        ""
    };
    format!("<attachment label=\"{label}\">\n{}{cut}\n</attachment>\n", &text[..end])
}

fn retold(turns: &[PastTurn]) -> String {
    let turn = |turn: &PastTurn| format!("Person: {}\n\nAssistant: {}\n\n", turn.text, turn.reply);
    turns.iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_looked_at_files_are_named_and_the_question_comes_last() {
        let attachments = [
            Attachment::Embedded {
                label: "shot".into(),
                data: "AAAA".into(),
                content_type: "image/png".into(),
            },
            Attachment::Resource {
                label: "main.rs".into(),
                uri: "file:///inn/src/my%20main.rs".into(),
                content_type: None,
            },
            Attachment::Embedded {
                label: "drawing".into(),
                data: "AAAA".into(),
                content_type: "image/svg+xml".into(),
            },
            Attachment::Embedded {
                label: "notes".into(),
                data: "aGVsbG8=".into(),
                content_type: "text/plain".into(),
            },
        ];
        let ModelMessage::User(parts) = compose("What is this?", &attachments) else {
            panic!("a person's message");
        };
        assert!(matches!(&parts[0], UserPart::Image(image) if image.base64 == "AAAA"));
        let UserPart::Text(around) = &parts[1] else {
            panic!("what came with it");
        };
        assert!(around.contains("main.rs (/inn/src/my main.rs)"), "{around}");
        assert!(
            around.contains("drawing, image/svg+xml, which you cannot look into"),
            "{around}"
        );
        assert!(around.contains("<attachment label=\"notes\">\nhello\n"), "{around}");
        assert_eq!(parts[2], UserPart::Text("What is this?".into()));
    }
}
