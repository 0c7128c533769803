//! The redirect address: a port of this machine that receives one authorization response (RFC 8252, 7.3).

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::failure::{Failure, Kind};
use crate::terminal::note;

use super::authorization_request::{AuthorizationRequest, AuthorizationResponse, fields};

const PATH: &str = "/callback";
/// The largest request, and its timeout.
const MAX_BYTES: usize = 16 << 10;
const READ_TIME: Duration = Duration::from_secs(10);
/// Most concurrent connections; browsers open some that they never use.
const MAX_CONNECTIONS: usize = 16;

const DONE: &str = "Innkeeper has its answer. Close this page and go back to the shell.";
const STRANGE: &str = "This answer does not belong to the sign-in that Innkeeper waits for.";
const NOTHING: &str = "There is nothing here.";

/// The listener of one sign-in.
pub(super) struct Redirect {
    listener: TcpListener,
    address: String,
}

impl Redirect {
    /// Listens on a port, or on any free one. Native programs may use any port, but some authorization servers require
    /// a registered one.
    pub(super) async fn listen(port: Option<u16>) -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| match port {
            None => {
                let message = format!("no port of this machine can be listened on for the browser ({error})");
                Failure::new(Kind::CannotListen, message)
            }
            Some(port) => {
                let message = format!("port {port} of this machine cannot be listened on for the browser ({error})");
                Failure::new(Kind::CannotListen, message).hint(
                    "end what uses it, or register another one with the authorization server and name that with \
                     --redirect-port",
                )
            }
        };
        let place = (Ipv4Addr::LOCALHOST, port.unwrap_or(0));
        let listener = TcpListener::bind(place).await.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        Ok(Self {
            listener,
            address: format!("http://127.0.0.1:{port}{PATH}"),
        })
    }

    /// Returns the redirect address.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the authorization response of this sign-in. Any process of this machine can connect, so other requests
    /// are ignored.
    pub(super) async fn wait(
        &self,
        request: &AuthorizationRequest,
        timeout: Duration,
    ) -> Result<AuthorizationResponse, Failure> {
        let (sender, mut visits) = mpsc::channel::<Visit>(MAX_CONNECTIONS);
        let mut connections = JoinSet::new();
        let waiting = async {
            loop {
                tokio::select! {
                    Ok((stream, _)) = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                        connections.spawn(read(stream, sender.clone()));
                    }
                    Some(_) = connections.join_next() => {}
                    Some(mut visit) = visits.recv() => match visit.answer.take() {
                        Some(answer) if request.is_answered_by(&answer) => {
                            visit.show(200, DONE).await;
                            return AuthorizationResponse::Answer(answer);
                        }
                        Some(_) => {
                            note("The browser came back from a sign-in that was not requested here; it was ignored.");
                            visit.show(400, STRANGE).await;
                        }
                        None => visit.show(404, NOTHING).await,
                    },
                }
            }
        };
        tokio::time::timeout(timeout, waiting).await.map_err(|_| {
            Failure::new(Kind::Rejected, "no sign-in arrived within 15 minutes")
                .hint("begin again; with --paste the browser can be on another machine")
        })
    }
}

/// A request of a browser.
struct Visit {
    stream: TcpStream,
    /// The query fields, if the path is the redirect address.
    answer: Option<HashMap<String, String>>,
}

impl Visit {
    /// Responds with a page that has nothing of the request.
    async fn show(mut self, status: u16, words: &str) {
        let page = format!("<!doctype html><meta charset=\"utf-8\"><title>Innkeeper</title><p>{words}</p>\n");
        let head = format!(
            "HTTP/1.1 {status} \r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n",
            page.len()
        );
        let showing = async {
            self.stream.write_all(head.as_bytes()).await?;
            self.stream.write_all(page.as_bytes()).await?;
            self.stream.shutdown().await
        };
        // A browser that does not read the page does not need it.
        let _ = tokio::time::timeout(READ_TIME, showing).await;
    }
}

async fn read(mut stream: TcpStream, visits: mpsc::Sender<Visit>) {
    let mut head = Vec::new();
    let reading = async {
        let mut piece = [0; 2048];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_BYTES {
            let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
            head.extend_from_slice(piece.get(..count)?);
        }
        Some(())
    };
    if !matches!(tokio::time::timeout(READ_TIME, reading).await, Ok(Some(()))) {
        return;
    }
    let answer = answer(&String::from_utf8_lossy(&head));
    let _ = visits.send(Visit { stream, answer }).await;
}

/// Returns the query fields of a request to the redirect address.
fn answer(head: &str) -> Option<HashMap<String, String>> {
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?')?;
    (method == "GET" && path == PATH).then(|| fields(query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_redirect_path_is_accepted() {
        let brought = answer("GET /callback?code=a%20b&state=s HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(brought["code"], "a b");
        for head in [
            "GET /favicon.ico HTTP/1.1",
            "POST /callback?code=a HTTP/1.1",
            "GET /callback HTTP/1.1",
            "",
            "\u{fffd}",
        ] {
            assert!(answer(head).is_none(), "{head}");
        }
    }
}
