//! The configuration file `innkeeper.toml`. The file overrides defaults, and flags override the file.

mod agents;
mod customizations;
mod limits;
mod mcp;
mod models;
mod resources;
mod retention;
mod telemetry;
mod terminals;
mod unknown_keys;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use innkeeper_customizations::SourceDirectories;
use innkeeper_host::Limits;
use serde::Deserialize;

use crate::address::ListenAddress;
use crate::mcp_tokens::{self, TokenPersistence};
use crate::origin::Origin;
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal;

pub(crate) use agents::AgentSection;
use customizations::CustomizationsSection;
pub(crate) use limits::apply_test_variable;
use limits::{FixedLimits, LimitsSection};
pub(crate) use mcp::McpSection;
pub(crate) use mcp::servers::ServerSection;
pub(crate) use models::{ApiName, ModelConfig, Models, ProviderConfig};
use resources::ResourcesSection;
pub(crate) use resources::writable;
pub(crate) use retention::Retention;
use telemetry::TelemetrySection;
pub(crate) use terminals::TerminalsSection;

/// The keys of `innkeeper.toml`. Paths are relative to the file's directory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigFile {
    /// Address to listen on, like `--listen`.
    pub(crate) listen: Option<ListenAddress>,
    /// Unix socket to listen on, like `--unix`.
    pub(crate) unix: Option<PathBuf>,
    /// Data directory, like `--data`.
    pub(crate) data: Option<PathBuf>,
    /// Token file, like `--token-file`.
    pub(crate) token_file: Option<PathBuf>,
    /// File with the token of scope drive.
    pub(crate) drive_token_file: Option<PathBuf>,
    /// File with the token of scope view.
    pub(crate) view_token_file: Option<PathBuf>,
    /// Origins of browser clients, like `--allow-origin`; flags add to them.
    pub(crate) allow_origin: Vec<Origin>,
    /// Names of the host, like `--allow-host`; flags add to them.
    pub(crate) allow_host: Vec<String>,
    /// Sections of system prompts that no client may rewrite; if absent, the agents decide.
    pub(crate) restricted_sections: Option<Vec<String>>,
    /// The log filter, like `--log`.
    pub(crate) log: Option<String>,
    /// Whether well-known agents that are installed are offered; they are, if absent.
    pub(crate) discover_agents: Option<bool>,
    /// Limits of the host.
    pub(crate) limits: LimitsSection,
    /// The sessions that may be deleted.
    pub(crate) retention: Retention,
    /// The model APIs of the coding agent.
    pub(crate) models: Models,
    /// The files that clients may access besides those of their sessions.
    pub(crate) resources: ResourcesSection,
    /// The sources of plugins, skills, agents, rules and hooks.
    pub(crate) customizations: CustomizationsSection,
    /// Whether and how MCP servers run.
    pub(crate) mcp: McpSection,
    /// The telemetry for clients.
    pub(crate) telemetry: TelemetrySection,
    /// The terminals of clients and agents.
    pub(crate) terminals: TerminalsSection,
    /// Agents that are programs of their own, by name.
    pub(crate) agents: BTreeMap<String, AgentSection>,
    /// The absolute path of the file.
    #[serde(skip)]
    pub(crate) file: Option<PathBuf>,
}

/// A configuration file that was read.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// Its content.
    pub(crate) config: ConfigFile,
    /// Its path, if there is a file.
    pub(crate) path: Option<PathBuf>,
    /// Warnings about it.
    pub(crate) warnings: Vec<String>,
}

impl ConfigFile {
    /// Reads the file named by `--config`, or the platform's default one if it exists, and warns about unknown keys.
    pub(crate) fn load(args: &CommonArgs) -> Result<Self, Failure> {
        let examined = Self::examine(args)?;
        for warning in examined.warnings {
            terminal::warn(&warning);
        }
        Ok(examined.config)
    }

