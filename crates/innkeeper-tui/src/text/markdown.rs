//! Markdown of models as styled lines.

mod growing;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{clean, highlight, truncate, wrap};
use crate::theme::Theme;

pub(crate) use growing::Growing;

/// Renders Markdown. The source may be incomplete, because it is streamed.
pub(crate) fn render(source: &str, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut renderer = Renderer::new(width, theme);
    renderer.parse(&clean(source));
    let mut lines = renderer.finish();
    trim_end(&mut lines);
    lines
}

/// The beginning of a block that stands in no other.
struct Mark {
    /// The position of its first line in the text.
    offset: usize,
    /// Lines that were rendered before it.
    lines: usize,
}

/// Removes empty lines at the end.
fn trim_end(lines: &mut Vec<Line<'static>>) {
    while lines.last().is_some_and(|line| line.width() == 0) {
        lines.pop();
    }
}

/// A block that the text stands in.
enum Container {
    Quote,
    /// A list, with the number of its next item if it is numbered.
    List(Option<u64>),
    /// An item, with the width of its marker.
    Item(usize),
}

struct Renderer {
    width: usize,
    theme: Theme,
    lines: Vec<Line<'static>>,
    /// The text of the open paragraph, heading or cell.
    spans: Vec<Span<'static>>,
    styles: Vec<Style>,
    containers: Vec<Container>,
    /// The marker of a list item whose text has not begun.
    marker: Option<String>,
    /// The language and text of an open code block.
    code: Option<(String, String)>,
    /// The target of an open link.
    link: Option<String>,
    table: Option<Table>,
}

#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span<'static>>>>,
}

impl Renderer {
    fn new(width: usize, theme: Theme) -> Self {
        Self {
            width: width.max(8),
            theme,
            lines: Vec::new(),
            spans: Vec::new(),
            styles: vec![Style::new()],
            containers: Vec::new(),
            marker: None,
            code: None,
            link: None,
            table: None,
        }
    }

    /// Renders a text, and returns where its blocks begin.
    fn parse(&mut self, text: &str) -> Vec<Mark> {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let mut marks = Vec::new();
        let mut depth = 0_usize;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            if depth == 0 {
                self.flush();
                let before = text.get(..range.start).unwrap_or_default();
                marks.push(Mark {
                    offset: before.rfind('\n').map_or(0, |end| end + 1),
                    lines: self.lines.len(),
                });
            }
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.handle(event);
        }
        marks
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push(&text, self.style()),
            },
            Event::Code(text) => self.push(&text, self.style().patch(self.theme.code())),
            Event::InlineHtml(text) | Event::Html(text) => self.push(text.trim_end_matches('\n'), self.theme.dim()),
            Event::SoftBreak => self.push(" ", self.style()),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.blank();
                let rule = "─".repeat(self.width.min(40));
                self.lines.push(Line::styled(rule, self.theme.dim()));
            }
            Event::TaskListMarker(is_done) => {
                let (mark, style) = match is_done {
                    true => ("☒ ", self.theme.good()),
                    false => ("☐ ", self.theme.dim()),
                };
                self.push(mark, style);
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text, self.style());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = match level {
                    HeadingLevel::H1 => self.theme.bold().add_modifier(Modifier::UNDERLINED),
                    _ => self.theme.bold(),
                };
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.split([' ', ',']).next().unwrap_or_default().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(start) => {
                if self.containers.is_empty() {
                    self.begin_block();
                } else {
                    self.flush();
                }
                self.containers.push(Container::List(start));
            }
            Tag::Item => {
                self.flush();
                let marker = match self.containers.last_mut() {
                    Some(Container::List(Some(number))) => {
                        let marker = format!("{number}. ");
                        *number += 1;
                        marker
                    }
                    _ => "• ".to_owned(),
                };
                self.containers.push(Container::Item(marker.width()));
                self.marker = Some(marker);
            }
            Tag::Emphasis => self.styles.push(self.style().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(self.style().add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(self.style().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.styles.push(
                    self.style()
                        .patch(self.theme.accent())
                        .add_modifier(Modifier::UNDERLINED),
                );
                self.link = Some(dest_url.into_string());
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table {
                    alignments,
                    rows: Vec::new(),
                });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                self.marker = None;
                self.containers.pop();
            }
            TagEnd::List(_) => {
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                // The label is chosen by the model, so the user has to see where the link goes.
                let target = self.link.take().unwrap_or_default();
                let shown = self.spans.last().is_some_and(|span| span.content == target.as_str());
                if !target.is_empty() && !shown {
                    let target = format!(" ({})", truncate(&target, 80));
                    self.push(&target, self.theme.dim());
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push(&mut self, text: &str, style: Style) {
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.flush();
            }
            if !line.is_empty() {
                self.spans.push(Span::styled(line.to_owned(), style));
            }
        }
    }

    /// Ends the text before a block, with an empty line unless a list item begins.
    fn begin_block(&mut self) {
        self.flush();
        if self.marker.is_none() {
            self.blank();
        }
    }

    fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| line.width() > 0) {
            self.lines.push(Line::default());
        }
    }

    /// Returns what stands before the first and the further lines of a block.
    fn prefixes(&mut self) -> (Vec<Span<'static>>, Vec<Span<'static>>) {
        let mut rest: Vec<Span<'static>> = Vec::new();
        for container in &self.containers {
            match container {
                Container::Quote => rest.push(Span::styled("▎ ", self.theme.dim())),
                Container::List(_) => {}
                Container::Item(width) => rest.push(Span::raw(" ".repeat(*width))),
            }
        }
        let mut first = rest.clone();
        if let Some(marker) = self.marker.take() {
            first.pop();
            first.push(Span::styled(marker, self.theme.dim()));
        }
        (first, rest)
    }

    fn flush(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        let (first, rest) = self.prefixes();
        self.lines.extend(wrap::wrap(&spans, self.width, &first, &rest));
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else {
            return;
        };
        let (mut first, mut rest) = self.prefixes();
        first.push(Span::styled("│ ", self.theme.dim()));
        rest.push(Span::styled("│ ", self.theme.dim()));
        let highlighted = highlight::lines(code.trim_end_matches('\n'), &language, self.theme);
        for (index, line) in highlighted.into_iter().enumerate() {
            let before = if index == 0 { &first } else { &rest };
            self.lines.extend(wrap::chop(&line, self.width, before));
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        let (_, rest) = self.prefixes();
        let indent: usize = rest.iter().map(Span::width).sum();
        let columns = table.rows.iter().map(Vec::len).max().unwrap_or_default();
        let mut widths = vec![1; columns];
        for row in &table.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.iter().map(Span::width).sum());
            }
        }
        shrink(
            &mut widths,
            self.width.saturating_sub(indent + columns.saturating_sub(1) * 3),
        );
        for (index, row) in table.rows.iter().enumerate() {
            let mut line = rest.clone();
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    line.push(Span::styled(" │ ", self.theme.dim()));
                }
                let cell = row.get(column).map(Vec::as_slice).unwrap_or_default();
                let alignment = table.alignments.get(column).copied().unwrap_or(Alignment::None);
                line.extend(fit(cell, *width, alignment, index == 0));
            }
            self.lines.push(Line::from(line));
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                let mut line = rest.clone();
                line.push(Span::styled(rule.join("─┼─"), self.theme.dim()));
                self.lines.push(Line::from(line));
            }
        }
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.flush();
        // A fence that is still open while the text streams is shown as code already.
        self.end_code();
        self.lines
    }
}

