//! Detects the format of a plugin by its manifest (P2).

use std::path::{Path, PathBuf};

use crate::limits::MAX_JSON_BYTES;
use crate::read::json::Document;
use crate::read::scan_root::{PathKind, ScanRoot};
use crate::read::text::decode;

/// The layouts of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Agent Plugins 1.0: a root `plugin.json` with the format's `$schema`.
    AgentPlugin,
    /// Open Plugins: `.plugin/plugin.json`.
    OpenPlugin,
    /// `.claude-plugin/plugin.json`.
    Claude,
    /// `.codex-plugin/plugin.json`.
    Codex,
    /// `.cursor-plugin/plugin.json`.
    Cursor,
    /// `.github/plugin/plugin.json`, or a root `plugin.json` without a `$schema` that we know.
    Copilot,
    /// No manifest, but something where components are by default.
    Bare,
}

impl Format {
    /// The format as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AgentPlugin => "agent-plugin",
            Self::OpenPlugin => "open-plugin",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Copilot => "copilot",
            Self::Bare => "bare",
        }
    }
}

/// The prefix of the `$schema` of an Agent Plugin. It is compared, never fetched.
pub(crate) const SCHEMA_PREFIX: &str = "https://agent-plugins.org/schemas/";

/// The versions of Agent Plugins that this host reads.
pub(crate) const SCHEMA_VERSIONS: &[&str] = &["1.0.0"];

/// Manifests in the order of preference, after an Agent Plugin's. The last two are a spelling that only the
/// documentation of the protocol uses.
pub(crate) const MANIFESTS: &[(&str, Format)] = &[
    (".plugin/plugin.json", Format::OpenPlugin),
    (".claude-plugin/plugin.json", Format::Claude),
    (".codex-plugin/plugin.json", Format::Codex),
    (".cursor-plugin/plugin.json", Format::Cursor),
    (".github/plugin/plugin.json", Format::Copilot),
    ("plugin.json", Format::Copilot),
    (".plugin/plugins.json", Format::OpenPlugin),
    ("plugins.json", Format::OpenPlugin),
];

/// Where components are by default, in any format. One of them makes a directory a plugin.
const DEFAULTS: &[&str] = &[
    "skills",
    "commands",
    "agents",
    "rules",
    "hooks/hooks.json",
    "hooks.json",
    ".mcp.json",
    "mcp.json",
    "SKILL.md",
];

/// The manifest of a plugin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Detected {
    pub(crate) format: Format,
    pub(crate) manifest: Option<PathBuf>,
    /// Manifests of other formats, which are not used.
    pub(crate) others: Vec<PathBuf>,
}

/// Finds the manifest. `None` if the directory is no plugin.
pub(crate) fn detect(root: &ScanRoot) -> Option<Detected> {
    let mut found: Vec<(PathBuf, Format)> = Vec::new();
    for (path, format) in MANIFESTS {
        let path = Path::new(path);
        match root.look(path) {
            PathKind::Missing => {}
            PathKind::File if path == Path::new("plugin.json") && is_agent_plugin(root, path) => {
                found.insert(0, (path.to_owned(), Format::AgentPlugin));
            }
            // A manifest that cannot be read is chosen as well, so that a note says so.
            _ => found.push((path.to_owned(), *format)),
        }
    }
    let mut found = found.into_iter();
    if let Some((manifest, format)) = found.next() {
        return Some(Detected {
            format,
            manifest: Some(manifest),
            others: found.map(|(path, _)| path).collect(),
        });
    }
    let is_bare = DEFAULTS.iter().any(|path| match root.look(Path::new(path)) {
        PathKind::Directory => !path.contains('.'),
        PathKind::File => path.contains('.'),
        _ => false,
    });
    is_bare.then_some(Detected {
        format: Format::Bare,
        manifest: None,
        others: Vec::new(),
    })
}

/// Whether a directory of skills has the manifest of a plugin instead of a skill. A `plugin.json` without a format may
/// belong to another tool.
pub(crate) fn has_manifest(root: &ScanRoot, directory: &Path) -> bool {
    let is_manifest = |manifest: &str| {
        let path = directory.join(manifest);
        match Path::new(manifest)
            .parent()
            .filter(|around| !around.as_os_str().is_empty())
        {
            // Most skills have no such directory, and need no further checks.
            Some(around) => {
                root.look(&directory.join(around)) == PathKind::Directory && root.look(&path) == PathKind::File
            }
            None => root.look(&path) == PathKind::File && is_agent_plugin(root, &path),
        }
    };
    MANIFESTS
        .iter()
        .any(|(manifest, _)| manifest.ends_with("/plugin.json") && is_manifest(manifest))
        || is_manifest("plugin.json")
}

/// Whether a directory is that of a manifest, which is never a plugin itself (P1).
pub(crate) fn is_metadata_directory(path: &Path) -> bool {
    let mut names = path.components().rev().map(|part| part.as_os_str().to_string_lossy());
    let Some(name) = names.next() else { return false };
    let parent = names.next().unwrap_or_default();
    name == ".plugin"
        || (name.starts_with('.') && name.ends_with("-plugin"))
        || (name == "plugin" && parent == ".github")
        || (name == "plugins" && parent == ".agents")
}

/// Whether a `plugin.json` says that it is an Agent Plugin's.
fn is_agent_plugin(root: &ScanRoot, path: &Path) -> bool {
    let Ok(contents) = root.read(path, MAX_JSON_BYTES) else {
        return false;
    };
    let (text, _) = decode(&contents.bytes, contents.is_cut_off());
    let Ok(document) = Document::read(&text) else {
        return false;
    };
    let schema = document.object().get_string("$schema");
    schema.is_some_and(|schema| schema.value.starts_with(SCHEMA_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_manifests_are_no_plugins() {
        for path in [
            "/p/.plugin",
            "/p/.claude-plugin",
            "/p/.github/plugin",
            "/p/.agents/plugins",
        ] {
            assert!(is_metadata_directory(Path::new(path)), "{path}");
        }
        for path in ["/p", "/plugin", "/p/plugins", "/p/my-plugin", "/"] {
            assert!(!is_metadata_directory(Path::new(path)), "{path}");
        }
    }
}
