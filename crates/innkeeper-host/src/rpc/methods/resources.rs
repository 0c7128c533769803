//! Parameters of everything about resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_core::resources::{
    Allow, Encoding, GrantCommand, ImportBlob, ResourceOp, Transfer, WatchCommand, WatchSpec, Write, WriteMode,
};
use innkeeper_core::{ClientId, Command, RpcError, content, data_uri, uri};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::read;

/// Longest URI of a resource, but for those that carry their content and are as long as that.
const MAX_URI_BYTES: usize = 8192;
/// Maximum patterns of one list, and most bytes of all of them: each is built into a machine that is many times
/// as large.
const MAX_PATTERNS: usize = 200;
const MAX_PATTERN_BYTES: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    uri: String,
    encoding: Option<String>,
    recursive: Option<bool>,
    follow_symlinks: Option<bool>,
    write: Option<bool>,
    excludes: Option<Patterns>,
    includes: Option<Patterns>,
}

#[derive(Deserialize)]
struct Patterns {
    items: Vec<String>,
}

fn named(params: &RawValue) -> Result<Named, RpcError> {
    let named: Named = read(params)?;
    check_uri("uri", &named.uri)?;
    Ok(named)
}

fn check_uri(field: &str, uri: &str) -> Result<(), RpcError> {
    let has_content = data_uri::is_data(uri) || content::is_inline(uri);
    let problem = if uri.len() > MAX_URI_BYTES && !has_content {
        format!("has {} bytes, and a URI has at most {MAX_URI_BYTES}", uri.len())
    } else if uri.chars().any(char::is_control) {
        "has control characters, which a URI writes with a percent sign".to_owned()
    } else if !uri.contains(':') {
        "is not a URI: it starts with a scheme, as in file:///home/me/notes.md".to_owned()
    } else {
        return Ok(());
    };
    Err(RpcError::invalid_params(field, problem))
}

fn op(op: ResourceOp) -> Command {
    Command::Resource(Box::new(op))
}

pub(super) fn resource_read(params: &RawValue) -> Result<Command, RpcError> {
    let Named { uri, encoding, .. } = named(params)?;
    // An encoding that is not known here is one that cannot be provided (RES-02).
    let encoding = encoding.as_deref().and_then(encoding_of);
    Ok(op(ResourceOp::Read { uri, encoding }))
}

fn encoding_of(name: &str) -> Option<Encoding> {
    match name {
        "utf-8" => Some(Encoding::Utf8),
        "base64" => Some(Encoding::Base64),
        _ => None,
    }
}

pub(super) fn resource_write(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        uri: String,
        data: String,
        encoding: String,
        create_only: Option<bool>,
        mode: Option<String>,
        position: Option<i64>,
        if_match: Option<String>,
    }
    let params: Params = read(params)?;
    check_uri("uri", &params.uri)?;
    let data = match encoding_of(&params.encoding) {
        Some(Encoding::Utf8) => params.data.into_bytes(),
        Some(Encoding::Base64) => STANDARD
            .decode(params.data)
            .map_err(|error| RpcError::invalid_params("data", format!("is not base64: {error}")))?,
        None => {
            let problem = format!(
                "{:?} is unknown to this host; it is one of utf-8, base64",
                params.encoding
            );
            return Err(RpcError::invalid_params("encoding", problem));
        }
    };
    let mode = match params.mode.as_deref() {
        None | Some("truncate") => WriteMode::Truncate,
        Some("append") => WriteMode::Append,
        Some("insert") => WriteMode::Insert,
        Some(other) => {
            let problem = format!("{other:?} is unknown to this host; it is one of truncate, append, insert");
            return Err(RpcError::invalid_params("mode", problem));
        }
    };
    let position = u64::try_from(params.position.unwrap_or_default())
        .map_err(|_| RpcError::invalid_params("position", "must not be negative"))?;
    Ok(op(ResourceOp::Write(Box::new(Write {
        uri: params.uri,
        data,
        create_only: params.create_only.unwrap_or_default(),
        mode,
        position,
        if_match: params.if_match,
    }))))
}

pub(super) fn resource_list(params: &RawValue) -> Result<Command, RpcError> {
    let Named { uri, .. } = named(params)?;
    Ok(op(ResourceOp::List { uri }))
}

pub(super) fn resource_copy(params: &RawValue) -> Result<Command, RpcError> {
    Ok(op(ResourceOp::Copy(Box::new(transfer(params)?))))
}

