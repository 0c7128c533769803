//! Expands the text of a skill or a prompt with its arguments.
//!
//! Tools write placeholders in different ways, and a file does not say for which tool it was written, so all of them
//! count: `$ARGUMENTS`, `$ARGUMENTS[0]`, `$1`, `${input:name}` and `${input:name:hint}`, `${workspaceFolder}`,
//! `${CLAUDE_SKILL_DIR}`, `${CLAUDE_PLUGIN_ROOT}`. Expansion is one pass: a placeholder in an argument is not expanded.
//! Commands that some tools run while they expand a file (`` !`git status` ``) stay text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use innkeeper_std::text::prefix;

/// Maximum bytes of the result. A placeholder is short and its value can be long, so a file of many placeholders could
/// fill the memory (F17).
const MAX_BYTES: usize = 256 << 10;
/// Maximum bytes of a placeholder. Without a limit, every `${` in a file would search the rest of the file for its end.
const MAX_PLACEHOLDER_BYTES: usize = 256;

/// The paths that a text can refer to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathVariables<'a> {
    /// The first working directory.
    pub(super) workspace: Option<&'a Path>,
    /// The directory of the skill.
    pub(super) directory: Option<&'a Path>,
    /// The directory of the plugin.
    pub(super) plugin: Option<&'a Path>,
}

/// Variables for the directory of the plugin.
const PLUGIN_ROOTS: [&str; 2] = ["CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT"];

impl PathVariables<'_> {
    /// The path of a variable, if it is known.
    fn place(&self, name: &str) -> Option<String> {
        let path = match name {
            "workspaceFolder" => self.workspace?,
            "workspaceFolderBasename" => Path::new(self.workspace?.file_name()?),
            "CLAUDE_SKILL_DIR" | "SKILL_DIR" => self.directory?,
            name if PLUGIN_ROOTS.contains(&name) => self.plugin?,
            _ => return None,
        };
        Some(path.display().to_string())
    }
}

/// Whether a text uses the directory of its plugin.
pub(super) fn names_plugin_root(body: &str) -> bool {
    PLUGIN_ROOTS.iter().any(|name| body.contains(&format!("${{{name}}}")))
}

/// Expands the path variables of a text and nothing else: the instructions of an agent take no arguments.
///
/// # Errors
///
/// A sentence, if the result exceeds the size limit.
pub(super) fn expand_places(body: &str, variables: &PathVariables<'_>) -> Result<String, String> {
    let mut out = Bounded::default();
    let mut rest = body;
    while let Some((before, inner)) = rest.split_once("${") {
        out.push(before)?;
        let name = within_reach(inner).split_once('}').map(|(name, _)| name);
        rest = match name.and_then(|name| Some((name, variables.place(name)?))) {
            Some((name, place)) => {
                out.push(&place)?;
                inner.get(name.len() + 1..).unwrap_or_default()
            }
            None => {
                out.push("${")?;
                inner
            }
        };
    }
    out.push(rest)?;
    Ok(out.0)
}

