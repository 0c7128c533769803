//! The `[limits]` section: the host's bounds, one key each. Keys that end in `_ms` are milliseconds.

use std::ops::RangeInclusive;
use std::time::Duration;

use innkeeper_host::Limits;
use serde::Deserialize;

/// Declares the keys of the section: name, permitted values, and the bound it sets.
macro_rules! limits_section {
    ($($key:ident in $range:expr => $($field:ident).+;)+) => {
        /// What `[limits]` can say. A key that is left out keeps its default.
        #[derive(Clone, Copy, Debug, Default, Deserialize)]
        #[serde(default)]
        pub(crate) struct LimitsSection {
            $($key: Option<u64>,)+
        }

        impl LimitsSection {
            /// Sets the bounds that the section names; fails with the key and what is wrong with its value.
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

/// What one process can serve with the file descriptors it usually gets.
const CONNECTIONS: RangeInclusive<u64> = 1..=10_000;

limits_section! {
    // Raising the first six would let a client exhaust the stack or the memory of the parser.
    message_bytes in 1..=16 << 20 => message_bytes;
    message_fragments in 1..=4096 => message_fragments;
    json_depth in 1..=64 => json_depth;
    json_members in 1..=100_000 => json_members;
    http_head_bytes in 1..=16 << 10 => http_head_bytes;
    http_headers in 1..=64 => http_headers;
    handshake_ms in SOME => handshake_time;
    connections in CONNECTIONS => connections;
    unauthenticated_connections in CONNECTIONS => unauthenticated_connections;
    connections_per_principal in CONNECTIONS => connections_per_principal;
    failed_tokens_per_minute in SOME => failed_tokens_per_minute;
    messages_per_second in SOME => messages_per_second;
    message_burst in SOME => message_burst;
    requests_in_flight in SOME => requests_in_flight;
    outbox_bytes in SOME => outbox_bytes;
    outbox_merge_messages in SOME => outbox_merge_messages;
    outbox_merge_bytes in SOME => outbox_merge_bytes;
    write_ms in SOME => write_time;
    ping_interval_ms in SOME => ping_interval;
    reverse_request_ms in SOME => reverse_request_time;
    reverse_requests in SOME => reverse_requests;
    system_message_transform_ms in SOME => transform_time;
    system_message_transform_bytes in SOME => transform_bytes;
    system_message_transform_sections in ANY => core.max_transform_sections;
    open_session_ms in SOME => open_session_time;
    cancel_ms in SOME => cancel_time;
    look_up_ms in SOME => look_up_time;
    agent_hold_bytes in SOME => agent_hold_bytes;
    agent_history_bytes in SOME => agent_history_bytes;
    resource_bytes in SOME => resource_bytes;
    resource_ms in SOME => resource_time;
    directory_entries in SOME => directory_entries;
    watched_directories in SOME => watched_directories;
    watched_entries in SOME => watched_entries;
    content_session_bytes in ANY => content_session_bytes;
    content_total_bytes in ANY => content_total_bytes;
    watches in ANY => core.max_watches;
    watch_lease_ms in SOME => core.watch_lease_ms;
    resource_grant_ms in SOME => core.resource_grant_ms;
    default_latency_ms in ANY => core.default_latency_ms;
    grace_ms in ANY => core.grace_ms;
    summary_debounce_ms in ANY => core.summary_debounce_ms;
    subscriptions in SOME => core.max_subscriptions;
    message_text_bytes in SOME => core.max_message_bytes;
    title_bytes in SOME => core.max_title_bytes;
    attachments in ANY => core.max_attachments;
    queued_messages in ANY => core.max_queued_messages;
    message_bytes_with_attachments in SOME => core.max_message_total_bytes;
    queued_messages_bytes in SOME => core.max_queue_bytes;
    parts_per_turn in SOME => core.max_parts_per_turn;
    turn_bytes in SOME => core.max_turn_bytes;
    sessions in SOME => core.max_sessions;
    absent_clients in ANY => core.max_absent_clients;
    chats in SOME => core.max_chats;
    worker_depth in ANY => core.max_subagent_depth;
    client_tools in ANY => core.max_client_tools;
    active_client_bytes in SOME => core.max_active_client_bytes;
    mcp_servers in ANY => core.max_mcp_servers;
    // Zero is a choice here: then no turn waits.
    mcp_blocking_ms in ANY => core.mcp_blocking_ms;
    // Zero is a choice here: then sessions ask nobody.
    mcp_trust_ms in ANY => mcp_trust_time;
    mcp_answer_bytes in SOME => mcp_answer_bytes;
    mcp_request_ms in SOME => mcp_request_time;
    turns_per_page in SOME => core.turns_per_page;
    // Zero is a choice here: some clients read messages of any length.
    snapshot_bytes in ANY => core.max_snapshot_bytes;
    history_turns in SOME => core.history_turns;
    history_bytes in SOME => core.history_bytes;
    // Zero is a choice here: then sessions stay in memory.
    idle_session_ms in ANY => core.idle_session_ms;
    // Zero is a choice here: some agents think for hours.
    silence_notice_ms in ANY => core.silence_notice_ms;
    silence_limit_ms in ANY => core.silence_limit_ms;
    replay_channel_bytes in ANY => core.replay.channel_bytes;
    replay_total_bytes in ANY => core.replay.total_bytes;
    replay_age_ms in ANY => core.replay.max_age_ms;
    replay_answer_actions in ANY => core.replay.answer_actions;
    replay_answer_bytes in ANY => core.replay.answer_bytes;
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

    fn apply(text: &str) -> Result<Limits, (&'static str, String)> {
        let section: LimitsSection = toml::from_str(text).unwrap();
        let mut limits = Limits::default();
        section.apply(&mut limits).map(|()| limits)
    }

    #[test]
    fn keys_set_their_bounds_and_nothing_else() {
        let limits =
            apply("connections = 9000\nping_interval_ms = 1500\nsessions = 7\nchats = 3\nsilence_limit_ms = 0")
                .unwrap();
        assert_eq!(limits.connections, 9000);
        assert_eq!(limits.ping_interval, Duration::from_millis(1500));
        assert_eq!(limits.core.max_sessions, 7);
        assert_eq!(limits.core.max_chats, 3);
        assert_eq!(limits.core.silence_limit_ms, 0, "a watchdog can be sent to sleep");
        assert_eq!(limits.message_bytes, Limits::default().message_bytes);
    }

    #[test]
    fn values_that_would_hurt_are_refused() {
        for (text, key) in [
            ("connections = 0", "connections"),
            ("connections = 10001", "connections"),
            ("json_depth = 65", "json_depth"),
            ("turns_per_page = 0", "turns_per_page"),
            ("message_burst = 5000000000", "message_burst"),
        ] {
            assert_eq!(apply(text).unwrap_err().0, key);
        }
    }
}
