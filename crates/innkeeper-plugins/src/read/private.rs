//! Files that are never shown to clients: settings, MCP servers and manifests, because they can contain keys (CUS-27).

use std::path::Path;

use crate::containers::directory::Scope;
use crate::containers::well_known::files;
use crate::formats::detect::{Format, MANIFESTS};
use crate::formats::locations::defaults;
use crate::formats::marketplace::INDEXES;

/// Whether a file has the name of settings, of a file of MCP servers, or of a manifest, wherever it lies.
///
/// The name decides, and not the content: the file of a server that could not be parsed has secrets too.
/// Where names of files have no case, neither have these.
///
/// ```
/// use innkeeper_plugins::is_private;
///
/// assert!(is_private(".claude/settings.json".as_ref()));
/// assert!(!is_private("skills/greet/SKILL.md".as_ref()));
/// ```
pub fn is_private(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let has_name = |known: &str| last_name(known).eq_ignore_ascii_case(&name.to_string_lossy());
    let of_scopes = [Scope::Workspace, Scope::User].map(files);
    let loose = of_scopes
        .iter()
        .flat_map(|files| files.settings.iter().chain(files.servers));
    let formats = MANIFESTS.iter().map(|(_, format)| *format);
    let servers = formats
        .chain([Format::AgentPlugin, Format::Bare])
        .flat_map(|format| defaults(format).mcp_servers);
    let manifests = MANIFESTS.iter().map(|(path, _)| path);
    let mut known = loose.chain(servers).chain(manifests).chain(INDEXES);
    known.any(|known| has_name(known))
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cus27_names_of_settings_servers_and_manifests_are_private_everywhere() {
        for path in [
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".copilot/mcp-config.json",
            ".mcp.json",
            "mcp.json",
            "skills/mend/MCP.json",
            "plugin.json",
            ".claude-plugin/plugin.json",
            "plugins.json",
            ".claude-plugin/marketplace.json",
        ] {
            assert!(is_private(Path::new(path)), "{path}");
        }
        for path in [
            "",
            "SKILL.md",
            "hooks/hooks.json",
            ".claude/CLAUDE.md",
            "settings.json/x.md",
        ] {
            assert!(!is_private(Path::new(path)), "{path}");
        }
    }
}
