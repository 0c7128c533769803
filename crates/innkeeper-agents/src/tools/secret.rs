//! Recognises secrets: files that a model may read only with confirmation, and the variables without secrets that
//! commands inherit.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_std::needed_variables;

use super::EnvironmentRules;

/// File name patterns in lower case; `*` matches anything.
const SECRET_FILES: &[&str] = &[
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".npmrc",
    ".netrc",
    "_netrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    "credentials",
    "credentials.*",
    "secrets.*",
    "*.secret",
    "*.tfstate",
    "*.tfvars",
    "kubeconfig",
];

/// Exceptions: templates, public keys and source files.
const NOT_SECRET_FILES: &[&str] = &[
    "*.example",
    "*.sample",
    "*.template",
    "*.dist",
    "*.pub",
    "credentials.rs",
    "credentials.ts",
    "credentials.js",
    "credentials.py",
    "credentials.go",
    "credentials.md",
    "secrets.rs",
    "secrets.ts",
    "secrets.js",
    "secrets.py",
    "secrets.go",
    "secrets.md",
];

/// Directories in which every file is a secret.
const SECRET_DIRECTORIES: &[&str] = &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"];

/// Files that are secrets regardless of their names, such as those with the host's keys.
#[derive(Debug, Clone, Default)]
pub(super) struct SecretFiles(Arc<[PathBuf]>);

impl SecretFiles {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self(paths.into())
    }

    /// Returns those below a directory as relative paths. Symlinks are resolved on every call, because a key can be
    /// created or moved while the host runs.
    pub(super) fn below(&self, canonical: &Path) -> Vec<PathBuf> {
        let resolved = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let paths = self.0.iter().flat_map(|path| [path.clone(), resolved(path)]);
        paths
            .filter_map(|path| path.strip_prefix(canonical).map(Path::to_owned).ok())
            .collect()
    }
}

/// Returns true if a path within a working directory looks like a secret. Ignores case, because some file systems do.
pub(super) fn is_secret_file(path: &Path) -> bool {
    let mut names = path.iter().map(|name| name.to_string_lossy().to_lowercase());
    let Some(name) = names.next_back() else { return false };
    if names.any(|directory| SECRET_DIRECTORIES.contains(&directory.as_str())) {
        return true;
    }
    let fits = |patterns: &[&str]| patterns.iter().any(|pattern| matches_pattern(&name, pattern));
    fits(SECRET_FILES) && !fits(NOT_SECRET_FILES)
}

/// Directories whose files configure what version control, editors and agents run.
const EXECUTION_DIRECTORIES: &[&str] = &[
    ".agents",
    ".claude",
    ".cursor",
    ".devcontainer",
    ".git",
    ".github",
    ".hg",
    ".husky",
    ".idea",
    ".innkeeper",
    ".svn",
    ".vscode",
];

/// Files that do the same.
const EXECUTION_FILES: &[&str] = &[".mcp.json", ".gitattributes", ".gitmodules", ".pre-commit-config.yaml"];

/// Returns true if other programs run something because of this file.
pub(super) fn triggers_execution(path: &Path) -> bool {
    let mut names = path.iter().map(|name| name.to_string_lossy().to_lowercase());
    let name = names.next_back().unwrap_or_default();
    EXECUTION_FILES.contains(&name.as_str())
        || names.any(|directory| EXECUTION_DIRECTORIES.contains(&directory.as_str()))
}

fn matches_pattern(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, end)) => name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end),
    }
}

/// Suffixes of the parts of secret variable names.
const SECRET_NAME_SUFFIXES: &[&str] = &[
    "KEY",
    "KEYS",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
];

/// Parts that are secret only as a whole.
const SECRET_NAME_PARTS: &[&str] = &["PASS", "PAT", "PWD", "AUTH", "JWT", "BEARER", "COOKIE"];

