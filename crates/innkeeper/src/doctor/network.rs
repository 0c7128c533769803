//! Checks the addresses: free, or in use by the running host.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::address::ListenAddress;
use crate::config::ConfigFile;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::discovery::Endpoint;

use super::report::Report;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest response.
const ANSWER_BYTES: u64 = 64 << 10;

/// Checks the addresses of the running host, or those of the configuration.
pub(super) fn check(dir: &DataDir, config: &ConfigFile, report: &mut Report) {
    match Endpoint::find(dir) {
        Some(running) => {
            if let Some(url) = &running.url {
                answers(url, report);
            }
            if let Some(path) = &running.unix {
                socket_answers(path, report);
            }
        }
        None => {
            is_free(config.listen.unwrap_or(ListenAddress::DEFAULT), report);
            if let Some(path) = &config.unix {
                socket_is_free(path, report);
            }
        }
    }
}

fn answers(url: &str, report: &mut Report) {
    const SUBJECT: &str = "address";
    let name = url.strip_prefix("ws://").unwrap_or(url).trim_end_matches('/');
    let asked = |path: &str| -> io::Result<(u16, String)> {
        let address: SocketAddr = name.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        get(stream, name, path)
    };
    match asked("/healthz") {
        Ok((200, _)) => report.ok(SUBJECT, format!("the host answers at {url}")),
        Ok((status, _)) => report.fail(
            SUBJECT,
            format!("{url} answers with {status}"),
            "restart the host; its log says more",
        ),
        Err(error) => report.fail(
            SUBJECT,
            format!("the host does not answer at {url} ({error})"),
            "see whether it hangs, and restart it; its log says more",
        ),
    }
    match asked("/readyz") {
        Ok((200, _)) => report.ok(SUBJECT, "the host takes work"),
        Ok((_, text)) => report.fail(
            SUBJECT,
            format!("the host takes no work: {}", text.trim()),
            "free space or repair the disk; the host continues by itself when it can write again",
        ),
        // Reported above already.
        Err(_) => {}
    }
}

/// Requests a page and returns the status and the body.
fn get(mut stream: impl Read + Write, host: &str, path: &str) -> io::Result<(u16, String)> {
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status =
        status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the server that answers is not a host"))?;
    Ok((status, body.to_owned()))
}

fn socket_answers(path: &Path, report: &mut Report) {
    const SUBJECT: &str = "unix socket";
    match UnixStream::connect(path) {
        Ok(_) => report.ok(SUBJECT, format!("the host answers at {}", path.display())),
        Err(error) => report.fail(
            SUBJECT,
            format!("the host does not answer at {} ({error})", path.display()),
            "see whether something removed the socket, and restart the host",
        ),
    }
}

fn is_free(address: ListenAddress, report: &mut Report) {
    const SUBJECT: &str = "address";
    let address = address.socket_addr();
    match TcpListener::bind(address) {
        Ok(_) => report.ok(SUBJECT, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => report.fail(
            SUBJECT,
            format!("another process listens on {address}"),
            "stop it, or choose another port with --listen or `listen` in the configuration",
        ),
        Err(error) => report.fail(
            SUBJECT,
            format!("{address} cannot be listened on ({error})"),
            "choose another address with --listen or `listen` in the configuration",
        ),
    }
}

fn socket_is_free(path: &Path, report: &mut Report) {
    const SUBJECT: &str = "unix socket";
    let shown = path.display();
    match UnixStream::connect(path) {
        Ok(_) => report.fail(
            SUBJECT,
            format!("another process listens on {shown}"),
            "stop it, or choose another path with --unix or `unix` in the configuration",
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => report.ok(SUBJECT, format!("{shown} is free")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            report.ok(
                SUBJECT,
                format!("{shown} is left over from a host that was killed; the next one replaces it"),
            );
        }
        Err(error) => report.fail(
            SUBJECT,
            format!("{shown} cannot be used ({error})"),
            "correct its permissions, or choose another path",
        ),
    }
}
