//! Skills. The prompt lists their names and descriptions, and the model loads one when it needs it. Rules without
//! globs are listed and loaded in the same way.

use std::collections::HashSet;

use innkeeper_host::AgentError;
use innkeeper_host::agent::{Invocation, ToolDraft, ToolResult};
use innkeeper_host::customizations::{About, Rule, Skill, TurnCustomizations, by_name};
use serde_json::Value;

use super::rules::{applied, location_of};
use super::{EARLIER, TurnContext, beginning, description_line};
use crate::model::conversation::pinned_instruction::PinnedInstruction;
use crate::model::conversation::{Conversation, Speaker, user};
use crate::model::turn::TurnRun;
use crate::tools::{ToolAnswer, list_files};

/// Maximum bytes of the list in the prompt.
const MAX_LIST: usize = 12 << 10;
/// Maximum bytes of a description in the list.
const MAX_DESCRIPTION: usize = 300;
/// Maximum bytes of a loaded skill.
const MAX_SKILL: usize = 64 << 10;
/// Maximum number of listed files of a skill.
const MAX_FILES: usize = 100;
/// Maximum number of search results.
const MAX_FOUND: usize = 30;

/// A customization that can be loaded by name.
#[derive(Clone, Copy)]
enum Loadable<'a> {
    Skill(&'a Skill),
    Rule(&'a Rule),
}

impl<'a> Loadable<'a> {
    fn about(self) -> &'a About {
        match self {
            Self::Skill(skill) => &skill.about,
            Self::Rule(rule) => &rule.about,
        }
    }
}

/// Returns everything that the model may load, with names.
fn loadable(customizations: &TurnCustomizations) -> Vec<(String, Loadable<'_>)> {
    let skills = customizations.skills_for_models().into_iter();
    let mut all: Vec<_> = skills.map(|(name, skill)| (name, Loadable::Skill(skill))).collect();
    let on_request = customizations
        .rules()
        .filter(|rule| !rule.always && rule.globs.is_empty());
    let mut taken: HashSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
    for rule in on_request {
        let name = rule.about.full_name();
        if taken.insert(name.clone()) {
            all.push((name, Loadable::Rule(rule)));
        }
    }
    all
}

/// Returns true if a session has anything that `use_skill` could load.
pub(in crate::model) fn has_skills(session: &TurnCustomizations) -> bool {
    let mut rules = session.rules();
    session.skills().any(|skill| skill.for_models) || rules.any(|rule| !rule.always && rule.globs.is_empty())
}

impl TurnContext {
    /// Lists the loadable skills for the prompt.
    pub(in crate::model) fn skill_list(&self) -> String {
        let all = loadable(&self.customizations);
        if all.is_empty() {
            return String::new();
        }
        let mut text = "Skills are instructions for particular tasks. Before you do what one of them is for, load it \
                        with `use_skill`:"
            .to_owned();
        let mut listed = 0;
        for (name, item) in &all {
            let line = line(name, item.about());
            if text.len() + line.len() > MAX_LIST {
                break;
            }
            text.push_str(&line);
            listed += 1;
        }
        if let more @ 1.. = all.len() - listed {
            text.push_str(&format!(
                "\n- and {more} more, which `use_skill` finds with `search` and a word or two"
            ));
        }
        text
    }
}

fn line(name: &str, about: &About) -> String {
    match beginning(&description_line(about), MAX_DESCRIPTION) {
        ("", _) => format!("\n- {name}"),
        (start, true) => format!("\n- {name}: {start} …"),
        (start, false) => format!("\n- {name}: {start}"),
    }
}

