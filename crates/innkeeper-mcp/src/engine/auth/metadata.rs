//! Protected-resource metadata (RFC 9728): the authorization servers of a server.

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
/// The timeout for all places together.
const FETCH_TIME: Duration = Duration::from_secs(10);
/// Documents are shown to every client (T16): these bounds are far above what real ones have.
const MAX_BYTES: usize = 16 << 10;
const MAX_SERVERS: usize = 16;
const MAX_SCOPES: usize = 64;
/// The longest text of a server that is passed on.
const MAX_TEXT_BYTES: usize = 2 << 10;

/// Finds the resource of one server.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    server: Url,
    http: reqwest::Client,
    /// The last result.
    known: Arc<Mutex<Option<ResourceMetadata>>>,
}

/// The result of fetching a document.
enum Read {
    Found(ResourceMetadata),
    /// There is no valid document.
    None,
    /// The document could not be fetched. It may be there another time.
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

    /// Returns the metadata that a challenge points at, or that is at the place of the RFC, or the minimum for any server. It
    /// never fails: users are always told what to sign in for. A temporary failure does not change the resource of the
    /// server.
    ///
    /// Documents are read from the server's own origin only. Otherwise a challenge could send the host to any address of its
    /// network (T21).
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
            if body.len() + piece.len() > MAX_BYTES {
                return Read::None;
            }
            body.extend_from_slice(&piece);
        }
        let document = serde_json::from_slice::<Value>(&body).ok();
        document
            .and_then(|document| self.accept(document, address))
            .map_or(Read::None, Read::Found)
    }

    /// A document counts only if it describes this server: otherwise a token for another server would be requested and sent
    /// here (RFC 9728, 3.3).
    ///
    /// It may describe a larger resource that other servers on the same origin belong to. That is accepted only at a place
    /// that the owner of the whole resource controls. A document elsewhere is the server's own claim: it names authorization
    /// servers for the server itself and for nothing more (T16).
    fn accept(&self, mut document: Value, place: &Url) -> Option<ResourceMetadata> {
        let fields = document.as_object_mut()?;
        fields.retain(|_, value| value.as_str().is_none_or(|text| text.len() <= MAX_TEXT_BYTES));
        if let Some(Value::Array(scopes)) = fields.get_mut("scopes_supported") {
            scopes.retain(|scope| scope.as_str().is_some_and(|scope| scope.len() <= MAX_TEXT_BYTES));
            scopes.truncate(MAX_SCOPES);
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
            .filter(|server| server.len() <= MAX_TEXT_BYTES && self.may_sign_in_at(server))
            .take(MAX_SERVERS)
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

    /// Tokens are fetched over `https`; for a server over `http`, also over `http`.
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

/// Returns the canonical address of a server (RFC 8707): without query, fragment, password and a meaningless slash.
pub(crate) fn canonical_resource(server: &Url) -> String {
    let address = crate::engine::secret::without_secrets(server.as_str());
    match address.strip_suffix('/') {
        Some(bare) if server.path() == "/" => bare.to_owned(),
        _ => address,
    }
}

/// Returns true if a resource is the server itself. A larger resource may contain servers of others, each of which can
/// claim it (T16).
pub(crate) fn is_itself(server: &Url, resource: &str) -> bool {
    canonical_resource(server).trim_end_matches('/') == resource.trim_end_matches('/')
}

/// Returns the scopes of a challenge, bounded.
pub(crate) fn bounded_scopes(scopes: &[String]) -> Vec<String> {
    let scopes = scopes.iter().filter(|scope| scope.len() <= MAX_TEXT_BYTES);
    scopes.take(MAX_SCOPES).cloned().collect()
}

/// Returns a text of a server, bounded.
pub(crate) fn bounded_text(text: &str) -> String {
    prefix(text, MAX_TEXT_BYTES).to_owned()
}

/// Returns true if the metadata of a resource is at this place (RFC 9728, 3.1).
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

    fn url_at(path: &str) -> Url {
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
            let accepted = metadata.accept(document, &url_at(&format!("{WELL_KNOWN}{path}")));
            let expected = counts.then_some(resource);
            assert_eq!(accepted.as_ref().map(|found| found.resource.as_str()), expected);
        }
    }

    #[test]
    fn t16_a_larger_resource_is_accepted_only_from_its_own_metadata() {
        let metadata = metadata("https://a.test/evil/mcp");
        let found = |resource: &str, at: &str| {
            let document = json!({ "resource": resource, "authorization_servers": ["https://as.test"] });
            metadata.accept(document, &url_at(at)).unwrap()
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
    fn t16_metadata_documents_are_bounded() {
        let long = "s".repeat(MAX_TEXT_BYTES + 1);
        let many: Vec<String> = (0..100).map(|number| format!("https://as-{number}.test")).collect();
        let document = json!({
            "resource": "https://a.test/mcp", "authorization_servers": many, "scopes_supported": many,
            "resource_name": long, "resource_documentation": "https://a.test/docs",
        });
        let beside = url_at("/.well-known/oauth-protected-resource/mcp");
        let found = metadata("https://a.test/mcp").accept(document, &beside).unwrap();
        assert_eq!(found.authorization_servers, many[..MAX_SERVERS]);
        assert_eq!(found.document["scopes_supported"], json!(many[..MAX_SCOPES]));
        assert_eq!(found.document.get("resource_name"), None);
        assert_eq!(found.document["resource_documentation"], "https://a.test/docs");
        let endless = json!({ "resource": format!("https://a.test/mcp?{long}") });
        assert!(metadata("https://a.test/mcp").accept(endless, &beside).is_none());
    }

    #[test]
    fn t16_a_resource_is_the_server_itself_or_larger() {
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
    fn authorization_servers_without_https_are_ignored() {
        let document = json!({
            "resource": "https://a.test/mcp",
            "authorization_servers": ["http://as.test", "javascript:alert(1)", 7],
        });
        let found = metadata("https://a.test/mcp")
            .accept(document, &url_at("/about"))
            .unwrap();
        assert_eq!(found.authorization_servers, ["https://a.test"]);
        assert_eq!(found.document["authorization_servers"], json!(["https://a.test"]));
    }
}
