//! URIs of contents that the host serves itself: results of tools, and files before and after a change.
//!
//! The path of such a URI is the path of the file, so that a client that shows the URI, or chooses a language by its
//! name, treats the content like the file. Its authority identifies the content. It is in lower case, because clients
//! may write authorities so, and there is no query, because clients write queries in their own way. The path does not
//! identify the content, so the URI never leads to the file as it is now.
//!
//! Contents are stored as blobs of the session, under a name that is derived from them. Content that an earlier
//! version stored as a `data:` URI in the session itself gets a URI that still carries the content: nothing is stored
//! for it, and it stays valid when the session, or a part of it, moves.

use crate::protocol::uri;
use crate::resources::data_uri;

/// How the URIs of contents start whose authority says which content it is.
const CONTENTS: &str = "innkeeper-content://";
/// The prefix of an authority that is the content, in hexadecimal digits.
const INLINE: &str = "inline-";
/// The prefix of an authority that names one side of a changed file.
const CHANGE: &str = "change-";

/// The content that a URI identifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentUri {
    /// A blob of a session.
    OfSession {
        /// The URI of the session.
        session: String,
        /// The name of the content.
        name: String,
    },
    /// A blob with this name of any session.
    Blob(String),
    /// One side of a changed file of any session.
    Change(String),
    /// The content.
    Inline(Vec<u8>),
}

impl ContentUri {
    /// Reads a URI; `None` if it is not one of the host's contents.
    pub fn parse(text: &str) -> Option<Self> {
        let start = text.get(..CONTENTS.len());
        if !start.is_some_and(|start| start.eq_ignore_ascii_case(CONTENTS)) {
            let (session, name) = uri::session_of_content(text)?;
            let name = name.to_owned();
            return Some(Self::OfSession { session, name });
        }
        let rest = text.get(CONTENTS.len()..)?;
        let authority = rest.split(['/', '?', '#']).next()?.to_ascii_lowercase();
        if let Some(name) = authority.strip_prefix(CHANGE) {
            return Some(Self::Change(name.to_owned()));
        }
        match authority.strip_prefix(INLINE) {
            Some(digits) => from_hex(digits).map(Self::Inline),
            None => Some(Self::Blob(authority)),
        }
    }
}

/// The URI of a blob with a name, for a file.
pub fn blob(name: &str, file: &str) -> String {
    format!("{CONTENTS}{name}{}", path_of(file))
}

/// The URI of one side of a changed file.
pub fn change(name: &str, file: &str) -> String {
    format!("{CONTENTS}{CHANGE}{name}{}", path_of(file))
}

/// The URI that carries its content, for a file.
pub fn inline(bytes: &[u8], file: &str) -> String {
    let mut uri = format!("{CONTENTS}{INLINE}");
    uri.reserve(bytes.len() * 2);
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            uri.extend(char::from_digit(u32::from(half), 16));
        }
    }
    uri.push_str(&path_of(file));
    uri
}

/// Whether a URI carries its content, so that it is as long as that.
pub fn is_inline(uri: &str) -> bool {
    let (contents, inline) = (CONTENTS.len(), CONTENTS.len() + INLINE.len());
    let is = |part: Option<&str>, expected: &str| part.is_some_and(|part| part.eq_ignore_ascii_case(expected));
    is(uri.get(..contents), CONTENTS) && is(uri.get(contents..inline), INLINE)
}

/// The URI of a content of a file that clients can work with: a `data:` URI has no path, and some clients refuse it.
pub(crate) fn without_data(content: String, file: &str) -> String {
    match data_uri::is_data(&content) {
        // One that says nothing has no content.
        true => inline(&data_uri::decode(&content).unwrap_or_default().0, file),
        false => content,
    }
}

/// The URI of an icon for clients, and its media type: a `data:` URI becomes a URI of the host, any other stays.
pub fn icon(source: &str, content_type: Option<&str>) -> (String, Option<String>) {
    let known = content_type.map(str::to_owned);
    match data_uri::decode(source) {
        Ok((bytes, kind)) if data_uri::is_data(source) => {
            let kind = known.or(kind);
            let subtype = kind.as_deref().and_then(|kind| kind.split_once('/'));
            let ending = subtype.map_or("", |(_, subtype)| subtype.split(['+', ';']).next().unwrap_or_default());
            (inline(&bytes, &format!("icon:/icon.{ending}")), kind)
        }
        _ => (source.to_owned(), known),
    }
}

