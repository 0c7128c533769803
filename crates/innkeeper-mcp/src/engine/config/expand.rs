//! Expands `${…}` in configurations, in one pass: inserted text is not expanded again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{Remote, ServerConfig, Stdio, Transport};

/// The rules for `${…}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// Agent Plugins: only `${PLUGIN_ROOT}` and `${PLUGIN_DATA}`, and only in arguments, environment values and the directory.
    /// Everything else stays as it is.
    AgentPlugin,
    /// Everything else: any variable, `${NAME:-default}` and `${env:NAME}`, everywhere.
    #[default]
    Common,
}

/// The values for `${…}`.
#[derive(Clone, Debug, Default)]
pub struct Placeholders {
    /// The rules.
    pub syntax: Syntax,
    /// The directory of the plugin that declares the server: `PLUGIN_ROOT`.
    pub plugin_root: Option<String>,
    /// The directory for data of the plugin: `PLUGIN_DATA`.
    pub plugin_data: Option<String>,
    /// All other variables. The host chooses them, so that no configuration reads its secrets.
    pub variables: BTreeMap<String, String>,
}

impl Placeholders {
    fn value(&self, name: &str) -> Option<&str> {
        match (name, self.syntax) {
            ("PLUGIN_ROOT", _) | ("CLAUDE_PLUGIN_ROOT", Syntax::Common) => self.plugin_root.as_deref(),
            ("PLUGIN_DATA", _) | ("CLAUDE_PLUGIN_DATA", Syntax::Common) => self.plugin_data.as_deref(),
            (_, Syntax::AgentPlugin) => None,
            (name, Syntax::Common) => {
                let name = name.strip_prefix("env:").unwrap_or(name);
                self.variables.get(name).map(String::as_str)
            }
        }
    }

    /// Returns the variables that a server of a plugin always gets in its environment.
    fn reserved(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let claude = self.syntax == Syntax::Common;
        let root = self.plugin_root.iter().map(|root| ("PLUGIN_ROOT", root));
        let data = self.plugin_data.iter().map(|data| ("PLUGIN_DATA", data));
        let claude_root = self.plugin_root.iter().map(|root| ("CLAUDE_PLUGIN_ROOT", root));
        let claude_data = self.plugin_data.iter().map(|data| ("CLAUDE_PLUGIN_DATA", data));
        let of_claude = claude_root.chain(claude_data).filter(move |_| claude);
        root.chain(data).chain(of_claude)
    }
}

/// Expands a configuration. Returns the names without a value, too; they stay as they are.
pub fn expand(config: &ServerConfig, placeholders: &Placeholders) -> (ServerConfig, BTreeSet<String>) {
    let mut expansion = Expansion {
        placeholders,
        missing: BTreeSet::new(),
    };
    let transport = match &config.transport {
        Transport::Stdio(stdio) => Transport::Stdio(expansion.stdio(stdio)),
        Transport::Http(remote) => Transport::Http(expansion.remote(remote)),
        Transport::Sse(remote) => Transport::Sse(expansion.remote(remote)),
    };
    let config = ServerConfig {
        transport,
        ..config.clone()
    };
    (config, expansion.missing)
}

struct Expansion<'a> {
    placeholders: &'a Placeholders,
    missing: BTreeSet<String>,
}

