//! `invokeChangesetOperation` (CHG-10, CHG-11).

use std::sync::Arc;

use ahp_types::actions::{ChangesetOperationStatusChangedAction, StateAction};
use ahp_types::commands::{ChangesetOperationTarget, InvokeChangesetOperationResult};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{ChangesetFile, ChangesetOperationScope, ChangesetOperationStatus, ErrorInfo, TextRange};
use serde_json::{Map, Value};

use super::{OperationError, OperationOutcome, OperationRequest, OperationTarget};
use crate::core::{ChannelCommand, Cx, Host, PartCommand};
use crate::customization::disabled_ids;
use crate::effect::{ChangesCommand, MessageWriter, TurnInfo, TurnStart};
use crate::ids::{ChannelId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::{Command, RequestId};
use crate::resources::data_uri::percent_decode;
use crate::session::create::{directories_of, settings_of};

/// The operation that commits, and the value with its message.
const COMMIT: &str = "commit";
const MESSAGE: &str = "message";

/// Requests about changesets.
#[derive(Debug, Clone)]
pub enum ChangesetCommand {
    /// `invokeChangesetOperation`.
    Invoke(Box<InvokeOperation>),
}

/// The parameters of `invokeChangesetOperation`.
#[derive(Debug, Clone)]
pub struct InvokeOperation {
    /// The changeset.
    pub channel: String,
    /// The operation.
    pub operation: String,
    /// The file or part of a file.
    pub target: Option<ChangesetOperationTarget>,
    /// Further values, such as the message of a commit.
    pub values: Map<String, Value>,
}

impl ChannelCommand for ChangesetCommand {
    fn method(&self) -> &'static str {
        match self {
            Self::Invoke(_) => "invokeChangesetOperation",
        }
    }

    fn changes_state(&self) -> bool {
        true
    }

    fn sessions(&self) -> Vec<&str> {
        match self {
            Self::Invoke(invoke) => vec![&invoke.channel],
        }
    }
}

impl From<ChangesetCommand> for Command {
    fn from(command: ChangesetCommand) -> Self {
        Self::Part(PartCommand::Changeset(command))
    }
}

impl Host {
    /// Checks an operation and has it carried out; [`Self::operation_done`] answers.
    pub(super) fn invoke_operation(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, invoke: InvokeOperation) {
        let checked = self.check_operation(&invoke);
        let (channel, request) = match checked {
            Ok(checked) => checked,
            Err(error) => return cx.answer(conn, id, Err(error)),
        };
        let Some(view) = self.view_of(channel) else {
            return cx.answer(conn, id, Err(no_changeset(&invoke.channel)));
        };
        let needs_message = request.id == COMMIT && !request.values.contains_key(MESSAGE);
        let writer = match needs_message {
            true => self.message_writer(cx, conn, channel).map(Box::new),
            false => None,
        };
        self.set_operation_status(cx, channel, &request.id, ChangesetOperationStatus::Running, None);
        cx.emit(ChangesCommand::Invoke {
            conn,
            id: id.clone(),
            channel,
            view: Box::new(view),
            request: Box::new(request),
            writer,
        });
    }

