//! The English of comments, messages and pages.
//!
//! No sentence begins with What, Who, Nobody, Whatever and the like unless it asks: such a sentence hides its
//! subject ("What was found is compared"). No comment and no message of a Rust file speaks of people or of nobody
//! where it means a user, a client or an agent, nor of a picture, a helper or patience (docs/dev/glossary.md).

use super::Finding;
use super::ratchet::{Scoped, scope_of};
use crate::source::{find_word, line_at};

const SENTENCE_RULE: &str = "prose";
/// A rule of its own, so that crates that were clean by the rule above stay clean.
const SUBJECT_RULE: &str = "prose-subject";
const WORD_RULE: &str = "prose-word";

/// The words that begin a sentence, and the rule that each breaks.
const OPENINGS: &[(&[&str], &str)] = &[
    (&["What"], SENTENCE_RULE),
    (&["Who"], SENTENCE_RULE),
    (&["Whoever"], SENTENCE_RULE),
    (&["Whose"], SENTENCE_RULE),
    (&["Whom"], SENTENCE_RULE),
    (&["Nobody"], SUBJECT_RULE),
    (&["Somebody"], SUBJECT_RULE),
    (&["Those", "who"], SUBJECT_RULE),
    (&["Of", "a"], SUBJECT_RULE),
    (&["Of", "the"], SUBJECT_RULE),
    (&["Whatever"], SUBJECT_RULE),
];

/// The words that comments and literals of Rust files avoid, in small letters.
const WORDS: &[&str] = &[
    "anybody",
    "everybody",
    "helper",
    "helpers",
    "nobody",
    "patience",
    "people",
    "person",
    "persons",
    "picture",
    "pictures",
    "somebody",
    "whoever",
];

/// Files that may say a word: the rules themselves, stored names, and the name of a user of the operating system.
const EXEMPT_FROM_WORDS: &[(&str, &[&str])] = &[
    ("xtask/src/tidy/function_names.rs", WORDS),
    ("xtask/src/tidy/prose.rs", WORDS),
    ("xtask/src/tidy/type_names.rs", WORDS),
    ("crates/innkeeper-core/src/session.rs", &["nobody", "person"]),
    ("crates/innkeeper-plugins/tests/it/support.rs", &["nobody"]),
];

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

/// Checks the words of comments and literals of a Rust file, given as its prose.
pub(super) fn check_words(path: &str, prose: &str) -> Vec<Scoped> {
    let exempt = EXEMPT_FROM_WORDS.iter().find(|(exempt, _)| *exempt == path);
    let exempt = exempt.map_or(&[][..], |(_, words)| *words);
    let prose = &prose.to_ascii_lowercase();
    let words = WORDS.iter().filter(|word| !exempt.contains(word));
    let found = words.flat_map(|word| {
        let starts = find_word(prose, word).into_iter();
        starts.map(move |start| Scoped {
            scope: scope_of(path),
            finding: Finding {
                path: path.to_owned(),
                line: line_at(prose, start),
                rule: WORD_RULE,
                what: format!("a comment or a message says \"{word}\""),
                remedy: "say user, client, agent or caller; see docs/dev/glossary.md".to_owned(),
            },
        })
    });
    found.collect()
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
        let scoped = |(line, words, rule): Opening| Scoped {
            scope: scope_of(path),
            finding: Finding {
                path: path.to_owned(),
                line,
                rule,
                what: format!("a sentence begins with \"{}\" and asks nothing", words.join(" ")),
                remedy: "begin with the noun that the sentence is about; see docs/dev/style.md".to_owned(),
            },
        };
        found.map(scoped).collect()
    }
}

/// The line, the first words and the broken rule of a sentence.
type Opening = (usize, &'static [&'static str], &'static str);

/// Returns the sentences of a paragraph that begin with words of the list and are no questions.
fn openings(block: &[(usize, String)]) -> Vec<Opening> {
    let words: Vec<(usize, &str)> = block
        .iter()
        .flat_map(|(line, text)| text.split_whitespace().map(|word| (*line, word)))
        .collect();
    let mut found = Vec::new();
    let mut open: Option<Opening> = None;
    let mut begins = true;
    for (index, (line, word)) in words.iter().enumerate() {
        if begins {
            let rest = &words[index..];
            let opening = OPENINGS.iter().find(|(opening, _)| begins_with(rest, opening));
            open = opening.map(|(opening, rule)| (*line, *opening, *rule));
        }
        let end = word.trim_end_matches([')', '"', '”', '*', '_', '`']);
        begins = end.ends_with(['.', '!', '?']);
        if begins {
            found.extend(open.take().filter(|_| !end.ends_with('?')));
        }
    }
    found.extend(open);
    found
}

fn begins_with(words: &[(usize, &str)], opening: &[&str]) -> bool {
    let bare = |word: &str| {
        let word = word.trim_start_matches(['*', '_', '(', '"', '“']);
        word.trim_end_matches(|c: char| !c.is_alphanumeric()).to_owned()
    };
    words.len() >= opening.len() && opening.iter().zip(words).all(|(want, (_, word))| bare(word) == *want)
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
            "// Of all files one is read.\n// Nobody?\n",
            "// A list says what there is: What.\n// (no sentence)\nlet a = \"What is it.\";\n",
            "/// ```\n/// // What is code.\n/// ```\nfn a() {}\n",
        ] {
            assert_eq!(comments(text), [0usize; 0], "{text}");
        }
    }

    #[test]
    fn openings_of_several_words_are_found_across_lines() {
        assert_eq!(comments("// Whatever it is.\n"), [1]);
        assert_eq!(
            comments("// Plain. Those\n// who wait.\nfn a() {}\n// Of the two, one.\n"),
            [1, 4]
        );
        let found = check_comments("a.rs", "// Of a file.\n", "// Of a file.\n");
        assert_eq!(found[0].finding.rule, SUBJECT_RULE);
    }

    #[test]
    fn words_are_found_in_comments_and_messages() {
        let words = |text: &str| lines(check_words("a.rs", &Source::new("a.rs", text).prose));
        assert_eq!(words("// For people.\nlet a = \"somebody asked\";\n"), [1, 2]);
        assert_eq!(words("// Nobody reads it.\nlet a = \"a Picture\";\n"), [1, 2]);
        assert_eq!(
            words("let people = 1; // peoples, personal, worker_threads\n"),
            [0usize; 0]
        );
        assert_eq!(lines(check_words("xtask/src/tidy/prose.rs", "people")), [0usize; 0]);
        assert_eq!(
            lines(check_words("crates/innkeeper-core/src/session.rs", "Nobody\npeople")),
            [2]
        );
    }

    #[test]
    fn pages_are_read_by_paragraph_item_and_cell() {
        let page = "# What it is\n\nPlain text.\nWhat follows is not.\n\n- **Who** may.\n- fine\n\n| What | Who cares? |\n\n```\nWhat x\n```\n";
        assert_eq!(lines(check_page("a.md", page)), [4, 6, 9]);
        assert_eq!(lines(check_page("docs/conformance.md", page)), [0usize; 0]);
    }
}
