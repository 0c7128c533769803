//! Customizations and enablement as the simulator remembers them: a session shows exactly the discovered
//! customizations, with the users' decisions (CUS).

use std::collections::{BTreeMap, BTreeSet};

use ahp_types::actions::{ActionEnvelope, SessionCustomizationToggledAction, StateAction};
use ahp_types::state::{Customization, CustomizationEnablement, SessionState};
use innkeeper_core::customization::{ClientPlugin, CustomizationSources};
use innkeeper_core::snapshot::State;
use innkeeper_core::{ActionFrame, ChannelId, ClientId, ConnId, CustomizationCommand, Input, TurnStart};
use serde_json::{Map, Value, json};

use crate::sim::client::connection::Connection;
use crate::sim::operations::DIRECTORY;
use crate::sim::operations::dispatches::Draft;
use crate::sim::{Choices, Sim, Violation};

/// Containers that may be discovered, besides the plugins of clients.
const CONTAINERS: [(&str, &str); 5] = [
    ("plugin", "p0"),
    ("plugin", "p1"),
    ("directory", "d0"),
    ("plugin", "p2"),
    ("mcpServer", "m0"),
];
/// Their possible children.
const CHILDREN: [(&str, &str); 4] = [("skill", "s0"), ("mcpServer", "m1"), ("agent", "a0"), ("hook", "h0")];

/// Decisions by id.
type Decisions = BTreeMap<String, bool>;

/// The simulator's knowledge of customizations.
#[derive(Debug, Default)]
pub struct KnownCustomizations {
    /// The sources of each session that is followed.
    followed: BTreeMap<ChannelId, CustomizationSources>,
    sessions: BTreeMap<String, Decisions>,
    workspaces: BTreeMap<String, Decisions>,
    everywhere: Decisions,
}

impl KnownCustomizations {
    /// Forgets the followed sessions: discovery ended with the host.
    pub fn restart(&mut self) {
        self.followed.clear();
    }

    /// A session is gone, and what was decided in it.
    pub fn forget(&mut self, session: &str) {
        self.sessions.remove(session);
    }

    /// A session that a chat moved into starts with what was decided in its old one.
    pub fn moved_out(&mut self, from: Option<&String>, session: &str) {
        let decided = from.and_then(|from| self.sessions.get(from)).cloned();
        self.sessions.insert(session.to_owned(), decided.unwrap_or_default());
    }

    /// Follows what the core asks for.
    pub fn perform(&mut self, command: &CustomizationCommand) -> Result<(), Violation> {
        match command {
            CustomizationCommand::Follow { session, wanted } => {
                match self.followed.insert(*session, (**wanted).clone()) {
                    Some(before) if before == **wanted => Err(Violation::new(format!(
                        "what {} wants is asked for twice",
                        wanted.session_uri
                    ))),
                    _ => Ok(()),
                }
            }
            CustomizationCommand::Unfollow { session, .. } => match self.followed.remove(session) {
                Some(_) => Ok(()),
                None => Err(Violation::new(format!(
                    "{session:?} is forgotten, and was not followed"
                ))),
            },
        }
    }

    fn decide(
        &mut self,
        session: &str,
        directory: Option<&str>,
        toggled: &SessionCustomizationToggledAction,
        shows_decisions: bool,
    ) {
        let SessionCustomizationToggledAction { id, enablement } = toggled;
        let first = |wanted: fn(&CustomizationEnablement) -> Option<bool>| enablement.iter().find_map(wanted);
        let in_session = first(|decision| match decision {
            CustomizationEnablement::Session { enabled } => Some(*enabled),
            _ => None,
        });
        let in_workspace = first(|decision| match decision {
            CustomizationEnablement::Workspace { enabled, .. } => Some(*enabled),
            _ => None,
        });
        let everywhere = first(|decision| match decision {
            CustomizationEnablement::Global { enabled } => Some(*enabled),
            _ => None,
        });
        // An entry that shows no decisions keeps those that a toggle does not name, unless it names none (E-31).
        let replaces = shows_decisions || enablement.is_empty();
        let set = |decided: &mut Decisions, id: &str, enabled: Option<bool>| {
            if replaces || enabled.is_some() {
                set(decided, id, enabled);
            }
        };
        set(self.sessions.entry(session.to_owned()).or_default(), id, in_session);
        if let Some(directory) = directory {
            set(
                self.workspaces.entry(directory.to_owned()).or_default(),
                id,
                in_workspace,
            );
        }
        set(&mut self.everywhere, id, everywhere);
    }