    /// The agent of a view's session, as a turn of this client would use it: with the model of the latest turn.
    fn message_writer(&self, cx: &Cx<'_>, conn: ConnId, channel: ChannelId) -> Option<MessageWriter> {
        let open = self.parts.changesets.get(channel)?;
        let session = self.sessions.get(&open.session())?;
        let chat = self
            .chats
            .get(&open.chat().or_else(|| session.chats.first().copied())?)?;
        let author = self.conns.client(conn);
        let last = chat.model.turn_count().checked_sub(1);
        let last = last.and_then(|last| chat.model.loaded(last));
        let model = last.and_then(|turn| turn.message.model.as_ref());
        let config = model.and_then(|model| model.config.clone()).unwrap_or_default();
        let info = TurnInfo {
            turn_id: String::new(),
            text: String::new(),
            attachments: Vec::new(),
            model: model.map(|model| model.id.clone()),
            model_settings: config.into_iter().collect(),
            agent: None,
            resume: false,
            so_far: None,
            turns_before: chat.model.turn_count(),
            session: Arc::clone(&session.uri),
            session_title: session.state.title.clone(),
            working_directories: directories_of(session, chat),
            settings: settings_of(session),
            client_tools: Vec::new(),
        };
        Some(MessageWriter {
            provider: session.state.provider.clone(),
            start: TurnStart {
                session: open.session(),
                info,
                unread_chats: Vec::new(),
                asked_by: author.cloned(),
                calls_before: Vec::new(),
                credentials: self.credentials_for(cx.now, session, author),
                disabled_ids: disabled_ids(session),
                app_request: None,
            },
        })
    }

    fn check_operation(&self, invoke: &InvokeOperation) -> Result<(ChannelId, OperationRequest), RpcError> {
        if !self.config.serves_changes {
            return Err(RpcError::method_not_found("invokeChangesetOperation"));
        }
        let channel = self.channels.find(&invoke.channel);
        let open = channel.and_then(|channel| Some((channel, self.parts.changesets.get(channel)?)));
        let Some((channel, open)) = open else {
            return Err(no_changeset(&invoke.channel));
        };
        let mut offered = open.state().operations.iter().flatten();
        let Some(operation) = offered.find(|operation| operation.id == invoke.operation) else {
            let shown: String = invoke.operation.chars().take(128).collect();
            let problem = format!("this changeset has no operation {shown:?} now; its state lists those that it has");
            return Err(RpcError::invalid_params("operationId", problem));
        };
        let (scope, mut target) = match &invoke.target {
            None => (ChangesetOperationScope::Changeset, None),
            Some(ChangesetOperationTarget::Resource { resource, side }) => {
                let target = target(resource, side.as_deref(), None)?;
                (ChangesetOperationScope::Resource, Some(target))
            }
            Some(ChangesetOperationTarget::Range { resource, side, range }) => {
                let target = target(resource, side.as_deref(), Some(range))?;
                (ChangesetOperationScope::Range, Some(target))
            }
            Some(ChangesetOperationTarget::Unknown(_)) => {
                return Err(RpcError::invalid_params(
                    "target",
                    "must have the kind resource or range",
                ));
            }
        };
        if !operation.scopes.contains(&scope) {
            let problem = match target {
                Some(_) => format!("{} does not work on this kind of target", invoke.operation),
                None => format!("is missing; {} works on a file or a part of one", invoke.operation),
            };
            return Err(RpcError::invalid_params("target", problem));
        }
        if let Some(target) = &mut target {
            let file = named_file(&open.state().files, &target.resource);
            let problem = || RpcError::invalid_params("target.resource", "is not a file of this changeset");
            target.resource = file.ok_or_else(problem)?.to_owned();
        }
        match operation.status {
            ChangesetOperationStatus::Disabled => Err(RpcError::new(
                code::CONFLICT,
                operation.description.clone().unwrap_or_default(),
            )),
            ChangesetOperationStatus::Running => Err(RpcError::new(
                code::CONFLICT,
                format!("{} is running already; wait for its end", operation.label),
            )),
            _ => Ok((
                channel,
                OperationRequest {
                    id: invoke.operation.clone(),
                    target,
                    values: invoke.values.clone(),
                },
            )),
        }
    }

