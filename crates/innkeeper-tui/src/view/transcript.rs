//! The chat: messages, answers, tool calls and reasoning as blocks of lines.
//!
//! A block is rendered once and cached with a fingerprint of what it shows, so that a long chat costs no more per frame
//! than its last block.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use ahp_types::state::{
    BackgroundWork, ChatInputResponseKind, ChatState, Message, MessageKind, ResponsePart, ToolCallState,
    ToolResultContent, Turn, TurnState, UsageInfo,
};
use innkeeper_cli::connection::mirror::{Mirror, call_id};
use innkeeper_cli::format::plain_text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::composer::attachment_name;
use super::header::cost;
use super::tool_call::{self, CallContext};
use super::{put_lines, to_u16};
use crate::app::transcript::DrawnBlock;
use crate::app::{App, Focus, LinkStatus, Selected};
use crate::text::time::{counted, duration, seconds_since, tokens};
use crate::text::wrap::wrap_text;
use crate::text::{clean, one_line};
use crate::theme::Theme;

/// Columns before the agent's answers.
const INDENT: usize = 2;

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let height = usize::from(area.height);
    let blocks = match app.chat_uri().and_then(|uri| app.mirror.chats.get_key_value(uri)) {
        Some((uri, _)) => {
            let uri = uri.clone();
            chat_blocks(app, &uri, width)
        }
        None => vec![Block::plain("welcome", welcome(app, width))],
    };
    let mut total = 0;
    let mut drawn = Vec::new();
    let mut contents: Vec<Rc<Vec<Line<'static>>>> = Vec::new();
    for block in blocks {
        drawn.push(DrawnBlock {
            id: block.id,
            start: total,
            lines: block.lines.len(),
            is_foldable: block.is_foldable,
            target: block.target,
        });
        total += block.lines.len();
        contents.push(block.lines);
    }
    let first_turn = app
        .chat()
        .and_then(|chat| chat.turns.first())
        .map(|turn| turn.id.clone());
    let transcript = &mut app.transcript;
    if let Some(top) = &mut transcript.top
        && transcript.first_turn.is_some()
        && transcript.first_turn != first_turn
        && total > transcript.total
    {
        // Older turns were added above: the visible lines stay where they are.
        *top += total - transcript.total;
    }
    transcript.first_turn = first_turn;
    transcript.total = total;
    transcript.height = height;
    let end = total.saturating_sub(height);
    let top = transcript.top.unwrap_or(end).min(end);
    let selected = transcript.selected.clone().filter(|_| app.focus == Focus::Transcript);
    let mut visible: Vec<Line<'static>> = Vec::with_capacity(height);
    for (block, lines) in drawn.iter().zip(&contents) {
        if block.start + block.lines <= top || block.start >= top + height {
            continue;
        }
        let hidden = top.saturating_sub(block.start);
        let room = height - visible.len();
        for (index, line) in lines.iter().enumerate().skip(hidden).take(room) {
            let is_selected = index == 0 && selected.as_ref() == Some(&block.id);
            visible.push(match is_selected {
                true => line.clone().style(app.setup.theme.selected()),
                false => line.clone(),
            });
        }
    }
    app.transcript.blocks = drawn;
    app.transcript.forget_old_blocks();
    put_lines(buffer, area, &visible);
    if top < end {
        let more = format!(" ↓ {} ", counted(end - top, "more line"));
        let column = area.right().saturating_sub(to_u16(more.chars().count() + 1));
        let row = area.bottom().saturating_sub(1);
        buffer.set_string(column, row, more, app.setup.theme.selected());
    }
}

struct Block {
    id: String,
    lines: Rc<Vec<Line<'static>>>,
    is_foldable: bool,
    target: Option<String>,
}

impl Block {
    fn plain(id: impl Into<String>, lines: impl Into<Rc<Vec<Line<'static>>>>) -> Self {
        Self {
            id: id.into(),
            lines: lines.into(),
            is_foldable: false,
            target: None,
        }
    }
}

fn welcome(app: &App, width: usize) -> Vec<Line<'static>> {
    let theme = app.setup.theme;
    let text = match (&app.selected, &app.status) {
        (_, LinkStatus::StartingHost) => "No host was running, so one is being started. It goes on when you quit.",
        (_, LinkStatus::Connecting) => "Connecting to the host…",
        (_, LinkStatus::Lost(reason)) => reason,
        (Selected::Session { .. }, LinkStatus::Connected) => "Loading…",
        (Selected::New, LinkStatus::Connected) => {
            "Write a message to begin a session here. Ctrl+N chooses another agent or directory, Tab goes to the \
             sessions on the left, F1 shows all keys."
        }
    };
    let mut lines = vec![Line::default()];
    lines.extend(wrap_text(&clean(text), theme.dim(), width.saturating_sub(2), "  "));
    lines
}

