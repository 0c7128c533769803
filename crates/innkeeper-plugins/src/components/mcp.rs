//! MCP servers: read and normalised, never started (P11).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use jsonc_parser::ast::{Object, Value as Node};
use serde_json::Value;

use crate::components::gather::{Gathering, NewChild};
use crate::components::mcp_strict;
use crate::id::id;
use crate::limits::{MAX_NAME_CHARS, MAX_SERVERS};
use crate::note::Code;
use crate::read::json::{Document, plain};
use crate::read::scan_root::label;
use crate::read::text::{TextRange, printable};
use crate::read::uri::of_path;
use crate::tree::{Child, Component, Kind};

/// An MCP server.
#[derive(Clone, PartialEq)]
pub struct McpServer {
    /// How to reach it.
    pub transport: Transport,
    /// The names of the `${…}` in it, sorted. They are left as they are.
    pub variables: Vec<String>,
    /// The entry as written, for fields that are not parsed.
    pub raw: Value,
    /// How it is to be treated, most of which only the configuration of the host can say.
    pub treatment: Treatment,
}

/// How a server is treated. A server in a file is treated as usual, unless the file disables it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Treatment {
    /// Whether every session has a process of its own.
    pub is_isolated: bool,
    /// Whether it is disabled until a user enables it.
    pub is_off_at_first: bool,
}

/// How to reach an MCP server.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A process, spoken to over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Additional environment variables; `None` removes one.
        env: BTreeMap<String, Option<String>>,
        /// A file with more of it.
        env_file: Option<String>,
        /// Where it runs.
        cwd: Option<String>,
    },
    /// An address that speaks streamable HTTP.
    Http(Remote),
    /// An address that speaks the older HTTP with server-sent events.
    Sse(Remote),
}

/// An address.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// The address.
    pub url: String,
    /// Headers for every request.
    pub headers: BTreeMap<String, String>,
    /// The client to sign in as.
    pub oauth_client_id: Option<String>,
}

/// Where servers are in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Below `mcpServers`, below `servers`, or at the top.
    Any,
    /// Below `mcpServers`, among other settings.
    Settings,
    /// As Agent Plugins have it: closed, with a `$schema`.
    Strict,
}

/// Gathers the servers of one file.
pub(crate) fn gather_file(gathering: &mut Gathering<'_>, path: &Path, shape: Shape) {
    if !gathering.is_new(Kind::McpServer, gathering.root.real(path)) {
        return;
    }
    let shown = label(path);
    let Some(text) = gathering.json_text(path, Code::McpConfigInvalid) else {
        return;
    };
    let document = match Document::read(&text) {
        Ok(document) => document,
        Err(why) => return gathering.notes.warn(Code::McpConfigInvalid, &shown, why),
    };
    if shape == Shape::Strict
        && let Err(why) = mcp_strict::check_file(&document)
    {
        return gathering.notes.warn(Code::McpConfigInvalid, &shown, why);
    }
    let top = document.object();
    let wrapped = top
        .get("mcpServers")
        .or_else(|| (shape == Shape::Any).then(|| top.get("servers")).flatten());
    match wrapped.map(|property| &property.value) {
        Some(Node::Object(servers)) => gather(gathering, path, &document, servers, shape),
        Some(_) => gathering.notes.warn(
            Code::McpConfigInvalid,
            &shown,
            "`mcpServers` must be an object of servers: correct it",
        ),
        None if shape == Shape::Any => gather(gathering, path, &document, top, shape),
        None => {}
    }
}

/// Gathers the servers in a manifest, with or without a wrapping object.
pub(crate) fn gather_inline(gathering: &mut Gathering<'_>, path: &Path, document: &Document<'_>) {
    let Some(servers) = document.object().get_object("mcpServers") else {
        return;
    };
    let inner = servers.get_object("mcpServers").filter(|inner| {
        // A server may be called `mcpServers`.
        inner.get_string("command").is_none() && inner.get_string("url").is_none()
    });
    gather(gathering, path, document, inner.unwrap_or(servers), Shape::Any);
}

