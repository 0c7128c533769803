//! The mapping from ACP to the host: what an agent sends in `session/update`, in words of the host.
//!
//! Nothing here waits or has a state. [`crate::chat`] performs the updates.

mod content;
pub(crate) mod elicitation;
mod tool_call;

use innkeeper_host::agent::Usage;
use serde_json::{Map, Value, json};

use crate::learned::{self, SessionOption, SlashCommand};

pub(crate) use content::{Block, file_change, tool_content};
pub(crate) use tool_call::{Status, ToolPatch, ToolView};

/// The key of ACP's own fields in `_meta`.
pub(crate) const META: &str = "innkeeper.acp";

/// A change that an agent reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Update {
    /// Text for the user, and the message that it belongs to.
    Text { text: String, message: Option<String> },
    /// The model's thinking.
    Thought(String),
    /// An image, a file or a link in the answer.
    Block(Block),
    /// The user's own words, which some agents repeat.
    Echo,
    /// A tool call begins or changes.
    Tool(Box<ToolPatch>),
    /// The whole plan.
    Plan(Vec<PlanStep>),
    /// The slash commands of the session.
    Commands(Vec<SlashCommand>),
    /// The session has another mode.
    Mode(String),
    /// The options of the session.
    Options(Vec<SessionOption>),
    /// The title of the session.
    Title(String),
    /// The use of the context window, and the cost so far.
    Context(Map<String, Value>),
    /// A remark of the agent, not of its model.
    Notice(String),
    /// Nothing that can be read.
    Unknown(String),
    /// Something that has no place in AHP.
    Unmapped(Value),
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanStep {
    pub(crate) text: String,
    pub(crate) status: StepStatus,
}

/// The progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepStatus {
    Pending,
    Active,
    Done,
}

/// Reads the parameters of `session/update`.
pub(crate) fn update(params: &Value) -> Update {
    let update = &params["update"];
    let kind = update["sessionUpdate"].as_str().unwrap_or_default();
    match kind {
        "agent_message_chunk" => chunk(update),
        "agent_thought_chunk" => match content::block(&update["content"]) {
            Some(Block::Text(text)) => Update::Thought(text),
            _ => Update::Unknown(kind.to_owned()),
        },
        "user_message_chunk" => Update::Echo,
        "tool_call" | "tool_call_update" => match ToolPatch::read(update) {
            Some(patch) => Update::Tool(Box::new(patch)),
            None => Update::Unknown(kind.to_owned()),
        },
        "plan" => Update::Plan(plan(&update["entries"])),
        "available_commands_update" => Update::Commands(learned::commands_of(&update["availableCommands"])),
        "current_mode_update" => match update["currentModeId"].as_str() {
            Some(mode) => Update::Mode(mode.to_owned()),
            None => Update::Unknown(kind.to_owned()),
        },
        "config_option_update" => Update::Options(learned::read_options(&update["configOptions"])),
        "session_info_update" => match update["title"].as_str().filter(|title| !title.trim().is_empty()) {
            Some(title) => Update::Title(title.to_owned()),
            None => Update::Unknown(kind.to_owned()),
        },
        "usage_update" => Update::Context(context(update)),
        "notice" => match text_of(update) {
            Some(text) => Update::Notice(text),
            None => Update::Unknown(kind.to_owned()),
        },
        "" => Update::Unknown(kind.to_owned()),
        _ => Update::Unmapped(update.clone()),
    }
}

fn chunk(update: &Value) -> Update {
    match content::block(&update["content"]) {
        Some(Block::Text(text)) => Update::Text {
            text,
            message: update["messageId"].as_str().map(str::to_owned),
        },
        Some(block) => Update::Block(block),
        None => Update::Unknown("agent_message_chunk".to_owned()),
    }
}

fn text_of(update: &Value) -> Option<String> {
    let text = update["message"].as_str().or_else(|| update["text"].as_str());
    text.or_else(|| update["content"]["text"].as_str()).map(str::to_owned)
}

fn plan(entries: &Value) -> Vec<PlanStep> {
    let entries = entries.as_array().into_iter().flatten().take(200);
    let step = |entry: &Value| {
        let text = entry["content"].as_str()?;
        let status = match entry["status"].as_str() {
            Some("completed") => StepStatus::Done,
            Some("in_progress") => StepStatus::Active,
            _ => StepStatus::Pending,
        };
        Some(PlanStep {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            status,
        })
    };
    entries.filter_map(step).collect()
}

/// Renders a plan as a list of tasks in Markdown.
pub(crate) fn checklist(steps: &[PlanStep]) -> String {
    let line = |step: &PlanStep| match step.status {
        StepStatus::Pending => format!("- [ ] {}\n", step.text),
        StepStatus::Active => format!("- [ ] **{}**\n", step.text),
        StepStatus::Done => format!("- [x] {}\n", step.text),
    };
    steps.iter().map(line).collect()
}

fn context(update: &Value) -> Map<String, Value> {
    let mut context = Map::new();
    for (key, name) in [("used", "contextTokens"), ("size", "contextWindow"), ("cost", "cost")] {
        if let Some(value) = update.get(key).filter(|value| !value.is_null()) {
            context.insert(name.to_owned(), value.clone());
        }
    }
    context
}

