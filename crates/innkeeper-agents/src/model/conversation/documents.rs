//! Documents that people bring: PDF, which some providers read by themselves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::api::Document;

/// The largest document. A provider takes 32 MB with everything else in the request, and the document is in every
/// later request as well.
const MAX_BYTES: usize = 10_000_000;
/// The longest name that is told.
const MAX_NAME: usize = 200;

/// A document that a provider may take; `None` for anything else, whatever it calls itself. One that does not begin as
/// PDF does would have the whole request refused, and every later one of the chat.
pub(in crate::model) fn from_base64(label: &str, content_type: &str, base64: &str) -> Option<Document> {
    let named = content_type.split(';').next().unwrap_or_default().trim();
    // Four characters stand for three bytes; whoever wraps lines needs a little more.
    if !named.eq_ignore_ascii_case("application/pdf") || base64.len() > MAX_BYTES * 3 / 2 {
        return None;
    }
    let clean: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(&clean).ok()?;
    (bytes.starts_with(b"%PDF-") && bytes.len() <= MAX_BYTES).then(|| Document {
        name: label.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect(),
        base64: clean,
    })
}

/// What a model is told of a document that it cannot be given.
pub(in crate::model) fn unsupported_note(document: &Document) -> String {
    format!(
        "(Attached: {}, a PDF document, which you cannot look into here. Say so if it matters; a tool may be able to \
         extract its text if the user saves it in the working directory.)",
        document.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_as_pdf_does_is_a_document() {
        let document = from_base64("menu.pdf", "application/PDF; q=1", "JVBE\nRi0xLjc=").expect("a document");
        assert_eq!(
            (document.name.as_str(), document.base64.as_str()),
            ("menu.pdf", "JVBERi0xLjc=")
        );
        assert_eq!(from_base64("menu.pdf", "application/pdf", "AAAA"), None, "no PDF");
        assert_eq!(from_base64("menu.pdf", "application/pdf", "?"), None, "no base64");
        assert_eq!(from_base64("menu.doc", "application/msword", "JVBERi0xLjc="), None);
    }
}
