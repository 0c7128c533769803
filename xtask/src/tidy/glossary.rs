//! The glossary: one concept has one word, and one word has one concept.

use std::collections::HashMap;

use super::Finding;

const RULE: &str = "glossary";
const PAGE: &str = "docs/dev/glossary.md";

/// Checks that no term has two rows. A word in parentheses tells two of them apart.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    if path != PAGE {
        return Vec::new();
    }
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let terms = line.strip_prefix("| ").and_then(|row| row.split('|').next());
        let terms = terms.filter(|cell| cell.trim() != "Term").into_iter();
        for term in terms.flat_map(|cell| cell.split(',')).map(str::trim) {
            if let Some(other) = first.insert(term, index + 1) {
                found.push(Finding {
                    path: path.to_owned(),
                    line: index + 1,
                    rule: RULE,
                    what: format!("`{term}` has a row already, in line {other}"),
                    remedy: "make one row of them, or give one concept another word".to_owned(),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(PAGE, text).into_iter().map(|found| found.line).collect()
    }

    #[test]
    fn a_term_has_one_row() {
        let table = "| Term | AHP |\n|---|---|\n| client | c |\n| root, chat | r |\n\n| Term | AHP |\n|---|---|\n";
        assert!(lines(&format!("{table}| draft (chat) | |\n| draft (session) | |\n")).is_empty());
        assert_eq!(lines(&format!("{table}| chat | |\n")), [8]);
        assert!(check("docs/web.md", "| a | |\n| a | |\n").is_empty());
    }
}
