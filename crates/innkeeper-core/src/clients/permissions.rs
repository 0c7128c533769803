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

    /// Refuses what would change something that cannot be kept (P14).
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

/// Whether a command changes what is kept.
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
        // Files are not kept by the host.
        Command::Resource(op) => matches!(**op, ResourceOp::Keep(_)),
        Command::Ping
        | Command::Initialize(_)
        | Command::Reconnect(_)
        | Command::Subscribe(_)
        | Command::ListSessions(_)
        | Command::ListDeletedSessions
        | Command::FetchTurns { .. }
        | Command::Completions(_)
        | Command::ResolveSessionConfig(_)
        // A request may find its grant in place.
        | Command::Mcp(_)
        | Command::RequestResource { .. }
        | Command::SessionConfigCompletions(_) => false,
    }
}

/// What people are told who want to change something that cannot be kept.
pub(crate) fn read_only_message(reason: &str) -> String {
    format!("the host can read but not write: {reason}; it tries again by itself, so try again when that is mended")
}
