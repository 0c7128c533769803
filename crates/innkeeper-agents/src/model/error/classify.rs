//! Classifies a failure by status, headers and body.

use std::time::Duration;

use innkeeper_std::text::truncate_chars;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{ErrorKind, Provider, ProviderError};

/// A failure as the provider reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    /// HTTP status; `None` if the stream failed without one.
    pub(crate) status: Option<u16>,
    /// Types and codes in lower case, such as `insufficient_quota`.
    pub(crate) codes: Vec<String>,
    /// The provider's message.
    pub(crate) detail: String,
}

impl Failure {
    /// Parses the body of an HTTP error.
    pub(crate) fn from_body(status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut failure = match serde_json::from_str::<Value>(&text) {
            Ok(value) => Self::from_value(&value),
            // An HTML page contains no useful message.
            Err(_) if text.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self {
                detail: text.into_owned(),
                ..Self::default()
            },
        };
        failure.status = Some(status);
        failure
    }

    /// Parses an error object: `{error: {type, code, message}}` and its variants.
    pub(crate) fn from_value(value: &Value) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let inner = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let mut codes = Vec::new();
        let mut status = None;
        for holder in [inner, value] {
            for field in ["type", "code", "status"] {
                match holder.get(field) {
                    Some(Value::String(code)) if code != "error" => codes.push(code.to_ascii_lowercase()),
                    // Gateways pass on the upstream status as the code.
                    Some(Value::Number(code)) => {
                        let code = code.as_u64().and_then(|code| u16::try_from(code).ok());
                        status = status.or_else(|| code.filter(|code| (400..600).contains(code)));
                    }
                    _ => {}
                }
            }
        }
        codes.dedup();
        Self {
            status,
            codes,
            detail: message_of(inner).or_else(|| message_of(value)).unwrap_or_default(),
        }
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
    }

    fn mentions(&self, phrases: &[&str]) -> bool {
        let detail = self.detail.to_ascii_lowercase();
        phrases.iter().any(|phrase| detail.contains(phrase))
    }
}

fn message_of(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    for field in ["message", "detail", "error_description", "msg", "reason"] {
        match value.get(field) {
            Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
            Some(Value::Array(list)) => {
                let sentences: Vec<String> = list.iter().filter_map(message_of).collect();
                if !sentences.is_empty() {
                    return Some(sentences.join("; "));
                }
            }
            _ => {}
        }
    }
    None
}

/// Builds the error for a failure.
pub(crate) fn classify(provider: &Provider, failure: &Failure) -> ProviderError {
    let detail = match (failure.status, failure.detail.is_empty()) {
        (Some(status), true) => format!("HTTP status {status}"),
        (Some(status), false) => format!("{} (HTTP status {status})", shortened(provider, &failure.detail)),
        (None, _) => failure.detail.clone(),
    };
    provider.error(kind_of(failure), &detail)
}

/// Maximum length of a provider's message, so that the status still fits.
const MAX_QUOTED_CHARS: usize = 275;

fn shortened(provider: &Provider, detail: &str) -> String {
    let quoted = provider.quote(detail);
    truncate_chars(&quoted, MAX_QUOTED_CHARS).into_owned()
}

fn kind_of(failure: &Failure) -> ErrorKind {
    // Error codes are more reliable than the status, and the status is more reliable than the message.
    by_code(failure)
        .or_else(|| by_message_and_status(failure))
        .or_else(|| failure.status.map(by_status))
        .unwrap_or(ErrorKind::Server)
}

