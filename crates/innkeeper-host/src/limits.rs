//! Every bound of the host in one place. All of them can be configured; none can be switched
//! off but the watchdog over silent agents.

use std::time::Duration;

pub use innkeeper_core::{CoreConfig, ReplayLimits};

/// Bounds on what clients, agents and connections may cost.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest inbound message, in bytes; beyond it the connection is closed with 1009.
    pub message_bytes: usize,
    /// Most fragments of one inbound WebSocket message; beyond it the connection is closed with 1009.
    pub message_fragments: usize,
    /// Deepest nesting of inbound JSON; beyond it the answer is `-32600`.
    pub json_depth: usize,
    /// Most members of one inbound JSON object or array; beyond it the answer is `-32600`.
    pub json_members: usize,
    /// Longest HTTP request head, in bytes; beyond it the answer is 431.
    pub http_head_bytes: usize,
    /// Most HTTP headers; beyond it the answer is 431.
    pub http_headers: usize,
    /// Time for the HTTP request head and the upgrade; beyond it the socket is closed.
    pub handshake_time: Duration,
    /// Connections in all; beyond it the answer is 503.
    pub connections: usize,
    /// Connections that have not shown a credential yet; beyond it the answer is 503.
    pub unauthenticated_connections: usize,
    /// Connections of one principal; beyond it the answer is 503.
    pub connections_per_principal: usize,
    /// Wrong tokens per minute and peer address; beyond it the answer is 429.
    pub failed_tokens_per_minute: u32,
    /// Sustained messages per second of one connection; beyond it the host stops reading.
    pub messages_per_second: u32,
    /// Messages a connection may send at once before the sustained rate applies.
    pub message_burst: u32,
    /// Requests of one connection that are read and not handled yet; beyond it the host stops reading.
    pub requests_in_flight: usize,
    /// Bytes queued for one connection; beyond it the connection is closed with 1013.
    pub outbox_bytes: usize,
    /// Queued messages or bytes from which on adjacent streamed output is merged.
    pub outbox_merge_messages: usize,
    /// See [`Self::outbox_merge_messages`].
    pub outbox_merge_bytes: usize,
    /// Time in which a connection must accept at least one byte; beyond it 1013.
    pub write_time: Duration,
    /// Time between pings to a WebSocket peer; silence for three of them ends the connection.
    pub ping_interval: Duration,
    /// Time for a client to answer a reverse request.
    pub reverse_request_time: Duration,
    /// Reverse requests in flight to one client.
    pub reverse_requests: usize,
    /// Time for a client to rewrite a system prompt; beyond it the prompt stays as it is (SMT-09).
    pub transform_time: Duration,
    /// Most bytes of the sections that a client gets to rewrite, and of what it answers; beyond it the
    /// prompt stays as it is (SMT-15).
    pub transform_bytes: usize,
    /// Time an agent has to bring up a session.
    pub open_session_time: Duration,
    /// Time an agent has to return after its turn was cancelled.
    pub cancel_time: Duration,
    /// Time to look something up for a client: completions, values of a setting.
    pub look_up_time: Duration,
    /// Bytes queued for even the fastest subscriber from which on an agent is held back.
    pub agent_hold_bytes: usize,
    /// The most bytes of a chat's history that its agent gets, as JSON and the newest first, when the agent opens the
    /// chat or gets it with a message.
    pub agent_history_bytes: usize,
    /// Longest resource that is read or written in one piece.
    pub resource_bytes: usize,
    /// Time for something that a client wants done with resources.
    pub resource_time: Duration,
    /// Most entries of a directory that is listed.
    pub directory_entries: usize,
    /// Most directories of one watch.
    pub watched_directories: usize,
    /// Most files and directories in them.
    pub watched_entries: usize,
    /// Time that a turn waits for users to decide whether MCP servers may run; zero means that users are not asked.
    pub mcp_trust_time: Duration,
    /// Time for an MCP server to answer what a client asks on behalf of an app.
    pub mcp_request_time: Duration,
    /// Most bytes of such an answer.
    pub mcp_answer_bytes: usize,
    /// Most bytes that are kept for a session of what its tools gave back and its turns have no room for.
    pub content_session_bytes: u64,
    /// Most of them for all sessions together.
    pub content_total_bytes: u64,
    /// The limits of the core.
    pub core: CoreConfig,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            message_fragments: 4096,
            json_depth: 64,
            json_members: 100_000,
            http_head_bytes: 16 << 10,
            http_headers: 64,
            handshake_time: Duration::from_secs(5),
            connections: 1024,
            unauthenticated_connections: 64,
            connections_per_principal: 256,
            failed_tokens_per_minute: 10,
            messages_per_second: 2000,
            message_burst: 5000,
            requests_in_flight: 256,
            outbox_bytes: 8 << 20,
            outbox_merge_messages: 4096,
            outbox_merge_bytes: 1 << 20,
            write_time: Duration::from_secs(10),
            ping_interval: Duration::from_secs(20),
            reverse_request_time: Duration::from_secs(30),
            reverse_requests: 32,
            transform_time: Duration::from_secs(5),
            transform_bytes: 1 << 20,
            open_session_time: Duration::from_secs(30),
            cancel_time: Duration::from_secs(2),
            look_up_time: Duration::from_secs(5),
            agent_hold_bytes: 512 << 10,
            agent_history_bytes: 32 << 20,
            resource_bytes: 8 << 20,
            resource_time: Duration::from_secs(30),
            directory_entries: 10_000,
            watched_directories: 8192,
            watched_entries: 200_000,
            mcp_trust_time: Duration::from_secs(120),
            mcp_request_time: Duration::from_secs(120),
            mcp_answer_bytes: 16 << 20,
            content_session_bytes: 64 << 20,
            content_total_bytes: 1 << 30,
            core: CoreConfig::default(),
        }
    }
}
