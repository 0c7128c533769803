//! Finds the lines that the model probably meant, when its text does not occur in a file.

use std::collections::HashSet;

use super::numbered;

/// Maximum number of compared lines, which bounds the cost of a hint.
const MAX_LINES: usize = 50_000;
/// Context lines before and after.
const CONTEXT_LINES: usize = 2;
/// Maximum number of lines shown.
const MAX_SHOWN_LINES: usize = 30;
/// Minimum similarity of lines, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.5;

/// Describes the most similar part of the file and how it differs.
pub(super) fn hint(text: &str, wanted: &str, line_chars: usize) -> String {
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    let wanted: Vec<&str> = wanted.lines().skip_while(|line| line.trim().is_empty()).collect();
    let length = wanted.len().clamp(1, MAX_SHOWN_LINES);
    if let Some(start) = same_but_for_space(&lines, &wanted) {
        let shown = around(&lines, start, length);
        return format!(
            "; it does when white space is not counted, at line {}:\n{}",
            start + 1,
            numbered(shown.0, shown.1, line_chars)
        );
    }
    match most_similar(&lines, &wanted) {
        Some(start) => {
            let shown = around(&lines, start, length);
            format!("; the nearest lines are:\n{}", numbered(shown.0, shown.1, line_chars))
        }
        None => ", nor does anything like it: read the file again".to_owned(),
    }
}

/// Finds lines that are equal except for whitespace at their ends.
fn same_but_for_space(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    let is_same = |window: &[&str]| window.iter().zip(wanted).all(|(a, b)| a.trim() == b.trim());
    lines.windows(wanted.len()).position(is_same)
}

/// Finds the line most similar to the longest wanted line, and returns the start of that passage.
fn most_similar(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let (offset, probe) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let probe = pairs(probe);
    let similarity = |line: &str| {
        let pairs = pairs(line);
        let total = pairs.len() + probe.len();
        if total == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "lines are not that long")]
        let similarity = 2.0 * pairs.intersection(&probe).count() as f64 / total as f64;
        similarity
    };
    let best = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (index, similarity(line)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (best.1 >= MIN_SIMILARITY).then(|| best.0.saturating_sub(offset))
}

/// Pairs of adjacent characters, without whitespace.
fn pairs(line: &str) -> HashSet<(char, char)> {
    let chars = line.chars().filter(|c| !c.is_whitespace()).take(500);
    let next = line.chars().filter(|c| !c.is_whitespace()).take(500).skip(1);
    chars.zip(next).collect()
}

/// Returns the lines with their context, and the number of the first.
fn around<'a, 'b>(lines: &'b [&'a str], start: usize, length: usize) -> (&'b [&'a str], usize) {
    let first = start.saturating_sub(CONTEXT_LINES);
    let last = (start + length + CONTEXT_LINES).min(lines.len());
    (lines.get(first..last).unwrap_or_default(), first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn main() {\n    let greeting = \"hello\";\n    println!(\"{greeting}\");\n}\n";

    #[test]
    fn different_whitespace_is_named_as_the_reason() {
        let hint = hint(FILE, "let greeting = \"hello\";\n  println!(\"{greeting}\");", 100);
        assert!(hint.contains("white space is not counted, at line 2:"), "{hint}");
        assert!(hint.contains("     2\t    let greeting = \"hello\";"), "{hint}");
    }

    #[test]
    fn the_most_similar_lines_are_shown() {
        let hint = hint(FILE, "    let greeting = \"hallo\";\n", 100);
        assert!(hint.starts_with("; the nearest lines are:\n     1\tfn main"), "{hint}");
    }

    #[test]
    fn without_a_similar_line_the_hint_says_so() {
        let hint = hint(FILE, "SELECT * FROM inns", 100);
        assert_eq!(hint, ", nor does anything like it: read the file again");
        assert!(super::hint("", "x", 100).contains("nor does anything"));
    }
}
