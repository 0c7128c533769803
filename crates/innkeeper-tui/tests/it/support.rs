//! A screen that is fed with the states of a host.

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::Snapshot;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use innkeeper_cli::connection::link::{HostInfo, LinkEvent};
use innkeeper_tui::app::{App, Setup};
use innkeeper_tui::event::{Effect, Event};
use innkeeper_tui::theme::Theme;
use innkeeper_tui::view;
use jiff::{SignedDuration, Timestamp};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

pub(crate) const SESSION: &str = "ahp-session:/one";
pub(crate) const CHAT: &str = "ahp-chat:/one";

/// The application with a clock of its own.
pub(crate) struct Rig {
    pub(crate) app: App,
    pub(crate) now: Timestamp,
    seq: u64,
    /// Effects since the last look.
    pub(crate) effects: Vec<Effect>,
}

impl Rig {
    /// A connected client without sessions.
    pub(crate) fn connected() -> Self {
        let now = "2026-01-02T10:00:00Z".parse().expect("valid");
        let setup = Setup {
            theme: Theme::plain(),
            directory: Some("/srv/ada/inn".to_owned()),
            home: Some("/srv/ada".to_owned()),
            session: None,
            latest: false,
        };
        let mut rig = Self {
            app: App::new(setup, now),
            now,
            seq: 100,
            effects: Vec::new(),
        };
        rig.connect();
        rig.link(LinkEvent::Sessions(Vec::new()));
        rig
    }

    /// A client that shows a session with a chat.
    pub(crate) fn with_chat(chat: Value) -> Self {
        let mut rig = Self::connected();
        rig.link(LinkEvent::Sessions(vec![
            summary(SESSION, "Fix the parser", 33, "file:///srv/ada/inn"),
            summary("ahp-session:/two", "Ring the bell", 24, "file:///srv/ada/inn"),
            summary(
                "ahp-session:/three",
                "日本語のタイトルはとても長い",
                8,
                "file:///srv/garden",
            ),
            summary("ahp-session:/four", "Unread answer", 1, "file:///srv/garden"),
        ]));
        rig.keys("ctrl+f");
        rig.type_text("parser");
        rig.keys("enter");
        rig.state(SESSION, session(json!([])));
        rig.state(CHAT, chat);
        rig
    }

    pub(crate) fn connect(&mut self) {
        self.link(LinkEvent::Connected(Box::new(HostInfo {
            client_id: "me".to_owned(),
            triggers: vec!["@".to_owned(), "/".to_owned()],
        })));
        self.state(
            "ahp-root://",
            json!({ "agents": [
                { "provider": "tour", "displayName": "Tour guide", "description": "Shows everything.", "models": [] },
                { "provider": "coder", "displayName": "Coder", "description": "Writes code.", "models": [
                    { "id": "big", "provider": "coder", "name": "Big" },
                ] },
            ] }),
        );
    }

    pub(crate) fn event(&mut self, event: Event) {
        let effects = self.app.update(self.now, event);
        self.effects.extend(effects);
    }

    pub(crate) fn link(&mut self, event: LinkEvent) {
        self.event(Event::Link(event));
    }

    pub(crate) fn state(&mut self, uri: &str, state: Value) {
        let snapshot: Snapshot =
            serde_json::from_value(json!({ "resource": uri, "state": state, "fromSeq": self.seq })).expect("valid");
        self.link(LinkEvent::State(Box::new(snapshot)));
    }

    pub(crate) fn action(&mut self, uri: &str, action: Value) {
        self.seq += 1;
        let envelope: ActionEnvelope =
            serde_json::from_value(json!({ "channel": uri, "action": action, "serverSeq": self.seq })).expect("valid");
        self.link(LinkEvent::Action(Box::new(envelope)));
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.event(Event::Tick);
    }

