//! The lists: what they contain, and what follows from a choice.

use ahp_types::actions::{
    SessionConfigChangedAction, SessionCustomizationToggledAction, SessionMcpServerStartRequestedAction,
    SessionMcpServerStopRequestedAction, StateAction,
};
use ahp_types::state::{
    ChildCustomization, Customization, CustomizationEnablement, McpServerCustomization, McpServerState,
    MessageAttachment, MessageEmbeddedResourceAttachment, SessionConfigPropertySchema, TerminalLifecycleState,
};
use serde_json::{Map, Value, json};

use super::commands::COMMANDS;
use super::dialog::{Confirmed, Dialog, Input, InputPurpose, Item, NewSession, Picked, Picker};
use super::editor::Editor;
use super::sidebar::{Sign, sign};
use super::{App, Purpose, chats};
use crate::event::{Effect, Outside};
use crate::text::path_of;

/// Sessions that the list of matches shows.
const MAX_MATCHES: usize = 200;

pub(super) fn item(label: impl Into<String>, detail: impl Into<String>, value: Picked) -> Item {
    Item {
        label: label.into(),
        detail: detail.into(),
        value,
    }
}

impl App {
    pub(super) fn pick(&mut self, title: &str, items: Vec<Item>, if_empty: &str) {
        match items.is_empty() {
            true => self.tell(if_empty),
            false => self.dialog = Some(Dialog::Picker(Picker::new(title, items))),
        }
    }

    /// Opens the list of commands.
    pub(crate) fn open_palette(&mut self) {
        let commands = COMMANDS.iter().filter(|info| info.in_palette);
        let items = commands
            .map(|info| item(info.name, info.keys, Picked::Command(info.command)))
            .collect();
        self.pick("Commands", items, "");
    }

    /// Opens the form of a new session.
    pub(crate) fn open_new_session(&mut self) {
        let agents = self
            .mirror
            .root
            .as_ref()
            .map(|root| root.agents.as_slice())
            .unwrap_or_default();
        let agents: Vec<(String, String)> = agents
            .iter()
            .map(|agent| {
                (
                    agent.provider.clone(),
                    format!("{} — {}", agent.display_name, agent.description),
                )
            })
            .collect();
        let current = agents
            .iter()
            .position(|(provider, _)| Some(provider) == self.provider.as_ref());
        self.dialog = Some(Dialog::NewSession(NewSession {
            agents,
            agent: current.unwrap_or(0),
            directory: Editor::new(self.new_directory().unwrap_or_default()),
            in_directory: false,
        }));
    }

    /// Returns the directory of the next session.
    pub(crate) fn new_directory(&self) -> Option<String> {
        self.setup.directory.clone()
    }

    /// Writes the home directory out.
    pub(super) fn expanded(&self, path: &str) -> String {
        match (path.strip_prefix('~'), &self.setup.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
            _ => path.to_owned(),
        }
    }

    /// Opens the list of the agent's models.
    pub(crate) fn open_models(&mut self) {
        let provider = match self.session() {
            Some(session) => Some(session.provider.clone()),
            None => self.provider.clone(),
        };
        let agents = self.mirror.root.iter().flat_map(|root| &root.agents);
        let agent = agents
            .into_iter()
            .find(|agent| provider.as_ref().is_none_or(|provider| *provider == agent.provider));
        let models = agent.map(|agent| agent.models.as_slice()).unwrap_or_default();
        let mut items: Vec<Item> = models
            .iter()
            .map(|model| item(&model.name, &model.id, Picked::Model(Some(model.id.clone()))))
            .collect();
        if !items.is_empty() {
            items.insert(0, item("The agent's choice", "", Picked::Model(None)));
        }
        self.pick("Model of the next messages", items, "This agent has no list of models.");
    }

    /// Opens the list of custom agents.
    pub(crate) fn open_custom_agents(&mut self) {
        let mut items = Vec::new();
        for (container, child) in self.children() {
            if let ChildCustomization::Agent(agent) = child
                && agent.enabled != Some(false)
            {
                let detail = agent.description.clone().unwrap_or_else(|| container.to_owned());
                items.push(item(&agent.name, detail, Picked::CustomAgent(Some(agent.uri.clone()))));
            }
        }
        if !items.is_empty() {
            items.insert(0, item("None", "", Picked::CustomAgent(None)));
        }
        self.pick(
            "Custom agent of the next messages",
            items,
            "This session has no custom agents.",
        );
    }