fn chat_blocks(app: &mut App, uri: &str, width: usize) -> Vec<Block> {
    // The state is taken out while the cache is written, and put back.
    let Some(chat) = app.mirror.chats.remove(uri) else {
        return Vec::new();
    };
    let mut builder = Builder {
        theme: app.setup.theme,
        width,
        app,
        blocks: Vec::new(),
    };
    builder.chat(&chat);
    let blocks = builder.blocks;
    app.mirror.chats.insert(uri.to_owned(), chat);
    blocks
}

struct Builder<'a> {
    app: &'a mut App,
    theme: Theme,
    width: usize,
    blocks: Vec<Block>,
}

impl Builder<'_> {
    fn chat(&mut self, chat: &ChatState) {
        if chat.turns_next_cursor.is_some() {
            let line = Line::styled("  ↑ older messages: PgUp", self.theme.dim());
            self.blocks.push(Block::plain("older", vec![line]));
        }
        for turn in &chat.turns {
            self.message(&turn.id, &turn.message);
            self.parts(&turn.id, &turn.response_parts);
            self.turn_end(turn);
        }
        if let Some(turn) = &chat.active_turn {
            self.message(&turn.id, &turn.message);
            self.parts(&turn.id, &turn.response_parts);
            let seconds = seconds_since(&turn.started_at, self.app.now).unwrap_or_default();
            let activity = chat.activity.as_deref().unwrap_or("Working");
            let mut line = format!("  ◐ {}… {seconds} s", one_line(activity, self.width.saturating_sub(16)));
            if let Some(usage) = &turn.usage {
                line.push_str(&format!(", {}", used(usage)));
            }
            let lines = vec![Line::default(), Line::styled(line, self.theme.busy())];
            self.blocks.push(Block::plain(format!("{}#activity", turn.id), lines));
        }
        self.pending(chat);
    }

    fn message(&mut self, turn: &str, message: &Message) {
        let theme = self.theme;
        let mark = match message.origin.kind {
            MessageKind::User => Span::styled("❯ ", theme.own()),
            _ => Span::styled("» ", theme.dim()),
        };
        let (text, width) = (&message.text, self.width);
        let id = format!("{turn}#message");
        let fingerprint = text.len() as u64;
        let lines = self.cached(&id, fingerprint, || {
            let mut lines = vec![Line::default()];
            let style = theme.bold();
            for (index, line) in clean(text).split('\n').enumerate() {
                let first = match index {
                    0 => vec![mark.clone()],
                    _ => vec![Span::raw("  ")],
                };
                let spans = [Span::styled(line.to_owned(), style)];
                lines.extend(crate::text::wrap::wrap(&spans, width, &first, &[Span::raw("  ")]));
            }
            lines
        });
        self.blocks.push(Block::plain(id, lines));
        let names: Vec<String> = message.attachments.iter().flatten().map(attachment_name).collect();
        if !names.is_empty() {
            let names = one_line(&format!("  + {}", names.join(", ")), width);
            let line = Line::styled(names, theme.accent());
            self.blocks
                .push(Block::plain(format!("{turn}#attachments"), vec![line]));
        }
    }

    fn parts(&mut self, turn: &str, parts: &[ResponsePart]) {
        let mut was_call = false;
        for (index, part) in parts.iter().enumerate() {
            let id = format!("{turn}#{index}");
            let is_call = matches!(part, ResponsePart::ToolCall(_) | ResponsePart::Reasoning(_));
            let blocks = match part {
                ResponsePart::Markdown(part) => self.answer(&id, &part.content),
                part => vec![self.part(&id, part)],
            };
            // Calls that follow one another stand close together.
            let stands_close = is_call && was_call;
            if !stands_close && blocks.iter().any(|block| !block.lines.is_empty()) {
                self.blocks
                    .push(Block::plain(format!("{id}-gap"), vec![Line::default()]));
            }
            was_call = is_call;
            self.blocks.extend(blocks);
        }
    }

    /// Renders an answer as one block of what is complete and one of what may still change.
    fn answer(&mut self, id: &str, content: &str) -> Vec<Block> {
        let width = self.width.saturating_sub(INDENT);
        let answer = self.app.transcript.answers.entry(id.to_owned()).or_default();
        answer.update(content, width, self.theme, indented);
        let [complete, rest] = answer.lines();
        vec![Block::plain(id, complete), Block::plain(format!("{id}-rest"), rest)]
    }

    fn part(&mut self, id: &str, part: &ResponsePart) -> Block {
        let theme = self.theme;
        let width = self.width.saturating_sub(INDENT);
        match part {
            // Answers have more than one block.
            ResponsePart::Markdown(_) => Block::plain(id, Vec::new()),
            ResponsePart::Reasoning(part) => self.reasoning(id, &part.content),
            ResponsePart::ToolCall(part) => self.call(id, &part.tool_call),
            ResponsePart::SystemNotification(part) => {
                let text = clean(&plain_text(&part.content));
                Block::plain(id, wrap_text(&text, theme.dim(), width, "  · "))
            }
            ResponsePart::InputRequest(part) => {
                let question = part.request.message.as_deref().unwrap_or("Questions");
                let state = match part.response {
                    None => "waits for your answer",
                    Some(ChatInputResponseKind::Accept) => "answered",
                    Some(ChatInputResponseKind::Decline) => "declined",
                    Some(ChatInputResponseKind::Cancel) => "cancelled",
                };
                let text = format!("? {}  ({state})", clean(question));
                Block::plain(id, wrap_text(&text, theme.dim(), self.width, "  "))
            }
            ResponsePart::Error(part) => {
                let text = format!("✗ {}", clean(&part.error.message));
                let mut lines = wrap_text(&text, theme.failed(), self.width, "  ");
                if part.resumable == Some(true) {
                    lines.push(Line::styled("  Ctrl+R lets the turn go on.", theme.dim()));
                }
                Block::plain(id, lines)
            }
            ResponsePart::ContentRef(part) => {
                let name = crate::text::path_of(&part.uri, self.app.setup.home.as_deref());
                Block::plain(id, wrap_text(&format!("[{name}]"), theme.accent(), self.width, "  "))
            }
            ResponsePart::Unknown(_) => {
                let text = "  [a part of a kind that this client does not know]";
                Block::plain(id, vec![Line::styled(text, theme.dim())])
            }
        }
    }

    fn reasoning(&mut self, id: &str, content: &str) -> Block {
        let (theme, width) = (self.theme, self.width);
        let is_open = self.app.transcript.is_open(id);
        let fingerprint = content.len() as u64 * 2 + u64::from(is_open);
        let lines = self.cached(id, fingerprint, || {
            let first = content.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let fold = if is_open { "▾" } else { "▸" };
            let mut lines = vec![Line::styled(
                format!("{fold} ∴ {}", one_line(first, width.saturating_sub(6))),
                theme.dim(),
            )];
            if is_open {
                lines.extend(wrap_text(&clean(content), theme.dim(), width, "    "));
            }
            lines
        });
        Block {
            id: id.to_owned(),
            lines,
            is_foldable: true,
            target: None,
        }
    }

    fn call(&mut self, id: &str, call: &ToolCallState) -> Block {
        let is_open = self.app.transcript.is_open(id);
        let fingerprint = self.call_fingerprint(call, is_open);
        let target = contents(call).iter().find_map(|content| match content {
            ToolResultContent::Subagent(subagent) => Some(subagent.resource.clone()),
            ToolResultContent::Terminal(terminal) => Some(terminal.resource.clone()),
            _ => None,
        });
        let lines = match self.app.transcript.cache.get(id) {
            Some((known, lines)) if *known == fingerprint => Rc::clone(lines),
            _ => {
                let mut contents = std::mem::take(&mut self.app.contents);
                let lines = tool_call::lines(
                    call,
                    is_open,
                    &mut CallContext {
                        mirror: &self.app.mirror,
                        contents: &mut contents,
                        home: self.app.setup.home.as_deref(),
                        theme: self.theme,
                        width: self.width,
                    },
                );
                self.app.contents = contents;
                let lines = Rc::new(lines);
                let cache = &mut self.app.transcript.cache;
                cache.insert(id.to_owned(), (fingerprint, Rc::clone(&lines)));
                lines
            }
        };
        Block {
            id: id.to_owned(),
            lines,
            is_foldable: true,
            target,
        }
    }

    fn call_fingerprint(&self, call: &ToolCallState, is_open: bool) -> u64 {
        let mut hasher = DefaultHasher::new();
        std::mem::discriminant(call).hash(&mut hasher);
        (is_open, self.width, self.app.contents.revision()).hash(&mut hasher);
        self.app.mirror.call_took(call_id(call)).hash(&mut hasher);
        if let ToolCallState::Streaming(call) = call {
            call.invocation_message.as_ref().map(plain_text).hash(&mut hasher);
        }
        for content in contents(call) {
            match content {
                ToolResultContent::Text(text) => (text.text.len(), tail(&text.text)).hash(&mut hasher),
                ToolResultContent::Subagent(subagent) => {
                    let status = chat_status(&self.app.mirror, &subagent.resource);
                    (&subagent.title, status).hash(&mut hasher);
                }
                ToolResultContent::Terminal(terminal) => {
                    let result = terminal.result.as_ref();
                    let preview = result.and_then(|result| result.preview.as_ref());
                    (
                        &terminal.resource,
                        result.map(|result| result.exit_code),
                        preview.map(String::len),
                    )
                        .hash(&mut hasher);
                }
                other => std::mem::discriminant(other).hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    fn turn_end(&mut self, turn: &Turn) {
        let mut about: Vec<String> = Vec::new();
        if turn.state == TurnState::Cancelled {
            about.push("cancelled".to_owned());
        }
        about.extend(turn.duration.map(duration));
        if let Some(usage) = &turn.usage {
            about.push(used(usage));
        }
        if about.is_empty() {
            return;
        }
        let line = one_line(&about.join(" · "), self.width.saturating_sub(4));
        let mark = if turn.state == TurnState::Cancelled {
            "■"
        } else {
            "·"
        };
        let lines = vec![
            Line::default(),
            Line::styled(format!("  {mark} {line}"), self.theme.dim()),
        ];
        self.blocks.push(Block::plain(format!("{}#end", turn.id), lines));
    }

    fn pending(&mut self, chat: &ChatState) {
        let theme = self.theme;
        let mut lines = Vec::new();
        let mut add = |sign: &str, what: &str, text: &str| {
            lines.push(Line::from(vec![
                Span::styled(format!("  {sign} {what}: "), theme.dim()),
                Span::raw(one_line(text, self.width.saturating_sub(16))),
            ]));
        };
        if let Some(message) = &chat.steering_message {
            add("↪", "steering", &message.message.text);
        }
        for message in chat.queued_messages.iter().flatten() {
            add("⧗", "queued", &message.message.text);
        }
        for work in chat.background_work.iter().flatten() {
            match work {
                BackgroundWork::Shell(work) => add("◐", "in the background", &work.label),
                BackgroundWork::Subagent(work) => add("◐", "subagent in the background", &work.label),
                BackgroundWork::Unknown(_) => {}
            }
        }
        if !lines.is_empty() {
            lines.insert(0, Line::default());
            self.blocks.push(Block::plain("pending", lines));
        }
    }

    fn cached(
        &mut self,
        id: &str,
        fingerprint: u64,
        render: impl FnOnce() -> Vec<Line<'static>>,
    ) -> Rc<Vec<Line<'static>>> {
        let fingerprint = fingerprint.wrapping_mul(1 << 16).wrapping_add(self.width as u64);
        if let Some((known, lines)) = self.app.transcript.cache.get(id)
            && *known == fingerprint
        {
            return Rc::clone(lines);
        }
        let lines = Rc::new(render());
        let cache = &mut self.app.transcript.cache;
        cache.insert(id.to_owned(), (fingerprint, Rc::clone(&lines)));
        lines
    }
}

fn contents(call: &ToolCallState) -> &[ToolResultContent] {
    let content = match call {
        ToolCallState::Running(call) => &call.content,
        ToolCallState::AuthRequired(call) => &call.content,
        ToolCallState::PendingResultConfirmation(call) => &call.content,
        ToolCallState::Completed(call) => &call.content,
        _ => return &[],
    };
    content.as_deref().unwrap_or_default()
}

fn chat_status(mirror: &Mirror, uri: &str) -> Option<u32> {
    let mut chats = mirror.sessions.values().flat_map(|session| &session.chats);
    chats.find(|chat| chat.resource == uri).map(|chat| chat.status)
}

fn tail(text: &str) -> &[u8] {
    let start = text.len().saturating_sub(64);
    text.as_bytes().get(start..).unwrap_or_default()
}

fn used(usage: &UsageInfo) -> String {
    let mut parts = Vec::new();
    if let Some(model) = &usage.model {
        parts.push(one_line(model, 30));
    }
    if let Some(input) = usage.input_tokens {
        let cached = usage.cache_read_tokens.filter(|cached| *cached > 0);
        let cached = cached.map(|cached| format!(" ({} cached)", tokens(cached)));
        parts.push(format!("{} in{}", tokens(input), cached.unwrap_or_default()));
    }
    if let Some(output) = usage.output_tokens {
        parts.push(format!("{} out", tokens(output)));
    }
    if let Some(dollars) = cost(usage) {
        parts.push(format!("${dollars:.4}"));
    }
    parts.join(", ")
}

fn indented(line: Line<'static>) -> Line<'static> {
    let mut spans = vec![Span::raw("  ")];
    spans.extend(line.spans);
    Line::from(spans)
}
