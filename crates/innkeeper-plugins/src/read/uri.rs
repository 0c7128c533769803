//! File names as URIs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use url::Url;

/// Where the URIs of a container begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    /// A directory of this machine.
    Path(PathBuf),
    /// The URI under which a client published the copied files.
    Published(String),
}

impl Base {
    /// The URI of the container itself.
    pub(crate) fn uri(&self) -> String {
        match self {
            Self::Path(path) => of_path(path),
            Self::Published(uri) => uri.clone(),
        }
    }

    /// The URI of a file in it.
    pub(crate) fn file(&self, relative: &Path) -> String {
        match self {
            Self::Path(path) => of_path(&path.join(relative)),
            Self::Published(uri) => {
                // The path ends where a query or a fragment begins; the query stays with the file.
                let (path, rest) = match uri.find(['?', '#']) {
                    Some(at) => uri.split_at(at),
                    None => (uri.as_str(), ""),
                };
                let query = rest.split('#').next().unwrap_or("");
                let mut file = path.strip_suffix('/').unwrap_or(path).to_owned();
                for part in relative.components() {
                    file.push('/');
                    encode(&mut file, part.as_os_str().as_encoded_bytes());
                }
                file.push_str(query);
                file
            }
        }
    }
}

/// The `file:` URI of an absolute path. A relative one, which no caller has, stays a path.
pub(crate) fn of_path(path: &Path) -> String {
    Url::from_file_path(path).map_or_else(|()| path.to_string_lossy().into_owned(), String::from)
}

fn encode(uri: &mut String, segment: &[u8]) {
    for byte in segment {
        let plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(byte);
        if plain {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(uri: &str, file: &str) -> String {
        Base::Published(uri.to_owned()).file(Path::new(file))
    }

    #[test]
    fn files_of_published_plugins_keep_the_scheme() {
        assert_eq!(
            published("virtual://c/p", "skills/a b/SKILL.md"),
            "virtual://c/p/skills/a%20b/SKILL.md"
        );
        assert_eq!(published("virtual://c/p/", "x#?é"), "virtual://c/p/x%23%3F%C3%A9");
        assert_eq!(published("virtual://c/p?v=1#top", "x"), "virtual://c/p/x?v=1");
        assert_eq!(published("plain:p", "x"), "plain:p/x");
    }

    #[cfg(unix)]
    #[test]
    fn files_of_this_machine_are_file_uris() {
        let base = Base::Path("/srv/my project".into());
        assert_eq!(base.uri(), "file:///srv/my%20project");
        assert_eq!(base.file(Path::new("a#b")), "file:///srv/my%20project/a%23b");
    }
}