/// Expands the arguments of a text. Without a placeholder they are added at its end.
///
/// # Errors
///
/// A sentence, if the result exceeds the size limit.
pub(super) fn expand(body: &str, arguments: &str, variables: &PathVariables<'_>) -> Result<String, String> {
    let words = words(arguments);
    let expansion = Expansion {
        arguments,
        given: given(&words),
        words: &words,
        counts_from_zero: has_zero(body),
        has_one_input: input_names(body).len() == 1,
        variables,
    };
    let mut out = Bounded::default();
    let mut has_taken = false;
    let mut rest = body;
    while let Some(start) = rest.find('$') {
        let (before, from) = rest.split_at(start);
        out.push(before)?;
        match expansion.at(from) {
            Some(found) => {
                out.push(&found.text)?;
                has_taken |= found.takes_arguments;
                rest = from.get(found.length..).unwrap_or_default();
            }
            None => {
                out.push("$")?;
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out.push(rest)?;
    if !has_taken && !arguments.is_empty() {
        let end = out.0.trim_end().len();
        out.0.truncate(end);
        for part in ["\n\nArguments: ", arguments, "\n"] {
            out.push(part)?;
        }
    }
    Ok(out.0)
}

/// The result, with a size limit.
#[derive(Default)]
struct Bounded(String);

impl Bounded {
    fn push(&mut self, text: &str) -> Result<(), String> {
        if self.0.len() + text.len() > MAX_BYTES {
            return Err(format!(
                "with its arguments in place it is longer than {} KiB, so it was not used; give it shorter arguments, \
                 or shorten its file",
                MAX_BYTES >> 10
            ));
        }
        self.0.push_str(text);
        Ok(())
    }
}

struct Expansion<'a> {
    arguments: &'a str,
    words: &'a [String],
    /// Arguments of the form `name=value`.
    given: HashMap<&'a str, &'a str>,
    counts_from_zero: bool,
    /// Whether all `${input:…}` placeholders have the same name.
    has_one_input: bool,
    variables: &'a PathVariables<'a>,
}

/// The value of a placeholder.
struct Replacement<'a> {
    /// Length of the placeholder in bytes.
    length: usize,
    text: Cow<'a, str>,
    takes_arguments: bool,
}

impl<'a> Expansion<'a> {
    /// The value of the placeholder at the beginning of the text.
    fn at(&self, text: &str) -> Option<Replacement<'a>> {
        let argument = |length, text| Replacement {
            length,
            text,
            takes_arguments: true,
        };
        if let Some(after) = text.strip_prefix("$ARGUMENTS") {
            const NAME: usize = "$ARGUMENTS".len();
            if let Some((number, length)) = bracketed(after) {
                return Some(argument(NAME + length, self.word(Some(number))));
            }
            // `$ARGUMENTS_FILE` is a variable of a script.
            let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            return is_whole.then(|| argument(NAME, Cow::Borrowed(self.arguments)));
        }
        if let Some((number, length)) = numbered(text) {
            let index = if self.counts_from_zero {
                Some(number)
            } else {
                number.checked_sub(1)
            };
            // Without any arguments it is more likely part of a script, which stays unchanged.
            if self.words.is_empty() {
                return None;
            }
            return Some(argument(length, self.word(index)));
        }
        let inner = text.strip_prefix("${")?;
        let end = within_reach(inner).find('}')?;
        let (name, length) = (inner.get(..end)?, end + 3);
        if let Some(input) = name.strip_prefix("input:") {
            return Some(argument(length, self.input(input)));
        }
        Some(Replacement {
            length,
            text: Cow::Owned(self.variables.place(name)?),
            takes_arguments: false,
        })
    }

    fn word(&self, index: Option<usize>) -> Cow<'a, str> {
        let word = index.and_then(|index| self.words.get(index));
        Cow::Borrowed(word.map(String::as_str).unwrap_or_default())
    }

    /// The value of `${input:name}` or `${input:name:hint}`: the argument `name=value`, or all arguments if there is
    /// only one such name.
    fn input(&self, wanted: &str) -> Cow<'a, str> {
        let (name, hint) = wanted.split_once(':').unwrap_or((wanted, ""));
        match self.given.get(name) {
            Some(value) => Cow::Borrowed(*value),
            None if self.has_one_input && !self.arguments.is_empty() => Cow::Borrowed(self.arguments),
            None if hint.is_empty() => Cow::Owned(format!("({name}: not given)")),
            None => Cow::Owned(format!("({name}, {hint}: not given)")),
        }
    }
}

/// The prefix of a text in which the end of a placeholder is searched.
fn within_reach(text: &str) -> &str {
    prefix(text, MAX_PLACEHOLDER_BYTES)
}

/// Arguments of the form `name=value`. Of two with the same name the first counts.
fn given(words: &[String]) -> HashMap<&str, &str> {
    let mut given = HashMap::new();
    for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
        given.entry(name).or_insert(value);
    }
    given
}

/// The number in `[2]`, and its length.
fn bracketed(text: &str) -> Option<(usize, usize)> {
    let inner = text.strip_prefix('[')?;
    let end = within_reach(inner).find(']')?;
    let number = inner.get(..end)?.parse().ok()?;
    Some((number, end + 2))
}

/// The number in `$1`; `$10` is an amount of money.
fn numbered(text: &str) -> Option<(usize, usize)> {
    let after = text.strip_prefix('$')?;
    let digit = after.chars().next()?.to_digit(10)?;
    let is_alone = !after.chars().nth(1).is_some_and(|c| c.is_alphanumeric() || c == '_');
    // `$5.00` is an amount of money too.
    let is_amount = after.chars().nth(1) == Some('.') && after.chars().nth(2).is_some_and(|c| c.is_ascii_digit());
    (is_alone && !is_amount).then_some((digit as usize, 2))
}

/// Whether the text counts its arguments from 0, as newer files do, or from 1.
fn has_zero(body: &str) -> bool {
    body.match_indices("$0")
        .any(|(index, _)| body.get(index..).and_then(numbered).is_some())
}

/// The names of `${input:…}` placeholders, each once.
fn input_names(body: &str) -> HashSet<&str> {
    let marks = body.match_indices("${input:");
    let names = marks.filter_map(|(index, mark)| {
        let rest = within_reach(body.get(index + mark.len()..)?);
        rest.split([':', '}']).next()
    });
    names.collect()
}

