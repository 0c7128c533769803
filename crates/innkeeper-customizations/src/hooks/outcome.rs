//! The outcome of a hook, read from the exit of its command by the rules of the format it was written for.

use std::path::Path;

use innkeeper_host::customizations::{HookCall, HookEvent, HookOutcome};
use innkeeper_plugins::{HookOrigin, OnFailure};
use innkeeper_std::text::truncate;
use serde_json::{Map, Value};

use super::process::End;
use super::tool_names;

/// Maximum bytes of one text for the model or the user.
const MAX_TEXT: usize = 16 << 10;

/// The origin of the hook.
pub(super) struct Answering<'a> {
    pub(super) call: &'a HookCall,
    pub(super) origin: HookOrigin,
    pub(super) on_failure: OnFailure,
    /// The name of the hook for users.
    pub(super) name: &'a str,
    /// Whether it is the user's own, so that it may answer for the user.
    pub(super) speaks_for_users: bool,
    /// The working directory of the tools.
    pub(super) chat: &'a Path,
}

impl Answering<'_> {
    /// The meaning of the exit code.
    pub(super) fn outcome(&self, end: End) -> HookOutcome {
        let contract = self.origin.exit_contract();
        match end {
            End::Exited { code, stdout, .. } if code == Some(contract.success) => self.success(&stdout),
            End::Exited { code, stderr, stdout } if code == Some(contract.refusal) => {
                let reason = [&stderr, &stdout].into_iter().find(|text| !text.trim().is_empty());
                let reason = reason.map_or("it gave no reason", |reason| reason.trim());
                self.refusal(reason.to_owned())
            }
            End::Exited { code, stderr, .. } => {
                let how = match code {
                    Some(code) => format!("ended with exit code {code}"),
                    None => "was ended by a signal".to_owned(),
                };
                let said = truncate(stderr.trim(), 1000);
                self.failure(&match said.is_empty() {
                    true => how,
                    false => format!("{how}: {said}"),
                })
            }
            End::TimeOver { after } => self.failure(&format!(
                "took longer than {} s and was ended, with everything it had started",
                after.as_secs()
            )),
            End::NotStarted(why) => self.failure(&format!("could not be started: {why}")),
        }
    }

    /// A failed hook yields a notice and is never fatal. It blocks a tool call only if its declaration says so.
    fn failure(&self, how: &str) -> HookOutcome {
        let notice = format!("The hook {} {how}", self.name);
        match self.on_failure {
            OnFailure::Continue => HookOutcome {
                notices: vec![notice],
                ..HookOutcome::default()
            },
            OnFailure::Block => self.refusal(notice),
        }
    }

    fn refusal(&self, reason: String) -> HookOutcome {
        let reason = truncate(&reason, MAX_TEXT).into_owned();
        let mut outcome = HookOutcome::default();
        match self.call.event {
            HookEvent::PreToolUse | HookEvent::UserPromptSubmit | HookEvent::Stop | HookEvent::SubagentStop => {
                outcome.deny = Some(reason);
            }
            // It is too late to refuse, so the model gets the reason as context.
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure => outcome.context.push(reason),
            HookEvent::SessionStart | HookEvent::SessionEnd | HookEvent::SubagentStart | HookEvent::Notification => {
                outcome.notices.push(format!("The hook {} says: {reason}", self.name));
            }
        }
        outcome
    }

    fn success(&self, stdout: &str) -> HookOutcome {
        let text = stdout.trim();
        if text.is_empty() {
            return HookOutcome::default();
        }
        if let Ok(Value::Object(output)) = serde_json::from_str(text) {
            return self.read_output(&output);
        }
        // Plain output is context for the model when something begins, and is ignored elsewhere.
        let mut outcome = HookOutcome::default();
        if matches!(self.call.event, HookEvent::SessionStart | HookEvent::UserPromptSubmit) {
            outcome.context.push(truncate(text, MAX_TEXT).into_owned());
        }
        outcome
    }

    /// Reads the JSON output of a hook. Formats differ in the location of fields and not in their meaning, so the
    /// fields of all formats are understood in each.
    fn read_output(&self, output: &Map<String, Value>) -> HookOutcome {
        let own = output.get("hookSpecificOutput").and_then(Value::as_object);
        let find = |names: &[&str]| {
            let from = |map: &Map<String, Value>| names.iter().find_map(|name| map.get(*name)).cloned();
            own.and_then(from).or_else(|| from(output))
        };
        let words = |names: &[&str]| match find(names) {
            Some(Value::String(text)) if !text.trim().is_empty() => Some(truncate(text.trim(), MAX_TEXT).into_owned()),
            _ => None,
        };
        let reason = || {
            words(&[
                "permissionDecisionReason",
                "reason",
                "agent_message",
                "agentMessage",
                "user_message",
                "userMessage",
            ])
            .unwrap_or_else(|| "it gave no reason".to_owned())
        };
        let mut outcome = HookOutcome::default();
        match words(&["permissionDecision", "permission", "decision"]).as_deref() {
            Some("deny" | "block") => outcome = self.refusal(reason()),
            Some("ask") => outcome.ask = true,
            // A workspace must not allow itself everything.
            Some("allow" | "approve") => outcome.allow = self.speaks_for_users,
            _ => {}
        }
        if output.get("continue") == Some(&Value::Bool(false)) {
            let why = words(&["stopReason", "user_message", "userMessage"]).unwrap_or_else(reason);
            outcome.stop = Some(why);
        }
        // A hook of Cursor continues the agent with a message.
        if let (HookEvent::Stop | HookEvent::SubagentStop, Some(message)) =
            (self.call.event, words(&["followup_message", "followupMessage"]))
        {
            outcome.deny = Some(message);
        }
        if let Some(added) = words(&["additionalContext", "additional_context"]) {
            outcome.context.push(added);
        }
        if let Some(message) = words(&["systemMessage", "system_message"]) {
            outcome.notices.push(format!("The hook {} says: {message}", self.name));
        }
        if let (HookEvent::PreToolUse, Some(wanted)) = (
            self.call.event,
            find(&["updatedInput", "updated_input", "modifiedArgs", "modifiedInput"]),
        ) {
            outcome.input = self.input(wanted);
        }
        outcome
    }

    fn input(&self, wanted: Value) -> Option<Value> {
        let wanted = match wanted {
            Value::Object(wanted) => wanted,
            // Copilot sends JSON in a string.
            Value::String(text) => serde_json::from_str(&text).ok()?,
            _ => return None,
        };
        let before = self.call.input.get("tool_input").cloned().unwrap_or_default();
        let input = tool_names::tool_input(&self.call.subject, &before, self.chat, wanted);
        (input != before).then_some(input)
    }
}

