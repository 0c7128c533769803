//! Agents that are programs of their own: those of the configuration, those that are installed, and `innkeeper agents`.

mod add;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_acp::{
    AcpAgent, AcpSettings, AcpTimes, AgentCommand, BridgeCommand, CATALOGUE, KnownAgent, ToolServer, find_installed,
    run_bridge,
};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_host::HostHandle;

use crate::cli::{AgentsArgs, AgentsCommand, BridgeArgs};
use crate::config::{AgentSection, ConfigFile};

/// Directory in the data directory with the facts that agents told about themselves.
const MEMORY: &str = "agents";
/// The command that passes the messages of an agent on to the tools of its session.
const BRIDGE: &str = "mcp-bridge";
/// The variable with the token that it shows.
const BRIDGE_TOKEN: &str = "INNKEEPER_MCP_TOKEN";
/// The id of the built-in guide.
const TOUR: &str = "tour";

/// Lists, checks or adds agents.
pub(crate) fn run(args: AgentsArgs) -> Result<(), Failure> {
    match args.command.unwrap_or(AgentsCommand::List(args.list)) {
        AgentsCommand::List(args) => report::list(&args),
        AgentsCommand::Check(args) => report::check(&args),
        AgentsCommand::Add(args) => add::add(&args),
    }
}

/// Passes the messages of an agent without MCP over HTTP on to the tools of its session, until its input ends.
pub(crate) fn bridge(args: &BridgeArgs) -> Result<(), Failure> {
    let token = std::env::var(BRIDGE_TOKEN).map_err(|_| {
        Failure::new(
            Kind::Usage,
            format!("the variable {BRIDGE_TOKEN} is not set; agents run this command"),
        )
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Kind::Unexpected, format!("no event loop ({error})")))?;
    let ended = runtime.block_on(run_bridge(&args.url, token));
    // A thread that waits for standard input cannot be ended.
    runtime.shutdown_background();
    ended.map_err(|error| Failure::new(Kind::Usage, error.to_string()))
}

/// An agent that can be offered.
#[derive(Debug)]
struct Candidate {
    settings: AcpSettings,
    /// Whether the configuration has it; otherwise it is installed.
    is_configured: bool,
}

/// Returns the agents that a host offers. `taken` has the ids of its other agents.
pub(crate) fn configured(
    config: &ConfigFile,
    data: &Path,
    umask: Option<u32>,
    taken: &[String],
) -> Result<Vec<AcpAgent>, Failure> {
    let bridge = std::env::current_exe().ok().map(|program| BridgeCommand {
        program,
        arguments: vec![BRIDGE.to_owned()],
    });
    let tools = ToolServer::new(bridge);
    let mut agents = Vec::new();
    for candidate in candidates(config, data, umask) {
        let id = &candidate.settings.id;
        if id == TOUR || taken.contains(id) {
            if candidate.is_configured {
                let problem = format!("`agents.{id}`: another agent of this host has the name {id:?}");
                return Err(Failure::new(Kind::Config, problem).hint("give the section another name"));
            }
            continue;
        }
        agents.push(AcpAgent::with_tools(candidate.settings, Arc::clone(&tools)));
    }
    Ok(agents)
}

/// Tells clients whenever an agent told something new about itself.
pub(crate) async fn follow(agents: Vec<AcpAgent>, host: HostHandle) {
    let mut following = tokio::task::JoinSet::new();
    for agent in agents {
        let (mut changes, host) = (agent.changes(), host.clone());
        following.spawn(async move {
            while changes.changed().await.is_ok() {
                host.refresh_agents().await;
            }
        });
    }
    while following.join_next().await.is_some() {}
}

fn candidates(config: &ConfigFile, data: &Path, umask: Option<u32>) -> Vec<Candidate> {
    let base = |id: &str| Base {
        config,
        umask,
        memory: data.join(MEMORY).join(format!("{id}.json")),
    };
    let configured = config
        .agents
        .iter()
        .filter(|(_, section)| section.enabled != Some(false));
    let mut found: Vec<Candidate> = configured
        .map(|(id, section)| Candidate {
            settings: base(id).settings(id, section, known(id), None),
            is_configured: true,
        })
        .collect();
    if config.discover_agents.unwrap_or(true)
        && let Some(path) = std::env::var_os("PATH")
    {
        for (agent, program) in find_installed(&path) {
            if !config.agents.contains_key(agent.id) {
                let settings = base(agent.id).settings(agent.id, &AgentSection::default(), Some(agent), Some(program));
                found.push(Candidate {
                    settings,
                    is_configured: false,
                });
            }
        }
    }
    found
}

fn known(id: &str) -> Option<&'static KnownAgent> {
    CATALOGUE.iter().find(|agent| agent.id == id)
}

/// The settings that all agents share.
struct Base<'a> {
    config: &'a ConfigFile,
    umask: Option<u32>,
    memory: PathBuf,
}

impl Base<'_> {
    fn settings(
        self,
        id: &str,
        section: &AgentSection,
        known: Option<&KnownAgent>,
        program: Option<PathBuf>,
    ) -> AcpSettings {
        // A relative path is one from the directory of the file.
        let base = self.config.file.as_deref().and_then(Path::parent);
        let written = section.command.as_ref().map(|command| {
            let command = PathBuf::from(command);
            match base {
                Some(base) if command.components().count() > 1 => base.join(command),
                _ => command,
            }
        });
        // Other arguments than the known ones belong to another program.
        let known_arguments = known.filter(|_| section.command.is_none() || section.args.is_none());
        let known_arguments =
            known_arguments.map(|known| known.arguments.iter().map(|word| (*word).to_owned()).collect());
        let home = || std::env::var_os("HOME").map(PathBuf::from);
        let mut passed = section.pass_env.clone();
        passed.extend(
            known
                .into_iter()
                .flat_map(|known| known.passed)
                .map(|name| (*name).to_owned()),
        );
        let seconds = |value: Option<u64>, usual: Duration| value.map_or(usual, Duration::from_secs);
        let times = AcpTimes::default();
        AcpSettings {
            id: id.to_owned(),
            name: section
                .name
                .clone()
                .unwrap_or_else(|| known.map_or(id, |known| known.name).to_owned()),
            description: section.description.clone().unwrap_or_else(|| {
                known.map_or_else(
                    || format!("The agent `{id}`, through ACP."),
                    |known| known.description.to_owned(),
                )
            }),
            command: AgentCommand {
                program: written
                    .or(program)
                    .or_else(|| known.map(|known| known.program.into()))
                    .unwrap_or_else(|| id.into()),
                arguments: section.args.clone().or(known_arguments).unwrap_or_default(),
                variables: section.env.clone(),
                host_environment: std::env::vars_os().collect(),
                passed,
                umask: self.umask,
            },
            directory: section.directory.clone().or_else(home).unwrap_or_else(|| "/".into()),
            serves_files: section
                .files
                .unwrap_or_else(|| known.is_none_or(|known| known.serves_files)),
            serves_terminals: self.config.terminals.enabled,
            sign_in_hint: known.map(|known| known.sign_in.to_owned()),
            memory_file: Some(self.memory),
            times: AcpTimes {
                start: seconds(section.start_seconds, times.start),
                idle: seconds(
                    section.idle_minutes.map(|minutes| minutes.saturating_mul(60)),
                    times.idle,
                ),
                ..times
            },
        }
    }
}
