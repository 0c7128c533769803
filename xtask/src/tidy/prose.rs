//! Sentences in comments and docs: none begins with What, Who, Whoever or Whose unless it asks.
//!
//! Such a sentence hides its subject ("What was found is compared"). Begin with the technical noun instead.

use super::Finding;
use super::ratchet::{Scoped, scope_of};
use crate::source::line_at;

const RULE: &str = "prose";

const OPENINGS: &[&str] = &["What", "Who", "Whoever", "Whose", "Whom"];

/// Generated pages say what their sources say.
const GENERATED: &[&str] = &["docs/conformance.md"];

/// Checks a Markdown page.
pub(super) fn check_page(path: &str, text: &str) -> Vec<Scoped> {
    if GENERATED.contains(&path) {
        return Vec::new();
    }
    let mut is_code = false;
    let mut blocks = Blocks::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
            blocks.end();
        } else if is_code || line.is_empty() || line.starts_with(['#', '<']) {
            blocks.end();
        } else if line.starts_with('|') {
            blocks.end();
            for cell in line.split('|') {
                blocks.begin(index + 1, cell);
                blocks.end();
            }
        } else if let Some(item) = list_item(line) {
            blocks.begin(index + 1, item);
        } else {
            blocks.add(index + 1, line);
        }
    }
    blocks.findings(path)
}

/// Checks the comments of a Rust file, given as its prose: comments and literals, in their places.
pub(super) fn check_comments(path: &str, text: &str, prose: &str) -> Vec<Scoped> {
    let mut is_code = false;
    let mut blocks = Blocks::default();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let comment = prose.get(start..start + line.len()).and_then(comment_in);
        let number = line_at(text, start);
        start += line.len();
        let Some(comment) = comment else {
            is_code = false;
            blocks.end();
            continue;
        };
        // A comment behind code is a block of its own.
        if !line.trim_start().starts_with("//") {
            blocks.begin(number, comment);
            blocks.end();
        } else if comment.starts_with("```") {
            is_code = !is_code;
            blocks.end();
        } else if is_code || comment.is_empty() || comment.starts_with('#') {
            blocks.end();
        } else if let Some(item) = list_item(comment) {
            blocks.begin(number, item);
        } else {
            blocks.add(number, comment);
        }
    }
    blocks.findings(path)
}

/// Returns the text of a line comment. Literals that look like one are not told apart when they begin a line.
fn comment_in(prose: &str) -> Option<&str> {
    let trimmed = prose.trim();
    let comment = trimmed.strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim())
}

fn list_item(line: &str) -> Option<&str> {
    let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    item.or_else(|| {
        let (number, item) = line.split_once(". ")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(item)
    })
}

/// Paragraphs: running text with the line of each piece.
#[derive(Default)]
struct Blocks {
    done: Vec<Vec<(usize, String)>>,
    open: Vec<(usize, String)>,
}

impl Blocks {
    fn begin(&mut self, line: usize, text: &str) {
        self.end();
        self.add(line, text);
    }

    fn add(&mut self, line: usize, text: &str) {
        self.open.push((line, text.to_owned()));
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open));
        }
    }

    fn findings(mut self, path: &str) -> Vec<Scoped> {
        self.end();
        let found = self.done.iter().flat_map(|block| openings(block));
        let scoped = |(line, word): (usize, &'static str)| Scoped {
            scope: scope_of(path),
            finding: Finding {
                path: path.to_owned(),
                line,
                rule: RULE,
                what: format!("a sentence begins with \"{word}\" and asks nothing"),
                remedy: "begin with the noun that the sentence is about; see docs/dev/style.md".to_owned(),
            },
        };
        found.map(scoped).collect()
    }
}

/// Returns the sentences of a paragraph that begin with one of the words and are no questions.
fn openings(block: &[(usize, String)]) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &'static str)> = None;
    let mut begins = true;
    for (line, text) in block {
        for word in text.split_whitespace() {
            if begins {
                let bare = word.trim_start_matches(['*', '_', '(', '"', '“']);
                let bare = bare.trim_end_matches(|c: char| !c.is_alphanumeric());
                open = OPENINGS
                    .iter()
                    .find(|opening| **opening == bare)
                    .map(|word| (*line, *word));
            }
            let end = word.trim_end_matches([')', '"', '”', '*', '_', '`']);
            begins = end.ends_with(['.', '!', '?']);
            if begins {
                found.extend(open.take().filter(|_| !end.ends_with('?')));
            }
        }
    }
    found.extend(open);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn lines(found: Vec<Scoped>) -> Vec<usize> {
        found.into_iter().map(|found| found.finding.line).collect()
    }

    fn comments(text: &str) -> Vec<usize> {
        lines(check_comments("a.rs", text, &Source::new("a.rs", text).prose))
    }

    #[test]
    fn sentences_of_comments_are_found_wherever_they_begin() {
        assert_eq!(comments("//! What was found.\nfn a() {}\n"), [1]);
        assert_eq!(comments("/// Plain. Whoever\n/// reads it.\nfn a() {}\n"), [1]);
        assert_eq!(
            comments("/// Plain.\n///\n/// Who it is.\nlet a = 1; // Whose it is\n"),
            [3, 4]
        );
    }

    #[test]
    fn questions_literals_and_examples_pass() {
        for text in [
            "// What happens if\n// it fails?\n",
            "// Whatever it is.\n",
            "// A list says what there is: What.\n// (no sentence)\nlet a = \"What is it.\";\n",
            "/// ```\n/// // What is code.\n/// ```\nfn a() {}\n",
        ] {
            assert_eq!(comments(text), [0usize; 0], "{text}");
        }
    }

    #[test]
    fn pages_are_read_by_paragraph_item_and_cell() {
        let page = "# What it is\n\nPlain text.\nWhat follows is not.\n\n- **Who** may.\n- fine\n\n| What | Who cares? |\n\n```\nWhat x\n```\n";
        assert_eq!(lines(check_page("a.md", page)), [4, 6, 9]);
        assert_eq!(lines(check_page("docs/conformance.md", page)), [0usize; 0]);
    }
}
