//! Effects on agents.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::{Attachment, ClientTool, Credential, PastTurn, PastTurns, Reply, Subagent, UnreadChat};
use crate::ids::{ChannelId, ClientId, ConnId, TurnKey};
use crate::mcp::AppTurn;

/// A command to an agent, or to the driver of one of its chats.
#[derive(Debug)]
pub enum AgentCommand {
    /// Open the back end of a chat; answer with `Input::ChatOpened`. A chat that already has one gets a new one,
    /// because its history changed.
    OpenChat(Box<OpenChat>),
    /// Close the back end of a chat that is gone.
    CloseChat {
        /// The chat.
        chat: ChannelId,
    },
    /// Run a turn. Its action is already in the queue of every subscriber (E-10).
    StartTurn {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
        /// The turn.
        start: Box<TurnStart>,
    },
    /// Stop a run whose end is already published.
    CancelTurn {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
    },
    /// Give a running agent the reply that it waits for.
    Reply {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
        /// The reply.
        reply: Box<Reply>,
    },
    /// A tool call's subagent has a chat and a run; its parent drives it.
    StartSubagent(Box<Subagent>),
    /// Let a client rewrite a system prompt, as this plan says.
    TransformPrompt {
        /// The render that asked.
        id: u64,
        /// The client, if any, and the sections that no client may rewrite.
        plan: Box<PromptPlan>,
    },
    /// Ask a session's agent which tools its model may call there, those of MCP servers included, and answer with
    /// `Input::ToolsListed`. Sent again when that may have changed.
    ListTools {
        /// The session.
        session: ChannelId,
        /// Its agent.
        provider: String,
    },
    /// Let a request of an MCP App join a turn that runs already, or refuse it.
    ResolveAppRequest {
        /// The request.
        request: String,
        /// The turn, or the reason for the refusal.
        outcome: AppTurn,
    },
}

/// What happens to a system prompt before its model gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptPlan {
    /// The sections that nobody may rewrite.
    pub restricted: Vec<String>,
    /// Who rewrites others, if anybody does.
    pub transformer: Option<Transformer>,
}

/// The client that rewrites sections of one system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transformer {
    /// The client.
    pub client: ClientId,
    /// The connection that it is asked through.
    pub conn: ConnId,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The sections that it gets, in the order of the prompt; at least one.
    pub sections: Vec<String>,
}

/// What an agent is asked to bring up.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenChat {
    /// The chat.
    pub chat: ChannelId,
    /// The agent to use.
    pub provider: String,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The chat's URI.
    pub chat_uri: Arc<str>,
    /// Where it works.
    pub working_directories: Vec<String>,
    /// The turns the chat already has.
    pub history: PastTurns,
    /// What a side chat is about: context for the model that its own history does not show
    /// (CHT-06).
    pub context: Vec<PastTurn>,
    /// The words a side chat was opened on.
    pub selection: Option<String>,
    /// What the session was set up with.
    pub settings: Map<String, Value>,
    /// What the agent asked to be told again.
    pub memory: Option<Arc<Value>>,
    /// What it may sign in with.
    pub credentials: Vec<Credential>,
    /// Whether somebody wants to know how far it is.
    pub wants_progress: bool,
    /// The session.
    pub session: ChannelId,
    /// The ids of the customizations that are switched off.
    pub switched_off: Arc<BTreeSet<String>>,
}

/// One turn to run.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnStart {
    /// The turn's id.
    pub turn_id: String,
    /// The user's text.
    pub text: String,
    /// What came with it.
    pub attachments: Vec<Attachment>,
    /// The chats among it whose turns have to be read first.
    pub unread_chats: Vec<UnreadChat>,
    /// Who asked, if it was a client: what only it can read, it is asked for.
    pub asked_by: Option<ClientId>,
    /// The model chosen for this message (TURN-15).
    pub model: Option<String>,
    /// What the model is set up with.
    pub model_settings: Map<String, Value>,
    /// The custom agent chosen for this message, by URI.
    pub agent: Option<String>,
    /// Whether an interrupted turn goes on (TURN-12).
    pub resume: bool,
    /// What there is of a turn that goes on, for an agent that was not there: the host may have
    /// been restarted in between.
    pub so_far: Option<PastTurn>,
    /// The ids of the calls it made before, which are taken (TOOL-21).
    pub calls_before: Vec<String>,
    /// How many turns this chat completed before.
    pub turns_before: usize,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The session's title.
    pub session_title: String,
    /// Where the chat works now.
    pub working_directories: Vec<String>,
    /// What the session is set up with now.
    pub settings: Map<String, Value>,
    /// The tools that clients of the session offer (ACT-04, ACT-05).
    pub client_tools: Vec<ClientTool>,
    /// What its agent may sign in with in this turn.
    pub credentials: Vec<Credential>,
    /// The session.
    pub session: ChannelId,
    /// The ids of the customizations that are switched off.
    pub switched_off: Arc<BTreeSet<String>>,
    /// The request of an app that it is for. Its agent does not run it.
    pub app_request: Option<String>,
}
