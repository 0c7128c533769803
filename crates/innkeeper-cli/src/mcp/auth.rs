//! `innkeeper mcp auth`: signs in to MCP servers and out.

use std::io::Read as _;
use std::time::Duration;

use ahp_types::common::ROOT_RESOURCE_URI;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::args::McpAuthArgs;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::StopSignals;
use crate::terminal::{Output, note, one_line};

use super::oauth::{self, RegisteredClient, SignInMode, Tokens};
use super::session::{Session, SessionTarget};
use super::sign_in_request::{SignInOutcome, SignInRequest, has_settled, pick, signed_in};
use super::turn::stopped;
use crate::connection::Connection;

/// Timeout until a session has discovered and started its servers.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout until a server has started with its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a failure must persist before it is reported.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Largest token or secret.
const MAX_BYTES: u64 = 64 << 10;

/// Signs in or out.
pub(super) async fn run(dir: &DataDir, args: McpAuthArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.session.connect).await?;
    let outcome = auth(&mut connection, &args).await;
    connection.close().await;
    outcome
}

async fn auth(connection: &mut Connection, args: &McpAuthArgs) -> Result<(), Failure> {
    if let Some(resource) = &args.resource {
        return sign_out(connection, resource).await;
    }
    let place = SessionTarget::find(connection, &args.session).await?;
    let mut session = match place.session {
        Some(summary) => Session::follow(connection, summary.resource).await?,
        // A temporary session has the same servers and tokens as any session here.
        None => Session::open(connection, place.directories).await?,
    };
    let mut signals = StopSignals::listen()?;
    let outcome = tokio::select! {
        outcome = in_session(connection, &mut session, args) => outcome,
        _ = signals.next() => Err(stopped()),
    };
    session.leave(connection).await;
    outcome
}

async fn in_session(connection: &mut Connection, session: &mut Session, args: &McpAuthArgs) -> Result<(), Failure> {
    let name = args.name.as_deref();
    session
        .until(connection, Instant::now() + START_TIMEOUT, |state| {
            has_settled(state, name)
        })
        .await?;
    if args.revoke {
        return sign_out(connection, &signed_in(&session.state, name)?).await;
    }
    let wanted = pick(&session.state, name)?;
    let tokens = match args.token_stdin {
        true => Tokens {
            access: from_stdin().await?,
            expires_in: None,
            scopes: None,
            refresh: None,
        },
        false => {
            let mode = SignInMode {
                opens_browser: !args.no_browser,
                is_pasted: args.paste,
                port: args.redirect_port,
            };
            let signing_in = oauth::sign_in(&wanted.needed, registered(args, &wanted)?, mode);
            tokio::pin!(signing_in);
            loop {
                // The user may take long. Read the events meanwhile, or the client would drop them.
                tokio::select! {
                    tokens = &mut signing_in => break tokens?,
                    envelope = session.next(connection) => drop(envelope?),
                }
            }
        }
    };
    let renews = hand_over(connection, &wanted.needed.resource, &tokens).await?;
    follow(connection, session, &wanted).await?;
    Output::stdout().show(&format!("signed in to {}\n", one_line(&wanted.needed.name, 200)))?;
    if wanted.is_forgotten(&session.state) {
        // Otherwise the user would notice only when the server asks again (AUTH-07).
        note(
            "This host keeps no tokens (`keep_tokens = false`): it forgets this one about half a minute after this \
             command has ended. A client that stays connected can sign in for longer.",
        );
        return Ok(());
    }
    match (renews, tokens.expires_in) {
        (true, _) => note("The host renews the token by itself."),
        (false, Some(seconds)) => note(&format!("The token is good for {seconds} seconds; sign in again then.")),
        (false, None) => {}
    }
    let name = one_line(&wanted.needed.name, 200);
    note(&format!("To sign out: innkeeper mcp auth '{name}' --revoke"));
    Ok(())
}

/// Returns the registered client: flags override the declaration of the server.
fn registered(args: &McpAuthArgs, wanted: &SignInRequest) -> Result<RegisteredClient, Failure> {
    let secret = match &args.client_secret_file {
        None => None,
        Some(path) => {
            let cannot = |error: std::io::Error| {
                let message = format!(
                    "{} with the secret of the client cannot be read ({error})",
                    path.display()
                );
                Failure::new(Kind::Usage, message)
            };
            let file = std::fs::File::open(path).map_err(cannot)?;
            let mut secret = String::new();
            file.take(MAX_BYTES).read_to_string(&mut secret).map_err(cannot)?;
            Some(secret.trim().to_owned())
        }
    };
    let id = args.client_id.clone().or_else(|| wanted.needed.client_id.clone());
    if secret.is_some() && id.is_none() {
        let message = "a secret is of no use without the client that it belongs to";
        return Err(Failure::new(Kind::Usage, message).hint("name the client with --client-id"));
    }
    Ok(RegisteredClient { id, secret })
}

