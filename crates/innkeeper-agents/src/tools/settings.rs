//! Settings and limits of the tools.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of the tools.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// Limits.
    pub limits: ToolLimits,
    /// Which environment variables commands inherit.
    pub environment: EnvironmentRules,
    /// Files that are secrets regardless of their names, such as those with the host's keys.
    pub secret_files: Vec<PathBuf>,
    /// Umask for files, directories and commands, if it differs from the process's. The host's own files are private,
    /// but a project's files must not become so.
    pub umask: Option<u32>,
    /// Settings of `fetch_url`; `None` disables it.
    pub fetch: Option<FetchSettings>,
}

/// Limits that protect the model, the clients and the machine from a single call.
#[derive(Debug, Clone, Copy)]
pub struct ToolLimits {
    /// Maximum lines per `read_file`.
    pub read_lines: usize,
    /// Maximum bytes per `read_file`.
    pub read_bytes: usize,
    /// Maximum characters of a line before it is truncated.
    pub line_chars: usize,
    /// Maximum bytes of an image for the model.
    pub image_bytes: u64,
    /// Maximum bytes of a file that can be changed.
    pub change_bytes: u64,
    /// Maximum bytes of a file whose content before and after a change is stored. For larger files clients see only
    /// the current file.
    pub side_bytes: usize,
    /// Maximum bytes of a diff in a result.
    pub diff_bytes: usize,
    /// Maximum entries per `list_directory`.
    pub list_entries: usize,
    /// Maximum files per `glob`.
    pub glob_files: usize,
    /// Maximum entries that `glob` and `search` visit.
    pub walk_entries: usize,
    /// Maximum matching lines per `search`.
    pub search_matches: usize,
    /// Maximum bytes per `search`.
    pub search_bytes: usize,
    /// Timeout of `search` and `glob`.
    pub search_time: Duration,
    /// How long a command is waited for by default. Then it goes on in the background; without a terminal, it ends.
    pub command_time: Duration,
    /// How long a command may be waited for at most.
    pub command_time_max: Duration,
    /// Bytes of a command's output that the turn keeps from the start.
    pub output_head: usize,
    /// Bytes of a command's output that the turn keeps from the end.
    pub output_tail: usize,
    /// Maximum bytes of a command's output that are stored beside the turn if the turn truncates it.
    pub output_kept: usize,
    /// Initial interval between updates of a command's output. It grows with the running time.
    pub output_pace: Duration,
    /// Interval at which a silent command reports that it is alive.
    pub alive_pace: Duration,
    /// Maximum bytes that `fetch_url` reads.
    pub fetch_bytes: usize,
    /// Timeout of `fetch_url`.
    pub fetch_time: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            read_lines: 2000,
            read_bytes: 96 << 10,
            line_chars: 2000,
            // 5 MB in base64, the most that providers accept.
            image_bytes: 3_750_000,
            change_bytes: 4 << 20,
            side_bytes: 1 << 20,
            diff_bytes: 16 << 10,
            list_entries: 1000,
            glob_files: 200,
            walk_entries: 500_000,
            search_matches: 200,
            search_bytes: 48 << 10,
            search_time: Duration::from_secs(20),
            command_time: Duration::from_secs(120),
            command_time_max: Duration::from_secs(600),
            output_head: 12 << 10,
            output_tail: 20 << 10,
            output_kept: 4 << 20,
            output_pace: Duration::from_millis(250),
            // Well below the watchdog's limit.
            alive_pace: Duration::from_secs(20),
            fetch_bytes: 256 << 10,
            fetch_time: Duration::from_secs(30),
        }
    }
}

/// Which environment variables commands inherit: those that every program needs, such as `PATH` and `HOME`, and those
/// that are passed on.
///
/// This keeps secrets out of logs, output and careless programs. It is not a security boundary: a malicious command
/// can find them elsewhere, which is why commands need confirmation.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentRules {
    /// Names of further variables to inherit. A `*` stands for any characters; such a pattern passes no variable that
    /// looks like a secret, by its name or because its value is a URL with a password.
    pub pass: Vec<String>,
    /// Variables that are never inherited, even if they are passed on by name.
    pub hide: Vec<String>,
}

/// Settings of `fetch_url`.
#[derive(Debug, Clone, Copy, Default)]
pub struct FetchSettings {
    /// Whether local and private addresses are allowed.
    pub allow_private_addresses: bool,
}
