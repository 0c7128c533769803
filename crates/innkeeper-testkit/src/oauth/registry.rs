//! The state of an authorization server: clients, codes and tokens, and the rules about them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// How long a code is good for.
const CODE_LIFE: Duration = Duration::from_secs(60);

/// A registered client.
#[derive(Debug, Clone)]
pub struct Client {
    /// The secret of a confidential client.
    pub secret: Option<String>,
    /// Allowed redirect addresses.
    pub redirects: Vec<String>,
}

/// The result of validating a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenCheck {
    /// It was never issued, or was revoked.
    Unknown,
    /// It has expired.
    Expired,
    /// It is for another resource.
    ForAnother,
    /// It grants these.
    Good(Vec<String>),
}

/// The grant of a user.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) resource: String,
    pub(super) scopes: Vec<String>,
    /// Everything that came of one consent has the same number, and goes together.
    family: u64,
}

/// A code that was given out.
#[derive(Debug)]
struct Code {
    grant: Grant,
    redirect: String,
    challenge: String,
    good_until: Duration,
    is_used: bool,
}

#[derive(Debug)]
struct Access {
    grant: Grant,
    good_until: Duration,
}

#[derive(Debug)]
struct Refresh {
    grant: Grant,
    is_used: bool,
}

/// Tokens, as the token endpoint hands them over.
pub(super) struct IssuedTokens {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) lifetime: Duration,
}

#[derive(Debug)]
pub(crate) struct Registry {
    started: Instant,
    passed: Duration,
    families: u64,
    /// Families of tokens that were revoked.
    ended: HashSet<u64>,
    clients: HashMap<String, Client>,
    registrations: usize,
    codes: HashMap<String, Code>,
    access: HashMap<String, Access>,
    refresh: HashMap<String, Refresh>,
    secrets: Vec<String>,
    requests: Vec<HashMap<String, String>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            passed: Duration::ZERO,
            families: 0,
            ended: HashSet::new(),
            clients: HashMap::new(),
            registrations: 0,
            codes: HashMap::new(),
            access: HashMap::new(),
            refresh: HashMap::new(),
            secrets: Vec::new(),
            requests: Vec::new(),
        }
    }
}

impl Registry {
    fn now(&self) -> Duration {
        self.started.elapsed() + self.passed
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.passed += time;
    }

    pub(super) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    pub(super) fn requests(&self) -> &[HashMap<String, String>] {
        &self.requests
    }

    pub(super) fn registrations(&self) -> usize {
        self.registrations
    }

    pub(super) fn note_request(&mut self, mut form: HashMap<String, String>) {
        for secret in ["code", "code_verifier", "client_secret", "refresh_token", "token"] {
            if let Some(value) = form.get_mut(secret) {
                *value = "(secret)".to_owned();
            }
        }
        self.requests.push(form);
    }

    /// A random string.
    fn random(&mut self) -> String {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        let secret = URL_SAFE_NO_PAD.encode(bytes);
        self.secrets.push(secret.clone());
        secret
    }

    pub(super) fn add_client(&mut self, id: &str, client: Client) {
        self.secrets.extend(client.secret.clone());
        self.clients.insert(id.to_owned(), client);
    }

    pub(super) fn client(&self, id: &str) -> Option<&Client> {
        self.clients.get(id)
    }

    /// Registers a client that asks for it. Returns its id and its secret.
    pub(super) fn register(&mut self, redirects: Vec<String>, keeps_secrets: bool) -> (String, Option<String>) {
        self.registrations += 1;
        let id = format!("registered-{}", self.registrations);
        let secret = keeps_secrets.then(|| self.random());
        let client = Client {
            secret: secret.clone(),
            redirects,
        };
        self.clients.insert(id.clone(), client);
        (id, secret)
    }

