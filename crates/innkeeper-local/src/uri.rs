//! `file:` URIs and paths.

use std::path::{Path, PathBuf};

use url::Url;

/// The path of a `file:` URI on this machine; `None` for whatever names something else.
pub(crate) fn to_path(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok()?;
    if url.scheme() != "file" {
        return None;
    }
    url.to_file_path().ok()
}

/// The URI of an absolute path.
pub(crate) fn from_path(path: &Path) -> Option<String> {
    Url::from_file_path(path).ok().map(String::from)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn uris_and_paths_are_the_same_thing() {
        let cases = [
            ("/home/me/a b", "file:///home/me/a%20b"),
            ("/100%/#1?", "file:///100%25/%231%3F"),
            ("/größe", "file:///gr%C3%B6%C3%9Fe"),
        ];
        for (path, uri) in cases {
            assert_eq!(from_path(Path::new(path)).as_deref(), Some(uri));
            assert_eq!(to_path(uri).as_deref(), Some(Path::new(path)));
        }
        assert_eq!(to_path("file://localhost/a").as_deref(), Some(Path::new("/a")));
    }

    #[test]
    fn what_is_not_on_this_machine_has_no_path() {
        for uri in ["file://server/a", "https://example.org/a", "/a", "", "untitled:x"] {
            assert_eq!(to_path(uri), None, "{uri}");
        }
        assert_eq!(from_path(Path::new("relative")), None);
    }

    #[test]
    fn dots_cannot_climb_out_of_a_uri() {
        assert_eq!(to_path("file:///a/../../b").as_deref(), Some(Path::new("/b")));
        assert_eq!(to_path("file:///a/%2e%2e/b").as_deref(), Some(Path::new("/b")));
    }
}
