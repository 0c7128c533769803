//! Ids: digests of the identity of an entry, the same after every scan and restart (P18).

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// How many bytes of the digest an id has: enough that two never meet by chance.
const BYTES: usize = 12;

/// An id with a prefix that names its kind for users.
pub(crate) fn id(word: &str, parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    digest.update(word.as_bytes());
    for part in parts {
        // Lengths distinguish `["ab", "c"]` from `["a", "bc"]`.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let mut id = String::with_capacity(word.len() + 1 + BYTES * 2);
    id.push_str(word);
    id.push('-');
    for byte in digest.finalize().iter().take(BYTES) {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_on_every_machine() {
        // Stored toggles refer to these ids, so they must never change.
        assert_eq!(
            id("plugin", &["file:///srv/p", "", ""]),
            "plugin-2dfb26d9481da6dff7edc75b"
        );
        assert_ne!(id("plugin", &["ab", "c"]), id("plugin", &["a", "bc"]));
        assert_ne!(id("plugin", &["a"]), id("directory", &["a"]));
        assert_eq!(id("x", &[]).len(), 2 + BYTES * 2);
    }
}
