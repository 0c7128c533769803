//! `innkeeper serve`: puts the host behind its listeners and stops it in order.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_agents::model::ModelAgent;
use innkeeper_agents::tour::TourAgent;
use innkeeper_customizations::{
    Brought, CommandHooks, HookSettings, HooksOf, LocalCustomizations, ServerSettings, SourceDirectories, TrustFile,
};
use innkeeper_host::{Access, ContentLimits, Host, HostBuilder, HostError, Limits, LogSink, Principal, Scope, Token};
use innkeeper_local::{KeptContents, LocalResources, ResourceLimits};
use innkeeper_mcp::RunnerSettings;
use innkeeper_store::{Archive, ListPage, Mode, ReadOnlyJournal, SqliteJournal};
use serde::Serialize;
use tokio::net::{TcpListener, UnixListener};

use crate::address::{ListenAddress, local_url};
use crate::banner::Banner;
use crate::cli::ServeArgs;
use crate::config::{ConfigFile, default_path, writable};
use crate::kept_tokens::{self, Keeping};
use crate::logging;
use crate::models;
use crate::retention;
use crate::settings::{Admission, Settings};
use crate::trust;
use crate::unix_socket;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::discovery::Endpoint;
use innkeeper_cli::discovery::{TOKEN_FILE_NAME, TokenFile};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal;
use innkeeper_cli::terminal::StopSignals;

/// How long running turns may take to end once the host was told to stop.
const TURN_PATIENCE: Duration = Duration::from_secs(7);

/// When the process ends even if something still hangs; the promise is ten seconds.
const STOP_PATIENCE: Duration = Duration::from_secs(9);

/// How long a host that only looks keeps a session in memory that nobody subscribes to.
const LOOKING_IDLE_MS: u64 = 1000;

/// Where plugins of clients are copied to, in the data directory.
const PLUGIN_COPIES: &str = "client-plugins";

/// Where plugins keep data of their own, in the data directory.
const PLUGIN_DATA: &str = "plugin-data";

/// More sessions than there can be.
const MAX_SESSIONS: usize = 1 << 30;

/// Where what tools gave back is kept that turns have no room for, in the data directory.
pub(crate) const KEPT_CONTENTS: &str = "contents";

/// What is logged unless somebody says otherwise.
const LOG_FILTER: &str = "info";

