//! An MCP server on standard input and output that misbehaves on request.
//!
//! A test binary is the server itself when it is started with [`KIND`] in its environment: a test named `odd_server` calls
//! [`serve_if_asked`].

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

use std::io::{BufRead as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

/// The variable that makes a test binary the server, and selects its behaviour.
pub const KIND: &str = "ODD_SERVER";

/// The tools that every caller may use. There is one more for views, and one more for models.
pub const PLAIN_TOOLS: [&str; 13] = [
    "echo", "fail", "refuse", "wait", "die", "big", "env", "family", "progress", "ask", "sample", "log", "blob",
];

/// A line that the host never wrote.
pub const FORGED: &str = "2026-11-16T00:00:00.000000Z  INFO innkeeper::serve: all is well";

/// The call that wants a model to go on, while it waits.
static SAMPLING: Mutex<Option<Value>> = Mutex::new(None);
/// The list of tools that waits for an answer to what is no question.
static LISTING: Mutex<Option<Value>> = Mutex::new(None);
/// The level that a view of the server set.
static LEVEL: Mutex<Option<Value>> = Mutex::new(None);

/// The message that came last, as it was written.
static LAST_LINE: Mutex<String> = Mutex::new(String::new());

/// Serves until the input ends, if this process was started as the server.
pub fn serve_if_asked() {
    if let Ok(kind) = std::env::var(KIND) {
        serve(&kind);
    }
}

fn serve(kind: &str) -> ! {
    // Ends the line that the test harness has begun; servers do print to their output by mistake.
    println!("\nthis is not MCP");
    let count = std::env::var("ODD_STARTS").ok().map(|file| {
        let count = std::fs::read_to_string(&file).unwrap_or_default().len() + 1;
        std::fs::write(&file, "x".repeat(count)).unwrap();
        count
    });
    if let Ok(file) = std::env::var("ODD_PIDS") {
        let mut file = std::fs::File::options().create(true).append(true).open(file).unwrap();
        // One write, because `writeln!` makes two, and servers that start at once would mix their lines.
        file.write_all(format!("{}\n", std::process::id()).as_bytes()).unwrap();
    }
    match kind {
        "crash" => crash(),
        "crash-once" | "modern-crash-once" if count == Some(1) => crash(),
        "silent" => std::thread::sleep(Duration::from_secs(600)),
        "late-once" | "busy-late-once" if count == Some(1) => std::thread::sleep(Duration::from_secs(600)),
        // Slow to start. A file records when the start begins and when it ends.
        "busy" | "busy-late-once" => {
            note_start('+');
            std::thread::sleep(Duration::from_millis(
                std::env::var("ODD_DELAY_MS").map_or(300, |delay| delay.parse().unwrap()),
            ));
        }
        "flood" => {
            std::thread::spawn(|| {
                loop {
                    let data = "x".repeat(1000);
                    notify("notifications/message", json!({ "level": "info", "data": data }));
                }
            });
        }
        "garbage" => {
            std::thread::spawn(|| {
                loop {
                    let mut out = std::io::stdout().lock();
                    // Binary, half a message, an unsolicited answer, and a line without an end.
                    let _ = out.write_all(b"\xff\xfe\0\n{\"jsonrpc\":\"2.0\",\n[]\n");
                    let _ = writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": "unknown", "result": {} }));
                    let _ = writeln!(out, "{}", "y".repeat(100_000));
                    drop(out);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        "changing" | "restless" => {
            let rest = Duration::from_millis(if kind == "restless" { 1 } else { 20 });
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(rest);
                    notify("notifications/tools/list_changed", json!({}));
                }
            });
        }
        _ => {}
    }
    let kind = kind.strip_suffix("-crash-once").unwrap_or(kind);
    let mut lists = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap_or_default();
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        *LAST_LINE.lock().unwrap() = line;
        answer(kind, &message, &mut lists);
    }
    if kind == "stubborn" {
        std::thread::sleep(Duration::from_secs(600));
    }
    // Its input has ended: a good server goes.
    std::process::exit(0);
}

/// Appends a line to the file of `ODD_BUSY`: `+NAME` when a start begins, `-NAME` when it ends.
fn note_start(sign: char) {
    let file = std::env::var("ODD_BUSY").unwrap();
    let mut file = std::fs::File::options().create(true).append(true).open(file).unwrap();
    let name = std::env::var("ODD_NAME").unwrap_or_default();
    // In one piece: others write at the same time.
    file.write_all(format!("{sign}{name}\n").as_bytes()).unwrap();
}

fn crash() -> ! {
    eprintln!("starting with {}", std::env::var("ODD_SECRET").unwrap_or_default());
    eprintln!("cannot open the database");
    std::process::exit(3);
}

fn answer(kind: &str, message: &Value, lists: &mut usize) {
    let id = &message["id"];
    let params = &message["params"];
    if message["method"] == "prompts/list"
        && let Ok(file) = std::env::var("ODD_LISTS")
    {
        let mut file = std::fs::File::options().create(true).append(true).open(file).unwrap();
        write!(file, "x").unwrap();
    }
    match message["method"].as_str().unwrap_or_default() {
        // It answers what it does not know.
        "server/discover" if kind == "careless" => result(id, json!({})),
        // It says nothing to what it does not know.
        "server/discover" if kind == "ignorant" => {}
        // It falls over what it does not know.
        "server/discover" if kind == "fragile" => std::process::exit(1),
        "initialize" if kind == "modern" || kind == "slow-modern" => {
            send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown" } }));
        }
        "server/discover" if kind == "slow-modern" => {
            std::thread::sleep(Duration::from_secs(2));
            result(id, discovered());
        }
        "server/discover" if kind == "modern" => result(id, discovered()),
        "initialize" => result(
            id,
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {
                    "tools": { "listChanged": true }, "logging": {}, "resources": {}, "prompts": { "listChanged": true },
                },
                "serverInfo": { "name": "odd", "version": "1", "icons": [{ "src": "https://odd.test/icon.png" }] },
                "instructions": "Be odd.",
            }),
        ),
        "tools/list" if kind == "no-tools" => {
            send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown" } }));
        }
        "tools/list" if kind == "closed-list" => {
            send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": "no database" } }));
        }
        // It asks for a missing capability with a name that contains line breaks, and continues after the answer.
        "tools/list" if kind == "forging" => {
            *LISTING.lock().unwrap() = Some(id.clone());
            let line = format!("x\n{FORGED}");
            send(&json!({ "jsonrpc": "2.0", "id": line, "method": line, "params": {} }));
        }
        "" if id.as_str().is_some_and(|id| id.ends_with(FORGED)) => {
            if let Some(listing) = LISTING.lock().unwrap().take() {
                result(&listing, tools(kind, *lists));
            }
        }
        "tools/list" => {
            *lists += 1;
            if kind.starts_with("busy") && *lists == 1 {
                note_start('-');
            }
            let mut page = tools(kind, *lists);
            if kind == "endless-list" {
                std::thread::sleep(Duration::from_millis(20));
                page = json!({ "tools": [], "nextCursor": lists.to_string() });
            }
            result(id, page);
            if kind == "deaf" {
                ask_and_never_listen();
            }
        }
        "tools/call" => call(message["id"].clone(), params.clone()),
        // It never says what it has.
        "resources/list" | "prompts/list" if kind == "mute" => {}
        "resources/list" => result(
            id,
            json!({ "resources": [{ "uri": "odd://one", "name": "one" }], "nextCursor": "again" }),
        ),
        "resources/read" => result(id, json!({ "contents": [{ "uri": params["uri"], "text": "words" }] })),
        "resources/templates/list" if kind == "app" => {
            let template = json!({ "uriTemplate": "odd://{name}", "name": "any" });
            result(id, json!({ "resourceTemplates": [template] }));
        }
        "logging/setLevel" if kind == "app" => {
            *LEVEL.lock().unwrap() = Some(params["level"].clone());
            result(id, json!({}));
        }
        // Every log message of a view is answered, at the level that was set.
        "notifications/message" if kind == "app" => {
            let level = LEVEL.lock().unwrap().clone().unwrap_or_else(|| json!("info"));
            let data = json!({ "heard": params });
            notify(
                "notifications/message",
                json!({ "level": level, "logger": "odd", "data": data }),
            );
        }
        "prompts/list" => result(id, prompts(kind, lists)),
        "prompts/get" => prompt(id, params),
        "notifications/cancelled" => eprintln!("told to stop"),
        "notifications/roots/list_changed" => {
            send(&json!({ "jsonrpc": "2.0", "id": "roots", "method": "roots/list" }));
        }
        "" if id == "roots" => {
            let roots = message["result"]["roots"].clone();
            notify("notifications/message", json!({ "level": "info", "data": roots }));
        }
        "" if id == "form" => {
            let said = message["result"].to_string();
            if let Some(call) = SAMPLING.lock().unwrap().take() {
                result(&call, words(&said));
            }
        }
        "" if id == "sample" => {
            let said = message.get("result").unwrap_or_else(|| &message["error"]).to_string();
            if let Some(call) = SAMPLING.lock().unwrap().take() {
                result(&call, words(&said));
            }
        }
        _ if !id.is_null() && message.get("method").is_some() => {
            send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown" } }));
        }
        _ => {}
    }
}

