//! Content types of files.

use std::path::Path;

/// Returns the content type of a file, from its first bytes and then from its name.
pub fn content_type(path: &Path, bytes: &[u8]) -> Option<String> {
    let magic: [(&[u8], &str); 6] = [
        (b"\x89PNG\r\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
    ];
    if let Some((_, kind)) = magic.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some((*kind).to_owned());
    }
    let extension = path.extension().and_then(|name| name.to_str()).unwrap_or_default();
    let named = match extension.to_ascii_lowercase().as_str() {
        "md" | "markdown" => "text/markdown",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "xml" => "application/xml",
        _ if std::str::from_utf8(bytes).is_ok() => "text/plain",
        _ => return None,
    };
    Some(named.to_owned())
}
