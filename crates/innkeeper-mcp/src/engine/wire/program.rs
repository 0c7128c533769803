//! The program of a process, and its umask.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use innkeeper_std::{is_kept_by_shells, with_umask};

use crate::engine::config::{BaseEnvironment, Stdio};

/// Returns the program, and the arguments before the server's own.
pub(super) fn line(stdio: &Stdio, base: &BaseEnvironment) -> (PathBuf, Vec<OsString>) {
    let program = program(stdio);
    #[cfg(unix)]
    if let Some(umask) = base.umask()
        && is_there(&program, stdio, base)
        // The environment of a server matters more than its umask.
        && base.with(stdio).keys().all(|name| is_kept_by_shells(name))
    {
        let mut words = with_umask(umask, [program.into_os_string()]).into_iter();
        return (words.next().unwrap_or_default().into(), words.collect());
    }
    #[cfg(not(unix))]
    let _ = base;
    (program, Vec::new())
}

/// Resolves a relative path from the working directory of the server; systems differ in what they do with it. A bare name
/// is looked up in `PATH`.
fn program(stdio: &Stdio) -> PathBuf {
    let command = Path::new(&stdio.command);
    match &stdio.cwd {
        Some(cwd) if command.is_relative() && command.components().count() > 1 => cwd.join(command),
        _ => command.to_owned(),
    }
}

/// Returns true if it can be run. Otherwise it is started without the shell: the error of the system is the best message.
#[cfg(unix)]
fn is_there(program: &Path, stdio: &Stdio, base: &BaseEnvironment) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    let can_run = |path: &Path| {
        let metadata = std::fs::metadata(path);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let has_directory = stdio.cwd.as_ref().is_none_or(|cwd| cwd.is_dir());
    let found = match program.components().count() {
        1 => {
            let path = base.with(stdio).remove("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|directory| can_run(&directory.join(program)))
        }
        _ => can_run(program),
    };
    has_directory && found
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn runnable_programs_get_their_umask_from_a_shell() {
        let base = BaseEnvironment::of([("PATH".into(), "/bin".into())]);
        let with_umask = base.clone().with_umask(0o022);
        let found = Stdio::new("sh", ["-c", "true"]);
        let (program, before) = line(&found, &with_umask);
        assert_eq!(program, Path::new("/bin/sh"));
        assert_eq!(before.first().map(|word| word.as_os_str()), Some("-c".as_ref()));
        assert_eq!(before.get(2..), Some(&["0022".into(), "sh".into()][..]));
        let missing = Stdio::new("no-such-program", [""; 0]);
        let with_name = |name: &str| {
            let mut stdio = found.clone();
            stdio.env.insert(name.to_owned(), Some("value".to_owned()));
            stdio
        };
        assert_eq!(line(&with_name("_My_KEY_2"), &with_umask).1.len(), 4);
        // A shell would not pass these on.
        let (dotted, dashed, digit) = (with_name("npm.config"), with_name("MY-KEY"), with_name("2ND"));
        for (stdio, base) in [
            (&found, &base),
            (&missing, &with_umask),
            (&dotted, &with_umask),
            (&dashed, &with_umask),
            (&digit, &with_umask),
        ] {
            let (program, before) = line(stdio, base);
            assert_eq!((program.to_str(), before.len()), (Some(stdio.command.as_str()), 0));
        }
    }
}
