//! Tool calls as agents see them.

use serde_json::{Map, Value};

use super::{Attachment, Secret};
use crate::ids::ClientId;

/// One step of a tool call, in the order they usually come.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolStep {
    /// The call begins; its input may still be streaming.
    Start(ToolStart),
    /// More of the input, as the model writes it.
    Input(String),
    /// A description of the call from the input streamed so far. Replaces the one before.
    Announce(Description),
    /// The input is complete: run at once, or ask first. Also asks again in mid-run.
    Ready(ToolReady),
    /// A judge's verdict on a call that waits for confirmation (TOOL-18).
    Risk(Risk),
    /// Output of the running call so far; replaces earlier output.
    Content(Vec<ToolContent>),
    /// An MCP server needs the user to sign in before it continues (TOOL-15).
    AuthRequired(AuthRequirement),
    /// The sign-in succeeded.
    AuthResolved,
    /// The call is over.
    Done {
        /// Its outcome.
        result: ToolResult,
        /// Whether the user reviews the result before the model gets it.
        review: bool,
    },
}

/// The beginning of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolStart {
    /// The tool's name, which rules for approvals use.
    pub name: String,
    /// A name for users.
    pub display_name: String,
    /// The agent's intention.
    pub intention: Option<String>,
    /// The tool's executor (TOOL-01).
    pub contributor: Contributor,
    /// Presentation kind, for clients that have one for it.
    pub kind: Option<ToolKind>,
    /// The display name of the MCP server that executes it, and the server's name of the tool.
    pub mcp: Option<McpName>,
    /// The server's description of its view, for clients that show MCP Apps (MCP-20).
    pub ui: Option<Map<String, Value>>,
    /// Further fields of the agent in `_meta`, each with a name that begins with `innkeeper.`.
    pub meta: Map<String, Value>,
}

/// Presentation kind of a tool's calls (`_meta.toolKind`).
///
/// A call that starts subagents has no kind here: the host marks it as `subagent` once the subagent's chat exists,
/// because a client that sees the mark earlier looks for a chat that does not exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// It runs a command of a shell, which stands in its input under `command`.
    Terminal,
    /// It reads something.
    Read,
    /// It searches.
    Search,
}

/// A tool of an MCP server: the server's display name and its name of the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpName {
    /// The server's display name.
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
}

/// A sentence for users about a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The sentence without links.
    pub text: String,
    /// The same in markdown with links; clients get it instead of `text`.
    pub markdown: Option<String>,
}

impl Description {
    /// A sentence in markdown, and the same without links.
    pub fn with_markdown(text: impl Into<String>, markdown: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            markdown: Some(markdown.into()),
        }
    }
}

impl From<String> for Description {
    fn from(text: String) -> Self {
        Self { text, markdown: None }
    }
}

impl From<&str> for Description {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<&String> for Description {
    fn from(text: &String) -> Self {
        Self::from(text.clone())
    }
}

/// Executor of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contributor {
    /// The agent or the host.
    Host,
    /// A client of the session; it alone completes the call (TOOL-11).
    Client(ClientId),
    /// An MCP server, by the id of its customization.
    Mcp(String),
}

/// A call whose input is complete.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReady {
    /// Description of the call, for users (TOOL-03).
    pub invocation: Description,
    /// The input, usually JSON text.
    pub input: Option<String>,
    /// Whether the user is asked.
    pub permission: Permission,
}

/// Whether the user is asked before a call runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Permission {
    /// It is harmless.
    NotNeeded,
    /// It is not, and the policy of the session decides whether they are asked.
    Ask(Box<Confirmation>),
    /// The user is asked even if an approval covers the call: a hook demands it.
    Insist(Box<Confirmation>),
    /// The user is not asked: a hook of the user allows it.
    Granted,
}

/// Text of a confirmation request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Confirmation {
    /// A question, as in "Run this command?".
    pub title: Option<String>,
    /// Whether they may change the input.
    pub editable: bool,
    /// Files the call would change.
    pub edits: Vec<FileChange>,
    /// Risk, as a judge rates it.
    pub risk: Option<Risk>,
    /// The subject that an approval for more than this call is remembered by.
    pub subject: ApprovalSubject,
    /// The ways to answer.
    pub offer: Offer,
}

