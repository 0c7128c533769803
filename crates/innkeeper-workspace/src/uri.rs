//! `file:` URIs and paths.

use std::path::{Path, PathBuf};

use innkeeper_host::resources::ResourceError;
use url::Url;

/// The path of a `file:` URI on this machine; `None` for whatever names something else.
pub(crate) fn to_path(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok()?;
    if url.scheme() != "file" {
        return None;
    }
    url.to_file_path().ok()
}

/// Returns the path of a `file:` URI of a client's request. A URI that could be read in two ways is refused: the check
/// and the open must mean the same file.
pub(crate) fn to_exact_path(field: &'static str, uri: &str) -> Result<PathBuf, ResourceError> {
    let invalid = |problem: &str| ResourceError::Invalid {
        field,
        problem: problem.to_owned(),
    };
    let url = Url::parse(uri).map_err(|error| invalid(&format!("is not a URI: {error}")))?;
    if url.scheme() != "file" {
        let problem = format!(
            "there is no {uri:.200} here: this host serves file: and data: URIs, and the customizations of sessions that you see"
        );
        return Err(ResourceError::NotFound(problem));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("has a query or a fragment: in a path, ? is %3F and # is %23"));
    }
    if url
        .host_str()
        .is_some_and(|host| !host.is_empty() && host != "localhost")
    {
        let problem = "it names a file of another machine, and this host serves only its own";
        return Err(ResourceError::Refused(problem.to_owned()));
    }
    let mut rest = url.path().as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let code = rest
            .get(at + 1..at + 3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            None => {
                return Err(invalid(
                    "has a % that is not followed by two hexadecimal digits: write %25",
                ));
            }
            Some(0) => return Err(invalid("has a NUL character, which no path has")),
            Some(b'/') => return Err(invalid("has an encoded slash, which no name of a file has")),
            Some(b'\\') if cfg!(windows) => return Err(invalid("has an encoded backslash")),
            Some(_) => rest = rest.get(at + 3..).unwrap_or_default(),
        }
    }
    url.to_file_path()
        .map_err(|()| invalid("names no file of this machine"))
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
    fn uris_of_other_machines_have_no_path() {
        for uri in ["file://server/a", "https://example.org/a", "/a", "", "untitled:x"] {
            assert_eq!(to_path(uri), None, "{uri}");
        }
        assert_eq!(from_path(Path::new("relative")), None);
    }

    #[test]
    fn res17_ambiguous_uris_are_refused() {
        for uri in [
            "file:///a%2Fb",
            "file:///a%2fb",
            "file:///a%00",
            "file:///a%",
            "file:///a%zz",
            "file:///a?b",
            "file:///a#b",
            "not a uri",
        ] {
            let refused = to_exact_path("uri", uri);
            assert!(
                matches!(refused, Err(ResourceError::Invalid { .. })),
                "{uri}: {refused:?}"
            );
        }
        let elsewhere = to_exact_path("uri", "file://server/share/a");
        assert!(matches!(elsewhere, Err(ResourceError::Refused(_))), "{elsewhere:?}");
        let other = to_exact_path("uri", "https://example.org/a");
        assert!(matches!(other, Err(ResourceError::NotFound(_))), "{other:?}");
        for (uri, path) in [
            ("file:///a/%2e%2e/b", "/b"),
            ("FILE:///a//b", "/a//b"),
            ("file:///a\\..\\b", "/b"),
            ("file:///a%252Fb", "/a%2Fb"),
        ] {
            assert_eq!(to_exact_path("uri", uri), Ok(PathBuf::from(path)), "{uri}");
        }
    }

    #[test]
    fn dots_cannot_climb_out_of_a_uri() {
        assert_eq!(to_path("file:///a/../../b").as_deref(), Some(Path::new("/b")));
        assert_eq!(to_path("file:///a/%2e%2e/b").as_deref(), Some(Path::new("/b")));
    }
}