/// Combines all outcomes: a refusal wins, then a request for confirmation. Of several inputs the last one counts, in
/// the order of the hooks. A hook that allows a call allows the input that it saw or returned, and no input of another
/// hook (P12).
pub(super) fn together(outcomes: impl IntoIterator<Item = HookOutcome>) -> HookOutcome {
    let mut all = HookOutcome::default();
    let mut allowed = Vec::new();
    for outcome in outcomes {
        if outcome.allow {
            allowed.push(outcome.input.clone());
        }
        all.deny = match (all.deny, outcome.deny) {
            (Some(first), Some(second)) if first != second => Some(format!("{first}\n{second}")),
            (first, second) => first.or(second),
        };
        all.ask |= outcome.ask;
        all.input = outcome.input.or(all.input);
        all.context.extend(outcome.context);
        all.notices.extend(outcome.notices);
        all.stop = all.stop.or(outcome.stop);
    }
    all.allow = allowed.contains(&all.input);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn p12_an_input_changed_by_another_hook_is_not_allowed() {
        let allows = |input: Option<Value>| HookOutcome {
            allow: true,
            input,
            ..HookOutcome::default()
        };
        let changes = |command: &str| HookOutcome {
            input: Some(json!({ "command": command })),
            ..HookOutcome::default()
        };
        assert!(together([allows(None)]).allow);
        for outcomes in [[allows(None), changes("evil")], [changes("evil"), allows(None)]] {
            let all = together(outcomes);
            assert!(!all.allow, "{all:?}");
            assert_eq!(all.input, Some(json!({ "command": "evil" })));
        }
        let own = Some(json!({ "command": "ls -l" }));
        assert!(together([allows(own.clone())]).allow, "its own input");
        assert!(!together([allows(own.clone()), changes("evil")]).allow);
        assert!(
            together([changes("evil"), allows(own)]).allow,
            "the last input counts, and is allowed"
        );
    }
}
