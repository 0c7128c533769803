//! Protected-resource metadata (RFC 9728): who gives out tokens for a server.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use url::Url;

use super::{Challenge, ResourceMetadata};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
const FETCH_TIME: Duration = Duration::from_secs(10);
const MOST_BYTES: usize = 1 << 20;

/// Finds out about the resource of one server.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    server: Url,
    http: reqwest::Client,
}

impl Metadata {
    pub(crate) fn new(server: Url, http: reqwest::Client) -> Self {
        Self { server, http }
    }

    /// The metadata that a challenge points at, that stands where the RFC says, or the least that
    /// can be said of any server. Never fails: whoever has to sign in is always told.
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
        for address in [told, beside, root].into_iter().flatten() {
            if address.origin() != self.server.origin() || tried.contains(&address) {
                continue;
            }
            if let Some(found) = self.read(&address).await {
                return found;
            }
            tried.push(address);
        }
        self.least()
    }

    async fn read(&self, address: &Url) -> Option<ResourceMetadata> {
        let reading = async {
            let request = self.http.get(address.clone()).header("accept", "application/json");
            let response = request.send().await.ok()?;
            if !response.status().is_success() {
                return None;
            }
            let mut body = Vec::new();
            let mut pieces = response.bytes_stream();
            while let Some(piece) = pieces.next().await {
                let piece = piece.ok()?;
                if body.len() + piece.len() > MOST_BYTES {
                    return None;
                }
                body.extend_from_slice(&piece);
            }
            serde_json::from_slice::<Value>(&body).ok()
        };
        let document = tokio::time::timeout(FETCH_TIME, reading).await.ok()??;
        self.accept(document)
    }

    /// A document counts only if it speaks of this server: otherwise a token for somebody else
    /// would be asked for, and sent here (RFC 9728, 3.3).
    fn accept(&self, mut document: Value) -> Option<ResourceMetadata> {
        let fields = document.as_object_mut()?;
        let resource = fields.get("resource")?.as_str()?.to_owned();
        let parsed = Url::parse(&resource).ok()?;
        let covers = parsed.origin() == self.server.origin() && is_below(self.server.path(), parsed.path());
        if !covers {
            return None;
        }
        let told = fields.get("authorization_servers").and_then(Value::as_array);
        let servers: Vec<String> = told
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|server| self.may_sign_in_at(server))
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
    let address = crate::secret::without_secrets(server.as_str());
    match address.strip_suffix('/') {
        Some(bare) if server.path() == "/" => bare.to_owned(),
        _ => address,
    }
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
        let http = crate::wire::http_client().unwrap();
        Metadata::new(Url::parse(server).unwrap(), http)
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
            assert_eq!(metadata.accept(document).is_some(), counts, "{resource}");
        }
    }

    #[test]
    fn nobody_is_sent_to_sign_in_without_encryption() {
        let document = json!({
            "resource": "https://a.test/mcp",
            "authorization_servers": ["http://as.test", "javascript:alert(1)", 7],
        });
        let found = metadata("https://a.test/mcp").accept(document).unwrap();
        assert_eq!(found.authorization_servers, ["https://a.test"]);
        assert_eq!(found.document["authorization_servers"], json!(["https://a.test"]));
    }
}
