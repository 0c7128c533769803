//! The message of `innkeeper send`: its words, piped input and attached files.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::time::Duration;

use ahp_types::state::{MessageAttachment, MessageEmbeddedResourceAttachment};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::args::SendArgs;
use crate::failure::{Failure, Kind};
use crate::terminal::note;

/// Largest attached file. Hosts reject messages beyond 16 MiB, and base64 needs a third more.
const MAX_ATTACHMENT: u64 = 10 << 20;

/// The time after which the user is told that the program reads standard input.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// Returns the text of the message: the words, and below them what was piped in.
pub(super) fn text(args: &SendArgs) -> Result<String, Failure> {
    // A dash stands for standard input, wherever it is.
    let words: Vec<&str> = args
        .text
        .iter()
        .map(String::as_str)
        .filter(|word| *word != "-")
        .collect();
    let has_dash = words.len() < args.text.len();
    let mut text = words.join(" ");
    if has_dash || is_piped() {
        let piped = read_stdin()?;
        if !text.is_empty() && !piped.trim().is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&piped);
    }
    if text.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "the message is empty")
            .hint("write it after `send`, or pipe it into standard input"));
    }
    Ok(text)
}

/// Returns whether standard input is a pipe or a file, as opposed to a terminal, a socket or nothing.
fn is_piped() -> bool {
    let stdin = std::io::stdin();
    let Ok(stat) = rustix::fs::fstat(&stdin) else {
        return false;
    };
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    !stdin.is_terminal() && matches!(kind, rustix::fs::FileType::Fifo | rustix::fs::FileType::RegularFile)
}

/// Reads standard input to its end. A pipe that stays open would look like a program that hangs, so the user is told.
fn read_stdin() -> Result<String, Failure> {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if is_done.recv_timeout(QUIET_TIME) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            note("[reading the message from standard input, until it ends]");
        }
    });
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    drop(done);
    read.map_err(|error| {
        Failure::new(
            Kind::Usage,
            format!("the message cannot be read from standard input ({error})"),
        )
    })?;
    Ok(text)
}

/// Reads the attached files. Their contents travel with the message, so the host may be on another machine.
pub(super) fn attachments(args: &SendArgs) -> Result<Vec<MessageAttachment>, Failure> {
    args.attach.iter().map(|path| attachment(path)).collect()
}

fn attachment(path: &Path) -> Result<MessageAttachment, Failure> {
    let unusable = |problem: String| {
        Failure::new(
            Kind::Usage,
            format!("{} cannot be attached ({problem})", path.display()),
        )
    };
    let size = std::fs::metadata(path)
        .map_err(|error| unusable(error.to_string()))?
        .len();
    if size > MAX_ATTACHMENT {
        return Err(unusable(format!("it is larger than {} MiB", MAX_ATTACHMENT >> 20)));
    }
    let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let content_type = content_type(path, &bytes);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let kind = if content_type.starts_with("image/") {
        "image"
    } else {
        "document"
    };
    Ok(MessageAttachment::EmbeddedResource(MessageEmbeddedResourceAttachment {
        label: name.unwrap_or_else(|| path.display().to_string()),
        range: None,
        display_kind: Some(kind.to_owned()),
        meta: None,
        data: STANDARD.encode(&bytes),
        content_type: content_type.to_owned(),
        selection: None,
    }))
}

/// Returns the type of a file: by its first bytes if it is an image or a PDF document, otherwise text or bytes.
fn content_type(path: &Path, bytes: &[u8]) -> &'static str {
    let known: [(&[u8], &str); 4] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
    ];
    if let Some((_, content_type)) = known.iter().find(|(start, _)| bytes.starts_with(start)) {
        return content_type;
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return "image/webp";
    }
    let is_text = std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => "image/svg+xml",
        Some("md") if is_text => "text/markdown",
        Some("json") if is_text => "application/json",
        _ if is_text => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_from_contents_before_names() {
        for (name, bytes, expected) in [
            ("a.txt", &b"\x89PNG\r\n\x1a\n..."[..], "image/png"),
            ("a.png", b"just words", "text/plain"),
            ("README.md", b"# Inn", "text/markdown"),
            ("a.bin", b"\0\x01", "application/octet-stream"),
            ("a", b"%PDF-1.7", "application/pdf"),
        ] {
            assert_eq!(content_type(Path::new(name), bytes), expected, "{name}");
        }
    }
}
