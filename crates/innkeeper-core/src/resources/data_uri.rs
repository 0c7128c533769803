//! `data:` URIs, which contain their content (RFC 2397).

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Whether a URI is one of them.
pub fn is_data(uri: &str) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Decodes such a URI. Returns the content and its media type, if it names one.
///
/// # Errors
///
/// The reason why the URI is invalid, for users.
pub fn decode(uri: &str) -> Result<(Vec<u8>, Option<String>), &'static str> {
    let rest = uri.get(5..).unwrap_or_default();
    let (head, data) = rest
        .split_once(',')
        .ok_or("a data: URI has a comma before its content")?;
    let mut parts: Vec<&str> = head.split(';').collect();
    let is_base64 = parts.last().is_some_and(|last| last.eq_ignore_ascii_case("base64"));
    if is_base64 {
        parts.pop();
    }
    let bytes = percent_decode(data).ok_or("its content is not valid percent-encoding")?;
    let bytes = if is_base64 {
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let bytes: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
        GeneralPurpose::new(&STANDARD, lenient)
            .decode(bytes)
            .map_err(|_| "its content is not base64")?
    } else {
        bytes
    };
    let content_type = parts.join(";");
    Ok((bytes, Some(content_type).filter(|kind| kind.contains('/'))))
}

pub(crate) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        out.push(u8::try_from(value).ok()?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res03_a_data_uri_is_its_own_content() {
        let cases: [(&str, &[u8], Option<&str>); 5] = [
            ("data:,a%20b", b"a b", None),
            (
                "data:text/plain;charset=utf-8,%C3%A9",
                "é".as_bytes(),
                Some("text/plain;charset=utf-8"),
            ),
            ("data:image/png;base64,iVBORw==", b"\x89PNG", Some("image/png")),
            ("DATA:image/png;BASE64,iVBORw", b"\x89PNG", Some("image/png")),
            ("data:;base64,", b"", None),
        ];
        for (uri, bytes, content_type) in cases {
            assert!(is_data(uri), "{uri}");
            let (found, kind) = decode(uri).expect(uri);
            assert_eq!((found.as_slice(), kind.as_deref()), (bytes, content_type));
        }
        for broken in ["data:", "data:text/plain", "data:,%g0", "data:,%4", "data:;base64,*"] {
            assert!(decode(broken).is_err(), "{broken}");
        }
        assert!(!is_data("file:///data:,x"));
    }
}
