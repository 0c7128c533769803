//! Converts between agents' types for tool calls and AHP's.

use ahp_types::actions::ChatToolCallReadyAction;
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    ConfirmationOption, ConfirmationOptionKind, ContentRef, FileEdit, FileEditCollection, FileEditDiffStats,
    FileEditSide, McpAuthRequiredReason, McpAuthRequirement, McpOAuthClient, ProtectedResourceMetadata, ResponsePart,
    TerminalCommandResult, ToolCallClientContributor, ToolCallContributor, ToolCallMcpContributor,
    ToolCallPendingResultConfirmationState, ToolCallResult, ToolCallRiskAssessment,
    ToolCallRiskAssessmentCompleteState, ToolCallRiskAssessmentKind, ToolCallRiskAssessmentLoadingState, ToolCallState,
    ToolDefinition, ToolInput, ToolResultContent, ToolResultEmbeddedResourceContent, ToolResultFileEditContent,
    ToolResultResourceContent, ToolResultSubagentContent, ToolResultTerminalContent, ToolResultTextContent,
};
use serde_json::{Map, Value};

use super::meta::Meta;
use crate::agent::{
    AuthReason, AuthRequirement, ConfirmOption, Contributor, Description, FileChange, FileSide, Risk, ToolContent,
    ToolInfo, ToolResult,
};
use crate::resources::content::without_data;

/// A call that is ready, with nothing decided about it.
pub(crate) fn ready(
    turn_id: String,
    call: String,
    invocation: Description,
    input: Option<String>,
) -> ChatToolCallReadyAction {
    ChatToolCallReadyAction {
        turn_id,
        tool_call_id: call,
        meta: None,
        contributor: None,
        intention: None,
        invocation_message: described(invocation),
        tool_input: input.map(ToolInput::Inline),
        confirmation_title: None,
        risk_assessment: None,
        edits: None,
        editable: None,
        confirmed: None,
        options: None,
    }
}

pub(crate) fn words(text: String) -> StringOrMarkdown {
    StringOrMarkdown::Plain(text)
}

pub(crate) fn described(description: Description) -> StringOrMarkdown {
    match description.markdown {
        Some(markdown) => StringOrMarkdown::Markdown { markdown },
        None => StringOrMarkdown::Plain(description.text),
    }
}

/// The sentence of a call that asks. VS Code shows the input of such a call only beside a sentence in Markdown, and
/// users have to see the input that they allow.
pub(crate) fn beside_input(sentence: StringOrMarkdown) -> StringOrMarkdown {
    match sentence {
        StringOrMarkdown::Plain(text) => StringOrMarkdown::Markdown {
            markdown: escaped(&text),
        },
        markdown @ StringOrMarkdown::Markdown { .. } => markdown,
    }
}

/// Markdown that shows exactly this text.
fn escaped(text: &str) -> String {
    let mut markdown = String::with_capacity(text.len());
    for c in text.chars() {
        // Among the special characters is `$`: VS Code reads `$(name)` as an icon.
        if "\\`*_[]<>#~|!&$".contains(c) {
            markdown.push('\\');
        }
        markdown.push(c);
    }
    markdown
}

pub(crate) fn plain(text: &StringOrMarkdown) -> String {
    match text {
        StringOrMarkdown::Plain(text) => text.clone(),
        StringOrMarkdown::Markdown { markdown } => markdown.clone(),
    }
}

pub(crate) fn contributor(contributor: Contributor) -> Option<ToolCallContributor> {
    match contributor {
        Contributor::Host => None,
        Contributor::Client(client) => Some(ToolCallContributor::Client(ToolCallClientContributor {
            client_id: client.as_str().to_owned(),
        })),
        Contributor::Mcp(customization_id) => {
            Some(ToolCallContributor::Mcp(ToolCallMcpContributor { customization_id }))
        }
    }
}

pub(crate) fn options(options: Vec<ConfirmOption>) -> Vec<ConfirmationOption> {
    let option = |option: ConfirmOption| ConfirmationOption {
        id: option.id,
        label: option.label,
        kind: if option.approves {
            ConfirmationOptionKind::Approve
        } else {
            ConfirmationOptionKind::Deny
        },
        group: option.group.map(Into::into),
    };
    options.into_iter().map(option).collect()
}

pub(crate) fn risk(risk: Risk) -> ToolCallRiskAssessment {
    let kind = ToolCallRiskAssessmentKind::Judge;
    match risk {
        Risk::Assessing => ToolCallRiskAssessment::Loading(ToolCallRiskAssessmentLoadingState { kind }),
        Risk::Assessed { reason, safety } => {
            ToolCallRiskAssessment::Complete(ToolCallRiskAssessmentCompleteState {
                kind,
                reason: words(reason),
                // JSON cannot express NaN or infinity.
                safety: if safety.is_nan() { 0.0 } else { safety.clamp(0.0, 1.0) },
            })
        }
    }
}

