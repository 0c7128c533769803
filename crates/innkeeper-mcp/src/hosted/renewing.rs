//! Tokens are replaced before their time is over, and when a server does not accept them any more.
//!
//! Only what a running server uses is seen to: nobody wants a host that asks around for servers that
//! nobody has used in weeks. What lies idle is renewed when a server first needs it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Shared;
use super::tokens::Held;
use crate::engine::auth::Renew;
use crate::engine::secret::Token;
use crate::hosted::token_exchange::{self, NotGranted};

/// At most so long before its time is over a token is replaced.
const AHEAD: Duration = Duration::from_secs(60);
/// Not sooner than this is one replaced that people gave.
const SOONEST: Duration = Duration::from_secs(1);
/// Nor one that was traded for another: some authorization servers say of all of theirs that they are over.
const SOONEST_AGAIN: Duration = Duration::from_secs(30);
/// How long to wait after the first failure; twice as long after each that follows.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What became of the wish for another token.
#[derive(Debug, PartialEq, Eq)]
enum Renewal {
    /// There is another one, and the servers have it.
    Done,
    /// There is none, and there will be none.
    None,
    /// Whoever gives them out cannot be asked at the moment.
    Later,
}

/// How servers ask for another token.
pub(super) fn renew(shared: &Arc<Shared>) -> Renew {
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
                    // People are asked now. If it works out after all, they need not answer.
                    shared.try_again(&resource);
                    false
                }
            }
        })
    })
}

impl Shared {
    /// Sees to it that a token that a server uses is replaced in time.
    pub(super) fn see_to(self: &Arc<Self>, resource: &str) {
        let Some(held) = self.tokens.get(resource) else {
            return;
        };
        let Some(lasts) = held.lasts().filter(|_| held.is_renewed()) else {
            return;
        };
        let ahead = AHEAD.min(lasts / 5);
        let soonest = if held.is_refreshed { SOONEST_AGAIN } else { SOONEST };
        self.keep_trying(&held, lasts.saturating_sub(ahead).max(soonest), false);
    }

    /// The same after a failure.
    fn try_again(self: &Arc<Self>, resource: &str) {
        if let Some(held) = self.tokens.get(resource) {
            // Whoever waits for a moment that is far away does not help.
            self.keep_trying(&held, FIRST_PAUSE, true);
        }
    }

    /// Replaces a token some time from now. Of those who do so there is one: who does already, or with
    /// `instead` this one.
    fn keep_trying(self: &Arc<Self>, held: &Held, first: Duration, instead: bool) {
        let (resource, version) = (held.saved.resource.clone(), held.version);
        let shared = Arc::downgrade(self);
        let trying = async move {
            let mut pause = FIRST_PAUSE;
            sleep(first).await;
            loop {
                let Some(shared) = shared.upgrade() else {
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
        self.tokens.see_to(&held.saved.resource, held.version, instead, begin);
    }

    /// Gets another token for a resource in place of the one that was refused, or of the one there is.
    ///
    /// That goes on though whoever asked does not wait any more: a refresh token is good once, and a call
    /// that is cancelled must not take the next one along.
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
                    // First: what it was traded for is good no more, and would be all that a killed host has.
                    if let Some(saving) = self.save_soon() {
                        let _ = saving.await;
                    }
                } else if let Some(next) = next.filter(|_| self.tokens.get(resource).is_none()) {
                    // Somebody signed out meanwhile: what came after that is not theirs to use either.
                    self.revoke(held.refreshed_with(next));
                }
                // Or somebody signed in meanwhile.
                match self.hand_out(resource) {
                    true => Renewal::Done,
                    false => Renewal::None,
                }
            }
            Err(NotGranted::Refused(why)) => {
                let is_good = refused.is_none() && held.lasts() != Some(Duration::ZERO);
                tracing::warn!(
                    resource,
                    "the token of MCP servers cannot be refreshed ({why}); somebody has to sign in again"
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

    /// Nobody gives another token for this one. It is used for as long as it is good.
    fn give_up(self: &Arc<Self>, held: &Held, is_good: bool) {
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

    /// Tells the host that a token is gone which it believes to be seen to here.
    fn tell_lost(&self, lost: &Held) {
        let Some(sink) = self.lost_tokens.lock().clone() else {
            return;
        };
        let (resource, number) = (lost.saved.resource.clone(), lost.number);
        self.tasks.spawn(async move { sink.lost(&resource, number).await });
    }

    /// Declares a token void that was taken back, where people said that this can be done (RFC 7009).
    pub(super) fn revoke(self: &Arc<Self>, taken: Held) {
        let Some(refresh) = taken.saved.refresh else {
            return;
        };
        let Some(endpoint) = refresh.revocation_endpoint.clone() else {
            return;
        };
        self.tasks.spawn(async move {
            if token_exchange::revoke(&refresh, &taken.saved.token, &endpoint)
                .await
                .is_err()
            {
                tracing::warn!(
                    resource = taken.saved.resource,
                    "the token was forgotten, but its authorization server could not be told"
                );
            }
        });
    }

    /// Gives all servers of a resource the token there is. `false` says that there is none.
    pub(super) fn hand_out(self: &Arc<Self>, resource: &str) -> bool {
        let Some(held) = self.tokens.get(resource) else {
            return false;
        };
        self.give(resource, &held.token());
        self.see_to(resource);
        true
    }

    fn is_used(&self, resource: &str) -> bool {
        self.servers().iter().any(|server| server.is_for(resource))
    }

    /// Keeps what there is, soon; gives what can be waited for.
    pub(super) fn save_soon(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let shared = Arc::clone(self);
        let keeps = self.tokens.keeps();
        keeps.then(|| self.tasks.spawn_blocking(move || shared.tokens.save()))
    }
}

#[cfg(test)]
mod tests;
