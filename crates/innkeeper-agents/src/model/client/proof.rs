//! Proofs of thinking: which provider made them, so that no other is shown them.
//!
//! A signature or an encrypted item is good only where it was made; anybody else answers with an
//! error, and then the whole conversation is stuck. So a proof carries its maker.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use innkeeper_host::Secret;
use serde_json::{Value, json};

use super::endpoint::{Api, Endpoint};

/// Tells keys apart within this process, and nowhere else.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Who made a proof: API, server and model, and where it matters the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofOrigin(String);

impl ProofOrigin {
    /// The maker that a model at an endpoint is.
    pub fn new(endpoint: &Endpoint, model: &str) -> Self {
        Self(format!("{} {} {model}", endpoint.api.name(), endpoint.host()))
    }

    /// The same on behalf of whoever has this key. What Responses encrypts only the same account
    /// may send back.
    pub fn with_key(mut self, endpoint: &Endpoint, key: Option<&Secret>) -> Self {
        if let (Api::Responses, Some(key)) = (endpoint.api, key) {
            self.0.push_str(&format!(" {:016x}", KEYS.hash_one(key.reveal())));
        }
        self
    }

    /// Marks what a provider wants back.
    pub(super) fn seal(&self, value: Value) -> Value {
        json!({"maker": self.0, "value": value})
    }

    /// What the provider wants back, if it is this one that made it.
    pub(super) fn open<'a>(&self, proof: Option<&'a Value>) -> Option<&'a Value> {
        let proof = proof?;
        let is_ours = proof.get("maker").and_then(Value::as_str) == Some(self.0.as_str());
        proof.get("value").filter(|_| is_ours)
    }
}
