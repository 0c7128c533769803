//! The authorization request that the user accepts in a browser, and its response.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use super::discovery::Metadata;

/// The scope that some servers require for refresh tokens.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// An authorization request. It has no `Debug`, because it has secrets.
pub(super) struct AuthorizationRequest {
    /// The address for the browser.
    pub(super) address: Url,
    /// Proves to the server that the code was requested here (RFC 7636).
    pub(super) verifier: String,
    /// Proves that a response belongs to this request.
    state: String,
}

/// The response to an authorization request.
pub(super) enum AuthorizationResponse {
    /// The query fields of a response that belongs to this request.
    Answer(HashMap<String, String>),
    /// A code that the user copied. The server checks the verifier.
    Code(String),
}

impl AuthorizationRequest {
    pub(super) fn new(
        metadata: &Metadata,
        client_id: &str,
        redirect: &str,
        resource: &str,
        scopes: &[String],
    ) -> Result<Self, Failure> {
        let (verifier, state) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let mut address = metadata.authorization_endpoint.clone();
        address.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect),
            ("state", &state),
            ("resource", resource),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        if !scopes.is_empty() {
            address.query_pairs_mut().append_pair("scope", &scopes.join(" "));
        }
        Ok(Self {
            address,
            verifier,
            state,
        })
    }

    /// Returns whether a response belongs to this request.
    pub(super) fn is_answered_by(&self, fields: &HashMap<String, String>) -> bool {
        fields.get("state") == Some(&self.state)
    }

    /// Reads what the user pasted: the whole address, its query, or only the code.
    pub(super) fn read_pasted(&self, text: &str) -> Result<AuthorizationResponse, Failure> {
        let query = match Url::parse(text) {
            Ok(url) if url.has_host() => url.query().unwrap_or_default().to_owned(),
            _ if text.contains('=') => text.trim_start_matches('?').to_owned(),
            _ => return Ok(AuthorizationResponse::Code(text.to_owned())),
        };
        let fields = fields(&query);
        match self.is_answered_by(&fields) {
            true => Ok(AuthorizationResponse::Answer(fields)),
            false => Err(
                Failure::new(Kind::Rejected, "the pasted address does not belong to this sign-in")
                    .hint("begin again, and paste the address that the browser ends at then"),
            ),
        }
    }

    /// Returns the code of a response, if the user agreed and the response comes from this server.
    pub(super) fn code(&self, returned: AuthorizationResponse, metadata: &Metadata) -> Result<String, Failure> {
        let mut fields = match returned {
            AuthorizationResponse::Code(code) => return Ok(code),
            AuthorizationResponse::Answer(fields) => fields,
        };
        // Without this check a malicious server could obtain the codes of another one (RFC 9207).
        let is_issuers = match fields.get("iss") {
            Some(issuer) => *issuer == metadata.issuer,
            None => !metadata.names_issuer,
        };
        if !is_issuers {
            let issuer = one_line(&metadata.issuer, 300);
            let message = format!("the response does not come from {issuer}, where the sign-in began");
            return Err(Failure::new(Kind::Rejected, message).hint("no secret was sent; begin again"));
        }
        if let Some(error) = fields.get("error") {
            return Err(refused(error, fields.get("error_description").map(String::as_str)));
        }
        fields
            .remove("code")
            .filter(|code| !code.is_empty())
            .ok_or_else(|| Failure::new(Kind::Rejected, "the authorization server sent no code back"))
    }
}

/// Returns the failure for an OAuth error.
pub(super) fn refused(error: &str, description: Option<&str>) -> Failure {
    let said = match description {
        Some(description) => format!("{}: {}", one_line(error, 100), one_line(description, 300)),
        None => one_line(error, 100),
    };
    match error {
        "access_denied" => Failure::new(Kind::Rejected, format!("signing in was refused ({said})"))
            .hint("begin again if that was a mistake"),
        "invalid_scope" => Failure::new(
            Kind::Rejected,
            format!("the account may not grant the requested scopes ({said})"),
        ),
        _ => Failure::new(Kind::Rejected, format!("the authorization server refused ({said})")),
    }
}

/// Returns the fields of a query. Fields that occur twice are dropped.
pub(super) fn fields(query: &str) -> HashMap<String, String> {
    let mut fields = HashMap::new();
    let mut doubled = Vec::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if fields.insert(name.to_string(), value.into_owned()).is_some() {
            doubled.push(name.into_owned());
        }
    }
    for name in doubled {
        fields.remove(&name);
    }
    fields
}

fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(
            Kind::Unexpected,
            format!("the operating system provides no random bytes ({error})"),
        )
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(names_issuer: bool) -> Metadata {
        let url = |path: &str| Url::parse(&format!("https://a.test{path}")).unwrap();
        Metadata {
            issuer: "https://a.test".to_owned(),
            authorization_endpoint: url("/authorize?tenant=1"),
            token_endpoint: url("/token"),
            registration_endpoint: None,
            revocation_endpoint: None,
            client_auth: Vec::new(),
            names_issuer,
            offers_offline_access: false,
        }
    }

    fn request() -> AuthorizationRequest {
        let scopes = ["read".to_owned(), "write".to_owned()];
        AuthorizationRequest::new(
            &metadata(true),
            "me",
            "http://127.0.0.1:1/c",
            "https://m.test/mcp",
            &scopes,
        )
        .unwrap()
    }

    #[test]
    fn the_address_has_all_parameters_and_a_pkce_challenge() {
        let request = request();
        let asked = fields(request.address.query().unwrap());
        assert_eq!(asked["tenant"], "1");
        assert_eq!(asked["scope"], "read write");
        assert_eq!(asked["resource"], "https://m.test/mcp");
        let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(request.verifier.as_bytes()));
        assert_eq!(asked["code_challenge"], proof);
        assert!(!request.address.as_str().contains(&request.verifier));
        assert_ne!(request.verifier, self::request().verifier);
    }

    #[test]
    fn pasted_text_is_an_address_a_query_or_a_code() {
        let request = request();
        let state = &request.state;
        for text in [
            format!("http://127.0.0.1:1/c?code=x&state={state}&iss=https%3A%2F%2Fa.test"),
            format!("?code=x&iss=https://a.test&state={state}"),
            "x".to_owned(),
        ] {
            let returned = request
                .read_pasted(&text)
                .unwrap_or_else(|failure| panic!("{text}: {failure}"));
            assert_eq!(request.code(returned, &metadata(true)).unwrap(), "x");
        }
        for text in ["http://127.0.0.1:1/c?code=x&state=another", "code=x", "https://a.test/"] {
            assert!(request.read_pasted(text).is_err(), "{text}");
        }
    }

    #[test]
    fn t16_an_answer_of_another_server_is_refused() {
        let request = request();
        let answer = |iss: Option<&str>, names_issuer: bool| {
            let mut fields = HashMap::from([("code".to_owned(), "x".to_owned())]);
            fields.extend(iss.map(|iss| ("iss".to_owned(), iss.to_owned())));
            request
                .code(AuthorizationResponse::Answer(fields), &metadata(names_issuer))
                .is_ok()
        };
        assert!(answer(Some("https://a.test"), true));
        assert!(answer(None, false), "it never says who it is");
        assert!(!answer(None, true));
        assert!(!answer(Some("https://b.test"), false));
    }
}
