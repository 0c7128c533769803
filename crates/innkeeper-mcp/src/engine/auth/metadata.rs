//! Protected-resource metadata (RFC 9728): who gives out tokens for a server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use innkeeper_std::sync::Mutex;
use innkeeper_std::text::prefix;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::{Challenge, ResourceMetadata};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// For all places together.
const FETCH_TIME: Duration = Duration::from_secs(10);
/// Documents are shown to every client (T16): these bounds are far above what real ones have.
const MOST_BYTES: usize = 16 << 10;
const MOST_SERVERS: usize = 16;
const MOST_SCOPES: usize = 64;
/// The longest text of a server that is handed on.
const MOST_TEXT_BYTES: usize = 2 << 10;

/// Finds out about the resource of one server.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    server: Url,
    http: reqwest::Client,
    /// What was found last.
    known: Arc<Mutex<Option<ResourceMetadata>>>,
}

/// What came of asking for a document.
enum Read {
    Found(ResourceMetadata),
    /// There is none, or none that counts.
    None,
    /// It cannot be said: it may be there another time.
    Failed,
}

impl Metadata {
    pub(crate) fn new(server: Url, http: reqwest::Client) -> Self {
        Self {
            server,
            http,
            known: Arc::default(),
        }
    }

    /// The metadata that a challenge points at, that stands where the RFC says, or the least that
    /// can be said of any server. Never fails: whoever has to sign in is always told. A document that
    /// cannot be fetched just now does not make another resource of the server.
    ///
    /// Documents are read from the server's own origin only. A challenge could otherwise send the
    /// host to any address of its network (T21).
    pub(crate) async fn find(&self, challenge: &Challenge) -> ResourceMetadata {
        let told = challenge
            .resource_metadata
            .as_deref()
            .and_then(|told| self.server.join(told).ok());
        let path = self.server.path().trim_end_matches('/');
        let beside = self.server.join(&format!("{WELL_KNOWN}{path}")).ok();
        let root = self.server.join(WELL_KNOWN).ok();
        let mut tried: Vec<Url> = Vec::new();
        let deadline = Instant::now() + FETCH_TIME;
        for address in [told, beside, root].into_iter().flatten() {
            if address.origin() != self.server.origin() || tried.contains(&address) {
                continue;
            }
            let read = tokio::time::timeout_at(deadline, self.read(&address)).await;
            match read.unwrap_or(Read::Failed) {
                Read::Found(found) => {
                    *self.known() = Some(found.clone());
                    return found;
                }
                Read::Failed if self.known().is_some() => break,
                Read::Failed | Read::None => tried.push(address),
            }
        }
        let known = self.known().clone();
        known.unwrap_or_else(|| self.least())
    }

