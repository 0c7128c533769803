//! The `[models]` section: which model APIs the built-in coding agent uses.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// What `[models]` can say.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Models {
    /// Whether OpenAI and Anthropic are offered without being named below.
    pub(crate) discover: bool,
    /// Whether sessions get a title from the model.
    pub(crate) titles: bool,
    /// How often a model is asked in one turn at most.
    pub(crate) rounds_per_turn: usize,
    /// Whether the agent may read web pages, each after asking.
    pub(crate) fetch: bool,
    /// What stands in sections of the prompt instead of the usual, by id.
    pub(crate) prompt: BTreeMap<String, String>,
    /// Providers; one with the id of a discovered one takes its place.
    pub(crate) providers: Vec<ProviderConfig>,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            discover: true,
            titles: true,
            rounds_per_turn: 200,
            fetch: false,
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
    /// A name for people; else the id.
    pub(crate) name: Option<String>,
    /// The API it speaks; else that of a well-known provider, or Chat Completions.
    pub(crate) api: Option<ApiName>,
    /// Where it is; the two well-known ones have a default.
    pub(crate) base_url: Option<url::Url>,
    /// The environment variable that holds the key.
    pub(crate) key_env: Option<String>,
    /// The file that holds the key.
    pub(crate) key_file: Option<PathBuf>,
    /// Whether it can be used without a key, as servers on this machine usually can.
    #[serde(default)]
    pub(crate) keyless: bool,
    /// Headers to send with every request.
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
    /// OpenAI's Chat Completions, which most servers speak.
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
    /// A name for people.
    pub(crate) name: Option<String>,
    /// The most tokens of a request and its answer together.
    pub(crate) context_window: Option<u32>,
    /// The most tokens of one answer.
    pub(crate) max_output_tokens: Option<u32>,
    /// Whether it can look at pictures.
    pub(crate) vision: Option<bool>,
    /// Whether it can be told how hard to think.
    #[serde(default)]
    pub(crate) effort: bool,
}

impl Models {
    /// Refuses what can only be a mistake; names the key and what is wrong with its value.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.rounds_per_turn == 0 {
            return Err(("rounds_per_turn", "must be at least 1".to_owned()));
        }
        let known = innkeeper_host::STANDARD_SECTIONS.map(|section| section.id);
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
    fn mistakes_name_the_entry_and_what_it_needs() {
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
