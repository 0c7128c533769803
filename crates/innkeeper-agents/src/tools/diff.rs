//! Line diffs.

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};

use super::outcome::count;

/// The diff of two texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileDiff {
    /// Added lines.
    pub(super) added: u32,
    /// Removed lines.
    pub(super) removed: u32,
    /// Unified diff, truncated to the limit.
    pub(super) unified: String,
}

impl FileDiff {
    pub(super) fn between(before: &str, after: &str, max_bytes: usize) -> Self {
        let input = InternedInput::new(before, after);
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        let printer = BasicLineDiffPrinter(&input.interner);
        let mut unified = diff
            .unified_diff(&printer, UnifiedDiffConfig::default(), &input)
            .to_string();
        if unified.len() > max_bytes {
            let end = (0..=max_bytes)
                .rev()
                .find(|end| unified.is_char_boundary(*end))
                .unwrap_or(0);
            let end = unified.get(..end).and_then(|start| start.rfind('\n')).unwrap_or(end);
            let left_out = unified.get(end..).unwrap_or_default().trim().lines().count();
            unified.truncate(end);
            unified.push_str(&format!(
                "\n[{} of the diff left out]\n",
                count(left_out, "line", "lines")
            ));
        }
        Self {
            added: diff.count_additions(),
            removed: diff.count_removals(),
            unified,
        }
    }

    /// Formats the counts, such as "+3 −1".
    pub(super) fn counts(&self) -> String {
        format!("+{} −{}", self.added, self.removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_counts_and_shows_lines() {
        let diff_text = FileDiff::between("a\nb\nc\n", "a\nB\nc\nd\n", 1000);
        assert_eq!((diff_text.added, diff_text.removed), (2, 1));
        assert_eq!(diff_text.counts(), "+2 −1");
        assert_eq!(diff_text.unified, "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n");
    }

    #[test]
    fn a_truncated_diff_names_the_omitted_lines() {
        let after = "ü\n".repeat(1000);
        let diff_text = FileDiff::between("", &after, 100);
        assert_eq!(diff_text.added, 1000);
        assert!(diff_text.unified.len() < 150, "{}", diff_text.unified);
        assert!(
            diff_text.unified.contains("lines of the diff left out"),
            "{}",
            diff_text.unified
        );
    }
}
