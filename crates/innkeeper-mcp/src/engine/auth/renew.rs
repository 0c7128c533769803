//! Another token, before anybody is asked for one.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{SignIn, SignInReason};
use crate::engine::secret::Token;
use crate::engine::server::Shared;

/// Asked when a server does not accept its token any more: gives it another one with
/// [`Server::sign_in`](crate::Server::sign_in), if there is one, and says whether it did.
#[derive(Clone)]
pub struct Renew(Arc<Ask>);

type Ask = dyn Fn(String, Token) -> BoxFuture<'static, bool> + Send + Sync;

impl Renew {
    /// Asks a function, with the resource and the token that was refused.
    pub fn new(ask: impl Fn(String, Token) -> BoxFuture<'static, bool> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }
}

impl fmt::Debug for Renew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renew")
    }
}

impl Shared {
    /// Whether the server has another token now than the one it refused. One that does not allow enough is
    /// not replaced: the next would not allow more.
    pub(crate) async fn renewed(&self, sign_in: &SignIn) -> bool {
        let (Some(far), Some(renew)) = (&self.remote, &self.surroundings.renew) else {
            return false;
        };
        let Some(refused) = far.credentials.token() else {
            return false;
        };
        if !matches!(sign_in.reason, SignInReason::Expired | SignInReason::Refused) {
            return false;
        }
        let before = far.credentials.generation();
        let asking = (renew.0)(sign_in.resource.resource.clone(), refused);
        asking.await && far.credentials.generation() != before && far.credentials.bearer().value.is_some()
    }
}