fn gather(gathering: &mut Gathering<'_>, path: &Path, document: &Document<'_>, servers: &Object<'_>, shape: Shape) {
    let shown = label(path);
    if servers.properties.len() > MAX_SERVERS {
        gathering.notes.warn(
            Code::Limit,
            &shown,
            format!("has more than {MAX_SERVERS} servers; the rest is left out"),
        );
    }
    for member in document.members(servers).take(MAX_SERVERS) {
        // Keys beside servers at the top level.
        if matches!(member.name, "$schema" | "inputs" | "sandbox") {
            continue;
        }
        let raw = plain(member.value);
        let read = match shape {
            Shape::Strict => mcp_strict::read(member.name, &raw),
            Shape::Any | Shape::Settings => read(&raw),
        };
        let name = printable(member.name, MAX_NAME_CHARS);
        match read {
            Ok(_) if name.is_empty() => gathering.notes.warn(
                Code::McpEntryInvalid,
                &shown,
                "has a server without a name, which is left out: give it one",
            ),
            Ok(transport) => gathering.add(NewChild {
                path: PathBuf::from(path),
                name,
                description: raw
                    .get("description")
                    .and_then(Value::as_str)
                    .map(|text| printable(text, 1024)),
                range: Some(member.range),
                icons: Vec::new(),
                component: Component::McpServer(McpServer {
                    variables: variables(&transport, shape),
                    transport,
                    treatment: treatment(&raw),
                    raw,
                }),
            }),
            Err(why) => gathering.notes.warn(
                Code::McpEntryInvalid,
                &shown,
                format!("the server `{name}` is left out, because {why}"),
            ),
        }
    }
}

/// Reads an entry in the format of all tools but Agent Plugins. Errors say what to do.
fn read(entry: &Value) -> Result<Transport, String> {
    let Value::Object(fields) = entry else {
        return Err("it is not an object: give it a `command` or a `url`".to_owned());
    };
    let text = |key: &str| {
        let text = fields.get(key).and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let kind = text("type").or_else(|| text("transport"));
    let kind = match (
        kind.as_deref(),
        fields.contains_key("command"),
        fields.contains_key("url"),
    ) {
        (Some(kind), _, _) => kind,
        (None, true, _) => "stdio",
        (None, false, true) => "http",
        (None, false, false) => return Err("it has neither a `command` nor a `url`: add one".to_owned()),
    };
    match kind {
        "stdio" | "local" => Ok(Transport::Stdio {
            command: text("command").ok_or("its `command` is missing or empty: name the program")?,
            args: texts(fields.get("args")),
            env: environment(fields.get("env")),
            env_file: text("envFile"),
            cwd: text("cwd"),
        }),
        "http" | "streamable-http" | "streamableHttp" | "sse" => {
            let remote = Remote {
                url: text("url").ok_or("its `url` is missing or empty: fill it in")?,
                headers: headers(fields.get("headers")),
                oauth_client_id: fields
                    .get("oauth")
                    .and_then(|oauth| oauth.get("clientId"))
                    .or_else(|| fields.get("oauthClientId"))
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            };
            Ok(if kind == "sse" {
                Transport::Sse(remote)
            } else {
                Transport::Http(remote)
            })
        }
        other => Err(format!(
            "its type `{}` is not known: use `stdio`, `http` or `sse`",
            printable(other, 32)
        )),
    }
}

/// Several programs write `"disabled": true` for a server that is not to run for now.
fn treatment(entry: &Value) -> Treatment {
    Treatment {
        is_isolated: false,
        is_off_at_first: entry.get("disabled").and_then(Value::as_bool).unwrap_or_default(),
    }
}

pub(crate) fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn environment(value: Option<&Value>) -> BTreeMap<String, Option<String>> {
    let Some(Value::Object(env)) = value else {
        return BTreeMap::new();
    };
    env.iter()
        .filter_map(|(name, value)| match value {
            Value::String(text) => Some((name.clone(), Some(text.clone()))),
            Value::Number(number) => Some((name.clone(), Some(number.to_string()))),
            Value::Bool(flag) => Some((name.clone(), Some(flag.to_string()))),
            Value::Null => Some((name.clone(), None)),
            Value::Array(_) | Value::Object(_) => None,
        })
        .collect()
}

pub(crate) fn headers(value: Option<&Value>) -> BTreeMap<String, String> {
    let Some(Value::Object(headers)) = value else {
        return BTreeMap::new();
    };
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// A server that the configuration of the host declares. Its id depends on its name alone, so that decisions of users
/// still apply when the file moves.
pub fn configured_server(
    file: &Path,
    name: &str,
    range: Option<TextRange>,
    transport: Transport,
    treatment: Treatment,
) -> Child {
    let path = file.file_name().unwrap_or_default();
    Child {
        real: None,
        id: id(Kind::McpServer.as_str(), &["host", name]),
        uri: of_path(file),
        path: label(Path::new(path)),
        name: printable(name, MAX_NAME_CHARS),
        description: None,
        range,
        icons: Vec::new(),
        component: Component::McpServer(McpServer {
            variables: variables(&transport, Shape::Any),
            transport,
            raw: Value::Null,
            treatment,
        }),
    }
}

/// The names of variables that would be expanded. Agent Plugins expand neither programs nor addresses.
fn variables(transport: &Transport, shape: Shape) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut look = |text: &str| names_in(text, &mut names);
    match transport {
        Transport::Stdio {
            command,
            args,
            env,
            env_file,
            cwd,
        } => {
            if shape != Shape::Strict {
                look(command);
            }
            args.iter().for_each(|arg| look(arg));
            env.values().flatten().for_each(|value| look(value));
            env_file.iter().chain(cwd).for_each(|path| look(path));
        }
        Transport::Http(remote) | Transport::Sse(remote) => {
            if shape != Shape::Strict {
                look(&remote.url);
                remote.headers.values().for_each(|value| look(value));
            }
        }
    }
    names.into_iter().collect()
}

fn names_in(text: &str, names: &mut BTreeSet<String>) {
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        rest = rest.get(start + 2..).unwrap_or("");
        let Some(end) = rest.find('}') else { return };
        let name = rest.get(..end).unwrap_or("");
        let name = name.split(":-").next().unwrap_or("");
        if !name.is_empty() && !name.contains("${") {
            names.insert(printable(name, 128));
        }
        rest = rest.get(end + 1..).unwrap_or("");
    }
}

