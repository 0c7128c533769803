//! Paths of the command line, normalized like the URIs that hosts read.

use std::io;
use std::path::{Path, PathBuf};

use url::Url;

/// Makes a path absolute and removes `.` and `..`. A URI has none, so a host that gets the URI of a path uses the same
/// directory.
pub(crate) fn full_path(path: &Path) -> io::Result<PathBuf> {
    let full = std::path::absolute(path)?;
    let uri = Url::from_file_path(&full).ok();
    let read = uri.and_then(|uri| Url::parse(uri.as_str()).ok()?.to_file_path().ok());
    // Remove a trailing slash.
    Ok(read.unwrap_or(full).components().collect())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn dots_and_trailing_slashes_are_removed() {
        for (written, full) in [
            ("/a/b/../c", "/a/c"),
            ("/a/./b/", "/a/b"),
            ("/a/..", "/"),
            ("/../a", "/a"),
            ("/a b#c/..d", "/a b#c/..d"),
        ] {
            assert_eq!(full_path(Path::new(written)).unwrap(), Path::new(full), "{written}");
        }
    }
}
