//! The title of the chat, and the line of hints at the bottom.

use ahp_types::state::UsageInfo;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{put_rule, to_u16};
use crate::app::prompt::Answer;
use crate::app::{App, Focus, LinkStatus, Selected};
use crate::text::time::tokens;
use crate::text::{one_line, truncate_path};

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.setup.theme;
    let width = usize::from(area.width);
    let title = title(app);
    let right = match &app.status {
        LinkStatus::Connected => totals(app),
        LinkStatus::Connecting => "connecting…".to_owned(),
        LinkStatus::StartingHost => "starting the host…".to_owned(),
        LinkStatus::Lost(_) => "disconnected".to_owned(),
    };
    let right_style = match &app.status {
        LinkStatus::Connected => theme.dim(),
        LinkStatus::Connecting | LinkStatus::StartingHost => theme.busy(),
        LinkStatus::Lost(_) => theme.failed(),
    };
    let title = one_line(&title, width.saturating_sub(right.width() + 1));
    buffer.set_stringn(area.x, area.y, &title, width, theme.bold());
    let start = width.saturating_sub(right.width());
    buffer.set_stringn(area.x + to_u16(start), area.y, &right, width - start, right_style);
    if area.height < 2 {
        return;
    }
    let rule = Rect {
        y: area.y + 1,
        height: 1,
        ..area
    };
    let mut about = format!(" {} · ", agent(app));
    about.push_str(&truncate_path(
        &app.shown_directory(),
        width.saturating_sub(about.width() + 3),
    ));
    about.push(' ');
    let about = Span::styled(one_line(&about, width.saturating_sub(2)), theme.dim());
    put_rule(buffer, rule, vec![about], theme.dim());
}

fn title(app: &App) -> String {
    let Some(session) = app.session() else {
        return match app.selected {
            Selected::New => "New session".to_owned(),
            Selected::Session { .. } => "Opening…".to_owned(),
        };
    };
    let chat = session
        .chats
        .iter()
        .find(|chat| Some(chat.resource.as_str()) == app.chat_uri());
    let is_default = session.default_chat.as_deref() == app.chat_uri();
    match chat.filter(|chat| !is_default && !chat.title.is_empty()) {
        Some(chat) => format!("{} › {}", session.title, chat.title),
        None if session.title.is_empty() => "(no title)".to_owned(),
        None => session.title.clone(),
    }
}

fn agent(app: &App) -> String {
    let provider = match app.session() {
        Some(session) => Some(session.provider.clone()),
        None => app.provider.clone(),
    };
    let agents = app.mirror.root.iter().flat_map(|root| &root.agents);
    let found = agents
        .into_iter()
        .find(|agent| provider.as_ref().is_none_or(|provider| *provider == agent.provider));
    let name = match (found, provider) {
        (Some(agent), _) => agent.display_name.clone(),
        (None, Some(provider)) => provider,
        (None, None) => "no agent".to_owned(),
    };
    match app.models.get(app.session_uri().unwrap_or_default()) {
        Some(model) => format!("{name} ({model})"),
        None => name,
    }
}

/// Returns the tokens and cost of all loaded turns.
fn totals(app: &App) -> String {
    let Some(chat) = app.chat() else {
        return String::new();
    };
    let turns = chat.turns.iter().filter_map(|turn| turn.usage.as_ref());
    let usages = turns.chain(chat.active_turn.iter().filter_map(|turn| turn.usage.as_ref()));
    let (mut input, mut output, mut dollars) = (0, 0, 0.0);
    for usage in usages {
        input += usage.input_tokens.unwrap_or_default();
        output += usage.output_tokens.unwrap_or_default();
        dollars += cost(usage).unwrap_or_default();
    }
    let mut text = match input + output {
        0 => String::new(),
        _ => format!("{} in, {} out", tokens(input), tokens(output)),
    };
    if dollars > 0.0 {
        text.push_str(&format!(", ${dollars:.2}"));
    }
    text
}

/// Returns the cost of a turn in dollars, if the agent reports one.
pub(super) fn cost(usage: &UsageInfo) -> Option<f64> {
    let meta = usage.meta.as_ref()?;
    let known = ["cost", "costUsd", "totalCostUsd"];
    known.iter().find_map(|name| meta.get(*name)?.as_f64())
}

/// Draws the notice, the problem of the connection, or the keys that matter now.
pub(super) fn draw_hints(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.setup.theme;
    let width = usize::from(area.width);
    if let Some(notice) = &app.notice {
        let style = if notice.is_error { theme.failed() } else { theme.good() };
        buffer.set_stringn(area.x, area.y, one_line(&notice.text, width), width, style);
        return;
    }
    if let LinkStatus::Lost(reason) = &app.status {
        let text = format!(
            "Disconnected: {reason}. Trying again; nothing that you type is lost. Ctrl+P, “connect” starts a host."
        );
        buffer.set_stringn(area.x, area.y, one_line(&text, width), width, theme.failed());
        return;
    }
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, what) in hints(app) {
        let length = key.width() + what.width() + 3;
        if used + length > width {
            break;
        }
        used += length;
        spans.push(Span::styled(key, theme.accent()));
        spans.push(Span::styled(format!(" {what}  "), theme.dim()));
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

fn hints(app: &App) -> Vec<(&'static str, &'static str)> {
    let is_running = app.chat().is_some_and(|chat| chat.active_turn.is_some());
    let mut hints = match (app.focus, &app.prompt) {
        (Focus::Prompt, Some(prompt)) => match &prompt.answer {
            Answer::Decision { remark: Some(_), .. } => vec![("Enter", "deny"), ("Esc", "back")],
            Answer::Decision { input: Some(_), .. } => vec![("Enter", "allow with this input"), ("Esc", "back")],
            Answer::Decision { .. } => vec![("1-9", "choose"), ("r", "deny with a remark"), ("Esc", "later")],
            Answer::Form(_) => vec![
                ("Tab", "next"),
                ("Ctrl+S", "submit"),
                ("Ctrl+X", "decline"),
                ("Esc", "later"),
            ],
            Answer::SignIn(_) => vec![("Enter", "sign in"), ("Esc", "later")],
            Answer::Elsewhere => Vec::new(),
        },
        (Focus::Transcript, _) => vec![("↑↓", "select"), ("Enter", "details"), ("o", "open"), ("Esc", "back")],
        (Focus::Sessions, _) => vec![("Enter", "open"), ("a", "archive"), ("Del", "delete"), ("/", "filter")],
        (_, Some(_)) => vec![("Ctrl+Y", "answer")],
        (_, None) => Vec::new(),
    };
    if app.focus == Focus::Composer && is_running {
        hints.extend([("Enter", "queue"), ("Ctrl+S", "steer"), ("Ctrl+C", "cancel")]);
    } else if app.focus == Focus::Composer && app.resumable_turn().is_some() {
        hints.push(("Ctrl+R", "resume"));
    }
    let waits_elsewhere = app.waiting_count() > usize::from(app.prompt.is_some());
    if waits_elsewhere {
        hints.push(("Ctrl+G", "next that waits"));
    }
    hints.extend([("Ctrl+P", "commands"), ("Ctrl+N", "new")]);
    if app.focus != Focus::Prompt {
        hints.push(("Tab", "focus"));
    }
    hints.extend([("F1", "keys"), ("Ctrl+Q", "quit")]);
    hints
}
