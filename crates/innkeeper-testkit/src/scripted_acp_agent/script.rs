//! The reaction of the agent to a message: its first word selects it.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::ScriptedAgent;

impl ScriptedAgent {
    /// Runs a prompt and answers it.
    pub(super) fn prompt(&self, id: &Value, params: &Value) {
        let session = params["sessionId"].as_str().unwrap();
        let blocks = params["prompt"].as_array().unwrap();
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let text = texts
            .iter()
            .rev()
            .find(|text| !text.starts_with("Attached"))
            .copied()
            .unwrap_or_default();
        let told = texts.iter().map(|text| text.matches("<user>").count()).sum::<usize>();
        self.prompts.fetch_add(1, Ordering::SeqCst);
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let outcome = match word {
            "texts" => {
                self.say(session, &texts.join(" || "));
                Ok("end_turn")
            }
            "blocks" => {
                let kinds: Vec<&str> = blocks.iter().filter_map(|block| block["type"].as_str()).collect();
                self.say(session, &kinds.join(","));
                Ok("end_turn")
            }
            "recall" => {
                let known = self.messages(session).unwrap_or_default();
                self.say(
                    session,
                    &format!("{} messages, told {told}: {}", known.len(), known.join(" | ")),
                );
                Ok("end_turn")
            }
            _ => self.perform(session, word, rest, text),
        };
        self.remember(session, Some(text));
        self.running.fetch_sub(1, Ordering::SeqCst);
        match outcome {
            Ok(reason) => self.answer(id, self.end(reason)),
            Err(problem) => self.refuse(id, -32603, &problem),
        }
        if word == "later-mode" {
            self.set_mode(session, rest);
            self.update(
                session,
                json!({ "sessionUpdate": "current_mode_update", "currentModeId": rest }),
            );
        }
    }

    fn end(&self, reason: &str) -> Value {
        let turns = self.prompts.load(Ordering::SeqCst);
        // Copilot counts since its process started, the others in the turn.
        let times = if self.has("copilot") { turns } else { 1 };
        let usage = json!({ "inputTokens": 100 * times, "outputTokens": 10 * times, "totalTokens": 110 * times, "thoughtTokens": 3 });
        match self.has("no-usage") {
            true => json!({ "stopReason": reason }),
            false => json!({ "stopReason": reason, "usage": usage }),
        }
    }

