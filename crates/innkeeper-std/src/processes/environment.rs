//! The variables of the host's environment that programs of users see (T15).

use std::ffi::OsString;

/// The variables that programs need to run at all. None of them is a secret.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    // Windows cannot start a program without these.
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
];

/// The little that programs need, out of a given environment. Everything else is left out: keys and
/// tokens, proxies with passwords, and what makes a program load other code (T15).
///
/// ```
/// let host = [("PATH", "/bin"), ("LC_ALL", "C"), ("OPENAI_API_KEY", "s3cr3t"), ("LD_PRELOAD", "/evil.so")];
/// let host = host.map(|(name, value)| (name.into(), value.into()));
/// let seen: Vec<String> = innkeeper_std::needed_variables(host).map(|(name, _)| name).collect();
/// assert_eq!(seen, ["PATH", "LC_ALL"]);
/// ```
pub fn needed_variables(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, OsString)> {
    variables.into_iter().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        // Windows writes `Path` and `SystemRoot`, and means no others.
        let is_needed = NAMES.iter().any(|needed| name.eq_ignore_ascii_case(needed)) || name.starts_with("LC_");
        is_needed.then_some((name, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_only_needed_variables_are_passed_on() {
        let host = [
            ("Path", "C:\\Windows"),
            ("SystemRoot", "C:\\Windows"),
            ("LC_MESSAGES", "C"),
            ("HTTPS_PROXY", "http://user:pass@proxy"),
            ("NODE_OPTIONS", "--require /evil.js"),
            ("PATHS", "x"),
            ("GITHUB_TOKEN", "s3cr3t"),
        ];
        let host = host.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let seen: Vec<String> = needed_variables(host).map(|(name, _)| name).collect();
        assert_eq!(seen, ["Path", "SystemRoot", "LC_MESSAGES"]);
    }
}
