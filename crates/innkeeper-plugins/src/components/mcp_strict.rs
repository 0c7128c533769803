//! The entries of an Agent Plugin's `mcp.json`, whose fields are closed.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};
use url::{Host, Url};

use crate::components::mcp::{Remote, Transport, headers, texts};
use crate::formats::detect::{SCHEMA_PREFIX, SCHEMA_VERSIONS};
use crate::formats::locations::resolve;
use crate::read::json::Document;

/// Checks the fields around the entries. Errors say what to do.
pub(crate) fn check_file(document: &Document<'_>) -> Result<(), String> {
    let schema = document
        .object()
        .get_string("$schema")
        .map_or("", |schema| schema.value.as_ref());
    let version = schema
        .strip_prefix(SCHEMA_PREFIX)
        .and_then(|rest| rest.strip_suffix("/mcp.schema.json"));
    if !version.is_some_and(|version| SCHEMA_VERSIONS.contains(&version)) {
        return Err("has no `$schema` of the plugin's version, so no server is read: add it".to_owned());
    }
    if let Some(odd) = document
        .members(document.object())
        .find(|member| !matches!(member.name, "$schema" | "mcpServers"))
    {
        let odd = crate::read::text::printable(odd.name, 64);
        return Err(format!(
            "has a field `{odd}` that Agent Plugins do not know, so no server is read: remove it"
        ));
    }
    Ok(())
}

/// Reads an entry. Errors say what to do.
pub(crate) fn read(name: &str, entry: &Value) -> Result<Transport, String> {
    let Value::Object(fields) = entry else {
        return Err("it is not an object: give it a `type`".to_owned());
    };
    if name.trim().is_empty() {
        return Err("it has no name: give it one".to_owned());
    }
    match fields.get("type").and_then(Value::as_str) {
        Some("stdio") => stdio(fields),
        Some("streamable-http") => Ok(Transport::Http(remote(fields)?)),
        Some("sse") => Ok(Transport::Sse(remote(fields)?)),
        _ => Err("its `type` is not `stdio`, `streamable-http` or `sse`: give it one of them".to_owned()),
    }
}

fn closed(fields: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let key = crate::read::text::printable(key, 64);
            Err(format!("Agent Plugins do not know its field `{key}`: remove it"))
        }
        None => Ok(()),
    }
}

fn stdio(fields: &Map<String, Value>) -> Result<Transport, String> {
    closed(fields, &["type", "command", "args", "env", "cwd"])?;
    let command = fields.get("command").and_then(Value::as_str).unwrap_or("");
    let is_token = !command.is_empty() && !command.contains(char::is_whitespace) && !command.contains("${");
    let is_inside = match command.strip_prefix("./") {
        Some(path) => resolve(path).is_some_and(|path| !path.as_os_str().is_empty()),
        None => !command.contains(['/', '\\']),
    };
    if !is_token || !is_inside {
        return Err("its `command` must be one word, or a path below the plugin that begins with `./`".to_owned());
    }
    if fields.contains_key("args") && !is_list_of_texts(fields.get("args")) {
        return Err("its `args` must be a list of texts: correct it".to_owned());
    }
    let mut env = BTreeMap::new();
    if let Some(given) = fields.get("env") {
        let wrong = "its `env` must be an object of texts, without PLUGIN_ROOT and PLUGIN_DATA: correct it";
        for (key, value) in given.as_object().ok_or(wrong)? {
            let value = value.as_str().ok_or(wrong)?;
            if matches!(key.as_str(), "PLUGIN_ROOT" | "PLUGIN_DATA") {
                return Err(wrong.to_owned());
            }
            env.insert(key.clone(), Some(value.to_owned()));
        }
    }
    let cwd = match fields.get("cwd") {
        None => None,
        Some(Value::String(cwd)) if is_inside_directory(cwd) => Some(cwd.clone()),
        Some(_) => {
            return Err(
                "its `cwd` must begin with `./`, `${PLUGIN_ROOT}` or `${PLUGIN_DATA}` and stay there".to_owned(),
            );
        }
    };
    Ok(Transport::Stdio {
        command: command.to_owned(),
        args: texts(fields.get("args")),
        env,
        env_file: None,
        cwd,
    })
}

fn is_inside_directory(cwd: &str) -> bool {
    let rest = ["./", "${PLUGIN_ROOT}", "${PLUGIN_DATA}"]
        .iter()
        .find_map(|start| cwd.strip_prefix(start));
    rest.is_some_and(|rest| rest.is_empty() || resolve(&format!("./{rest}")).is_some())
}

fn is_list_of_texts(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Array(items)) if items.iter().all(Value::is_string))
}

fn remote(fields: &Map<String, Value>) -> Result<Remote, String> {
    closed(fields, &["type", "url", "headers"])?;
    let text = fields.get("url").and_then(Value::as_str).unwrap_or("");
    let url = Url::parse(text).map_err(|_| "its `url` is not a valid URL: correct it".to_owned())?;
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback);
    if !is_safe || !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("its `url` must be https (or http on this machine), without a user and a fragment".to_owned());
    }
    if let Some(given) = fields.get("headers") {
        let wrong = "its `headers` must be an object of texts, each name once: correct it";
        let mut seen = HashSet::new();
        for (name, value) in given.as_object().ok_or(wrong)? {
            if !value.is_string() || !seen.insert(name.to_ascii_lowercase()) {
                return Err(wrong.to_owned());
            }
        }
    }
    Ok(Remote {
        url: text.to_owned(),
        headers: headers(fields.get("headers")),
        oauth_client_id: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_closed() {
        for good in [
            json!({"type": "stdio", "command": "x", "args": ["${PLUGIN_ROOT}"], "cwd": "./a"}),
            json!({"type": "stdio", "command": "./bin/x", "cwd": "${PLUGIN_DATA}/a", "env": {"A": "b"}}),
            json!({"type": "sse", "url": "http://127.0.0.1:1/"}),
            json!({"type": "streamable-http", "url": "https://x", "headers": {"A": "b"}}),
        ] {
            assert!(read("s", &good).is_ok(), "{good}");
        }
        for bad in [
            json!({"type": "http", "url": "https://x"}),
            json!({"command": "x"}),
            json!({"type": "stdio", "command": "x y"}),
            json!({"type": "stdio", "command": "/bin/x"}),
            json!({"type": "stdio", "command": "./../x"}),
            json!({"type": "stdio", "command": "${PLUGIN_ROOT}/x"}),
            json!({"type": "stdio", "command": "x", "note": 1}),
            json!({"type": "stdio", "command": "x", "cwd": "./../.."}),
            json!({"type": "stdio", "command": "x", "env": {"PLUGIN_ROOT": "x"}}),
            json!({"type": "sse", "url": "http://example.com"}),
            json!({"type": "sse", "url": "https://me@example.com"}),
            json!({"type": "sse", "url": "https://x", "headers": {"A": "b", "a": "c"}}),
        ] {
            assert!(read("s", &bad).is_err(), "{bad}");
        }
    }
}
