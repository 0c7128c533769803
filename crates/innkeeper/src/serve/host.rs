//! Builds the host from its agents, services and store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_acp::AcpAgent;
use innkeeper_agents::model::ModelAgent;
use innkeeper_agents::tour::TourAgent;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_customizations::{
    CommandHooks, Discovered, HookSettings, HooksOf, LocalCustomizations, ServerSettings, SourceDirectories, TrustFile,
};
use innkeeper_host::contents::ContentLimits;
use innkeeper_host::{Host, HostBuilder, HostError, Limits};
use innkeeper_mcp::McpRunner;
use innkeeper_store::{ReadOnlyJournal, SqliteJournal};
use innkeeper_terminals::LocalTerminals;
use innkeeper_workspace::{BlobStore, LocalChanges, LocalResources, ResourceLimits};

use crate::mcp_tokens;
use crate::sessions::files;
use crate::trust;

use super::{Plan, Prepared};

/// How long a read-only host keeps a session in memory without subscribers.
const READ_ONLY_IDLE_MS: u64 = 1000;

/// Directory in the data directory with copies of clients' plugins.
const PLUGIN_COPIES: &str = "client-plugins";

/// Directory in the data directory for the plugins' own data.
const PLUGIN_DATA: &str = "plugin-data";

/// The host and the services that are stopped after it.
pub(super) struct RunningHost {
    pub(super) host: Host,
    pub(super) runner: Option<McpRunner>,
    pub(super) contents: BlobStore,
    pub(super) changes: LocalChanges,
}

/// Builds and starts the host.
pub(super) async fn build(plan: &Plan, prepared: &Prepared) -> Result<RunningHost, Failure> {
    let (settings, dir) = (&plan.settings, &prepared.dir);
    let contents = contents(dir, &plan.limits);
    let changes = LocalChanges::with_own_environment(dir.file(files::CHANGES), Arc::new(contents.clone()));
    let mut builder = Host::builder()
        .files(innkeeper_workspace::Workspace::new())
        .repositories(innkeeper_workspace::LocalRepositories::default())
        .resources(resources(plan, prepared))
        .contents(contents.clone());
    if let Some(directory) = &plan.default_directory {
        builder = builder.default_directory(directory.clone());
    }
    let mut runner = None;
    // A read-only host shows the customizations that sessions had, and looks for none.
    if !settings.read_only {
        builder = builder.changes(changes.clone());
        runner = mcp_runner(plan, dir);
        builder = with_customizations(builder, plan, dir, runner.as_ref()).await;
    }
    if let Some(runner) = &runner {
        builder = builder.mcp_servers(runner.clone());
    }
    if let Some(shell) = plan.terminals.clone().filter(|_| !settings.read_only) {
        builder = builder.terminals(LocalTerminals::new(shell, Some(dir.file(files::TERMINALS))));
    }
    builder = with_agents(builder, &plan.models, &plan.agents);
    builder = match settings.read_only {
        true => builder
            .journal(read_only_journal(dir)?)
            .limits(read_only_limits(plan.limits.clone()))
            .read_only("it was started with --read-only"),
        false => builder.journal(journal(dir, &plan.limits)).limits(plan.limits.clone()),
    };
    builder = builder.server_info("innkeeper", env!("CARGO_PKG_VERSION"));
    if let Some(logs) = &plan.logs {
        builder = builder.logs(logs);
    }
    let host = builder
        .start()
        .await
        .map_err(|error| cannot_start(&dir.file(innkeeper_store::FILE_NAME), error))?;
    Ok(RunningHost {
        host,
        runner,
        contents,
        changes,
    })
}

fn contents(dir: &DataDir, limits: &Limits) -> BlobStore {
    let limits = ContentLimits {
        session_bytes: limits.content_session_bytes,
        total_bytes: limits.content_total_bytes,
    };
    BlobStore::new(dir.file(files::CONTENTS), limits)
}

fn resources(plan: &Plan, prepared: &Prepared) -> LocalResources {
    let limits = ResourceLimits {
        bytes: plan.limits.resource_bytes,
        entries: plan.limits.directory_entries,
        watched_directories: plan.limits.watched_directories,
        watched_entries: plan.limits.watched_entries,
    };
    let saved_into = plan
        .customizations
        .as_ref()
        .map(SourceDirectories::saved_into)
        .unwrap_or_default();
    LocalResources::new(limits, &plan.private_files(prepared))
        .making(saved_into)
        .with_umask(plan.umask)
}

