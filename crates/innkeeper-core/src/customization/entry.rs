//! Accessors that all kinds of customization have in common: id, switch, children.

use ahp_types::state::{
    ChildCustomization, Customization, CustomizationEnablement, CustomizationLoadState, McpServerCustomization,
};

use super::OFF_AT_FIRST;
use super::decisions::Enablement;
use crate::mcp::take_over_facts;

/// The id that actions name an entry by; an unknown kind has none.
pub(super) fn id_of(entry: &Customization) -> Option<&str> {
    match entry {
        Customization::Plugin(plugin) => Some(&plugin.id),
        Customization::Directory(directory) => Some(&directory.id),
        Customization::McpServer(server) => Some(&server.id),
        Customization::Unknown(_) => None,
    }
}

/// The client that an entry comes from.
pub(super) fn client_of(entry: &Customization) -> Option<&str> {
    match entry {
        Customization::Plugin(plugin) => plugin.client_id.as_deref(),
        Customization::Directory(directory) => directory.client_id.as_deref(),
        Customization::McpServer(_) | Customization::Unknown(_) => None,
    }
}

/// How far it is read.
pub(super) fn load_of(entry: &Customization) -> Option<&CustomizationLoadState> {
    match entry {
        Customization::Plugin(plugin) => plugin.load.as_ref(),
        Customization::Directory(directory) => directory.load.as_ref(),
        Customization::McpServer(_) | Customization::Unknown(_) => None,
    }
}

/// The children that were read so far.
pub(super) fn children_of(entry: &Customization) -> &[ChildCustomization] {
    let children = match entry {
        Customization::Plugin(plugin) => plugin.children.as_deref(),
        Customization::Directory(directory) => directory.children.as_deref(),
        Customization::McpServer(_) | Customization::Unknown(_) => None,
    };
    children.unwrap_or_default()
}

/// The same, to change it.
pub(super) fn children_mut(entry: &mut Customization) -> Option<&mut Vec<ChildCustomization>> {
    match entry {
        Customization::Plugin(plugin) => plugin.children.as_mut(),
        Customization::Directory(directory) => directory.children.as_mut(),
        Customization::McpServer(_) | Customization::Unknown(_) => None,
    }
}

/// The id that actions name a child by.
pub(super) fn child_id(child: &ChildCustomization) -> Option<&str> {
    match child {
        ChildCustomization::Agent(agent) => Some(&agent.id),
        ChildCustomization::Skill(skill) => Some(&skill.id),
        ChildCustomization::Prompt(prompt) => Some(&prompt.id),
        ChildCustomization::Rule(rule) => Some(&rule.id),
        ChildCustomization::Hook(hook) => Some(&hook.id),
        ChildCustomization::McpServer(server) => Some(&server.id),
        ChildCustomization::Unknown(_) => None,
    }
}

/// The name that a client knows a child of its plugin by (CUS-17).
pub(super) fn child_name(child: &ChildCustomization) -> Option<&str> {
    match child {
        ChildCustomization::Agent(agent) => Some(&agent.name),
        ChildCustomization::Skill(skill) => Some(&skill.name),
        ChildCustomization::Prompt(prompt) => Some(&prompt.name),
        ChildCustomization::Rule(rule) => Some(&rule.name),
        ChildCustomization::Hook(hook) => Some(&hook.name),
        ChildCustomization::McpServer(server) => Some(&server.name),
        ChildCustomization::Unknown(_) => None,
    }
}

/// The enablement of an entry before any decision, if it is not the default.
pub(super) fn at_first(entry: &Customization) -> Option<bool> {
    let Customization::McpServer(server) = entry else {
        return None;
    };
    let is_off = server.meta.as_ref()?.get(OFF_AT_FIRST)?.as_bool()?;
    is_off.then_some(false)
}

/// Whether an entry is enabled (CUS-10).
pub(super) fn is_on(entry: &Customization) -> bool {
    match entry {
        Customization::Plugin(plugin) => decided(plugin.enablement.as_deref()),
        Customization::Directory(directory) => directory.enabled,
        Customization::McpServer(server) => decided(server.enablement.as_deref()),
        Customization::Unknown(_) => true,
    }
}

/// Whether a child is enabled, not counting its container.
pub(super) fn is_child_on(child: &ChildCustomization) -> bool {
    match child {
        ChildCustomization::Agent(agent) => agent.enabled.unwrap_or(true),
        ChildCustomization::Skill(skill) => skill.enabled.unwrap_or(true),
        ChildCustomization::Prompt(prompt) => prompt.enabled.unwrap_or(true),
        ChildCustomization::Rule(rule) => rule.enabled.unwrap_or(true),
        ChildCustomization::Hook(hook) => hook.enabled.unwrap_or(true),
        ChildCustomization::McpServer(server) => decided(server.enablement.as_deref()),
        ChildCustomization::Unknown(_) => true,
    }
}

fn decided(enablement: Option<&[CustomizationEnablement]>) -> bool {
    match enablement.unwrap_or_default().first() {
        Some(
            CustomizationEnablement::Global { enabled }
            | CustomizationEnablement::Workspace { enabled, .. }
            | CustomizationEnablement::Session { enabled },
        ) => *enabled,
        // As the published reducer has it (E-30).
        Some(CustomizationEnablement::Unknown(_)) => false,
        None => true,
    }
}

