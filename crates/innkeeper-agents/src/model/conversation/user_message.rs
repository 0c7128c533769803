//! Converts a user message and its attachments into a model message.

use innkeeper_host::agent::{Attachment, PastTurn, Remark, TextSpan};
use innkeeper_std::text::prefix;

use super::{documents, images};
use crate::model::api::{Image, ModelMessage, UserPart};

/// Maximum bytes of an attachment that is included as text.
const MAX_ATTACHED: usize = 256 << 10;

/// Builds the model message.
pub(in crate::model) fn compose(text: &str, attachments: &[Attachment]) -> ModelMessage {
    let mut parts = Vec::new();
    let mut around = String::new();
    for attachment in attachments {
        match attachment {
            Attachment::Embedded {
                label,
                data,
                content_type,
                ..
            } => {
                let image = images::from_base64(content_type, data).map(UserPart::Image);
                let part = image.or_else(|| documents::from_base64(label, content_type, data).map(UserPart::Document));
                match part {
                    Some(part) => parts.push(part),
                    None => around.push_str(&describe(attachment)),
                }
            }
            other => around.push_str(&describe(other)),
        }
    }
    // Attachments come first, so that the user's question is last.
    if !around.is_empty() {
        parts.push(UserPart::Text(around));
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(UserPart::Text(text.to_owned()));
    }
    ModelMessage::User(parts)
}

/// Converts the attachments of an approval decision into text and images. Tool results have no other parts.
pub(crate) fn attached(attachments: &[Attachment]) -> (String, Vec<Image>) {
    let mut text = String::new();
    let mut images = Vec::new();
    for attachment in attachments {
        let image = match attachment {
            Attachment::Embedded { data, content_type, .. } => images::from_base64(content_type, data),
            _ => None,
        };
        match image {
            Some(image) => images.push(image),
            None => text.push_str(&describe(attachment)),
        }
    }
    (text, images)
}

fn describe(attachment: &Attachment) -> String {
    match attachment {
        Attachment::Text { label, text } => enclosed(label, text),
        Attachment::Reference { label, meta } => match meta.get("uri").and_then(|uri| uri.as_str()) {
            Some(uri) => format!("Attached: {label} ({})\n", path_or_uri(uri)),
            None => format!("Attached: {label}\n"),
        },
        Attachment::Embedded {
            label,
            data,
            content_type,
            selection,
        } => match text_of(data, content_type) {
            Some(text) => enclosed(&format!("{label}{}", selected(*selection)), &text),
            None => format!("Attached: {label}, {content_type}, which you cannot look into.\n"),
        },
        Attachment::Resource {
            label, uri, selection, ..
        } => {
            format!("Attached: {label} ({}){}\n", path_or_uri(uri), selected(*selection))
        }
        Attachment::Annotations { label, remarks, .. } => {
            let remark = |remark: &Remark| remark.in_words(&path_or_uri(&remark.file));
            let remarks: String = remarks.iter().map(remark).collect();
            enclosed(label, &format!("Remarks on files.\n{remarks}"))
        }
        Attachment::Chat { label, transcript, .. } => enclosed(label, &retold(transcript)),
    }
}

/// Describes the selected range of a text.
fn selected(selection: Option<TextSpan>) -> String {
    selection.map_or_else(String::new, |selection| format!(", {}", selection.in_words()))
}

/// Converts a `file:` URI into a path, which is what tools accept.
fn path_or_uri(uri: &str) -> String {
    let path = url::Url::parse(uri).ok().and_then(|url| url.to_file_path().ok());
    path.map_or_else(|| uri.to_owned(), |path| path.display().to_string())
}

/// Decodes base64 content if its media type is a text type.
pub(in crate::model) fn text_of(data: &str, content_type: &str) -> Option<String> {
    use base64::Engine as _;
    let named = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_text = named.starts_with("text/")
        || matches!(
            named.as_str(),
            "application/json" | "application/xml" | "application/yaml"
        )
        || named.ends_with("+json")
        || (named.ends_with("+xml") && !named.starts_with("image/"));
    if !is_text {
        return None;
    }
    let clean: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(clean).ok()?;
    String::from_utf8(bytes).ok()
}

fn enclosed(label: &str, text: &str) -> String {
    let label = label.replace(['"', '\n'], " ");
    let start = prefix(text, MAX_ATTACHED);
    let cut = if start.len() < text.len() {
        "\n(The rest was left out because it is too long.)"
    } else {
        ""
    };
    format!("<attachment label=\"{label}\">\n{start}{cut}\n</attachment>\n")
}

fn retold(turns: &[PastTurn]) -> String {
    let turn = |turn: &PastTurn| format!("User: {}\n\nAssistant: {}\n\n", turn.text, turn.reply);
    turns.iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_precede_the_question() {
        let attachments = [
            Attachment::Embedded {
                label: "shot".into(),
                data: "AAAA".into(),
                content_type: "image/png".into(),
                selection: None,
            },
            Attachment::Resource {
                label: "main.rs".into(),
                uri: "file:///inn/src/my%20main.rs".into(),
                content_type: None,
                selection: Some(TextSpan {
                    start_line: 2,
                    start_character: 0,
                    end_line: 5,
                    end_character: 0,
                }),
            },
            Attachment::Embedded {
                label: "drawing".into(),
                data: "AAAA".into(),
                content_type: "image/svg+xml".into(),
                selection: None,
            },
            Attachment::Embedded {
                label: "notes".into(),
                data: "aGVsbG8=".into(),
                content_type: "text/plain".into(),
                selection: None,
            },
            Attachment::Embedded {
                label: "menu.pdf".into(),
                data: "JVBERi0xLjc=".into(),
                content_type: "application/pdf".into(),
                selection: None,
            },
        ];
        let ModelMessage::User(parts) = compose("What is this?", &attachments) else {
            panic!("a user's message");
        };
        assert!(matches!(&parts[0], UserPart::Image(image) if image.base64 == "AAAA"));
        assert!(matches!(&parts[1], UserPart::Document(document) if document.name == "menu.pdf"));
        let UserPart::Text(around) = &parts[2] else {
            panic!("what came with it");
        };
        assert!(
            around.contains("main.rs (/inn/src/my main.rs), lines 3 to 5 are selected"),
            "{around}"
        );
        assert!(
            around.contains("drawing, image/svg+xml, which you cannot look into"),
            "{around}"
        );
        assert!(around.contains("<attachment label=\"notes\">\nhello\n"), "{around}");
        assert_eq!(parts[3], UserPart::Text("What is this?".into()));
    }
}
