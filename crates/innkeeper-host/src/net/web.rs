//! The web app: its files, and browsers that sign in.
//!
//! A browser cannot set headers on a WebSocket, and an address with a token ends up in histories and logs. So a link has
//! a one-time code in its fragment, which browsers do not send; the page exchanges the code for a cookie. The cookie
//! counts only together with an `Origin` that is this host's own, so other pages cannot use it, whatever their site.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use innkeeper_core::Scope;

/// A file of the web app.
#[derive(Debug, Clone, Copy)]
pub struct StaticFile {
    /// The media type.
    pub content_type: &'static str,
    /// The content, compressed with gzip.
    pub gzip: &'static [u8],
    /// Whether the file at this path never changes.
    pub is_immutable: bool,
}

/// A browser that has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its id, which is not secret.
    pub id: String,
    /// Its rights.
    pub scope: Scope,
}

/// A new device, with the secret of its cookie.
#[derive(Clone)]
pub struct NewDevice {
    /// The device.
    pub device: Device,
    /// The secret; this is the only copy.
    pub secret: String,
    /// When the cookie expires, in seconds.
    pub max_age: u64,
}

impl fmt::Debug for NewDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewDevice")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

/// The browsers that may use the host. Calls may read and write files; the host makes them on threads that may block.
pub trait Devices: fmt::Debug + Send + Sync + 'static {
    /// Uses up a one-time code. Returns none if the code is unknown, expired or used.
    fn redeem(&self, code: &str, user_agent: &str) -> Option<NewDevice>;
    /// Returns the device with this secret, unless it has expired or was revoked.
    fn find(&self, secret: &str) -> Option<Device>;
    /// Returns whether a device may still be connected.
    fn is_valid(&self, id: &str) -> bool;
    /// Forgets a device that signs out.
    fn sign_out(&self, id: &str);
}

/// The web app of a listener.
#[derive(Debug, Clone)]
pub struct WebApp {
    files: fn(&str) -> Option<StaticFile>,
    devices: Arc<dyn Devices>,
    cookie: String,
}

/// Longest body of a request of the page.
const MAX_BODY: usize = 4096;

/// Longest user agent that a device is named after.
const MAX_USER_AGENT: usize = 512;

/// Everything that the page loads comes from this host. Scripts and styles are files; frames are never shown, neither
/// in the page nor around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: \
    blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

impl WebApp {
    /// Serves these files, and lets these devices in. Cookies of all ports of a machine are one jar, so the port is part
    /// of the cookie's name.
    pub fn new(files: fn(&str) -> Option<StaticFile>, devices: Arc<dyn Devices>, port: u16) -> Self {
        Self {
            files,
            devices,
            cookie: format!("innkeeper-{port}"),
        }
    }

    /// Returns the file at a path.
    pub(crate) fn file(&self, path: &str) -> Option<Response<Full<Bytes>>> {
        let file = (self.files)(path)?;
        let mut response = Response::new(Full::new(Bytes::from_static(file.gzip)));
        let headers = response.headers_mut();
        headers.insert("content-type", HeaderValue::from_static(file.content_type));
        headers.insert("content-encoding", HeaderValue::from_static("gzip"));
        let caching = match file.is_immutable {
            true => "public, max-age=31536000, immutable",
            false => "no-cache",
        };
        headers.insert("cache-control", HeaderValue::from_static(caching));
        for (name, value) in HEADERS {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        Some(response)
    }

    /// Returns the devices, for threads that may block.
    pub(crate) fn devices(&self) -> Arc<dyn Devices> {
        Arc::clone(&self.devices)
    }

    /// Returns the secret in the cookie of a request.
    pub(crate) fn secret(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers
            .get_all(COOKIE)
            .into_iter()
            .filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.split_once('='));
        let (_, secret) = pairs.find(|(name, _)| name.trim() == self.cookie)?;
        Some(secret.trim().to_owned())
    }

    /// Answers a browser that has signed in: its rights, and the cookie if it is new.
    pub(crate) fn signed_in(&self, scope: Scope, new: Option<&NewDevice>) -> Response<Full<Bytes>> {
        let body = serde_json::json!({ "scope": scope.to_string() });
        let mut response = answer(StatusCode::OK, &body);
        let cookie = new.map(|new| {
            format!(
                "{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict",
                self.cookie, new.secret, new.max_age
            )
        });
        set_cookie(&mut response, cookie.as_deref());
        response
    }

    /// Answers a browser that has signed out.
    pub(crate) fn signed_out(&self) -> Response<Full<Bytes>> {
        let mut response = answer(StatusCode::OK, &serde_json::json!({}));
        let cookie = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", self.cookie);
        set_cookie(&mut response, Some(&cookie));
        response
    }
}

fn set_cookie(response: &mut Response<Full<Bytes>>, cookie: Option<&str>) {
    if let Some(Ok(value)) = cookie.map(HeaderValue::from_str) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
}

/// Answers a request of the page with JSON.
pub(crate) fn answer(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.to_string().into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// Reads the code that the page sends, and the name of the browser.
pub(crate) async fn read_code(request: Request<Incoming>) -> Option<(String, String)> {
    let user_agent = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
    let user_agent: String = user_agent.unwrap_or_default().chars().take(MAX_USER_AGENT).collect();
    let body = Limited::new(request.into_body(), MAX_BODY)
        .collect()
        .await
        .ok()?
        .to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).ok()?;
    Some((body.get("code")?.as_str()?.to_owned(), user_agent))
}
