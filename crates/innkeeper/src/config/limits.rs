//! The `[limits]` section: the limits that an operator has a reason to change. Keys that end in `_ms` are milliseconds.
//!
//! All other limits of the host are fixed, and their reasons are beside the defaults (`innkeeper_host::Limits`,
//! `innkeeper_core::CoreConfig`). Tests and benchmarks set them with an environment variable, which is no setting: its
//! keys change without notice, and a release build reads it only with the feature `test-limits`.

use std::ops::RangeInclusive;
use std::time::Duration;

use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_host::Limits;
use serde::Deserialize;

use super::unknown_keys::field_names;

/// The environment variable with limits for tests and benchmarks, as lines of `key = number`.
const TEST_VARIABLE: &str = "INNKEEPER_TEST_LIMITS";

/// Declares a set of limits: name, permitted values, and the field of [`Limits`] that it sets.
macro_rules! limits {
    ($(#[$doc:meta])* $name:ident: $($key:ident in $range:expr => $($field:ident).+;)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Deserialize)]
        #[serde(default)]
        pub(crate) struct $name {
            $($key: Option<u64>,)+
        }

        impl $name {
            /// Sets the limits that are named; fails with the key and what is wrong with its value.
            pub(crate) fn apply(&self, limits: &mut Limits) -> Result<(), (&'static str, String)> {
                $(
                    if let Some(value) = self.$key {
                        limits.$($field).+ = within($range, value)
                            .map_err(|problem| (stringify!($key), problem))?;
                    }
                )+
                Ok(())
            }
        }
    };
}

const SOME: RangeInclusive<u64> = 1..=u64::MAX;
const ANY: RangeInclusive<u64> = 0..=u64::MAX;

/// Maximum connections that one process can serve with its usual file descriptors.
const CONNECTIONS: RangeInclusive<u64> = 1..=10_000;

limits! {
    /// The keys of `[limits]`. A key that is left out keeps its default.
    LimitsSection:
    // Connections.
    connections in CONNECTIONS => connections;
    connections_per_principal in CONNECTIONS => connections_per_principal;
    outbox_bytes in SOME => outbox_bytes;
    ping_interval_ms in SOME => ping_interval;
    grace_ms in ANY => core.grace_ms;
    // Memory and storage. Zero keeps idle sessions in memory; zero bytes replay nothing, bound no snapshot or store no contents.
    sessions in SOME => core.max_sessions;
    idle_session_ms in ANY => core.idle_session_ms;
    replay_total_bytes in ANY => core.replay.total_bytes;
    replay_age_ms in ANY => core.replay.max_age_ms;
    snapshot_bytes in ANY => core.max_snapshot_bytes;
    content_session_bytes in ANY => content_session_bytes;
    content_total_bytes in ANY => content_total_bytes;
    // Files.
    resource_bytes in SOME => resource_bytes;
    resource_grant_ms in SOME => core.resource_grant_ms;
    watched_directories in SOME => watched_directories;
    watched_entries in SOME => watched_entries;
    // Agents and MCP servers. Zero switches the watchdog off, makes no turn wait, or asks no user.
    open_session_ms in SOME => open_session_time;
    silence_limit_ms in ANY => core.silence_limit_ms;
    mcp_servers in ANY => core.max_mcp_servers;
    mcp_blocking_ms in ANY => core.mcp_blocking_ms;
    mcp_trust_ms in ANY => mcp_trust_time;
}

limits! {
    /// The limits that no user has a reason to change, by the names that they had in `[limits]`.
    FixedLimits:
    // Raising the first six would let a client exhaust the stack or the memory of the parser.
    message_bytes in 1..=16 << 20 => message_bytes;
    message_fragments in 1..=4096 => message_fragments;
    json_depth in 1..=64 => json_depth;
    json_members in 1..=100_000 => json_members;
    http_head_bytes in 1..=16 << 10 => http_head_bytes;
    http_headers in 1..=64 => http_headers;
    handshake_ms in SOME => handshake_time;
    unauthenticated_connections in CONNECTIONS => unauthenticated_connections;
    failed_tokens_per_minute in SOME => failed_tokens_per_minute;
    messages_per_second in SOME => messages_per_second;
    message_burst in SOME => message_burst;
    requests_in_flight in SOME => requests_in_flight;
    outbox_merge_messages in SOME => outbox_merge_messages;
    outbox_merge_bytes in SOME => outbox_merge_bytes;
    write_ms in SOME => write_time;
    reverse_request_ms in SOME => reverse_request_time;
    reverse_requests in SOME => reverse_requests;
    system_message_transform_ms in SOME => transform_time;
    system_message_transform_bytes in SOME => transform_bytes;
    system_message_transform_sections in ANY => core.max_transform_sections;
    cancel_ms in SOME => cancel_time;
    look_up_ms in SOME => look_up_time;
    agent_hold_bytes in SOME => agent_hold_bytes;
    agent_history_bytes in SOME => agent_history_bytes;
    resource_ms in SOME => resource_time;
    directory_entries in SOME => directory_entries;
    watches in ANY => core.max_watches;
    watch_lease_ms in SOME => core.watch_lease_ms;
    default_latency_ms in ANY => core.default_latency_ms;
    summary_debounce_ms in ANY => core.summary_debounce_ms;
    subscriptions in SOME => core.max_subscriptions;
    message_text_bytes in SOME => core.max_message_bytes;
    title_bytes in SOME => core.max_title_bytes;
    attachments in ANY => core.max_attachments;
    queued_messages in ANY => core.max_queued_messages;
    parts_per_turn in SOME => core.max_parts_per_turn;
    turn_bytes in SOME => core.max_turn_bytes;
    absent_clients in ANY => core.max_absent_clients;
    chats in SOME => core.max_chats;
    subagent_depth in ANY => core.max_subagent_depth;
    client_tools in ANY => core.max_client_tools;
    active_client_bytes in SOME => core.max_active_client_bytes;
    mcp_answer_bytes in SOME => mcp_answer_bytes;
    mcp_request_ms in SOME => mcp_request_time;
    turns_per_page in SOME => core.turns_per_page;
    history_turns in SOME => core.history_turns;
    silence_notice_ms in ANY => core.silence_notice_ms;
    replay_channel_bytes in ANY => core.replay.channel_bytes;
    replay_answer_actions in ANY => core.replay.answer_actions;
    replay_answer_bytes in ANY => core.replay.answer_bytes;
}

/// Sets the limits of [`TEST_VARIABLE`], if the variable is set and this build reads it.
pub(crate) fn apply_test_variable(limits: &mut Limits) -> Result<(), Failure> {
    if !cfg!(any(debug_assertions, feature = "test-limits")) {
        return Ok(());
    }
    let Some(text) = std::env::var_os(TEST_VARIABLE) else {
        return Ok(());
    };
    apply_test_text(&text.to_string_lossy(), limits)
        .map_err(|problem| Failure::new(Kind::Usage, format!("{TEST_VARIABLE}: {problem}")).hint("unset the variable"))
}

fn apply_test_text(text: &str, limits: &mut Limits) -> Result<(), String> {
    let unreadable = |error: toml::de::Error| error.message().to_owned();
    let table: toml::Table = toml::from_str(text).map_err(unreadable)?;
    let known = [field_names::<LimitsSection>(), field_names::<FixedLimits>()].concat();
    if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("`{key}` is not a limit"));
    }
    let section: LimitsSection = toml::from_str(text).map_err(unreadable)?;
    let fixed: FixedLimits = toml::from_str(text).map_err(unreadable)?;
    section
        .apply(limits)
        .and_then(|()| fixed.apply(limits))
        .map_err(|(key, problem)| format!("`{key}` {problem}"))
}