    /// Returns the enablement that an entry must show, given the assertion of its client.
    fn expected(&self, uri: &str, directory: Option<&str>, id: &str, asserted: Option<bool>) -> Vec<Value> {
        let in_session = self.sessions.get(uri).and_then(|decided| decided.get(id));
        let in_workspace = directory.and_then(|directory| self.workspaces.get(directory)?.get(id));
        let everywhere = asserted.or_else(|| self.everywhere.get(id).copied());
        let in_session = in_session.map(|enabled| json!({ "kind": "session", "enabled": enabled }));
        let in_workspace =
            in_workspace.map(|enabled| json!({ "kind": "workspace", "uri": directory, "enabled": enabled }));
        let everywhere = everywhere.map(|enabled| json!({ "kind": "global", "enabled": enabled }));
        in_session.into_iter().chain(in_workspace).chain(everywhere).collect()
    }
}

fn set(decided: &mut Decisions, id: &str, enabled: Option<bool>) {
    match enabled {
        Some(enabled) => drop(decided.insert(id.to_owned(), enabled)),
        None => drop(decided.remove(id)),
    }
}

impl Sim {
    /// Takes note of what a client decided, if the host has published it.
    pub(super) fn note_toggle(&mut self, frame: &ActionFrame) {
        let name = b"\"session/customizationToggled\"";
        if !frame.bytes.windows(name.len()).any(|window| window == name) {
            return;
        }
        let Ok(envelope) = serde_json::from_slice::<ActionEnvelope>(frame.envelope()) else {
            return;
        };
        if let StateAction::SessionCustomizationToggled(toggled) = envelope.action {
            let directory = self.directory_of(&envelope.channel);
            let shows_decisions = self.shows_decisions(&envelope.channel, &toggled.id);
            self.customizations
                .decide(&envelope.channel, directory.as_deref(), &toggled, shows_decisions);
            self.count("switches");
        }
    }

    /// Whether something shows every decision about it, and not only whether it is on.
    fn shows_decisions(&self, session: &str, id: &str) -> bool {
        let state = self.host_session(session);
        let shown = state.map(|state| json!(state.customizations)).unwrap_or_default();
        let entries = shown.as_array().into_iter().flatten();
        let mut all = entries.flat_map(|entry| entry["children"].as_array().into_iter().flatten().chain([entry]));
        let found = all.find(|entry| entry["id"] == id);
        found.is_some_and(|entry| entry["type"] == "plugin" || entry["type"] == "mcpServer")
    }

