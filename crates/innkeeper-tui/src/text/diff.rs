//! Changed lines in colour.

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use ratatui::text::{Line, Span};

use super::{clean, highlight, wrap};
use crate::theme::Theme;

/// Lines of a change that are shown at most.
const MAX_LINES: usize = 400;

/// Returns the changed lines between two texts, with their context.
pub(crate) fn lines(before: &str, after: &str, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let (before, after) = (clean(before), clean(after));
    let input = InternedInput::new(before.as_str(), after.as_str());
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let printer = BasicLineDiffPrinter(&input.interner);
    let unified = diff
        .unified_diff(&printer, UnifiedDiffConfig::default(), &input)
        .to_string();
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (index, line) in unified.lines().enumerate() {
        if index == MAX_LINES {
            let more = unified.lines().count() - MAX_LINES;
            lines.push(Line::styled(format!("… {more} more lines"), theme.dim()));
            break;
        }
        let line = highlight::diff_line(line, theme);
        lines.extend(wrap::chop(&[line], width, &[Span::raw("  ")]));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_have_signs_and_colours() {
        let theme = Theme::coloured();
        let lines = lines("one\ntwo\n", "one\n2\x1b\n", 40, theme);
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["  @@ -1,2 +1,2 @@", "   one", "  -two", "  +2\\u{1b}"]);
        assert_eq!(lines[2].spans[1].style, theme.removed());
        assert_eq!(lines[3].spans[1].style, theme.added());
    }
}
