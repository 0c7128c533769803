//! `innkeeper serve`: starts the host behind its listeners and stops it in order.
//!
//! The steps: [`Plan`] is what flags and configuration ask for, [`Prepared`] has everything that can fail before the host
//! starts, `host` builds the host, `listen` opens it to clients, and `run_until_stopped` waits for the end.

mod banner;
mod host;
mod listen;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use innkeeper_acp::AcpAgent;
use innkeeper_agents::model::ModelAgent;
use innkeeper_cli::discovery::{DataDir, DataDirLock, TOKEN_FILE_NAME, TokenFile};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal::{self, StopSignals};
use innkeeper_customizations::SourceDirectories;
use innkeeper_host::access::{Principal, Scope};
use innkeeper_host::telemetry::LogSink;
use innkeeper_host::{Agent as _, Limits};
use innkeeper_mcp::RunnerSettings;
use innkeeper_terminals::ShellSettings;

use crate::agents;
use crate::cli::ServeArgs;
use crate::config::{ConfigFile, apply_test_variable, default_path, writable};
use crate::logging;
use crate::mcp_tokens::TokenPersistence;
use crate::models;
use crate::retention;
use crate::sessions;
use crate::settings::{Admission, Settings};
use crate::unix_socket;

use host::RunningHost;
use listen::{Listening, Sockets};

/// How long running turns may take to end once the host was told to stop.
const TURN_TIMEOUT: Duration = Duration::from_secs(7);

/// When the process ends even if something still hangs; the promise is ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(9);

/// The log filter unless a flag or the configuration names another.
const LOG_FILTER: &str = "info";

/// Everything that flags and configuration ask for.
struct Plan {
    settings: Settings,
    limits: Limits,
    models: Vec<ModelAgent>,
    customizations: Option<SourceDirectories>,
    mcp: Option<(RunnerSettings, TokenPersistence)>,
    /// The shell of terminals, unless they are off.
    terminals: Option<ShellSettings>,
    /// Where clients start to look for directories.
    default_directory: Option<String>,
    /// The umask of the user's own files.
    umask: u32,
    /// The agents that are programs of their own.
    agents: Vec<AcpAgent>,
    /// Sends log records to clients, if the configuration allows that.
    logs: Option<LogSink>,
}

/// Runs the host until it is told to stop.
pub(crate) fn run(args: ServeArgs) -> Result<ExitCode, Failure> {
    let plan = Plan::new(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // A large response holds a thread for as long as its reader takes: one per connection at most.
        .max_blocking_threads(plan.limits.connections.saturating_add(64))
        .build()
        .map_err(|error| {
            Failure::new(
                Kind::Unexpected,
                format!("the program cannot start its event loop ({error})"),
            )
        })?;
    let ended = runtime.block_on(serve(plan));
    // A thread that waits for standard input cannot be ended; waiting for it would hang the exit.
    runtime.shutdown_background();
    ended
}

impl Plan {
    fn new(args: ServeArgs) -> Result<Self, Failure> {
        let umask = protect_process();
        let config = ConfigFile::load(&args.common)?;
        let filter = args.common.log.clone().or_else(|| config.log.clone());
        let logs = config.telemetry.logs.then(LogSink::new);
        logging::start_with(filter.as_deref().unwrap_or(LOG_FILTER), logs.as_ref())?;
        let models = models::agents(models::find_with(
            &config.models,
            &models::process_environment,
            Some(umask),
        ))?;
        let taken: Vec<String> = models.iter().map(|model| model.info().provider).collect();
        let agents = agents::configured(&config, &config.data_dir(&args.common)?, Some(umask), &taken)?;
        let customizations = config.sources();
        let mut limits = config.limits();
        apply_test_variable(&mut limits)?;
        limits.core.restricted_sections.clone_from(&config.restricted_sections);
        limits.core.undo_delete_ms = config.retention.undo_delete_ms();
        // A directory that clients are offered to save into has to be writable (CUS-23).
        let saved_into = customizations.as_ref().map(SourceDirectories::saved_into);
        limits
            .core
            .resource_roots
            .extend(writable(&saved_into.unwrap_or_default()));
        Ok(Self {
            limits,
            models,
            customizations,
            mcp: config
                .mcp
                .settings()
                .map(|settings| (settings, config.token_persistence())),
            terminals: config.terminals.settings(umask),
            default_directory: config.resources.default_directory(),
            settings: Settings::resolve(args, config)?,
            umask,
            agents,
            logs,
        })
    }

    /// Returns the files that clients must not read: tokens would make them admins, and keys belong to the host.
    fn private_files(&self, prepared: &Prepared) -> Vec<PathBuf> {
        let settings = &self.settings;
        let token_key = self.mcp.iter().filter_map(|(_, persistence)| match persistence {
            TokenPersistence::Encrypted(key) => Some(key.clone()),
            TokenPersistence::Off | TokenPersistence::NoKeyFile => None,
        });
        [settings.data.clone()]
            .into_iter()
            .chain(settings.narrow_tokens.iter().map(|(_, path)| path.clone()))
            .chain(prepared.token.as_ref().map(|token| token.path().to_owned()))
            .chain(settings.key_files.iter().cloned())
            // The configuration can hold secrets of MCP servers, and its commands run at the next start. The default
            // path counts even if no file is there yet.
            .chain(settings.config_file.clone())
            .chain(default_path())
            .chain(settings.env_files.iter().cloned())
            .chain(token_key)
            .collect()
    }
}

/// Makes new files private, keeps secrets out of core dumps and raises the limit of open files. Returns the previous
/// umask, which is the one for the user's own files.
fn protect_process() -> u32 {
    let umask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let no_core = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Core, no_core) {
        terminal::warn(&format!("core dumps cannot be switched off ({error})"));
    }
    // Every connection takes a descriptor, and shells often allow fewer than the host accepts.
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    files.current = files.maximum;
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, files) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    umask.bits()
}