    fn known(&self) -> innkeeper_std::sync::MutexGuard<'_, Option<ResourceMetadata>> {
        self.known.lock()
    }

    async fn read(&self, address: &Url) -> Read {
        let request = self.http.get(address.clone()).header("accept", "application/json");
        let Ok(response) = request.send().await else {
            return Read::Failed;
        };
        match response.status() {
            status if status.is_success() => {}
            status if status.is_client_error() => return Read::None,
            _ => return Read::Failed,
        }
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let Ok(piece) = piece else {
                return Read::Failed;
            };
            if body.len() + piece.len() > MOST_BYTES {
                return Read::None;
            }
            body.extend_from_slice(&piece);
        }
        let document = serde_json::from_slice::<Value>(&body).ok();
        document
            .and_then(|document| self.accept(document, address))
            .map_or(Read::None, Read::Found)
    }

    /// A document counts only if it speaks of this server: otherwise a token for somebody else
    /// would be asked for, and sent here (RFC 9728, 3.3).
    ///
    /// It may speak of something around the server, which others on the same origin are a part of as well. That is
    /// believed where only whoever has all of it can write. A document that stands elsewhere is the server's own
    /// word: it says who gives out tokens, for the server itself and for nothing more (T16).
    fn accept(&self, mut document: Value, place: &Url) -> Option<ResourceMetadata> {
        let fields = document.as_object_mut()?;
        fields.retain(|_, value| value.as_str().is_none_or(|text| text.len() <= MOST_TEXT_BYTES));
        if let Some(Value::Array(scopes)) = fields.get_mut("scopes_supported") {
            scopes.retain(|scope| scope.as_str().is_some_and(|scope| scope.len() <= MOST_TEXT_BYTES));
            scopes.truncate(MOST_SCOPES);
        }
        let mut resource = fields.get("resource")?.as_str()?.to_owned();
        let parsed = Url::parse(&resource).ok()?;
        let covers = parsed.origin() == self.server.origin() && is_below(self.server.path(), parsed.path());
        if !covers {
            return None;
        }
        if !is_itself(&self.server, &resource) && !is_place_of(place, &parsed) {
            resource = canonical_resource(&self.server);
            fields.insert("resource".to_owned(), json!(resource));
        }
        let told = fields.get("authorization_servers").and_then(Value::as_array);
        let servers: Vec<String> = told
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|server| server.len() <= MOST_TEXT_BYTES && self.may_sign_in_at(server))
            .take(MOST_SERVERS)
            .map(str::to_owned)
            .collect();
        let servers = if servers.is_empty() {
            vec![self.origin()]
        } else {
            servers
        };
        fields.insert("authorization_servers".to_owned(), json!(servers));
        Some(ResourceMetadata {
            resource,
            authorization_servers: servers,
            document,
        })
    }

    /// Tokens are got over `https`; for a server without it, also without.
    fn may_sign_in_at(&self, address: &str) -> bool {
        Url::parse(address).is_ok_and(|url| {
            url.has_host() && (url.scheme() == "https" || url.scheme() == "http" && self.server.scheme() == "http")
        })
    }

    fn least(&self) -> ResourceMetadata {
        let resource = canonical_resource(&self.server);
        let servers = vec![self.origin()];
        ResourceMetadata {
            document: json!({ "resource": resource, "authorization_servers": servers }),
            authorization_servers: servers,
            resource,
        }
    }

    fn origin(&self) -> String {
        self.server.origin().ascii_serialization()
    }
}

/// The canonical address of a server (RFC 8707): no query, no fragment, no password, and no slash
/// that says nothing.
pub(crate) fn canonical_resource(server: &Url) -> String {
    let address = crate::engine::secret::without_secrets(server.as_str());
    match address.strip_suffix('/') {
        Some(bare) if server.path() == "/" => bare.to_owned(),
        _ => address,
    }
}

/// Whether a resource is the server itself, and not something that contains it: what contains it may
/// contain servers of others, each of which can say the same (T16).
pub(crate) fn is_itself(server: &Url, resource: &str) -> bool {
    canonical_resource(server).trim_end_matches('/') == resource.trim_end_matches('/')
}

/// The scopes that a challenge asks for, within bounds.
pub(crate) fn bounded_scopes(scopes: &[String]) -> Vec<String> {
    let scopes = scopes.iter().filter(|scope| scope.len() <= MOST_TEXT_BYTES);
    scopes.take(MOST_SCOPES).cloned().collect()
}

/// What a server says, within bounds.
pub(crate) fn bounded_text(text: &str) -> String {
    prefix(text, MOST_TEXT_BYTES).to_owned()
}

/// Whether the metadata of a resource stands here (RFC 9728, 3.1).
fn is_place_of(place: &Url, resource: &Url) -> bool {
    let path = resource.path().trim_end_matches('/');
    place.origin() == resource.origin()
        && place.path().trim_end_matches('/') == format!("{WELL_KNOWN}{path}")
        && place.query() == resource.query()
}

fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(server: &str) -> Metadata {
        let http = crate::engine::wire::http_client().unwrap();
        Metadata::new(Url::parse(server).unwrap(), http)
    }

    fn place(path: &str) -> Url {
        Url::parse(&format!("https://a.test{path}")).unwrap()
    }

    #[test]
    fn mcp08_the_resource_is_the_canonical_address() {
        let cases = [
            ("https://A.test", "https://a.test"),
            ("https://a.test/mcp?key=1#x", "https://a.test/mcp"),
            ("https://u:p@a.test:8443/mcp/", "https://a.test:8443/mcp/"),
        ];
        for (server, resource) in cases {
            assert_eq!(canonical_resource(&Url::parse(server).unwrap()), resource);
        }
    }

    #[test]
    fn t16_a_document_of_another_resource_does_not_count() {
        let metadata = metadata("https://a.test/mcp/one");
        for (resource, counts) in [
            ("https://a.test/mcp/one", true),
            ("https://a.test/mcp", true),
            ("https://a.test", true),
            ("https://a.test/mcp/o", false),
            ("https://a.test/mcp/two", false),
            ("https://b.test/mcp/one", false),
            ("http://a.test/mcp/one", false),
        ] {
            let document = json!({ "resource": resource, "authorization_servers": ["https://as.test"] });
            let path = Url::parse(resource).unwrap().path().trim_end_matches('/').to_owned();
            let accepted = metadata.accept(document, &place(&format!("{WELL_KNOWN}{path}")));
            let expected = counts.then_some(resource);
            assert_eq!(accepted.as_ref().map(|found| found.resource.as_str()), expected);
        }
    }

    #[test]
    fn t16_what_is_around_a_server_is_told_by_whoever_has_it_and_not_by_a_part_of_it() {
        let metadata = metadata("https://a.test/evil/mcp");
        let found = |resource: &str, at: &str| {
            let document = json!({ "resource": resource, "authorization_servers": ["https://as.test"] });
            metadata.accept(document, &place(at)).unwrap()
        };
        for (resource, at, named) in [
            ("https://a.test/", WELL_KNOWN, "https://a.test/"),
            (
                "https://a.test",
                "/.well-known/oauth-protected-resource/",
                "https://a.test",
            ),
            (
                "https://a.test/evil",
                "/.well-known/oauth-protected-resource/evil",
                "https://a.test/evil",
            ),
            ("https://a.test/", "/evil/prm", "https://a.test/evil/mcp"),
            (
                "https://a.test/",
                "/evil/.well-known/oauth-protected-resource",
                "https://a.test/evil/mcp",
            ),
            (
                "https://a.test/",
                "/.well-known/oauth-protected-resource/evil/mcp",
                "https://a.test/evil/mcp",
            ),
            (
                "https://a.test/",
                "/.well-known/oauth-protected-resource?by=evil",
                "https://a.test/evil/mcp",
            ),
            ("https://a.test/evil/mcp", "/evil/prm", "https://a.test/evil/mcp"),
        ] {
            let found = found(resource, at);
            assert_eq!(found.resource, named, "{at}");
            assert_eq!(found.document["resource"], named);
            assert_eq!(found.authorization_servers, ["https://as.test"]);
        }
    }

    #[test]
    fn t16_a_document_has_bounds() {
        let long = "s".repeat(MOST_TEXT_BYTES + 1);
        let many: Vec<String> = (0..100).map(|number| format!("https://as-{number}.test")).collect();
        let document = json!({
            "resource": "https://a.test/mcp", "authorization_servers": many, "scopes_supported": many,
            "resource_name": long, "resource_documentation": "https://a.test/docs",
        });
        let beside = place("/.well-known/oauth-protected-resource/mcp");
        let found = metadata("https://a.test/mcp").accept(document, &beside).unwrap();
        assert_eq!(found.authorization_servers, many[..MOST_SERVERS]);
        assert_eq!(found.document["scopes_supported"], json!(many[..MOST_SCOPES]));
        assert_eq!(found.document.get("resource_name"), None);
        assert_eq!(found.document["resource_documentation"], "https://a.test/docs");
        let endless = json!({ "resource": format!("https://a.test/mcp?{long}") });
        assert!(metadata("https://a.test/mcp").accept(endless, &beside).is_none());
    }

    #[test]
    fn t16_a_resource_is_the_server_itself_or_something_around_it() {
        let server = Url::parse("https://a.test/mcp/one?key=1").unwrap();
        for (resource, is) in [
            ("https://a.test/mcp/one", true),
            ("https://a.test/mcp/one/", true),
            ("https://a.test/mcp", false),
            ("https://a.test", false),
        ] {
            assert_eq!(is_itself(&server, resource), is, "{resource}");
        }
    }

    #[test]
    fn nobody_is_sent_to_sign_in_without_encryption() {
        let document = json!({
            "resource": "https://a.test/mcp",
            "authorization_servers": ["http://as.test", "javascript:alert(1)", 7],
        });
        let found = metadata("https://a.test/mcp")
            .accept(document, &place("/about"))
            .unwrap();
        assert_eq!(found.authorization_servers, ["https://a.test"]);
        assert_eq!(found.document["authorization_servers"], json!(["https://a.test"]));
    }
}
