//! Retry policy: whether to repeat a failed request, and when.

use std::time::Duration;

use super::error::ProviderError;

/// Retry policy for provider requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Delay after the first failure. It doubles with every further failure.
    pub initial_delay: Duration,
    /// Maximum delay that the policy chooses.
    pub max_delay: Duration,
    /// Maximum `Retry-After` that is honoured. If the provider asks for more, the error is reported instead.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// Decision about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry after this delay.
    Wait(Duration),
    /// Report this error.
    GiveUp(ProviderError),
}

/// An upcoming attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry<'a> {
    /// Number of the attempt, counted from 1: the first retry is 2.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub of: u32,
    /// Delay before the attempt.
    pub after: Duration,
    /// The error that caused it.
    pub error: &'a ProviderError,
}

impl RetryPolicy {
    /// Decides about the `failed`th failure. `random` is in 0..1.
    pub fn decide(&self, failed: u32, error: &ProviderError, random: f64) -> RetryDecision {
        if !error.kind.is_transient() {
            return RetryDecision::GiveUp(error.clone());
        }
        if let Some(wait) = error.retry_after
            && wait > self.max_retry_after
        {
            return RetryDecision::GiveUp(with_wait_hint(error, wait));
        }
        if failed >= self.max_attempts {
            return RetryDecision::GiveUp(with_attempt_count(error, failed));
        }
        let doubled = 2u32.saturating_pow(failed.saturating_sub(1));
        let pause = self.initial_delay.saturating_mul(doubled).min(self.max_delay);
        // Half of the delay is random, so that clients that failed together do not retry together.
        let pause = pause.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0));
        RetryDecision::Wait(error.retry_after.map_or(pause, |wait| wait.max(pause)))
    }
}

fn with_wait_hint(error: &ProviderError, wait: Duration) -> ProviderError {
    let message = format!("{} The provider asks to wait {}.", error.message, human_duration(wait));
    ProviderError {
        message,
        ..error.clone()
    }
}

fn with_attempt_count(error: &ProviderError, tries: u32) -> ProviderError {
    let message = match tries {
        0 | 1 => error.message.clone(),
        _ => format!("{} (Tried {tries} times.)", error.message),
    };
    ProviderError {
        message,
        ..error.clone()
    }
}

fn human_duration(wait: Duration) -> String {
    match wait.as_secs() {
        seconds @ 0..120 => format!("{seconds} seconds"),
        seconds @ 120..7200 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{} hours", seconds.div_ceil(3600)),
    }
}

/// Repeats `attempt` until it succeeds or the policy gives up. Dropping the future cancels it, including the delays.
pub async fn with_retries<T, F>(
    policy: &RetryPolicy,
    mut random: impl FnMut() -> f64,
    mut announce: impl FnMut(Retry<'_>),
    mut attempt: impl FnMut() -> F,
) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let mut failed = 0;
    loop {
        let error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        failed += 1;
        let after = match policy.decide(failed, &error, random()) {
            RetryDecision::Wait(after) => after,
            RetryDecision::GiveUp(error) => return Err(error),
        };
        tracing::debug!(kind = ?error.kind, failed, ?after, "retrying a model request");
        announce(Retry {
            attempt: failed + 1,
            of: policy.max_attempts,
            after,
            error: &error,
        });
        tokio::time::sleep(after).await;
    }
}

/// Random number for delays. It only has to spread them and need not be unpredictable.
pub fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let bits = std::hash::RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(bits >> 32).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::ErrorKind;

    fn error(kind: ErrorKind, retry_after: Option<u64>) -> ProviderError {
        ProviderError {
            kind,
            message: "It failed.".into(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn delays_double_up_to_a_limit_with_jitter() {
        let policy = RetryPolicy {
            max_attempts: 100,
            ..RetryPolicy::default()
        };
        let pause = |failed, random| match policy.decide(failed, &error(ErrorKind::Server, None), random) {
            RetryDecision::Wait(pause) => pause.as_millis(),
            RetryDecision::GiveUp(error) => panic!("gave up: {error}"),
        };
        assert_eq!([1, 2, 3, 4].map(|failed| pause(failed, 1.0)), [1000, 2000, 4000, 8000]);
        assert_eq!([1, 2, 3, 4].map(|failed| pause(failed, 0.0)), [500, 1000, 2000, 4000]);
        assert_eq!(pause(90, 1.0), 30_000);
    }

    #[test]
    fn retry_after_is_honoured_up_to_a_limit() {
        let policy = RetryPolicy::default();
        let decide = |wait| policy.decide(1, &error(ErrorKind::RateLimited, Some(wait)), 0.0);
        assert_eq!(decide(20), RetryDecision::Wait(Duration::from_secs(20)));
        assert_eq!(decide(60), RetryDecision::Wait(Duration::from_secs(60)));
        assert_eq!(decide(0), RetryDecision::Wait(Duration::from_millis(500)));
        let RetryDecision::GiveUp(told) = decide(3600) else {
            panic!("an hour is too long to wait for");
        };
        assert_eq!(told.message, "It failed. The provider asks to wait 60 minutes.");
    }

    #[test]
    fn permanent_failures_are_not_retried() {
        let policy = RetryPolicy::default();
        for kind in [
            ErrorKind::Auth,
            ErrorKind::Quota,
            ErrorKind::ContextLength,
            ErrorKind::BadRequest,
            ErrorKind::Interrupted,
            ErrorKind::Malformed,
            ErrorKind::Refused,
            ErrorKind::NoModel,
        ] {
            let failed = error(kind, None);
            assert_eq!(policy.decide(1, &failed, 0.5), RetryDecision::GiveUp(failed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_announced_and_bounded() {
        let mut tries = 0;
        let mut announced = Vec::new();
        let begun = tokio::time::Instant::now();
        let result: Result<(), _> = with_retries(
            &RetryPolicy::default(),
            || 1.0,
            |retry| announced.push((retry.attempt, retry.of, retry.after.as_secs())),
            || {
                tries += 1;
                std::future::ready(Err(error(ErrorKind::Overloaded, None)))
            },
        )
        .await;
        assert_eq!(result.unwrap_err().message, "It failed. (Tried 5 times.)");
        assert_eq!(announced, [(2, 5, 1), (3, 5, 2), (4, 5, 4), (5, 5, 8)]);
        assert_eq!(tries, 5);
        assert_eq!(begun.elapsed().as_secs(), 15, "on the paused clock");
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_can_succeed() {
        let mut failures = vec![error(ErrorKind::Network, None), error(ErrorKind::RateLimited, Some(9))];
        let result = with_retries(
            &RetryPolicy::default(),
            jitter,
            |_| {},
            || std::future::ready(failures.pop().map_or(Ok("done"), Err)),
        )
        .await;
        assert_eq!(result, Ok("done"));
    }
}
