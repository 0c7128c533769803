//! Which shell runs in a terminal, and how it is told to report its commands.
//!
//! Shells report prompts and commands with OSC 633, which VS Code defined, and a nonce that only they know. The scripts
//! that make them do so are read in addition to the user's own start files. A shell without a script still works.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use innkeeper_std::{needed_variables, with_umask};

const BASH: &str = include_str!("shell/bash.sh");
const FISH: &str = include_str!("shell/fish.fish");
const POWERSHELL: &str = include_str!("shell/powershell.ps1");
const ZSH_ENV: &str = include_str!("shell/zshenv.zsh");
const ZSH_PROFILE: &str = include_str!("shell/zprofile.zsh");
const ZSH_RC: &str = include_str!("shell/zshrc.zsh");
const ZSH_LOGIN: &str = include_str!("shell/zlogin.zsh");

/// The variable with the nonce. Scripts remove it from the environment before the first prompt.
const NONCE: &str = "INNKEEPER_NONCE";
/// The variable that tells a script to read the start files of a login shell.
const LOGIN: &str = "INNKEEPER_SHELL_LOGIN";

/// The variables that decide about the encoding of text.
const ENCODING: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// The shell of terminals and its environment.
#[derive(Debug, Clone)]
pub struct ShellSettings {
    /// The program; `None` is the user's login shell.
    pub program: Option<PathBuf>,
    /// Arguments; with any, the shell starts with these alone and without command detection.
    pub arguments: Vec<String>,
    /// Variables for the shell in addition to those that every program needs.
    pub environment: Vec<(String, String)>,
    /// Whether shells are told to report their commands.
    pub integration: bool,
    /// The directory of terminals that name none.
    pub directory: PathBuf,
    /// Permissions that files of shells lack; `None` uses the umask of the process.
    pub umask: Option<u32>,
    /// Whether commands of agents have pseudo-terminals; without one their output is plain text.
    pub agent_pty: bool,
    /// The environment of the host, of which shells get the little that programs need.
    pub host_environment: Vec<(OsString, OsString)>,
}

/// The scripts on disk, readable by the user alone, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Scripts {
    directory: tempfile::TempDir,
}

/// A shell that is ready to start.
#[derive(Debug)]
pub(crate) struct ShellLine {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// The kinds of shell that a script exists for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellKind {
    Bash,
    Zsh,
    Fish,
    PowerShell,
    Other,
}

impl ShellKind {
    fn of(program: &Path) -> Self {
        let name = program.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "bash" => Self::Bash,
            "zsh" => Self::Zsh,
            "fish" => Self::Fish,
            "pwsh" | "powershell" => Self::PowerShell,
            _ => Self::Other,
        }
    }
}

impl Scripts {
    /// Writes the scripts.
    pub(crate) fn write() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("innkeeper-shell-").tempdir()?;
        let zsh = directory.path().join("zsh");
        std::fs::create_dir(&zsh)?;
        for (path, script) in [
            (directory.path().join("bash.sh"), BASH),
            (directory.path().join("fish.fish"), FISH),
            (directory.path().join("powershell.ps1"), POWERSHELL),
            (zsh.join(".zshenv"), ZSH_ENV),
            (zsh.join(".zprofile"), ZSH_PROFILE),
            (zsh.join(".zshrc"), ZSH_RC),
            (zsh.join(".zlogin"), ZSH_LOGIN),
        ] {
            std::fs::write(path, script)?;
        }
        Ok(Self { directory })
    }
}

impl ShellSettings {
    /// Returns the program of the shell: the configured one, the user's login shell, or `sh`.
    pub(crate) fn shell(&self) -> PathBuf {
        let login = || {
            let mut variables = self.host_environment.iter();
            let shell = variables.find(|(name, _)| name == "SHELL").map(|(_, value)| value);
            shell.filter(|shell| Path::new(shell).is_absolute()).map(PathBuf::from)
        };
        self.program.clone().or_else(login).unwrap_or_else(|| "/bin/sh".into())
    }

