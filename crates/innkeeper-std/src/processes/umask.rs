//! Processes with a umask that is not the host's.
//!
//! A host hides its own files from other users, and its child processes would inherit that: files that a program makes
//! for the user would be closed to others who share the workspace. Only a process itself can set its umask, and only a
//! shell does so without code that runs between fork and exec.

use std::ffi::OsString;

/// Sets the umask and becomes the program.
#[cfg(unix)]
const WITH_UMASK: &str = r#"umask "$0" && exec "$@""#;

/// A program and its arguments, run with a umask. Where there is none, they stay as they are.
///
/// The shell that sets it has every variable pass through it, and some shells drop those whose names
/// they could not write themselves: see [`is_kept_by_shells`].
///
/// ```
/// # #[cfg(unix)] {
/// let line = innkeeper_std::with_umask(0o022, ["make", "all"].map(Into::into));
/// assert_eq!(line, ["/bin/sh", "-c", r#"umask "$0" && exec "$@""#, "0022", "make", "all"]);
/// # }
/// ```
pub fn with_umask(umask: u32, line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    #[cfg(unix)]
    let first = vec![
        "/bin/sh".into(),
        "-c".into(),
        WITH_UMASK.into(),
        format!("{umask:04o}").into(),
    ];
    #[cfg(not(unix))]
    let first = {
        let _ = umask;
        Vec::new()
    };
    first.into_iter().chain(line).collect()
}

/// Returns whether a variable of this name reaches a program that a shell becomes.
///
/// Some shells drop variables whose names they could not write themselves, and users do declare such for their programs
/// (`npm.config`, `my-key`). A variable that a user gave to a program matters more than its umask.
///
/// ```
/// assert!(innkeeper_std::is_kept_by_shells("_My_KEY_2"));
/// assert!(!innkeeper_std::is_kept_by_shells("my-key"));
/// ```
pub fn is_kept_by_shells(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty()
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_program_gets_its_arguments_as_they_are_and_its_umask() {
        let script = r#"umask; for word in "$0" "$@"; do echo "<$word>"; done; exit 3"#;
        let line = ["/bin/sh", "-c", script, "name", "it's", "", "$HOME `id` \"x\"", "-c"];
        let mut line = with_umask(0o027, line.map(OsString::from)).into_iter();
        let mut command = std::process::Command::new(line.next().expect("a program"));
        let output = command.args(line).stdin(Stdio::null()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(3));
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = "0027\n<name>\n<it's>\n<>\n<$HOME `id` \"x\">\n<-c>\n";
        assert_eq!(said, expected);
    }

    #[test]
    fn names_that_no_shell_could_write_are_known() {
        for name in ["PATH", "a", "_", "_2"] {
            assert!(is_kept_by_shells(name), "{name}");
        }
        for name in ["", "2ND", "npm.config", "MY-KEY", "BASH_FUNC_which%%", "schlüssel"] {
            assert!(!is_kept_by_shells(name), "{name}");
        }
    }
}