    fn children(&self) -> Vec<(&str, &ChildCustomization)> {
        let containers = self
            .session()
            .into_iter()
            .flat_map(|session| session.customizations.iter().flatten());
        containers
            .flat_map(|container| match container {
                Customization::Plugin(plugin) => {
                    let children = plugin.children.iter().flatten();
                    children.map(|child| (plugin.name.as_str(), child)).collect()
                }
                Customization::Directory(directory) => {
                    let children = directory.children.iter().flatten();
                    children.map(|child| (directory.name.as_str(), child)).collect()
                }
                Customization::McpServer(_) | Customization::Unknown(_) => Vec::new(),
            })
            .collect()
    }

    /// Returns all MCP servers of the session.
    fn servers(&self) -> Vec<&McpServerCustomization> {
        let containers = self
            .session()
            .into_iter()
            .flat_map(|session| session.customizations.iter().flatten());
        let own = containers.filter_map(|container| match container {
            Customization::McpServer(server) => Some(&**server),
            _ => None,
        });
        let of_plugins = self.children().into_iter().filter_map(|(_, child)| match child {
            ChildCustomization::McpServer(server) => Some(&**server),
            _ => None,
        });
        own.chain(of_plugins).collect()
    }

    /// Opens the list of customizations, to switch them on and off in this session.
    pub(crate) fn open_customizations(&mut self) {
        let mut items = Vec::new();
        let mut add = |kind: &str, name: &str, id: &str, is_on: bool, about: Option<&String>| {
            let state = if is_on { "on " } else { "off" };
            let about = about.map(|about| format!(": {about}")).unwrap_or_default();
            let picked = Picked::Customization {
                id: id.to_owned(),
                enable: !is_on,
            };
            items.push(item(format!("{state} {name}"), format!("{kind}{about}"), picked));
        };
        let is_on = |decisions: &Option<Vec<CustomizationEnablement>>| {
            decisions.iter().flatten().all(|decision| {
                !matches!(
                    decision,
                    CustomizationEnablement::Global { enabled: false }
                        | CustomizationEnablement::Workspace { enabled: false, .. }
                        | CustomizationEnablement::Session { enabled: false }
                )
            })
        };
        let containers = self
            .session()
            .into_iter()
            .flat_map(|session| session.customizations.iter().flatten());
        for container in containers {
            match container {
                Customization::Plugin(plugin) => {
                    add("plugin", &plugin.name, &plugin.id, is_on(&plugin.enablement), None)
                }
                Customization::McpServer(server) => {
                    add("MCP server", &server.name, &server.id, is_on(&server.enablement), None);
                }
                Customization::Directory(_) | Customization::Unknown(_) => {}
            }
        }
        for (_, child) in self.children() {
            let on = |enabled: Option<bool>| enabled != Some(false);
            match child {
                ChildCustomization::Agent(c) => add("agent", &c.name, &c.id, on(c.enabled), c.description.as_ref()),
                ChildCustomization::Skill(c) => add("skill", &c.name, &c.id, on(c.enabled), c.description.as_ref()),
                ChildCustomization::Prompt(c) => add("prompt", &c.name, &c.id, on(c.enabled), c.description.as_ref()),
                ChildCustomization::Rule(c) => add("rule", &c.name, &c.id, on(c.enabled), c.description.as_ref()),
                ChildCustomization::Hook(c) => add("hook", &c.name, &c.id, on(c.enabled), None),
                ChildCustomization::McpServer(c) => add("MCP server", &c.name, &c.id, is_on(&c.enablement), None),
                ChildCustomization::Unknown(_) => {}
            }
        }
        self.pick(
            "Customizations of this session (Enter switches)",
            items,
            "This session has no customizations.",
        );
    }

