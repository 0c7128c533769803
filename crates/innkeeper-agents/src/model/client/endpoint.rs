//! Address and conventions of a provider.

use std::fmt;
use std::time::Duration;

use url::{Host, Url};

/// Default idle timeout of a stream. Models that hide their reasoning are silent for minutes.
const IDLE_TIME: Duration = Duration::from_secs(5 * 60);

/// Supported APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's Chat Completions, which most servers support.
    ChatCompletions,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

impl Api {
    /// Name in the settings and in proofs.
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

/// Header that carries the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeyPlacement {
    /// The API's default: `x-api-key` for Messages, `Authorization: Bearer` for the others.
    #[default]
    Usual,
    /// `Authorization: Bearer`.
    Bearer,
    /// A header of this name.
    Header(String),
}

/// Chat Completions' field for the maximum output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenField {
    /// `max_completion_tokens`, OpenAI's current name.
    MaxCompletionTokens,
    /// `max_tokens`, the former name, which most other servers use.
    MaxTokens,
}

/// Address and conventions of a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The API.
    pub api: Api,
    /// Base URL to which the API's paths are appended, such as `https://api.example.com/v1`.
    pub base_url: Url,
    /// Headers for every request.
    pub headers: Vec<(String, String)>,
    /// Header that carries the key.
    pub key_placement: KeyPlacement,
    /// Field for the maximum output tokens; `None` chooses by host.
    pub token_field: Option<TokenField>,
    /// Idle timeout of a stream.
    pub idle_time: Duration,
}

impl Endpoint {
    /// Creates an endpoint with defaults.
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

    /// Returns host and port for messages.
    pub fn host(&self) -> String {
        let host = self.base_url.host_str().unwrap_or("the model server");
        match self.base_url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Returns true for addresses of this machine.
    pub fn is_loopback(&self) -> bool {
        match self.base_url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
    }

    /// Returns true if a configured header carries a key.
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

    /// URL of answers.
    pub(super) fn ask_url(&self) -> Url {
        self.url_of(self.api.path())
    }

    /// URL of the model list.
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
        // Users write the address with its version or, for Messages and local servers, without.
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

/// Header values, and URL parts other than the host, may be secret (AUTH-12).
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

    fn ask_url_of(api: Api, base: &str) -> String {
        Endpoint::new(api, base.parse().unwrap()).ask_url().to_string()
    }

    #[test]
    fn base_urls_work_with_and_without_version() {
        let chat = "http://localhost:11434/v1/chat/completions";
        for base in [
            "http://localhost:11434",
            "http://localhost:11434/",
            "http://localhost:11434/v1",
            "http://localhost:11434/v1/",
        ] {
            assert_eq!(ask_url_of(Api::ChatCompletions, base), chat);
        }
        let messages = "https://api.anthropic.com/v1/messages";
        for base in ["https://api.anthropic.com", "https://api.anthropic.com/v1"] {
            assert_eq!(ask_url_of(Api::Messages, base), messages);
        }
        assert_eq!(
            ask_url_of(Api::Messages, "https://proxy.example/anthropic"),
            "https://proxy.example/anthropic/v1/messages"
        );
        assert_eq!(
            ask_url_of(
                Api::Responses,
                "https://x.openai.azure.com/openai/v1?api-version=preview"
            ),
            "https://x.openai.azure.com/openai/v1/responses?api-version=preview"
        );
        assert_eq!(
            ask_url_of(Api::ChatCompletions, "https://x.example/api/paas"),
            "https://x.example/api/paas/chat/completions"
        );
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let mut endpoint = Endpoint::new(
            Api::Messages,
            "https://me:pass@x.example/v1?key=sesame".parse().unwrap(),
        );
        endpoint.headers.push(("x-gateway".into(), "open-sesame".into()));
        let shown = format!("{endpoint:?}");
        assert!(!shown.contains("sesame") && !shown.contains("pass"), "{shown}");
    }
}
