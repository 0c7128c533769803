//! The `[terminals]` section: the shell of terminals and its environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use innkeeper_terminals::ShellSettings;
use serde::Deserialize;

/// The keys of `[terminals]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct TerminalsSection {
    /// Whether clients may open terminals, and agents run their commands in them.
    pub(crate) enabled: bool,
    /// The shell; if absent, the login shell of the user.
    pub(crate) shell: Option<PathBuf>,
    /// Arguments of the shell; with any, it starts with these alone and does not report its commands.
    pub(crate) arguments: Vec<String>,
    /// Variables for shells in addition to those that every program needs.
    pub(crate) env: BTreeMap<String, String>,
    /// Names of variables of the host that shells get as well.
    pub(crate) pass_env: Vec<String>,
    /// Whether shells are told to report their commands.
    pub(crate) shell_integration: bool,
    /// The directory of terminals that name none; if absent, the home directory.
    pub(crate) directory: Option<PathBuf>,
    /// Whether commands of agents have pseudo-terminals; without one their output is plain text.
    pub(crate) agent_pty: bool,
}

impl Default for TerminalsSection {
    fn default() -> Self {
        Self {
            enabled: true,
            shell: None,
            arguments: Vec::new(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            shell_integration: true,
            directory: None,
            agent_pty: true,
        }
    }
}

impl TerminalsSection {
    /// Returns the settings of shells, unless terminals are off.
    pub(crate) fn settings(&self, umask: u32) -> Option<ShellSettings> {
        if !self.enabled {
            return None;
        }
        let passed = self.pass_env.iter().filter_map(|name| {
            let value = std::env::var(name).ok()?;
            Some((name.clone(), value))
        });
        let own = self.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let home = || std::env::var_os("HOME").map(PathBuf::from);
        Some(ShellSettings {
            program: self.shell.clone(),
            arguments: self.arguments.clone(),
            environment: passed.chain(own).collect(),
            integration: self.shell_integration,
            directory: self.directory.clone().or_else(home).unwrap_or_else(|| "/".into()),
            umask: Some(umask),
            agent_pty: self.agent_pty,
            host_environment: std::env::vars_os().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_on_until_they_are_switched_off() {
        let settings = TerminalsSection::default().settings(0o022);
        assert!(settings.is_some_and(|settings| settings.integration));
        let off = TerminalsSection {
            enabled: false,
            ..TerminalsSection::default()
        };
        assert!(off.settings(0o022).is_none());
    }
}
