//! Renews a token before users are asked for one.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{SignIn, SignInReason};
use crate::engine::secret::Token;
use crate::engine::server::ServerShared;

/// Called when a server does not accept its token any more. Sets another one with
/// [`Server::sign_in`](crate::Server::sign_in), if there is one, and returns true if it did.
#[derive(Clone)]
pub struct Renew(Arc<Ask>);

type Ask = dyn Fn(String, Token) -> BoxFuture<'static, bool> + Send + Sync;

impl Renew {
    /// Wraps a function that gets the resource and the refused token.
    pub fn new(ask: impl Fn(String, Token) -> BoxFuture<'static, bool> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }
}

impl fmt::Debug for Renew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renew")
    }
}

impl ServerShared {
    /// Returns true if the server has another token now than the refused one. A token that does not grant enough is not
    /// replaced: the next one would not grant more.
    pub(crate) async fn renewed(&self, sign_in: &SignIn) -> bool {
        let (Some(remote), Some(renew)) = (&self.remote, &self.server_env.renew) else {
            return false;
        };
        let Some(refused) = remote.credentials.token() else {
            return false;
        };
        if !matches!(sign_in.reason, SignInReason::Expired | SignInReason::Refused) {
            return false;
        }
        let before = remote.credentials.generation();
        let asking = (renew.0)(sign_in.resource.resource.clone(), refused);
        asking.await && remote.credentials.generation() != before && remote.credentials.bearer().value.is_some()
    }
}
