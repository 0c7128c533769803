//! Renews tokens before they expire, and when a server does not accept them any more.
//!
//! Only tokens that a running server uses are renewed in advance. Others are renewed when a server first needs them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::RunnerShared;
use super::tokens::StoredToken;
use crate::engine::auth::Renew;
use crate::engine::secret::Token;
use crate::hosted::token_exchange::{self, NotGranted};

/// The longest time before its expiry at which a token is renewed.
const AHEAD: Duration = Duration::from_secs(60);
/// The shortest time after which a token that a client gave is renewed.
const SOONEST: Duration = Duration::from_secs(1);
/// The same for a token that was renewed. Some authorization servers say that all their tokens have expired.
const SOONEST_AGAIN: Duration = Duration::from_secs(30);
/// The pause after the first failure. It doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The result of a renewal.
#[derive(Debug, PartialEq, Eq)]
enum Renewal {
    /// There is another token, and the servers have it.
    Done,
    /// There is no other token, and there will be none.
    None,
    /// The authorization server cannot be reached at the moment.
    Later,
}

/// Returns the function with which servers ask for another token.
pub(super) fn renew(shared: &Arc<RunnerShared>) -> Renew {
    let shared = Arc::downgrade(shared);
    Renew::new(move |resource, refused| {
        let shared = Weak::clone(&shared);
        Box::pin(async move {
            let Some(shared) = shared.upgrade() else {
                return false;
            };
            match shared.renew(&resource, Some(refused)).await {
                Renewal::Done => true,
                Renewal::None => false,
                Renewal::Later => {
                    // Users are asked now. If the renewal works after all, they need not answer.
                    shared.try_again(&resource);
                    false
                }
            }
        })
    })
}

impl RunnerShared {
    /// Schedules the renewal of a token that a server uses.
    pub(super) fn schedule_renewal(self: &Arc<Self>, resource: &str) {
        let Some(held) = self.tokens.get(resource) else {
            // The token was revoked meanwhile.
            return;
        };
        let Some(lasts) = held.lasts().filter(|_| held.is_renewed()) else {
            // The token does not expire, or it cannot be renewed.
            return;
        };
        let ahead = AHEAD.min(lasts / 5);
        let soonest = if held.is_refreshed { SOONEST_AGAIN } else { SOONEST };
        self.spawn_renewal(&held, lasts.saturating_sub(ahead).max(soonest), false);
    }

    /// Schedules another try after a failure.
    fn try_again(self: &Arc<Self>, resource: &str) {
        if let Some(held) = self.tokens.get(resource) {
            // The task that waits for the expiry would come too late.
            self.spawn_renewal(&held, FIRST_PAUSE, true);
        }
    }

