//! PDF attachments, which some providers read natively.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::api::Document;

/// Maximum size of a document in bytes. Providers accept 32 MB per request, and the document is part of every later
/// request.
const MAX_BYTES: usize = 10_000_000;
/// Maximum length of the file name, in characters.
const MAX_NAME: usize = 200;

/// Validates an attachment and returns it as a document, or `None` if it is not a PDF. The content must start with
/// the PDF signature, because a provider rejects the whole request otherwise, and every later one of the chat.
pub(in crate::model) fn from_base64(label: &str, content_type: &str, base64: &str) -> Option<Document> {
    let named = content_type.split(';').next().unwrap_or_default().trim();
    // Base64 needs 4 characters for 3 bytes, and a few more if lines are wrapped.
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

/// Text for a model that cannot be sent the document.
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
    fn only_pdf_content_is_a_document() {
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