    /// Opens the list of MCP servers.
    pub(crate) fn open_servers(&mut self) {
        let items = self
            .servers()
            .into_iter()
            .map(|server| {
                let state = match &server.state {
                    McpServerState::Starting(_) => "starting; Enter stops it".to_owned(),
                    McpServerState::Ready(_) => "ready; Enter stops it".to_owned(),
                    McpServerState::AuthRequired(_) => "wants you to sign in; Enter begins".to_owned(),
                    McpServerState::Error(state) => format!("failed: {}; Enter starts it", state.error.message),
                    McpServerState::Stopped(_) => "stopped; Enter starts it".to_owned(),
                    McpServerState::Unknown(_) => "in a state that this client does not know".to_owned(),
                };
                item(&server.name, state, Picked::Server(server.id.clone()))
            })
            .collect();
        self.pick("MCP servers of this session", items, "This session has no MCP servers.");
    }

    /// Opens the tree of chats.
    pub(crate) fn open_chats(&mut self) {
        let Some(session) = self.session() else {
            return self.tell("A new session has no chats yet.");
        };
        let shown = self.chat_uri();
        let items = chats::tree(session)
            .into_iter()
            .map(|branch| {
                let mark = if shown == Some(branch.chat.resource.as_str()) {
                    "● "
                } else {
                    ""
                };
                let branches = match branch.depth {
                    0 => String::new(),
                    depth => format!("{}└ ", "  ".repeat(depth - 1)),
                };
                let title = match branch.chat.title.is_empty() {
                    true => "(no title)",
                    false => &branch.chat.title,
                };
                let state = match sign(branch.chat.status) {
                    Sign::Waits => "waits for you",
                    Sign::Works => "works",
                    Sign::Failed => "failed",
                    Sign::Unread | Sign::Idle => "idle",
                };
                let activity = branch.chat.activity.as_deref().unwrap_or_default();
                item(
                    format!("{branches}{mark}{title}"),
                    format!("{state} {activity}"),
                    Picked::Chat(branch.chat.resource.clone()),
                )
            })
            .collect();
        self.pick(
            "Chats and subagents of this session",
            items,
            "This session has no chats.",
        );
    }

    /// Opens the list of sessions that match a text, the archived ones included.
    pub(crate) fn open_sessions(&mut self) {
        let mut sessions: Vec<&ahp_types::state::SessionSummary> = self.mirror.summaries.values().collect();
        sessions.sort_by(|a, b| b.modified_at.cmp(&a.modified_at));
        let items = sessions
            .into_iter()
            .take(MAX_MATCHES)
            .map(|summary| {
                item(
                    &summary.title,
                    self.directory_of(summary),
                    Picked::Session(summary.resource.clone()),
                )
            })
            .collect();
        self.pick("Sessions", items, "There are no sessions yet.");
    }

    /// Opens the list of settings of the session.
    pub(crate) fn open_settings(&mut self) {
        let Some(config) = self.session().and_then(|session| session.config.as_ref()) else {
            return self.tell("This session has no settings.");
        };
        let mut items: Vec<Item> = config
            .schema
            .properties
            .iter()
            .filter(|(_, schema)| schema.session_mutable == Some(true) && schema.read_only != Some(true))
            .map(|(name, schema)| {
                let value = config.values.get(name).or(schema.default.as_ref());
                let value = value.map(|value| labelled(schema, value)).unwrap_or_default();
                item(&schema.title, value, Picked::Setting(name.clone()))
            })
            .collect();
        items.sort_by(|a, b| a.label.cmp(&b.label));
        self.pick(
            "Settings of this session",
            items,
            "This session has no settings to change.",
        );
    }

