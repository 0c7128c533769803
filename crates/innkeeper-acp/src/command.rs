//! The command line and the environment of an agent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use innkeeper_std::{is_kept_by_shells, needed_variables, with_umask};

/// How an agent is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables in addition to those that every program needs.
    pub variables: BTreeMap<String, String>,
    /// The environment of the host, of which agents get the little that programs need (T15).
    pub host_environment: Vec<(OsString, OsString)>,
    /// Names of further variables of the host that the agent gets, such as those with its key.
    pub passed: Vec<String>,
    /// Permissions that new files of the agent lack; `None` uses the umask of the process.
    pub umask: Option<u32>,
}

impl AgentCommand {
    /// Returns the whole environment of the agent.
    pub(crate) fn environment(&self) -> BTreeMap<String, OsString> {
        let mut all: BTreeMap<String, OsString> = needed_variables(self.host_environment.iter().cloned()).collect();
        for (name, value) in &self.host_environment {
            if let Some(name) = name
                .to_str()
                .filter(|name| self.passed.iter().any(|passed| passed == name))
            {
                all.insert(name.to_owned(), value.clone());
            }
        }
        all.extend(self.variables.iter().map(|(name, value)| (name.clone(), value.into())));
        all
    }

    /// Returns the path of the program, if it can be run.
    pub fn find(&self) -> Option<PathBuf> {
        if self.program.components().count() > 1 {
            return can_run(&self.program).then(|| self.program.clone());
        }
        let path = self.environment().remove("PATH")?;
        find_in(&self.program, &path)
    }

    /// Returns the program to start and its arguments.
    pub(crate) fn line(&self) -> (OsString, Vec<OsString>) {
        let program = self.find().unwrap_or_else(|| self.program.clone());
        let words = self.arguments.iter().map(OsString::from);
        let words = std::iter::once(program.clone().into_os_string()).chain(words);
        let umask = self.umask.filter(|_| {
            // The error of the system is the best message about a missing program, and the environment matters more than
            // the umask.
            can_run(&program) && self.environment().keys().all(|name| is_kept_by_shells(name))
        });
        let mut line = match umask {
            Some(umask) => with_umask(umask, words),
            None => words.collect(),
        };
        let program = line.remove(0);
        (program, line)
    }
}

/// Finds a program in a list of directories.
pub(crate) fn find_in(program: &Path, path: &OsString) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|path| can_run(path))
}

fn can_run(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    #[cfg(unix)]
    let is_executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let is_executable = true;
    metadata.is_file() && is_executable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_an_agent_gets_needed_and_named_variables_only() {
        let host = [
            ("PATH", "/bin"),
            ("GOOGLE_KEY", "g"),
            ("OPENAI_KEY", "o"),
            ("LD_PRELOAD", "/evil.so"),
        ];
        let command = AgentCommand {
            program: "sh".into(),
            variables: BTreeMap::from([("MODE".to_owned(), "ask".to_owned())]),
            host_environment: host.map(|(name, value)| (name.into(), value.into())).to_vec(),
            passed: vec!["OPENAI_KEY".to_owned()],
            ..AgentCommand::default()
        };
        let environment = command.environment();
        let names: Vec<&str> = environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["MODE", "OPENAI_KEY", "PATH"]);
        assert_eq!(command.find(), Some(PathBuf::from("/bin/sh")));
    }
}
