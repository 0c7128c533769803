//! Signing in to a protected resource from a shell, as a public client of OAuth 2.1.
//!
//! What is needed is told by the server that wants it (RFC 9728): who gives out tokens, for what, and with which
//! scopes. [`discovery`] finds out about the authorization server, [`client`] is who asks there, [`authorization_request`] is what a
//! person agrees to in a browser, [`redirect`] is where the browser comes back to, and [`token_exchange`] turns the code that
//! it brings into tokens. Secrets go to encrypted addresses or stay on this machine, and are never printed.

mod authorization_request;
mod client;
mod discovery;
mod http;
mod redirect;
mod token_exchange;

use std::io::BufRead as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::failure::{Failure, Kind};
use crate::terminal::{Output, note, one_line};

use self::authorization_request::{Begun, Returned};
use self::client::OAuthClient;
pub(super) use self::client::Registered;
use self::discovery::Metadata;
use self::redirect::Redirect;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// What somebody has to sign in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    /// What people call it.
    pub(super) name: String,
    /// What the token is for (RFC 8707).
    pub(super) resource: String,
    /// Who gives out tokens for it.
    pub(super) authorization_servers: Vec<String>,
    /// What the token has to grant.
    pub(super) scopes: Vec<String>,
    /// The client to sign in with, if people registered one.
    pub(super) client_id: Option<String>,
}

/// How a person is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Whether a browser is opened.
    pub(super) opens_browser: bool,
    /// Whether the person brings the answer, because the browser cannot.
    pub(super) pastes: bool,
    /// The port that the browser comes back to, where one was registered.
    pub(super) port: Option<u16>,
}

/// What an authorization server gave. Never printed, so there is no `Debug`.
pub(super) struct Tokens {
    pub(super) access: String,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
    /// How the host gets the next one, and where this one is declared void, as the extension `innkeeper.refresh` has it.
    pub(super) refresh: Option<Value>,
}

/// Has a person sign in, and returns what that gave.
pub(super) async fn sign_in(needed: &Needed, registered: Registered, manner: Manner) -> Result<Tokens, Failure> {
    let metadata = Metadata::find(&needed.authorization_servers, &needed.resource).await?;
    let redirect = Redirect::listen(manner.port).await?;
    let client = OAuthClient::find(&metadata, registered, redirect.address()).await?;
    let mut scopes = needed.scopes.clone();
    if metadata.offers_offline_access && !scopes.iter().any(|scope| scope == authorization_request::OFFLINE) {
        scopes.push(authorization_request::OFFLINE.to_owned());
    }
    let begun = Begun::new(&metadata, &client.id, redirect.address(), &needed.resource, &scopes)?;
    let host = one_line(&metadata.issuer, 300);
    note(&format!(
        "To sign in to {} at {host}, open this address in a browser:",
        one_line(&needed.name, 200)
    ));
    Output::stdout().show(&format!("{}\n", begun.address))?;
    if manner.opens_browser && !manner.pastes {
        open_browser(&begun.address);
    }
    let returned = match manner.pastes {
        true => pasted(&begun).await?,
        false => redirect.wait(&begun, PATIENCE).await?,
    };
    let code = begun.code(returned, &metadata)?;
    let granted =
        token_exchange::tokens(&metadata, &client, &begun, redirect.address(), &needed.resource, &code).await?;
    // Without a word about it, everything that was asked for is granted (RFC 6749, 5.1).
    let asked = Some(scopes).filter(|scopes| !scopes.is_empty());
    let revocation = metadata.revocation_endpoint.as_ref();
    let is_of_use = granted.refresh_token.is_some() || revocation.is_some();
    let refresh = is_of_use.then(|| {
        let mut refresh = json!({
            "tokenEndpoint": metadata.token_endpoint.as_str(), "clientId": client.id,
            "authMethod": client.method.name(),
        });
        for (field, value) in [
            ("refreshToken", granted.refresh_token.as_deref()),
            ("clientSecret", client.secret.as_deref()),
            ("revocationEndpoint", revocation.map(url::Url::as_str)),
        ] {
            if let Some(value) = value {
                refresh[field] = json!(value);
            }
        }
        refresh
    });
    Ok(Tokens {
        access: granted.access_token,
        expires_in: granted.expires_in,
        scopes: granted.scopes.or(asked),
        refresh,
    })
}

/// Opens an address where there is something to open it with. That it cannot be is no failure: it is printed as well.
fn open_browser(address: &url::Url) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        "xdg-open"
    } else {
        return;
    };
    let nothing = std::process::Stdio::null;
    let opening = std::process::Command::new(program)
        .arg(address.as_str())
        .stdin(nothing())
        .stdout(nothing())
        .stderr(nothing())
        .spawn();
    drop(opening);
}

/// Reads what the person copied from the browser.
async fn pasted(begun: &Begun) -> Result<Returned, Failure> {
    note(
        "Afterwards the browser shows a page that it cannot load. Copy the address of that page, paste it here and \
         press Enter:",
    );
    let (sender, receiver) = oneshot::channel();
    // On a thread of its own: nobody waits for it when the command is stopped.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    });
    let line = receiver.await.ok().and_then(Result::ok).unwrap_or_default();
    if line.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "nothing was pasted"));
    }
    begun.read_pasted(line.trim())
}