// Commands, environments and headers can contain secrets, so the debug output leaves them out (CUS-27).

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("transport", &self.transport)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio { .. } => "Stdio(…)",
            Self::Http(_) => "Http(…)",
            Self::Sse(_) => "Sse(…)",
        })
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_and_not_expanded() {
        let entry = serde_json::json!({
            "command": "${PLUGIN_ROOT}/run", "args": ["${A:-x}", "$B", "${", "${}"], "env": {"K": "${C}${A}"}
        });
        let transport = read(&entry).unwrap();
        assert_eq!(variables(&transport, Shape::Any), ["A", "C", "PLUGIN_ROOT"]);
        assert_eq!(variables(&transport, Shape::Strict), ["A", "C"]);
        let Transport::Stdio { command, .. } = transport else {
            panic!()
        };
        assert_eq!(command, "${PLUGIN_ROOT}/run");
    }

    #[test]
    fn types_are_inferred_from_the_present_fields() {
        let kind = |entry: Value| read(&entry).map(|transport| format!("{transport:?}"));
        assert_eq!(kind(serde_json::json!({"command": "x"})).unwrap(), "Stdio(…)");
        assert_eq!(kind(serde_json::json!({"url": "x"})).unwrap(), "Http(…)");
        assert_eq!(
            kind(serde_json::json!({"url": "x", "transport": "sse"})).unwrap(),
            "Sse(…)"
        );
        for bad in [
            serde_json::json!({"url": ""}),
            serde_json::json!({}),
            serde_json::json!(5),
            serde_json::json!({"type": "ws", "url": "x"}),
            serde_json::json!({"command": ["x"]}),
        ] {
            assert!(kind(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_disabled_server_is_off_until_enabled() {
        for (entry, is_off) in [
            (serde_json::json!({"command": "x", "disabled": true}), true),
            (serde_json::json!({"command": "x", "disabled": false}), false),
            (serde_json::json!({"command": "x", "disabled": "yes"}), false),
            (serde_json::json!({"command": "x"}), false),
        ] {
            assert_eq!(treatment(&entry).is_off_at_first, is_off, "{entry}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let entry = serde_json::json!({"url": "https://x", "headers": {"Authorization": "secret"}});
        assert!(!format!("{:?}", read(&entry).unwrap()).contains("secret"));
    }
}
