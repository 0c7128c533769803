//! The commands with their keys. The palette, the help and the keyboard use this one table.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::dialog::{Confirmed, Dialog, Input, InputPurpose};
use super::editor::Editor;
use super::messages::Delivery;
use super::{App, Focus};
use crate::event::{Effect, Outside};

/// Something that the user can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Palette,
    NewSession,
    NextWaiting,
    Answer,
    Steer,
    Cancel,
    Resume,
    Queue,
    Details,
    HideList,
    PreviousSession,
    NextSession,
    FindSession,
    FilterList,
    Chats,
    Fork,
    SideChat,
    Truncate,
    Rename,
    Archive,
    ShowArchived,
    Delete,
    UndoDelete,
    Model,
    CustomAgent,
    Settings,
    Customizations,
    Servers,
    Changes,
    Terminals,
    Attach,
    DropAttachments,
    Editor,
    ConnectNow,
    Quit,
}

/// A command as the palette and the help show it.
pub(crate) struct CommandInfo {
    pub(crate) command: Command,
    pub(crate) name: &'static str,
    /// The keys in words, or nothing.
    pub(crate) keys: &'static str,
    key: Option<(KeyModifiers, KeyCode)>,
    pub(crate) in_palette: bool,
}

const fn entry(command: Command, name: &'static str) -> CommandInfo {
    CommandInfo {
        command,
        name,
        keys: "",
        key: None,
        in_palette: true,
    }
}

const fn control(command: Command, c: char, keys: &'static str, name: &'static str) -> CommandInfo {
    CommandInfo {
        command,
        name,
        keys,
        key: Some((KeyModifiers::CONTROL, KeyCode::Char(c))),
        in_palette: true,
    }
}

const fn with_key(
    command: Command,
    modifiers: KeyModifiers,
    code: KeyCode,
    keys: &'static str,
    name: &'static str,
) -> CommandInfo {
    CommandInfo {
        command,
        name,
        keys,
        key: Some((modifiers, code)),
        in_palette: true,
    }
}

/// All commands. Keys avoid Ctrl+A and Ctrl+B, which screen and tmux take for themselves.
pub(crate) const COMMANDS: &[CommandInfo] = &[
    with_key(
        Command::Help,
        KeyModifiers::NONE,
        KeyCode::F(1),
        "F1 or ?",
        "Show all keys",
    ),
    CommandInfo {
        in_palette: false,
        ..control(Command::Palette, 'p', "Ctrl+P", "Open the command palette")
    },
    control(Command::NewSession, 'n', "Ctrl+N", "New session"),
    control(
        Command::NextWaiting,
        'g',
        "Ctrl+G",
        "Jump to the next session that waits for you",
    ),
    control(Command::Answer, 'y', "Ctrl+Y", "Answer what waits in this session"),
    control(
        Command::Steer,
        's',
        "Ctrl+S",
        "Send the message into the running turn (steer)",
    ),
    control(Command::Cancel, 'c', "Ctrl+C", "Cancel the running turn"),
    control(Command::Resume, 'r', "Ctrl+R", "Resume the failed turn"),
    entry(Command::Queue, "Edit or reorder queued messages"),
    control(
        Command::Details,
        'o',
        "Ctrl+O",
        "Show or hide all details of tool calls and reasoning",
    ),
    control(Command::HideList, 'l', "Ctrl+L", "Hide or show the list of sessions"),
    with_key(
        Command::PreviousSession,
        KeyModifiers::ALT,
        KeyCode::Up,
        "Alt+Up",
        "Previous session",
    ),
    with_key(
        Command::NextSession,
        KeyModifiers::ALT,
        KeyCode::Down,
        "Alt+Down",
        "Next session",
    ),
    control(
        Command::FindSession,
        'f',
        "Ctrl+F",
        "Find a session by its title or directory",
    ),
    entry(Command::FilterList, "Filter the list of sessions"),
    control(Command::Chats, 't', "Ctrl+T", "Chats and subagents of this session"),
    entry(Command::Fork, "Fork the chat at the selected turn"),
    entry(Command::SideChat, "Open a side chat"),
    entry(Command::Truncate, "Remove the turns after the selected one"),
    with_key(
        Command::Rename,
        KeyModifiers::NONE,
        KeyCode::F(2),
        "F2",
        "Rename the session",
    ),
    entry(Command::Archive, "Archive the session, or bring it back"),
    entry(Command::ShowArchived, "Show archived sessions, or hide them"),
    entry(Command::Delete, "Delete the session"),
    entry(Command::UndoDelete, "Undo the last deletion"),
    with_key(
        Command::Changes,
        KeyModifiers::NONE,
        KeyCode::F(3),
        "F3",
        "Changed files, commit",
    ),
    with_key(
        Command::Terminals,
        KeyModifiers::NONE,
        KeyCode::F(4),
        "F4",
        "Terminals of the host",
    ),
    with_key(
        Command::Model,
        KeyModifiers::NONE,
        KeyCode::F(5),
        "F5",
        "Choose the model",
    ),
    with_key(
        Command::Settings,
        KeyModifiers::NONE,
        KeyCode::F(6),
        "F6",
        "Settings of the session, approval mode",
    ),
    entry(Command::CustomAgent, "Choose a custom agent"),
    entry(Command::Customizations, "Switch customizations on and off"),
    entry(Command::Servers, "MCP servers: start, stop, sign in"),
    entry(Command::Attach, "Attach a file"),
    entry(Command::DropAttachments, "Remove all attachments"),
    control(Command::Editor, 'x', "Ctrl+X", "Write the message in $EDITOR"),
    entry(Command::ConnectNow, "Connect now, and start a host if none runs"),
    control(Command::Quit, 'q', "Ctrl+Q", "Quit; the host and all turns go on"),
];