impl Expansion<'_> {
    fn stdio(&mut self, stdio: &Stdio) -> Stdio {
        let mut env: BTreeMap<_, _> = stdio
            .env
            .iter()
            .map(|(name, value)| (name.clone(), value.as_deref().map(|value| self.text(value))))
            .collect();
        for (name, value) in self.placeholders.reserved() {
            env.insert(name.to_owned(), Some(value.clone()));
        }
        Stdio {
            command: self.text_outside(&stdio.command),
            args: stdio.args.iter().map(|arg| self.text(arg)).collect(),
            cwd: stdio.cwd.as_ref().map(|cwd| match cwd.to_str() {
                Some(cwd) => PathBuf::from(self.text(cwd)),
                None => cwd.clone(),
            }),
            env,
        }
    }

    fn remote(&mut self, remote: &Remote) -> Remote {
        Remote {
            url: self.text_outside(&remote.url),
            headers: remote
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), self.text_outside(value)))
                .collect(),
            oauth_client_id: remote.oauth_client_id.clone(),
        }
    }

    /// Commands, addresses and headers, which Agent Plugins do not expand.
    fn text_outside(&mut self, text: &str) -> String {
        match self.placeholders.syntax {
            Syntax::AgentPlugin => text.to_owned(),
            Syntax::Common => self.text(text),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((inside, tail)) = after.split_once('}') else {
                out.push_str("${");
                rest = after;
                continue;
            };
            let (name, default) = match (self.placeholders.syntax, inside.split_once(":-")) {
                (Syntax::Common, Some((name, default))) => (name, Some(default)),
                (Syntax::Common, None) | (Syntax::AgentPlugin, _) => (inside, None),
            };
            // As in a shell, an empty value is replaced by the default as well.
            let value = self.placeholders.value(name);
            let chosen = value.filter(|value| default.is_none() || !value.is_empty()).or(default);
            match chosen {
                Some(value) => out.push_str(value),
                None => {
                    self.missing.insert(name.to_owned());
                    out.push_str("${");
                    out.push_str(inside);
                    out.push('}');
                }
            }
            rest = tail;
        }
        out.push_str(rest);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders(syntax: Syntax) -> Placeholders {
        Placeholders {
            syntax,
            plugin_root: Some("/p".into()),
            plugin_data: Some("/d/${PLUGIN_ROOT}".into()),
            variables: [("TOKEN", "t"), ("EMPTY", "")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
        }
    }

    fn arg(syntax: Syntax, text: &str) -> (String, Vec<String>) {
        let config = ServerConfig::new("a", Transport::Stdio(Stdio::new("c", [text])));
        let (config, missing) = expand(&config, &placeholders(syntax));
        let Transport::Stdio(stdio) = config.transport else {
            panic!()
        };
        (stdio.args.concat(), missing.into_iter().collect())
    }

    #[test]
    fn every_variable_is_expanded_once() {
        let (text, missing) = arg(Syntax::Common, "${PLUGIN_ROOT}/x:${CLAUDE_PLUGIN_ROOT}:${PLUGIN_DATA}");
        assert_eq!(text, "/p/x:/p:/d/${PLUGIN_ROOT}");
        assert!(missing.is_empty());
    }

    #[test]
    fn variables_have_defaults_and_unknown_ones_stay() {
        let cases = [
            ("a${TOKEN}b${env:TOKEN}", "atbt", ""),
            ("${NOPE:-d}${EMPTY:-e}${EMPTY}", "de", ""),
            ("${NOPE}", "${NOPE}", "NOPE"),
            ("${open $ {} ${", "${open $ {} ${", "open $ {"),
            ("${TOKEN", "${TOKEN", ""),
        ];
        for (text, expected, missing) in cases {
            let (expanded, names) = arg(Syntax::Common, text);
            assert_eq!(expanded, expected, "{text}");
            assert_eq!(names.concat(), missing, "{text}");
        }
    }

    #[test]
    fn agent_plugins_expand_two_variables_only() {
        let (text, missing) = arg(Syntax::AgentPlugin, "${PLUGIN_ROOT}:${CLAUDE_PLUGIN_ROOT}:${TOKEN:-x}");
        assert_eq!(text, "/p:${CLAUDE_PLUGIN_ROOT}:${TOKEN:-x}");
        assert_eq!(missing, ["CLAUDE_PLUGIN_ROOT", "TOKEN:-x"]);
        let mut remote = Remote::new("https://${PLUGIN_ROOT}");
        remote.headers.insert("a".into(), "${TOKEN}".into());
        let config = ServerConfig::new("a", Transport::Http(remote));
        assert_eq!(expand(&config, &placeholders(Syntax::AgentPlugin)).0, config);
        assert_ne!(expand(&config, &placeholders(Syntax::Common)).0, config);
    }

    #[test]
    fn a_server_cannot_override_the_root_of_its_plugin() {
        let mut stdio = Stdio::new("c", [""; 0]);
        stdio.env.insert("PLUGIN_ROOT".into(), Some("/elsewhere".into()));
        let config = ServerConfig::new("a", Transport::Stdio(stdio));
        let (config, _) = expand(&config, &placeholders(Syntax::AgentPlugin));
        let Transport::Stdio(stdio) = config.transport else {
            panic!()
        };
        assert_eq!(stdio.env["PLUGIN_ROOT"].as_deref(), Some("/p"));
        assert!(!stdio.env.contains_key("CLAUDE_PLUGIN_ROOT"));
    }
}