pub(crate) fn edits(changes: Vec<FileChange>) -> Option<FileEditCollection> {
    let items: Vec<FileEdit> = changes
        .into_iter()
        .map(|change| {
            let (before, after, diff) = sides(change);
            FileEdit { before, after, diff }
        })
        .collect();
    (!items.is_empty()).then_some(FileEditCollection { items })
}

fn sides(change: FileChange) -> (Option<FileEditSide>, Option<FileEditSide>, Option<FileEditDiffStats>) {
    let side = |side: FileSide| FileEditSide {
        content: ContentRef {
            uri: without_data(side.content, &side.uri),
            size_hint: side.size.and_then(|size| i64::try_from(size).ok()),
            content_type: side.content_type,
            nonce: None,
        },
        uri: side.uri,
    };
    let diff = FileEditDiffStats {
        added: Some(change.added.into()),
        removed: Some(change.removed.into()),
    };
    (change.before.map(side), change.after.map(side), Some(diff))
}

pub(crate) fn contents(contents: Vec<ToolContent>) -> Vec<ToolResultContent> {
    contents.into_iter().map(content).collect()
}

fn content(content: ToolContent) -> ToolResultContent {
    match content {
        ToolContent::Text(text) => ToolResultContent::Text(ToolResultTextContent { text }),
        ToolContent::Embedded { data, content_type } => {
            ToolResultContent::EmbeddedResource(ToolResultEmbeddedResourceContent { data, content_type })
        }
        ToolContent::Resource {
            uri,
            content_type,
            size,
            mention: _,
        } => ToolResultContent::Resource(ToolResultResourceContent {
            uri,
            size_hint: size.and_then(|size| i64::try_from(size).ok()),
            content_type,
            nonce: None,
        }),
        ToolContent::FileEdit(change) => {
            let (before, after, diff) = sides(change);
            ToolResultContent::FileEdit(ToolResultFileEditContent { before, after, diff })
        }
        ToolContent::Terminal {
            uri,
            title,
            is_pty,
            exit_code,
            preview,
        } => ToolResultContent::Terminal(ToolResultTerminalContent {
            resource: uri,
            title,
            is_pty: Some(is_pty),
            result: (exit_code.is_some() || preview.is_some()).then_some(TerminalCommandResult {
                exit_code,
                preview,
                truncated: None,
            }),
        }),
        ToolContent::Subagent {
            chat,
            title,
            agent_name,
            description,
        } => ToolResultContent::Subagent(ToolResultSubagentContent {
            resource: chat,
            title,
            agent_name,
            description,
        }),
    }
}

/// Gives contents of files that a client sent in `data:` URIs a URI with a path: every other client is shown them too.
pub(crate) fn move_data_uris(contents: &mut [ToolResultContent]) {
    for content in contents {
        if let ToolResultContent::FileEdit(edit) = content {
            for side in [&mut edit.before, &mut edit.after].into_iter().flatten() {
                side.content.uri = without_data(std::mem::take(&mut side.content.uri), &side.uri);
            }
        }
    }
}

/// A client's result, as the agent reads it.
pub(crate) fn from_contents(contents: Vec<ToolResultContent>) -> Vec<ToolContent> {
    contents
        .into_iter()
        .filter_map(|content| match content {
            ToolResultContent::Text(text) => Some(ToolContent::Text(text.text)),
            ToolResultContent::EmbeddedResource(embedded) => Some(ToolContent::Embedded {
                data: embedded.data,
                content_type: embedded.content_type,
            }),
            ToolResultContent::Resource(resource) => Some(ToolContent::Resource {
                uri: resource.uri,
                content_type: resource.content_type,
                size: resource.size_hint.and_then(|size| u64::try_from(size).ok()),
                mention: None,
            }),
            ToolResultContent::FileEdit(edit) => {
                let side = |side: FileEditSide| FileSide {
                    uri: side.uri,
                    content: side.content.uri,
                    size: side.content.size_hint.and_then(|size| u64::try_from(size).ok()),
                    content_type: side.content.content_type,
                };
                let count = |count: Option<i64>| count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
                Some(ToolContent::FileEdit(FileChange {
                    before: edit.before.map(side),
                    after: edit.after.map(side),
                    added: count(edit.diff.as_ref().and_then(|diff| diff.added)),
                    removed: count(edit.diff.as_ref().and_then(|diff| diff.removed)),
                }))
            }
            ToolResultContent::Terminal(terminal) => Some(ToolContent::Terminal {
                uri: terminal.resource,
                title: terminal.title,
                is_pty: terminal.is_pty.unwrap_or(false),
                exit_code: terminal.result.as_ref().and_then(|result| result.exit_code),
                preview: terminal.result.and_then(|result| result.preview),
            }),
            ToolResultContent::Subagent(subagent) => Some(ToolContent::Subagent {
                chat: subagent.resource,
                title: subagent.title,
                agent_name: subagent.agent_name,
                description: subagent.description,
            }),
            ToolResultContent::Unknown(_) => None,
        })
        .collect()
}