/// The subject of a confirmation. An approval for more than this call is remembered as exactly this subject, and
/// covers nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ApprovalSubject {
    /// This tool with exactly this input. Calls of MCP servers and of clients are identified by their owner and their
    /// tool, with any input.
    #[default]
    Call,
    /// A command that a shell runs.
    Command {
        /// The whole line, as the shell gets it.
        line: String,
        /// Where it runs, if that is not the session's first working directory: the path from there,
        /// or in full, without links.
        directory: Option<String>,
    },
    /// A file.
    File {
        /// The kind of access.
        access: FileAccess,
        /// Its path from the session's first working directory, or in full, without links and dots.
        path: String,
        /// Whether a rule for a directory does not cover it: it holds secrets, or makes other programs
        /// run something.
        is_sensitive: bool,
    },
    /// A server on the network.
    Host {
        /// Scheme, host and port, as in `https://docs.rs`.
        origin: String,
    },
    /// A tool of an MCP server, for calls that one [contributes](Contributor::Mcp).
    McpTool {
        /// The display name of the server.
        server: String,
        /// The name of the tool at its server.
        tool: String,
    },
}

/// The kind of access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// It is read.
    Read,
    /// It is created, changed or removed.
    Change,
}

/// The ways to answer a confirmation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Offer {
    /// Allow once, allow the [subject](ApprovalSubject) in this session or always in this workspace,
    /// or deny; the host remembers.
    #[default]
    Standard,
    /// The agent's own choices; the host remembers nothing.
    Own(Vec<ConfirmOption>),
}

/// One choice of a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmOption {
    /// Comes back in [`Decision::choice`].
    pub id: String,
    /// The label that users see.
    pub label: String,
    /// Whether choosing it lets the call run.
    pub approves: bool,
    /// Choices of one group stand together.
    pub group: Option<u32>,
}

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file before, if it existed.
    pub before: Option<FileSide>,
    /// The file after, if it still exists.
    pub after: Option<FileSide>,
    /// Lines added.
    pub added: u32,
    /// Lines removed.
    pub removed: u32,
}

/// A file on one side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSide {
    /// The file's URI.
    pub uri: String,
    /// The URI of the content before or after the change. The host stores the content of a `data:` URI and gives it a
    /// URI of its own, whose path is that of the file.
    pub content: String,
    /// Size of the content in bytes, if known.
    pub size: Option<u64>,
    /// The media type of the content, if that is known.
    pub content_type: Option<String>,
}

impl FileSide {
    /// A file, and where its content on this side can be read.
    pub fn new(uri: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            content: content.into(),
            size: None,
            content_type: None,
        }
    }
}

/// A judge's view of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Risk {
    /// The judge is thinking.
    Assessing,
    /// The verdict.
    Assessed {
        /// Why.
        reason: String,
        /// From 0, dangerous, to 1, safe.
        safety: f64,
    },
}

/// A piece of a call's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolContent {
    /// Text.
    Text(String),
    /// Inline bytes, in base64.
    Embedded {
        /// The bytes.
        data: String,
        /// Their media type.
        content_type: String,
    },
    /// Something that can be read elsewhere.
    Resource {
        /// Where.
        uri: String,
        /// Its media type.
        content_type: Option<String>,
        /// Size in bytes.
        size: Option<u64>,
        /// The text that the model gets for it, if the URI means nothing to the model. Clients do not get it.
        mention: Option<String>,
    },
    /// A changed file.
    FileEdit(FileChange),
    /// A terminal (TOOL-16).
    Terminal {
        /// The terminal's URI.
        uri: String,
        /// Its title.
        title: String,
        /// Whether it is a pseudo-terminal.
        is_pty: bool,
        /// Outcome of its command, once it has ended (TOOL-17).
        exit_code: Option<i64>,
        /// The last lines of its output, once it has ended.
        preview: Option<String>,
    },
    /// A subagent's chat (CHT-12).
    Subagent {
        /// The chat's URI.
        chat: String,
        /// Its title.
        title: String,
        /// The name of the subagent's kind.
        agent_name: Option<String>,
        /// A sentence about it.
        description: Option<String>,
    },
}