/// Splits a line into words; quotes group several words.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            // An apostrophe within a word is no quote.
            None if c == '"' || (c == '\'' && word.is_none()) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_where_the_text_wants_them() {
        let cases = [
            ("Fix $ARGUMENTS.", "the  bell", "Fix the  bell."),
            ("Fix $ARGUMENTS.", "", "Fix ."),
            (
                "Fix $1 by $2, then $1.",
                "12 \"next week\"",
                "Fix 12 by next week, then 12.",
            ),
            ("Fix $1 and $2.", "12", "Fix 12 and ."),
            ("From $0 to $1.", "a b", "From a to b."),
            ("From $ARGUMENTS[0] to $ARGUMENTS[1].", "a b", "From a to b."),
            (
                "`awk '{print $1}'` costs $10 or $5.00",
                "",
                "`awk '{print $1}'` costs $10 or $5.00",
            ),
            ("Say ${input:word}!", "hello there", "Say hello there!"),
            ("Say ${input:word:which one}!", "", "Say (word, which one: not given)!"),
            ("${input:a} ${input:b}", "b=2 a=\"x y\"", "x y 2"),
            (
                "$ARGUMENTS_FILE ${HOME} $HOME $$",
                "",
                "$ARGUMENTS_FILE ${HOME} $HOME $$",
            ),
            // Placeholders in an argument are not expanded.
            ("Fix $1.", "$ARGUMENTS", "Fix $ARGUMENTS."),
            ("It is 'don't'", "", "It is 'don't'"),
        ];
        for (body, arguments, expected) in cases {
            assert_eq!(
                expand(body, arguments, &PathVariables::default()).as_deref(),
                Ok(expected),
                "{body}"
            );
        }
    }

    #[test]
    fn arguments_that_the_text_does_not_mention_follow_it() {
        let expand = |arguments| expand("Look around.\n", arguments, &PathVariables::default());
        assert_eq!(
            expand("with care").as_deref(),
            Ok("Look around.\n\nArguments: with care\n")
        );
        assert_eq!(expand("").as_deref(), Ok("Look around.\n"));
    }

    #[test]
    fn places_are_named_where_they_are_known() {
        let variables = PathVariables {
            workspace: Some(Path::new("/inn/house")),
            directory: Some(Path::new("/inn/skills/bell")),
            plugin: Some(Path::new("/inn")),
        };
        let body = "${workspaceFolder} ${workspaceFolderBasename} ${CLAUDE_SKILL_DIR}/ring.sh \
                    ${CLAUDE_PLUGIN_ROOT}/a ${PLUGIN_ROOT}/b ${file} $PLUGIN_ROOT ${";
        let expected = "/inn/house house /inn/skills/bell/ring.sh /inn/a /inn/b ${file} $PLUGIN_ROOT ${";
        let nowhere = PathVariables::default();
        assert_eq!(expand(body, "", &variables).as_deref(), Ok(expected));
        assert_eq!(expand(body, "", &nowhere).as_deref(), Ok(body));
        assert_eq!(expand_places(body, &variables).as_deref(), Ok(expected));
        assert_eq!(expand_places(body, &nowhere).as_deref(), Ok(body));
        let body = "$ARGUMENTS, $1 and ${input:x} in ${PLUGIN_ROOT}";
        let expected = "$ARGUMENTS, $1 and ${input:x} in /inn";
        assert_eq!(expand_places(body, &variables).as_deref(), Ok(expected));
        assert!(names_plugin_root(body) && !names_plugin_root("PLUGIN_ROOT"));
    }

    #[test]
    fn nothing_makes_it_stumble() {
        for body in [
            "$",
            "${",
            "${input:",
            "$ARGUMENTS[",
            "$ARGUMENTS[x]",
            "$1$",
            "ä$1ö",
            "$é",
            "${é}",
        ] {
            let _ = expand(body, "a 'b", &PathVariables::default());
        }
    }

    #[test]
    fn f17_an_expansion_beyond_the_limit_is_an_error() {
        let message = "x".repeat(1 << 20);
        for body in ["$ARGUMENTS ".repeat(95_000), "$1".repeat(95_000), "Nothing.".to_owned()] {
            let problem = expand(&body, &message, &PathVariables::default()).expect_err("too long");
            assert!(problem.contains("longer than 256 KiB"), "{problem}");
        }
        assert!(expand(&"$ARGUMENTS ".repeat(1000), "a bell", &PathVariables::default()).is_ok());
    }

    #[test]
    fn f17_placeholders_that_never_end_are_not_looked_for_in_the_whole_file() {
        for beginning in ["${", "$ARGUMENTS[", "${input:"] {
            let far = format!("{beginning}{}", "1".repeat(MAX_PLACEHOLDER_BYTES));
            let body = format!("{far}]}}");
            let expanded = expand(&body, "", &PathVariables::default()).expect("short enough");
            assert!(expanded.ends_with("1]}"), "{expanded}");
            assert!(!expanded.contains("not given"), "{expanded}");
        }
    }
}
