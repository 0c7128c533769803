//! Formats the tree of customizations, one line for each.

use std::fmt::Write as _;

use innkeeper_customizations::Discovered;
use innkeeper_plugins::{Child, Component, Container, Directory, Kind, LoadState, SkillOrigin};

use innkeeper_cli::terminal::one_line;

/// Returns the tree of all customizations.
pub(super) fn in_words(discovered: &Discovered) -> String {
    let mut text = String::new();
    let mut absent = Vec::new();
    for part in &discovered.containers {
        let entry = part.entry();
        if let Container::Directory(directory) = entry
            && !directory.exists
            && directory.notes.is_empty()
        {
            absent.push(one_line(&directory.name, 200));
            continue;
        }
        let _ = writeln!(text, "{}", headline(entry));
        if let Some((_, problem)) = trouble(entry) {
            let _ = writeln!(text, "  ! {}", one_line(&problem, 1000));
        }
        for child in entry.children() {
            let _ = writeln!(text, "  {}", line(child));
        }
    }
    for note in &discovered.notes {
        let _ = writeln!(text, "! {}", one_line(&note.to_string(), 1000));
    }
    if text.is_empty() {
        text.push_str("A session here would get no customizations.\n");
    }
    if !absent.is_empty() {
        let _ = writeln!(text, "These would be read if they existed: {}.", absent.join(", "));
    }
    text
}

/// Returns the kind and the state of a container.
pub(super) fn headline(entry: &Container) -> String {
    match entry {
        Container::Plugin(plugin) => {
            let version = plugin.version.as_deref().map(|version| format!(" {version}"));
            let version = one_line(&version.unwrap_or_default(), 40);
            format!(
                "plugin {}{version}  {}",
                one_line(&plugin.name, 80),
                one_line(&plugin.uri, 400)
            )
        }
        Container::Directory(directory) => {
            let mut states = Vec::new();
            if !directory.exists {
                states.push("does not exist yet");
            }
            if can_be_saved_into(directory) {
                states.push("can be saved into");
            }
            let states = match states.is_empty() {
                true => String::new(),
                false => format!("  ({})", states.join(", ")),
            };
            let name = one_line(&directory.name, 200);
            format!("{} directory {name}{states}", directory.contents.as_str())
        }
        Container::McpServer(server) => line(server),
    }
}

/// Returns whether clients may save into it: not into directories of hooks, because a saved hook would run.
pub(super) fn can_be_saved_into(directory: &Directory) -> bool {
    directory.writable && directory.contents != Kind::Hook
}

/// Returns the line of a customization.
pub(super) fn line(child: &Child) -> String {
    let kind = match &child.component {
        Component::Skill(skill) if skill.origin == SkillOrigin::Command => "command",
        _ => child.kind().as_str(),
    };
    let name = one_line(&child.name, 80);
    match &child.description {
        Some(description) => format!("{kind} {name}: {}", one_line(description, 120)),
        None => format!("{kind} {name}"),
    }
}

/// Returns the name and the problem of a container, if it has one.
pub(super) fn trouble(entry: &Container) -> Option<(String, String)> {
    let (name, load) = match entry {
        Container::Plugin(plugin) => (&plugin.name, &plugin.load),
        Container::Directory(directory) => (&directory.name, &directory.load),
        Container::McpServer(_) => return None,
    };
    match load {
        LoadState::Loading | LoadState::Loaded => None,
        LoadState::Degraded { message } | LoadState::Error { message } => Some((name.clone(), message.clone())),
    }
}
