//! The parts that a host consists of.

use crate::agent::AgentProfile;
use crate::agent::registry::AgentRegistry;
use crate::chat::approval::Approvals;
use crate::chat::chats::Chats;
use crate::clients::agent_tokens::Tokens;
use crate::clients::channels::Channels;
use crate::clients::{Clients, Connections};
use crate::config::CoreConfig;
use crate::core::{ChannelParts, ROOT, Timers};
use crate::customization::SharedEnablement;
use crate::ids::Seq;
use crate::log::{Log, Touched};
use crate::mcp::Mcp;
use crate::protocol::action_table::ChannelKind;
use crate::protocol::uri;
use crate::resources::Grants;
use crate::session::configure;
use crate::session::root::Root;
use crate::session::sessions::Sessions;
use crate::storage::Storage;
use crate::telemetry::Telemetry;
use crate::time::Now;

/// The parts of one host. Each part has private fields and maintains its own invariants. Handlers that combine several
/// parts are methods of `Host`, in the folder of their subject.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) config: CoreConfig,
    /// Numbers and the replay window.
    pub(crate) log: Log,
    /// Notes about the input being handled.
    pub(crate) touched: Touched,
    /// Deadlines.
    pub(crate) timers: Timers,
    /// The channels that exist, and their subscribers.
    pub(crate) channels: Channels,
    /// The connections that are open.
    pub(crate) conns: Connections,
    /// The clients that are connected or remembered.
    pub(crate) clients: Clients,
    /// The state of the root channel.
    pub(crate) root: Root,
    /// The sessions in memory.
    pub(crate) sessions: Sessions,
    /// The chats in memory.
    pub(crate) chats: Chats,
    /// The store, and the changes that are not persisted yet.
    pub(crate) storage: Storage,
    /// The agents.
    pub(crate) agents: AgentRegistry,
    /// Approvals that outlive sessions.
    pub(crate) approvals: Approvals,
    /// Enablement decisions that outlive sessions.
    pub(crate) enablement: SharedEnablement,
    /// MCP servers.
    pub(crate) mcp: Mcp,
    /// Access of clients to resources outside of their sessions.
    pub(crate) grants: Grants,
    /// The parts that own the channels of the other kinds.
    pub(crate) parts: ChannelParts,
    /// Tokens that clients signed in with; never persisted, never shown (AUTH-12).
    pub(crate) tokens: Tokens,
    /// Subscribers of the host's log.
    pub(crate) telemetry: Telemetry,
    pub(crate) shutting_down: bool,
    /// The time of the first input. From then on the monotonic clock tells how far the wall clock was set forward or
    /// back.
    pub(crate) began: Option<Now>,
}

impl Host {
    /// A host without sessions that continues after `last_seq`.
    pub(crate) fn new(config: CoreConfig, agents: Vec<AgentProfile>, last_seq: Seq) -> Self {
        let mut channels = Channels::default();
        let root_channel = channels.create(uri::ROOT, ChannelKind::Root, last_seq);
        debug_assert_eq!(root_channel, ROOT, "the root is the first channel");
        let mut log = Log::new(config.replay, last_seq);
        log.open_channel_at(ROOT, last_seq);
        let infos = agents.iter().map(|agent| agent.info.clone()).collect();
        let root = Root::new(infos, configure::host_settings(&config).into());
        let agents = AgentRegistry::new(agents, config.restricted_sections.as_deref());
        Self {
            config,
            log,
            touched: Touched::default(),
            storage: Storage::default(),
            channels,
            root,
            agents,
            approvals: Approvals::default(),
            grants: Grants::default(),
            parts: ChannelParts::default(),
            enablement: SharedEnablement::default(),
            sessions: Sessions::default(),
            // No run of the host repeats a key, because every turn takes at least one number (TOOL-21).
            chats: Chats::new(last_seq.0),
            clients: Clients::default(),
            tokens: Tokens::default(),
            // Numbered like turns, so that no run of the host repeats a channel.
            mcp: Mcp::new(last_seq.0),
            telemetry: Telemetry::default(),
            conns: Connections::default(),
            timers: Timers::default(),
            shutting_down: false,
            began: None,
        }
    }
}
