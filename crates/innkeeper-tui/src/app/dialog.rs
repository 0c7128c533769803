//! Windows above the chat: lists to pick from, one-line inputs, confirmations, help, changes and terminals.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::App;
use super::changes::ChosenOperation;
use super::commands::Command;
use super::editor::Editor;

/// The open window.
#[derive(Debug)]
pub(crate) enum Dialog {
    /// All keys.
    Help { scroll: usize },
    /// A list with a filter.
    Picker(Picker),
    /// One line of text.
    Input(Input),
    /// A question with yes or no.
    Confirm { question: String, then: Confirmed },
    /// The agent and directory of the next session.
    NewSession(NewSession),
    /// Changed files.
    Changes(Changes),
    /// A terminal of the host.
    Terminal(String),
}

/// A list with a filter.
#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) title: String,
    pub(crate) filter: Editor,
    pub(crate) items: Vec<Item>,
    pub(crate) cursor: usize,
}

/// A row of a list.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) label: String,
    pub(crate) detail: String,
    pub(crate) value: Picked,
}

/// The meaning of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Picked {
    Command(Command),
    Model(Option<String>),
    CustomAgent(Option<String>),
    Chat(String),
    Setting(String),
    SettingValue(String, Value),
    Customization { id: String, enable: bool },
    Server(String),
    Terminal(String),
    NewTerminal,
    Queued(String),
    Front(String),
    Operation(ChosenOperation),
    Session(String),
}

/// The purpose of a line of text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InputPurpose {
    Title,
    Setting(String),
    Attachment,
    Filter,
    CommitMessage(ChosenOperation),
}

/// One line of text.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) title: String,
    pub(crate) editor: Editor,
    pub(crate) purpose: InputPurpose,
}

/// The consequence of a yes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Confirmed {
    Delete(String),
    Truncate,
    Operation(ChosenOperation),
}

/// The agent and directory of the next session.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) agents: Vec<(String, String)>,
    pub(crate) agent: usize,
    pub(crate) directory: Editor,
    pub(crate) in_directory: bool,
}

/// Changed files.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The channel of the changes.
    pub(crate) uri: String,
    pub(crate) views: Vec<(String, String)>,
    pub(crate) cursor: usize,
    pub(crate) scroll: usize,
}

impl Picker {
    /// Creates a list.
    pub(crate) fn new(title: impl Into<String>, items: Vec<Item>) -> Self {
        Self {
            title: title.into(),
            filter: Editor::default(),
            items,
            cursor: 0,
        }
    }

    /// Returns the rows that contain all words of the filter.
    pub(crate) fn visible(&self) -> Vec<&Item> {
        let filter = self.filter.text().to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let contains = |item: &&Item| {
            let text = format!("{} {}", item.label, item.detail).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.items.iter().filter(contains).collect()
    }
}

impl App {
    /// Handles a key while a window is open.
    pub(super) fn handle_dialog_key(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if key.code == KeyCode::Esc || (control && key.code == KeyCode::Char('c')) {
            return self.close_dialog();
        }
        match self.dialog.take() {
            Some(Dialog::Help { scroll }) => {
                self.dialog = match key.code {
                    KeyCode::Down | KeyCode::PageDown | KeyCode::Char(' ') => Some(Dialog::Help { scroll: scroll + 5 }),
                    KeyCode::Up | KeyCode::PageUp => Some(Dialog::Help {
                        scroll: scroll.saturating_sub(5),
                    }),
                    _ => None,
                };
            }
            Some(Dialog::Picker(picker)) => self.handle_picker_key(picker, key),
            Some(Dialog::Input(mut input)) => match key.code {
                KeyCode::Enter => self.take_input(input.purpose, input.editor.text().to_owned()),
                _ => {
                    input.editor.handle(key);
                    self.dialog = Some(Dialog::Input(input));
                }
            },
            Some(Dialog::Confirm { question, then }) => match key.code {
                KeyCode::Char('y' | 'Y') | KeyCode::Enter => self.take_confirmed(then),
                KeyCode::Char('n' | 'N') => {}
                _ => self.dialog = Some(Dialog::Confirm { question, then }),
            },
            Some(Dialog::NewSession(form)) => self.handle_new_session_key(form, key),
            Some(Dialog::Changes(changes)) => self.handle_changes_key(changes, key),
            Some(Dialog::Terminal(uri)) => match key.code {
                KeyCode::Enter => {
                    self.dialog = Some(Dialog::Terminal(uri.clone()));
                    self.attach_terminal(&uri);
                }
                _ => self.dialog = Some(Dialog::Terminal(uri)),
            },
            None => {}
        }
    }

