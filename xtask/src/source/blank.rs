//! Turning the parts of a Rust file that a rule must not look at into spaces.
//!
//! Every function keeps the length and the line breaks of its input, so that a position in its
//! result is a position in the file.

use super::find::{find_word, is_identifier_byte, matching_close};

/// A file taken apart. Both parts are as long as the file, with spaces where the other part stands.
pub(super) struct Parts {
    /// The file without comments, string literals and character literals.
    pub(super) code: String,
    /// The comments and literals alone.
    pub(super) prose: String,
}

/// Tells the code of a file from its comments and literals.
pub(super) fn take_apart(text: &str) -> Parts {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut prose = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let skipped = comment_length(&bytes[at..])
            .or_else(|| string_length(bytes, at))
            .or_else(|| character_length(&text[at..]));
        // A whole character of code, so that `at` always lies on a character boundary.
        let length = skipped.unwrap_or_else(|| text[at..].chars().next().map_or(1, char::len_utf8));
        let end = (at + length).min(bytes.len());
        let (part, other) = match skipped {
            Some(_) => (&mut prose, &mut code),
            None => (&mut code, &mut prose),
        };
        part.extend_from_slice(&bytes[at..end]);
        other.extend(bytes[at..end].iter().map(|byte| blanked(*byte)));
        at = end;
    }
    let whole = |part| String::from_utf8(part).expect("invariant: whole characters are kept or become spaces");
    Parts {
        code: whole(code),
        prose: whole(prose),
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
    result.extend(code[start..end].bytes().map(|byte| blanked(byte) as char));
    result.push_str(&code[end..]);
    result
}

fn blanked(byte: u8) -> u8 {
    if byte == b'\n' { b'\n' } else { b' ' }
}

fn comment_length(rest: &[u8]) -> Option<usize> {
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|byte| *byte == b'\n');
        return Some(end.unwrap_or(rest.len()));
    }
    if !rest.starts_with(b"/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    Some(rest.len())
}

/// Returns the length of the string literal, with its prefix, that starts at `at`.
fn string_length(bytes: &[u8], at: usize) -> Option<usize> {
    let continues_a_name = at > 0 && is_identifier_byte(bytes[at - 1]);
    let rest = &bytes[at..];
    let prefix = rest.iter().take_while(|byte| b"bcr".contains(byte)).count();
    if prefix > 2 || (prefix > 0 && continues_a_name) {
        return None;
    }
    let raw = rest[..prefix].contains(&b'r');
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if (hashes > 0 && !raw) || rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let body = prefix + hashes + 1;
    let mut end = body;
    while end < rest.len() {
        if rest[end] == b'"' && rest[end + 1..].iter().take(hashes).filter(|b| **b == b'#').count() == hashes {
            return Some(end + 1 + hashes);
        }
        end += if rest[end] == b'\\' && !raw { 2 } else { 1 };
    }
    Some(rest.len())
}

/// Returns the length of the character literal at the start, telling it apart from a lifetime.
fn character_length(rest: &str) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1);
    if !rest.starts_with('\'') {
        return None;
    }
    let (_, first) = characters.next()?;
    if first == '\\' {
        // The escaped character itself may be a quote, so the search starts behind it.
        let (escaped, _) = characters.next()?;
        let close = rest[escaped + 1..].find('\'')?;
        return Some(escaped + 1 + close + 1);
    }
    let (end, second) = characters.next()?;
    (second == '\'').then_some(end + 1)
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
    fn comments_and_literals_are_kept_apart() {
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