    /// Reads the same file, and returns the warnings to the caller.
    pub(crate) fn examine(args: &CommonArgs) -> Result<Examined, Failure> {
        let (path, text) = match &args.config {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
                (path.clone(), text)
            }
            None => {
                let Some(path) = default_path() else {
                    return Ok(Examined::default());
                };
                match fs::read_to_string(&path) {
                    Ok(text) => (path, text),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Ok(Examined::default());
                    }
                    Err(error) => return Err(unreadable(&path, &error)),
                }
            }
        };
        let (config, warnings) = Self::parse(&path, &text)?;
        Ok(Examined {
            config,
            path: Some(path),
            warnings,
        })
    }

    /// Returns whether tokens of MCP servers are persisted, and the path of their key.
    pub(crate) fn token_persistence(&self) -> TokenPersistence {
        if !self.mcp.keep_tokens {
            return TokenPersistence::Off;
        }
        let beside = || {
            let file = self.file.clone().or_else(default_path);
            file.map(|path| path.with_file_name(mcp_tokens::KEY_NAME))
        };
        let key = self.mcp.token_key_file.clone().or_else(beside);
        key.map_or(TokenPersistence::NoKeyFile, TokenPersistence::Encrypted)
    }

    /// Returns the environment files of MCP servers, except for paths with variables.
    pub(crate) fn env_files(&self) -> Vec<PathBuf> {
        let base = self.file.as_deref().and_then(Path::parent);
        let base = base.unwrap_or_else(|| Path::new(""));
        let files = self.mcp.env_files().filter(|file| !file.contains("${"));
        files.map(|file| base.join(file)).collect()
    }

    /// Returns the data directory: of the flag, else of the file, else of the platform.
    pub(crate) fn data_dir(&self, args: &CommonArgs) -> Result<PathBuf, Failure> {
        match args.data.as_ref().or(self.data.as_ref()) {
            Some(path) => Ok(path.clone()),
            None => innkeeper_cli::discovery::default_data_dir(),
        }
    }

    /// Returns the sources of customizations besides workspaces and clients, or nothing if customizations are off.
    pub(crate) fn sources(&self) -> Option<SourceDirectories> {
        let servers = self.file.as_deref().map(|file| self.mcp.declared(file));
        let directories = self.customizations.directories()?;
        Some(SourceDirectories {
            servers: servers.unwrap_or_default(),
            ..directories
        })
    }

    fn parse(path: &Path, text: &str) -> Result<(Self, Vec<String>), Failure> {
        let broken = |position: usize, problem: &str| {
            let line = line_of(text, position);
            Failure::new(Kind::Config, format!("{}:{line}: {problem}", path.display()))
                .hint("correct that line, or start with another file by --config FILE")
        };
        let refused = |error: toml::de::Error| {
            // The library's message can have several lines; ours has one.
            let problem = error.message().lines().collect::<Vec<_>>().join(", ");
            broken(error.span().map_or(0, |span| span.start), &problem)
        };
        let table = toml::de::DeTable::parse(text).map_err(refused)?;
        let warnings = unknown_keys::find(table.get_ref())
            .into_iter()
            .map(|unknown| {
                let line = line_of(text, unknown.position);
                format!("{}:{line}: {}", path.display(), unknown.describe())
            })
            .collect();
        let mut config: Self = toml::from_str(text).map_err(refused)?;
        config.limits.apply(&mut Limits::default()).map_err(|(key, problem)| {
            let position = unknown_keys::position(table.get_ref(), LIMITS, key);
            broken(position, &format!("`{key}` {problem}"))
        })?;
        config.retention.check().map_err(|(key, problem)| {
            let position = unknown_keys::position(table.get_ref(), RETENTION, key);
            broken(position, &format!("`{key}` {problem}"))
        })?;
        config.models.check().map_err(|(key, problem)| {
            let position = unknown_keys::position(table.get_ref(), MODELS, key);
            broken(position, &format!("`{key}` {problem}"))
        })?;
        config.mcp.check().map_err(|(name, problem)| {
            let mut sections = mcp::servers::sections(table.get_ref());
            let section = sections.find(|(found, ..)| *found == name);
            let position = section.map_or(0, |(_, span, _)| span.start);
            broken(
                position,
                &format!("`mcp.servers.{}` {problem}", terminal::one_line(name, 80)),
            )
        })?;
        for (name, agent) in &config.agents {
            agent.check(name).map_err(|problem| {
                let position = unknown_keys::position(table.get_ref(), AGENTS, name);
                broken(
                    position,
                    &format!("`agents.{}` {problem}", terminal::one_line(name, 80)),
                )
            })?;
        }
        config.mcp.locate(table.get_ref(), text);
        config.resolve_paths(path);
        Ok((config, warnings))
    }

    /// Returns the limits of the host with those of the file.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        self.limits
            .apply(&mut limits)
            .expect("invariant: the values were checked when the file was read");
        limits.core.resource_roots = self.resources.roots();
        limits.core.resource_requests = self.resources.policy();
        limits.core.resource_browsing = self.resources.browsing();
        limits
    }

    fn resolve_paths(&mut self, file: &Path) {
        let base = file.parent().unwrap_or_else(|| Path::new(""));
        self.file = std::path::absolute(file).ok();
        let paths = [
            &mut self.unix,
            &mut self.data,
            &mut self.token_file,
            &mut self.drive_token_file,
            &mut self.view_token_file,
            &mut self.mcp.token_key_file,
            &mut self.resources.default_directory,
            &mut self.terminals.directory,
        ];
        let keys = self.models.providers.iter_mut().map(|provider| &mut provider.key_file);
        let agents = self.agents.values_mut().map(|agent| &mut agent.directory);
        let opened = self.resources.read.iter_mut().chain(&mut self.resources.write);
        let own = self
            .customizations
            .plugins
            .iter_mut()
            .chain(&mut self.customizations.collections);
        for path in paths
            .into_iter()
            .chain(keys)
            .chain(agents)
            .flatten()
            .chain(opened)
            .chain(own)
        {
            *path = base.join(&*path);
        }
    }
}