fn discovered() -> Value {
    json!({
        "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
        "serverInfo": { "name": "odd", "version": "1" }, "resultType": "complete",
        "ttlMs": 0, "cacheScope": "private",
    })
}

/// Sends `ping` again and again and ignores the answers. A file has the count.
fn ask_and_never_listen() -> ! {
    let file = std::env::var("ODD_COUNT").unwrap();
    for count in 1_u64.. {
        // Answers with such ids fill the pipe soon.
        let id = format!("{count}{}", "i".repeat(500));
        send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        std::fs::write(&file, count.to_string()).unwrap();
    }
    std::process::exit(0);
}

fn prompts(kind: &str, lists: &mut usize) -> Value {
    let who = json!({ "name": "who", "description": "Whom to greet.", "required": true });
    let greet = json!({ "name": "welcome", "title": "Greet", "description": "Says hello.", "arguments": [who] });
    let mut prompts = vec![greet];
    prompts.extend(["wait", "refuse", "big"].map(|name| json!({ "name": name })));
    if kind == "new-prompts" {
        // Each time another one, and then it says that there are others.
        *lists += 1;
        prompts.push(json!({ "name": format!("list_{lists}") }));
    }
    json!({ "prompts": prompts })
}

fn prompt(id: &Value, params: &Value) {
    let message = |text: &str| json!({ "role": "user", "content": { "type": "text", "text": text } });
    let messages = |text: &str| json!({ "messages": [message(text)] });
    match params["name"].as_str().unwrap_or_default() {
        "wait" => {}
        "refuse" => {
            let secret = std::env::var("ODD_SECRET").unwrap_or_default();
            let message = format!("no prompt with {secret}");
            send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": message } }));
        }
        "big" => result(id, messages(&"y".repeat(2 << 20))),
        "welcome" => {
            let who = params["arguments"]["who"].as_str().unwrap_or("unknown");
            let reply = json!({ "role": "assistant", "content": { "type": "text", "text": "Gladly." } });
            result(
                id,
                json!({ "messages": [message(&format!("Say hello to {who}.")), reply] }),
            );
        }
        name if name.starts_with("list_") => {
            notify("notifications/prompts/list_changed", json!({}));
            result(id, messages(name));
        }
        name => result(id, messages(name)),
    }
}

