//! Finding the tests of a Rust file, each with the prose that belongs to it.

use crate::source::{Source, find_word, line_at, matching_close};

/// Attributes that make a function a test, by the last part of their path.
const TEST_ATTRIBUTES: &[&str] = &["test", "test_case", "rstest"];

/// A function that a test runner runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) name: String,
    /// The comments directly above the function, and the comments and literals inside it, as running
    /// text. Literals count because the message of an assertion is where a test says what it shows.
    pub(super) prose: String,
}

/// Returns the tests of a file. Those written inside a macro call, as `proptest!` wants it, count too.
pub(super) fn tests(source: &Source) -> Vec<Test> {
    let code = source.code.as_str();
    let mut found: Vec<Test> = Vec::new();
    let mut behind_last = 0;
    for (start, _) in code.match_indices("#[") {
        // A test may have several attributes of the kind.
        if start < behind_last || !is_test_attribute(code, start) {
            continue;
        }
        let Some(function) = Function::behind(code, start) else {
            continue;
        };
        let item = first_attribute(code, start);
        let above = above(&source.prose, code, item);
        let within = &source.prose[item..function.end];
        found.push(Test {
            path: source.path.clone(),
            line: line_at(code, function.at),
            name: function.name.to_owned(),
            prose: running_text(above.into_iter().chain(within.lines())),
        });
        behind_last = function.end;
    }
    found
}

fn is_test_attribute(code: &str, start: usize) -> bool {
    let inner = &code[start + "#[".len()..];
    let end = inner.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':'));
    let path = &inner[..end.unwrap_or(inner.len())];
    let last = path.rsplit("::").next().unwrap_or(path);
    TEST_ATTRIBUTES.contains(&last)
}

struct Function<'a> {
    name: &'a str,
    /// Where its `fn` stands.
    at: usize,
    /// Where its body ends.
    end: usize,
}

impl<'a> Function<'a> {
    /// Returns the function that the attribute at `start` belongs to.
    fn behind(code: &'a str, start: usize) -> Option<Self> {
        let mut at = start;
        while code[at..].starts_with("#[") {
            let rest = &code[matching_close(code, at + 1)? + 1..];
            at = code.len() - rest.trim_start().len();
        }
        let head = &code[at..at + code[at..].find(['(', '{', ';'])?];
        // Visibility such as `pub(crate)` has a bracket of its own, but no test needs it.
        at += *find_word(head, "fn").first()?;
        let declaration = code[at + "fn".len()..].trim_start();
        let end = declaration.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        let name = &declaration[..end];
        // Inside `macro_rules!` the name is a variable.
        if name.is_empty() {
            return None;
        }
        let parameters = at + code[at..].find('(')?;
        let behind_parameters = matching_close(code, parameters)? + 1;
        let body = behind_parameters + code[behind_parameters..].find('{')?;
        let end = matching_close(code, body)? + 1;
        Some(Self { name, at, end })
    }
}

/// Returns where the first of the attributes starts that stand together with the one at `start`.
fn first_attribute(code: &str, mut start: usize) -> usize {
    loop {
        let before = code[..start].trim_end();
        let opened = before.ends_with(']').then(|| matching_open(before)).flatten();
        match opened {
            // An inner attribute, `#![…]`, belongs to what encloses the test.
            Some(open) if before[..open].ends_with('#') => start = open - 1,
            _ => return start,
        }
    }
}

/// Returns where the bracket that closes at the end of `code` was opened.
fn matching_open(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().rev() {
        match byte {
            b')' | b']' | b'}' => depth += 1,
            b'(' | b'[' | b'{' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the lines of comment directly above `start`, without an empty line between.
fn above<'a>(prose: &'a str, code: &str, start: usize) -> Vec<&'a str> {
    let end_of_last_item = code[..start].trim_end().len();
    let between = &prose[end_of_last_item..start];
    let between = match end_of_last_item {
        0 => between,
        // A comment behind the last item, in the same line, belongs to that item.
        _ => between.split_once('\n').map_or("", |(_, rest)| rest),
    };
    let Some((lines, _indentation)) = between.rsplit_once('\n') else {
        return Vec::new();
    };
    let mut lines: Vec<&str> = lines
        .lines()
        .rev()
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| !line.trim_start().starts_with("//!"))
        .collect();
    lines.reverse();
    lines
}

/// Joins lines, because an id and what belongs to it may be wrapped.
fn running_text<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let words = lines.flat_map(|line| line.trim().trim_matches(['/', '*']).split_whitespace());
    words.collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        let tests = tests(&Source::new("a.rs", text));
        tests.into_iter().map(|test| (test.name, test.prose)).collect()
    }

    fn one(name: &str, prose: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), prose.to_owned())]
    }

    #[test]
    fn every_kind_of_test_is_found() {
        assert_eq!(found("#[test]\nfn a() {}"), one("a", ""));
        assert_eq!(
            found("#[tokio::test(start_paused = true)]\nasync fn b() -> Result<(), E> { x() }"),
            one("b", "")
        );
        assert_eq!(found("#[test_case(1)]\n#[test_case(2)]\nfn c(x: u8) {}"), one("c", ""));
        assert_eq!(
            found("proptest! {\n    #![config(X { y: 1 })]\n\n    #[test]\n    fn d(x in f(1..2)) {}\n}"),
            one("d", "")
        );
    }

    #[test]
    fn other_functions_are_not() {
        assert!(found("#[cfg(test)]\nmod tests {}\n#[inline]\nfn a() {}\n#[testing]\nfn b() {}").is_empty());
        assert!(found("// #[test]\n// fn a() {}\nconst A: &str = \"#[test] fn b() {}\";").is_empty());
        assert!(found("macro_rules! m { ($n:ident) => { #[test]\nfn $n() {} } }").is_empty());
    }

    #[test]
    fn prose_above_and_inside_belongs_to_the_test() {
        let text = "/// Above,\n/// wrapped.\n#[test]\n// between\n#[should_panic]\nfn a() {\n    // inside\n    f(x, \"literal\"); // behind\n}\n// below\n";
        assert_eq!(
            found(text),
            one("a", "Above, wrapped. between inside \"literal\" // behind")
        );
        let block = "#[cfg_attr(\n    x,\n    y\n)]\n/* block */\n#[test]\nfn a() {}\n";
        assert_eq!(found(&format!("// above\n{block}")), one("a", "above block"));
    }

    #[test]
    fn prose_of_others_does_not() {
        assert_eq!(found("//! Of the file.\n#[test]\nfn a() {}"), one("a", ""));
        assert_eq!(found("use x; // of the import\n#[test]\nfn a() {}"), one("a", ""));
        assert_eq!(
            found("// A section.\n\n/// Its own.\n#[test]\nfn a() {}"),
            one("a", "Its own.")
        );
        let two = "#[test]\nfn a() {\n    // of a\n}\n\n/// Of b.\n#[test]\nfn b() {}\n";
        let expected = [one("a", "of a"), one("b", "Of b.")].concat();
        assert_eq!(found(two), expected);
    }

    #[test]
    fn the_line_is_that_of_the_function() {
        let source = Source::new("a.rs", "\n/// ü\n#[test]\nfn a() {}\n");
        assert_eq!(tests(&source)[0].line, 4);
    }
}