    fn perform(&self, session: &str, word: &str, rest: &str, text: &str) -> Result<&'static str, String> {
        let update = |update: Value| self.update(session, update);
        match word {
            "say" => {
                for word in rest.split_inclusive(' ') {
                    self.say(session, word);
                }
            }
            "think" => {
                let content = json!({ "type": "text", "text": rest });
                update(json!({ "sessionUpdate": "agent_thought_chunk", "content": content }));
                self.say(session, "thought about it");
            }
            "tool" => self.tool(session),
            "ask" => return Ok(self.ask(session, "announced")),
            "unannounced" => return Ok(self.ask(session, "unannounced")),
            "running" => return Ok(self.ask(session, "running")),
            "edit" => self.edit(session, rest),
            "files" => self.files(session, rest),
            "terminal" => {
                self.update(
                    session,
                    json!({ "sessionUpdate": "tool_call", "toolCallId": "x", "title": rest, "kind": "execute",
                    "status": "pending", "rawInput": { "command": rest } }),
                );
                self.terminal(session, Some("x"), rest);
            }
            "bare-terminal" => self.terminal(session, None, rest),
            "two-terminals" => {
                self.terminal(session, None, "echo bare");
                self.perform(session, "terminal", "echo called", text)?;
            }
            "plan" => {
                for done in ["pending", "completed"] {
                    let entries = json!([{ "content": "Look around", "status": done, "priority": "high" },
                                         { "content": "Leave", "status": "in_progress", "priority": "low" }]);
                    update(json!({ "sessionUpdate": "plan", "entries": entries }));
                }
                self.say(session, "planned");
            }
            "image" => {
                let content = json!({ "type": "image", "data": "AAEC", "mimeType": "image/png" });
                update(json!({ "sessionUpdate": "agent_message_chunk", "content": content }));
            }
            "title" => {
                update(json!({ "sessionUpdate": "session_info_update", "title": rest }));
                update(
                    json!({ "sessionUpdate": "usage_update", "used": 7, "size": 100, "cost": { "amount": 0.5, "currency": "USD" } }),
                );
                update(json!({ "sessionUpdate": "some_future_update" }));
                self.say(session, "titled");
            }
            "mode" if rest.is_empty() => {
                let mode = self.modes.lock().unwrap().get(session).cloned();
                self.say(session, mode.as_deref().unwrap_or("ask"));
            }
            "mode" => {
                self.set_mode(session, rest);
                update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": rest }));
                self.say(session, "changed my mode");
            }
            "slow" => return Ok(self.slow(session)),
            "die" => {
                update(
                    json!({ "sessionUpdate": "tool_call", "toolCallId": "d", "title": "Dig", "status": "in_progress" }),
                );
                self.say(session, "I am about to");
                self.remember(session, Some(text));
                eprintln!("fatal: the floor gave way");
                std::process::exit(3);
            }
            "fail" => return Err("the model is overloaded".to_owned()),
            "say-and-fail" => {
                self.say(session, "API Error: 529 overloaded");
                return Err("Internal error: API Error: 529 overloaded".to_owned());
            }
            "open" => {
                update(
                    json!({ "sessionUpdate": "tool_call", "toolCallId": "o", "title": "Open", "status": "in_progress" }),
                );
                self.say(session, "left it open");
            }
            "late-pending" => {
                let call = |status: &str| json!({ "sessionUpdate": "tool_call", "toolCallId": "k", "title": "bash", "status": status, "rawInput": {} });
                update(call("in_progress"));
                update(call("pending"));
                update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "k", "status": "completed" }));
            }
            "empty" | "later-mode" => {}
            "mcp" => self.call_tool(session, rest),
            "mcp-prompt" => self.prompt_of_server(session, rest),
            "form" => self.form(session),
            "withdraw" => self.withdraw(session),
            "mcp-tools" => self.say(session, &self.tools()),
            "embedded" => {
                let resource = json!({ "uri": "file:///srv/note", "text": "a note" });
                let content = json!({ "type": "resource", "resource": resource });
                update(json!({ "sessionUpdate": "agent_message_chunk", "content": content }));
            }
            "limit" => return Ok("max_tokens"),
            "echo" => {
                let content = json!({ "type": "text", "text": text });
                update(json!({ "sessionUpdate": "user_message_chunk", "content": content }));
                self.say(session, "heard you");
            }
            "env" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                self.say(session, &names.join(","));
            }
            "vendor" => {
                let answer = self.request("_vendor/question", json!({}));
                self.say(session, &format!("{}", answer["error"]["code"]));
            }
            _ => self.say(session, &format!("You said: {text}")),
        }
        Ok("end_turn")
    }

    fn tool(&self, session: &str) {
        self.update(
            session,
            json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read the book", "kind": "read",
            "status": "pending", "rawInput": {}, "locations": [{ "path": "/srv/book", "line": 3 }] }),
        );
        self.update(
            session,
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress",
            "rawInput": { "path": "/srv/book" } }),
        );
        let text = json!({ "type": "content", "content": { "type": "text", "text": "page one" } });
        self.update(
            session,
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [text] }),
        );
        self.update(
            session,
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed",
            "rawOutput": { "pages": 1 } }),
        );
        self.say(session, "read it");
    }

    pub(super) fn permission(&self, session: &str, call: Value) -> String {
        let option = |id: &str, kind: &str| json!({ "optionId": id, "name": format!("{id}!"), "kind": kind });
        let options = json!([
            option("yes", "allow_once"),
            option("always", "allow_always"),
            option("no", "reject_once"),
            option("never", "reject_always")
        ]);
        let answer = self.request(
            "session/request_permission",
            json!({ "sessionId": session, "toolCall": call, "options": options }),
        );
        let outcome = &answer["result"]["outcome"];
        match outcome["outcome"].as_str() {
            Some("selected") => outcome["optionId"].as_str().unwrap().to_owned(),
            other => other.unwrap_or("no answer").to_owned(),
        }
    }

    fn ask(&self, session: &str, manner: &str) -> &'static str {
        let call = json!({ "toolCallId": "a", "title": "Ring the bell", "kind": "execute", "rawInput": { "command": "ring" } });
        if manner != "unannounced" {
            let status = if manner == "running" { "in_progress" } else { "pending" };
            let mut begun = call.clone();
            begun["sessionUpdate"] = json!("tool_call");
            begun["status"] = json!(status);
            self.update(session, begun);
        }
        let chosen = self.permission(session, call);
        if chosen == "cancelled" {
            return "cancelled";
        }
        let status = if chosen == "yes" || chosen == "always" {
            "completed"
        } else {
            "failed"
        };
        self.update(
            session,
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "a", "status": status }),
        );
        if status == "failed" && self.has("codex") {
            // The turn ends with the refusal.
            return "cancelled";
        }
        self.say(session, &format!("you chose {chosen}"));
        "end_turn"
    }

    /// Asks the user with a form.
    fn form(&self, session: &str) {
        let schema = json!({ "type": "object", "properties": { "pet": { "type": "string", "enum": ["cat", "dog"] } },
                             "required": ["pet"] });
        let asked = json!({ "sessionId": session, "mode": "form", "message": "Which pet?", "requestedSchema": schema });
        let answer = self.request("elicitation/create", asked);
        self.say(session, &answer["result"].to_string());
    }

    /// Asks for a permission, and does not want to know any more.
    fn withdraw(&self, session: &str) {
        let call = json!({ "toolCallId": "a", "title": "Ring the bell", "kind": "execute" });
        let options = json!([{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }]);
        let params = json!({ "sessionId": session, "toolCall": call, "options": options });
        let (id, answer) = self.begin_request("session/request_permission", params);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let params = json!({ "requestId": id });
        self.send(&json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params }));
        let answer = answer.recv().unwrap();
        self.say(session, &answer["error"]["code"].to_string());
    }

    fn edit(&self, session: &str, path: &str) {
        let old = std::fs::read_to_string(path).ok();
        let diff = json!({ "type": "diff", "path": path, "oldText": old, "newText": "new\n" });
        let call = json!({ "toolCallId": "e", "title": "Edit", "kind": "edit", "content": [diff] });
        let mut begun = call.clone();
        begun["sessionUpdate"] = json!("tool_call");
        self.update(session, begun);
        let chosen = self.permission(session, call);
        if chosen == "yes" {
            std::fs::write(path, "new\n").unwrap();
        }
        self.update(
            session,
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "e", "status": "completed" }),
        );
        self.say(session, &format!("you chose {chosen}"));
    }

    fn files(&self, session: &str, path: &str) {
        let write = json!({ "sessionId": session, "path": path, "content": "by the host\n" });
        let written = self.request("fs/write_text_file", write);
        let read = self.request("fs/read_text_file", json!({ "sessionId": session, "path": path }));
        self.say(
            session,
            &format!("{} {}", written["error"]["message"], read["result"]["content"]),
        );
    }

    /// Runs a command in a terminal of the host, which belongs to a call of the agent or to none.
    fn terminal(&self, session: &str, call: Option<&str>, command: &str) {
        let update = |fields: Value| {
            if let Some(call) = call {
                let mut update = fields;
                update["sessionUpdate"] = json!("tool_call_update");
                update["toolCallId"] = json!(call);
                self.update(session, update);
            }
        };
        let created = self.request("terminal/create", json!({ "sessionId": session, "command": command }));
        let Some(terminal) = created["result"]["terminalId"].as_str() else {
            return self.say(session, &format!("no terminal: {}", created["error"]["message"]));
        };
        let params = json!({ "sessionId": session, "terminalId": terminal });
        let content = json!([{ "type": "terminal", "terminalId": terminal }]);
        update(json!({ "status": "in_progress", "content": content }));
        let exit = self.request("terminal/wait_for_exit", params.clone());
        let output = self.request("terminal/output", params.clone());
        update(json!({ "status": "completed" }));
        self.request("terminal/release", params);
        self.say(
            session,
            &format!(
                "exit {}: {}",
                exit["result"]["exitCode"],
                output["result"]["output"].as_str().unwrap_or_default().trim()
            ),
        );
    }

    fn slow(&self, session: &str) -> &'static str {
        self.update(session, json!({ "sessionUpdate": "tool_call", "toolCallId": "w", "title": "Wait", "kind": "execute", "status": "in_progress" }));
        self.say(session, "working");
        self.wait_for_cancel();
        if !self.has("codex") {
            self.update(
                session,
                json!({ "sessionUpdate": "tool_call_update", "toolCallId": "w", "status": "failed" }),
            );
        }
        self.say(session, " a late word");
        "cancelled"
    }
}