    /// Discovery for a session reports its customizations. A repeated report changes nothing.
    pub(super) fn finder_reports(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let followed: Vec<ChannelId> = self.customizations.followed.keys().copied().collect();
        let Some(session) = choices.pick(&followed).copied() else {
            return Ok(());
        };
        let wanted = &self.customizations.followed[&session];
        let uri = wanted.session_uri.to_string();
        let report = report(wanted, choices);
        self.note(|| format!("found for {uri}: {}", json!(report)));
        self.count("reports");
        let found = |entries: &[Value]| Input::CustomizationsFound {
            session,
            entries: entries.iter().map(read).collect(),
            shadows: Default::default(),
        };
        self.handle(found(&report))?;
        let shown = self.host_session(&uri).map(|state| json!(state.customizations));
        let shown = shown.unwrap_or_default();
        let unswitched: Vec<Value> = shown.as_array().into_iter().flatten().map(unswitched).collect();
        let expected: Vec<Value> = report.iter().map(unswitched_value).collect();
        if unswitched != expected {
            return Err(Violation::new(format!(
                "{uri} does not show what was found\n  found: {expected:?}\n  shown: {unswitched:?}"
            )));
        }
        if choices.one_in(4) {
            let before = self.last_published;
            self.handle(found(&report))?;
            if self.last_published != before {
                return Err(Violation::new(format!("{uri} tells what it has told before (P19)")));
            }
        }
        for _ in 0..choices.below(3) {
            let hears = |conn: &&Connection| conn.ready && conn.host_subscriptions.contains(&uri);
            let hearers: Vec<ConnId> = self.conns.values().filter(hears).map(|conn| conn.id).collect();
            if let Some(conn) = choices.pick(&hearers).copied() {
                let action = self.toggle(&uri, choices);
                self.send_dispatch(conn, Draft::fair(uri.as_str(), action))?;
            }
        }
        Ok(())
    }

    /// A decision about something that a session shows, or does not.
    pub(super) fn toggle(&self, session: &str, choices: &mut Choices<'_>) -> Value {
        let state = self.host_session(session);
        let shown = state.map(|state| json!(state.customizations)).unwrap_or_default();
        let mut ids = vec!["nothing".to_owned()];
        for entry in shown.as_array().into_iter().flatten() {
            let children = entry["children"].as_array().into_iter().flatten();
            let all = children.chain([entry]);
            ids.extend(all.filter_map(|entry| entry["id"].as_str()).map(str::to_owned));
        }
        let id = ids[choices.below(ids.len())].clone();
        let mut enablement = Vec::new();
        for _ in 0..choices.below(4) {
            let enabled = choices.below(2) == 0;
            enablement.push(match choices.below(7) {
                0..=2 => json!({ "kind": "session", "enabled": enabled }),
                3 | 4 => json!({ "kind": "workspace", "uri": DIRECTORY, "enabled": enabled }),
                _ => json!({ "kind": "global", "enabled": enabled }),
            });
        }
        json!({ "type": "session/customizationToggled", "id": id, "enablement": enablement })
    }

    /// Looks whether every session shows what was decided, and is looked after as it wants.
    pub(super) fn check_customizations(&self) -> Result<(), Violation> {
        let is_read_only = self.store.as_ref().is_some_and(|store| store.read_only);
        if is_read_only {
            return match self.customizations.followed.is_empty() {
                true => Ok(()),
                false => Err(Violation::new("a host that can tell nothing looks for something")),
            };
        }
        let mut looked_for = BTreeSet::new();
        for wanted in self.customizations.followed.values() {
            let uri = &*wanted.session_uri;
            let Some(State::Session(state)) = self.core.snapshot(uri).map(|snapshot| snapshot.state) else {
                return Err(Violation::new(format!("{uri} is followed, but not used")));
            };
            if !looked_for.insert(uri.to_owned()) {
                return Err(Violation::new(format!("{uri} is looked for twice")));
            }
            let wants = client_plugins(&state.shared());
            let directories = state.shared().working_directories.clone().unwrap_or_default();
            if wanted.client_plugins != wants || wanted.working_directories != directories {
                return Err(Violation::new(format!("{uri} wants {wants:?} and not {wanted:?}")));
            }
        }
        for uri in self.sessions() {
            let Some(State::Session(state)) = self.core.snapshot(uri).map(|snapshot| snapshot.state) else {
                continue;
            };
            let is_heard = self.conns.values().any(|conn| conn.host_subscriptions.contains(uri));
            if self.config.serves_customizations && is_heard && !looked_for.contains(uri) {
                return Err(Violation::new(format!("{uri} is used, but not followed")));
            }
            self.check_switches(uri, &state.shared())?;
        }
        self.check_servers()
    }

