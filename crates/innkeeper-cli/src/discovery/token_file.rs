//! The connection token: created once, stored in a private file, never printed.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::discovery::create_atomically;
use crate::failure::{Failure, Kind};

/// Name of the token file in the data directory.
pub const FILE_NAME: &str = "token";

/// Shorter tokens could be guessed; 22 base64 characters carry 128 bits.
const MIN_LENGTH: usize = 22;
const MAX_LENGTH: usize = 1024;

/// A token and its file.
pub struct TokenFile {
    text: String,
    path: PathBuf,
}

impl TokenFile {
    /// Reads the token file, or creates it with a fresh 256-bit token.
    pub fn read_or_create(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
        if !path.try_exists().map_err(|error| unusable(&path, &error))? {
            let text = generate()?;
            match create_atomically(&path, format!("{text}\n").as_bytes()) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "created a token");
                    return Ok(Self { text, path });
                }
                // Another process created it first; read that one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unusable(&path, &error)),
            }
        }
        Self::read(&path)
    }

    /// Reads the token file of this host.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::read_or_advise(path, "delete it; the host writes a new one at its next start")
    }

    /// Reads a token file that the user named, which may be a copy of a host's file.
    pub fn read_named(path: &Path) -> Result<Self, Failure> {
        Self::read_or_advise(
            path,
            "name a file that holds the token of the host, such as `token` in its data directory",
        )
    }

    fn read_or_advise(path: &Path, advice: &str) -> Result<Self, Failure> {
        let path = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
        let text = fs::read_to_string(&path).map_err(|error| unusable(&path, &error))?;
        let found = fs::metadata(&path).map_err(|error| unusable(&path, &error))?;
        if found.mode() & 0o022 != 0 {
            return Err(Failure::new(
                Kind::DataDirectory,
                format!("other users can write to the token file {}", path.display()),
            )
            .hint(format!(
                "replace it with a new token and run `chmod 600 {}`",
                path.display()
            )));
        }
        if found.mode() & 0o044 != 0 {
            tracing::warn!(
                path = %path.display(),
                "other users can read the token file; chmod 600 would keep them out"
            );
        }
        let text = text.trim().to_owned();
        check(&text).map_err(|problem| {
            Failure::new(
                Kind::DataDirectory,
                format!("the token file {} {problem}", path.display()),
            )
            .hint(advice)
        })?;
        Ok(Self { text, path })
    }

    /// Returns the secret, to be compared or sent but never shown.
    pub fn secret(&self) -> &str {
        &self.text
    }

    /// Returns the file's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn generate() -> Result<String, Failure> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(
            Kind::Unexpected,
            format!("the operating system provides no random bytes for a token ({error})"),
        )
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() < MIN_LENGTH {
        return Err(format!(
            "holds a token of {} characters, which is too easy to guess (at least {MIN_LENGTH} are needed)",
            text.len()
        ));
    }
    if text.len() > MAX_LENGTH {
        return Err(format!("holds more than {MAX_LENGTH} characters"));
    }
    // The token travels in headers and query strings; these characters need no escaping in either.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    if !text.bytes().all(plain) {
        return Err("holds characters other than letters, digits, `-`, `_`, `.` and `~`".to_owned());
    }
    Ok(())
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Kind::DataDirectory,
        format!("the token file {} cannot be used ({error})", path.display()),
    )
    .hint("correct its permissions, or name another with --token-file FILE")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn creates_a_private_256_bit_token_once() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(FILE_NAME);
        let first = TokenFile::read_or_create(&path).unwrap();
        let again = TokenFile::read_or_create(&path).unwrap();
        assert_eq!(first.secret(), again.secret());
        assert_eq!(URL_SAFE_NO_PAD.decode(first.secret()).unwrap().len(), 32);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let root = tempfile::tempdir().unwrap();
        let token = TokenFile::read_or_create(&root.path().join("t")).unwrap();
        assert!(!format!("{token:?}").contains(token.secret()));
    }

    #[test]
    fn refuses_weak_or_unusable_tokens() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("t");
        for text in ["", "\n", "short", "with a space and enough length", &"a".repeat(2000)] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(TokenFile::read(&path).is_err(), "{text:?}");
            let told = TokenFile::read_named(&path).unwrap_err().to_string();
            assert!(
                told.contains("holds the token of the host"),
                "it is not for a client to delete: {told}"
            );
        }
    }

    #[test]
    fn refuses_a_file_others_can_write_to() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("t");
        TokenFile::read_or_create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(TokenFile::read(&path).unwrap_err().to_string().contains("chmod 600"));
    }
}
