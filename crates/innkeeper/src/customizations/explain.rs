//! Explains why each customization is on, off, degraded or not used.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use innkeeper_customizations::{Discovered, DiscoveredContainer, Origin};
use innkeeper_host::customizations::Shadows;
use innkeeper_plugins::{Child, Component, Container, LoadState, Note, Severity};

use innkeeper_cli::enablement::{Decision, EVERYWHERE, EnablementReport};
use innkeeper_cli::terminal::one_line;

use super::tree;

/// Returns all customizations with their reasons.
pub(super) fn in_words(discovered: &Discovered, shadows: &Shadows, switched: &EnablementReport) -> String {
    let mut text = format!("{}\n", one_line(&switched.in_words(), 1000));
    let names = names(discovered);
    let off = disabled_ids(discovered, switched);
    for part in &discovered.containers {
        let entry = part.entry();
        let _ = writeln!(text, "\n{}", tree::headline(entry));
        for reason in reasons(part, switched) {
            let _ = writeln!(text, "  - {}", one_line(&reason, 1000));
        }
        for child in entry.children() {
            let _ = writeln!(text, "  {}", tree::line(child));
            for reason in child_reasons(child, &off, shadows, &names, switched) {
                let _ = writeln!(text, "    - {}", one_line(&reason, 1000));
            }
        }
    }
    for note in &discovered.notes {
        let _ = writeln!(text, "\n{}", one_line(&told(note), 1000));
    }
    text
}

/// Returns the ids of customizations that are off, by themselves or with their container.
fn disabled_ids<'a>(discovered: &'a Discovered, switched: &EnablementReport) -> HashSet<&'a str> {
    let is_off = |id: &str| switched.of(id).is_some_and(|switch| !switch.is_on);
    let mut off = HashSet::new();
    for entry in discovered.containers.iter().map(DiscoveredContainer::entry) {
        let children = entry.children().iter().map(|child| child.id.as_str());
        match is_off(entry.id()) {
            true => off.extend(children.chain([entry.id()])),
            false => off.extend(children.filter(|id| is_off(id))),
        }
    }
    off
}

/// Returns the exact names of customizations, by id.
fn names(discovered: &Discovered) -> HashMap<&str, String> {
    let mut names = HashMap::new();
    for part in &discovered.containers {
        for child in part.entry().children() {
            let name = match part.entry() {
                Container::Plugin(plugin) => format!("{}:{}", plugin.name, child.name),
                Container::Directory(directory) => format!("{} in {}", child.name, directory.name),
                Container::McpServer(_) => child.name.clone(),
            };
            names.insert(child.id.as_str(), name);
        }
    }
    names
}

fn reasons(part: &DiscoveredContainer, switched: &EnablementReport) -> Vec<String> {
    let mut reasons = vec![origin(part.origin())];
    // Customizations that the configuration disables are shown as switched off everywhere.
    let switch = switched.of(part.entry().id());
    let switch = switch.filter(|switch| switch.is_on || switch.by != EVERYWHERE || !is_off_at_first(part.entry()));
    match switch {
        Some(Decision { is_on: false, by }) => reasons.push(format!("off: switched off {by}, with all that is in it")),
        Some(Decision { is_on: true, by }) => reasons.push(format!("on: switched on {by}")),
        None if is_off_at_first(part.entry()) => reasons.push(
            "off: its declaration says so (`enabled = false` or `disabled`); it runs once a client enables it"
                .to_owned(),
        ),
        None => reasons.push("on: no user switched it off".to_owned()),
    }
    let (load, notes): (&LoadState, &[Note]) = match part.entry() {
        Container::Plugin(plugin) => (&plugin.load, &plugin.notes),
        Container::Directory(directory) => {
            let can_be_saved_into = tree::can_be_saved_into(directory);
            if !directory.exists && can_be_saved_into {
                reasons.push("does not exist yet; it is shown so that the first one can be saved into it".to_owned());
            } else if !can_be_saved_into {
                reasons.push("nothing can be saved into it".to_owned());
            }
            (&directory.load, &directory.notes)
        }
        Container::McpServer(_) => return reasons,
    };
    match load {
        LoadState::Loaded | LoadState::Loading => {}
        LoadState::Degraded { .. } => reasons.push("degraded: some of it was left out or guessed".to_owned()),
        LoadState::Error { .. } => reasons.push("error: it could not be loaded".to_owned()),
    }
    reasons.extend(notes.iter().map(told));
    reasons
}

fn is_off_at_first(entry: &Container) -> bool {
    let Container::McpServer(child) = entry else {
        return false;
    };
    matches!(&child.component, Component::McpServer(server) if server.treatment.is_off_at_first)
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Host => "from the configuration of the host".to_owned(),
        Origin::User => "from the home directory".to_owned(),
        Origin::Saved(_) => {
            "from a directory of the home into which clients can save, so its commands are not trusted".to_owned()
        }
        Origin::Workspace(_) => "from the workspace".to_owned(),
        Origin::Client { client, .. } => format!("from the client {}", client.as_str()),
    }
}

fn child_reasons(
    child: &Child,
    off: &HashSet<&str>,
    shadows: &Shadows,
    names: &HashMap<&str, String>,
    switched: &EnablementReport,
) -> Vec<String> {
    let mut reasons = Vec::new();
    match switched.of(&child.id) {
        Some(Decision { is_on: false, by }) => reasons.push(format!("off: switched off {by}")),
        _ if off.contains(child.id.as_str()) => reasons.push("off with its container".to_owned()),
        Some(Decision { is_on: true, by }) => reasons.push(format!("on: switched on {by}")),
        None => reasons.push("on: no user switched it off".to_owned()),
    }
    let mut before = shadows.get(&child.id).into_iter().flatten();
    if let Some(winner) = before.find(|id| !off.contains(id.as_str())) {
        let winner = names.get(winner.as_str()).map_or(winner.as_str(), String::as_str);
        let why = match child.component {
            Component::Rule(_) => "not used: it is the same file as",
            _ => "shadowed: its bare name means",
        };
        reasons.push(format!("{why} {winner}"));
    }
    let (for_models, for_users) = match &child.component {
        Component::Skill(skill) => (!skill.disable_model_invocation, !skill.disable_user_invocation),
        Component::Agent(agent) => (!agent.disable_model_invocation, !agent.disable_user_invocation),
        Component::Rule(rule) => {
            reasons.push(match (rule.always_apply, rule.globs.is_empty()) {
                (Some(true), true) => "applies always".to_owned(),
                (_, false) => format!("applies to {}", rule.globs.join(", ")),
                (_, true) => "applies on request".to_owned(),
            });
            (true, true)
        }
        Component::Hook(_) | Component::McpServer(_) | Component::Prompt(_) => (true, true),
    };
    if !for_models {
        reasons.push("models do not use it by themselves".to_owned());
    }
    if !for_users {
        reasons.push("users cannot call it".to_owned());
    }
    reasons
}

fn told(note: &Note) -> String {
    let severity = match note.severity {
        Severity::Info => "note",
        Severity::Warn => "warning",
        Severity::Error => "error",
    };
    format!("{severity}: {note}")
}