/// Runs the host until it is told to stop.
pub(crate) fn run(args: ServeArgs) -> Result<ExitCode, Failure> {
    let umask = protect_process();
    let config = ConfigFile::load(&args.common)?;
    let filter = args.common.log.clone().or_else(|| config.log.clone());
    let logs = config.telemetry.logs.then(LogSink::new);
    logging::start_with(filter.as_deref().unwrap_or(LOG_FILTER), logs.as_ref())?;
    let mut limits = config.limits();
    limits.core.restricted_sections.clone_from(&config.restricted_sections);
    limits.core.undo_delete_ms = config.retention.undo_delete_ms();
    let models = models::agents(models::find_with(
        &config.models,
        &models::process_environment,
        Some(umask),
    ))?;
    let customizations = config.sources();
    let mcp = config.mcp.settings().map(|settings| (settings, config.keeps_tokens()));
    // What is shown as a directory to save into has to be one (CUS-23).
    let saved_into = customizations.as_ref().map(SourceDirectories::saved_into);
    limits
        .core
        .resource_roots
        .extend(writable(&saved_into.unwrap_or_default()));
    let default_directory = config.resources.default_directory();
    let settings = Settings::resolve(args, config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // A large answer holds a thread for as long as its reader takes: one per connection at most.
        .max_blocking_threads(limits.connections.saturating_add(64))
        .build()
        .map_err(|error| {
            Failure::new(
                Kind::Unexpected,
                format!("the program cannot start its event loop ({error})"),
            )
        })?;
    let ended = runtime.block_on(serve(
        settings,
        limits,
        models,
        Sources {
            customizations,
            mcp,
            default_directory,
        },
        umask,
        logs,
    ));
    // A thread that waits for standard input cannot be ended; waiting for it would hang the exit.
    runtime.shutdown_background();
    ended
}

/// Keeps files private from the moment they are created and secrets out of core dumps, and makes room for connections.
/// Gives the umask that there was before: it is the one for people's own files.
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

/// What sessions bring along, and where clients start to look for their directories.
struct Sources {
    customizations: Option<SourceDirectories>,
    mcp: Option<(RunnerSettings, Keeping)>,
    default_directory: Option<String>,
}

async fn serve(
    settings: Settings,
    limits: Limits,
    models: Vec<ModelAgent>,
    Sources {
        customizations,
        mcp,
        default_directory,
    }: Sources,
    umask: u32,
    logs: Option<LogSink>,
) -> Result<ExitCode, Failure> {
    let dir = match settings.read_only {
        true => DataDir::existing(settings.data.clone()),
        false => DataDir::prepare(&settings.data)?,
    };
    // Whoever only looks does so beside the owner, and leaves it its files.
    let _lock = match settings.read_only {
        true => None,
        false => Some(dir.lock()?),
    };
    let mut signals = StopSignals::listen()?;

    // Everything that can fail comes before the host starts, so that a failed start leaves no trace.
    let tcp = match settings.listen {
        Some(address) => Some(bind_tcp(address).await?),
        None => None,
    };
    let unix = settings.unix.as_deref().map(unix_socket::bind).transpose()?;
    let token = match (&settings.admission, &tcp) {
        (Admission::Everyone, _) | (_, None) => None,
        (Admission::DefaultToken, Some(_)) if settings.read_only => Some(TokenFile::read(&dir.file(TOKEN_FILE_NAME))?),
        (Admission::DefaultToken, Some(_)) => Some(TokenFile::read_or_create(&dir.file(TOKEN_FILE_NAME))?),
        (Admission::Token(path), Some(_)) => Some(TokenFile::read_or_create(path)?),
    };
    let narrow_tokens = match &token {
        Some(_) => narrow_tokens(&settings)?,
        None => Vec::new(),
    };

    let files = ResourceLimits {
        bytes: limits.resource_bytes,
        entries: limits.directory_entries,
        watched_directories: limits.watched_directories,
        watched_entries: limits.watched_entries,
    };
    let kept = ContentLimits {
        session_bytes: limits.content_session_bytes,
        total_bytes: limits.content_total_bytes,
    };
    let contents = KeptContents::new(dir.file(KEPT_CONTENTS), kept);
    // Whoever could read the tokens would be an admin, and the providers' keys are the host's own.
    let own: Vec<PathBuf> = [settings.data.clone()]
        .into_iter()
        .chain(settings.narrow_tokens.iter().map(|(_, path)| path.clone()))
        .chain(token.as_ref().map(|token| token.path().to_owned()))
        .chain(settings.key_files.iter().cloned())
        // It can hold secrets of MCP servers, and what it says is run at the next start; so is what somebody
        // writes where one is looked for.
        .chain(settings.config_file.clone())
        .chain(default_path())
        .chain(settings.env_files.iter().cloned())
        .chain(mcp.iter().filter_map(|(_, keeping)| match keeping {
            Keeping::With(key) => Some(key.clone()),
            Keeping::Not | Keeping::Nowhere => None,
        }))
        .collect();
    let saved_into = customizations
        .as_ref()
        .map(SourceDirectories::saved_into)
        .unwrap_or_default();
    let mut builder = Host::builder()
        .files(innkeeper_local::Workspace::new())
        .repositories(innkeeper_local::LocalRepositories::default())
        .resources(LocalResources::new(files, &own).making(saved_into).with_umask(umask))
        .contents(contents.clone());
    if let Some(directory) = default_directory {
        builder = builder.default_directory(directory);
    }
    // Whoever only looks shows what sessions had, and looks for nothing.
    let runner = mcp.filter(|_| !settings.read_only).map(|(mut mcp, keeping)| {
        mcp.environment = mcp.environment.with_umask(umask);
        kept_tokens::runner(mcp, &dir, keeping)
    });
    if let Some(directories) = customizations.filter(|_| !settings.read_only) {
        let copies = dir.file(PLUGIN_COPIES);
        let trust = Arc::new(TrustFile::new(dir.file(trust::FILE_NAME)));
        let hooks = hooks(&trust, umask);
        let servers = runner.is_some().then(|| ServerSettings {
            trust,
            data: dir.file(PLUGIN_DATA),
        });
        builder = builder.customizations(LocalCustomizations::start_with(directories, &copies, hooks, servers).await);
    }
    if let Some(runner) = &runner {
        builder = builder.mcp_servers(runner.clone());
    }
    // The first agent is the default: one that can be used, and shows the person's own work.
    let (ready, waiting): (Vec<_>, Vec<_>) = models.iter().cloned().partition(ModelAgent::is_ready);
    builder = ready.into_iter().fold(builder, HostBuilder::agent);
    builder = builder.agent(tour_agent());
    builder = waiting.into_iter().fold(builder, HostBuilder::agent);
    let builder = match settings.read_only {
        true => builder
            .journal(looking_journal(&dir)?)
            .limits(looking(limits))
            .read_only("it was started with --read-only"),
        false => builder.journal(journal(&dir, &limits)).limits(limits),
    };
    let builder = match &logs {
        Some(logs) => builder.logs(logs),
        None => builder,
    };
    let builder = builder.server_info("innkeeper", env!("CARGO_PKG_VERSION"));
    let host = builder
        .start()
        .await
        .map_err(|error| cannot_start(&dir.file(innkeeper_store::FILE_NAME), error))?;

    let mut servers = Vec::new();
    let mut endpoint = Endpoint {
        url: None,
        unix: None,
        token_file: token.as_ref().map(|token| token.path().to_owned()),
        pid: std::process::id(),
        started_at: jiff::Timestamp::now().to_string(),
    };
    if let Some((listener, bound)) = tcp {
        let access = tcp_access(bound, token.as_ref(), &narrow_tokens, &settings)?;
        servers.push(innkeeper_host::http::serve_tcp(host.handle(), listener, access));
        endpoint.url = Some(local_url(bound));
    }
    let _socket_file = match unix {
        Some((listener, file)) => {
            let listener = tokio_listener(listener)?;
            servers.push(innkeeper_host::http::serve_unix(
                host.handle(),
                listener,
                Access::unix(),
            ));
            endpoint.unix = Some(file.path().to_owned());
            Some(file)
        }
        None => None,
    };
    let _published = match servers.is_empty() || settings.read_only {
        true => None,
        false => Some(endpoint.publish(&dir)?),
    };
    announce(&settings, &endpoint);

    let handle = host.handle();
    let store = dir.file(innkeeper_store::FILE_NAME);
    let sweeping = async {
        if !settings.read_only {
            contents.sweep(move || kept_sessions(&store)).await;
        }
    };
    let listing = models::list(models, host.handle());
    let stdio = async {
        if !settings.stdio {
            return std::future::pending().await;
        }
        innkeeper_host::stdio::serve(
            host.handle(),
            tokio::io::stdin(),
            tokio::io::stdout(),
            Principal::stdio(),
        )
        .await;
    };
    tokio::select! {
        signal = signals.next() => tracing::info!(?signal, "stopping"),
        () = stdio => tracing::info!("standard input ended; stopping"),
        () = and_then_wait(listing) => {}
        () = and_then_wait(sweeping) => {}
        never = retention::apply(&handle, &dir, settings.retention()) => match never {},
        () = handle.ended() => {
            return Err(Failure::new(Kind::Unexpected, "the host failed and cannot go on")
                .hint("its log says why; start it again"));
        }
    }

    let stop = async {
        for server in servers {
            server.stop().await;
        }
        host.shutdown(TURN_PATIENCE).await;
        if let Some(runner) = runner {
            runner.stop().await;
        }
    };
    tokio::select! {
        stopped = tokio::time::timeout(STOP_PATIENCE, stop) => {
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

/// Hooks run with the umask of people's own files, and ask whom nobody decided about.
fn hooks(trust: &Arc<TrustFile>, umask: u32) -> Arc<HooksOf> {
    let trust = Arc::clone(trust);
    let settings = Arc::new(HookSettings {
        umask: Some(umask),
        ..HookSettings::default()
    });
    Arc::new(move |brought: &Brought| Arc::new(CommandHooks::of(brought, &trust, &settings)))
}

/// Does something beside everything else.
async fn and_then_wait(work: impl Future<Output = ()>) {
    work.await;
    std::future::pending().await
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
                .hint("`innkeeper doctor` looks at it and says what to do; nothing was changed")
        }
        error => Failure::new(Kind::Unexpected, format!("the host cannot start ({error})")),
    }
}

/// Sessions are kept in the data directory, and of what was said as much for replay as the core
/// keeps in memory.
fn journal(dir: &DataDir, limits: &Limits) -> SqliteJournal {
    let replay = &limits.core.replay;
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let options = innkeeper_store::Options {
        replay: innkeeper_store::ReplayLimits {
            age: Duration::from_millis(replay.max_age_ms),
            channel_bytes: bytes(replay.channel_bytes),
            total_bytes: bytes(replay.total_bytes),
        },
        // Those that are here count as well.
        clients: limits.core.max_absent_clients.saturating_add(limits.connections),
        ..innkeeper_store::Options::default()
    };
    SqliteJournal::new(&dir.file(innkeeper_store::FILE_NAME), options)
}

/// The URIs of all sessions that are kept, if they can be read.
fn kept_sessions(store: &Path) -> Option<Vec<String>> {
    let archive = Archive::open(store, Mode::ReadOnly).ok()?;
    // In one piece: between two pages a session that changes could move from one to the other.
    let page = ListPage {
        after: None,
        limit: MAX_SESSIONS,
    };
    let found = archive.list(&page).ok()?;
    Some(found.into_iter().map(|session| session.uri).collect())
}

/// Somebody else's sessions are looked at.
fn looking_journal(dir: &DataDir) -> Result<ReadOnlyJournal, Failure> {
    ReadOnlyJournal::new(&dir.file(innkeeper_store::FILE_NAME))
        .map_err(|error| Failure::new(Kind::DataDirectory, error.message))
}

/// The owner changes sessions behind the back of whoever only looks, who therefore keeps none in memory for long.
fn looking(mut limits: Limits) -> Limits {
    limits.core.idle_session_ms = limits.core.idle_session_ms.clamp(1, LOOKING_IDLE_MS);
    limits
}

async fn bind_tcp(address: ListenAddress) -> Result<(TcpListener, SocketAddr), Failure> {
    let address = address.socket_addr();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(Kind::InUse, format!("another process already listens on {address}"))
            .hint(format!(
                "stop it, or choose another port with --listen {}",
                SocketAddr::new(address.ip(), 0)
            )),
        io::ErrorKind::PermissionDenied => {
            Failure::new(Kind::CannotListen, format!("this user may not listen on {address}"))
                .hint("choose a port above 1023 with --listen ADDR:PORT")
        }
        _ => Failure::new(Kind::CannotListen, format!("{address} cannot be listened on ({error})"))
            .hint("choose an address of this machine with --listen ADDR:PORT"),
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// The tokens of narrower scope.
fn narrow_tokens(settings: &Settings) -> Result<Vec<(Scope, TokenFile)>, Failure> {
    let files = settings.narrow_tokens.iter();
    files
        .map(|(scope, path)| Ok((*scope, TokenFile::read_or_create(path)?)))
        .collect()
}

/// Says who may connect to the TCP port.
fn tcp_access(
    bound: SocketAddr,
    token: Option<&TokenFile>,
    narrow: &[(Scope, TokenFile)],
    settings: &Settings,
) -> Result<Access, Failure> {
    let mut access = Access::new(bound);
    if let Some(token) = token {
        access = access.allow_token(usable(token)?, "default", Scope::Admin);
    }
    for (scope, token) in narrow {
        access = access.allow_token(usable(token)?, &scope.to_string(), *scope);
    }
    for origin in &settings.allow_origin {
        access = access.allow_origin(origin.as_str());
    }
    for name in &settings.allow_host {
        access = access.allow_host(name);
        if !name.contains(':') {
            access = access.allow_host(&format!("{name}:{}", bound.port()));
        }
    }
    Ok(access)
}

fn usable(token: &TokenFile) -> Result<Token, Failure> {
    Token::parse(token.secret()).map_err(|error| {
        Failure::new(
            Kind::DataDirectory,
            format!("the token in {} cannot be used ({error})", token.path().display()),
        )
        .hint("delete the file, and the host will write a new one at its next start")
    })
}

/// The built-in guide; benchmarks ask it to say when it produced each piece of its answers.
fn tour_agent() -> TourAgent {
    match std::env::var_os("INNKEEPER_TOUR_STAMP") {
        Some(_) => TourAgent::new().stamped(),
        None => TourAgent::new(),
    }
}

fn tokio_listener(listener: std::os::unix::net::UnixListener) -> Result<UnixListener, Failure> {
    listener
        .set_nonblocking(true)
        .and_then(|()| UnixListener::from_std(listener))
        .map_err(|error| Failure::new(Kind::CannotListen, format!("the Unix socket cannot be used ({error})")))
}

/// Tells people on standard error, and programs on standard output, that the host listens.
fn announce(settings: &Settings, endpoint: &Endpoint) {
    let banner = Banner {
        url: endpoint.url.clone(),
        unix: endpoint.unix.clone(),
        stdio: settings.stdio,
        token_file: endpoint.token_file.clone(),
        data: settings.unusual_data.clone(),
    };
    terminal::note(&banner.render());
    if settings.json {
        let ready = Ready {
            ready: true,
            url: endpoint.url.as_deref(),
            token_file: endpoint.token_file.as_deref(),
            pid: endpoint.pid,
        };
        let line =
            serde_json::to_string(&ready).expect("invariant: the ready line has only string keys and plain values");
        let mut stdout = io::stdout();
        if let Err(error) = writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
            tracing::warn!(%error, "the ready line could not be written");
        }
    }
}

/// The line that `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready<'a> {
    ready: bool,
    url: Option<&'a str>,
    token_file: Option<&'a Path>,
    pid: u32,
}