/// Runs `use_skill`: loads one skill or searches.
pub(in crate::model) async fn use_skill(
    draft: ToolDraft,
    input: Value,
    run: &TurnRun<'_>,
) -> Result<ToolAnswer, AgentError> {
    let field = |name: &str| {
        let text = input.get(name).and_then(Value::as_str);
        text.map(str::trim).filter(|text| !text.is_empty())
    };
    let (name, query) = (field("name"), field("search"));
    let title = match (name, query) {
        (Some(name), _) => format!("Uses the skill `{name}`"),
        (None, Some(query)) => format!("Looks for skills: {query}"),
        (None, None) => "Uses a skill".to_owned(),
    };
    // Ask hooks and the user first. A refused call loads nothing and makes nothing readable.
    let call = draft.run(Invocation::new(title).input(input.to_string())).await?;
    let outcome = match (name, query) {
        (Some(name), _) => {
            let loaded = load(run, name, field("arguments").unwrap_or_default()).await;
            loaded.map(|text| (format!("Loaded the skill `{name}`"), text))
        }
        (None, Some(query)) => Ok((
            "Looked for skills".to_owned(),
            search(&run.turn_context.customizations, query),
        )),
        (None, None) => Err("give the `name` of a skill, or words to `search` for".to_owned()),
    };
    match outcome {
        Ok((summary, text)) => {
            call.complete(ToolResult::text(summary, text.clone())).await?;
            Ok(ToolAnswer::ok(text))
        }
        Err(problem) => {
            call.complete(ToolResult::failed("Could not load the skill", problem.clone()))
                .await?;
            Ok(ToolAnswer::failed(problem))
        }
    }
}

/// Loads a skill or rule by name, pins it and makes its files readable. Returns the rendered text.
async fn load(run: &TurnRun<'_>, name: &str, arguments: &str) -> Result<String, String> {
    let turn_context = &run.turn_context;
    let bare = name.trim_start_matches('/');
    let all = loadable(&turn_context.customizations);
    let exact = all.iter().find(|(known, _)| known == bare).map(|(_, item)| *item);
    let item = match exact {
        Some(item) => item,
        None => by_full_name(&turn_context.customizations, bare)
            .ok_or_else(|| refusal(&turn_context.customizations, bare))?,
    };
    let (title, text, beside) = match item {
        Loadable::Skill(skill) => {
            let expanded = turn_context
                .customizations
                .skill_text(skill, arguments, &run.tool_env.working_directories)
                .await?;
            turn_context.allow_reading_with_plugin(skill.directory.as_deref(), expanded.plugin_root.as_deref());
            let beside = match &skill.directory {
                Some(directory) => files_beside(directory.clone()).await,
                None => String::new(),
            };
            ("skill", expanded.text, beside)
        }
        Loadable::Rule(rule) => {
            let text = turn_context.customizations.text(&rule.about).await?;
            turn_context.apply(applied(rule, "request", None));
            ("rule", text, String::new())
        }
    };
    let about = item.about();
    let (start, was_cut) = beginning(&text, MAX_SKILL);
    let mut text = start.to_owned();
    if was_cut {
        text.push_str(&format!(
            "\n(The rest was left out because it is too long. Read {}.)",
            location_of(about)
        ));
    }
    text.push_str(&beside);
    let pinned = PinnedInstruction {
        id: about.id.clone(),
        title: format!("the {title} {}", about.full_name()),
        text,
        only_turn: None,
    };
    let rendered = pinned.render();
    turn_context.state().loaded.push(pinned);
    Ok(rendered)
}