/// Keys of the parts of the screen, for the help.
pub(crate) const OTHER_KEYS: &[(&str, &str)] = &[
    ("Enter", "Send the message; queue it while a turn runs"),
    ("Alt+Enter, Ctrl+J", "New line"),
    ("Up, Down", "Move; at the first and last line: earlier messages"),
    ("@, /", "Complete files and commands; Tab or Enter accepts"),
    ("Tab, Shift+Tab", "Move between message, chat and sessions"),
    ("PgUp, PgDn", "Scroll the chat"),
    ("In the chat: Up, Down", "Select a tool call, subagent or thought"),
    (
        "In the chat: Enter",
        "Show or hide its details; open its subagent or terminal with o",
    ),
    ("In the list: Enter", "Open the session"),
    ("Approval: 1–9, Enter", "Choose an option"),
    ("Approval: r, e", "Deny with a remark; edit the input and allow"),
    ("Form: Tab, Space, Enter", "Next question; choose; continue and submit"),
    ("Form: Ctrl+S, Ctrl+X", "Submit; decline"),
    ("Esc", "Close a window, leave an approval or form for later"),
];

/// Returns the command of a key.
pub(super) fn command_of(key: KeyEvent) -> Option<Command> {
    let wanted = (key.modifiers - KeyModifiers::SHIFT, key.code);
    let info = COMMANDS.iter().find(|info| info.key == Some(wanted));
    info.map(|info| info.command)
}

impl App {
    /// Does what a command says.
    pub(crate) fn run_command(&mut self, command: Command) {
        match command {
            Command::Help => self.dialog = Some(Dialog::Help { scroll: 0 }),
            Command::Palette => self.open_palette(),
            Command::NewSession => self.open_new_session(),
            Command::NextWaiting => self.jump_to_waiting(),
            Command::Answer => match self.prompt.is_some() {
                true => self.focus = Focus::Prompt,
                false => self.tell("Nothing waits in this session."),
            },
            Command::Steer => self.send_message(Delivery::Steering),
            Command::Cancel => self.cancel_or_clear(),
            Command::Resume => self.resume_turn(),
            Command::Queue => self.open_queue(),
            Command::Details => self.transcript.toggle_all(),
            Command::HideList => self.sidebar.is_hidden = !self.sidebar.is_hidden,
            Command::PreviousSession => self.step_session(-1),
            Command::NextSession => self.step_session(1),
            Command::FindSession => self.open_sessions(),
            Command::FilterList => {
                let filter = self.sidebar.filter.clone();
                self.ask_for("Show only sessions with this text", filter, InputPurpose::Filter);
            }
            Command::Chats => self.open_chats(),
            Command::Fork => self.fork_chat(),
            Command::SideChat => self.open_side_chat(),
            Command::Truncate => {
                self.dialog = Some(Dialog::Confirm {
                    question: "Remove all turns after the selected one?".to_owned(),
                    then: Confirmed::Truncate,
                });
            }
            Command::Rename => match self.session() {
                Some(session) => {
                    let title = session.title.clone();
                    self.ask_for("Title of the session", title, InputPurpose::Title);
                }
                None => self.tell("A new session gets its title from the first message."),
            },
            Command::Archive => self.toggle_archived(),
            Command::ShowArchived => self.sidebar.shows_archived = !self.sidebar.shows_archived,
            Command::Delete => self.confirm_delete(),
            Command::UndoDelete => self.undo_delete(),
            Command::Model => self.open_models(),
            Command::CustomAgent => self.open_custom_agents(),
            Command::Settings => self.open_settings(),
            Command::Customizations => self.open_customizations(),
            Command::Servers => self.open_servers(),
            Command::Changes => self.open_changes(),
            Command::Terminals => self.open_terminals(),
            Command::Attach => self.ask_for("File to attach", String::new(), InputPurpose::Attachment),
            Command::DropAttachments => self.composer().attachments.clear(),
            Command::Editor => {
                let text = self.composer().editor.text().to_owned();
                self.effects.push(Effect::Outside(Outside::Editor(text)));
            }
            Command::ConnectNow => self.effects.push(Effect::ConnectNow),
            Command::Quit => self.effects.push(Effect::Quit),
        }
    }

    fn ask_for(&mut self, title: &str, text: String, purpose: InputPurpose) {
        self.dialog = Some(Dialog::Input(Input {
            title: title.to_owned(),
            editor: Editor::new(text),
            purpose,
        }));
    }

    fn confirm_delete(&mut self) {
        let Some(uri) = self.target_session() else {
            return self.tell("There is no session to delete.");
        };
        let title = self.mirror.summaries.get(&uri).map(|summary| summary.title.clone());
        self.dialog = Some(Dialog::Confirm {
            question: format!(
                "Delete “{}”? It can be brought back for a while.",
                title.unwrap_or_default()
            ),
            then: Confirmed::Delete(uri),
        });
    }

    /// Ctrl+C: clears the message, else cancels the turn, else says how to quit.
    fn cancel_or_clear(&mut self) {
        if self.has_text() {
            let text = self.composer().editor.take();
            self.history.push(&text);
            self.tell("Cleared; Up brings it back.");
        } else if self.chat().is_some_and(|chat| chat.active_turn.is_some()) {
            self.cancel_turn();
        } else {
            self.tell("Ctrl+Q quits. The host and all turns go on.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_command() {
        for (index, info) in COMMANDS.iter().enumerate() {
            assert_eq!(info.key.is_none(), info.keys.is_empty(), "{}", info.name);
            let same = COMMANDS
                .iter()
                .skip(index + 1)
                .find(|other| info.key.is_some() && other.key == info.key);
            assert!(same.is_none(), "{}", info.name);
        }
    }
}