fn within<T: FromNumber>(range: RangeInclusive<u64>, value: u64) -> Result<T, String> {
    if value < *range.start() {
        return Err(format!("must be at least {}", range.start()));
    }
    if value > *range.end() {
        return Err(format!("can be at most {}", range.end()));
    }
    T::from_number(value).ok_or_else(|| "is too large".to_owned())
}

/// A bound that a number in the file can set.
trait FromNumber: Sized {
    fn from_number(value: u64) -> Option<Self>;
}

impl FromNumber for u32 {
    fn from_number(value: u64) -> Option<Self> {
        value.try_into().ok()
    }
}

impl FromNumber for u64 {
    fn from_number(value: u64) -> Option<Self> {
        Some(value)
    }
}

impl FromNumber for usize {
    fn from_number(value: u64) -> Option<Self> {
        value.try_into().ok()
    }
}

impl FromNumber for Duration {
    fn from_number(value: u64) -> Option<Self> {
        Some(Self::from_millis(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str) -> Result<Limits, String> {
        let mut limits = Limits::default();
        apply_test_text(text, &mut limits).map(|()| limits)
    }

    #[test]
    fn keys_set_their_limits_and_nothing_else() {
        let limits =
            apply("connections = 9000\nping_interval_ms = 1500\nsessions = 7\nchats = 3\nsilence_limit_ms = 0")
                .unwrap();
        assert_eq!(limits.connections, 9000);
        assert_eq!(limits.ping_interval, Duration::from_millis(1500));
        assert_eq!(limits.core.max_sessions, 7);
        assert_eq!(limits.core.max_chats, 3);
        assert_eq!(limits.core.silence_limit_ms, 0, "zero switches the watchdog off");
        assert_eq!(limits.message_bytes, Limits::default().message_bytes);
    }

    #[test]
    fn values_out_of_range_name_the_key() {
        for (text, expected) in [
            ("connections = 0", "`connections` must be at least 1"),
            ("connections = 10001", "`connections` can be at most 10000"),
            ("json_depth = 65", "`json_depth` can be at most 64"),
            ("turns_per_page = 0", "`turns_per_page` must be at least 1"),
            ("message_burst = 5000000000", "`message_burst` is too large"),
            ("conections = 1", "`conections` is not a limit"),
        ] {
            assert_eq!(apply(text).unwrap_err(), expected);
        }
    }
}
