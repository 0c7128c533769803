//! What a person agrees to in a browser, and what comes back of it.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use super::discovery::Metadata;

/// The scope that some servers want before they give out tokens that get others.
pub(super) const OFFLINE: &str = "offline_access";

/// A sign-in that was begun. There is no `Debug`: it has secrets.
pub(super) struct Begun {
    /// Where a person agrees.
    pub(super) address: Url,
    /// Proves to the server that it was begun here (RFC 7636).
    pub(super) verifier: String,
    /// Proves to us that what comes back belongs to it.
    state: String,
}

/// What came back.
pub(super) enum Returned {
    /// An answer of the server, which belongs to this sign-in.
    Answer(HashMap<String, String>),
    /// A code that a person copied; that it belongs here, the server sees by the verifier.
    Code(String),
}

impl Begun {
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

    /// Whether an answer belongs to this sign-in and to no other.
    pub(super) fn is_answered_by(&self, fields: &HashMap<String, String>) -> bool {
        fields.get("state") == Some(&self.state)
    }

    /// Reads what a person copied: the whole address, what stands behind its `?`, or only the code.
    pub(super) fn read_pasted(&self, text: &str) -> Result<Returned, Failure> {
        let query = match Url::parse(text) {
            Ok(url) if url.has_host() => url.query().unwrap_or_default().to_owned(),
            _ if text.contains('=') => text.trim_start_matches('?').to_owned(),
            _ => return Ok(Returned::Code(text.to_owned())),
        };
        let fields = fields(&query);
        match self.is_answered_by(&fields) {
            true => Ok(Returned::Answer(fields)),
            false => Err(
                Failure::new(Kind::Rejected, "what was pasted does not belong to this sign-in")
                    .hint("begin again, and paste the address that the browser ends at then"),
            ),
        }
    }

    /// The code that came back, if the person agreed and the answer is whose it should be.
    pub(super) fn code(&self, returned: Returned, metadata: &Metadata) -> Result<String, Failure> {
        let mut fields = match returned {
            Returned::Code(code) => return Ok(code),
            Returned::Answer(fields) => fields,
        };
        // A server that another one pretends to be would be handed the other's codes (RFC 9207).
        let is_issuers = match fields.get("iss") {
            Some(issuer) => *issuer == metadata.issuer,
            None => !metadata.says_issuer,
        };
        if !is_issuers {
            let issuer = one_line(&metadata.issuer, 300);
            let message = format!("the answer does not come from {issuer}, where the sign-in was begun");
            return Err(Failure::new(Kind::Rejected, message).hint("nothing was handed over; begin again"));
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

/// What a server says when it gives nothing.
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
            format!("the account may not grant what is asked for ({said})"),
        ),
        _ => Failure::new(Kind::Rejected, format!("the authorization server refused ({said})")),
    }
}

/// The fields of a query. One that is there twice counts for nothing.
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
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(Kind::Unexpected, format!("the system has no randomness ({error})")))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(says_issuer: bool) -> Metadata {
        let url = |path: &str| Url::parse(&format!("https://a.test{path}")).unwrap();
        Metadata {
            issuer: "https://a.test".to_owned(),
            authorization_endpoint: url("/authorize?tenant=1"),
            token_endpoint: url("/token"),
            registration_endpoint: None,
            revocation_endpoint: None,
            client_auth: Vec::new(),
            says_issuer,
            offers_offline_access: false,
        }
    }

    fn begun() -> Begun {
        let scopes = ["read".to_owned(), "write".to_owned()];
        Begun::new(
            &metadata(true),
            "me",
            "http://127.0.0.1:1/c",
            "https://m.test/mcp",
            &scopes,
        )
        .unwrap()
    }

    #[test]
    fn the_address_says_everything_and_proves_what_it_does_not_say() {
        let begun = begun();
        let asked = fields(begun.address.query().unwrap());
        assert_eq!(asked["tenant"], "1");
        assert_eq!(asked["scope"], "read write");
        assert_eq!(asked["resource"], "https://m.test/mcp");
        let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(begun.verifier.as_bytes()));
        assert_eq!(asked["code_challenge"], proof);
        assert!(!begun.address.as_str().contains(&begun.verifier));
        assert_ne!(begun.verifier, self::begun().verifier);
    }

    #[test]
    fn what_is_pasted_is_an_address_a_query_or_a_code() {
        let begun = begun();
        let state = &begun.state;
        for text in [
            format!("http://127.0.0.1:1/c?code=x&state={state}&iss=https%3A%2F%2Fa.test"),
            format!("?code=x&iss=https://a.test&state={state}"),
            "x".to_owned(),
        ] {
            let returned = begun
                .read_pasted(&text)
                .unwrap_or_else(|failure| panic!("{text}: {failure}"));
            assert_eq!(begun.code(returned, &metadata(true)).unwrap(), "x");
        }
        for text in ["http://127.0.0.1:1/c?code=x&state=another", "code=x", "https://a.test/"] {
            assert!(begun.read_pasted(text).is_err(), "{text}");
        }
    }

    #[test]
    fn t16_an_answer_of_another_server_is_refused() {
        let begun = begun();
        let answer = |iss: Option<&str>, says_issuer: bool| {
            let mut fields = HashMap::from([("code".to_owned(), "x".to_owned())]);
            fields.extend(iss.map(|iss| ("iss".to_owned(), iss.to_owned())));
            begun.code(Returned::Answer(fields), &metadata(says_issuer)).is_ok()
        };
        assert!(answer(Some("https://a.test"), true));
        assert!(answer(None, false), "it never says who it is");
        assert!(!answer(None, true));
        assert!(!answer(Some("https://b.test"), false));
    }
}