    /// Returns the line that starts the shell so that it reports its commands.
    pub(crate) fn line(&self, scripts: Option<&Scripts>, nonce: &str) -> ShellLine {
        let program = self.shell();
        let kind = match scripts {
            Some(_) if self.integration && self.arguments.is_empty() => ShellKind::of(&program),
            _ => ShellKind::Other,
        };
        let mut line = ShellLine {
            environment: self.environment(),
            arguments: self.arguments.iter().map(OsString::from).collect(),
            program: program.into(),
        };
        let directory = scripts.map_or_else(|| Path::new(""), |scripts| scripts.directory.path());
        let mut set = |name: &str, value: &OsStr| line.environment.push((name.into(), value.into()));
        if kind != ShellKind::Other {
            set(NONCE, OsStr::new(nonce));
        }
        match kind {
            ShellKind::Bash => {
                set(LOGIN, OsStr::new("1"));
                let script = directory.join("bash.sh");
                line.arguments = vec!["--init-file".into(), script.into(), "-i".into()];
            }
            ShellKind::Zsh => {
                let own = line.environment.iter().find(|(name, _)| name == "ZDOTDIR");
                let own = own.map(|(_, value)| value.clone());
                if let Some(own) = own {
                    line.environment.push(("INNKEEPER_ZDOTDIR".into(), own));
                }
                line.environment.retain(|(name, _)| name != "ZDOTDIR");
                line.environment.push(("ZDOTDIR".into(), directory.join("zsh").into()));
                line.arguments = vec!["-i".into(), "-l".into()];
            }
            ShellKind::Fish => {
                let script = directory.join("fish.fish");
                let mut source = OsString::from("source ");
                source.push(quoted_for_fish(&script));
                line.arguments = vec![
                    "--login".into(),
                    "--interactive".into(),
                    "--init-command".into(),
                    source,
                ];
            }
            ShellKind::PowerShell => {
                let script = directory.join("powershell.ps1");
                line.arguments = vec![
                    "-NoLogo".into(),
                    "-NoExit".into(),
                    "-ExecutionPolicy".into(),
                    "Bypass".into(),
                    "-File".into(),
                    script.into(),
                ];
            }
            ShellKind::Other if line.arguments.is_empty() => line.arguments = vec!["-l".into()],
            ShellKind::Other => {}
        }
        if let Some(umask) = self.umask {
            let words = std::iter::once(line.program).chain(line.arguments);
            let mut words = with_umask(umask, words).into_iter();
            line.program = words.next().unwrap_or_default();
            line.arguments = words.collect();
        }
        line
    }

    /// Returns the environment of a shell: no secret of the host is in it.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let needed = needed_variables(self.host_environment.iter().cloned());
        let mut environment: Vec<(OsString, OsString)> = needed
            .filter(|(name, _)| name != "TERM")
            .map(|(name, value)| (name.into(), value))
            .collect();
        for (name, value) in terminal_variables() {
            environment.push((name.into(), value.into()));
        }
        // The protocol carries UTF-8, also if the host was started without a locale.
        let decides_about_encoding = |(name, _): &(OsString, OsString)| ENCODING.iter().any(|known| name == known);
        if !environment.iter().any(decides_about_encoding) {
            environment.push(("LANG".into(), "C.UTF-8".into()));
        }
        for (name, value) in &self.environment {
            environment.retain(|(known, _)| known != name.as_str());
            environment.push((name.into(), value.into()));
        }
        environment
    }
}

/// The variables that tell programs which terminal they run in.
pub(crate) fn terminal_variables() -> [(&'static str, &'static str); 3] {
    [
        ("TERM", "xterm-256color"),
        ("COLORTERM", "truecolor"),
        ("TERM_PROGRAM", "innkeeper"),
    ]
}

/// The variables that tell programs that they run in no terminal: no colours and no questions.
pub(crate) fn plain_text_variables() -> [(&'static str, &'static str); 3] {
    [("TERM", "dumb"), ("NO_COLOR", "1"), ("GIT_TERMINAL_PROMPT", "0")]
}

