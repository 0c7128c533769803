//! The window with changed files and their lines.

use ahp_types::state::{ChangesetFile, ChangesetStatus};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::tool_call::{CallContext, edit_lines};
use super::{put_lines, split_top, to_u16};
use crate::app::App;
use crate::app::dialog::Changes;
use crate::text::time::counted;
use crate::text::{one_line, path_of, truncate_path};

/// Files that are visible at once above the lines of the selected one.
const MAX_FILES: usize = 8;

pub(super) fn draw(app: &mut App, changes: &Changes, area: Rect, buffer: &mut Buffer) {
    let theme = app.setup.theme;
    let width = usize::from(area.width);
    let tabs: Vec<Span<'static>> = changes
        .views
        .iter()
        .flat_map(|(uri, label)| {
            let style = if *uri == changes.uri {
                theme.selected()
            } else {
                theme.dim()
            };
            [Span::styled(one_line(&format!(" {label} "), 30), style), Span::raw(" ")]
        })
        .collect();
    buffer.set_line(area.x, area.y, &Line::from(tabs), area.width);
    let (_, rest) = split_top(area, 1);
    let Some(state) = app.mirror.changesets.get(&changes.uri).cloned() else {
        buffer.set_stringn(rest.x, rest.y, "Loading…", width, theme.dim());
        return;
    };
    let status = match (&state.status, &state.error) {
        (ChangesetStatus::Computing | ChangesetStatus::Recomputing, _) => "computing…".to_owned(),
        (ChangesetStatus::Error, Some(error)) => one_line(&error.message, width),
        _ => {
            let (added, removed) = state.files.iter().fold((0, 0), |(added, removed), file| {
                let diff = file.edit.diff.as_ref();
                let count = |lines: Option<i64>| lines.unwrap_or_default();
                (
                    added + diff.map_or(0, |diff| count(diff.added)),
                    removed + diff.map_or(0, |diff| count(diff.removed)),
                )
            });
            format!("{}, +{added} -{removed}", counted(state.files.len(), "file"))
        }
    };
    let hint = format!("{status}   Tab other view, ↑↓ file, Enter actions, Esc close");
    buffer.set_stringn(rest.x, rest.y, hint, width, theme.dim());
    let (_, rest) = split_top(rest, 1);
    let skipped = (changes.cursor + 1).saturating_sub(MAX_FILES);
    let shown = state.files.iter().enumerate().skip(skipped).take(MAX_FILES);
    let mut lines = Vec::new();
    for (index, file) in shown {
        let style = if index == changes.cursor {
            theme.selected()
        } else {
            Style::new()
        };
        lines.push(Line::from(vec![
            Span::styled(truncate_path(&name(app, file), width.saturating_sub(14)), style),
            Span::styled(counts(file), theme.dim()),
        ]));
    }
    put_lines(buffer, rest, &lines);
    let (_, rest) = split_top(rest, to_u16(lines.len() + 1));
    let Some(file) = state.files.get(changes.cursor) else {
        return;
    };
    let mut contents = std::mem::take(&mut app.contents);
    let mut lines = Vec::new();
    edit_lines(
        &file.edit,
        &mut CallContext {
            mirror: &app.mirror,
            contents: &mut contents,
            home: app.setup.home.as_deref(),
            theme,
            width,
        },
        &mut lines,
    );
    app.contents = contents;
    let hidden = lines.len().saturating_sub(rest.height.into());
    let visible: Vec<Line<'_>> = lines.into_iter().skip(changes.scroll.min(hidden)).collect();
    put_lines(buffer, rest, &visible);
}

fn name(app: &App, file: &ChangesetFile) -> String {
    let (sign, side) = match (&file.edit.before, &file.edit.after) {
        (Some(_), Some(after)) => ("M", after),
        (None, Some(after)) => ("A", after),
        (Some(before), None) => ("D", before),
        (None, None) => return "?".to_owned(),
    };
    let directories = app.session().and_then(|session| session.working_directories.as_deref());
    let inside = directories.unwrap_or_default().iter().find_map(|directory| {
        let rest = side.uri.strip_prefix(directory.trim_end_matches('/'))?;
        rest.strip_prefix('/')
    });
    let path = match inside {
        Some(inside) => one_line(inside, 400),
        None => path_of(&side.uri, app.setup.home.as_deref()),
    };
    format!("{sign} {path}")
}

fn counts(file: &ChangesetFile) -> String {
    match &file.edit.diff {
        Some(diff) => format!(
            "  +{} -{}",
            diff.added.unwrap_or_default(),
            diff.removed.unwrap_or_default()
        ),
        None => String::new(),
    }
}