/// Name of the sections about agents.
const AGENTS: &str = "agents";

/// Name of the section with the limits.
const LIMITS: &str = "limits";

/// Name of the section about sessions that may be deleted.
const RETENTION: &str = "retention";

/// Name of the section about files.
const RESOURCES: &str = "resources";

/// Name of the section about customizations.
const CUSTOMIZATIONS: &str = "customizations";

/// Name of the section about MCP servers.
const MCP: &str = "mcp";

/// Name of the section about telemetry.
const TELEMETRY: &str = "telemetry";

/// Name of the section about terminals.
const TERMINALS: &str = "terminals";

/// Name of the section about model APIs.
const MODELS: &str = "models";

/// Returns the default path of the configuration file.
pub(crate) fn default_path() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.config_dir().join("innkeeper").join("innkeeper.toml"))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Kind::Config,
        format!("the configuration file {} cannot be read ({error})", path.display()),
    )
    .hint("correct its path or permissions, or leave --config out")
}

fn line_of(text: &str, position: usize) -> usize {
    let before = text.as_bytes().iter().take(position);
    1 + before.filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(ConfigFile, Vec<String>), Failure> {
        ConfigFile::parse(Path::new("/etc/innkeeper.toml"), text)
    }

    #[test]
    fn reads_every_key() {
        let (config, warnings) = parse(
            "listen = \":0\"\nunix = \"s/sock\"\ndata = \"/data\"\ntoken_file = \"token\"\n\
             drive_token_file = \"drive\"\nview_token_file = \"view\"\n\
             allow_origin = [\"https://a.test\"]\nallow_host = [\"inn.test\"]\n\
             restricted_sections = [\"tone\"]\nlog = \"debug\"\n",
        )
        .unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(config.listen, ":0".parse().ok());
        assert_eq!(config.unix, Some(PathBuf::from("/etc/s/sock")));
        assert_eq!(config.data, Some(PathBuf::from("/data")));
        assert_eq!(config.token_file, Some(PathBuf::from("/etc/token")));
        assert_eq!(config.drive_token_file, Some(PathBuf::from("/etc/drive")));
        assert_eq!(config.view_token_file, Some(PathBuf::from("/etc/view")));
        assert_eq!(config.allow_origin, ["https://a.test".parse().unwrap()]);
        assert_eq!(config.allow_host, ["inn.test"]);
        assert_eq!(config.restricted_sections, Some(vec!["tone".to_owned()]));
        assert_eq!(config.log.as_deref(), Some("debug"));
    }

    #[test]
    fn example_file_shows_every_key_with_its_default() {
        let example = include_str!("../innkeeper.example.toml");
        // A commented key is a single word before the equals sign.
        let uncommented: String = example
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(setting) if setting.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => setting,
                Some(table) if table.starts_with('[') => table,
                _ => line,
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        let (config, warnings) = parse(&uncommented).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(format!("{:?}", config.limits()), format!("{:?}", Limits::default()));
        assert_eq!(config.listen, Some(ListenAddress::DEFAULT));
        for key in unknown_keys::all_keys() {
            assert!(
                uncommented.contains(&format!("\n{key} = "))
                    || [
                        AGENTS,
                        LIMITS,
                        RETENTION,
                        MODELS,
                        RESOURCES,
                        CUSTOMIZATIONS,
                        MCP,
                        TELEMETRY,
                        TERMINALS,
                        "providers",
                        "servers"
                    ]
                    .contains(&key),
                "{key} is missing"
            );
        }
    }

    #[test]
    fn broken_syntax_names_file_and_line() {
        let failure = parse("log = \"info\"\nlisten = = 3\n").unwrap_err();
        assert_eq!(failure.kind(), Kind::Config);
        let told = failure.to_string();
        assert!(told.starts_with("/etc/innkeeper.toml:2: "), "{told}");
        assert!(!told.contains('\n'), "{told}");
    }

    #[test]
    fn wrong_value_names_file_and_line() {
        let told = parse("\n\nlisten = \"nonsense\"\n").unwrap_err().to_string();
        assert!(told.starts_with("/etc/innkeeper.toml:3: "), "{told}");
        assert!(told.contains("127.0.0.1:4747"), "{told}");
    }

    #[test]
    fn t23_the_key_of_persisted_tokens_is_beside_the_configuration() {
        let key = |text: &str| match parse(text).unwrap().0.token_persistence() {
            TokenPersistence::Encrypted(key) => Some(key),
            TokenPersistence::Off | TokenPersistence::NoKeyFile => None,
        };
        assert_eq!(key(""), Some(PathBuf::from("/etc/mcp-tokens.key")));
        let named = "[mcp]\ntoken_key_file = \"keys/mcp\"\n";
        assert_eq!(key(named), Some(PathBuf::from("/etc/keys/mcp")));
        assert_eq!(key("[mcp]\nkeep_tokens = false\n"), None);
    }

    #[test]
    fn limits_are_read_and_checked() {
        let (config, warnings) = parse("[limits]\nconections = 1\nconnections = 2\n").unwrap();
        assert_eq!(config.limits().connections, 2);
        assert_eq!(
            warnings,
            ["/etc/innkeeper.toml:2: unknown key `limits.conections` is ignored; did you mean `connections`?"]
        );
        let told = parse("\n[limits]\nconnections = 0\n").unwrap_err().to_string();
        let expected = "/etc/innkeeper.toml:3: `connections` must be at least 1;";
        assert!(told.starts_with(expected), "{told}");
    }

    #[test]
    fn removed_limits_are_warned_about_and_ignored() {
        let (config, warnings) = parse("[limits]\nreplay_answer_actions = 1\nconnections = 2\n").unwrap();
        assert_eq!(config.limits().connections, 2);
        assert_eq!(
            warnings,
            ["/etc/innkeeper.toml:2: limits.replay_answer_actions is no longer a setting; remove it"]
        );
    }

    #[test]
    fn cus03_servers_are_read_with_their_positions() {
        let text = "[mcp]\nisolate = false\n\n[mcp.servers.garden]\ncommand = \"./run\"\nenv = { KEY = \"hunter2\" }\n\
                    isolate = true\n[mcp.servers.notes]\nurl = \"https://notes.test\"\ntype = \"sse\"\nenabled = false\n";
        let (config, warnings) = parse(text).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert!(!format!("{config:?}").contains("hunter2"), "CUS-27");
        let servers = config.sources().unwrap().servers;
        let shown: Vec<_> = servers
            .iter()
            .map(|server| {
                let range = server.range.unwrap();
                (
                    server.name.as_str(),
                    server.uri.as_str(),
                    range.start.line,
                    range.end.line,
                )
            })
            .collect();
        let uri = "file:///etc/innkeeper.toml";
        assert_eq!(shown, [("garden", uri, 3, 6), ("notes", uri, 7, 10)]);
        let treatments = servers.iter().map(|server| match &server.component {
            innkeeper_plugins::Component::McpServer(server) => (server.treatment, format!("{:?}", server.transport)),
            other => panic!("{other:?}"),
        });
        let treatment = |is_isolated, is_off_at_first| innkeeper_plugins::Treatment {
            is_isolated,
            is_off_at_first,
        };
        assert_eq!(
            treatments.collect::<Vec<_>>(),
            [
                (treatment(true, false), "Stdio(…)".to_owned()),
                (treatment(false, true), "Sse(…)".to_owned())
            ]
        );
        // Enablement depends on the name alone, not on the path of the file.
        let (elsewhere, _) = ConfigFile::parse(Path::new("/srv/other.toml"), text).unwrap();
        assert_eq!(elsewhere.sources().unwrap().servers[0].id, servers[0].id);
    }

    #[test]
    fn mistakes_in_servers_name_the_server_its_key_and_the_line() {
        for (body, needle) in [
            ("", "needs a `command` to run or a `url` to reach"),
            ("command = \"\"", "has an empty `command`"),
            (
                "command = \"x\"\nurl = \"https://x.test\"",
                "has both `command` and `url`",
            ),
            (
                "command = \"x\"\nheaders = { a = \"b\" }",
                "a `headers` that goes only with a `url`",
            ),
            (
                "command = \"x\"\ntype = \"sse\"",
                "a `type` that goes only with a `url`",
            ),
            (
                "url = \"https://x.test\"\nargs = [\"a\"]",
                "a `args` that goes only with a `command`",
            ),
            ("url = \"ftp://x.test\"", "a `url` that is not http or https"),
        ] {
            let told = parse(&format!("log = \"info\"\n[mcp.servers.garden]\n{body}\n"))
                .unwrap_err()
                .to_string();
            let place = "/etc/innkeeper.toml:2: `mcp.servers.garden` ";
            assert!(told.starts_with(place) && told.contains(needle), "{told}");
        }
        let told = parse("[mcp.servers.\" \"]\ncommand = \"x\"\n").unwrap_err().to_string();
        assert!(told.contains("needs a name"), "{told}");
        let told = parse("[mcp.servers.garden]\nurl = \"https://x.test\"\ntype = \"ws\"\n")
            .unwrap_err()
            .to_string();
        assert!(
            told.starts_with("/etc/innkeeper.toml:3: ") && told.contains("`http`"),
            "{told}"
        );
        let (_, warnings) = parse("[mcp.servers.garden]\ncommand = \"x\"\nisolated = true\n").unwrap();
        assert_eq!(
            warnings,
            ["/etc/innkeeper.toml:3: unknown key `mcp.servers.garden.isolated` is ignored; did you mean `isolate`?"]
        );
        // The value of a variable is known only later.
        parse("[mcp.servers.garden]\nurl = \"${GARDEN}/mcp\"\n").unwrap();
    }

    #[test]
    fn unknown_keys_are_warned_about_with_a_suggestion() {
        let (_, warnings) = parse("lisen = \":0\"\n\n[zebra]\nx = 1\n").unwrap();
        assert_eq!(
            warnings,
            [
                "/etc/innkeeper.toml:1: unknown key `lisen` is ignored; did you mean `listen`?",
                "/etc/innkeeper.toml:3: unknown key `zebra` is ignored; the keys here are listen, unix, data, \
                 token_file, drive_token_file, view_token_file, allow_origin, allow_host, \
                 restricted_sections, log, discover_agents, limits, retention, models, resources, \
                 customizations, mcp, telemetry, terminals and agents",
            ]
        );
    }
}
