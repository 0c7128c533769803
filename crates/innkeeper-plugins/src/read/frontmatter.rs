//! The fields at the head of a Markdown file (P12).
//!
//! Most frontmatter is YAML. One in fifteen is not: rules for Cursor have `globs: **/*.ts`, and descriptions have colons.
//! Such frontmatter is read a second time, line by line.

use crate::limits::{MAX_DESCRIPTION_CHARS, MAX_LIST_ITEMS, MAX_NAME_CHARS};
use crate::read::text::{printable, readable};
use crate::read::yaml::{self, Fields, Yaml};

/// The two parts of a Markdown file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split<'t> {
    /// The text between the lines of dashes, if there is a frontmatter.
    pub head: Option<&'t str>,
    /// The text after the frontmatter; all of it if there is none.
    pub body: &'t str,
    /// Whether a head begins but does not end; then all of it is body.
    pub is_unclosed: bool,
}

/// Splits a Markdown file into its frontmatter and its body.
///
/// ```
/// let file = "---\r\nname: a\r\n---\r\nThe prompt.\r\n";
/// let split = innkeeper_plugins::split_frontmatter(file);
/// assert_eq!(split.head, Some("name: a\r\n"));
/// assert_eq!(split.body, "The prompt.\r\n");
/// ```
pub fn split_frontmatter(text: &str) -> Split<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole = Split {
        head: None,
        body: text,
        is_unclosed: false,
    };
    let mut lines = Lines { rest: text };
    match lines.next() {
        Some(first) if is_fence(first) => {}
        _ => return whole,
    }
    let after_fence = lines.rest;
    loop {
        let before = lines.rest;
        match lines.next() {
            Some(line) if is_fence(line) => {
                let length = after_fence.len() - before.len();
                return Split {
                    head: Some(after_fence.get(..length).unwrap_or("")),
                    body: lines.rest,
                    is_unclosed: false,
                };
            }
            Some(_) => {}
            None => {
                return Split {
                    is_unclosed: true,
                    ..whole
                };
            }
        }
    }
}

/// Lines that end with `\n`, `\r\n` or `\r`; given without their end.
struct Lines<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Lines<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(end) = self.rest.find(['\n', '\r']) else {
            return Some(std::mem::take(&mut self.rest));
        };
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix("\r\n").or_else(|| rest.get(1..)).unwrap_or("");
        Some(line)
    }
}

fn is_fence(line: &str) -> bool {
    line.trim_end_matches([' ', '\t']) == "---"
}

/// How a head was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Yaml,
    LineByLine,
}

/// The fields of a head.
#[derive(Debug)]
pub(crate) struct Frontmatter {
    fields: Fields,
    pub(crate) reading: Reading,
}

impl Frontmatter {
    pub(crate) fn read(head: &str) -> Self {
        match yaml::read_mapping(head) {
            Ok(fields) => Self {
                fields,
                reading: Reading::Yaml,
            },
            Err(_) => Self {
                fields: line_by_line(head),
                reading: Reading::LineByLine,
            },
        }
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        self.fields.has_duplicates
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Yaml> {
        let field = self.fields.fields.iter().find(|(name, _)| name == key);
        field.map(|(_, value)| value)
    }

    /// Whether a field is a list or a map instead of text.
    pub(crate) fn is_no_text(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Yaml::List(_) | Yaml::Map(_)))
    }

    /// A text of one line, such as a name.
    pub(crate) fn line(&self, key: &str) -> Option<String> {
        let line = printable(text_of(self.get(key)?)?, MAX_NAME_CHARS);
        (!line.is_empty()).then_some(line)
    }

    /// A text of any length, such as a description.
    pub(crate) fn paragraph(&self, key: &str) -> Option<String> {
        let text = readable(text_of(self.get(key)?)?, MAX_DESCRIPTION_CHARS);
        (!text.is_empty()).then_some(text)
    }

    /// A boolean, also one in quotes. Other values are ignored.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match text_of(self.get(key)?)?.trim() {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }

    /// A list, or a text with commas.
    pub(crate) fn list(&self, key: &str) -> Option<Vec<String>> {
        let items = match self.get(key)? {
            Yaml::List(items) => items
                .iter()
                .filter_map(text_of)
                .map(|item| item.trim().to_owned())
                .collect(),
            value => split_at_commas(text_of(value)?),
        };
        let items: Vec<String> = items
            .into_iter()
            .filter(|item: &String| !item.is_empty())
            .take(MAX_LIST_ITEMS)
            .map(|item| readable(&item, MAX_DESCRIPTION_CHARS))
            .collect();
        (!items.is_empty()).then_some(items)
    }

    /// A text, or the first of a list in order of preference.
    pub(crate) fn first(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            Yaml::List(items) => items
                .iter()
                .filter_map(text_of)
                .map(|item| printable(item, MAX_NAME_CHARS))
                .find(|item| !item.is_empty()),
            _ => self.line(key),
        }
    }
}

fn text_of(value: &Yaml) -> Option<&str> {
    match value {
        Yaml::Plain(text) if yaml::is_nothing(text) => None,
        Yaml::Plain(text) | Yaml::Text(text) => Some(text),
        Yaml::List(_) | Yaml::Map(_) => None,
    }
}

