//! How far tools go.

use std::path::PathBuf;
use std::time::Duration;

/// What tools are set up with.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// How much they read, show and wait.
    pub limits: ToolLimits,
    /// What commands see of the host's environment.
    pub environment: EnvironmentRules,
    /// Files that count as secrets whatever they are called, such as those that hold the host's keys.
    pub secret_files: Vec<PathBuf>,
    /// The permissions that files, directories and commands of people go without, if they are
    /// others than those of the host's own process: a host that keeps its own files to itself must
    /// not make a project's files private.
    pub umask: Option<u32>,
    /// Whether there is `fetch_url`, and what it may reach. Nothing, unless somebody says so.
    pub fetch: Option<FetchSettings>,
}

/// How much tools read, show and wait, so that no call floods a model, a client or the machine.
#[derive(Debug, Clone, Copy)]
pub struct ToolLimits {
    /// Most lines that `read_file` gives at once.
    pub read_lines: usize,
    /// Most bytes that `read_file` gives at once.
    pub read_bytes: usize,
    /// Longest line that is shown whole, in characters.
    pub line_chars: usize,
    /// Largest picture that a model looks at, in bytes.
    pub image_bytes: u64,
    /// Largest file that can be changed, in bytes.
    pub change_bytes: u64,
    /// Longest file of which a snapshot is kept before and after a change, in bytes; of longer ones clients see only
    /// the file as it is.
    pub side_bytes: usize,
    /// Longest diff that a result shows, in bytes.
    pub diff_bytes: usize,
    /// Most entries that `list_directory` gives.
    pub list_entries: usize,
    /// Most files that `glob` gives.
    pub glob_files: usize,
    /// Most entries of a tree that `glob` and `search` look at.
    pub walk_entries: usize,
    /// Most lines that match which `search` gives.
    pub search_matches: usize,
    /// Most bytes that `search` gives.
    pub search_bytes: usize,
    /// How long `search` and `glob` look.
    pub search_time: Duration,
    /// How long a command runs when the model does not say.
    pub command_time: Duration,
    /// How long a command runs at most.
    pub command_time_max: Duration,
    /// How much of a command's output is kept from its beginning, in bytes.
    pub output_head: usize,
    /// How much of a command's output is kept from its end, in bytes.
    pub output_tail: usize,
    /// How much of a command's output is kept beside the turn where the turn has no room for all of it, in bytes.
    pub output_kept: usize,
    /// How soon people see new output of a command; of a long one they see it less often.
    pub output_pace: Duration,
    /// How often a command without output says that it is still at work.
    pub alive_pace: Duration,
    /// Most bytes that `fetch_url` reads.
    pub fetch_bytes: usize,
    /// How long `fetch_url` waits.
    pub fetch_time: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            read_lines: 2000,
            read_bytes: 96 << 10,
            line_chars: 2000,
            // In base64 it has 5 MB, which is the most that providers take.
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
            // Well before people are told that nothing is heard of the agent.
            alive_pace: Duration::from_secs(20),
            fetch_bytes: 256 << 10,
            fetch_time: Duration::from_secs(30),
        }
    }
}

/// What commands see of the host's environment: all of it, except what looks like a secret, by its
/// name or because it is an address with a password.
///
/// It keeps secrets out of logs, output and careless programs. It is no wall: a command that wants
/// to can look for them elsewhere, which is why people are asked.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentRules {
    /// Variables that commands see although they look like secrets.
    pub show: Vec<String>,
    /// Further variables that commands do not see.
    pub hide: Vec<String>,
}

/// What `fetch_url` may reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct FetchSettings {
    /// Whether addresses of this machine and of private networks are allowed.
    pub allow_private_addresses: bool,
}
