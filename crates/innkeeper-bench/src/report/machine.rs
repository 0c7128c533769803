//! The machine a benchmark ran on, for the record next to the figures.

use std::{fs, thread};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

/// The facts about a machine that absolute figures depend on.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// Processors that this process may use.
    cores: usize,
    /// The processor's name as the kernel reports it.
    cpu: Option<String>,
    /// The kernel's release.
    kernel: Option<String>,
    /// When the run ended, in UTC.
    date: String,
}

impl Machine {
    /// Describes this machine, now.
    pub(crate) fn current() -> Self {
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            cpu: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(cpu_model),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|release| release.trim().to_owned()),
            date: jiff::Timestamp::now().to_string(),
        }
    }
}

/// Raises the limit of open files of this process to its maximum and checks that it suffices.
pub(crate) fn allow_open_files(wanted: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
    .context("cannot raise the limit of open files")?;
    if let Some(maximum) = limit.maximum
        && maximum < wanted
    {
        anyhow::bail!(
            "this run needs {wanted} open files and the system allows {maximum}; raise the hard \
             limit (`ulimit -Hn`) or ask for fewer connections"
        );
    }
    Ok(())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_named() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Fast CPU @ 3 GHz"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }

    #[test]
    fn too_many_open_files_are_refused_with_advice() {
        let refused = allow_open_files(u64::MAX);
        if let Err(error) = refused {
            assert!(error.to_string().contains("ulimit"), "{error}");
        }
        allow_open_files(16).unwrap();
    }
}