impl TurnRun<'_> {
    /// Removes pinned instructions that were disabled or deleted, restores those in use, and records the rules that
    /// still apply.
    pub(in crate::model) async fn refresh_pinned(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        if let Some(ids) = self.turn_context.available_ids()
            && conversation.unpin_missing(&ids)
        {
            self.persist_memory(conversation).await?;
        }
        self.restore_pinned(conversation).await?;
        for rule in self.turn_context.customizations.rules().filter(|rule| !rule.always) {
            if conversation.has_pinned(&rule.about.id) {
                self.turn_context.apply(applied(rule, EARLIER, None));
            }
        }
        Ok(())
    }

    /// Reloads the instructions that were in use before a restart. The history does not contain them.
    async fn restore_pinned(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        let customizations = &self.turn_context.customizations;
        for id in conversation.memory.in_use.clone() {
            let skill = customizations.skills().find(|skill| skill.about.id == id);
            let rule = customizations.rules().find(|rule| rule.about.id == id);
            let Some(about) = skill.map(|skill| &skill.about).or_else(|| rule.map(|rule| &rule.about)) else {
                continue;
            };
            let text = match skill {
                // The arguments of the earlier use are unknown.
                Some(skill) => {
                    let directories = &self.tool_env.working_directories;
                    let expanded = customizations.skill_text(skill, "", directories).await;
                    let root = expanded
                        .as_ref()
                        .ok()
                        .and_then(|expanded| expanded.plugin_root.as_deref());
                    self.turn_context
                        .allow_reading_with_plugin(skill.directory.as_deref(), root);
                    expanded.map(|expanded| expanded.text)
                }
                None => customizations.text(about).await,
            };
            let Some(text) = text.ok().filter(|_| !conversation.has_pinned(&id)) else {
                continue;
            };
            let pinned = PinnedInstruction {
                id,
                title: format!("{} ({})", about.full_name(), location_of(about)),
                text: beginning(&text, MAX_SKILL).0.to_owned(),
                only_turn: None,
            };
            if !conversation.adopt_pinned(&pinned) {
                let message = format!(
                    "These instructions were in use before and still hold:\n\n{}",
                    pinned.render()
                );
                conversation.push(Speaker::Host, user(message));
                conversation.pin(vec![pinned]);
            }
        }
        Ok(())
    }
}

/// Finds a skill, or a rule with globs, by its full name.
fn by_full_name<'a>(customizations: &'a TurnCustomizations, name: &str) -> Option<Loadable<'a>> {
    let skills: Vec<&Skill> = customizations.skills().filter(|skill| skill.for_models).collect();
    let rules: Vec<&Rule> = customizations.rules().filter(|rule| !rule.always).collect();
    let skill = by_name(skills.iter().copied(), |skill| &skill.about, name).map(Loadable::Skill);
    skill.or_else(|| by_name(rules.iter().copied(), |rule| &rule.about, name).map(Loadable::Rule))
}

fn refusal(customizations: &TurnCustomizations, name: &str) -> String {
    let skills: Vec<&Skill> = customizations.skills().collect();
    match by_name(skills.iter().copied(), |skill| &skill.about, name) {
        Some(skill) if skill.for_users => {
            return format!("only the user may use the skill {name:?}: they call it with /{name}");
        }
        Some(_) => {
            return format!(
                "the skill {name:?} cannot be used: its file forbids calls by users and by models; continue without it"
            );
        }
        None => {}
    }
    format!("there is no skill {name:?}, or it is switched off: look for another one with `search`")
}

/// Lists the other files of a skill, which the model can read.
async fn files_beside(directory: std::path::PathBuf) -> String {
    let shown = directory.display().to_string();
    let listing = tokio::task::spawn_blocking(move || list_files(&directory, MAX_FILES + 1)).await;
    let Ok(Ok((files, is_all))) = listing else {
        return String::new();
    };
    let beside: Vec<&str> = files
        .iter()
        .map(String::as_str)
        .filter(|file| *file != "SKILL.md")
        .collect();
    if beside.is_empty() {
        return String::new();
    }
    let rest = if is_all { "" } else { "\n- and more" };
    format!(
        "\n\nThe files of this skill are in {shown}; read them with `read_file` and the full path:\n- {}{rest}",
        beside.join("\n- ")
    )
}

/// Returns the customizations whose name or description contains all words.
fn search(customizations: &TurnCustomizations, query: &str) -> String {
    let query: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let fits = |name: &str, about: &About| {
        let text = format!("{name} {}", about.description.as_deref().unwrap_or_default()).to_lowercase();
        query.iter().all(|word| text.contains(word.as_str()))
    };
    let all = loadable(customizations);
    let found: Vec<String> = all
        .iter()
        .filter(|(name, item)| fits(name, item.about()))
        .map(|(name, item)| line(name, item.about()))
        .collect();
    match found.as_slice() {
        [] => "No skill has these words in its name or description. Try fewer or others.".to_owned(),
        found => {
            let more = match found.len().saturating_sub(MAX_FOUND) {
                0 => String::new(),
                more => format!("\n- and {more} more: use further words"),
            };
            let shown: String = found.iter().take(MAX_FOUND).map(String::as_str).collect();
            format!("{}{more}", shown.trim_start())
        }
    }
}