async fn from_stdin() -> Result<String, Failure> {
    let (sender, receiver) = oneshot::channel();
    // On its own thread, so that an interrupted command does not wait for it.
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().take(MAX_BYTES).read_to_string(&mut text);
        let _ = sender.send(read.map(|_| text));
    });
    let read = receiver.await.unwrap_or_else(|_| Ok(String::new()));
    let text = read.map_err(|error| Failure::new(Kind::Usage, format!("standard input cannot be read ({error})")))?;
    match text.trim() {
        "" => Err(Failure::new(Kind::Usage, "standard input has no token").hint("to sign out, use --revoke")),
        token => Ok(token.to_owned()),
    }
}

/// Sends the token to the host (MCP-11), with the refresh data if the host accepts it. Returns whether it does.
async fn hand_over(connection: &Connection, resource: &str, tokens: &Tokens) -> Result<bool, Failure> {
    let mut params = json!({ "channel": ROOT_RESOURCE_URI, "resource": resource, "token": tokens.access });
    if let Some(seconds) = tokens.expires_in {
        params["expiresIn"] = json!(seconds);
    }
    if let Some(scopes) = &tokens.scopes {
        params["scopes"] = json!(scopes);
    }
    match authenticate(connection, &params, tokens.refresh.as_ref()).await {
        // Authorization servers describe granted scopes in many ways. Only the MCP server knows whether they suffice.
        Err(failure) if tokens.scopes.is_some() && failure.message().contains("does not grant what is asked for") => {
            if let Some(fields) = params.as_object_mut() {
                fields.remove("scopes");
            }
            authenticate(connection, &params, tokens.refresh.as_ref()).await
        }
        given => given,
    }
}

async fn authenticate(connection: &Connection, params: &Value, refresh: Option<&Value>) -> Result<bool, Failure> {
    if let Some(refresh) = refresh {
        let mut with_refresh = params.clone();
        with_refresh["_meta"] = json!({ "innkeeper.refresh": refresh });
        match connection.request::<Value>("authenticate", with_refresh).await {
            Ok(_) => return Ok(refresh.get("refreshToken").is_some()),
            // The host rejects refresh data for other authorization servers than the declared ones; the token is still
            // valid.
            Err(failure) if failure.message().contains("innkeeper.refresh") => {}
            Err(failure) => return Err(failure),
        }
    }
    let _: Value = connection.request("authenticate", params).await?;
    Ok(false)
}

/// Waits for the status of the server with the token (AUTH-10).
async fn follow(connection: &mut Connection, session: &mut Session, wanted: &SignInRequest) -> Result<(), Failure> {
    let give_up_at = Instant::now() + TOKEN_TIMEOUT;
    let mut has_moved = false;
    loop {
        let failure = match wanted.after(&session.state, has_moved) {
            SignInOutcome::Taken => return Ok(()),
            SignInOutcome::Failed(failure) => Some(failure),
            SignInOutcome::Waiting { moved } => {
                has_moved |= moved;
                None
            }
        };
        // Servers have been seen to reject a valid token once before they were ready, so only a failure that persists
        // counts.
        let until = match failure {
            Some(_) => give_up_at.min(Instant::now() + SETTLE_TIME),
            None => give_up_at,
        };
        match (tokio::time::timeout_at(until, session.next(connection)).await, failure) {
            (Ok(envelope), _) => drop(envelope?),
            (Err(_), Some(failure)) => return Err(failure),
            (Err(_), None) => {
                let name = one_line(&wanted.needed.name, 200);
                return Err(Failure::new(
                    Kind::Unexpected,
                    format!("the host has the token, but {name} has not started with it yet"),
                )
                .hint("`innkeeper mcp` shows its status"));
            }
        }
    }
}

async fn sign_out(connection: &Connection, resource: &str) -> Result<(), Failure> {
    let params = json!({ "channel": ROOT_RESOURCE_URI, "resource": resource, "token": "" });
    let _: Value = connection.request("authenticate", params).await?;
    Output::stdout().show(&format!("signed out of {}\n", one_line(resource, 300)))
}