    /// Renews a token after a delay, and tries again until it is decided. There is one such task per token: the present one, or
    /// with `instead` this one.
    fn spawn_renewal(self: &Arc<Self>, held: &StoredToken, first: Duration, instead: bool) {
        let (resource, version) = (held.saved.resource.clone(), held.version);
        let shared = Arc::downgrade(self);
        let trying = async move {
            let mut pause = FIRST_PAUSE;
            sleep(first).await;
            loop {
                let Some(shared) = shared.upgrade() else {
                    // The host is going away.
                    return;
                };
                let is_current = shared.tokens.get(&resource).is_some_and(|held| held.version == version);
                if !is_current {
                    return;
                }
                if !shared.is_used(&resource) || shared.renew(&resource, None).await != Renewal::Later {
                    return;
                }
                drop(shared);
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        let begin = || tokio::spawn(trying).abort_handle();
        self.tokens
            .schedule_renewal(&held.saved.resource, held.version, instead, begin);
    }

    /// Gets another token for a resource in place of the refused one, or of the present one.
    ///
    /// The renewal goes on when the caller does not wait any more: a refresh token is valid once, and a cancelled call must
    /// not lose the next one.
    async fn renew(self: &Arc<Self>, resource: &str, refused: Option<Token>) -> Renewal {
        let (shared, resource) = (Arc::clone(self), resource.to_owned());
        let renewing = async move {
            let refused = refused.as_ref().map(Token::expose);
            shared.renew_now(&resource, refused).await
        };
        let renewed = self.tasks.spawn(renewing).await;
        renewed.unwrap_or(Renewal::None)
    }

    async fn renew_now(self: &Arc<Self>, resource: &str, refused: Option<&str>) -> Renewal {
        let Some(before) = self.tokens.get(resource) else {
            return Renewal::None;
        };
        let _one_at_a_time = before.renewing.lock().await;
        let Some(held) = self.tokens.get(resource) else {
            return Renewal::None;
        };
        let is_other = match refused {
            Some(refused) => held.saved.token != refused,
            None => held.version != before.version,
        };
        if is_other && held.lasts() != Some(Duration::ZERO) {
            self.hand_out(resource);
            return Renewal::Done;
        }
        let Some(refresh) = &held.saved.refresh else {
            return Renewal::None;
        };
        let Some(refresh_token) = &refresh.refresh_token else {
            return Renewal::None;
        };
        match token_exchange::refresh(refresh, refresh_token, resource).await {
            Ok(granted) => {
                let next = granted.refresh_token.clone();
                if self.tokens.renew(resource, held.version, granted) {
                    tracing::debug!(resource, "the token of MCP servers was refreshed");
                    // Before the servers get it: the old refresh token is void, and a killed host would have nothing else.
                    if let Some(saving) = self.save_soon() {
                        let _ = saving.await;
                    }
                } else if let Some(next) = next.filter(|_| self.tokens.get(resource).is_none()) {
                    // A user signed out meanwhile: the new token must not stay valid either.
                    self.revoke(held.refreshed_with(next));
                }
                // Or a user signed in meanwhile.
                match self.hand_out(resource) {
                    true => Renewal::Done,
                    false => Renewal::None,
                }
            }
            Err(NotGranted::Refused(why)) => {
                let is_good = refused.is_none() && held.lasts() != Some(Duration::ZERO);
                tracing::warn!(
                    resource,
                    "the token of MCP servers cannot be refreshed ({why}); a user has to sign in again"
                );
                self.give_up(&held, is_good);
                Renewal::None
            }
            Err(NotGranted::Failed(why)) => {
                tracing::warn!(
                    resource,
                    "the token of MCP servers cannot be refreshed now: {why}; it is tried again"
                );
                Renewal::Later
            }
        }
    }

    /// Gives up renewing a token. It is used until it expires.
    fn give_up(self: &Arc<Self>, held: &StoredToken, is_good: bool) {
        let resource = held.saved.resource.clone();
        match held.lasts().filter(|_| is_good) {
            None => {
                if self.tokens.drop_version(&resource, held.version) {
                    self.tell_lost(held);
                }
            }
            Some(lasts) => {
                if self.tokens.forget_refresh(&resource, held.version)
                    && let Some(last) = self.tokens.get(&resource)
                {
                    let shared = Arc::downgrade(self);
                    tokio::spawn(async move {
                        sleep(lasts).await;
                        if let Some(shared) = shared.upgrade()
                            && shared.tokens.drop_version(&resource, last.version)
                        {
                            shared.tell_lost(&last);
                            shared.save_soon();
                        }
                    });
                }
            }
        }
        self.save_soon();
    }

    /// Reports a lost token to the host.
    fn tell_lost(&self, lost: &StoredToken) {
        let Some(sink) = self.lost_tokens.lock().clone() else {
            // No host listens yet.
            return;
        };
        let (resource, number) = (lost.saved.resource.clone(), lost.number);
        self.tasks.spawn(async move { sink.lost(&resource, number).await });
    }

    /// Revokes a token at its authorization server, if the client named an address for that (RFC 7009).
    pub(super) fn revoke(self: &Arc<Self>, taken: StoredToken) {
        let Some(refresh) = taken.saved.refresh else {
            // A token that cannot be renewed has no authorization server to tell.
            return;
        };
        let Some(endpoint) = refresh.revocation_endpoint.clone() else {
            // The authorization server offers no revocation.
            return;
        };
        self.tasks.spawn(async move {
            if token_exchange::revoke(&refresh, &taken.saved.token, &endpoint)
                .await
                .is_err()
            {
                tracing::warn!(
                    resource = taken.saved.resource,
                    "the token was deleted, but could not be revoked at its authorization server"
                );
            }
        });
    }

    /// Gives the present token to all servers of a resource. Returns false if there is none.
    pub(super) fn hand_out(self: &Arc<Self>, resource: &str) -> bool {
        let Some(held) = self.tokens.get(resource) else {
            return false;
        };
        self.give(resource, &held.token());
        self.schedule_renewal(resource);
        true
    }

    fn is_used(&self, resource: &str) -> bool {
        self.servers().iter().any(|server| server.is_for(resource))
    }

    /// Persists the tokens in the background. The handle can be waited for.
    pub(super) fn save_soon(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let shared = Arc::clone(self);
        let keeps = self.tokens.keeps();
        keeps.then(|| self.tasks.spawn_blocking(move || shared.tokens.save()))
    }
}

#[cfg(test)]
mod tests;
