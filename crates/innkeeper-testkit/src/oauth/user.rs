//! A user who signs in through a client, with nothing but the information that the client got.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::http::{ask, fields};

/// The redirect address. Nothing listens there: the address itself carries the code.
const REDIRECT: &str = "http://127.0.0.1:1/callback";
const VERIFIER: &str = "a-verifier-that-is-long-enough-to-be-a-proof-of-something";

/// The page that a browser shows.
#[derive(Debug, Clone)]
pub struct BrowserPage {
    /// The status.
    pub status: u16,
    /// Where it is sent next.
    pub location: Option<String>,
    /// The page.
    pub page: String,
}

/// Opens an address as a browser would, without going on to where it is sent next.
pub async fn visit(address: &str) -> BrowserPage {
    let (status, headers, body) = ask("GET", address, &[], "").await;
    let location = headers.get("location").and_then(|location| location.to_str().ok());
    BrowserPage {
        status,
        location: location.map(str::to_owned),
        page: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// The result of a sign-in.
#[derive(Debug, Clone)]
pub struct SignInResult {
    /// The token.
    pub token: String,
    /// Its resource.
    pub resource: String,
    /// The answer of the token endpoint.
    pub answer: Value,
}

impl SignInResult {
    /// The parameters of `authenticate`.
    pub fn authenticate(&self) -> Value {
        let scopes = self.answer["scope"].as_str().unwrap_or_default();
        let scopes: Vec<&str> = scopes.split_ascii_whitespace().collect();
        json!({
            "channel": "ahp-root://", "resource": self.resource, "token": self.token,
            "expiresIn": self.answer["expires_in"], "scopes": scopes,
        })
    }
}

/// A user, with the secret of a client that was registered beforehand, if the client has one.
#[derive(Debug, Clone, Default)]
pub struct User {
    /// The secret.
    pub client_secret: Option<String>,
}

impl User {
    /// Signs in to what a server or a call is shown to wait for (`McpServerAuthRequiredState`, `McpAuthRequirement`).
    pub async fn sign_in(&self, needed: &Value) -> SignInResult {
        let resource = needed["resource"]["resource"].as_str().expect("what to sign in to");
        let issuer = needed["resource"]["authorization_servers"][0]
            .as_str()
            .expect("where to sign in");
        let metadata = discover(issuer).await;
        let client = match needed["oauthClient"]["clientId"].as_str() {
            Some(id) => id.to_owned(),
            None => register(&metadata).await,
        };
        let scopes = needed["requiredScopes"].as_array().into_iter().flatten();
        let scopes: Vec<&str> = scopes.filter_map(Value::as_str).collect();
        let code = authorize(&metadata, &client, resource, &scopes.join(" ")).await;
        let answer = self.exchange(&metadata, &client, resource, &code).await;
        let token = answer["access_token"].as_str();
        SignInResult {
            token: token.unwrap_or_else(|| panic!("no token: {answer}")).to_owned(),
            resource: resource.to_owned(),
            answer,
        }
    }

    async fn exchange(&self, metadata: &Value, client: &str, resource: &str, code: &str) -> Value {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", REDIRECT),
            ("code_verifier", VERIFIER),
            ("client_id", client),
            ("resource", resource),
        ];
        form.extend(self.client_secret.as_deref().map(|secret| ("client_secret", secret)));
        post(endpoint(metadata, "token_endpoint"), &form).await
    }
}

fn endpoint<'a>(metadata: &'a Value, name: &str) -> &'a str {
    metadata[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name}: {metadata}"))
}

async fn discover(issuer: &str) -> Value {
    let issuer = Url::parse(issuer).expect("an address");
    let path = issuer.path().trim_end_matches('/');
    for place in ["oauth-authorization-server", "openid-configuration"] {
        let address = issuer.join(&format!("/.well-known/{place}{path}")).expect("an address");
        let visited = visit(address.as_str()).await;
        if visited.status == 200 {
            return serde_json::from_str(&visited.page).expect("metadata are JSON");
        }
    }
    panic!("{issuer} says nothing about itself");
}

async fn register(metadata: &Value) -> String {
    let wanted = json!({ "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none" });
    let headers = [("content-type", "application/json")];
    let address = endpoint(metadata, "registration_endpoint");
    let (status, _, body) = ask("POST", address, &headers, wanted.to_string()).await;
    assert_eq!(status, 201, "{body:?}");
    let registered: Value = serde_json::from_slice(&body).expect("JSON");
    registered["client_id"].as_str().expect("an id").to_owned()
}

async fn authorize(metadata: &Value, client: &str, resource: &str, scopes: &str) -> String {
    let mut address = Url::parse(endpoint(metadata, "authorization_endpoint")).expect("an address");
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    address.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("scope", scopes),
        ("state", "mine"),
        ("resource", resource),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let back = visit(address.as_str()).await.location.expect("a redirect");
    let back = fields(
        Url::parse(&back)
            .expect("an address")
            .query()
            .unwrap_or_default()
            .as_bytes(),
    );
    assert_eq!(back.get("state").map(String::as_str), Some("mine"), "{back:?}");
    back.get("code").unwrap_or_else(|| panic!("no code: {back:?}")).clone()
}

/// Sends a form, and returns the answer whatever it says.
pub(super) async fn post(address: &str, form: &[(&str, &str)]) -> Value {
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form)
        .finish();
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let (_, _, body) = ask("POST", address, &headers, body).await;
    serde_json::from_slice(&body).unwrap_or_default()
}
