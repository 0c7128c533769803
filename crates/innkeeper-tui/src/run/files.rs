//! Files of this machine as attachments.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Largest attachment.
const MAX_BYTES: u64 = 5 << 20;

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Value, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("{shown} cannot be read ({error})");
    let file = std::fs::File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_dir() {
        return Err(format!("{shown} is a directory; name a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{shown} is larger than 5 MiB"));
    }
    Ok(json!({ "data": STANDARD.encode(&bytes), "contentType": content_type(path, &bytes) }))
}

fn content_type(path: &Path, bytes: &[u8]) -> &'static str {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "json" => "application/json",
        _ if std::str::from_utf8(bytes).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_attachments_and_directories_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note.md");
        std::fs::write(&path, "hello").unwrap();
        let read_file = read(&path).unwrap();
        assert_eq!(read_file, json!({ "data": "aGVsbG8=", "contentType": "text/plain" }));
        assert!(read(folder.path()).unwrap_err().contains("is a directory"));
        assert!(read(&folder.path().join("no")).unwrap_err().contains("cannot be read"));
    }
}