    /// Answers an operation. The changes to files follow as reports of their views.
    pub(super) fn operation_done(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        channel: ChannelId,
        operation: &str,
        outcome: Result<OperationOutcome, OperationError>,
    ) {
        let (status, error) = match &outcome {
            Ok(_) => (ChangesetOperationStatus::Idle, None),
            Err(error) => (
                ChangesetOperationStatus::Error,
                Some(ErrorInfo {
                    error_type: "operationFailed".to_owned(),
                    message: error.message(),
                    stack: None,
                    meta: None,
                }),
            ),
        };
        self.set_operation_status(cx, channel, operation, status, error);
        let result = match outcome {
            Ok(outcome) => {
                let result = InvokeChangesetOperationResult {
                    message: (!outcome.message.is_empty()).then_some(StringOrMarkdown::Plain(outcome.message)),
                    follow_up: None,
                };
                Ok(serde_json::to_value(result).unwrap_or_default())
            }
            Err(OperationError::Invalid { field, problem }) => Err(RpcError::invalid_params(field, problem)),
            Err(OperationError::Conflict(problem)) => Err(RpcError::new(code::CONFLICT, problem)),
            Err(OperationError::Failed(problem)) => Err(RpcError::new(code::INTERNAL_ERROR, problem)),
        };
        cx.answer(conn, id, result);
        // Every view of the session may show something else now, and so may its row in lists.
        if let Some(session) = self.parts.changesets.get(channel).map(|open| open.session()) {
            self.refresh_repository_of(cx, session);
        }
    }

    fn set_operation_status(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        operation: &str,
        status: ChangesetOperationStatus,
        error: Option<ErrorInfo>,
    ) {
        if self.parts.changesets.get(channel).is_some() {
            let action = ChangesetOperationStatusChangedAction {
                operation_id: operation.to_owned(),
                status,
                error,
            };
            self.commit(cx, channel, StateAction::ChangesetOperationStatusChanged(action), None);
        }
    }
}

fn target(resource: &str, side: Option<&str>, range: Option<&TextRange>) -> Result<OperationTarget, RpcError> {
    let is_before = match side {
        None | Some("after") => false,
        Some("before") => true,
        Some(_) => return Err(RpcError::invalid_params("target.side", "must be before or after")),
    };
    let lines = match range {
        None => None,
        Some(range) => {
            let line = |line: i64| u64::try_from(line).ok();
            // A range that ends before the first character of a line has nothing of that line.
            let has_last = range.end.character > 0 || range.end.line == range.start.line;
            let lines = line(range.start.line).zip(line(range.end.line.saturating_add(i64::from(has_last))));
            let lines = lines.filter(|(first, end)| first < end);
            Some(lines.ok_or_else(|| RpcError::invalid_params("target.range", "must end after it starts"))?)
        }
    };
    Ok(OperationTarget {
        resource: resource.to_owned(),
        is_before,
        lines,
    })
}

/// The URI of a file of a changeset, as the changeset has it, for the URI by which a client names it.
fn named_file<'a>(files: &'a [ChangesetFile], resource: &str) -> Option<&'a str> {
    let uris = files.iter().flat_map(|file| {
        let sides = [&file.edit.before, &file.edit.after].into_iter().flatten();
        sides.map(|side| side.uri.as_str()).chain([file.id.as_str()])
    });
    let path = path_of(resource);
    let is_same = |uri: &str| path.is_some() && path_of(uri) == path;
    uris.clone()
        .find(|uri| *uri == resource)
        .or_else(|| uris.clone().find(|uri| is_same(uri)))
}

/// The path in the URI of a file, without the encoding, in which clients differ. VS Code wraps the URIs of files of a
/// remote host, and does not unwrap them in the target of an operation.
fn path_of(uri: &str) -> Option<Vec<u8>> {
    let path = uri.strip_prefix("file://").or_else(|| {
        let wrapped = uri.strip_prefix("vscode-agent-host://")?.split(['?', '#']).next()?;
        wrapped.get(wrapped.find('/')?..)
    });
    percent_decode(path?)
}

fn no_changeset(uri: &str) -> RpcError {
    let shown: String = uri.chars().take(256).collect();
    RpcError::new(
        code::NOT_FOUND,
        format!("there is no open changeset {shown:?}; subscribe to it first"),
    )
}
