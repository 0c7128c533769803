//! How calls end, for people and for the model.

use innkeeper_host::{AgentError, Decision, ToolCall, ToolContent, ToolDraft, ToolResult};

use super::ToolAnswer;
use crate::model::api::Image;
use crate::model::attached;

/// What came of a call that worked.
#[derive(Debug, Default)]
pub(super) struct ToolOutput {
    /// What happened, for people, in the past tense.
    pub(super) summary: String,
    /// The same with links.
    pub(super) markdown: Option<String>,
    /// What people are shown.
    pub(super) content: Vec<ToolContent>,
    /// What the model reads.
    pub(super) text: String,
    /// What the model looks at.
    pub(super) images: Vec<Image>,
}

impl ToolOutput {
    /// People and the model read the same.
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

    /// The same summary with links.
    pub(super) fn with_markdown(mut self, markdown: String) -> Self {
        self.markdown = Some(markdown);
        self
    }
}

/// Ends a call that ran. `attempt` says for people what it did not manage, as in "Did not read `a`".
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

/// Ends a call that cannot even begin.
pub(super) async fn reject(draft: ToolDraft, attempt: &str, problem: String) -> Result<ToolAnswer, AgentError> {
    draft.complete(ToolResult::failed(attempt, problem.clone())).await?;
    Ok(failed(problem))
}

/// What the model reads when people said no, with what they attached to it.
pub(super) fn denied(decision: &Decision) -> ToolAnswer {
    let mut answer = failed(decision.refusal());
    let (attached, images) = attached(&decision.attachments);
    if !attached.is_empty() {
        answer.text = format!("{}\n{attached}", answer.text);
    }
    answer.images = images;
    answer
}

/// What the model reads of a call that people changed before they allowed it: otherwise it would
/// take what happened for what it asked for.
pub(super) fn after_edit(answer: ToolAnswer, edited: Option<&str>) -> ToolAnswer {
    const MOST: usize = 4000;
    let Some(edited) = edited else {
        return answer;
    };
    let shown = &edited[..edited.floor_char_boundary(MOST)];
    let cut = if shown.len() < edited.len() { " …" } else { "" };
    ToolAnswer {
        text: format!(
            "The person changed the input of this call before allowing it. It ran with:\n{shown}{cut}\n\n{}",
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

/// A name or a command in the midst of a sentence: one line, not too long, and without anything in
/// it that people cannot see. What could hide or turn around the rest stands there as its number.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 120;
    let mut line = String::new();
    // No more than can be shown: commands can be long.
    for c in text.chars().take(MOST + 1) {
        match c {
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => line.push(' '),
            c if is_invisible(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    if let Some((end, _)) = line.char_indices().nth(MOST) {
        line.truncate(end);
        line.push('…');
    }
    // A backtick inside needs a longer fence around it.
    if line.contains('`') {
        format!("`` {line} ``")
    } else {
        format!("`{line}`")
    }
}

/// A file as a link in markdown, by the label that people know it by. Nothing in a name can end the link, or be
/// taken for markdown.
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
    // These are the characters that a path keeps in a URI and that end a link.
    let target = uri.replace('(', "%28").replace(')', "%29").replace('\\', "%5C");
    format!("[{text}]({target})")
}

/// Whether a character is invisible, or changes the order in which others are shown.
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

/// "1 line", "2 lines".
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}

/// A line that is not too long to read.
pub(super) fn shortened(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        None => line.to_owned(),
        Some((end, _)) => {
            let more = line.chars().count() - most;
            let start = line.get(..end).unwrap_or_default();
            format!("{start}… [{more} more characters]")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_cannot_see_is_shown_by_its_number() {
        assert_eq!(quoted("ls \u{202e}mr\u{202c}"), r"`ls \u{202e}mr\u{202c}`");
        assert_eq!(quoted("a\u{200b}b\u{e0041}"), r"`a\u{200b}b\u{e0041}`");
        assert_eq!(quoted("a\nb\u{2028}c"), "`a b c`");
        assert_eq!(quoted("größer 🙂"), "`größer 🙂`");
    }

    #[test]
    fn tool03_no_name_of_a_file_breaks_out_of_its_link() {
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
    fn what_is_too_long_is_cut_and_says_so() {
        assert_eq!(quoted(&"ä".repeat(120)), format!("`{}`", "ä".repeat(120)));
        let line = quoted(&"\u{200b}".repeat(1000));
        assert_eq!(line.chars().count(), 120 + "`…`".chars().count());
    }
}