fn quoted_for_fish(path: &Path) -> OsString {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{path}'").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(shell: &str) -> ShellSettings {
        let host = [
            ("SHELL", shell),
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "s3cr3t"),
            ("TERM", "dumb"),
        ];
        ShellSettings {
            program: None,
            arguments: Vec::new(),
            environment: vec![("EDITOR".to_owned(), "vi".to_owned())],
            integration: true,
            directory: "/".into(),
            umask: None,
            agent_pty: true,
            host_environment: host.map(|(name, value)| (name.into(), value.into())).to_vec(),
        }
    }

    fn value(line: &ShellLine, name: &str) -> Option<OsString> {
        let found = line.environment.iter().filter(|(known, _)| known == name);
        let found: Vec<_> = found.collect();
        assert!(found.len() <= 1, "{name} is there once");
        found.first().map(|(_, value)| value.clone())
    }

    #[test]
    fn t15_a_shell_gets_no_secret_of_the_host() {
        let line = settings("/bin/bash").line(None, "n");
        assert_eq!(value(&line, "OPENAI_API_KEY"), None);
        assert_eq!(value(&line, "PATH"), Some("/bin".into()));
        assert_eq!(value(&line, "EDITOR"), Some("vi".into()));
        assert_eq!(value(&line, "TERM"), Some("xterm-256color".into()));
        assert_eq!(value(&line, "LANG"), Some("C.UTF-8".into()));
        let mut with_locale = settings("/bin/bash");
        with_locale
            .host_environment
            .push(("LC_ALL".into(), "de_DE.UTF-8".into()));
        assert_eq!(value(&with_locale.line(None, "n"), "LANG"), None);
    }

    #[test]
    fn the_login_shell_of_the_user_is_the_default() {
        assert_eq!(settings("/usr/bin/zsh").shell(), Path::new("/usr/bin/zsh"));
        assert_eq!(settings("relative").shell(), Path::new("/bin/sh"));
        let mut chosen = settings("/usr/bin/zsh");
        chosen.program = Some("/bin/dash".into());
        let line = chosen.line(None, "n");
        assert_eq!((line.program, line.arguments), ("/bin/dash".into(), vec!["-l".into()]));
        chosen.umask = Some(0o022);
        let line = chosen.line(None, "n");
        assert_eq!(line.program, "/bin/sh");
        assert_eq!(line.arguments[2..], ["0022", "/bin/dash", "-l"]);
    }

    /// PowerShell cannot be installed everywhere, so that its script is judged by its text. `command_detection.rs` of the
    /// program has a shell that prints what the script makes PowerShell print.
    #[test]
    fn the_script_of_powershell_reports_with_the_nonce_and_escapes() {
        let report = |kind: &str| {
            let at = POWERSHELL.find(&format!("$Esc]633;{kind};"));
            let at = at.unwrap_or_else(|| panic!("a report {kind}"));
            let end = POWERSHELL[at..].find("$Bell").expect("a terminator");
            (at, &POWERSHELL[at..at + end])
        };
        for kind in ["A", "B", "C", "D", "E", "P"] {
            let (_, text) = report(kind);
            assert!(text.ends_with(";$Nonce"), "{text}");
        }
        assert_eq!(POWERSHELL.matches("]633;").count(), 6);
        // The end of a command, the directory, and the prompt between its marks; then the line before its command.
        let order = ["D", "P", "A", "B"].map(|kind| report(kind).0);
        assert!(order.is_sorted(), "{order:?}");
        let prompt = POWERSHELL
            .find("$Global:__InnkeeperPrompt.Invoke()")
            .expect("the user's prompt");
        assert!(report("A").0 < prompt && prompt < report("B").0);
        assert!(report("E").0 < report("C").0);
        // Texts of users are escaped, and the nonce is not left to programs.
        for text in [
            "E;$(__Innkeeper-Escape \"$Line\")",
            "P;Cwd=$(__Innkeeper-Escape $PWD.ProviderPath)",
        ] {
            assert!(POWERSHELL.contains(text), "{text}");
        }
        assert!(POWERSHELL.contains(r#"[regex]::Replace($Text, "[\\\x00-\x1f;]""#));
        assert!(POWERSHELL.contains("'\\x{0:x2}' -f $_"));
        let (_, after) = POWERSHELL
            .split_once("$env:INNKEEPER_NONCE = $null")
            .expect("it is removed");
        assert!(!after.contains("$env:INNKEEPER_NONCE"));
    }

    #[test]
    fn known_shells_read_a_script_and_others_do_not() {
        let scripts = Scripts::write().expect("a directory");
        for (shell, argument) in [
            ("/bin/bash", "--init-file"),
            ("/usr/bin/zsh", "-l"),
            ("/usr/bin/fish", "--init-command"),
            ("/usr/bin/pwsh", "-File"),
        ] {
            let line = settings(shell).line(Some(&scripts), "n0nce");
            assert!(line.arguments.iter().any(|given| given == argument), "{line:?}");
            assert_eq!(value(&line, NONCE), Some("n0nce".into()));
        }
        let line = settings("/bin/dash").line(Some(&scripts), "n0nce");
        assert_eq!((line.arguments.len(), value(&line, NONCE)), (1, None));
        let mut plain = settings("/bin/bash");
        plain.arguments = vec!["--norc".to_owned()];
        let line = plain.line(Some(&scripts), "n0nce");
        assert_eq!(line.arguments, ["--norc"]);
        assert_eq!(value(&line, NONCE), None);
    }
}
