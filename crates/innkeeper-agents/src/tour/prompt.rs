//! The system prompt of the tour agent. No model reads it, but it is rendered and transformed as if one did: when a
//! chat is opened and in every turn (SMT-06).

use std::fmt::Write as _;

use serde_json::{Map, Value};

use innkeeper_host::agent::{PromptSection, RenderedPrompt, RenderedSection};

/// Maximum characters of a section that `/prompt` shows.
const MAX_CHARS: usize = 72;

/// Returns the sections for a session with these settings.
pub(super) fn sections(settings: &Map<String, Value>, directories: &[String]) -> Vec<PromptSection> {
    let setting = |id: &str| settings.get(id).and_then(Value::as_str);
    let tone = match setting("mood") {
        Some("grumpy") => "Be grumpy, but helpful. Begin with “Hmph.”",
        _ => "Be cheerful and brief.",
    };
    let places = match directories {
        [] => "This session works in no directory.".to_owned(),
        places => format!("This session works in {}.", places.join(", ")),
    };
    let custom = setting("topic").map_or_else(String::new, |topic| format!("This session is about {topic}."));
    vec![
        PromptSection::new("identity", "You are the tour guide of this inn."),
        PromptSection::new("tone", tone),
        PromptSection::new("tool_efficiency", "Ring the bell once, not twice."),
        PromptSection::new("environment_context", places),
        PromptSection::new("code_change_rules", "Leave the furniture where it is."),
        PromptSection::new("guidelines", "Show, do not tell. Say what to try next."),
        PromptSection::new("safety", "Never send guests out into the rain."),
        PromptSection::new("tool_instructions", "Before you ring the bell, ask."),
        PromptSection::new("custom_instructions", custom),
        PromptSection::new("runtime_instructions", "You need no key and no network."),
        PromptSection::new("last_instructions", "When in doubt, point to /help."),
    ]
}

/// Returns the sections for a subagent.
pub(super) fn for_subagent(level: u64, depth: u64) -> Vec<PromptSection> {
    vec![
        PromptSection::new(
            "identity",
            format!("You are subagent {level} of {depth} of the tour guide."),
        ),
        PromptSection::new("tone", "Say little."),
        PromptSection::new("tool_instructions", "Before you ring the bell, ask."),
    ]
}

/// Describes the first prompt of a chat.
#[derive(Debug)]
pub(super) struct First {
    bytes: usize,
    changed: Option<String>,
}

impl First {
    pub(super) fn new(prompt: &RenderedPrompt) -> Self {
        let is_changed = prompt.sections.iter().any(|section| section.changed);
        Self {
            bytes: prompt.text().len(),
            changed: prompt.client.clone().filter(|_| is_changed),
        }
    }
}

/// `/prompt`: lists the sections of this turn's prompt.
pub(super) fn overview(prompt: &RenderedPrompt, first: &First) -> String {
    let mut text = format!(
        "My instructions for this turn have {} sections and {} bytes:\n\n",
        prompt.sections.len(),
        prompt.text().len(),
    );
    for section in &prompt.sections {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {}: {}", heading(prompt, section), beginning(&section.content));
    }
    let by = match &first.changed {
        Some(client) => format!("and the client `{client}` had rewritten some of it"),
        None => "as I wrote it".to_owned(),
    };
    let _ = writeln!(
        text,
        "\nWhen this chat was opened it was {} bytes, {by}. `/prompt <section>` shows one in full.",
        first.bytes
    );
    text
}

/// `/prompt <section>`: shows one section in full.
pub(super) fn in_full(prompt: &RenderedPrompt, id: &str) -> String {
    match prompt.section(id) {
        Some(section) => format!("{}:\n\n{}\n", heading(prompt, section), section.content),
        None => {
            let known: Vec<&str> = prompt.sections.iter().map(|section| section.id.as_str()).collect();
            format!(
                "My instructions have no section `{id}`. They have: {}",
                known.join(", ")
            )
        }
    }
}

fn heading(prompt: &RenderedPrompt, section: &RenderedSection) -> String {
    let mut notes = vec![format!("{} bytes", section.content.len())];
    if section.restricted {
        notes.push("restricted".to_owned());
    }
    if let Some(client) = prompt.client.as_ref().filter(|_| section.changed) {
        notes.push(format!("rewritten by the client `{client}`"));
    }
    format!("`{}` ({})", section.id, notes.join(", "))
}

fn beginning(content: &str) -> String {
    let line = content.lines().next().unwrap_or_default();
    let start: String = line.chars().take(MAX_CHARS).collect();
    match start.len() == content.trim_end().len() {
        true if start.is_empty() => "empty".to_owned(),
        true => start,
        false => format!("{start}…"),
    }
}