/// How an entry shows whether it is on.
pub(super) enum Switch<'a> {
    /// With every decision about it (CUS-07).
    Decisions(&'a mut Option<Vec<CustomizationEnablement>>),
    /// With a flag that is left out when it is on.
    Flag(&'a mut Option<bool>),
    /// With a flag that is always there (CUS-06).
    Required(&'a mut bool),
}

impl Switch<'_> {
    /// Shows what was decided.
    pub(super) fn show(self, decided: &Enablement, workspace: Option<&str>) {
        match self {
            Self::Decisions(enablement) => *enablement = decided.shown(workspace),
            Self::Flag(flag) => {
                // A client that switched it on again has the flag, and it says the same (E-32).
                let on = decided.is_on();
                if flag.unwrap_or(true) != on {
                    *flag = (!on).then_some(false);
                }
            }
            Self::Required(flag) => *flag = decided.is_on(),
        }
    }
}

/// An entry, or a child in its container.
#[derive(Debug, Clone, Copy)]
pub(super) struct CustomizationRef<'a> {
    pub(super) entry: &'a Customization,
    pub(super) child: Option<&'a ChildCustomization>,
}

/// Finds what an action names: entries first, then what is in them (CUS-12).
pub(super) fn find<'a>(list: &'a [Customization], id: &str) -> Option<CustomizationRef<'a>> {
    let entry = list.iter().find(|entry| id_of(entry) == Some(id));
    let place = entry.map(|entry| CustomizationRef { entry, child: None });
    place.or_else(|| {
        list.iter().find_map(|entry| {
            let child = children_of(entry).iter().find(|child| child_id(child) == Some(id))?;
            let child = Some(child);
            Some(CustomizationRef { entry, child })
        })
    })
}

impl CustomizationRef<'_> {
    /// Whether it shows what was decided about it.
    pub(super) fn shows(&self, decided: &Enablement, directory: Option<&str>) -> bool {
        match (self.decisions(), self.child) {
            (Some(enablement), _) => *enablement == decided.shown(directory),
            (None, Some(child)) => is_child_on(child) == decided.is_on(),
            (None, None) => is_on(self.entry) == decided.is_on(),
        }
    }

    /// Whether it shows every decision about it (CUS-07), and not only whether it is on (CUS-13).
    pub(super) fn shows_decisions(&self) -> bool {
        self.decisions().is_some()
    }

    fn decisions(&self) -> Option<&Option<Vec<CustomizationEnablement>>> {
        match (self.child, self.entry) {
            (Some(ChildCustomization::McpServer(server)), _) | (None, Customization::McpServer(server)) => {
                Some(&server.enablement)
            }
            (None, Customization::Plugin(plugin)) => Some(&plugin.enablement),
            (Some(_), _) | (None, _) => None,
        }
    }
}

/// The switch of an entry.
pub(super) fn switch_of(entry: &mut Customization) -> Option<Switch<'_>> {
    match entry {
        Customization::Plugin(plugin) => Some(Switch::Decisions(&mut plugin.enablement)),
        Customization::Directory(directory) => Some(Switch::Required(&mut directory.enabled)),
        Customization::McpServer(server) => Some(Switch::Decisions(&mut server.enablement)),
        Customization::Unknown(_) => None,
    }
}

/// The switch of a child.
pub(super) fn child_switch(child: &mut ChildCustomization) -> Option<Switch<'_>> {
    match child {
        ChildCustomization::Agent(agent) => Some(Switch::Flag(&mut agent.enabled)),
        ChildCustomization::Skill(skill) => Some(Switch::Flag(&mut skill.enabled)),
        ChildCustomization::Prompt(prompt) => Some(Switch::Flag(&mut prompt.enabled)),
        ChildCustomization::Rule(rule) => Some(Switch::Flag(&mut rule.enabled)),
        ChildCustomization::Hook(hook) => Some(Switch::Flag(&mut hook.enabled)),
        ChildCustomization::McpServer(server) => Some(Switch::Decisions(&mut server.enablement)),
        ChildCustomization::Unknown(_) => None,
    }
}

/// Takes over the published state of a child that was read again: its flag keeps its spelling, so that the same child
/// compares as equal, and a running server continues to run (P19).
pub(super) fn take_over_child(child: &mut ChildCustomization, shown: &ChildCustomization, is_alive: bool) {
    match (child, shown) {
        (ChildCustomization::Agent(child), ChildCustomization::Agent(shown)) => child.enabled = shown.enabled,
        (ChildCustomization::Skill(child), ChildCustomization::Skill(shown)) => child.enabled = shown.enabled,
        (ChildCustomization::Prompt(child), ChildCustomization::Prompt(shown)) => child.enabled = shown.enabled,
        (ChildCustomization::Rule(child), ChildCustomization::Rule(shown)) => child.enabled = shown.enabled,
        (ChildCustomization::Hook(child), ChildCustomization::Hook(shown)) => child.enabled = shown.enabled,
        (ChildCustomization::McpServer(child), ChildCustomization::McpServer(shown)) if is_alive => {
            take_over_server(child, shown);
        }
        _ => {}
    }
}

/// Keeps the status of a server whose declaration was reread.
pub(super) fn take_over_server(server: &mut McpServerCustomization, shown: &McpServerCustomization) {
    server.state.clone_from(&shown.state);
    server.channel.clone_from(&shown.channel);
    if server.mcp_app.is_none() {
        server.mcp_app.clone_from(&shown.mcp_app);
    }
    take_over_facts(server, shown);
}
