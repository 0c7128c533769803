//! Configuration of the core.

use crate::log::replay::ReplayLimits;
use crate::resources::{BrowsePolicy, RequestPolicy, ResourceRoot};

/// Settings and bounds of a core. The defaults are the documented limits of the product.
#[derive(Debug, Clone)]
pub struct CoreConfig {
    /// `serverInfo.name` (NEG-16).
    pub server_name: String,
    /// `serverInfo.version`.
    pub server_version: Option<String>,
    /// Intentional buffering for subscriptions that do not ask for a bound (SUB-10).
    pub default_latency_ms: u32,
    /// How long a client that lost its last connection keeps its active-client slots (ACT-10).
    pub grace_ms: u64,
    /// How long summary changes are collected before they are announced (ROOT-13).
    pub summary_debounce_ms: u64,
    /// Maximum subscriptions per connection (SUB-20).
    pub max_subscriptions: usize,
    /// Longest text of a message or draft.
    pub max_message_bytes: usize,
    /// Longest title.
    pub max_title_bytes: usize,
    /// Maximum attachments of one message.
    pub max_attachments: usize,
    /// Maximum queued messages of one chat.
    pub max_queued_messages: usize,
    /// Maximum response parts of one turn.
    pub max_parts_per_turn: usize,
    /// Maximum bytes of text in the parts of one turn. The published client reads no message beyond
    /// 64 MiB, so a chat with a longer turn could never be opened again.
    pub max_turn_bytes: usize,
    /// Maximum sessions on the host.
    pub max_sessions: usize,
    /// How many clients without a connection are remembered, so that `reconnect` knows their
    /// version (NEG-20).
    pub max_absent_clients: usize,
    /// How long the deletion of a session can be undone, where there is a store that can do that; 0 means that a
    /// session is removed at once.
    pub undo_delete_ms: u64,
    /// Maximum chats of one session, subagents included (CHT-13).
    pub max_chats: usize,
    /// How many subagents may stand between a subagent and the chat that started it all (CHT-13).
    pub max_subagent_depth: usize,
    /// Maximum tools one client may offer in a session.
    pub max_client_tools: usize,
    /// Maximum bytes of an active client's entry.
    pub max_active_client_bytes: usize,
    /// Maximum sections of a system prompt that one client may want to rewrite (SMT-15).
    pub max_transform_sections: usize,
    /// The sections that no client may rewrite, instead of those that the agents restrict; `None` leaves it to the
    /// agents (SMT-12).
    pub restricted_sections: Option<Vec<String>>,
    /// Completed turns on one page of `fetchTurns`.
    pub turns_per_page: usize,
    /// Maximum bytes of the snapshots in one answer, not counting the last completed turn and everything except
    /// completed turns; 0 means no bound. The published client reads no message beyond 64 MiB, so without a bound it
    /// could not open a long chat at all. Older turns are fetched in pages.
    pub max_snapshot_bytes: usize,
    /// Silence of an agent after which its chat shows a notice; 0 means never.
    pub silence_notice_ms: u64,
    /// Silence of an agent after which its turn is ended; 0 means never.
    pub silence_limit_ms: u64,
    /// How many of a chat's latest turns stay in memory, if there is a store.
    pub history_turns: usize,
    /// How long an unused session stays in memory, if there is a store; 0 means forever.
    pub idle_session_ms: u64,
    /// Whether the host has a service for resources; without one, their methods are unknown.
    pub serves_resources: bool,
    /// Whether the host has a service that discovers customizations; without one, sessions have none.
    pub serves_customizations: bool,
    /// Whether the host has a service for Git repositories; without one, sessions show nothing about theirs.
    pub serves_repositories: bool,
    /// Whether the host has a service that computes changes of files; without one, there are no changesets.
    pub serves_changes: bool,
    /// Whether the host has a service that runs MCP servers; without one, none of them ever starts.
    pub serves_mcp: bool,
    /// Whether the host has a service that runs terminals; without one, their methods are unknown.
    pub serves_terminals: bool,
    /// Whether the host asks agents which tools they offer in a session; otherwise the tools of their profile count
    /// as offered in every session.
    pub lists_tools: bool,
    /// Whether the MCP service persists tokens; otherwise a token ends with the client that gave it.
    pub persists_mcp_tokens: bool,
    /// How long turns wait for MCP servers that start; 0 means not at all (MCP-03).
    pub mcp_blocking_ms: u64,
    /// Whether the host passes its log to the core; otherwise no client is offered the log (OTL-01).
    pub serves_logs: bool,
    /// Maximum MCP servers of one session that run.
    pub max_mcp_servers: usize,
    /// Maximum plugins, directories and servers that one session shows.
    pub max_customizations: usize,
    /// Maximum skills, agents and the like that they show together.
    pub max_customization_children: usize,
    /// Maximum bytes of all of them. They are published in one message, and are part of every snapshot of the session.
    pub max_customization_bytes: usize,
    /// Roots that every client may access.
    pub resource_roots: Vec<ResourceRoot>,
    /// How requests of clients for further access are decided.
    pub resource_requests: RequestPolicy,
    /// Which clients may browse the directories of this machine without a grant.
    pub resource_browsing: BrowsePolicy,
    /// The URI of the directory in which a client's folder picker starts.
    pub default_directory: Option<String>,
    /// How long a grant lasts.
    pub resource_grant_ms: u64,
    /// Maximum watches of one client.
    pub max_watches: usize,
    /// How long a watch waits for its first subscriber (WCH-07).
    pub watch_lease_ms: u64,
    /// The replay window.
    pub replay: ReplayLimits,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            server_name: "innkeeper".to_owned(),
            server_version: None,
            // One frame of a display at 120 Hz: no user sees it, and bursts of deltas merge.
            default_latency_ms: 8,
            // A client that reloads or changes its network is back within it.
            grace_ms: 30_000,
            // Lists need not follow each delta of a turn.
            summary_debounce_ms: 100,
            // A client shows far fewer sessions and chats at a time.
            max_subscriptions: 1024,
            // Longer texts are attachments.
            max_message_bytes: 1 << 20,
            // Lists show one line.
            max_title_bytes: 4096,
            // A model gets all of them in one request.
            max_attachments: 64,
            // Bounds the state of a chat that every subscriber gets.
            max_queued_messages: 64,
            // A snapshot has all parts of a turn, and reducers search them one by one.
            max_parts_per_turn: 10_000,
            // Half of the longest message that the published client reads, 64 MiB.
            max_turn_bytes: 32 << 20,
            // Each has a row in memory for lists; the benchmark `stored` measures this count.
            max_sessions: 100_000,
            // Some hundred bytes each; the oldest has to initialize again.
            max_absent_clients: 1000,
            undo_delete_ms: 0,
            // A session is one snapshot with the summaries of all its chats.
            max_chats: 1024,
            // Agents were seen to start subagents without end.
            max_subagent_depth: 8,
            // Models take fewer tools than that in one request.
            max_client_tools: 512,
            // The tools and customizations of a client are part of every snapshot of the session.
            max_active_client_bytes: 4 << 20,
            // Prompts of agents have about ten sections.
            max_transform_sections: 64,
            restricted_sections: None,
            // Some screens of a chat.
            turns_per_page: 50,
            // Three quarters of the longest message that the published client reads.
            max_snapshot_bytes: 48 << 20,
            // Users wonder after a minute.
            silence_notice_ms: 60_000,
            // Long builds and downloads end within it.
            silence_limit_ms: 30 * 60_000,
            // Most snapshots and truncations need no read of the store.
            history_turns: 64,
            // Switching between sessions stays free of loads.
            idle_session_ms: 10 * 60_000,
            serves_resources: false,
            serves_customizations: false,
            serves_repositories: false,
            serves_changes: false,
            serves_mcp: false,
            serves_terminals: false,
            lists_tools: false,
            persists_mcp_tokens: false,
            // Most servers start within it, and a user waits no longer for a first token.
            mcp_blocking_ms: 10_000,
            serves_logs: false,
            // Each is a process or a connection.
            max_mcp_servers: 128,
            // All of them are in every snapshot of the session.
            max_customizations: 4096,
            // Eight for each container.
            max_customization_children: 32_768,
            // An eighth of the longest message that the published client reads.
            max_customization_bytes: 8 << 20,
            resource_roots: Vec::new(),
            resource_requests: RequestPolicy::default(),
            resource_browsing: BrowsePolicy::default(),
            default_directory: None,
            // A working day.
            resource_grant_ms: 24 * 60 * 60_000,
            // Each may watch thousands of directories.
            max_watches: 64,
            // A client subscribes in the next request.
            watch_lease_ms: 30_000,
            replay: ReplayLimits::default(),
        }
    }
}
