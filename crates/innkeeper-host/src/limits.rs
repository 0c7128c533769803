//! The limits of the host in one place.
//!
//! An embedder can set every field. The program offers the fields of `[limits]` as settings and leaves the rest at the
//! defaults, whose reasons are beside [`Limits::default`].

use std::time::Duration;

pub use innkeeper_core::{CoreConfig, ReplayLimits};

/// Limits on the memory, time and traffic of clients, agents and connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest inbound message, in bytes; beyond it the connection is closed with 1009.
    pub message_bytes: usize,
    /// Maximum fragments of an inbound WebSocket message; beyond it the connection is closed with 1009.
    pub message_fragments: usize,
    /// Deepest nesting of inbound JSON; beyond it the answer is `-32600`.
    pub json_depth: usize,
    /// Maximum members of one inbound JSON object or array; beyond it the answer is `-32600`.
    pub json_members: usize,
    /// Longest HTTP request head, in bytes; beyond it the answer is 431.
    pub http_head_bytes: usize,
    /// Maximum HTTP headers; beyond it the answer is 431.
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
    /// The same for a client whose version's published implementation answers none, so that waiting is mostly in vain.
    pub unlikely_answer_time: Duration,
    /// Reverse requests in flight to one client.
    pub reverse_requests: usize,
    /// Time for a client to rewrite a system prompt; beyond it the prompt stays as it is (SMT-09).
    pub transform_time: Duration,
    /// Maximum bytes of the sections that a client gets to rewrite, and of what it answers; beyond it the
    /// prompt stays as it is (SMT-15).
    pub transform_bytes: usize,
    /// Time an agent has to bring up a session.
    pub open_session_time: Duration,
    /// Time an agent has to return after its turn was cancelled.
    pub cancel_time: Duration,
    /// Time for a lookup: completions, values of a setting.
    pub look_up_time: Duration,
    /// Bytes queued for even the fastest subscriber from which on an agent is held back.
    pub agent_hold_bytes: usize,
    /// The most bytes of a chat's history that its agent gets, as JSON and the newest first, when the agent opens the
    /// chat or gets it with a message.
    pub agent_history_bytes: usize,
    /// Longest resource that is read or written in one piece.
    pub resource_bytes: usize,
    /// Time for one operation on resources.
    pub resource_time: Duration,
    /// Maximum entries of a directory that is listed.
    pub directory_entries: usize,
    /// Maximum directories of one watch.
    pub watched_directories: usize,
    /// Maximum files and directories in the directories of one watch.
    pub watched_entries: usize,
    /// Time that a turn waits for users to decide whether MCP servers may run; zero means that users are not asked.
    pub mcp_trust_time: Duration,
    /// Time for an MCP server to answer what a client asks on behalf of an app.
    pub mcp_request_time: Duration,
    /// Maximum bytes of an MCP server's answer to an app.
    pub mcp_answer_bytes: usize,
    /// Maximum bytes of blobs per session. Blobs are content of tool results that exceeds the limit of a turn.
    pub content_session_bytes: u64,
    /// Maximum bytes of blobs of all sessions.
    pub content_total_bytes: u64,
    /// The limits of the core.
    pub core: CoreConfig,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A message with several inline images; the parser holds one message per connection.
            message_bytes: 16 << 20,
            // 16 MiB in fragments of 4 KiB.
            message_fragments: 4096,
            // Recursive readers need stack for each level.
            json_depth: 64,
            // A map of more members costs more memory than its text.
            json_members: 100_000,
            // Common HTTP servers allow 8 to 16 KiB.
            http_head_bytes: 16 << 10,
            // Browsers send fewer than 30.
            http_headers: 64,
            // Several round trips over a slow network.
            handshake_time: Duration::from_secs(5),
            // A team with several clients each stays far below it.
            connections: 1024,
            // A stranger can hold this many sockets open for `handshake_time`.
            unauthenticated_connections: 64,
            // Other users can still connect when one client reconnects in a loop.
            connections_per_principal: 256,
            // Guessing a token of 256 bits is hopeless at any rate; this bounds the log.
            failed_tokens_per_minute: 10,
            // Far above a fast typist with drafts; it slows down the loop of a broken client.
            messages_per_second: 2000,
            // A client that reopens a hundred sessions sends some thousand messages at once.
            message_burst: 5000,
            // Bounds the memory for requests that wait for files or MCP servers.
            requests_in_flight: 256,
            // Some seconds of streamed output; beyond it a fresh snapshot is cheaper than the backlog.
            outbox_bytes: 8 << 20,
            // Merging short queues would cost more than it saves.
            outbox_merge_messages: 4096,
            // An eighth of the outbox.
            outbox_merge_bytes: 1 << 20,
            // A peer that takes no byte for longer has lost its network.
            write_time: Duration::from_secs(10),
            // Shorter than the idle timeouts of common proxies, 30 to 60 s.
            ping_interval: Duration::from_secs(20),
            // A user may have to look at the client first.
            reverse_request_time: Duration::from_secs(30),
            // Long enough for a client that answers after all.
            unlikely_answer_time: Duration::from_secs(3),
            // More would only queue in the client.
            reverse_requests: 32,
            // The turn waits for it, and the user sees no progress meanwhile.
            transform_time: Duration::from_secs(5),
            // Far above the prompts of today's agents.
            transform_bytes: 1 << 20,
            // An agent process on a cold disk starts within it.
            open_session_time: Duration::from_secs(30),
            // A user who cancels waits for no longer.
            cancel_time: Duration::from_secs(2),
            // Completions that come later help no typing user.
            look_up_time: Duration::from_secs(5),
            // A sixteenth of the outbox, so that an agent pauses before a client is closed.
            agent_hold_bytes: 512 << 10,
            // More than the context window of any model.
            agent_history_bytes: 32 << 20,
            // As base64 it still fits into one message.
            resource_bytes: 8 << 20,
            // Network file systems answer within it or not at all.
            resource_time: Duration::from_secs(30),
            // A client shows no longer list in a usable way.
            directory_entries: 10_000,
            // The smallest common limit of inotify watches per user on Linux.
            watched_directories: 8192,
            // Bounds the memory of one watch to some tens of megabytes.
            watched_entries: 200_000,
            // Users read commands before they allow them.
            mcp_trust_time: Duration::from_secs(120),
            // Tools of MCP servers may take minutes, and apps show their progress.
            mcp_request_time: Duration::from_secs(120),
            // The same as `message_bytes`.
            mcp_answer_bytes: 16 << 20,
            // Some hundred tool results with images.
            content_session_bytes: 64 << 20,
            // Small beside the disk of a development machine.
            content_total_bytes: 1 << 30,
            core: CoreConfig::default(),
        }
    }
}
