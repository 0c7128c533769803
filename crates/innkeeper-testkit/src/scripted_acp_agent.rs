//! An agent that speaks ACP on standard input and output, does what a message says, and misbehaves on request.
//!
//! A test binary is the agent itself when it is started with [`QUIRKS`] in its environment: a test named `acp_agent`
//! calls [`serve_if_asked`]. The first word of a message selects what the agent does; `script.rs` has the list.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

mod mcp;
mod script;

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

/// The variable that makes a test binary the agent. Its value lists quirks, separated by commas.
pub const QUIRKS: &str = "ACP_AGENT";
/// The variable with the directory in which the agent keeps its sessions.
pub const STATE: &str = "ACP_STATE";

/// Serves until the input ends, if this process was started as the agent.
pub fn serve_if_asked() {
    if let Ok(quirks) = std::env::var(QUIRKS) {
        let quirks = quirks.split(',').map(str::to_owned).collect();
        Arc::new(ScriptedAgent::new(quirks)).serve();
    }
}

/// The agent.
struct ScriptedAgent {
    quirks: Vec<String>,
    state: Option<PathBuf>,
    /// The sessions of this process: their modes.
    modes: Mutex<HashMap<String, String>>,
    next_id: AtomicI64,
    answers: Mutex<HashMap<i64, mpsc::Sender<Value>>>,
    is_cancelled: AtomicBool,
    running: AtomicUsize,
    prompts: AtomicUsize,
    /// The MCP server that the host named.
    server: Mutex<Value>,
}

impl ScriptedAgent {
    fn new(quirks: Vec<String>) -> Self {
        Self {
            quirks,
            state: std::env::var_os(STATE).map(PathBuf::from),
            modes: Mutex::default(),
            next_id: AtomicI64::new(1000),
            answers: Mutex::default(),
            is_cancelled: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            prompts: AtomicUsize::new(0),
            server: Mutex::default(),
        }
    }

    fn has(&self, quirk: &str) -> bool {
        self.quirks.iter().any(|known| known == quirk)
    }

    fn serve(self: Arc<Self>) -> ! {
        // Ends the line that the test harness has begun; agents do print to their output by mistake.
        println!("\nthis is not ACP");
        self.append("starts", &format!("{}\n", std::process::id()));
        if self.has("crash") {
            eprintln!("no license found in /etc/license");
            std::process::exit(4);
        }
        for line in std::io::stdin().lock().lines() {
            let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else {
                continue;
            };
            self.handle(message);
        }
        std::process::exit(0);
    }

