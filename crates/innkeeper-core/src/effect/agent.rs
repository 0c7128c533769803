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

/// The changes to a system prompt before its model gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptPlan {
    /// The sections that no client may rewrite.
    pub restricted: Vec<String>,
    /// The client that rewrites other sections, if there is one.
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

/// A chat to open.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenChat {
    /// The chat.
    pub chat: ChannelId,
    /// The session.
    pub session: ChannelId,
    /// The agent to use.
    pub provider: String,
    /// The chat as its agent sees it.
    pub info: ChatInfo,
    /// The turns the chat already has.
    pub history: PastTurns,
    /// The tokens that the agent may use.
    pub credentials: Vec<Credential>,
    /// Whether a client wants reports about the progress.
    pub wants_progress: bool,
    /// The ids of the customizations that are switched off.
    pub disabled_ids: Arc<BTreeSet<String>>,
}

/// A chat as its agent sees it when it opens.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatInfo {
    /// The session's URI.
    pub session: Arc<str>,
    /// The chat's URI.
    pub chat: Arc<str>,
    /// The working directories of the chat, as URIs.
    pub working_directories: Vec<String>,
    /// The turns that a side chat is about: context for the model that the chat's own history does not show (CHT-06).
    pub context: Vec<PastTurn>,
    /// The selected text that a side chat was opened on.
    pub selection: Option<String>,
    /// The settings of the session.
    pub settings: Map<String, Value>,
    /// The value that the agent last asked the host to remember.
    pub memory: Option<Arc<Value>>,
}

/// A turn to run.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnStart {
    /// The session.
    pub session: ChannelId,
    /// The turn as its agent sees it.
    pub info: TurnInfo,
    /// The attached chats whose turns have to be read first.
    pub unread_chats: Vec<UnreadChat>,
    /// The client that started the turn, if any: it is asked for the attachments that only it can read.
    pub asked_by: Option<ClientId>,
    /// The ids of the tool calls that the turn made before it was interrupted; they are taken (TOOL-21).
    pub calls_before: Vec<String>,
    /// The tokens that the agent may use in this turn.
    pub credentials: Vec<Credential>,
    /// The ids of the customizations that are switched off.
    pub disabled_ids: Arc<BTreeSet<String>>,
    /// The request of an MCP App that the turn is for. Its agent does not run it.
    pub app_request: Option<String>,
}

/// A turn as its agent sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnInfo {
    /// The turn's id.
    pub turn_id: String,
    /// The user's text.
    pub text: String,
    /// The attachments of the message.
    pub attachments: Vec<Attachment>,
    /// The model chosen for this message (TURN-15).
    pub model: Option<String>,
    /// The settings of the model.
    pub model_settings: Map<String, Value>,
    /// The custom agent chosen for this message, by URI.
    pub agent: Option<String>,
    /// Whether an interrupted turn is resumed (TURN-12).
    pub resume: bool,
    /// The content of a resumed turn so far. An agent that ran it until it was interrupted knows as much; one that was
    /// opened since, after a restart of the host for instance, does not.
    pub so_far: Option<PastTurn>,
    /// How many turns this chat completed before.
    pub turns_before: usize,
    /// The session's URI.
    pub session: Arc<str>,
    /// The session's title.
    pub session_title: String,
    /// The working directories of the chat now, as URIs.
    pub working_directories: Vec<String>,
    /// The settings of the session now.
    pub settings: Map<String, Value>,
    /// The tools that clients of the session offer, each name once (ACT-04, ACT-05).
    pub client_tools: Vec<ClientTool>,
}