    /// Presses keys, such as `ctrl+p down enter`.
    pub(crate) fn keys(&mut self, keys: &str) {
        for key in keys.split_whitespace() {
            let (modifiers, name) = match key.split_once('+') {
                Some(("ctrl", name)) => (KeyModifiers::CONTROL, name),
                Some(("alt", name)) => (KeyModifiers::ALT, name),
                _ => (KeyModifiers::NONE, key),
            };
            let code = match name {
                "enter" => KeyCode::Enter,
                "esc" => KeyCode::Esc,
                "tab" => KeyCode::Tab,
                "up" => KeyCode::Up,
                "down" => KeyCode::Down,
                "pageup" => KeyCode::PageUp,
                "f1" => KeyCode::F(1),
                "space" => KeyCode::Char(' '),
                name => KeyCode::Char(name.chars().next().expect("valid")),
            };
            self.event(Event::Key(KeyEvent::new(code, modifiers)));
        }
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
        }
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("valid");
        terminal.draw(|frame| view::draw(&mut self.app, frame)).expect("valid");
        terminal.backend().buffer().clone()
    }

    /// Draws a frame and returns its text.
    pub(crate) fn screen(&mut self, width: u16, height: u16) -> String {
        let buffer = self.draw(width, height);
        let rows = (0..height).map(|row| {
            let mut line = String::new();
            let mut column = 0;
            while column < width {
                let symbol = buffer[(column, row)].symbol();
                line.push_str(symbol);
                // The cell behind a wide character is not visible.
                column += u16::try_from(symbol.width()).expect("valid").max(1);
            }
            line.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    /// Returns the actions that were dispatched since the last look, with their channels.
    pub(crate) fn dispatched(&mut self) -> Vec<(String, Value)> {
        let effects = std::mem::take(&mut self.effects).into_iter();
        effects
            .filter_map(|effect| match effect {
                Effect::Dispatch(_, channel, action) => {
                    Some((channel, serde_json::to_value::<StateAction>(*action).expect("valid")))
                }
                _ => None,
            })
            .filter(|(_, action)| {
                !["session/isReadChanged", "chat/draftChanged"].contains(&action["type"].as_str().expect("valid"))
            })
            .collect()
    }

    /// Returns the requests that were sent since the last look.
    pub(crate) fn requested(&mut self) -> Vec<(&'static str, Value)> {
        let effects = std::mem::take(&mut self.effects).into_iter();
        effects
            .filter_map(|effect| match effect {
                Effect::Request(_, method, params) => Some((method, params)),
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn summary(uri: &str, title: &str, status: u32, directory: &str) -> ahp_types::state::SessionSummary {
    serde_json::from_value(json!({
        "provider": "tour", "title": title, "status": status, "resource": uri,
        "createdAt": "2026-01-02T09:00:00Z", "modifiedAt": "2026-01-02T09:58:00Z",
        "workingDirectories": [directory],
    }))
    .expect("valid")
}

pub(crate) fn session(input_needed: Value) -> Value {
    json!({
        "provider": "tour", "title": "Fix the parser", "status": 33, "lifecycle": "ready", "activeClients": [],
        "workingDirectories": ["file:///srv/ada/inn"], "defaultChat": CHAT, "inputNeeded": input_needed,
        "chats": [{ "resource": CHAT, "title": "", "status": 33, "modifiedAt": "2026-01-02T09:58:00Z" }],
    })
}

pub(crate) fn empty_chat() -> Value {
    json!({
        "resource": CHAT, "title": "", "status": 1, "modifiedAt": "2026-01-02T09:58:00Z", "turns": [],
    })
}

/// A chat with a finished turn that has Markdown, reasoning, calls and usage.
pub(crate) fn busy_chat() -> Value {
    let mut chat = empty_chat();
    chat["turns"] = json!([{
        "id": "t1", "startedAt": "2026-01-02T09:57:00Z", "duration": 12_300, "state": "complete",
        "message": { "text": "why does the parser test fail?", "origin": { "kind": "user" } },
        "usage": { "inputTokens": 1200, "outputTokens": 300, "model": "big", "cacheReadTokens": 800 },
        "responseParts": [
            { "kind": "reasoning", "id": "r", "content": "The test expects a list.\nLet me look." },
            { "kind": "toolCall", "toolCall": {
                "status": "completed", "toolCallId": "c1", "toolName": "run_command", "displayName": "Run a command",
                "invocationMessage": "Runs `cargo test`", "success": false, "pastTenseMessage": "Ran `cargo test`",
                "confirmed": "not-needed", "toolInput": "{\"command\":\"cargo test\"}",
                "content": [{ "type": "text", "text": "running 2 tests\n\u{1b}[31mFAILED\u{1b}[0m parser\n" }],
                "error": { "message": "exit code 101" },
            } },
            { "kind": "toolCall", "toolCall": {
                "status": "completed", "toolCallId": "c2", "toolName": "edit_file", "displayName": "Edit a file",
                "invocationMessage": "Edits `calc.py`", "success": true, "pastTenseMessage": "Edited `calc.py`",
                "confirmed": "user-action",
                "content": [{ "type": "fileEdit", "diff": { "added": 1, "removed": 1 },
                    "before": side("a = 1\nb = 2\n"), "after": side("a = 1\nb = 3\n") }],
            } },
            { "kind": "markdown", "id": "m", "content":
                "## Fixed\n\nThe parser now returns a **list**:\n\n```python\ndef parse(text):\n    return [1]  # always\n```\n\n| test | before | now |\n|---|---|---|\n| parser | fails | passes |\n\n- [x] fixed\n- [ ] documented\n" },
        ],
    }]);
    chat
}

pub(crate) fn side(text: &str) -> Value {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(text);
    json!({ "uri": "file:///srv/ada/inn/calc.py", "content": { "uri": format!("data:text/plain;base64,{data}") } })
}

/// A request for an approval in a chat.
pub(crate) fn approval(chat: &str) -> Value {
    json!({
        "kind": "toolConfirmation", "id": format!("{chat}#tool/c9"), "chat": chat, "turnId": "t2",
        "toolCall": {
            "status": "pending-confirmation", "toolCallId": "c9", "toolName": "run_command",
            "displayName": "Run a command", "invocationMessage": "Runs `rm -rf target`", "editable": true,
            "toolInput": "{\"command\":\"rm -rf target\"}",
            "options": [
                { "id": "allow-once", "label": "Allow once", "kind": "approve" },
                { "id": "allow-session", "label": "Allow `rm -rf target` in this session", "kind": "approve" },
                { "id": "deny", "label": "Deny", "kind": "deny" },
            ],
        },
    })
}

/// Compares a screen with the one on record. With `INNKEEPER_RECORD_SCREENS`, records it instead.
#[track_caller]
pub(crate) fn assert_screen(name: &str, screen: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/screens")
        .join(format!("{name}.txt"));
    let screen = format!("{screen}\n");
    if std::env::var_os("INNKEEPER_RECORD_SCREENS").is_some() {
        return std::fs::write(path, screen).expect("valid");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        screen == expected,
        "{name} looks different:\n{screen}\ninstead of:\n{expected}"
    );
}