/// The path of a URI, with all that is not plain in it percent-encoded.
fn path_of(file: &str) -> String {
    let rest = file.split_once(':').map_or(file, |(_, rest)| rest);
    let rest = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default(),
        None => rest,
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let mut path = String::with_capacity(rest.len() + 1);
    if !rest.starts_with('/') {
        path.push('/');
    }
    let bytes = rest.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let digits = || bytes.get(at + 1..at + 3);
        let is_encoded = *byte == b'%' && digits().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match is_encoded || byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(byte) {
            true => path.push(char::from(*byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let [high, low] = pair else {
            return None;
        };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        u8::try_from(digit(high)? * 16 + digit(low)?).ok()
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res03_the_path_of_a_blob_is_that_of_its_file() {
        for (file, path) in [
            ("file:///home/me/x/out.txt", "/home/me/x/out.txt"),
            ("file:///home/me/a%20b%23%3F%25.txt", "/home/me/a%20b%23%3F%25.txt"),
            ("file:///home/me/a b.txt", "/home/me/a%20b.txt"),
            ("file:///tmp/100%/gr\u{fc}n", "/tmp/100%25/gr%C3%BCn"),
            ("file:///C:/Users/me/a.txt", "/C:/Users/me/a.txt"),
            ("file:///c%3A/Users/a.txt", "/c%3A/Users/a.txt"),
            ("file:///a\\b[1].txt", "/a%5Cb%5B1%5D.txt"),
            ("file://server/share/a.txt", "/share/a.txt"),
            ("file:///a.txt?x=1#y", "/a.txt"),
            ("untitled:Untitled-1", "/Untitled-1"),
            ("vscode-remote://host", "/"),
            ("no uri at all", "/no%20uri%20at%20all"),
            ("", "/"),
        ] {
            assert_eq!(blob("0a1b", file), format!("innkeeper-content://0a1b{path}"), "{file}");
            assert_eq!(
                ContentUri::parse(&blob("0a1b", file)),
                Some(ContentUri::Blob("0a1b".to_owned())),
                "{file}"
            );
        }
    }

    #[test]
    fn res03_a_content_can_stand_in_its_uri() {
        for bytes in [b"".as_slice(), b"one\n", &[0, 255, 16, 1]] {
            let uri = inline(bytes, "file:///a.txt");
            assert!(is_inline(&uri), "{uri}");
            assert_eq!(ContentUri::parse(&uri), Some(ContentUri::Inline(bytes.to_vec())));
            let spelled = uri.replace("innkeeper-content", "INNKEEPER-Content");
            assert_eq!(ContentUri::parse(&spelled), Some(ContentUri::Inline(bytes.to_vec())));
        }
        for broken in ["innkeeper-content://inline-0/a", "innkeeper-content://inline-0g/a"] {
            assert_eq!(ContentUri::parse(broken), None, "{broken}");
        }
        assert!(!is_inline("innkeeper-content://0a/inline-00"));
    }

    #[test]
    fn res03_contents_of_a_session_and_foreign_uris_are_told_apart() {
        let of_session = uri::blob_uri("ahp-session:/s", "0a");
        let expected = ContentUri::OfSession {
            session: "ahp-session:/s".to_owned(),
            name: "0a".to_owned(),
        };
        assert_eq!(ContentUri::parse(&of_session), Some(expected));
        for foreign in ["file:///a", "innkeeper-content:", "", "data:,a"] {
            assert_eq!(ContentUri::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn an_image_in_a_data_uri_gets_a_uri_with_a_path() {
        let png = Some("image/png".to_owned());
        let moved = |ending: &str| format!("innkeeper-content://inline-000000/icon.{ending}");
        assert_eq!(icon("data:image/png;base64,AAAA", None), (moved("png"), png));
        let svg = Some("image/svg+xml".to_owned());
        assert_eq!(icon("data:;base64,AAAA", Some("image/svg+xml")), (moved("svg"), svg));
        let elsewhere = "https://inn.test/a.png";
        assert_eq!(icon(elsewhere, None), (elsewhere.to_owned(), None));
    }

    #[test]
    fn a_content_that_stands_in_a_data_uri_gets_a_uri_with_a_path() {
        let uri = without_data("data:text/plain;base64,aGk=".to_owned(), "file:///a.txt");
        assert_eq!(uri, "innkeeper-content://inline-6869/a.txt");
        assert_eq!(
            without_data("data:broken".to_owned(), "file:///a"),
            "innkeeper-content://inline-/a"
        );
        assert_eq!(without_data("git:/a".to_owned(), "file:///a"), "git:/a");
    }
}
