//! The part of the host's environment that every process gets (T15).

use std::collections::BTreeMap;
use std::ffi::OsString;

use innkeeper_std::needed_variables;

use super::Stdio;

/// The environment that every server starts with. The variables of a configuration are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseEnvironment {
    variables: BTreeMap<String, OsString>,
    umask: Option<u32>,
}

impl BaseEnvironment {
    /// Returns the variables that programs need, from the environment of this process.
    pub fn of_process() -> Self {
        Self::of(std::env::vars_os())
    }

    /// Returns the variables that programs need, from a given environment.
    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self {
            variables: needed_variables(variables).collect(),
            umask: None,
        }
    }

    /// Sets the umask of servers; by default it is the one of this process. No effect on Windows.
    #[must_use]
    pub fn with_umask(mut self, umask: u32) -> Self {
        self.umask = Some(umask);
        self
    }

    #[cfg(unix)]
    pub(crate) fn umask(&self) -> Option<u32> {
        self.umask
    }

    /// Returns the whole environment of a server.
    pub(crate) fn with(&self, stdio: &Stdio) -> BTreeMap<String, OsString> {
        let mut all = self.variables.clone();
        for (name, value) in &stdio.env {
            match value {
                Some(value) => all.insert(name.clone(), value.into()),
                None => all.remove(name),
            };
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_a_server_gets_its_configured_variables_and_a_minimal_base() {
        let host = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "s3cr3t"),
            ("LD_PRELOAD", "/evil.so"),
            ("HTTPS_PROXY", "http://user:pass@proxy"),
            ("LANG", "C"),
        ];
        let base = BaseEnvironment::of(host.map(|(name, value)| (name.into(), value.into())));
        let mut stdio = Stdio::new("server", [""; 0]);
        stdio.env.insert("MINE".into(), Some("1".into()));
        stdio.env.insert("LANG".into(), None);
        let seen: Vec<_> = base.with(&stdio).into_keys().collect();
        assert_eq!(seen, ["LC_ALL", "MINE", "PATH"]);
    }
}