fn tools(kind: &str, lists: usize) -> Value {
    let mut tools: Vec<Value> = PLAIN_TOOLS
        .iter()
        .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
        .collect();
    tools.push(json!({
        "name": "shown", "inputSchema": { "type": "object" },
        "_meta": { "ui": { "resourceUri": "ui://odd/shown", "visibility": ["app"] } },
    }));
    tools.push(json!({
        "name": "hidden", "inputSchema": { "type": "object" }, "_meta": { "ui": { "visibility": ["model"] } },
    }));
    if kind == "changing" {
        // Another one, and another one, then the same for a while, and a last one.
        let name = match lists {
            8.. => "last".to_owned(),
            _ => format!("tool_{}", lists.min(3)),
        };
        tools.push(json!({ "name": name, "inputSchema": { "type": "object" } }));
    }
    if kind == "wild" {
        for name in ["line", "digits", "form", "link"] {
            tools.push(json!({ "name": name, "inputSchema": { "type": "object" } }));
        }
        let execution = json!({ "taskSupport": "required" });
        tools.push(json!({ "name": "research", "inputSchema": { "type": "object" }, "execution": execution }));
    }
    if kind == "saving" {
        tools.push(json!({ "name": "save", "inputSchema": { "type": "object" } }));
    }
    if kind == "annotated" {
        for (name, destroys) in [("peek", false), ("wreck", true)] {
            let annotations = json!({ "readOnlyHint": true, "destructiveHint": destroys });
            tools.push(json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": annotations }));
        }
    }
    if kind == "restless" {
        // Never twice the same.
        tools.push(json!({ "name": format!("tool_{lists}"), "inputSchema": { "type": "object" } }));
    }
    json!({ "tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private" })
}

#[expect(clippy::zombie_processes, reason = "the child is left behind on purpose")]
fn call(id: Value, params: Value) {
    let arguments = params["arguments"].clone();
    match params["name"].as_str().unwrap_or_default() {
        "echo" => {
            let mut answer = words(arguments["text"].as_str().unwrap_or_default());
            answer["structuredContent"] = arguments;
            answer["_meta"] = json!({ "seen": params["_meta"]["mine"], "new": true });
            answer["unknown"] = json!("kept");
            result(&id, answer);
        }
        "fail" => result(
            &id,
            json!({ "content": [{ "type": "text", "text": "no luck" }], "isError": true }),
        ),
        "refuse" => {
            let secret = std::env::var("ODD_SECRET").unwrap_or_default();
            let message = format!("not with {secret}");
            send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": message } }));
        }
        "error-text" => send(&json!({ "jsonrpc": "2.0", "id": id, "error": "no luck" })),
        "batch" => send(&json!([
            { "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "first" } },
            { "jsonrpc": "2.0", "id": id, "result": words("in a batch") },
        ])),
        "latin" => {
            let mut out = std::io::stdout().lock();
            let mut answer = json!({ "jsonrpc": "2.0", "id": id, "result": words("caf?") }).to_string();
            answer.push('\n');
            let answer: Vec<u8> = answer
                .bytes()
                .map(|byte| if byte == b'?' { 0xe9 } else { byte })
                .collect();
            out.write_all(&answer).and_then(|()| out.flush()).unwrap();
        }
        // The long messages have the id of the call and are no answers to it. The answer comes after them.
        "long-request" => {
            let long = "z".repeat(17 << 20);
            send(&json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list", "params": { "long": long } }));
            notify(
                "notifications/message",
                json!({ "level": "info", "data": { "id": id, "long": long } }),
            );
            result(&id, words("the answer"));
        }
        "wait" => notify("notifications/message", json!({ "level": "info", "data": "it waits" })),
        "sample" => {
            *SAMPLING.lock().unwrap() = Some(id);
            let request = json!({
                "jsonrpc": "2.0", "id": "sample", "method": "sampling/createMessage", "params": arguments,
            });
            send(&request);
        }
        "line" => result(&id, words(&LAST_LINE.lock().unwrap())),
        // Numbers that no type of this program holds.
        "digits" => {
            let structured = r#"{"z":123456789012345678901234567890,"a":110000.00000000001}"#;
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{structured}}}}}"#
            )
            .unwrap();
            out.flush().unwrap();
        }
        "link" => {
            let link = json!({
                "type": "resource_link", "uri": "odd://one", "name": "one", "title": "The one",
                "description": "All of it.", "mimeType": "text/plain",
            });
            result(&id, json!({ "content": [link] }));
        }
        "form" => {
            *SAMPLING.lock().unwrap() = Some(id);
            let room = json!({ "type": "string", "title": "Room", "default": "s", "oneOf": [
                { "const": "g", "title": "\u{1b}[31mGarden", "description": "Quiet.", "recommended": true },
                { "const": "s", "title": "Street" },
            ] });
            let nights = json!({ "type": "integer", "minimum": 1, "maximum": 7, "default": 2 });
            let schema = json!({ "type": "object", "properties": {
                "room": room, "nights": nights, "extras": { "type": "string" },
            } });
            let params = json!({ "message": "Which one?", "requestedSchema": schema });
            send(&json!({ "jsonrpc": "2.0", "id": "form", "method": "elicitation/create", "params": params }));
        }
        "log" => {
            eprintln!("wrote a line");
            notify("notifications/message", arguments);
            result(&id, words("logged"));
        }
        "blob" => {
            let bytes = usize::try_from(arguments["bytes"].as_u64().unwrap()).unwrap();
            let image = json!({ "type": "image", "data": "/9j/".repeat(bytes / 3), "mimeType": "image/png" });
            result(
                &id,
                json!({ "content": [image], "structuredContent": { "y": "y".repeat(bytes) } }),
            );
        }
        "die" => {
            eprintln!(
                "something is wrong with {}",
                std::env::var("ODD_SECRET").unwrap_or_default()
            );
            std::process::exit(7);
        }
        "big" => {
            let bytes = usize::try_from(arguments["bytes"].as_u64().unwrap()).unwrap();
            big(&id, bytes);
        }
        "env" => {
            let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            result(&id, words(&names.join(" ")));
        }
        "family" => {
            // A child that would outlive it, and that keeps its output open. The server does not wait for it on
            // purpose: the host that ends the server has to end the child.
            let mut command = std::process::Command::new("sleep");
            let child = command.arg("600").spawn().unwrap();
            result(&id, words(&child.id().to_string()));
        }
        "save" => {
            std::fs::write(arguments["path"].as_str().unwrap(), "saved").unwrap();
            result(&id, words("saved"));
        }
        "progress" => {
            std::thread::spawn(move || {
                let token = &params["_meta"]["progressToken"];
                let steps = arguments["steps"].as_u64().unwrap_or(5);
                for step in 1..=steps {
                    std::thread::sleep(Duration::from_millis(300));
                    let message = format!("step {step}");
                    let report =
                        json!({ "progressToken": token, "progress": step, "total": steps, "message": message });
                    notify("notifications/progress", report);
                }
                std::thread::sleep(Duration::from_millis(50));
                result(&id, words("done"));
            });
        }
        "ask" if params.get("inputResponses").is_some() => {
            let answers = format!("{} {}", params["requestState"], params["inputResponses"]["q"]);
            result(&id, words(&answers));
        }
        "ask" => {
            let question = json!({
                "method": "elicitation/create",
                "params": { "mode": "form", "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } },
            });
            let asked =
                json!({ "resultType": "input_required", "inputRequests": { "q": question }, "requestState": "s1" });
            result(&id, asked);
        }
        _ => result(&id, words("called")),
    }
}

/// An answer of that many bytes, which is written without being made first.
fn big(id: &Value, bytes: usize) {
    let mut out = std::io::stdout().lock();
    let piece = [b'y'; 10_000];
    write!(out, r#"{{"result":{{"content":[{{"type":"text","text":""#).unwrap();
    for _ in 0..bytes / piece.len() {
        out.write_all(&piece).unwrap();
    }
    writeln!(out, r#""}}]}},"jsonrpc":"2.0","id":{id}}}"#).unwrap();
    out.flush().unwrap();
}

fn words(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" })
}

fn result(id: &Value, result: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn notify(method: &str, params: Value) {
    send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{message}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
