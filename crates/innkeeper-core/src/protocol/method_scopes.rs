//! The scope that each method needs. The core enforces this list, and the methods table of the host shows it.

use crate::chat::approval::ApprovalCommand;
use crate::clients::access::Scope;
use crate::core::ChannelCommand;
use crate::protocol::request::Command;
use crate::resources::GrantCommand;

/// The scope that a connection needs for each method and notification: of AHP, of MCP on the app channel, and of this
/// host.
pub const METHOD_SCOPES: &[(&str, Scope)] = {
    use Scope::{Admin, Drive, View};
    &[
        ("initialize", View),
        ("reconnect", View),
        ("ping", View),
        ("subscribe", View),
        ("unsubscribe", View),
        ("dispatchAction", Drive),
        ("listSessions", View),
        ("createSession", Drive),
        ("disposeSession", Drive),
        ("createChat", Drive),
        ("disposeChat", Drive),
        ("moveChat", Drive),
        ("fetchTurns", View),
        ("completions", View),
        ("resolveSessionConfig", View),
        ("sessionConfigCompletions", View),
        ("authenticate", Drive),
        ("createTerminal", Drive),
        ("disposeTerminal", Drive),
        ("invokeChangesetOperation", Drive),
        ("listAutomationTriggerDefinitions", View),
        ("runAutomation", Admin),
        ("fetchAutomationRuns", View),
        ("resourceRead", View),
        ("resourceWrite", Drive),
        ("resourceList", View),
        ("resourceCopy", Drive),
        ("resourceDelete", Drive),
        ("resourceMove", Drive),
        ("resourceResolve", View),
        ("resourceMkdir", Drive),
        ("resourceRequest", View),
        ("createResourceWatch", View),
        ("tools/list", View),
        ("tools/call", Drive),
        ("resources/list", View),
        ("resources/templates/list", View),
        ("resources/read", Drive),
        ("logging/setLevel", Drive),
        ("sampling/createMessage", Drive),
        ("notifications/message", Drive),
        ("innkeeper/importSession", Admin),
        ("innkeeper/listDeletedSessions", Drive),
        ("innkeeper/restoreSession", Drive),
        ("innkeeper/importContent", Admin),
        ("innkeeper/listResourceGrants", Admin),
        ("innkeeper/allowResource", Admin),
        ("innkeeper/revokeResource", Admin),
        ("innkeeper/listApprovals", Admin),
        ("innkeeper/allowApproval", Admin),
        ("innkeeper/revokeApproval", Admin),
    ]
};

/// Returns the scope that a method needs. A method that is not in the list is for admins only.
pub fn scope_of(method: &str) -> Scope {
    let row = METHOD_SCOPES.iter().find(|(name, _)| *name == method);
    row.map_or(Scope::Admin, |(_, scope)| *scope)
}

impl Command {
    /// Returns the name of the method on the wire.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Initialize(_) => "initialize",
            Self::Reconnect(_) => "reconnect",
            Self::Ping => "ping",
            Self::Subscribe(_) => "subscribe",
            Self::CreateSession(_) => "createSession",
            Self::DisposeSession { .. } => "disposeSession",
            Self::ListDeletedSessions => "innkeeper/listDeletedSessions",
            Self::RestoreSession { .. } => "innkeeper/restoreSession",
            Self::ImportSession { .. } => "innkeeper/importSession",
            Self::ListSessions(_) => "listSessions",
            Self::CreateChat(_) => "createChat",
            Self::DisposeChat { .. } => "disposeChat",
            Self::MoveChat(_) => "moveChat",
            Self::FetchTurns { .. } => "fetchTurns",
            Self::Completions(_) => "completions",
            Self::ResolveSessionConfig(_) => "resolveSessionConfig",
            Self::SessionConfigCompletions(_) => "sessionConfigCompletions",
            Self::Authenticate(_) => "authenticate",
            Self::Mcp(request) => request.method.name,
            Self::Resource(op) => op.method(),
            Self::RequestResource { .. } => "resourceRequest",
            Self::Part(command) => command.method(),
            Self::Grants(command) => match **command {
                GrantCommand::List => "innkeeper/listResourceGrants",
                GrantCommand::Allow(_) => "innkeeper/allowResource",
                GrantCommand::Revoke { .. } => "innkeeper/revokeResource",
            },
            Self::Approvals(command) => match **command {
                ApprovalCommand::List { .. } => "innkeeper/listApprovals",
                ApprovalCommand::Allow { .. } => "innkeeper/allowApproval",
                ApprovalCommand::Revoke { .. } => "innkeeper/revokeApproval",
            },
        }
    }
}