fn by_code(failure: &Failure) -> Option<ErrorKind> {
    let table: &[(&[&str], ErrorKind)] = &[
        (
            &[
                "insufficient_quota",
                "billing_error",
                "billing_hard_limit_reached",
                "insufficient_balance",
                "insufficient_credits",
            ],
            ErrorKind::Quota,
        ),
        (
            &[
                "context_length_exceeded",
                "exceed_context_size_error",
                "request_too_large",
                "context_window_exceeded",
            ],
            ErrorKind::ContextLength,
        ),
        (
            &["authentication_error", "invalid_api_key", "unauthorized"],
            ErrorKind::Auth,
        ),
        (&["permission_error", "permission_denied"], ErrorKind::Forbidden),
        (&["model_not_found", "model_not_available"], ErrorKind::NoModel),
        (
            &[
                "overloaded_error",
                "server_is_overloaded",
                "slow_down",
                "engine_overloaded",
                "unavailable",
            ],
            ErrorKind::Overloaded,
        ),
        (
            &[
                "content_filter",
                "content_policy_violation",
                "invalid_prompt",
                "responsibleaipolicyviolation",
                "moderation_blocked",
            ],
            ErrorKind::Refused,
        ),
        (
            &[
                "rate_limit_error",
                "rate_limit_exceeded",
                "rate_limited",
                "too_many_requests",
                "resource_exhausted",
            ],
            ErrorKind::RateLimited,
        ),
        (
            &["timeout_error", "api_error", "server_error", "internal_server_error"],
            ErrorKind::Server,
        ),
    ];
    // Providers report exhausted credit in the message, under various codes.
    if failure.mentions(&[
        "credit balance is too low",
        "exceeded your current quota",
        "insufficient balance",
    ]) {
        return Some(ErrorKind::Quota);
    }
    let found = table.iter().find(|(codes, _)| failure.has_code(codes));
    found.map(|(_, kind)| *kind)
}

fn by_message_and_status(failure: &Failure) -> Option<ErrorKind> {
    if !matches!(failure.status, None | Some(400 | 404 | 413 | 422 | 500)) {
        return None;
    }
    let too_long = [
        "prompt is too long",
        "maximum context length",
        "context length",
        "context window",
        "context size",
        "exceed context limit",
        "input is too long",
        "too many input tokens",
    ];
    if failure.mentions(&too_long) {
        return Some(ErrorKind::ContextLength);
    }
    if failure.status == Some(500) {
        return None;
    }
    let names_a_model = failure.mentions(&["model"]);
    let is_missing = failure.mentions(&[
        "not found",
        "does not exist",
        "not exist",
        "unknown model",
        "invalid model",
        "no such model",
    ]);
    let missing_model = names_a_model && (is_missing || failure.status == Some(404));
    if missing_model {
        return Some(ErrorKind::NoModel);
    }
    failure
        .has_code(&["invalid_request_error", "not_found_error"])
        .then_some(ErrorKind::BadRequest)
}

fn by_status(status: u16) -> ErrorKind {
    match status {
        401 | 407 => ErrorKind::Auth,
        // 403 may concern a region, a model or a network while the key itself is valid.
        403 => ErrorKind::Forbidden,
        402 => ErrorKind::Quota,
        413 => ErrorKind::ContextLength,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        408 | 409 | 425 | 500.. => ErrorKind::Server,
        _ => ErrorKind::BadRequest,
    }
}