pub(super) fn resource_move(params: &RawValue) -> Result<Command, RpcError> {
    Ok(op(ResourceOp::Move(Box::new(transfer(params)?))))
}

fn transfer(params: &RawValue) -> Result<Transfer, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        source: String,
        destination: String,
        fail_if_exists: Option<bool>,
    }
    let params: Params = read(params)?;
    check_uri("source", &params.source)?;
    check_uri("destination", &params.destination)?;
    Ok(Transfer {
        source: params.source,
        destination: params.destination,
        fail_if_exists: params.fail_if_exists.unwrap_or_default(),
    })
}

pub(super) fn resource_delete(params: &RawValue) -> Result<Command, RpcError> {
    let Named { uri, recursive, .. } = named(params)?;
    let recursive = recursive.unwrap_or_default();
    Ok(op(ResourceOp::Delete { uri, recursive }))
}

pub(super) fn resource_resolve(params: &RawValue) -> Result<Command, RpcError> {
    let Named {
        uri, follow_symlinks, ..
    } = named(params)?;
    let follow = follow_symlinks.unwrap_or(true);
    Ok(op(ResourceOp::Resolve { uri, follow }))
}

pub(super) fn resource_mkdir(params: &RawValue) -> Result<Command, RpcError> {
    let Named { uri, .. } = named(params)?;
    Ok(op(ResourceOp::Mkdir { uri }))
}

pub(super) fn import_content(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        session: String,
        name: String,
        #[serde(default)]
        content_type: Option<String>,
        kept_ms: i64,
        data: String,
    }
    let params: Params = read(params)?;
    uri::check(&params.session).map_err(|problem| RpcError::invalid_params("session", problem))?;
    let data = STANDARD
        .decode(params.data)
        .map_err(|error| RpcError::invalid_params("data", format!("is not base64: {error}")))?;
    Ok(op(ResourceOp::ImportBlob(Box::new(ImportBlob {
        session: params.session,
        name: params.name,
        content_type: params.content_type,
        kept_ms: params.kept_ms,
        data,
    }))))
}

/// With neither flag, it is about reading (RES-14).
pub(super) fn resource_request(params: &RawValue) -> Result<Command, RpcError> {
    let Named { uri, write, .. } = named(params)?;
    let write = write.unwrap_or_default();
    Ok(Command::RequestResource { uri, write })
}

pub(super) fn watch_resource(params: &RawValue) -> Result<Command, RpcError> {
    let named = named(params)?;
    Ok(Command::from(WatchCommand::Create(Box::new(WatchSpec {
        uri: named.uri,
        recursive: named.recursive.unwrap_or_default(),
        includes: patterns("includes", named.includes)?,
        excludes: patterns("excludes", named.excludes)?,
    }))))
}

fn patterns(field: &str, patterns: Option<Patterns>) -> Result<Option<Vec<String>>, RpcError> {
    let items = patterns.map(|patterns| patterns.items);
    let count = items.iter().flatten().count();
    let bytes: usize = items.iter().flatten().map(String::len).sum();
    if count > MAX_PATTERNS || bytes > MAX_PATTERN_BYTES {
        let problem = format!(
            "has {count} patterns of together {bytes} bytes, and at most {MAX_PATTERNS} of together \
             {MAX_PATTERN_BYTES} bytes are accepted"
        );
        return Err(RpcError::invalid_params(field, problem));
    }
    Ok(items)
}

pub(super) fn list_resource_grants(_: &RawValue) -> Result<Command, RpcError> {
    Ok(Command::Grants(Box::new(GrantCommand::List)))
}

pub(super) fn allow_resource(params: &RawValue) -> Result<Command, RpcError> {
    let client = client(params)?;
    let Named { uri, write, .. } = named(params)?;
    Ok(Command::Grants(Box::new(GrantCommand::Allow(Allow {
        client,
        uri,
        write: write.unwrap_or_default(),
    }))))
}

pub(super) fn revoke_resource(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        uri: Option<String>,
    }
    let Params { uri } = read(params)?;
    let client = client(params)?;
    Ok(Command::Grants(Box::new(GrantCommand::Revoke { client, uri })))
}

fn client(params: &RawValue) -> Result<ClientId, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        client_id: String,
    }
    let Params { client_id } = read(params)?;
    uri::check_client_id(&client_id).map_err(|problem| RpcError::invalid_params("clientId", problem))?;
    Ok(ClientId::new(&client_id))
}