pub(crate) fn result(result: ToolResult) -> ToolCallResult {
    ToolCallResult {
        success: result.success,
        past_tense_message: described(Description {
            text: result.summary,
            markdown: result.summary_markdown,
        }),
        content: (!result.content.is_empty()).then(|| contents(result.content)),
        structured_content: result.structured,
        error: result.error.map(|message| serde_json::json!({ "message": message })),
    }
}

pub(crate) fn from_result(result: ToolCallResult) -> ToolResult {
    let error = result.error.map(
        |error| match error.get("message").and_then(|message| message.as_str()) {
            Some(message) => message.to_owned(),
            None => error.to_string(),
        },
    );
    ToolResult {
        success: result.success,
        summary: plain(&result.past_tense_message),
        summary_markdown: None,
        content: from_contents(result.content.unwrap_or_default()),
        structured: result.structured_content,
        error,
    }
}

/// The reviewed result of a client's call, for the agent.
pub(crate) fn reviewed(pending: &ToolCallPendingResultConfirmationState, approved: bool) -> ToolResult {
    if !approved {
        return ToolResult::failed(
            "The result was held back",
            "the user reviewed the result and withheld it; do not ask for it again",
        );
    }
    from_result(ToolCallResult {
        success: pending.success,
        past_tense_message: pending.past_tense_message.clone(),
        content: pending.content.clone(),
        structured_content: pending.structured_content.clone(),
        error: pending.error.clone(),
    })
}

pub(crate) fn auth(requirement: AuthRequirement) -> McpAuthRequirement {
    let list = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let published: Option<ProtectedResourceMetadata> = requirement
        .metadata
        .and_then(|metadata| serde_json::from_value(metadata).ok());
    let published = published.unwrap_or_else(|| ProtectedResourceMetadata {
        resource: String::new(),
        resource_name: None,
        authorization_servers: None,
        jwks_uri: None,
        scopes_supported: None,
        bearer_methods_supported: None,
        resource_signing_alg_values_supported: None,
        resource_documentation: None,
        resource_policy_uri: None,
        resource_tos_uri: None,
        required: None,
    });
    McpAuthRequirement {
        reason: match requirement.reason {
            AuthReason::Required => McpAuthRequiredReason::Required,
            AuthReason::Expired => McpAuthRequiredReason::Expired,
            AuthReason::InsufficientScope => McpAuthRequiredReason::InsufficientScope,
        },
        // All subscribers see it, so a registered client shows nothing but its id (MCP-21).
        oauth_client: requirement.oauth_client_id.map(|client_id| McpOAuthClient {
            client_id,
            client_secret: None,
        }),
        resource: ProtectedResourceMetadata {
            resource: requirement.resource,
            resource_name: requirement.resource_name.or(published.resource_name),
            authorization_servers: list(requirement.authorization_servers).or(published.authorization_servers),
            required: None,
            ..published
        },
        required_scopes: list(requirement.scopes),
        description: requirement.description,
    }
}

pub(crate) fn definition(tool: &ToolInfo) -> ToolDefinition {
    ToolDefinition {
        name: tool.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: None,
        annotations: None,
        meta: None,
    }
}

/// The fields every state of a call has, by reference.
macro_rules! common {
    ($call:expr, $field:ident, $unknown:expr) => {
        match $call {
            ToolCallState::Streaming(call) => &call.$field,
            ToolCallState::PendingConfirmation(call) => &call.$field,
            ToolCallState::Running(call) => &call.$field,
            ToolCallState::AuthRequired(call) => &call.$field,
            ToolCallState::PendingResultConfirmation(call) => &call.$field,
            ToolCallState::Completed(call) => &call.$field,
            ToolCallState::Cancelled(call) => &call.$field,
            ToolCallState::Unknown(_) => $unknown,
        }
    };
}

pub(crate) fn call_id(call: &ToolCallState) -> &str {
    common!(call, tool_call_id, "")
}

/// The ids of all calls among some parts.
pub(crate) fn calls(parts: &[ResponsePart]) -> Vec<String> {
    let id = |part: &ResponsePart| match part {
        ResponsePart::ToolCall(part) => Some(call_id(&part.tool_call).to_owned()),
        _ => None,
    };
    parts.iter().filter_map(id).collect()
}

/// The `_meta` of a call.
pub(crate) fn meta(call: &ToolCallState) -> Option<&Meta> {
    common!(call, meta, &None).as_ref()
}

pub(crate) fn tool_name(call: &ToolCallState) -> &str {
    common!(call, tool_name, "")
}

/// The contributor of a call, if it is not the host.
pub(crate) fn contributor_of(call: &ToolCallState) -> Option<&ToolCallContributor> {
    common!(call, contributor, &None).as_ref()
}

/// The `_meta` of a call.
pub(crate) fn meta_of(call: &ToolCallState) -> Option<&Map<String, Value>> {
    common!(call, meta, &None).as_ref()
}

/// The client that executes a call.
pub(crate) fn owner(call: &ToolCallState) -> Option<&str> {
    match common!(call, contributor, &None) {
        Some(ToolCallContributor::Client(client)) => Some(&client.client_id),
        _ => None,
    }
}
