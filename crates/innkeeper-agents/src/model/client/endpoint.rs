//! Where a provider is, and how it wants to be asked.

use std::fmt;
use std::time::Duration;

use url::{Host, Url};

/// How long a stream may stay silent unless the settings say otherwise. Models that think without
/// showing it are silent for minutes.
const IDLE_TIME: Duration = Duration::from_secs(5 * 60);

/// The APIs that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's Chat Completions, which most servers speak.
    ChatCompletions,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

impl Api {
    /// Its name in the settings and in proofs.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat-completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    fn path(self) -> &'static [&'static str] {
        match self {
            Self::ChatCompletions => &["chat", "completions"],
            Self::Responses => &["responses"],
            Self::Messages => &["messages"],
        }
    }
}

/// Where the key goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeyPlacement {
    /// Where the API has it: `x-api-key` for Messages, `Authorization: Bearer` for the others.
    #[default]
    Usual,
    /// `Authorization: Bearer`.
    Bearer,
    /// In a header of this name.
    Header(String),
}

/// What Chat Completions calls the most tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenField {
    /// `max_completion_tokens`, as OpenAI has it now.
    MaxCompletionTokens,
    /// `max_tokens`, as it was and as most other servers have it.
    MaxTokens,
}

/// A provider's address and ways.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The API it speaks.
    pub api: Api,
    /// The address that the paths of the API are put behind, such as `https://api.example.com/v1`.
    pub base_url: Url,
    /// Headers to send with every request.
    pub headers: Vec<(String, String)>,
    /// Where the key goes.
    pub key_placement: KeyPlacement,
    /// What the most tokens of an answer are called; `None` to choose by the host.
    pub token_field: Option<TokenField>,
    /// How long a stream may stay silent before it counts as broken.
    pub idle_time: Duration,
}

impl Endpoint {
    /// An endpoint with nothing special about it.
    pub fn new(api: Api, base_url: Url) -> Self {
        Self {
            api,
            base_url,
            headers: Vec::new(),
            key_placement: KeyPlacement::Usual,
            token_field: None,
            idle_time: IDLE_TIME,
        }
    }

    /// The host and port, for people.
    pub fn host(&self) -> String {
        let host = self.base_url.host_str().unwrap_or("the model server");
        match self.base_url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Whether it is this very machine.
    pub fn is_loopback(&self) -> bool {
        match self.base_url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
    }

    /// Whether the settings bring a key along in a header.
    pub(super) fn has_key_header(&self) -> bool {
        let is_key =
            |name: &str| ["authorization", "x-api-key", "api-key"].contains(&name.to_ascii_lowercase().as_str());
        self.headers.iter().any(|(name, _)| is_key(name))
    }

    pub(super) fn token_field(&self) -> TokenField {
        self.token_field.unwrap_or_else(|| {
            let host = self.base_url.host_str().unwrap_or_default();
            let is_openai = host.ends_with("openai.com") || host.ends_with("azure.com");
            if is_openai {
                TokenField::MaxCompletionTokens
            } else {
                TokenField::MaxTokens
            }
        })
    }

    /// Where answers are asked for.
    pub(super) fn ask_url(&self) -> Url {
        self.url_of(self.api.path())
    }

    /// Where models are listed.
    pub(super) fn models_url(&self) -> Url {
        let mut url = self.url_of(&["models"]);
        if self.api == Api::Messages {
            url.query_pairs_mut().append_pair("limit", "1000");
        }
        url
    }

    fn url_of(&self, path: &[&str]) -> Url {
        let mut url = self.base_url.clone();
        let last = url
            .path()
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let has_version = last
            .strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        // People write an address with its version or, for Messages and for local servers, without.
        let lacks_version = !has_version && (self.api == Api::Messages || last.is_empty());
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            if lacks_version {
                segments.push("v1");
            }
            segments.extend(path);
        }
        url
    }
}

/// Header values and whatever is in the address beside the host may be secret (AUTH-12).
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("api", &self.api)
            .field("host", &self.host())
            .field("headers", &names)
            .field("key_placement", &self.key_placement)
            .field("token_field", &self.token_field)
            .field("idle_time", &self.idle_time)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(api: Api, base: &str) -> String {
        Endpoint::new(api, base.parse().unwrap()).ask_url().to_string()
    }

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        let chat = "http://localhost:11434/v1/chat/completions";
        for base in [
            "http://localhost:11434",
            "http://localhost:11434/",
            "http://localhost:11434/v1",
            "http://localhost:11434/v1/",
        ] {
            assert_eq!(asked(Api::ChatCompletions, base), chat);
        }
        let messages = "https://api.anthropic.com/v1/messages";
        for base in ["https://api.anthropic.com", "https://api.anthropic.com/v1"] {
            assert_eq!(asked(Api::Messages, base), messages);
        }
        assert_eq!(
            asked(Api::Messages, "https://proxy.example/anthropic"),
            "https://proxy.example/anthropic/v1/messages"
        );
        assert_eq!(
            asked(
                Api::Responses,
                "https://x.openai.azure.com/openai/v1?api-version=preview"
            ),
            "https://x.openai.azure.com/openai/v1/responses?api-version=preview"
        );
        assert_eq!(
            asked(Api::ChatCompletions, "https://x.example/api/paas"),
            "https://x.example/api/paas/chat/completions"
        );
    }

    #[test]
    fn nothing_secret_is_printed() {
        let mut endpoint = Endpoint::new(
            Api::Messages,
            "https://me:pass@x.example/v1?key=sesame".parse().unwrap(),
        );
        endpoint.headers.push(("x-gateway".into(), "open-sesame".into()));
        let shown = format!("{endpoint:?}");
        assert!(!shown.contains("sesame") && !shown.contains("pass"), "{shown}");
    }
}