/// Splits at commas outside brackets: `Read, Bash(git:*, x)` has two parts, `*.{a,b}` one.
pub(crate) fn split_at_commas(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part).trim().to_owned());
        } else {
            part.push(c);
        }
    }
    parts.push(part.trim().to_owned());
    parts.retain(|part| !part.is_empty());
    parts
}

/// The keys that begin a field when a head is read line by line. Any other line with a colon is
/// part of the field before it, as in the examples that real descriptions hold.
const KNOWN_KEYS: &[&str] = &[
    "agent",
    "agents",
    "allowed-tools",
    "alwaysApply",
    "applyTo",
    "argument-hint",
    "author",
    "background",
    "color",
    "compatibility",
    "context",
    "description",
    "disable-model-invocation",
    "disallowedTools",
    "effort",
    "globs",
    "handoffs",
    "hooks",
    "icon",
    "infer",
    "isolation",
    "license",
    "maxTurns",
    "mcp-servers",
    "mcpServers",
    "memory",
    "metadata",
    "mode",
    "model",
    "name",
    "paths",
    "permissionMode",
    "readonly",
    "skills",
    "tags",
    "target",
    "title",
    "tools",
    "user-invocable",
    "user-invokable",
    "version",
];

fn line_by_line(head: &str) -> Fields {
    let mut entries: Vec<(String, Vec<&str>)> = Vec::new();
    for line in (Lines { rest: head }) {
        let field = line.split_once(':').filter(|(key, value)| {
            KNOWN_KEYS.contains(&key.trim_end()) && (value.is_empty() || value.starts_with([' ', '\t']))
        });
        match (field, entries.last_mut()) {
            (Some((key, value)), _) => entries.push((key.trim_end().to_owned(), vec![value])),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    let fields = entries.into_iter().map(|(key, lines)| (key, loose_value(&lines)));
    yaml::first_of_each(fields.collect())
}

fn loose_value(lines: &[&str]) -> Yaml {
    let (first, rest) = lines
        .split_first()
        .map_or(("", lines), |(first, rest)| (first.trim(), rest));
    // The sign of a block says how its lines are joined; read loosely they keep their ends.
    let first = if matches!(first, ">" | ">-" | ">+" | "|" | "|-" | "|+") {
        ""
    } else {
        first
    };
    let items: Vec<&str> = rest
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty())
        .collect();
    if first.is_empty() && !items.is_empty() && items.iter().all(|item| *item == "-" || item.starts_with("- ")) {
        let item = |item: &&str| loose_scalar(item.trim_start_matches('-').trim());
        return Yaml::List(items.iter().map(item).collect());
    }
    if rest.iter().all(|line| line.trim().is_empty()) {
        if let Some(inner) = first.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            return Yaml::List(split_at_commas(inner).iter().map(|item| loose_scalar(item)).collect());
        }
        return loose_scalar(first);
    }
    let mut text = first.to_owned();
    for line in rest {
        text.push('\n');
        text.push_str(line);
    }
    loose_scalar(text.trim())
}

fn loose_scalar(text: &str) -> Yaml {
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
        if let Some(inner) = inner.filter(|inner| !inner.contains(quote)) {
            return Yaml::Text(inner.to_owned());
        }
    }
    Yaml::Plain(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_at_a_line_of_their_own() {
        for (text, head) in [
            ("---\na: b\n---\nbody", Some("a: b\n")),
            ("\u{feff}---  \r\na: b\r\n---\t\r\n", Some("a: b\r\n")),
            ("---\ra: b\r---\r", Some("a: b\r")),
            ("---\n---\n", Some("")),
            ("text\n---\na: b\n---\n", None),
            (" ---\na: b\n---\n", None),
            ("", None),
        ] {
            assert_eq!(split_frontmatter(text).head, head, "{text:?}");
        }
        assert!(split_frontmatter("---\na: b\n----\n").is_unclosed);
    }

    #[test]
    fn globs_of_cursor_are_read_although_they_are_no_yaml() {
        let head = Frontmatter::read("description: d\nglobs: **/*.ts, src/**/*.{a,b}\nalwaysApply: true\n");
        assert_eq!(head.reading, Reading::LineByLine);
        assert_eq!(head.list("globs").unwrap(), ["**/*.ts", "src/**/*.{a,b}"]);
        assert_eq!(head.flag("alwaysApply"), Some(true));
    }

    #[test]
    fn lists_are_read_line_by_line_too() {
        let head =
            Frontmatter::read("description: a: b\nglobs:\n  - **/*.rs\n  - 'x'\ntools: [\"A\", B]\nname: \"n\"\n");
        assert_eq!(head.reading, Reading::LineByLine);
        assert_eq!(head.list("globs").unwrap(), ["**/*.rs", "x"]);
        assert_eq!(head.list("tools").unwrap(), ["A", "B"]);
        assert_eq!(head.line("name").unwrap(), "n");
        assert_eq!(head.paragraph("description").unwrap(), "a: b");
    }

    #[test]
    fn only_true_and_false_are_booleans() {
        let head = Frontmatter::read("a: true\nb: \"false\"\nc: yes\nd: 1\ne: [true]\nf:\n");
        let flags = ["a", "b", "c", "d", "e", "f", "g"].map(|key| head.flag(key));
        assert_eq!(flags, [Some(true), Some(false), None, None, None, None, None]);
    }
}