/// Reads how long to wait: milliseconds, seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: jiff::Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(after).ok()?.timestamp();
    // A date in the past means no wait.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(status: u16, body: Value) -> ErrorKind {
        kind_of(&Failure::from_body(status, body.to_string().as_bytes()))
    }

    #[test]
    fn openai_errors_are_classified() {
        let error = |code: &str, message: &str| json!({"error": {"type": "invalid_request_error", "code": code, "message": message}});
        assert_eq!(
            kind(401, error("invalid_api_key", "Incorrect API key")),
            ErrorKind::Auth
        );
        assert_eq!(
            kind(429, error("insufficient_quota", "You exceeded your current quota")),
            ErrorKind::Quota
        );
        assert_eq!(
            kind(429, error("rate_limit_exceeded", "Rate limit reached")),
            ErrorKind::RateLimited
        );
        assert_eq!(
            kind(400, error("context_length_exceeded", "too long")),
            ErrorKind::ContextLength
        );
        assert_eq!(
            kind(404, error("model_not_found", "The model `x` does not exist")),
            ErrorKind::NoModel
        );
        assert_eq!(
            kind(400, error("invalid_value", "Invalid value")),
            ErrorKind::BadRequest
        );
        assert_eq!(kind(400, error("content_filter", "filtered")), ErrorKind::Refused);
        assert_eq!(kind(503, error("server_is_overloaded", "busy")), ErrorKind::Overloaded);
        assert_eq!(
            kind(500, json!({"error": {"type": "server_error", "message": "oops"}})),
            ErrorKind::Server
        );
    }

    #[test]
    fn anthropic_errors_are_classified() {
        let error = |code: &str, message: &str| json!({"type": "error", "error": {"type": code, "message": message}});
        assert_eq!(
            kind(401, error("authentication_error", "invalid x-api-key")),
            ErrorKind::Auth
        );
        assert_eq!(kind(403, error("permission_error", "no")), ErrorKind::Forbidden);
        assert_eq!(kind(403, json!("not from here")), ErrorKind::Forbidden);
        assert_eq!(kind(403, error("invalid_api_key", "no")), ErrorKind::Auth);
        assert_eq!(
            kind(400, error("invalid_request_error", "Your credit balance is too low")),
            ErrorKind::Quota
        );
        assert_eq!(
            kind(
                400,
                error(
                    "invalid_request_error",
                    "prompt is too long: 210000 tokens > 200000 maximum"
                )
            ),
            ErrorKind::ContextLength
        );
        assert_eq!(
            kind(413, error("request_too_large", "Request exceeds the maximum size")),
            ErrorKind::ContextLength
        );
        assert_eq!(
            kind(404, error("not_found_error", "model: claude-none")),
            ErrorKind::NoModel
        );
        assert_eq!(
            kind(429, error("rate_limit_error", "slow down")),
            ErrorKind::RateLimited
        );
        assert_eq!(
            kind(529, error("overloaded_error", "Overloaded")),
            ErrorKind::Overloaded
        );
        assert_eq!(
            kind(500, error("api_error", "Internal server error")),
            ErrorKind::Server
        );
        assert_eq!(
            kind(400, error("invalid_request_error", "messages: at least one")),
            ErrorKind::BadRequest
        );
    }

    #[test]
    fn errors_of_other_servers_are_classified() {
        assert_eq!(
            kind(404, json!({"error": "model 'llama9' not found"})),
            ErrorKind::NoModel
        );
        assert_eq!(
            kind(422, json!({"detail": [{"msg": "field required"}]})),
            ErrorKind::BadRequest
        );
        assert_eq!(
            kind(
                400,
                json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds the available context size"}})
            ),
            ErrorKind::ContextLength
        );
        assert_eq!(
            kind(402, json!({"error": {"message": "Insufficient Balance"}})),
            ErrorKind::Quota
        );
        let passed_on = |code: u16| {
            kind_of(&Failure::from_value(
                &json!({"error": {"code": code, "message": "Provider error"}}),
            ))
        };
        assert_eq!(
            [402, 429, 502].map(passed_on),
            [ErrorKind::Quota, ErrorKind::RateLimited, ErrorKind::Server]
        );
        assert_eq!(kind(413, json!("too much")), ErrorKind::ContextLength);
        assert_eq!(
            kind(404, json!({"error": {"message": "no such page"}})),
            ErrorKind::BadRequest
        );
        assert_eq!(
            kind_of(&Failure::from_body(502, b"<html>Bad Gateway</html>")),
            ErrorKind::Server
        );
        assert_eq!(Failure::from_body(502, b"<html>Bad Gateway</html>").detail, "");
    }

    #[test]
    fn retry_after_is_parsed_in_every_form() {
        let now: jiff::Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        let read = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(read("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(
            read("retry-after", "Mon, 16 Nov 2026 10:00:30 GMT"),
            Some(Duration::from_secs(30))
        );
        assert_eq!(
            read("retry-after", "Mon, 16 Nov 2026 09:00:00 GMT"),
            Some(Duration::ZERO)
        );
        assert_eq!(read("retry-after", "soon"), None);
        assert_eq!(read("retry-after", "-3"), None);
    }
}