/// The meaning of the token counts that an agent reports at the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UsageScope {
    /// The turn.
    #[default]
    Turn,
    /// The last request to the model alone: reported with a mark.
    LastCall,
    /// Everything since the process started: the counts of before are subtracted.
    Process,
}

/// Token counts at the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) thought: Option<u64>,
}

impl Tokens {
    /// Reads the answer to `session/prompt`; `None` if the agent counts nothing.
    pub(crate) fn of_answer(answer: &Value) -> Option<Self> {
        let usage = &answer["usage"];
        let count = |name: &str| usage[name].as_u64();
        if let (Some(input), Some(output)) = (count("inputTokens"), count("outputTokens")) {
            return Some(Self {
                input,
                output,
                cache_read: count("cachedReadTokens"),
                cache_write: count("cachedWriteTokens"),
                thought: count("thoughtTokens"),
            });
        }
        // Gemini counts beside the answer.
        let quota = &answer["_meta"]["quota"]["token_count"];
        Some(Self {
            input: quota["input_tokens"].as_u64()?,
            output: quota["output_tokens"].as_u64()?,
            ..Self::default()
        })
    }

    /// Returns the sum of two reports.
    pub(crate) fn plus(self, other: Self) -> Self {
        let optional = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
        };
        Self {
            input: self.input + other.input,
            output: self.output + other.output,
            cache_read: optional(self.cache_read, other.cache_read),
            cache_write: optional(self.cache_write, other.cache_write),
            thought: optional(self.thought, other.thought),
        }
    }

    /// Returns the counts since an earlier report.
    pub(crate) fn since(self, before: Self) -> Self {
        let optional = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        Self {
            input: self.input.saturating_sub(before.input),
            output: self.output.saturating_sub(before.output),
            cache_read: optional(self.cache_read, before.cache_read),
            cache_write: optional(self.cache_write, before.cache_write),
            thought: optional(self.thought, before.thought),
        }
    }

    /// Returns the counts for the host, with the context window and the cost.
    pub(crate) fn usage(self, model: Option<String>, context: &Map<String, Value>) -> Usage {
        let mut meta = context.clone();
        for (name, count) in [("cacheWriteTokens", self.cache_write), ("thoughtTokens", self.thought)] {
            if let Some(count) = count {
                meta.insert(name.to_owned(), json!(count));
            }
        }
        let short = |count: u64| u32::try_from(count).ok();
        Usage {
            input_tokens: short(self.input),
            output_tokens: short(self.output),
            cache_read_tokens: self.cache_read.and_then(short),
            model,
            meta: named(meta),
            ..Usage::default()
        }
    }
}

/// Returns fields of ACP as they stand in `_meta`.
pub(crate) fn named(fields: Map<String, Value>) -> Map<String, Value> {
    match fields.is_empty() {
        true => fields,
        false => Map::from_iter([(META.to_owned(), Value::Object(fields))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Update {
        update(&json!({ "sessionId": "s", "update": value }))
    }

    #[test]
    fn updates_are_read_and_unknown_ones_named() {
        let text = json!({ "type": "text", "text": "hi" });
        assert_eq!(
            read(json!({ "sessionUpdate": "agent_message_chunk", "content": text, "messageId": "m" })),
            Update::Text {
                text: "hi".to_owned(),
                message: Some("m".to_owned())
            }
        );
        assert_eq!(
            read(json!({ "sessionUpdate": "agent_thought_chunk", "content": text })),
            Update::Thought("hi".to_owned())
        );
        assert_eq!(
            read(json!({ "sessionUpdate": "user_message_chunk", "content": text })),
            Update::Echo
        );
        // Goose and Codex send it without a title.
        let future = json!({ "sessionUpdate": "hologram_update", "x": 1 });
        assert_eq!(read(future.clone()), Update::Unmapped(future));
        for update in [
            json!({ "sessionUpdate": "session_info_update", "updatedAt": "now" }),
            json!({}),
            json!(3),
        ] {
            assert!(matches!(read(update), Update::Unknown(_)));
        }
        let plan = read(json!({ "sessionUpdate": "plan", "entries": [
            { "content": "a\nb", "status": "completed" }, { "content": "c", "status": "in_progress" }, { "content": "d" }, 5 ] }));
        let Update::Plan(steps) = plan else { panic!("{plan:?}") };
        assert_eq!(checklist(&steps), "- [x] a b\n- [ ] **c**\n- [ ] d\n");
    }

    #[test]
    fn copilot_counts_since_the_start_of_its_process() {
        let counts = |input, output| {
            let answer = json!({ "usage": { "inputTokens": input, "outputTokens": output, "cachedReadTokens": 1 } });
            Tokens::of_answer(&answer).expect("counts")
        };
        let second = counts(250, 30).since(counts(100, 10));
        assert_eq!((second.input, second.output, second.cache_read), (150, 20, Some(0)));
    }

    #[test]
    fn gemini_counts_in_meta_and_pi_not_at_all() {
        let gemini = json!({ "stopReason": "end_turn",
            "_meta": { "quota": { "token_count": { "input_tokens": 5, "output_tokens": 6 } } } });
        assert_eq!(Tokens::of_answer(&gemini).map(|tokens| tokens.output), Some(6));
        assert_eq!(Tokens::of_answer(&json!({ "stopReason": "end_turn" })), None);
    }
}
