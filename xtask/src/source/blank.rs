//! Replaces the parts of a Rust file that a rule must not see by spaces.
//!
//! Every function preserves the length and the line breaks of its input, so that a position in its
//! result is a position in the file.

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

use super::find::{find_word, matching_close};

/// A file taken apart. Both parts are as long as the file, with spaces where the other part stands.
pub(super) struct Parts {
    /// The file without comments, string literals and character literals.
    pub(super) code: String,
    /// The comments and literals alone.
    pub(super) prose: String,
}

/// Tells the code of a file from its comments and literals.
pub(super) fn take_apart(text: &str) -> Parts {
    let mut parts = Parts {
        code: String::with_capacity(text.len()),
        prose: String::with_capacity(text.len()),
    };
    let mut start = 0;
    for token in tokenize(text, FrontmatterAllowed::No) {
        let end = start + token.len as usize;
        let (part, other) = match is_prose(token.kind) {
            true => (&mut parts.prose, &mut parts.code),
            false => (&mut parts.code, &mut parts.prose),
        };
        part.push_str(&text[start..end]);
        other.extend(text[start..end].bytes().map(blanked));
        start = end;
    }
    parts
}

/// Numbers are literals, too, but code.
fn is_prose(token: TokenKind) -> bool {
    match token {
        TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => true,
        TokenKind::Literal { kind, .. } => !matches!(kind, LiteralKind::Int { .. } | LiteralKind::Float { .. }),
        _ => false,
    }
}

/// Turns items behind `#[cfg(test)]` into spaces, and everything when the file itself is test-only.
pub(super) fn test_items(code: &str) -> String {
    if code.contains("#![cfg(test)]") {
        return blank_range(code, 0, code.len());
    }
    let mut result = code.to_owned();
    for (start, item) in test_attributes(code) {
        result = blank_range(&result, start, item_end(code, item));
    }
    result
}

/// Returns where the attribute of the first `#[cfg(test)] mod name { … }` starts.
pub(super) fn first_inline_test_module(code: &str) -> Option<usize> {
    test_attributes(code)
        .into_iter()
        .find(|(_, item)| module_name(code, *item).is_some_and(|(_, next)| next == b'{'))
        .map(|(start, _)| start)
}

/// A module declared as `#[cfg(test)] mod name;`, whose file is therefore test code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TestModule {
    /// The file lies where the name of the module says.
    Named(String),
    /// The file lies where a `#[path]` attribute says, relative to the declaring file.
    At(String),
}

/// Returns the modules whose files are test code. `code` is `text` without comments and literals.
pub(super) fn declared_test_modules(text: &str, code: &str) -> Vec<TestModule> {
    test_attributes(code)
        .into_iter()
        .filter_map(|(start, item)| Some((start, item, module_name(code, item)?)))
        .filter(|(_, _, (_, next))| *next == b';')
        .map(|(start, item, (name, _))| match path_attribute(&text[start..item]) {
            Some(path) => TestModule::At(path.to_owned()),
            None => TestModule::Named(name.to_owned()),
        })
        .collect()
}

fn path_attribute(attributes: &str) -> Option<&str> {
    let (_, rest) = attributes.split_once("#[path = \"")?;
    rest.split_once('"').map(|(path, _)| path)
}

/// Returns for each test attribute where it starts and where the item it belongs to starts.
fn test_attributes(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test,"] {
        for start in find_word(code, attribute) {
            let mut item = start;
            // Further attributes may stand between this one and the item.
            while code[item..].starts_with("#[") {
                let close = matching_close(code, item + 1).unwrap_or(code.len());
                let rest = code.get(close + 1..).unwrap_or_default();
                item = code.len() - rest.trim_start().len();
            }
            found.push((start, item));
        }
    }
    found.sort_unstable();
    found
}

/// Returns where the item that starts at `start` ends: behind its `;` or its body.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return offset + 1,
            b'{' if depth == 0 => {
                return matching_close(code, offset).map_or(code.len(), |close| close + 1);
            }
            // The attribute stood on a field or an arm, and what encloses it ends here.
            b'}' if depth == 0 => return offset,
            _ => {}
        }
    }
    code.len()
}

/// Returns the name of the module declared at `item`, and the byte that follows the name.
fn module_name(code: &str, item: usize) -> Option<(&str, u8)> {
    let declaration = code[item..].trim_start();
    let declaration = match declaration.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches("(crate)").trim_start(),
        None => declaration,
    };
    let declaration = declaration.strip_prefix("mod ")?.trim_start();
    let end = declaration.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let next = declaration[end..].trim_start().bytes().next()?;
    Some((&declaration[..end], next))
}

fn blank_range(code: &str, start: usize, end: usize) -> String {
    let mut result = code[..start].to_owned();
    // Spaces for every byte, so that positions behind the range stay what they were.
    result.extend(code[start..end].bytes().map(blanked));
    result.push_str(&code[end..]);
    result
}

fn blanked(byte: u8) -> char {
    if byte == b'\n' { '\n' } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked_words(text: &str) -> Vec<String> {
        let Parts { code, prose } = take_apart(text);
        for part in [&code, &prose] {
            assert_eq!(part.len(), text.len());
            assert_eq!(part.lines().count(), text.lines().count());
        }
        code.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_become_spaces() {
        assert_eq!(blanked_words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(blanked_words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(
            blanked_words(r###"a r#"b " c"# d b"e" br##"f"# "## g"###),
            ["a", "d", "g"]
        );
        assert_eq!(blanked_words("a '\\'' b '\"' c 'ü' d"), ["a", "b", "c", "d"]);
        assert_eq!(blanked_words("a \"ü\nö\" b"), ["a", "b"]);
    }

    #[test]
    fn comments_and_literals_become_prose() {
        let prose = take_apart("a \"b\" // c ü\nd /* e\n f */ g").prose;
        let words: Vec<&str> = prose.split_whitespace().collect();
        assert_eq!(words, ["\"b\"", "//", "c", "ü", "/*", "e", "f", "*/"]);
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(blanked_words("&'a str; r#type"), ["&'a", "str;", "r#type"]);
        assert_eq!(blanked_words("<'a, 'b>"), ["<'a,", "'b>"]);
    }

    #[test]
    fn test_items_become_spaces() {
        let code = "fn a() {}\n#[cfg(test)]\n#[expect(x)]\nmod t {\n fn b() { {} }\n}\nfn c() {}\n";
        let product = test_items(code);
        assert_eq!(product.len(), code.len());
        assert!(product.contains("fn a") && product.contains("fn c"));
        assert!(!product.contains("fn b") && !product.contains("expect"));
        assert_eq!(test_items("#[cfg(test)]\nuse a::b;\nuse c;").trim(), "use c;");
        assert_eq!(test_items("#![cfg(test)]\nuse c;").trim(), "");
        let feature = "#[cfg(any(test, feature = \"x\"))]\nfn a() {}";
        assert_eq!(test_items(feature), feature);
    }
}
