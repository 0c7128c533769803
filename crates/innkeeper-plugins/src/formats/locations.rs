//! The locations of a plugin's components: the defaults of its format, then the declared ones (P5).

use std::path::{Path, PathBuf};

use crate::formats::detect::Format;
use crate::formats::manifest::Declared;
use crate::note::{Code, Notes};
use crate::read::scan_root::{PathKind, ScanRoot, label};

/// A location of components of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    pub(crate) look: PathKind,
}

/// The default locations of a format, without declarations in the manifest.
pub(crate) struct Defaults {
    pub(crate) skills: &'static [&'static str],
    pub(crate) commands: &'static [&'static str],
    pub(crate) agents: &'static [&'static str],
    pub(crate) rules: &'static [&'static str],
    pub(crate) hooks: &'static [&'static str],
    pub(crate) mcp_servers: &'static [&'static str],
}

pub(crate) fn defaults(format: Format) -> Defaults {
    // Agent Plugins have skills and MCP servers at fixed locations, and nothing else. Clients have their own
    // directories; Copilot's is read, because its agents have the common format.
    let (commands, agents, rules): (&[&str], &[&str], &[&str]) = match format {
        Format::AgentPlugin => (
            &["com.github.copilot/commands"],
            &["com.github.copilot/agents"],
            &["com.github.copilot/rules"],
        ),
        _ => (&["commands"], &["agents"], &["rules"]),
    };
    Defaults {
        skills: &["skills"],
        commands,
        agents,
        rules,
        hooks: match format {
            Format::AgentPlugin => &["com.github.copilot/hooks/hooks.json"],
            Format::OpenPlugin | Format::Claude | Format::Cursor => &["hooks/hooks.json"],
            Format::Codex | Format::Copilot | Format::Bare => &["hooks.json", "hooks/hooks.json"],
        },
        mcp_servers: match format {
            Format::AgentPlugin => &["mcp.json"],
            Format::Cursor | Format::Bare => &["mcp.json", ".mcp.json"],
            Format::OpenPlugin | Format::Claude | Format::Codex | Format::Copilot => &[".mcp.json"],
        },
    }
}

/// The locations that exist, defaults first. Declared locations that do not exist are noted.
pub(crate) fn locations(
    root: &ScanRoot,
    defaults: &[&str],
    declared: &Declared,
    manifest: &str,
    notes: &mut Notes,
) -> Vec<Location> {
    let mut places: Vec<Location> = Vec::new();
    if !declared.exclusive {
        for path in defaults {
            let path = PathBuf::from(path);
            match root.look(&path) {
                PathKind::Missing => {}
                look => places.push(Location { path, look }),
            }
        }
    }
    for written in &declared.paths {
        let shown = crate::read::text::printable(written, 200);
        let Some(path) = resolve(written) else {
            notes.warn(
                Code::PathEscape,
                manifest,
                format!("`{shown}` leads out of the plugin and is ignored: give a path below it, such as `./skills`"),
            );
            continue;
        };
        if !written.starts_with("./") && written != "." {
            notes.info(
                Code::ManifestPathStyle,
                manifest,
                format!("`{shown}` should begin with `./`, as other hosts demand"),
            );
        }
        match root.look(&path) {
            PathKind::Missing => notes.warn(
                Code::ManifestPathMissing,
                manifest,
                format!("`{shown}` does not exist: create it, or remove it from the manifest"),
            ),
            look => {
                if !places.iter().any(|place| place.path == path) {
                    places.push(Location { path, look });
                }
            }
        }
    }
    places
}

/// Whether a location is a directory. Adds a note if it is something else.
pub(crate) fn is_directory(location: &Location, notes: &mut Notes) -> bool {
    let path = label(&location.path);
    match location.look {
        PathKind::Directory => true,
        PathKind::Outside => {
            notes.warn(
                Code::PathEscape,
                &path,
                "is a symlink out of the plugin and is not followed: copy its target",
            );
            false
        }
        PathKind::Unreadable => {
            notes.warn(Code::Unreadable, &path, "cannot be read: check its permissions");
            false
        }
        PathKind::File | PathKind::Special | PathKind::Missing => {
            notes.warn(
                Code::WrongKind,
                &path,
                "is not a directory, so its components are not found: rename it",
            );
            false
        }
    }
}

/// A path of a manifest, relative to the plugin. `None` if it leads outside.
pub(crate) fn resolve(written: &str) -> Option<PathBuf> {
    let written = written.trim().replace('\\', "/");
    let has_drive = written.as_bytes().get(1) == Some(&b':') && written.starts_with(|c: char| c.is_ascii_alphabetic());
    if written.starts_with(['/', '~']) || has_drive || written.contains('\0') || written.is_empty() {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.iter().collect::<PathBuf>()).filter(|path| path.is_relative())
}

/// The last name of a path, for users.
pub(crate) fn last_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for (written, resolved) in [
            ("./skills", Some("skills")),
            ("skills/", Some("skills")),
            ("./a/../b", Some("b")),
            (".\\a\\b", Some("a/b")),
            ("./", Some("")),
            ("../x", None),
            ("./../..", None),
            ("a/../../b", None),
            ("..\\x", None),
            ("/etc", None),
            ("~/x", None),
            ("C:\\x", None),
            ("c:x", None),
            ("", None),
        ] {
            assert_eq!(resolve(written), resolved.map(PathBuf::from), "{written}");
        }
    }
}
