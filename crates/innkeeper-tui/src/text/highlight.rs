//! Colours for code: comments, strings, numbers and the keywords of common languages.
//!
//! A lexer of a hundred lines instead of grammars: it needs no megabytes of definitions, starts at once, and is right
//! often enough for code in a chat. Unknown languages get strings and numbers only.

use ratatui::style::Style;
use ratatui::text::Span;

use crate::theme::Theme;

/// The parts of a language that the lexer knows.
struct Language {
    names: &'static [&'static str],
    line_comment: &'static str,
    has_block_comments: bool,
    keywords: &'static str,
}

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        line_comment: "//",
        has_block_comments: true,
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
    },
    Language {
        names: &["python", "py"],
        line_comment: "#",
        has_block_comments: false,
        keywords: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield",
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx", "json", "jsonc"],
        line_comment: "//",
        has_block_comments: true,
        keywords: "abstract as async await break case catch class const continue default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null of private protected public readonly return set static super switch this throw true try type typeof undefined var void while yield",
    },
    Language {
        names: &[
            "go", "java", "kotlin", "kt", "c", "h", "cpp", "c++", "cs", "csharp", "swift", "zig",
        ],
        line_comment: "//",
        has_block_comments: true,
        keywords: "auto bool break case catch chan char class const continue default defer do double else enum export extends extern false final float for func fun go goto guard if implements import in int interface internal is let long map new nil null override package private protected public range return select short signed sizeof static struct super switch template this throw throws true try type typedef union unsigned using val var virtual void volatile when while",
    },
    Language {
        names: &["sh", "bash", "shell", "zsh", "console", "shellscript"],
        line_comment: "#",
        has_block_comments: false,
        keywords: "case cd do done echo elif else esac exit export fi for function if in local read return set then unset until while",
    },
    Language {
        names: &["toml", "yaml", "yml", "ini", "dockerfile", "makefile", "make"],
        line_comment: "#",
        has_block_comments: false,
        keywords: "true false null yes no on off FROM RUN COPY ENV CMD ENTRYPOINT WORKDIR ARG",
    },
    Language {
        names: &["sql"],
        line_comment: "--",
        has_block_comments: true,
        keywords: "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX DROP ALTER JOIN LEFT RIGHT INNER OUTER ON AND OR NOT NULL ORDER BY GROUP HAVING LIMIT AS DISTINCT UNION select from where insert into values update set delete create table index drop alter join left right inner outer on and or not null order by group having limit as distinct union",
    },
];

const UNKNOWN: Language = Language {
    names: &[],
    line_comment: "\0",
    has_block_comments: false,
    keywords: "",
};

/// Returns the styled spans of each line of harmless code.
pub(crate) fn lines(code: &str, language: &str, theme: Theme) -> Vec<Vec<Span<'static>>> {
    let name = language.to_ascii_lowercase();
    if name == "diff" || name == "patch" {
        return code.split('\n').map(|line| vec![diff_line(line, theme)]).collect();
    }
    let language = LANGUAGES
        .iter()
        .find(|language| language.names.contains(&name.as_str()))
        .unwrap_or(&UNKNOWN);
    let mut lexer = Lexer {
        language,
        theme,
        in_comment: false,
    };
    code.split('\n').map(|line| lexer.line(line)).collect()
}

/// Styles one line of a unified diff.
pub(crate) fn diff_line(line: &str, theme: Theme) -> Span<'static> {
    let style = match line.as_bytes().first() {
        Some(b'+') => theme.added(),
        Some(b'-') => theme.removed(),
        Some(b'@') => theme.accent(),
        _ => Style::new(),
    };
    Span::styled(line.to_owned(), style)
}

struct Lexer<'a> {
    language: &'a Language,
    theme: Theme,
    in_comment: bool,
}

impl Lexer<'_> {
    fn line(&mut self, line: &str) -> Vec<Span<'static>> {
        let mut spans: Vec<Span<'static>> = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (length, style) = self.token(rest);
            let (token, after) = rest.split_at(length);
            match spans.last_mut() {
                Some(last) if last.style == style => last.content.to_mut().push_str(token),
                _ => spans.push(Span::styled(token.to_owned(), style)),
            }
            rest = after;
        }
        spans
    }

    /// Returns the length and style of the first token.
    fn token(&mut self, text: &str) -> (usize, Style) {
        if self.in_comment {
            let end = text.find("*/").map(|end| end + 2);
            self.in_comment = end.is_none();
            return (end.unwrap_or(text.len()), self.theme.dim());
        }
        if text.starts_with(self.language.line_comment) {
            return (text.len(), self.theme.dim());
        }
        if self.language.has_block_comments && text.starts_with("/*") {
            self.in_comment = true;
            return (2, self.theme.dim());
        }
        let Some(first) = text.chars().next() else {
            return (0, Style::new());
        };
        match first {
            '"' | '`' => (string_end(text, first), self.theme.string()),
            // A lifetime or an apostrophe has no second quote nearby.
            '\'' => match string_end(text, first) {
                end if text.get(1..end).is_some_and(|inner| inner.ends_with('\'')) && end > 2 => {
                    (end, self.theme.string())
                }
                _ => (1, Style::new()),
            },
            first if first.is_ascii_digit() => {
                let is_number = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
                (prefix(text, is_number), self.theme.number())
            }
            first if first.is_alphabetic() || first == '_' => {
                let length = prefix(text, |c| c.is_alphanumeric() || c == '_');
                let word = text.get(..length).unwrap_or_default();
                let is_keyword = self.language.keywords.split(' ').any(|keyword| keyword == word);
                (length, if is_keyword { self.theme.keyword() } else { Style::new() })
            }
            first => (first.len_utf8(), Style::new()),
        }
    }
}

fn prefix(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn string_end(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (position, c) in text.char_indices().skip(1) {
        match c {
            c if c == quote && !is_escaped => return position + c.len_utf8(),
            c => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styled(code: &str, language: &str) -> Vec<(String, Style)> {
        let lines = lines(code, language, Theme::coloured());
        lines
            .into_iter()
            .flatten()
            .filter(|span| span.style != Style::new())
            .map(|span| (span.content.into_owned(), span.style))
            .collect()
    }

    #[test]
    fn keywords_strings_numbers_and_comments_are_told_apart() {
        let theme = Theme::coloured();
        let found = styled("let a: &'x str = \"fn \\\" 1\"; // 2\n/* a\nb */ 42", "rust");
        let expected = [
            ("let", theme.keyword()),
            ("\"fn \\\" 1\"", theme.string()),
            ("// 2", theme.dim()),
            ("/* a", theme.dim()),
            ("b */", theme.dim()),
            ("42", theme.number()),
        ];
        let found: Vec<(&str, Style)> = found.iter().map(|(text, style)| (text.as_str(), *style)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_character_survives() {
        for code in ["日本 'a' \"open", "#!/bin/sh\n\t'quoted", "\\'\"`"] {
            for language in ["rust", "sh", "nothing"] {
                let lines = lines(code, language, Theme::plain());
                let text: Vec<String> = lines
                    .iter()
                    .map(|line| line.iter().map(|span| span.content.as_ref()).collect())
                    .collect();
                assert_eq!(text.join("\n"), code);
            }
        }
    }
}