    /// Closes the window.
    pub(crate) fn close_dialog(&mut self) {
        if let Some(Dialog::Terminal(uri)) = self.dialog.take() {
            self.unsubscribe(&uri);
        }
    }

    fn handle_picker_key(&mut self, mut picker: Picker, key: KeyEvent) {
        let last = picker.visible().len().saturating_sub(1);
        match key.code {
            KeyCode::Enter => {
                let picked = picker.visible().get(picker.cursor).map(|item| item.value.clone());
                if let Some(picked) = picked {
                    self.take_picked(picked);
                }
                return;
            }
            KeyCode::Up => picker.cursor = picker.cursor.saturating_sub(1),
            KeyCode::Down => picker.cursor = (picker.cursor + 1).min(last),
            KeyCode::PageUp => picker.cursor = picker.cursor.saturating_sub(8),
            KeyCode::PageDown => picker.cursor = (picker.cursor + 8).min(last),
            _ => {
                if picker.filter.handle(key) {
                    picker.cursor = 0;
                }
            }
        }
        self.dialog = Some(Dialog::Picker(picker));
    }

    fn handle_new_session_key(&mut self, mut form: NewSession, key: KeyEvent) {
        match key.code {
            KeyCode::Tab | KeyCode::BackTab => form.in_directory = !form.in_directory,
            KeyCode::Enter => {
                self.provider = form.agents.get(form.agent).map(|(provider, _)| provider.clone());
                let directory = form.directory.text().trim().to_owned();
                self.setup.directory = (!directory.is_empty()).then(|| self.expanded(&directory));
                return self.select_new();
            }
            KeyCode::Up if form.in_directory => form.in_directory = false,
            KeyCode::Up => form.agent = form.agent.saturating_sub(1),
            KeyCode::Down if form.agent + 1 < form.agents.len() && !form.in_directory => form.agent += 1,
            KeyCode::Down => form.in_directory = true,
            _ if form.in_directory => drop(form.directory.handle(key)),
            _ => {}
        }
        self.dialog = Some(Dialog::NewSession(form));
    }

    fn handle_changes_key(&mut self, mut changes: Changes, key: KeyEvent) {
        let count = self
            .mirror
            .changesets
            .get(&changes.uri)
            .map_or(0, |state| state.files.len());
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => {
                changes.cursor = changes.cursor.saturating_sub(1);
                changes.scroll = 0;
            }
            KeyCode::Down | KeyCode::Char('j') => {
                changes.cursor = (changes.cursor + 1).min(count.saturating_sub(1));
                changes.scroll = 0;
            }
            KeyCode::PageUp => changes.scroll = changes.scroll.saturating_sub(10),
            KeyCode::PageDown | KeyCode::Char(' ') => changes.scroll += 10,
            KeyCode::Tab => {
                let at = changes
                    .views
                    .iter()
                    .position(|(uri, _)| *uri == changes.uri)
                    .unwrap_or(0);
                if let Some((next, _)) = changes.views.get((at + 1) % changes.views.len().max(1)) {
                    changes.uri = next.clone();
                    changes.cursor = 0;
                    changes.scroll = 0;
                }
            }
            KeyCode::Enter | KeyCode::Char('o') => return self.open_operations(&changes),
            _ => {}
        }
        self.dialog = Some(Dialog::Changes(changes));
    }
}
