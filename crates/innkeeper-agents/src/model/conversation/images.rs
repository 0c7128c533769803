//! Validation of image attachments. Only formats that every provider accepts become images.
//!
//! A provider rejects a whole request for one unreadable image. The image is part of every later request, so the chat
//! would be unusable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::api::Image;

/// Maximum size of an image in bytes. Providers accept 5 MB of base64.
const MAX_BYTES: usize = 3_750_000;

/// Validates an image. Returns `None` if its type, encoding or size is not accepted by every provider.
pub(in crate::model) fn from_base64(content_type: &str, base64: &str) -> Option<Image> {
    let named = content_type.split(';').next().unwrap_or_default().trim();
    let media_type = match named.to_ascii_lowercase().as_str() {
        "image/png" => "image/png",
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        _ => return None,
    };
    // Base64 needs 4 characters for 3 bytes, and a few more if lines are wrapped.
    if base64.len() > MAX_BYTES * 3 / 2 {
        return None;
    }
    let clean: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(&clean).ok()?;
    (!bytes.is_empty() && bytes.len() <= MAX_BYTES).then(|| Image {
        media_type: media_type.to_owned(),
        base64: clean,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_that_every_provider_accepts_are_valid() {
        for content_type in ["image/png", "image/JPG", "image/jpeg; q=1", "image/gif", "image/webp"] {
            assert!(from_base64(content_type, "AA\nAA").is_some(), "{content_type}");
        }
        assert_eq!(from_base64("image/jpg", "AAAA").unwrap().media_type, "image/jpeg");
        for content_type in ["image/svg+xml", "image/heic", "image/bmp", "text/plain", ""] {
            assert_eq!(from_base64(content_type, "AAAA"), None, "{content_type}");
        }
        for broken in ["", "not base64", "AAA"] {
            assert_eq!(from_base64("image/png", broken), None, "{broken}");
        }
        assert_eq!(from_base64("image/png", &"A".repeat(5_000_004)), None, "too large");
        assert!(from_base64("image/png", &"A".repeat(5_000_000)).is_some());
    }
}
