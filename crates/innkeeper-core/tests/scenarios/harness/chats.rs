//! Steps for scenarios of chats, subagents and history.

use ahp_types::state::{AgentCapabilities, MultipleChatsCapability, MultipleWorkingDirectoriesCapability};
use innkeeper_core::agent::{
    ApprovalSubject, Confirmation, Contributor, Offer, Permission, Spawn, ToolReady, ToolStart, ToolStep,
};
use innkeeper_core::request::{CreateChat, MoveChat, MoveDestination, Subscribe, TurnsPage};
use innkeeper_core::{
    AgentCommand, AgentEvent, AgentProfile, ChannelId, Command, ConnId, CoreConfig, Effect, Seq, Subagent, TurnEnd,
    TurnKey,
};
use serde_json::Value;

use super::{Stage, agent};

impl Stage {
    /// A host whose agents can do everything with chats.
    pub fn able(config: CoreConfig) -> Self {
        Self::with_agents(config, vec![able("tour"), able("other")], Seq(1))
    }

    /// Subscribes to the latest turns of a chat.
    pub fn subscribe_to_latest(&mut self, conn: ConnId, channel: &str, turns: usize) -> Value {
        self.request(
            conn,
            Command::Subscribe(Box::new(Subscribe {
                channel: channel.to_owned(),
                max_latency_ms: None,
                turns: Some(turns),
            })),
        )
    }

    pub fn fetch_turns(&mut self, conn: ConnId, channel: &str, cursor: Option<&str>) -> Value {
        let channel = channel.to_owned();
        let cursor = cursor.map(str::to_owned);
        self.request(
            conn,
            Command::FetchTurns {
                channel,
                page: TurnsPage::At(cursor),
            },
        )
    }

    pub fn create_chat(&mut self, conn: ConnId, create: CreateChat) -> Value {
        self.request(conn, Command::CreateChat(Box::new(create)))
    }

    pub fn dispose_chat(&mut self, conn: ConnId, channel: &str) -> Value {
        let channel = channel.to_owned();
        self.request(conn, Command::DisposeChat { channel })
    }

    pub fn move_chat(&mut self, conn: ConnId, channel: &str, destination: MoveDestination) -> Value {
        let channel = channel.to_owned();
        self.request(conn, Command::MoveChat(Box::new(MoveChat { channel, destination })))
    }

    /// A whole turn.
    pub fn turn(&mut self, conn: ConnId, chat: &str, turn: &str, reply: &str) {
        self.start_turn(conn, chat, turn);
        self.says(AgentEvent::Text(reply.to_owned()));
        self.ends(TurnEnd::Complete);
    }

    /// A tool call of a run that is being executed.
    pub fn runs_tool(&mut self, run: (ChannelId, TurnKey), call: &str) {
        for step in [
            ToolStep::Start(tool_start()),
            ToolStep::Ready(ToolReady {
                invocation: "Delegating".into(),
                input: Some("{}".to_owned()),
                permission: Permission::NotNeeded,
            }),
        ] {
            let step = Box::new(step);
            let call = call.to_owned();
            self.says_in(run, AgentEvent::Tool { call, step });
        }
    }

    /// A tool call of a run that asks the user first.
    pub fn asks_permission(&mut self, run: (ChannelId, TurnKey), call: &str) {
        let confirmation = Confirmation {
            title: None,
            editable: false,
            edits: Vec::new(),
            risk: None,
            subject: ApprovalSubject::Call,
            offer: Offer::Standard,
        };
        for step in [
            ToolStep::Start(tool_start()),
            ToolStep::Ready(ToolReady {
                invocation: "Deleting".into(),
                input: Some("{}".to_owned()),
                permission: Permission::Ask(Box::new(confirmation)),
            }),
        ] {
            let step = Box::new(step);
            let call = call.to_owned();
            self.says_in(run, AgentEvent::Tool { call, step });
        }
    }

    /// Lets a running tool call start a subagent; returns it if it started.
    pub fn spawns(&mut self, run: (ChannelId, TurnKey), call: &str, detached: bool) -> Option<Subagent> {
        let before = self.subagents().len();
        let spawn = Spawn {
            call: call.to_owned(),
            title: format!("Work of {call}"),
            prompt: "Look around".to_owned(),
            agent_name: Some("explorer".to_owned()),
            description: None,
            detached,
        };
        self.says_in(run, AgentEvent::Spawn(Box::new(spawn)));
        self.subagents().get(before).cloned()
    }

    fn subagents(&self) -> Vec<Subagent> {
        let subagents = self.agent.iter().filter_map(|effect| match effect {
            Effect::Agent(AgentCommand::StartSubagent(subagent)) => Some(Subagent::clone(subagent)),
            _ => None,
        });
        subagents.collect()
    }

    /// The runs that were stopped, oldest first.
    pub fn cancelled(&self) -> Vec<(ChannelId, TurnKey)> {
        let cancelled = self.agent.iter().filter_map(|effect| match effect {
            Effect::Agent(AgentCommand::CancelTurn { chat, turn }) => Some((*chat, *turn)),
            _ => None,
        });
        cancelled.collect()
    }

    /// The latest request to open a chat.
    pub fn last_opened(&self) -> &innkeeper_core::OpenChat {
        let open = self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Agent(AgentCommand::OpenChat(open)) => Some(open),
            _ => None,
        });
        open.expect("a chat was opened")
    }

    /// The URIs of a session's chats, in order.
    pub fn catalogue(&self, session: &str) -> Vec<String> {
        let state = self.state(session);
        let chats = state["chats"].as_array().expect("a catalogue");
        let uris = chats.iter().map(|chat| chat["resource"].as_str().unwrap_or_default());
        uris.map(str::to_owned).collect()
    }
}

pub fn new_chat(session: &str, chat: &str) -> CreateChat {
    CreateChat {
        choices: Vec::new(),
        channel: session.to_owned(),
        chat: chat.to_owned(),
        initial_message: None,
        source: None,
        working_directories: None,
    }
}

pub fn tool_start() -> ToolStart {
    ToolStart {
        name: "task".to_owned(),
        display_name: "Task".to_owned(),
        intention: None,
        contributor: Contributor::Host,
        kind: None,
        mcp: None,
        ui: None,
        meta: serde_json::Map::new(),
    }
}

/// An agent that can do everything with chats.
pub fn able(provider: &str) -> AgentProfile {
    let mut info = agent(provider);
    info.capabilities = Some(AgentCapabilities {
        multiple_chats: Some(MultipleChatsCapability {
            fork: Some(true),
            side_chat: Some(true),
        }),
        multiple_working_directories: Some(MultipleWorkingDirectoriesCapability {
            immutable_primary: None,
            primary_replacement: None,
        }),
    });
    AgentProfile {
        restores_history: true,
        ..info.into()
    }
}
