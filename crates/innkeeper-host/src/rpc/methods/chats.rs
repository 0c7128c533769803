//! Parameters of what chats are asked for.

use ahp_types::commands::ChatSource;
use ahp_types::state::{Message, MessageAttachment};
use innkeeper_core::request::{Completions, CreateChat, MoveChat, MoveDestination, TurnsPage};
use innkeeper_core::{Command, RpcError, uri};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::sessions::choices;
use super::{check_directories, read, read_part, tag, unsubscribe};

pub(super) fn create_chat(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        channel: String,
        chat: String,
        initial_message: Option<Value>,
        source: Option<Value>,
        working_directories: Option<Vec<String>>,
    }
    let params: Params = read(params)?;
    uri::check(&params.chat).map_err(|problem| RpcError::invalid_params("chat", problem))?;
    check_directories(
        "workingDirectories",
        params.working_directories.as_deref().unwrap_or_default(),
    )?;
    Ok(Command::CreateChat(Box::new(CreateChat {
        channel: params.channel,
        chat: params.chat,
        initial_message: params.initial_message.map(message).transpose()?,
        source: params.source.map(source).transpose()?,
        working_directories: params.working_directories,
        choices: Vec::new(),
    })))
}

/// `createChat` of 0.4, whose other parameters are translated already.
pub(super) fn create_older_chat(params: &RawValue) -> Result<Command, RpcError> {
    let mut command = create_chat(params)?;
    if let Command::CreateChat(create) = &mut command {
        create.choices = choices(params)?;
    }
    Ok(command)
}

/// Where a chat comes from (CHT-04).
fn source(value: Value) -> Result<ChatSource, RpcError> {
    match tag("source", "kind", &value, &["fork", "sideChat"])? {
        "fork" => read_part("source", value).map(ChatSource::Fork),
        _ => read_part("source", value).map(ChatSource::SideChat),
    }
}

/// A message whose attachments are read one by one, by what they say they are.
fn message(mut value: Value) -> Result<Message, RpcError> {
    let attachments = value.as_object_mut().and_then(|fields| fields.remove("attachments"));
    let mut message: Message = read_part("initialMessage", value)?;
    message.attachments = match attachments {
        None | Some(Value::Null) => None,
        Some(Value::Array(items)) => {
            let items = items.into_iter().enumerate();
            Some(
                items
                    .map(|(index, item)| attachment(index, item))
                    .collect::<Result<_, _>>()?,
            )
        }
        Some(_) => {
            return Err(RpcError::invalid_params("initialMessage.attachments", "must be a list"));
        }
    };
    Ok(message)
}

fn attachment(index: usize, value: Value) -> Result<MessageAttachment, RpcError> {
    let path = format!("initialMessage.attachments[{index}]");
    let known = ["simple", "embeddedResource", "resource", "annotations", "chat"];
    match tag(&path, "type", &value, &known)? {
        "simple" => read_part(&path, value).map(MessageAttachment::Simple),
        "embeddedResource" => read_part(&path, value).map(MessageAttachment::EmbeddedResource),
        "resource" => read_part(&path, value).map(MessageAttachment::Resource),
        "annotations" => read_part(&path, value).map(MessageAttachment::Annotations),
        _ => read_part(&path, value).map(MessageAttachment::Chat),
    }
}

pub(super) fn dispose_chat(params: &RawValue) -> Result<Command, RpcError> {
    unsubscribe(params).map(|channel| Command::DisposeChat { channel })
}

pub(super) fn move_chat(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
        destination: Value,
    }
    #[derive(Deserialize)]
    struct Session {
        session: String,
        after: Option<String>,
    }
    let params: Params = read(params)?;
    let destination = match tag("destination", "kind", &params.destination, &["session", "newSession"])? {
        "session" => {
            let Session { session, after } = read_part("destination", params.destination)?;
            MoveDestination::Session { session, after }
        }
        _ => MoveDestination::NewSession,
    };
    Ok(Command::MoveChat(Box::new(MoveChat {
        channel: params.channel,
        destination,
    })))
}

pub(super) fn fetch_turns(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
        cursor: Option<String>,
    }
    let Params { channel, cursor } = read(params)?;
    let page = TurnsPage::At(cursor);
    Ok(Command::FetchTurns { channel, page })
}

/// `fetchTurns` of 0.5.0 and older.
pub(super) fn fetch_turns_before(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
        before: Option<String>,
        limit: Option<i64>,
    }
    let Params { channel, before, limit } = read(params)?;
    let Ok(limit) = limit.map(usize::try_from).transpose() else {
        return Err(RpcError::invalid_params("limit", "must not be negative"));
    };
    let page = TurnsPage::Before { turn: before, limit };
    Ok(Command::FetchTurns { channel, page })
}

pub(super) fn completions(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
        kind: String,
        text: String,
        offset: i64,
    }
    let params: Params = read(params)?;
    Ok(Command::Completions(Box::new(Completions {
        channel: params.channel,
        kind: params.kind,
        text: params.text,
        offset: params.offset,
    })))
}
