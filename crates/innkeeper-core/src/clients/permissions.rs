//! The requests that a connection may make, by scope and by storage mode.

use crate::chat::approval::ApprovalCommand;
use crate::clients::access::Scope;
use crate::core::{ChannelCommand, Host};
use crate::protocol::error::{RpcError, code};
use crate::protocol::method_scopes::scope_of;
use crate::protocol::request::Command;
use crate::resources::{GrantCommand, ResourceOp};

impl Host {
    /// Refuses what a connection may not ask for, and what cannot be done now.
    pub(crate) fn check_allowed(&self, scope: Scope, command: &Command) -> Result<(), RpcError> {
        require(scope, command)?;
        self.check_writable(command)
    }

    /// Refuses commands whose changes cannot be persisted (P14).
    fn check_writable(&self, command: &Command) -> Result<(), RpcError> {
        match self.storage.mode().read_only_reason() {
            Some(reason) if changes_state(command) => {
                Err(RpcError::new(code::INTERNAL_ERROR, read_only_message(reason)))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Refuses what a connection's credential does not allow.
fn require(held: Scope, command: &Command) -> Result<(), RpcError> {
    let method = command.method();
    let needed = scope_of(method);
    if held >= needed {
        Ok(())
    } else {
        Err(RpcError::needs_scope(method, needed, held))
    }
}

/// Whether a command changes persisted state.
fn changes_state(command: &Command) -> bool {
    match command {
        Command::CreateSession(_)
        | Command::DisposeSession { .. }
        | Command::RestoreSession { .. }
        | Command::ImportSession { .. }
        | Command::CreateChat(_)
        | Command::DisposeChat { .. }
        | Command::MoveChat(_)
        | Command::Authenticate(_) => true,
        Command::Grants(command) => !matches!(**command, GrantCommand::List),
        Command::Approvals(command) => !matches!(**command, ApprovalCommand::List { .. }),
        Command::Part(command) => command.changes_state(),
        // The host does not persist files.
        Command::Resource(op) => matches!(**op, ResourceOp::ImportBlob(_)),
        Command::Ping
        | Command::Initialize(_)
        | Command::Reconnect(_)
        | Command::Subscribe(_)
        | Command::ListSessions(_)
        | Command::ListDeletedSessions
        | Command::FetchTurns { .. }
        | Command::Completions(_)
        | Command::ResolveSessionConfig(_)
        // A request may find its grant already given.
        | Command::Mcp(_)
        | Command::RequestResource { .. }
        | Command::SessionConfigCompletions(_) => false,
    }
}

/// The message for clients that try to change what cannot be persisted.
pub(crate) fn read_only_message(reason: &str) -> String {
    format!("the host can read but not write: {reason}; it retries automatically; try again when the problem is solved")
}
