//! Questions of agents to users: `elicitation/create`.

use innkeeper_acp_wire::{RpcError, code};
use innkeeper_host::mcp::{Question, QuestionAnswer};
use serde_json::{Value, json};

/// Reads the question; `None` for one of an unknown kind.
pub(crate) fn question(params: &Value) -> Option<Question> {
    let message = params["message"].as_str().unwrap_or_default().to_owned();
    match params["mode"].as_str().unwrap_or("form") {
        "form" => Some(Question::Form {
            message,
            schema: params["requestedSchema"].clone(),
        }),
        "url" => Some(Question::Url {
            message,
            url: params["url"].as_str()?.to_owned(),
        }),
        _ => None,
    }
}

/// Returns the answer to the agent.
pub(crate) fn answer(answer: QuestionAnswer) -> Result<Value, RpcError> {
    match answer {
        QuestionAnswer::Accepted(content) => Ok(json!({ "action": "accept", "content": content })),
        QuestionAnswer::Declined => Ok(json!({ "action": "decline" })),
        QuestionAnswer::Cancelled => Ok(json!({ "action": "cancel" })),
        QuestionAnswer::Refused { code, message } => Err(RpcError::new(code, message)),
        QuestionAnswer::Sampled(_) => Err(RpcError::new(code::INTERNAL, "no model was asked")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_pages_are_read() {
        let form = question(&json!({ "mode": "form", "message": "Which?", "requestedSchema": { "type": "object" } }));
        assert!(matches!(form, Some(Question::Form { .. })), "{form:?}");
        let page = question(&json!({ "mode": "url", "message": "Go", "url": "https://a.example" }));
        assert!(matches!(page, Some(Question::Url { .. })), "{page:?}");
        assert_eq!(question(&json!({ "mode": "dream" })), None);
        let accepted = answer(QuestionAnswer::Accepted(
            json!({ "a": 1 }).as_object().cloned().expect("an object"),
        ));
        assert_eq!(accepted, Ok(json!({ "action": "accept", "content": { "a": 1 } })));
    }
}
