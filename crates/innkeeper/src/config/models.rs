//! The `[models]` section: the model APIs of the built-in coding agent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// The keys of `[models]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Models {
    /// Whether OpenAI and Anthropic are offered without an entry below.
    pub(crate) discover: bool,
    /// Whether sessions get a title from the model.
    pub(crate) titles: bool,
    /// Most model requests in one turn.
    pub(crate) rounds_per_turn: usize,
    /// Whether the agent may fetch web pages, each after an approval.
    pub(crate) fetch: bool,
    /// Names of variables of the host that its commands get as well.
    pub(crate) pass_env: Vec<String>,
    /// Replacements of sections of the prompt, by id.
    pub(crate) prompt: BTreeMap<String, String>,
    /// Providers; one with the id of a discovered provider replaces it.
    pub(crate) providers: Vec<ProviderConfig>,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            discover: true,
            titles: true,
            rounds_per_turn: 200,
            fetch: false,
            pass_env: Vec::new(),
            prompt: BTreeMap::new(),
            providers: Vec::new(),
        }
    }
}

/// One `[[models.providers]]`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ProviderConfig {
    /// The id that clients name.
    pub(crate) id: String,
    /// The display name; else the id.
    pub(crate) name: Option<String>,
    /// The API; else that of a well-known provider, or Chat Completions.
    pub(crate) api: Option<ApiName>,
    /// The address; the two well-known providers have a default.
    pub(crate) base_url: Option<url::Url>,
    /// The environment variable with the API key.
    pub(crate) key_env: Option<String>,
    /// The file with the API key.
    pub(crate) key_file: Option<PathBuf>,
    /// Whether it needs no key, as servers on this machine usually do.
    #[serde(default)]
    pub(crate) keyless: bool,
    /// Headers of every request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The models to offer; the first is the default. The server may list more.
    #[serde(default)]
    pub(crate) models: Vec<ModelConfig>,
}

/// The APIs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ApiName {
    /// OpenAI's Chat Completions, which most servers implement.
    ChatCompletions,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

/// One model of a provider.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ModelConfig {
    /// The provider's name for it.
    pub(crate) id: String,
    /// The display name.
    pub(crate) name: Option<String>,
    /// Maximum tokens of a request and its response together.
    pub(crate) context_window: Option<u32>,
    /// Maximum tokens of one response.
    pub(crate) max_output_tokens: Option<u32>,
    /// Whether it accepts images.
    pub(crate) vision: Option<bool>,
    /// Whether it accepts a reasoning effort.
    #[serde(default)]
    pub(crate) effort: bool,
}

impl Models {
    /// Checks the values. The error has the key and its problem.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.rounds_per_turn == 0 {
            return Err(("rounds_per_turn", "must be at least 1".to_owned()));
        }
        let known = innkeeper_host::agent::STANDARD_SECTIONS.map(|section| section.id);
        if let Some(id) = self.prompt.keys().find(|id| !known.contains(&id.as_str())) {
            let problem = format!("has no section `{id}`; there are {}", known.join(", "));
            return Err(("prompt", problem));
        }
        for (index, provider) in self.providers.iter().enumerate() {
            let problem = provider.problem();
            let twice = self.providers.iter().take(index).any(|other| other.id == provider.id);
            let problem = problem.or_else(|| twice.then(|| "is there twice".to_owned()));
            if let Some(problem) = problem {
                return Err(("providers", format!("entry `{}` {problem}", provider.id)));
            }
        }
        Ok(())
    }
}

impl ProviderConfig {
    fn problem(&self) -> Option<String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.id.is_empty() || !self.id.chars().all(is_plain) || self.id == "tour" {
            return Some("needs an `id` of letters, digits, `-` and `_` that is not `tour`".to_owned());
        }
        if self.base_url.is_none() && crate::models::well_known(&self.id).is_none() {
            return Some("needs a `base_url`, such as http://127.0.0.1:11434/v1".to_owned());
        }
        if let Some(url) = &self.base_url
            && (!matches!(url.scheme(), "http" | "https") || url.host().is_none())
        {
            return Some("has a `base_url` that is not http or https".to_owned());
        }
        (self.key_env.is_some() && self.key_file.is_some())
            .then(|| "has both `key_env` and `key_file`; one is enough".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), String> {
        let models: Models = toml::from_str(text).unwrap();
        models.check().map_err(|(key, problem)| format!("`{key}` {problem}"))
    }

    #[test]
    fn errors_name_the_entry_and_the_missing_key() {
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("[[providers]]\nid = \"openai\"\nkey_env = \"K\""), Ok(()));
        for (text, needle) in [
            ("rounds_per_turn = 0", "at least 1"),
            ("prompt = { tones = \"x\" }", "no section `tones`"),
            ("[[providers]]\nid = \"mine\"", "entry `mine` needs a `base_url`"),
            ("[[providers]]\nid = \"a b\"", "entry `a b` needs an `id`"),
            (
                "[[providers]]\nid = \"mine\"\nbase_url = \"ftp://x/\"",
                "not http or https",
            ),
            (
                "[[providers]]\nid = \"openai\"\nkey_env = \"K\"\nkey_file = \"f\"",
                "both `key_env` and `key_file`",
            ),
            (
                "[[providers]]\nid = \"openai\"\n[[providers]]\nid = \"openai\"",
                "is there twice",
            ),
        ] {
            let problem = check(text).unwrap_err();
            assert!(problem.contains(needle), "{problem}");
        }
    }
}