/// Narrows the widest columns until all fit.
fn shrink(widths: &mut [usize], room: usize) {
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > 3 => *widest -= 1,
            _ => return,
        }
    }
}

fn fit(cell: &[Span<'static>], width: usize, alignment: Alignment, is_head: bool) -> Vec<Span<'static>> {
    let bold = |style: Style| {
        if is_head {
            style.add_modifier(Modifier::BOLD)
        } else {
            style
        }
    };
    let used: usize = cell.iter().map(Span::width).sum();
    if used > width {
        let text: String = cell.iter().map(|span| span.content.as_ref()).collect();
        let text = truncate(&text, width);
        let padding = width.saturating_sub(text.width());
        return vec![Span::styled(text, bold(Style::new())), Span::raw(" ".repeat(padding))];
    }
    let padding = width - used;
    let before = match alignment {
        Alignment::Right => padding,
        Alignment::Center => padding / 2,
        Alignment::Left | Alignment::None => 0,
    };
    let mut spans = vec![Span::raw(" ".repeat(before))];
    spans.extend(
        cell.iter()
            .map(|span| Span::styled(span.content.clone(), bold(span.style))),
    );
    spans.push(Span::raw(" ".repeat(padding - before)));
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, width: usize) -> Vec<String> {
        let lines = render(source, width, Theme::plain());
        lines
            .iter()
            .map(|line| line.to_string().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn headings_lists_and_paragraphs_are_laid_out() {
        let source =
            "# Fixed\n\nThe *test* passes.\n\n1. one\n2. two words that wrap\n   - deep\n\n- [x] done\n- [ ] open\n";
        let expected = [
            "Fixed",
            "",
            "The test passes.",
            "",
            "1. one",
            "2. two words that",
            "   wrap",
            "   • deep",
            "",
            "• ☒ done",
            "• ☐ open",
        ];
        assert_eq!(shown(source, 18), expected);
    }

    #[test]
    fn code_keeps_its_spaces_and_an_open_fence_is_code() {
        assert_eq!(
            shown("Look:\n\n```rust\nfn a() {\n    b();", 30),
            ["Look:", "", "│ fn a() {", "│     b();"]
        );
    }

    #[test]
    fn tables_fit_the_width() {
        let source = "| test | before |\n|---|---:|\n| parser of long names | 12 |\n";
        let expected = [
            "test            │ before",
            "────────────────┼───────",
            "parser of long… │     12",
        ];
        assert_eq!(shown(source, 24), expected);
    }

    #[test]
    fn links_show_their_target() {
        assert_eq!(
            shown("[click](https://evil.example/x)", 60),
            ["click (https://evil.example/x)"]
        );
        assert_eq!(shown("<https://a.example>", 60), ["https://a.example"]);
    }

    #[test]
    fn escape_sequences_in_markdown_are_defused() {
        let lines = shown("`\x1b[31mred`\n\n```\n\x1b]0;t\x07\n```\n", 60);
        assert_eq!(lines, ["\\u{1b}[31mred", "", "│ \\u{1b}]0;t\\u{7}"]);
    }
}
