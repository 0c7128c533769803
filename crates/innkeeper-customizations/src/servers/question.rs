//! The lines that a session shows when it asks whether MCP servers may run.
//!
//! Every subscriber of the session reads it, also those with the scope to view. So it names the variables of an
//! environment without their values, which are often keys, except for variables that decide which code runs. The digest
//! that users decide about covers all values.

use std::borrow::Cow;

use innkeeper_plugins::{Remote, Transport};
use url::Url;

use crate::hooks::visible;

/// Variables whose values are code, or name the files that code is loaded from.
const LOADS_CODE: &[&str] = &[
    "BASH_ENV",
    "BUN_OPTIONS",
    "CLASSPATH",
    "DENO_DIR",
    "ENV",
    "GEM_HOME",
    "GEM_PATH",
    "GIT_SSH_COMMAND",
    "HOME",
    "JAVA_TOOL_OPTIONS",
    "LUA_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NPM_CONFIG_REGISTRY",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PIP_INDEX_URL",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC_WRAPPER",
    "SHELL",
    "UV_INDEX_URL",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// The beginnings of other such names.
const LOADS_CODE_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "npm_config_",
    "NPM_CONFIG_",
    "UV_",
    "PIP_",
    "GIT_CONFIG",
];

/// A server in one line: everything that decides what it does, and the file that declares it.
pub(super) fn line(name: &str, transport: &Transport, file: &str) -> String {
    let what = match transport {
        Transport::Stdio {
            command,
            args,
            env,
            env_file,
            cwd,
        } => {
            let words = std::iter::once(command).chain(args).map(|word| quoted(word));
            let mut what = format!("runs {}", code(&words.collect::<Vec<_>>().join(" ")));
            if let Some(cwd) = cwd {
                what.push_str(&format!(" in {}", code(cwd)));
            }
            let variables = env.iter().map(|(name, value)| match value {
                None => code(&format!("{name} unset")),
                Some(value) if loads_code(name) => code(&format!("{name}={value}")),
                Some(_) => code(name),
            });
            let variables: Vec<String> = variables.collect();
            if !variables.is_empty() {
                what.push_str(&format!(", environment: {}", variables.join(", ")));
            }
            if let Some(file) = env_file {
                what.push_str(&format!(", environment from {}", code(file)));
            }
            what
        }
        Transport::Http(remote) | Transport::Sse(remote) => address(remote),
    };
    format!("{} {what} (declared in {})", code(name), code(file))
}

fn address(remote: &Remote) -> String {
    let mut what = format!("connects to {}", code(&without_secrets(&remote.url)));
    if Url::parse(&remote.url).is_ok_and(|url| url.query().is_some()) {
        what.push_str(" with a query that is not shown");
    }
    let headers: Vec<String> = remote.headers.keys().map(|name| code(name)).collect();
    if !headers.is_empty() {
        what.push_str(&format!(", headers: {}", headers.join(", ")));
    }
    what
}

/// An address as users may see it: its query often has keys.
pub(super) fn without_secrets(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return "an address that cannot be read".to_owned();
    };
    // Neither call fails for a URL with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}

fn loads_code(name: &str) -> bool {
    LOADS_CODE.contains(&name) || LOADS_CODE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A word of a command as a shell would take it, so that users see where each argument ends.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~${}".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// Untrusted text that clients show unchanged, also those that render Markdown.
pub(super) fn code(text: &str) -> String {
    let text = visible(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn cus27_an_address_is_shown_without_its_secrets() {
        assert_eq!(without_secrets("https://me:pw@a.test/mcp?key=1"), "https://a.test/mcp");
    }

    #[test]
    fn p12_users_see_that_an_address_has_a_query_and_headers() {
        let server = Transport::Http(Remote {
            url: "https://a.test/mcp?key=1".to_owned(),
            headers: BTreeMap::from([("X-Key".to_owned(), "hunter2".to_owned())]),
            oauth_client_id: None,
        });
        assert_eq!(
            line("far", &server, ".mcp.json"),
            "`far` connects to `https://a.test/mcp` with a query that is not shown, headers: `X-Key` (declared in \
             `.mcp.json`)"
        );
    }

    #[test]
    fn p12_users_see_where_each_argument_ends() {
        for (word, shown) in [
            ("-y", "-y"),
            ("@scope/server@1.2", "@scope/server@1.2"),
            ("${HOME}/x", "${HOME}/x"),
            ("a b", "'a b'"),
            ("a;b", "'a;b'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn p12_no_text_of_a_declaration_is_rendered_as_markdown() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a`b"), "`` a`b ``");
        assert_eq!(code("``"), "``` `` ```");
        assert_eq!(code("a\u{202e}b\nc"), "`a\\u{202e}b⏎c`");
    }

    #[test]
    fn p12_values_of_an_environment_are_hidden_unless_they_load_code() {
        let server = Transport::Stdio {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), "a b".to_owned()],
            env: BTreeMap::from([
                ("API_KEY".to_owned(), Some("hunter2".to_owned())),
                ("NODE_OPTIONS".to_owned(), Some("--require ./x.js".to_owned())),
                ("LD_PRELOAD".to_owned(), Some("./x.so".to_owned())),
                ("GONE".to_owned(), None),
            ]),
            env_file: Some(".env".to_owned()),
            cwd: Some("sub".to_owned()),
        };
        assert_eq!(
            line("inn", &server, ".mcp.json"),
            "`inn` runs `npx -y 'a b'` in `sub`, environment: `API_KEY`, `GONE unset`, `LD_PRELOAD=./x.so`, \
             `NODE_OPTIONS=--require ./x.js`, environment from `.env` (declared in `.mcp.json`)"
        );
    }
}