/// Outcome of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolResult {
    /// Whether it worked.
    pub success: bool,
    /// Description of the outcome for users, in the past tense.
    pub summary: String,
    /// The same in markdown with links; clients get it instead of `summary`.
    pub summary_markdown: Option<String>,
    /// Output.
    pub content: Vec<ToolContent>,
    /// The same as data.
    pub structured: Option<Map<String, Value>>,
    /// Error text for the model.
    pub error: Option<String>,
}

impl ToolResult {
    /// A success with one piece of text.
    pub fn text(summary: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            success: true,
            summary: summary.into(),
            content: vec![ToolContent::Text(text.into())],
            ..Self::default()
        }
    }

    /// A failure.
    pub fn failed(summary: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            success: false,
            summary: summary.into(),
            error: Some(error.into()),
            ..Self::default()
        }
    }
}

/// Resource that an MCP server wants a token for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthRequirement {
    /// Why.
    pub reason: AuthReason,
    /// The protected resource, as `authenticate` names it.
    pub resource: String,
    /// A name for users.
    pub resource_name: Option<String>,
    /// Authorization servers that issue tokens for it.
    pub authorization_servers: Vec<String>,
    /// The scopes the call needs.
    pub scopes: Vec<String>,
    /// The reason, for users.
    pub description: Option<String>,
    /// The OAuth client that the user registered for it; its secret is never shown (MCP-21).
    pub oauth_client_id: Option<String>,
    /// Everything that is published about the resource, with the names of RFC 9728, if more is known
    /// than stands above (MCP-08).
    pub metadata: Option<Value>,
}

/// Why the user has to sign in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuthReason {
    /// No user has signed in.
    #[default]
    Required,
    /// The token is no longer good.
    Expired,
    /// The token does not allow this.
    InsufficientScope,
}

/// Reply to a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolReply {
    /// The call needs no confirmation and is persisted as running, so its work may begin. After a crash the host
    /// knows that it was begun (P4).
    Started,
    /// A user or the policy decided whether it may run.
    Decided(Decision),
    /// The client that executes it has finished, or is gone.
    Completed(ToolResult),
    /// A user reviewed the result and released it for the model, or not.
    Reviewed {
        /// Whether the model may have it.
        approved: bool,
    },
    /// A user signed in; the token is for this call's resource.
    Authenticated {
        /// The token. Never shown, persisted or logged (AUTH-12).
        token: Secret,
    },
    /// A user declined to sign in, which ended the call.
    AuthRefused,
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may.
    pub approved: bool,
    /// The input to run with, if the user changed it.
    pub edited_input: Option<String>,
    /// The choice they made, by id.
    pub choice: Option<String>,
    /// The user's remark for the model: why they decided so, and what to do instead.
    pub remark: Option<String>,
    /// Attachments of the remark.
    pub attachments: Vec<Attachment>,
    /// Whether they skipped the call: they let it pass without a judgement about it.
    pub is_skipped: bool,
    /// The client that decided; `None` when the policy did.
    pub by: Option<ClientId>,
}

impl Decision {
    /// A decision of the host.
    pub fn by_host(approved: bool) -> Self {
        Self {
            approved,
            edited_input: None,
            choice: None,
            remark: None,
            attachments: Vec::new(),
            is_skipped: false,
            by: None,
        }
    }

    /// The text that a model reads of a call that this decision denies. Attachments come in addition.
    pub fn refusal(&self) -> String {
        let remark = self.remark.as_deref().filter(|remark| !remark.trim().is_empty());
        match (self.is_skipped, remark) {
            // No user was asked: a hook denied it.
            (_, Some(remark)) if self.by.is_none() => format!("this call was refused and did not run: {remark}"),
            (true, Some(remark)) => format!("the user skipped this call, so it did not run, and said: {remark}"),
            (true, None) => "the user skipped this call, so it did not run; continue without it".to_owned(),
            (false, Some(remark)) => format!("the user denied this call and said: {remark}"),
            (false, None) => {
                "the user denied this call and gave no reason; do not try the same again, ask or find another way"
                    .to_owned()
            }
        }
    }
}

/// A tool that a client of the session offers.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientTool {
    /// The name for the model, unique among all tools (ACT-04).
    pub name: String,
    /// The client that executes it.
    pub client: ClientId,
    /// The name the client knows it by.
    pub client_name: String,
    /// A title for users.
    pub title: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// The JSON Schema of its input.
    pub input_schema: Option<Value>,
}