    fn handle(self: &Arc<Self>, message: Value) {
        let (id, params) = (message["id"].clone(), message["params"].clone());
        match message["method"].as_str() {
            Some("initialize") if self.has("silent") => {}
            Some("initialize") => self.answer(&id, self.initialize()),
            Some("session/new") if self.has("env-auth") && self.noted("signed-in").is_empty() => {
                self.refuse(&id, -32000, "Authentication required");
            }
            Some("authenticate") => {
                self.append("signed-in", params["methodId"].as_str().unwrap());
                self.answer(&id, json!({}));
            }
            Some("session/new") if self.has("signed-out") => {
                self.refuse(&id, -32000, "Authentication required");
            }
            Some("session/new") => {
                let session = format!(
                    "s{}-{}",
                    std::process::id(),
                    self.next_id.fetch_add(1, Ordering::Relaxed)
                );
                self.remember(&session, None);
                self.answer(&id, self.session(&session, &params));
                let commands =
                    json!([{ "name": "polish", "description": "Polishes the brass", "input": { "hint": "what" } }]);
                self.update(
                    &session,
                    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }),
                );
            }
            Some(method @ ("session/load" | "session/resume")) => self.restore(method, &id, &params),
            Some("session/set_mode") if self.has("stubborn") => self.refuse(&id, -32603, "not in this session"),
            Some("session/set_mode") => {
                self.append("setting", "mode\n");
                if self.has("slow-mode") {
                    std::thread::sleep(Duration::from_millis(1000));
                }
                let mode = params["modeId"].as_str().unwrap();
                self.set_mode(params["sessionId"].as_str().unwrap(), mode);
                self.answer(&id, json!({}));
            }
            Some("session/set_config_option") => {
                let value = format!("{}={}\n", params["configId"].as_str().unwrap(), params["value"]);
                self.append("options", &value);
                self.answer(&id, json!({ "configOptions": self.options(&params["value"]) }));
            }
            Some("session/prompt") => {
                if self.running.fetch_add(1, Ordering::SeqCst) > 0 && self.has("second-prompt-fatal") {
                    eprintln!("a second prompt");
                    std::process::exit(9);
                }
                self.is_cancelled.store(false, Ordering::SeqCst);
                let agent = Arc::clone(self);
                std::thread::spawn(move || agent.prompt(&id, &params));
            }
            Some("session/cancel") => self.is_cancelled.store(true, Ordering::SeqCst),
            Some(_) if !id.is_null() => self.refuse(&id, -32601, "Method not found"),
            Some(_) => {}
            None => {
                let waiting = id.as_i64().and_then(|id| self.answers.lock().unwrap().remove(&id));
                if let Some(waiting) = waiting {
                    let _ = waiting.send(message);
                }
            }
        }
    }

    fn initialize(&self) -> Value {
        let mut session = json!({ "additionalDirectories": {} });
        if self.has("resume") {
            session["resume"] = json!({});
        }
        let version = if self.has("future") { 99 } else { 1 };
        json!({
            "protocolVersion": version,
            "agentInfo": { "name": "scripted", "title": self.title(), "version": "1.2.3" },
            "agentCapabilities": {
                "loadSession": self.quirks.iter().any(|quirk| quirk.starts_with("load")),
                "promptCapabilities": { "image": true, "embeddedContext": true },
                "sessionCapabilities": session,
                "mcpCapabilities": { "http": !self.has("no-http") },
            },
            "authMethods": [
                { "id": "login", "name": "Log in", "description": "Run `scripted login`" },
                { "id": "key", "name": "Key", "type": "env_var", "vars": [{ "name": STATE }] },
            ],
        })
    }

    fn title(&self) -> &str {
        let title = ["copilot", "goose", "claude"].into_iter().find(|agent| self.has(agent));
        title.unwrap_or("Scripted")
    }

    /// Returns what was appended to a file of the state.
    fn noted(&self, name: &str) -> String {
        let file = self.state.as_ref().map(|state| state.join(name));
        file.and_then(|file| std::fs::read_to_string(file).ok())
            .unwrap_or_default()
    }

    fn set_mode(&self, session: &str, mode: &str) {
        self.modes.lock().unwrap().insert(session.to_owned(), mode.to_owned());
    }

    fn session(&self, session: &str, params: &Value) -> Value {
        self.append("directories", &format!("{}\n", params["cwd"].as_str().unwrap()));
        self.append("meta", &format!("{}\n", params["_meta"]));
        self.connect(params);
        let modes = json!([{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }]);
        json!({
            "sessionId": session,
            "modes": { "availableModes": modes, "currentModeId": "ask" },
            "configOptions": self.options(&json!("small")),
        })
    }

    fn options(&self, model: &Value) -> Value {
        let models = json!([{ "value": "small", "name": "Small" }, { "value": "large", "name": "Large" }]);
        json!([{ "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": model, "options": models }])
    }

    /// Restores a session in one of the ways that agents have.
    fn restore(&self, method: &str, id: &Value, params: &Value) {
        let session = params["sessionId"].as_str().unwrap();
        self.append("restored", &format!("{method}\n"));
        let known = self.messages(session);
        match known {
            _ if self.has("load-never") => return,
            None if self.has("load-unknown") => return self.answer(id, self.session(session, params)),
            None => return self.refuse(id, -32002, "Resource not found"),
            Some(_) => {}
        }
        let replay = || {
            for message in known.iter().flatten() {
                let user = json!({ "type": "text", "text": message });
                self.update(
                    session,
                    json!({ "sessionUpdate": "user_message_chunk", "content": user }),
                );
                self.say(session, "an old answer");
            }
        };
        if method == "session/load" && !self.has("load-late") {
            replay();
        }
        let answer = if self.has("load-null") {
            Value::Null
        } else {
            self.session(session, params)
        };
        self.answer(id, answer);
        if self.has("load-late") {
            replay();
        }
    }

    /// Returns the messages of a session, if it exists.
    fn messages(&self, session: &str) -> Option<Vec<String>> {
        let file = self.state.as_ref()?.join(session);
        let text = std::fs::read_to_string(file).ok()?;
        Some(text.lines().map(str::to_owned).collect())
    }

    fn remember(&self, session: &str, message: Option<&str>) {
        let line = message.map(|message| format!("{}\n", message.replace('\n', " ")));
        self.append(session, &line.unwrap_or_default());
    }

    fn append(&self, name: &str, text: &str) {
        if let Some(state) = &self.state {
            let file = std::fs::File::options()
                .create(true)
                .append(true)
                .open(state.join(name));
            file.unwrap().write_all(text.as_bytes()).unwrap();
        }
    }

    fn send(&self, message: &Value) {
        let mut out = std::io::stdout().lock();
        // The host may be gone.
        let _ = writeln!(out, "{message}");
        let _ = out.flush();
    }

    fn answer(&self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn refuse(&self, id: &Value, code: i64, message: &str) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }));
    }

    fn update(&self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    fn say(&self, session: &str, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(
            session,
            json!({ "sessionUpdate": "agent_message_chunk", "content": content }),
        );
    }

    /// Sends a request to the host, and returns its id and the place of its answer.
    fn begin_request(&self, method: &str, params: Value) -> (i64, mpsc::Receiver<Value>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        self.answers.lock().unwrap().insert(id, sender);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        (id, receiver)
    }

    /// Sends a request to the host and waits for its answer: the whole message.
    fn request(&self, method: &str, params: Value) -> Value {
        let (_, receiver) = self.begin_request(method, params);
        receiver.recv_timeout(Duration::from_secs(120)).unwrap_or(Value::Null)
    }

    /// Waits until the turn is cancelled.
    fn wait_for_cancel(&self) {
        while !self.is_cancelled.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        while self.has("never-cancel") {
            std::thread::sleep(Duration::from_secs(1));
        }
        if self.has("slow-cancel") {
            std::thread::sleep(Duration::from_millis(700));
        }
    }
}
