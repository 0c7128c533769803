//! Keys, pasted text and the mouse.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::commands::{Command, command_of};
use super::dialog::Dialog;
use super::messages::Delivery;
use super::prompt::{Answer, Prompt};
use super::{App, Focus};

/// Lines that a turn of the mouse wheel scrolls.
const WHEEL: isize = 3;

impl App {
    pub(super) fn handle_key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        if self.dialog.is_some() {
            return self.handle_dialog_key(key);
        }
        if self.focus == Focus::Prompt && self.handle_prompt_key(key) {
            return;
        }
        if self.focus != Focus::Prompt && self.completion.is_some() && self.handle_completion_key(key) {
            return;
        }
        match key.code {
            KeyCode::Char('d') if key.modifiers == KeyModifiers::CONTROL && !self.has_text() => {
                return self.run_command(Command::Quit);
            }
            KeyCode::Char('?') if !self.has_text() && key.modifiers - KeyModifiers::SHIFT == KeyModifiers::NONE => {
                return self.run_command(Command::Help);
            }
            KeyCode::PageUp => {
                self.transcript.page(-1);
                return self.load_older();
            }
            KeyCode::PageDown => return self.transcript.page(1),
            KeyCode::Tab => return self.step_focus(1),
            KeyCode::BackTab => return self.step_focus(-1),
            _ => {}
        }
        if let Some(command) = command_of(key) {
            return self.run_command(command);
        }
        match self.focus {
            Focus::Composer => self.handle_composer_key(key),
            Focus::Transcript => self.handle_transcript_key(key),
            Focus::Sessions => self.handle_sessions_key(key),
            Focus::Prompt => {}
        }
    }

    fn step_focus(&mut self, forward: isize) {
        let mut order = vec![Focus::Composer];
        if self.prompt.is_some() {
            order.insert(0, Focus::Prompt);
        }
        order.push(Focus::Transcript);
        if !self.sidebar.is_hidden {
            order.push(Focus::Sessions);
        }
        let position = order.iter().position(|focus| *focus == self.focus).unwrap_or(0);
        let count = isize::try_from(order.len()).unwrap_or(1);
        let next = (isize::try_from(position).unwrap_or(0) + forward).rem_euclid(count);
        self.focus = usize::try_from(next)
            .ok()
            .and_then(|next| order.get(next).copied())
            .unwrap_or(Focus::Composer);
        match self.focus {
            Focus::Transcript if self.transcript.selected_block().is_none() => self.transcript.step(0),
            Focus::Sessions if self.sidebar.cursor.is_none() => self.move_cursor(0),
            _ => {}
        }
    }

    fn handle_composer_key(&mut self, key: KeyEvent) {
        let width = self.composer_width();
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Enter if alt || shift => self.composer().editor.insert("\n"),
            KeyCode::Char('j') if control => self.composer().editor.insert("\n"),
            KeyCode::Enter => self.send_message(Delivery::Queued),
            KeyCode::Up => {
                let history = self.history.clone();
                let composer = self.composer();
                let _ = composer.editor.move_vertically(-1, width) || composer.older(&history);
            }
            KeyCode::Down => {
                let history = self.history.clone();
                let composer = self.composer();
                let _ = composer.editor.move_vertically(1, width) || composer.newer(&history);
            }
            _ => {
                if self.composer().editor.handle(key) {
                    self.request_completions();
                }
            }
        }
    }

    fn handle_completion_key(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Up => self.step_completion(-1),
            KeyCode::Down => self.step_completion(1),
            KeyCode::Tab => self.accept_completion(),
            // A command that is written out is sent; only an unfinished word is completed.
            KeyCode::Enter if key.modifiers.is_empty() => {
                let text = self.composer().editor.text().trim_end().to_owned();
                let is_written = self.completion.as_ref().is_some_and(|completion| {
                    let mut items = completion.items.iter();
                    items.any(|item| text.ends_with(item.insert_text.trim_end()))
                });
                if is_written {
                    self.completion = None;
                    return false;
                }
                self.accept_completion();
            }
            KeyCode::Esc => self.completion = None,
            _ => return false,
        }
        true
    }

    fn handle_transcript_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.transcript.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.transcript.step(1),
            KeyCode::Home | KeyCode::Char('g') => {
                self.transcript.top = Some(0);
                self.load_older();
            }
            KeyCode::End | KeyCode::Char('G') => self.transcript.follow(),
            KeyCode::Enter | KeyCode::Char(' ') => {
                if let Some(block) = self.transcript.selected_block() {
                    let id = block.id.clone();
                    self.transcript.toggle(&id);
                }
            }
            KeyCode::Char('o') => self.open_target(),
            KeyCode::Esc => {
                self.transcript.selected = None;
                self.transcript.follow();
                self.focus = Focus::Composer;
            }
            KeyCode::Char(_) => {
                // The user writes a message.
                self.focus = Focus::Composer;
                self.handle_composer_key(key);
            }
            _ => {}
        }
    }

    /// Opens the subagent or terminal of the selected block.
    fn open_target(&mut self) {
        let target = self.transcript.selected_block().and_then(|block| block.target.clone());
        match target {
            Some(uri) if uri.starts_with("ahp-terminal:") => self.open_terminal(&uri),
            Some(uri) => self.open_chat(uri),
            None => self.tell("This leads to no subagent and no terminal."),
        }
    }

    fn handle_sessions_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.move_cursor(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_cursor(1),
            KeyCode::Home => self.move_cursor(isize::MIN / 2),
            KeyCode::End => self.move_cursor(isize::MAX / 2),
            KeyCode::Enter => {
                if let Some(uri) = self.sidebar.cursor.clone() {
                    self.open_session(&uri);
                }
            }
            KeyCode::Delete => self.run_command(Command::Delete),
            KeyCode::Char('a') => self.run_command(Command::Archive),
            KeyCode::Char('/') => self.run_command(Command::FilterList),
            KeyCode::Esc => self.focus = Focus::Composer,
            _ => {}
        }
    }

    pub(super) fn handle_paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let one_line = text.replace('\n', " ");
        match &mut self.dialog {
            Some(Dialog::Picker(picker)) => return picker.filter.insert(&one_line),
            Some(Dialog::Input(input)) => return input.editor.insert(&one_line),
            Some(Dialog::NewSession(form)) => return form.directory.insert(one_line.trim()),
            Some(_) => return,
            None => {}
        }
        if let (
            Focus::Prompt,
            Some(Prompt {
                answer: Answer::SignIn(token),
                ..
            }),
        ) = (self.focus, &mut self.prompt)
        {
            return token.insert(text.trim());
        }
        if let (
            Focus::Prompt,
            Some(Prompt {
                answer:
                    Answer::Decision {
                        remark: Some(editor), ..
                    }
                    | Answer::Decision {
                        input: Some(editor), ..
                    },
                ..
            }),
        ) = (self.focus, &mut self.prompt)
        {
            return editor.insert(&text);
        }
        self.focus = Focus::Composer;
        self.composer().editor.insert(&text);
    }

    pub(super) fn handle_mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollUp => {
                self.transcript.scroll(-WHEEL);
                self.load_older();
            }
            MouseEventKind::ScrollDown => self.transcript.scroll(WHEEL),
            MouseEventKind::Down(MouseButton::Left) => {
                let row = usize::from(mouse.row);
                let is_in_list = !self.sidebar.is_hidden && usize::from(mouse.column) < self.sidebar.width;
                let session = self.sidebar.drawn.get(row).cloned().flatten();
                match session.filter(|_| is_in_list && self.dialog.is_none()) {
                    Some(uri) => self.open_session(&uri),
                    None => return,
                }
            }
            _ => return,
        }
        self.is_dirty = true;
    }
}
