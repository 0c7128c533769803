//! Opens the host to clients: sockets, tokens, the discovery file and the banner.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use innkeeper_cli::discovery::{Endpoint, PublishedEndpoint, TokenFile};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal;
use innkeeper_host::Access;
use innkeeper_host::access::{Scope, Token};
use innkeeper_host::http::Server;
use innkeeper_host::web::{StaticFile, WebApp};
use serde::Serialize;
use tokio::net::{TcpListener, UnixListener};

use super::banner::Banner;
use crate::address::{ListenAddress, local_url};
use crate::devices::{self, DeviceStore};
use crate::settings::Settings;
use crate::unix_socket::SocketFile;

use super::{Prepared, RunningHost};

/// The sockets of the host, bound before it starts.
pub(super) struct Sockets {
    pub(super) tcp: Option<(TcpListener, SocketAddr)>,
    pub(super) unix: Option<(std::os::unix::net::UnixListener, SocketFile)>,
}

/// The listeners of a running host.
pub(super) struct Listening {
    pub(super) servers: Vec<Server>,
    _socket_file: Option<SocketFile>,
    _published: Option<PublishedEndpoint>,
}

/// Accepts clients on all sockets, and says where the host can be reached.
pub(super) fn open(settings: &Settings, prepared: &mut Prepared, running: &RunningHost) -> Result<Listening, Failure> {
    let mut servers = Vec::new();
    let mut endpoint = Endpoint {
        url: None,
        unix: None,
        token_file: prepared.token.as_ref().map(|token| token.path().to_owned()),
        pid: std::process::id(),
        started_at: jiff::Timestamp::now().to_string(),
    };
    if let Some((listener, bound)) = prepared.sockets.tcp.take() {
        let access = tcp_access(bound, prepared, settings)?;
        servers.push(innkeeper_host::http::serve_tcp(running.host.handle(), listener, access));
        endpoint.url = Some(local_url(bound));
    }
    let mut socket_file = None;
    if let Some((listener, file)) = prepared.sockets.unix.take() {
        let listener = tokio_listener(listener)?;
        servers.push(innkeeper_host::http::serve_unix(
            running.host.handle(),
            listener,
            Access::unix(),
        ));
        endpoint.unix = Some(file.path().to_owned());
        socket_file = Some(file);
    }
    let published = match servers.is_empty() || settings.read_only {
        true => None,
        false => Some(endpoint.publish(&prepared.dir)?),
    };
    announce(settings, &endpoint, first_page(settings, prepared, &endpoint));
    Ok(Listening {
        servers,
        _socket_file: socket_file,
        _published: published,
    })
}

/// Binds the TCP socket.
pub(super) async fn bind_tcp(address: ListenAddress) -> Result<(TcpListener, SocketAddr), Failure> {
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

/// Returns who may connect to the TCP port.
fn tcp_access(bound: SocketAddr, prepared: &Prepared, settings: &Settings) -> Result<Access, Failure> {
    let devices = Arc::new(DeviceStore::new(&prepared.dir));
    let mut access = Access::new(bound).serve_web_app(WebApp::new(web_file, devices, bound.port()));
    if let Some(token) = &prepared.token {
        access = access.allow_token(usable(token)?, "default", Scope::Admin);
    }
    for (scope, token) in &prepared.narrow_tokens {
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

fn web_file(path: &str) -> Option<StaticFile> {
    let file = innkeeper_web::find(path)?;
    Some(StaticFile {
        content_type: file.content_type,
        gzip: file.gzip,
        is_immutable: file.is_immutable(),
    })
}

/// Returns the address of the web app for the banner. Only a user at a terminal gets a code: standard error may be a log.
fn first_page(settings: &Settings, prepared: &Prepared, endpoint: &Endpoint) -> Option<String> {
    let url = endpoint.url.as_deref()?;
    let signs_in = prepared.token.is_some() && !settings.read_only && io::stderr().is_terminal();
    let link = signs_in.then(|| devices::first_link(&prepared.dir, url));
    match link {
        Some(Ok(link)) => Some(format!("{link} (once; later: {} open)", terminal::program())),
        Some(Err(failure)) => {
            terminal::warn(&failure.to_string());
            None
        }
        None if prepared.token.is_none() => Some(devices::page_of(url)),
        None => Some(format!("{} ({} open)", devices::page_of(url), terminal::program())),
    }
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

fn tokio_listener(listener: std::os::unix::net::UnixListener) -> Result<UnixListener, Failure> {
    listener
        .set_nonblocking(true)
        .and_then(|()| UnixListener::from_std(listener))
        .map_err(|error| Failure::new(Kind::CannotListen, format!("the Unix socket cannot be used ({error})")))
}

/// Says that the host listens: to the user on standard error, to programs on standard output.
fn announce(settings: &Settings, endpoint: &Endpoint, page: Option<String>) {
    let banner = Banner {
        url: endpoint.url.clone(),
        page,
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
