//! Completes calls, for clients and for the model.

use innkeeper_host::AgentError;
use innkeeper_host::agent::{Decision, ToolCall, ToolContent, ToolDraft, ToolResult};
use innkeeper_std::text::truncate;

use super::ToolAnswer;
use crate::model::api::Image;
use crate::model::attached;

/// Output of a successful call.
#[derive(Debug, Default)]
pub(super) struct ToolOutput {
    /// Summary for clients, in the past tense.
    pub(super) summary: String,
    /// The summary with links.
    pub(super) markdown: Option<String>,
    /// Content for clients.
    pub(super) content: Vec<ToolContent>,
    /// Text for the model.
    pub(super) text: String,
    /// Images for the model.
    pub(super) images: Vec<Image>,
}

impl ToolOutput {
    /// Creates output with the same text for clients and the model.
    pub(super) fn text(summary: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            summary: summary.into(),
            markdown: None,
            content: vec![ToolContent::Text(text.clone())],
            text,
            images: Vec::new(),
        }
    }

    /// Sets the summary with links.
    pub(super) fn with_markdown(mut self, markdown: String) -> Self {
        self.markdown = Some(markdown);
        self
    }
}

/// Completes a call that ran. `attempt` is the summary of a failure, such as "Did not read `a`".
pub(super) async fn finish(
    call: ToolCall,
    attempt: &str,
    outcome: Result<ToolOutput, String>,
) -> Result<ToolAnswer, AgentError> {
    match outcome {
        Ok(done) => {
            call.complete(ToolResult {
                success: true,
                summary: done.summary,
                summary_markdown: done.markdown,
                content: done.content,
                ..ToolResult::default()
            })
            .await?;
            Ok(ToolAnswer {
                text: done.text,
                images: done.images,
                is_error: false,
            })
        }
        Err(problem) => {
            call.complete(ToolResult::failed(attempt, problem.clone())).await?;
            Ok(failed(problem))
        }
    }
}

/// Completes a call that cannot run.
pub(super) async fn reject(draft: ToolDraft, attempt: &str, problem: String) -> Result<ToolAnswer, AgentError> {
    draft.complete(ToolResult::failed(attempt, problem.clone())).await?;
    Ok(failed(problem))
}

/// The result of a call that the user denied, with the attachments of the denial.
pub(super) fn denied(decision: &Decision) -> ToolAnswer {
    let mut answer = failed(decision.refusal());
    let (attached, images) = attached(&decision.attachments);
    if !attached.is_empty() {
        answer.text = format!("{}\n{attached}", answer.text);
    }
    answer.images = images;
    answer
}

/// Adds the edited input to the result, so that the model knows what ran.
pub(super) fn after_edit(answer: ToolAnswer, edited: Option<&str>) -> ToolAnswer {
    const MAX: usize = 4000;
    let Some(edited) = edited else {
        return answer;
    };
    let shown = truncate(edited, MAX);
    ToolAnswer {
        text: format!(
            "The user changed the input of this call before allowing it. It ran with:\n{shown}\n\n{}",
            answer.text
        ),
        ..answer
    }
}

pub(super) fn failed(problem: String) -> ToolAnswer {
    ToolAnswer {
        text: problem,
        images: Vec::new(),
        is_error: true,
    }
}

/// Quotes a name or command within a sentence: one line, truncated, with invisible characters escaped, so that
/// nothing can hide or reorder the rest.
pub(super) fn quoted(text: &str) -> String {
    const MAX: usize = 120;
    let mut line = String::new();
    // Stop at the limit: commands can be long.
    for c in text.chars().take(MAX + 1) {
        match c {
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => line.push(' '),
            c if is_invisible(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    if let Some((end, _)) = line.char_indices().nth(MAX) {
        line.truncate(end);
        line.push('…');
    }
    // A backtick inside needs a longer fence.
    if line.contains('`') {
        format!("`` {line} ``")
    } else {
        format!("`{line}`")
    }
}

/// Formats a file as a Markdown link. The label cannot end the link or contain markup.
pub(super) fn link(label: &str, uri: &str) -> String {
    let mut text = String::new();
    for c in label.chars() {
        match c {
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => text.push(' '),
            c if is_invisible(c) => text.extend(c.escape_unicode()),
            c if c.is_ascii_punctuation() && !matches!(c, '/' | '.' | '-' | ',' | ';' | ':') => {
                text.push('\\');
                text.push(c);
            }
            c => text.push(c),
        }
    }
    // Characters that a URI keeps unescaped and that would end the link.
    let target = uri.replace('(', "%28").replace(')', "%29").replace('\\', "%5C");
    format!("[{text}]({target})")
}

/// Returns true for invisible characters and for those that reorder text.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Formats a count: "1 line", "2 lines".
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(quoted("ls \u{202e}mr\u{202c}"), r"`ls \u{202e}mr\u{202c}`");
        assert_eq!(quoted("a\u{200b}b\u{e0041}"), r"`a\u{200b}b\u{e0041}`");
        assert_eq!(quoted("a\nb\u{2028}c"), "`a b c`");
        assert_eq!(quoted("größer 🙂"), "`größer 🙂`");
    }

    #[test]
    fn tool03_file_names_cannot_break_out_of_a_link() {
        assert_eq!(
            link("src/my-main.rs", "file:///inn/src/my-main.rs"),
            "[src/my-main.rs](file:///inn/src/my-main.rs)"
        );
        assert_eq!(
            link("a](x) *b*_`c`\n", "file:///a%5D(x)"),
            "[a\\]\\(x\\) \\*b\\*\\_\\`c\\` ](file:///a%5D%28x%29)"
        );
        assert_eq!(link("\u{202e}a", "file:///a"), "[\\u{202e}a](file:///a)");
    }

    #[test]
    fn long_quotes_are_truncated() {
        assert_eq!(quoted(&"ä".repeat(120)), format!("`{}`", "ä".repeat(120)));
        let line = quoted(&"\u{200b}".repeat(1000));
        assert_eq!(line.chars().count(), 120 + "`…`".chars().count());
    }
}