    fn open_setting(&mut self, name: String) {
        let Some(config) = self.session().and_then(|session| session.config.as_ref()) else {
            return;
        };
        let Some(schema) = config.schema.properties.get(&name) else {
            return;
        };
        let choices: Vec<Value> = match (&schema.r#enum, schema.r#type.as_str()) {
            (Some(values), _) => values.clone(),
            (None, "boolean") => vec![json!(true), json!(false)],
            (None, _) => Vec::new(),
        };
        let title = schema.title.clone();
        if choices.is_empty() {
            let value = config.values.get(&name);
            let text = match value {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            self.dialog = Some(Dialog::Input(Input {
                title,
                editor: Editor::new(text),
                purpose: InputPurpose::Setting(name),
            }));
            return;
        }
        let items = choices
            .into_iter()
            .enumerate()
            .map(|(index, value)| {
                let about = schema
                    .enum_descriptions
                    .as_ref()
                    .and_then(|all| all.get(index))
                    .cloned();
                let label = labelled(schema, &value);
                item(
                    label,
                    about.unwrap_or_default(),
                    Picked::SettingValue(name.clone(), value),
                )
            })
            .collect();
        self.pick(&title, items, "");
    }

    fn set_setting(&mut self, name: String, value: Value) {
        let Some(session) = self.session_uri().map(str::to_owned) else {
            return;
        };
        let config = Map::from_iter([(name, value)]);
        let action = StateAction::SessionConfigChanged(SessionConfigChangedAction { config, replace: None });
        self.dispatch(Purpose::Report("Changed."), &session, action);
    }

    /// Opens the list of terminals.
    pub(crate) fn open_terminals(&mut self) {
        let terminals = self.mirror.root.iter().flat_map(|root| root.terminals.iter().flatten());
        let mut items: Vec<Item> = terminals
            .map(|terminal| {
                let state = match &terminal.lifecycle {
                    TerminalLifecycleState::Running(_) => "running".to_owned(),
                    TerminalLifecycleState::Exited(exited) => match exited.exit_code {
                        Some(code) => format!("ended with {code}"),
                        None => "ended".to_owned(),
                    },
                };
                item(&terminal.title, state, Picked::Terminal(terminal.resource.clone()))
            })
            .collect();
        items.push(item("New terminal", "a shell on the host", Picked::NewTerminal));
        self.pick("Terminals of the host", items, "");
    }

    /// Shows a terminal live.
    pub(crate) fn open_terminal(&mut self, uri: &str) {
        self.subscribe(uri);
        self.dialog = Some(Dialog::Terminal(uri.to_owned()));
    }

    /// Takes a terminal over until the user detaches.
    pub(super) fn attach_terminal(&mut self, uri: &str) {
        let command = ["terminals", "attach", uri].map(str::to_owned).to_vec();
        self.effects.push(Effect::Outside(Outside::Command(command)));
    }

    /// Opens the list of messages that wait for the turn to end.
    pub(crate) fn open_queue(&mut self) {
        let chat = self.chat();
        let queued = chat.into_iter().flat_map(|chat| chat.queued_messages.iter().flatten());
        let mut items: Vec<Item> = Vec::new();
        for (index, message) in queued.enumerate() {
            let text = &message.message.text;
            items.push(item(
                format!("Edit: {text}"),
                "takes it back",
                Picked::Queued(message.id.clone()),
            ));
            if index > 0 {
                items.push(item(
                    format!("First: {text}"),
                    "moves it to the front",
                    Picked::Front(message.id.clone()),
                ));
            }
        }
        if let Some(message) = chat.and_then(|chat| chat.steering_message.as_ref()) {
            let label = format!("Edit: {}", message.message.text);
            items.push(item(
                label,
                "takes the steering message back",
                Picked::Queued(message.id.clone()),
            ));
        }
        self.pick("Queued messages", items, "No message is queued.");
    }

    /// Does what a choice means.
    pub(super) fn take_picked(&mut self, picked: Picked) {
        let session = self.session_uri().unwrap_or_default().to_owned();
        match picked {
            Picked::Command(command) => self.run_command(command),
            Picked::Model(Some(model)) => {
                self.tell(format!("The next messages go to {model}."));
                self.models.insert(session, model);
            }
            Picked::Model(None) => drop(self.models.remove(&session)),
            Picked::CustomAgent(Some(uri)) => {
                self.tell("The next messages go to this agent.");
                self.custom_agents.insert(session, uri);
            }
            Picked::CustomAgent(None) => drop(self.custom_agents.remove(&session)),
            Picked::Chat(chat) => self.open_chat(chat),
            Picked::Session(uri) => self.open_session(&uri),
            Picked::Setting(name) => self.open_setting(name),
            Picked::SettingValue(name, value) => self.set_setting(name, value),
            Picked::Customization { id, enable } => {
                let enablement = vec![CustomizationEnablement::Session { enabled: enable }];
                let action =
                    StateAction::SessionCustomizationToggled(SessionCustomizationToggledAction { id, enablement });
                self.dispatch(Purpose::Report("Switched."), &session, action);
            }
            Picked::Server(id) => self.switch_server(&session, id),
            Picked::Terminal(uri) => self.open_terminal(&uri),
            Picked::NewTerminal => {
                let command = ["terminals", "new"].map(str::to_owned).to_vec();
                self.effects.push(Effect::Outside(Outside::Command(command)));
            }
            Picked::Queued(id) => self.take_back(&id),
            Picked::Front(id) => self.move_to_front(&id),
            Picked::Operation(operation) => self.ask_about_operation(operation),
        }
    }

    fn switch_server(&mut self, session: &str, id: String) {
        let Some((state, name)) = self
            .servers()
            .into_iter()
            .find(|server| server.id == id)
            .map(|server| (server.state.clone(), server.name.clone()))
        else {
            return;
        };
        let action = match state {
            McpServerState::Starting(_) | McpServerState::Ready(_) => {
                StateAction::SessionMcpServerStopRequested(SessionMcpServerStopRequestedAction { id })
            }
            McpServerState::Error(_) | McpServerState::Stopped(_) => {
                StateAction::SessionMcpServerStartRequested(SessionMcpServerStartRequestedAction { id })
            }
            McpServerState::AuthRequired(_) => {
                let command = ["mcp", "auth", &name, "--session", session].map(str::to_owned);
                return self.effects.push(Effect::Outside(Outside::Command(command.to_vec())));
            }
            McpServerState::Unknown(_) => return,
        };
        self.dispatch(Purpose::Report("Requested."), session, action);
    }

    /// Takes a line of text.
    pub(super) fn take_input(&mut self, purpose: InputPurpose, text: String) {
        match purpose {
            InputPurpose::Title => self.rename_session(&text),
            InputPurpose::Filter => self.sidebar.filter = text,
            InputPurpose::Attachment => {
                let path = self.expanded(text.trim());
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                let base = self.setup.directory.clone().unwrap_or_default();
                let path = std::path::Path::new(&base).join(path);
                let ticket = self.ticket(Purpose::Attach(name));
                self.effects.push(Effect::ReadFile(ticket, path));
            }
            InputPurpose::Setting(name) => {
                let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
                self.set_setting(name, value);
            }
            InputPurpose::CommitMessage(operation) => {
                let message = (!text.trim().is_empty()).then(|| text.trim().to_owned());
                self.invoke_operation(operation, message);
            }
        }
    }

    /// Does what the user has confirmed.
    pub(super) fn take_confirmed(&mut self, confirmed: Confirmed) {
        match confirmed {
            Confirmed::Delete(uri) => self.delete_session(uri),
            Confirmed::Truncate => self.truncate_chat(),
            Confirmed::Operation(operation) => self.invoke_operation(operation, None),
        }
    }

    /// Adds a file to the message.
    pub(super) fn attach(&mut self, name: &str, content: &Value) {
        let text = |field: &str| content[field].as_str().unwrap_or_default().to_owned();
        let attachment = MessageAttachment::EmbeddedResource(MessageEmbeddedResourceAttachment {
            label: name.to_owned(),
            range: None,
            display_kind: None,
            meta: None,
            data: text("data"),
            content_type: text("contentType"),
            selection: None,
        });
        self.composer().attachments.push(attachment);
    }

    /// Returns the directory that the header shows.
    pub(crate) fn shown_directory(&self) -> String {
        let directory = match self.session() {
            Some(session) => session.working_directories.iter().flatten().next().cloned(),
            None => self
                .new_directory()
                .and_then(|directory| url::Url::from_file_path(directory).ok())
                .map(String::from),
        };
        directory.map_or_else(
            || "no directory".to_owned(),
            |uri| path_of(&uri, self.setup.home.as_deref()),
        )
    }
}

/// Returns the label of a value of a setting.
fn labelled(schema: &SessionConfigPropertySchema, value: &Value) -> String {
    let position = schema.r#enum.iter().flatten().position(|known| known == value);
    let label = position.and_then(|position| schema.enum_labels.as_ref()?.get(position));
    match (label, value) {
        (Some(label), _) => label.clone(),
        (None, Value::String(text)) => text.clone(),
        (None, value) => value.to_string(),
    }
}
