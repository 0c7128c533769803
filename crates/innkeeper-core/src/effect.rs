//! Effects: everything the core wants done. The shell performs them in order.
//!
//! Effects are grouped by the part of the shell that performs them, one enum per part. So a part matches its own enum
//! exhaustively, and a shell that has no such part ignores the group in one arm.

mod agent;
mod deliver;
mod journal;
mod services;

pub use agent::{AgentCommand, ChatInfo, OpenChat, PromptPlan, Transformer, TurnInfo, TurnStart};
pub use deliver::{CloseReason, Delivery, Publication, Subscriber};
pub use journal::JournalCommand;
pub use services::{
    BlobCommand, ChangesCommand, ChatsMoved, CompletionQuery, CompletionRequest, CustomizationCommand, McpCommand,
    MessageWriter, MovedChat, RepositoryCommand, ResourceCommand, SessionErasure,
};

use crate::ids::ConnId;
use crate::protocol::request::RequestId;
use crate::storage::records::Record;
use crate::terminal::PtyCommand;

/// One consequence of an input.
#[derive(Debug)]
pub enum Effect {
    /// Persist an accepted action, then publish it.
    Publish(Publication),
    /// Persist a record that is not an action.
    Persist(Box<Record>),
    /// For the connections of clients.
    Deliver(Delivery),
    /// For the journal.
    Journal(JournalCommand),
    /// For the agents, which run one back end per chat.
    Agent(AgentCommand),
    /// For the blobs that are stored beside sessions.
    Blobs(BlobCommand),
    /// For the completions of messages and settings.
    Completions(CompletionRequest),
    /// For the service that discovers customizations.
    Customizations(CustomizationCommand),
    /// For the service that runs MCP servers.
    Mcp(McpCommand),
    /// For the service that computes changes of files.
    Changes(ChangesCommand),
    /// For the service that observes Git repositories.
    Repositories(RepositoryCommand),
    /// For the service that reads, writes and watches files.
    Resources(ResourceCommand),
    /// For the service that runs terminals.
    Terminals(PtyCommand),
    /// For all services that store something beside sessions.
    Erase(SessionErasure),
}

impl Effect {
    /// Returns the request that is answered when this effect is performed, if any. A request that the core answers
    /// itself is answered with [`Delivery::Send`].
    pub fn request(&self) -> Option<(ConnId, &RequestId)> {
        match self {
            Self::Journal(command) => command.request(),
            Self::Completions(CompletionRequest { conn, id, .. }) => Some((*conn, id)),
            Self::Changes(command) => command.request(),
            Self::Mcp(command) => command.request(),
            Self::Resources(command) => command.request(),
            Self::Terminals(command) => command.request(),
            Self::Publish(_)
            | Self::Persist(_)
            | Self::Deliver(_)
            | Self::Agent(_)
            | Self::Blobs(_)
            | Self::Customizations(_)
            | Self::Repositories(_)
            | Self::Erase(_) => None,
        }
    }
}

impl From<Publication> for Effect {
    fn from(publication: Publication) -> Self {
        Self::Publish(publication)
    }
}

impl From<Record> for Effect {
    fn from(record: Record) -> Self {
        Self::Persist(Box::new(record))
    }
}

impl From<Delivery> for Effect {
    fn from(delivery: Delivery) -> Self {
        Self::Deliver(delivery)
    }
}

impl From<JournalCommand> for Effect {
    fn from(command: JournalCommand) -> Self {
        Self::Journal(command)
    }
}

impl From<AgentCommand> for Effect {
    fn from(command: AgentCommand) -> Self {
        Self::Agent(command)
    }
}

impl From<BlobCommand> for Effect {
    fn from(command: BlobCommand) -> Self {
        Self::Blobs(command)
    }
}

impl From<CompletionRequest> for Effect {
    fn from(request: CompletionRequest) -> Self {
        Self::Completions(request)
    }
}

impl From<CustomizationCommand> for Effect {
    fn from(command: CustomizationCommand) -> Self {
        Self::Customizations(command)
    }
}

impl From<McpCommand> for Effect {
    fn from(command: McpCommand) -> Self {
        Self::Mcp(command)
    }
}

impl From<ChangesCommand> for Effect {
    fn from(command: ChangesCommand) -> Self {
        Self::Changes(command)
    }
}

impl From<RepositoryCommand> for Effect {
    fn from(command: RepositoryCommand) -> Self {
        Self::Repositories(command)
    }
}

impl From<ResourceCommand> for Effect {
    fn from(command: ResourceCommand) -> Self {
        Self::Resources(command)
    }
}

impl From<PtyCommand> for Effect {
    fn from(command: PtyCommand) -> Self {
        Self::Terminals(command)
    }
}

impl From<SessionErasure> for Effect {
    fn from(erasure: SessionErasure) -> Self {
        Self::Erase(erasure)
    }
}