    /// The user agreed.
    pub(super) fn give_code(
        &mut self,
        client: &str,
        resource: &str,
        scopes: Vec<String>,
        redirect: &str,
        challenge: &str,
    ) -> String {
        self.families += 1;
        let code = self.random();
        let kept = Code {
            grant: Grant {
                client: client.to_owned(),
                resource: resource.to_owned(),
                scopes,
                family: self.families,
            },
            redirect: redirect.to_owned(),
            challenge: challenge.to_owned(),
            good_until: self.now() + CODE_LIFE,
            is_used: false,
        };
        self.codes.insert(code.clone(), kept);
        code
    }

    /// Looks up a code that a client hands in, and uses it up.
    pub(super) fn use_code(
        &mut self,
        code: &str,
        client: &str,
        redirect: &str,
        verifier: &str,
    ) -> Result<Grant, &'static str> {
        let now = self.now();
        let Some(kept) = self.codes.get_mut(code) else {
            return Err("the code is unknown");
        };
        if kept.is_used {
            // A reused code was stolen: revoke its tokens (OAuth 2.1, 4.1.3).
            self.ended.insert(kept.grant.family);
            return Err("the code was used before");
        }
        kept.is_used = true;
        let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        match () {
            () if kept.grant.client != client => Err("the code is another client's"),
            () if kept.redirect != redirect => Err("the redirect address is not the one of the code"),
            () if kept.good_until <= now => Err("the code has expired"),
            () if proof != kept.challenge => Err("the verifier does not fit the challenge"),
            () => Ok(kept.grant.clone()),
        }
    }

    /// Looks up a token that gets the next one, and uses it up.
    pub(super) fn use_refresh(&mut self, token: &str, client: &str) -> Result<Grant, &'static str> {
        let Some(kept) = self.refresh.get_mut(token) else {
            return Err("the refresh token is unknown");
        };
        if kept.grant.client != client {
            return Err("the refresh token is another client's");
        }
        if std::mem::replace(&mut kept.is_used, true) {
            self.ended.insert(kept.grant.family);
            return Err("the refresh token was used before");
        }
        match self.ended.contains(&kept.grant.family) {
            true => Err("the refresh token was taken back"),
            false => Ok(kept.grant.clone()),
        }
    }

    pub(super) fn issue(&mut self, grant: &Grant, lifetime: Duration, refreshes: bool) -> IssuedTokens {
        let access = self.random();
        let kept = Access {
            grant: grant.clone(),
            good_until: self.now() + lifetime,
        };
        self.access.insert(access.clone(), kept);
        let refresh = refreshes.then(|| self.random());
        if let Some(refresh) = &refresh {
            let kept = Refresh {
                grant: grant.clone(),
                is_used: false,
            };
            self.refresh.insert(refresh.clone(), kept);
        }
        IssuedTokens {
            access,
            refresh,
            scopes: grant.scopes.clone(),
            lifetime,
        }
    }

    pub(super) fn give_out(&mut self, resource: &str, scopes: Vec<String>, lifetime: Duration) -> String {
        self.families += 1;
        let grant = Grant {
            client: String::new(),
            resource: resource.to_owned(),
            scopes,
            family: self.families,
        };
        self.issue(&grant, lifetime, false).access
    }

    /// Takes a token back; with one that gets others, all that came of the same consent (RFC 7009).
    pub(super) fn revoke(&mut self, token: &str, client: &str) {
        if self
            .access
            .get(token)
            .is_some_and(|access| access.grant.client == client)
        {
            self.access.remove(token);
        }
        if let Some(refresh) = self.refresh.get(token).filter(|refresh| refresh.grant.client == client) {
            self.ended.insert(refresh.grant.family);
        }
    }

    pub(super) fn look_at(&self, token: &str, resource: &str) -> TokenCheck {
        match self.access.get(token) {
            None => TokenCheck::Unknown,
            Some(access) if self.ended.contains(&access.grant.family) => TokenCheck::Unknown,
            Some(access) if access.good_until <= self.now() => TokenCheck::Expired,
            Some(access) if access.grant.resource != resource => TokenCheck::ForAnother,
            Some(access) => TokenCheck::Good(access.grant.scopes.clone()),
        }
    }
}
