//! Requests for session titles.

use innkeeper_std::text::truncate;

use super::models::Model;
use crate::model::api::{Effort, ModelRequest};
use crate::model::conversation::user;

/// Maximum length of a title, in characters.
const MAX_TITLE: usize = 80;
/// Maximum bytes of the message that the request quotes.
const MAX_TEXT: usize = 4000;

const INSTRUCTIONS: &str = "You give conversations a title: at most six words, in the language of the message, \
    without quotes and without a full stop. Answer with the title alone.";

/// Builds the request for a title.
pub(in crate::model) fn request(model: &Model, text: &str) -> ModelRequest {
    let text = truncate(text, MAX_TEXT);
    ModelRequest {
        model: model.id.clone(),
        system: vec![INSTRUCTIONS.to_owned()],
        messages: vec![user(format!("A conversation begins with this message:\n\n{text}"))],
        // Some models always reason before they answer, so leave room for that.
        max_output_tokens: Some(1000),
        effort: model.accepts_effort.then_some(Effort::Low),
        ..ModelRequest::default()
    }
}

/// Extracts the title from an answer, or `None` if the answer is not a title.
pub(in crate::model) fn parse(answer: &str) -> Option<String> {
    let line = answer.lines().map(str::trim).find(|line| !line.is_empty())?;
    let bare = line.trim_matches(|c: char| matches!(c, '"' | '“' | '”' | '*' | '#' | '`') || c.is_whitespace());
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let is_title = !bare.is_empty() && bare.chars().count() <= MAX_TITLE && !bare.chars().any(char::is_control);
    is_title.then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(parse("\n \"Fix the parser.\"\n"), Some("Fix the parser".to_owned()));
        assert_eq!(parse("**Fix it**"), Some("Fix it".to_owned()));
        assert_eq!(parse("  \n"), None);
        assert_eq!(parse(&"long ".repeat(100)), None);
    }
}
