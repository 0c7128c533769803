//! Shows the customizations of the session, so that they can be tried without a model.

use std::fmt::Write as _;

use super::questions::describe;
use innkeeper_host::customizations::{About, Called, TurnCustomizations};
use innkeeper_host::{AgentError, EventSink, TurnInput};

/// Maximum number of listed entries of one kind.
const MOST: usize = 100;

/// Lists all customizations with their audience.
pub(super) fn overview(turn: &TurnInput) -> String {
    let given = &turn.customizations;
    if !given.is_known() {
        return "This host has no discovery of customizations, so I have none.\n".to_owned();
    }
    let mut text = String::new();
    let skills = given.skills().map(|skill| {
        let gate = gate(skill.for_users, skill.for_models);
        line(&skill.about, &gate)
    });
    list(&mut text, "Skills", skills.collect());
    list(
        &mut text,
        "Prompts",
        given.prompts().map(|prompt| line(&prompt.about, "")).collect(),
    );
    let agents = given.agents().map(|agent| {
        let mut more = gate(agent.for_users, agent.for_models);
        if let Some(model) = &agent.model {
            // Writing to a String cannot fail.
            let _ = write!(more, ", model {model}");
        }
        if !agent.tools.is_empty() {
            let _ = write!(more, ", tools {}", agent.tools.join(" "));
        }
        line(&agent.about, &more)
    });
    list(&mut text, "Agents", agents.collect());
    let rules = given.rules().map(|rule| {
        let when = match (rule.always, rule.globs.as_slice()) {
            (true, _) => ", always".to_owned(),
            (false, []) => ", on request".to_owned(),
            (false, globs) => format!(", for `{}`", globs.join("`, `")),
        };
        line(&rule.about, &when)
    });
    list(&mut text, "Rules", rules.collect());
    if text.is_empty() {
        return "I was given no skills, prompts, agents or rules. Put some into the workspace, and ask again.\n"
            .to_owned();
    }
    text
}

fn list(text: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "**{title}** ({})\n", lines.len());
    for line in lines.iter().take(MOST) {
        text.push_str(line);
    }
    if let more @ 1.. = lines.len().saturating_sub(MOST) {
        let _ = writeln!(text, "- and {more} more");
    }
    text.push('\n');
}

fn line(about: &About, more: &str) -> String {
    let description = about.description.as_deref().unwrap_or("no description");
    let description: String = description.chars().take(120).collect();
    format!("- `{}`{more}: {}\n", about.full_name(), description.replace('\n', " "))
}

fn gate(for_users: bool, for_models: bool) -> String {
    match (for_users, for_models) {
        (true, true) => String::new(),
        (true, false) => ", for users only".to_owned(),
        (false, true) => ", for models only".to_owned(),
        (false, false) => ", for neither users nor models".to_owned(),
    }
}

/// Shows a skill or prompt as a model would get it.
pub(super) fn called(called: &Called) -> String {
    let mut text = format!(
        "You called `{}` ({}). A model would be told:\n\n{}\n",
        called.about.full_name(),
        called.about.uri,
        called.text
    );
    for attachment in &called.attachments {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n(and shown {})", describe(attachment));
    }
    text
}

/// Shows the selected custom agent and its instructions.
pub(super) async fn introduce(given: &TurnCustomizations, uri: &str, events: &EventSink) -> Result<(), AgentError> {
    let chosen = given.agent(uri)?;
    let role = given.agent_text(chosen, &[]).await;
    let role = role.map_err(|problem| AgentError::failed("noAgent", problem))?.text;
    let name = chosen.about.full_name();
    let first = role.trim().lines().next().unwrap_or_default();
    events
        .notice(format!("The agent {name} was chosen. A model would be told: {first}"))
        .await
}