fn mcp_runner(plan: &Plan, dir: &DataDir) -> Option<McpRunner> {
    let (mut settings, persistence) = plan.mcp.clone()?;
    settings.environment = settings.environment.with_umask(plan.umask);
    Some(mcp_tokens::runner(settings, dir, persistence))
}

async fn with_customizations(
    builder: HostBuilder,
    plan: &Plan,
    dir: &DataDir,
    runner: Option<&McpRunner>,
) -> HostBuilder {
    let Some(directories) = plan.customizations.clone() else {
        return builder;
    };
    let trust = Arc::new(TrustFile::new(dir.file(trust::FILE_NAME)));
    let hooks = hooks(&trust, plan.umask);
    let servers = runner.map(|_| ServerSettings {
        trust,
        data: dir.file(PLUGIN_DATA),
    });
    let copies = dir.file(PLUGIN_COPIES);
    builder.customizations(LocalCustomizations::start_with(directories, &copies, hooks, servers).await)
}

/// Hooks run with the umask of the user's own files, and only after the user has trusted them.
fn hooks(trust: &Arc<TrustFile>, umask: u32) -> Arc<HooksOf> {
    let trust = Arc::clone(trust);
    let settings = Arc::new(HookSettings {
        umask: Some(umask),
        ..HookSettings::default()
    });
    Arc::new(move |discovered: &Discovered| Arc::new(CommandHooks::of(discovered, &trust, &settings)))
}

/// The first agent is the default: a model that can be used, else the built-in guide. Agents that are programs of their own
/// follow: one that is merely installed must not become the default.
fn with_agents(builder: HostBuilder, models: &[ModelAgent], agents: &[AcpAgent]) -> HostBuilder {
    let (ready, waiting): (Vec<_>, Vec<_>) = models.iter().cloned().partition(ModelAgent::is_ready);
    let builder = ready.into_iter().fold(builder, HostBuilder::agent);
    let builder = agents
        .iter()
        .cloned()
        .fold(builder.agent(tour_agent()), HostBuilder::agent);
    waiting.into_iter().fold(builder, HostBuilder::agent)
}

/// The built-in guide. Benchmarks set the variable to measure when it produced each piece of a response.
fn tour_agent() -> TourAgent {
    match std::env::var_os("INNKEEPER_TOUR_STAMP") {
        Some(_) => TourAgent::new().stamped(),
        None => TourAgent::new(),
    }
}

fn cannot_start(file: &Path, error: HostError) -> Failure {
    match error {
        HostError::Journal(error) => {
            let (file, problem) = (file.display().to_string(), error.to_string());
            let text = match problem.contains(&file) {
                true => problem,
                false => format!("{file}: {problem}"),
            };
            Failure::new(Kind::DataDirectory, text)
                .hint("`innkeeper doctor` checks it and says what to do; nothing was changed")
        }
        error => Failure::new(Kind::Unexpected, format!("the host cannot start ({error})")),
    }
}

/// The store persists as many actions for replay as the core keeps in memory.
fn journal(dir: &DataDir, limits: &Limits) -> SqliteJournal {
    let replay = &limits.core.replay;
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let options = innkeeper_store::Options {
        replay: innkeeper_store::ReplayLimits {
            age: Duration::from_millis(replay.max_age_ms),
            channel_bytes: bytes(replay.channel_bytes),
            total_bytes: bytes(replay.total_bytes),
        },
        // Connected clients count as well.
        clients: limits.core.max_absent_clients.saturating_add(limits.connections),
        ..innkeeper_store::Options::default()
    };
    SqliteJournal::new(&dir.file(innkeeper_store::FILE_NAME), options)
}

fn read_only_journal(dir: &DataDir) -> Result<ReadOnlyJournal, Failure> {
    ReadOnlyJournal::new(&dir.file(innkeeper_store::FILE_NAME))
        .map_err(|error| Failure::new(Kind::DataDirectory, error.message))
}

/// The owner of the directory changes sessions unseen by a read-only host, which therefore keeps none in memory for long.
fn read_only_limits(mut limits: Limits) -> Limits {
    limits.core.idle_session_ms = limits.core.idle_session_ms.clamp(1, READ_ONLY_IDLE_MS);
    limits
}
