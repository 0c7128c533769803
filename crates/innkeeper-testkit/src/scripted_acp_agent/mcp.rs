//! The agent as a client of the MCP servers that its host names: over HTTP, or through a command.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::ScriptedAgent;

impl ScriptedAgent {
    /// Notes the servers of a session, and fetches their tools as agents do when a session opens.
    pub(super) fn connect(&self, params: &Value) {
        let server = params["mcpServers"][0].clone();
        if server.is_null() {
            return;
        }
        self.append("servers", &format!("{server}\n"));
        *self.server.lock().unwrap() = server;
        let asked =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "scripted" } });
        let answer = self.ask_server("initialize", asked);
        assert_eq!(answer["result"]["serverInfo"]["name"], "innkeeper", "{answer}");
        self.append("tools", &format!("{}\n", self.tools()));
    }

    /// Returns the names of the tools that the server has now.
    pub(super) fn tools(&self) -> String {
        let listed = self.ask_server("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        names.join(",")
    }

    /// Says what a prompt is, and its text.
    pub(super) fn prompt_of_server(&self, session: &str, name: &str) {
        let listed = self.ask_server("prompts/list", json!({}));
        let listed = listed["result"]["prompts"][0]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let prompt = self.ask_server("prompts/get", json!({ "name": name }));
        let text = prompt["result"]["messages"][0]["content"]["text"]
            .as_str()
            .unwrap_or_default();
        self.say(session, &format!("{listed}: {text}"));
    }

    /// Calls a tool: `TOOL {"argument": 1}`. The call is announced in the words of an agent.
    pub(super) fn call_tool(&self, session: &str, line: &str) {
        let (tool, arguments) = line.split_once(' ').unwrap_or((line, "{}"));
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let named =
            |title: String| json!({ "toolCallId": "m", "title": title, "kind": "other", "rawInput": arguments });
        let call = match self.style() {
            "goose" => {
                let mut call = named(format!("innkeeper: {tool}"));
                call["_meta"] = json!({ "goose": { "toolCall": { "toolName": format!("innkeeper__{tool}") } } });
                call
            }
            "codex" => {
                let invocation = json!({ "server": "innkeeper", "tool": tool, "arguments": arguments });
                json!({ "toolCallId": "m", "title": format!("mcp.innkeeper.{tool}"), "kind": "execute",
                        "rawInput": invocation, "_meta": { "is_mcp_tool_call": true } })
            }
            "gemini" => named(format!("{tool} (innkeeper MCP Server)")),
            "opencode" => named(format!("innkeeper_{tool}")),
            "copilot" => named(format!("innkeeper-{tool}")),
            "unknown" => named(format!("Using {tool}")),
            _ => named(format!("mcp__innkeeper__{tool}")),
        };
        // Gemini asks about a call that it has not announced.
        if self.style() != "gemini" {
            let mut begun = call.clone();
            begun["sessionUpdate"] = json!("tool_call");
            begun["status"] = json!("pending");
            self.update(session, begun);
        }
        let chosen = self.permission(session, call);
        if chosen != "yes" {
            return self.say(session, &format!("not allowed: {chosen}"));
        }
        let update = |fields: Value| {
            let mut update = fields;
            update["sessionUpdate"] = json!("tool_call_update");
            update["toolCallId"] = json!("m");
            self.update(session, update);
        };
        update(json!({ "status": "in_progress" }));
        let answer = self.ask_server("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        let status = if result["isError"] == true {
            "failed"
        } else {
            "completed"
        };
        update(json!({ "status": status, "content": [{ "type": "content", "content": result["content"][0] }] }));
        self.say(
            session,
            &format!(
                "{status}: {}",
                result["content"][0]["text"].as_str().unwrap_or_default()
            ),
        );
    }

    fn style(&self) -> &str {
        let style = self.quirks.iter().find_map(|quirk| quirk.strip_prefix("names="));
        style.unwrap_or("claude")
    }

    /// Sends a request to the server and returns the answer.
    pub(super) fn ask_server(&self, method: &str, params: Value) -> Value {
        let server = self.server.lock().unwrap().clone();
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        match server["url"].as_str() {
            Some(url) => over_http(url, server["headers"][0]["value"].as_str().unwrap(), &request),
            None => through_command(&server, &request),
        }
    }
}

fn over_http(url: &str, authorization: &str, request: &Value) -> Value {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(authority).unwrap();
    let body = request.to_string();
    // The older version of HTTP ends a body with its connection.
    let head = format!(
        "POST /{path} HTTP/1.0\r\nHost: {authority}\r\nAuthorization: {authorization}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    let messages = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let mut answers = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    answers.find(|message| message["id"] == 1).unwrap()
}

fn through_command(server: &Value, request: &Value) -> Value {
    let words = server["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap());
    let variables = server["env"].as_array().unwrap().iter();
    let variables = variables.map(|variable| (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()));
    let mut child = Command::new(server["command"].as_str().unwrap())
        .args(words)
        .envs(variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{request}").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let answer = lines.find_map(|line| {
        serde_json::from_str::<Value>(&line)
            .ok()
            .filter(|message| message["id"] == 1)
    });
    drop(input);
    child.wait().unwrap();
    answer.unwrap()
}