/// Returns the variables that commands inherit: those that every program needs, and those that the rules pass on.
pub(super) fn command_variables(
    rules: &EnvironmentRules,
    host: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let host: Vec<_> = host.into_iter().collect();
    let needed: HashSet<String> = needed_variables(host.iter().cloned()).map(|(name, _)| name).collect();
    let is_inherited = |(name, value): &(OsString, OsString)| {
        let Some(name) = name.to_str() else { return false };
        if rules.hide.iter().any(|hidden| hidden == name) {
            return false;
        }
        // A secret is passed on by its full name only.
        rules.pass.iter().any(|passed| passed == name)
            || (needed.contains(name) || rules.pass.iter().any(|passed| matches_pattern(name, passed)))
                && !is_secret(name, value)
    };
    host.into_iter().filter(is_inherited).collect()
}

/// Returns true if the name of a variable looks like a secret's, or if its value is a URL with a password.
fn is_secret(name: &str, value: &OsStr) -> bool {
    is_secret_name(name) || has_password(&value.to_string_lossy())
}

fn is_secret_name(name: &str) -> bool {
    // Current and previous directory, and the socket of the SSH agent, which never reveals its keys.
    if ["PWD", "OLDPWD", "SSH_AUTH_SOCK"].contains(&name) {
        return false;
    }
    let name = name.to_uppercase();
    let mut parts = name.split(|c: char| !c.is_alphanumeric());
    parts.any(|part| SECRET_NAME_SUFFIXES.iter().any(|word| part.ends_with(word)) || SECRET_NAME_PARTS.contains(&part))
}

/// Returns true for URLs such as `postgres://me:password@server/`.
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_files_are_recognised_by_name_in_any_case() {
        for path in [
            ".env",
            "app/.env.local",
            ".ENV",
            "deploy/prod.env",
            "tls/server.pem",
            "id_rsa",
            ".ssh/config",
            "home/.aws/credentials",
            ".npmrc",
            ".netrc",
            "Secrets.yaml",
        ] {
            assert!(is_secret_file(Path::new(path)), "{path}");
        }
        for path in [
            "src/main.rs",
            ".env.example",
            "environment.ts",
            "id_rsa.pub",
            "src/secrets.rs",
            "key.rs",
            "",
        ] {
            assert!(!is_secret_file(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn t15_commands_inherit_needed_and_passed_variables() {
        let rules = EnvironmentRules {
            pass: vec!["JAVA_HOME".to_owned(), "CARGO_*".to_owned(), "NPM_TOKEN".to_owned()],
            hide: vec!["CARGO_HIDDEN".to_owned()],
        };
        let inherits = |rules: &EnvironmentRules, name: &str, value: &str| {
            !command_variables(rules, [(name.into(), value.into())]).is_empty()
        };
        for name in ["PATH", "HOME", "LC_ALL", "JAVA_HOME", "CARGO_HOME", "NPM_TOKEN"] {
            assert!(inherits(&rules, name, "x"), "{name}");
        }
        for name in [
            "LD_PRELOAD",
            "EDITOR",
            "GITHUB_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "CARGO_HIDDEN",
        ] {
            assert!(!inherits(&rules, name, "x"), "{name}");
        }
        assert!(!inherits(&rules, "CARGO_PROXY", "http://me:secret@proxy"));
        let none = EnvironmentRules::default();
        assert!(inherits(&none, "PATH", "x") && !inherits(&none, "JAVA_HOME", "x"));
    }

    #[test]
    fn with_a_star_everything_but_secrets_is_passed_on() {
        let rules = EnvironmentRules {
            pass: vec!["*".to_owned()],
            ..EnvironmentRules::default()
        };
        let inherits = |name: &str, value: &str| !command_variables(&rules, [(name.into(), value.into())]).is_empty();
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "npm_config__authToken",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
            "DB_PASS",
            "GH_PAT",
        ] {
            assert!(!inherits(name, "x"), "{name}");
        }
        for name in ["PATH", "PWD", "SSH_AUTH_SOCK", "KEYBOARD", "COMPASS"] {
            assert!(inherits(name, "x"), "{name}");
        }
        assert!(!inherits("DATABASE_URL", "postgres://me:secret@server/db"));
        assert!(inherits("HOME_PAGE", "https://example.com/a:b@c"));
    }
}
