//! Proofs of reasoning, tagged with their origin.
//!
//! Only the provider that issued a signature or encrypted item accepts it. Any other provider rejects the request,
//! and the conversation would be unusable. So every proof carries its origin.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use innkeeper_host::agent::Secret;
use serde_json::{Value, json};

use super::endpoint::{Api, Endpoint};

/// Distinguishes keys within this process only.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Origin of a proof: API, host and model, and for Responses the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofOrigin(String);

impl ProofOrigin {
    /// Creates the origin of a model at an endpoint.
    pub fn new(endpoint: &Endpoint, model: &str) -> Self {
        Self(format!("{} {} {model}", endpoint.api.name(), endpoint.host()))
    }

    /// Adds the account. Encrypted reasoning of Responses is accepted only from the same account.
    pub fn with_key(mut self, endpoint: &Endpoint, key: Option<&Secret>) -> Self {
        if let (Api::Responses, Some(key)) = (endpoint.api, key) {
            self.0.push_str(&format!(" {:016x}", KEYS.hash_one(key.reveal())));
        }
        self
    }

    /// Tags a proof with its origin.
    pub(super) fn seal(&self, value: Value) -> Value {
        json!({"maker": self.0, "value": value})
    }

    /// Returns the proof if its origin is this one.
    pub(super) fn open<'a>(&self, proof: Option<&'a Value>) -> Option<&'a Value> {
        let proof = proof?;
        let is_ours = proof.get("maker").and_then(Value::as_str) == Some(self.0.as_str());
        proof.get("value").filter(|_| is_ours)
    }
}