/// Everything that the host needs before it starts. A failed start leaves no trace.
struct Prepared {
    dir: DataDir,
    /// `None` for a read-only host, which runs beside the owner of the directory.
    _lock: Option<DataDirLock>,
    signals: StopSignals,
    sockets: Sockets,
    /// The token of admins, unless none is required.
    token: Option<TokenFile>,
    /// The tokens of narrower scope.
    narrow_tokens: Vec<(Scope, TokenFile)>,
}

impl Prepared {
    async fn new(settings: &Settings) -> Result<Self, Failure> {
        let (dir, lock) = match settings.read_only {
            true => (DataDir::existing(settings.data.clone()), None),
            false => {
                let dir = DataDir::prepare(&settings.data)?;
                let lock = dir.lock()?;
                (dir, Some(lock))
            }
        };
        let signals = StopSignals::listen()?;
        let sockets = Sockets {
            tcp: match settings.listen {
                Some(address) => Some(listen::bind_tcp(address).await?),
                None => None,
            },
            unix: settings.unix.as_deref().map(unix_socket::bind).transpose()?,
        };
        let token = match (&settings.admission, &sockets.tcp) {
            (Admission::Everyone, _) | (_, None) => None,
            (Admission::DefaultToken, Some(_)) if settings.read_only => {
                Some(TokenFile::read(&dir.file(TOKEN_FILE_NAME))?)
            }
            (Admission::DefaultToken, Some(_)) => Some(TokenFile::read_or_create(&dir.file(TOKEN_FILE_NAME))?),
            (Admission::Token(path), Some(_)) => Some(TokenFile::read_or_create(path)?),
        };
        let narrow_tokens = match &token {
            Some(_) => narrow_tokens(settings)?,
            None => Vec::new(),
        };
        Ok(Self {
            dir,
            _lock: lock,
            signals,
            sockets,
            token,
            narrow_tokens,
        })
    }
}

/// Reads the tokens of narrower scope, and creates those that are missing.
fn narrow_tokens(settings: &Settings) -> Result<Vec<(Scope, TokenFile)>, Failure> {
    let files = settings.narrow_tokens.iter();
    files
        .map(|(scope, path)| Ok((*scope, TokenFile::read_or_create(path)?)))
        .collect()
}

async fn serve(plan: Plan) -> Result<ExitCode, Failure> {
    let mut prepared = Prepared::new(&plan.settings).await?;
    let running = host::build(&plan, &prepared).await?;
    let listening = listen::open(&plan.settings, &mut prepared, &running)?;
    run_until_stopped(plan, &mut prepared, &running).await?;
    stop(listening, running, &mut prepared.signals).await
}

/// Returns when the host is told to stop, by a signal or by the end of standard input.
async fn run_until_stopped(plan: Plan, prepared: &mut Prepared, running: &RunningHost) -> Result<(), Failure> {
    let handle = running.host.handle();
    let settings = &plan.settings;
    let sweeping = async {
        if !settings.read_only {
            sessions::files::sweep(&prepared.dir, &running.contents, &running.changes).await;
        }
    };
    let listing = models::list(plan.models, running.host.handle());
    let stdio = async {
        if !settings.stdio {
            return std::future::pending().await;
        }
        innkeeper_host::stdio::serve(
            running.host.handle(),
            tokio::io::stdin(),
            tokio::io::stdout(),
            Principal::stdio(),
        )
        .await;
    };
    tokio::select! {
        signal = prepared.signals.next() => tracing::info!(?signal, "stopping"),
        () = stdio => tracing::info!("standard input ended; stopping"),
        () = and_then_wait(listing) => {}
        () = and_then_wait(agents::follow(plan.agents, running.host.handle())) => {}
        () = and_then_wait(sweeping) => {}
        never = retention::apply(&handle, &prepared.dir, settings.retention()) => match never {},
        () = handle.ended() => {
            return Err(Failure::new(Kind::Unexpected, "the host failed and cannot continue")
                .hint("its log says why; start it again"));
        }
    }
    Ok(())
}

/// Stops the listeners, the turns and the MCP servers. A second signal ends the process at once.
async fn stop(listening: Listening, running: RunningHost, signals: &mut StopSignals) -> Result<ExitCode, Failure> {
    let stop = async {
        for server in listening.servers {
            server.stop().await;
        }
        running.host.shutdown(TURN_TIMEOUT).await;
        if let Some(runner) = running.runner {
            runner.stop().await;
        }
    };
    tokio::select! {
        stopped = tokio::time::timeout(STOP_TIMEOUT, stop) => {
            if stopped.is_err() {
                tracing::warn!("something did not stop in time; ending anyway");
            }
            Ok(ExitCode::SUCCESS)
        }
        signal = signals.next() => {
            tracing::warn!(?signal, "stopping at once");
            Ok(ExitCode::from(signal.exit_code()))
        }
    }
}

/// Does some work and never returns, so that other branches of a `select!` continue.
async fn and_then_wait(work: impl Future<Output = ()>) {
    work.await;
    std::future::pending().await
}
