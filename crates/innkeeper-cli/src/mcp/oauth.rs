//! Signing in to a protected resource from a shell, as a public client of OAuth 2.1.
//!
//! The MCP server names its authorization servers, its resource and the scopes (RFC 9728). [`discovery`] reads the
//! metadata of the authorization server, [`client`] registers a client, [`authorization_request`] is what the user
//! accepts in a browser, [`redirect`] receives the response, and [`token_exchange`] exchanges the code for tokens.
//! Secrets go only to encrypted addresses or to this machine, and are never printed. The crate `oauth2` would replace
//! about sixty lines (PKCE, the request address, the exchange), and needs an HTTP adapter and own response types to
//! keep our checks: real servers send `expires_in` as a string and scopes with commas, omit `token_type`, and the `iss`
//! check (RFC 9207) and the response limit are ours in any case. The host refreshes tokens, so there is no refresh
//! here.

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

use self::authorization_request::{AuthorizationRequest, AuthorizationResponse};
use self::client::OAuthClient;
pub(super) use self::client::RegisteredClient;
use self::discovery::Metadata;
use self::redirect::Redirect;

/// Timeout of the user.
const USER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// A resource to sign in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignInTarget {
    /// Its name in messages.
    pub(super) name: String,
    /// The resource of the token (RFC 8707).
    pub(super) resource: String,
    /// Its authorization servers.
    pub(super) authorization_servers: Vec<String>,
    /// The scopes to request.
    pub(super) scopes: Vec<String>,
    /// The registered client, if the declaration of the server has one.
    pub(super) client_id: Option<String>,
}

/// How the user signs in.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignInMode {
    /// Whether to open a browser.
    pub(super) opens_browser: bool,
    /// Whether the user is_pasted the response, because the browser cannot reach this machine.
    pub(super) is_pasted: bool,
    /// The port of the redirect address, if one was registered.
    pub(super) port: Option<u16>,
}

/// The tokens of an authorization server. They are never printed, so there is no `Debug`.
pub(super) struct Tokens {
    pub(super) access: String,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
    /// The data to refresh and revoke the token, in the format of the extension `innkeeper.refresh`.
    pub(super) refresh: Option<Value>,
}

/// Lets the user sign in, and returns the tokens.
pub(super) async fn sign_in(
    needed: &SignInTarget,
    registered: RegisteredClient,
    mode: SignInMode,
) -> Result<Tokens, Failure> {
    let metadata = Metadata::find(&needed.authorization_servers, &needed.resource).await?;
    let redirect = Redirect::listen(mode.port).await?;
    let client = OAuthClient::find(&metadata, registered, redirect.address()).await?;
    let mut scopes = needed.scopes.clone();
    if metadata.offers_offline_access
        && !scopes
            .iter()
            .any(|scope| scope == authorization_request::OFFLINE_ACCESS)
    {
        scopes.push(authorization_request::OFFLINE_ACCESS.to_owned());
    }
    let request = AuthorizationRequest::new(&metadata, &client.id, redirect.address(), &needed.resource, &scopes)?;
    let host = one_line(&metadata.issuer, 300);
    note(&format!(
        "To sign in to {} at {host}, open this address in a browser:",
        one_line(&needed.name, 200)
    ));
    Output::stdout().show(&format!("{}\n", request.address))?;
    if mode.opens_browser && !mode.is_pasted {
        crate::terminal::open_in_browser(request.address.as_str());
    }
    let returned = match mode.is_pasted {
        true => pasted(&request).await?,
        false => redirect.wait(&request, USER_TIMEOUT).await?,
    };
    let code = request.code(returned, &metadata)?;
    let granted = token_exchange::tokens(
        &metadata,
        &client,
        &request,
        redirect.address(),
        &needed.resource,
        &code,
    )
    .await?;
    // A response without scopes grants all requested ones (RFC 6749, 5.1).
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

/// Reads what the user copied from the browser.
async fn pasted(request: &AuthorizationRequest) -> Result<AuthorizationResponse, Failure> {
    note(
        "Afterwards the browser shows a page that it cannot load. Copy the address of that page, paste it here and \
         press Enter:",
    );
    let (sender, receiver) = oneshot::channel();
    // On its own thread, so that an interrupted command does not wait for it.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    });
    let line = receiver.await.ok().and_then(Result::ok).unwrap_or_default();
    if line.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "nothing was pasted"));
    }
    request.read_pasted(line.trim())
}