    fn check_switches(&self, uri: &str, state: &SessionState) -> Result<(), Violation> {
        let directory = state.working_directories.as_ref().and_then(|all| all.first());
        let directory = directory.map(String::as_str);
        for entry in json!(state.customizations).as_array().into_iter().flatten() {
            let published = published(state, entry);
            let global = |decisions: &Value| {
                let decisions = decisions.as_array().into_iter().flatten();
                let mut global = decisions.filter(|decision| decision["kind"] == "global");
                global.next().and_then(|decision| decision["enabled"].as_bool())
            };
            if entry["clientId"].is_string() && published.is_null() {
                return Err(Violation::new(format!("{uri} shows {entry} of a client that has left")));
            }
            let expected = |entry: &Value, asserted: Option<bool>| {
                let id = entry["id"].as_str().unwrap_or_default();
                self.customizations.expected(uri, directory, id, asserted)
            };
            check_switch(uri, entry, &expected(entry, global(&published["enablement"])))?;
            for child in entry["children"].as_array().into_iter().flatten() {
                let name = child["name"].as_str().unwrap_or_default();
                let asserted = global(&published["childEnablement"][name]);
                check_switch(uri, child, &expected(child, asserted))?;
            }
        }
        Ok(())
    }

    /// The disabled customizations of a turn equal those that its session shows (CUS-11).
    pub(super) fn check_off(&self, start: &TurnStart) -> Result<(), Violation> {
        let state = self.host_session(&start.info.session);
        let shown = state.map(|state| json!(state.customizations)).unwrap_or_default();
        for entry in shown.as_array().into_iter().flatten() {
            let is_off = !is_on(entry);
            for (entry, is_off) in [(entry, is_off)].into_iter().chain(
                entry["children"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|child| (child, is_off || !is_on(child))),
            ) {
                let id = entry["id"].as_str().unwrap_or_default();
                if start.disabled_ids.contains(id) != is_off {
                    return Err(Violation::new(format!(
                        "{} is told that {:?} is off, and {entry} shows something else",
                        start.info.turn_id, start.disabled_ids
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The plugin that a client published, of which this was found.
fn published(state: &SessionState, entry: &Value) -> Value {
    let client = state
        .active_clients
        .iter()
        .find(|client| entry["clientId"] == *client.client_id);
    let published = json!(client.map(|client| &client.customizations));
    let mut plugins = published.as_array().into_iter().flatten();
    let plugin = plugins.find(|plugin| plugin["uri"] == entry["uri"]);
    // Discovery may not know yet that the plugin is no longer published.
    plugin.cloned().unwrap_or_else(|| match client {
        Some(_) => json!({}),
        None => Value::Null,
    })
}

fn client_plugins(state: &SessionState) -> Vec<ClientPlugin> {
    let of = |client: &ahp_types::state::SessionActiveClient| -> Vec<ClientPlugin> {
        let plugins = client.customizations.iter().flatten();
        let plugins = plugins.map(|plugin| ClientPlugin {
            client: ClientId::new(&client.client_id),
            uri: plugin.uri.clone(),
            name: plugin.name.clone(),
            nonce: plugin.nonce.clone(),
            publication: 0,
        });
        plugins.collect()
    };
    state.active_clients.iter().flat_map(of).collect()
}

fn is_on(entry: &Value) -> bool {
    let flag = entry["enabled"].as_bool();
    flag.or_else(|| entry["enablement"][0]["enabled"].as_bool())
        .unwrap_or(true)
}

/// Whether an entry shows exactly these decisions, or what comes of them.
fn check_switch(uri: &str, entry: &Value, expected: &[Value]) -> Result<(), Violation> {
    let is_right = match entry["type"].as_str() {
        Some("plugin" | "mcpServer") => {
            let shown = entry["enablement"].as_array().map(Vec::as_slice).unwrap_or_default();
            shown == expected && entry["enablement"] != json!([])
        }
        _ => {
            let first = expected.first().and_then(|decision| decision["enabled"].as_bool());
            is_on(entry) == first.unwrap_or(true)
        }
    };
    match is_right {
        true => Ok(()),
        false => Err(Violation::new(format!(
            "{uri} shows {entry} where {expected:?} was decided (CUS-08, CUS-10)"
        ))),
    }
}

/// Some of what may be found, in one of few versions so that some repeat.
fn report(wanted: &CustomizationSources, choices: &mut Choices<'_>) -> Vec<Value> {
    let mut report = Vec::new();
    let which = choices.below(32);
    for (index, (kind, id)) in CONTAINERS.into_iter().enumerate() {
        if which >> index & 1 == 0 {
            report.push(container(kind, id, choices));
        }
    }
    if choices.one_in(5) && report.len() > 1 {
        report.rotate_left(1);
    }
    for plugin in &wanted.client_plugins {
        if !choices.one_in(4) {
            let mut entry = container("plugin", &format!("{}:{}", plugin.client, plugin.uri), choices);
            entry["clientId"] = json!(plugin.client.as_str());
            entry["uri"] = json!(plugin.uri);
            report.push(entry);
        }
    }
    report
}

fn container(kind: &str, id: &str, choices: &mut Choices<'_>) -> Value {
    let mut entry = json!({ "type": kind, "id": id, "uri": format!("file:///found/{id}"), "name": id });
    match kind {
        "mcpServer" => {
            entry["state"] = json!({ "kind": "stopped" });
            return entry;
        }
        "directory" => {
            entry["enabled"] = json!(true);
            entry["contents"] = json!("skill");
            entry["writable"] = json!(true);
        }
        _ => {}
    }
    if choices.one_in(6) {
        entry["load"] = json!({ "kind": "loading" });
        return entry;
    }
    entry["load"] = json!({ "kind": "loaded" });
    let which = choices.below(16);
    let present = CHILDREN.into_iter().enumerate();
    let present = present.filter(|(index, _)| which >> index & 1 == 0);
    let children = present.map(|(_, (kind, name))| {
        let mut child = json!({ "type": kind, "id": format!("{id}/{name}"), "uri": format!("file:///found/{id}/{name}"), "name": name });
        if kind == "mcpServer" {
            child["state"] = json!({ "kind": "stopped" });
        }
        child
    });
    entry["children"] = children.collect();
    entry
}

fn read(entry: &Value) -> Customization {
    serde_json::from_value(entry.clone()).unwrap_or_else(|_| Customization::Unknown(entry.clone()))
}

/// An entry without its enablement.
fn unswitched(entry: &Value) -> Value {
    let mut entry = entry.clone();
    let strip = |fields: &mut Map<String, Value>| {
        fields.remove("enabled");
        fields.remove("enablement");
        // Server status is not part of discovery.
        for live in ["state", "channel", "mcpApp"] {
            fields.remove(live);
        }
    };
    for child in entry["children"].as_array_mut().into_iter().flatten() {
        child.as_object_mut().map(strip);
    }
    entry.as_object_mut().map(strip);
    if !entry["clientId"].is_null() {
        // It is shown under the name that its client gave it.
        entry["name"].take();
        entry["_meta"].take();
    }
    if entry["children"].is_null() {
        entry.as_object_mut().map(|fields| fields.remove("children"));
    }
    entry
}

fn unswitched_value(entry: &Value) -> Value {
    unswitched(&json!(read(entry)))
}

/// The plugins that a client publishes, in one of few versions.
pub fn published_plugins(client: &str, version: usize) -> Option<Vec<ahp_types::state::ClientPluginCustomization>> {
    if version < 2 {
        return None;
    }
    let mut plugin = json!({
        "type": "plugin",
        "id": "mine",
        "uri": format!("virtual://{client}/plugin"),
        "name": "mine",
        "nonce": format!("{version}"),
        "enablement": [{ "kind": "global", "enabled": version == 2 }],
    });
    if version == 3 {
        plugin["childEnablement"] = json!({ "s0": [{ "kind": "global", "enabled": false }] });
    }
    serde_json::from_value(plugin).ok().map(|plugin| vec![plugin])
}
