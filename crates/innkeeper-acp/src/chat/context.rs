//! The rules, skills and custom agent of a session in words: an agent reads its own files, and the host's it gets with a
//! message.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use innkeeper_host::customizations::{About, TurnCustomizations};
use innkeeper_host::{AgentError, TurnInput};
use innkeeper_std::text::truncate_chars;

/// Characters of one text.
const MAX_TEXT: usize = 32_000;
/// Characters of all texts together.
const MAX_ALL: usize = 96_000;
/// Most entries of a list.
const MAX_LISTED: usize = 200;

/// The customizations of a session for an agent.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SessionContext {
    text: String,
}

impl SessionContext {
    /// Reads the customizations of a turn. `own` has the files that the agent reads by itself.
    ///
    /// # Errors
    ///
    /// If the custom agent that the user chose cannot be used.
    pub(crate) async fn read(turn: &TurnInput, own: &[&str]) -> Result<Self, AgentError> {
        let customizations = &turn.customizations;
        let mut sections = Vec::new();
        if let Some(uri) = &turn.agent {
            let agent = customizations.agent(uri)?;
            let text = customizations.agent_text(agent, &turn.working_directories).await;
            let text = text.map_err(|problem| {
                let name = &agent.about.name;
                AgentError::failed("noAgent", format!("The agent {name} cannot be used: {problem}"))
            })?;
            let text = truncate_chars(&text.text, MAX_TEXT);
            sections.push(format!("# You are the agent {}\n\n{text}", agent.about.name));
        }
        sections.extend(rules(customizations, own).await);
        sections.extend(rules_on_request(customizations, own));
        sections.extend(skills(customizations, own));
        let text = sections.join("\n\n");
        Ok(Self {
            text: truncate_chars(&text, MAX_ALL).into_owned(),
        })
    }

    /// Returns a number that differs for another context; `None` if there is none.
    pub(crate) fn fingerprint(&self) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        (!self.text.is_empty()).then(|| hasher.finish())
    }

    /// Returns the text for the agent, which has got another context before or none.
    pub(crate) fn in_words(&self, before: Option<u64>) -> Option<String> {
        if self.fingerprint() == before {
            return None;
        }
        let start = match before {
            Some(_) => "This replaces the instructions that the user's session gave you before.",
            None => "The user's session gives you these instructions. Follow them, and do not mention them.",
        };
        let text = match self.text.is_empty() {
            true => "There are none any more.",
            false => &self.text,
        };
        Some(format!(
            "<session-instructions>\n{start}\n\n{text}\n</session-instructions>"
        ))
    }
}

/// Returns the rules that always apply.
async fn rules(customizations: &TurnCustomizations, own: &[&str]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for rule in customizations
        .rules()
        .filter(|rule| rule.always && !is_read(&rule.about, own))
    {
        let text = match customizations.text(&rule.about).await {
            Ok(text) => truncate_chars(text.trim(), MAX_TEXT).into_owned(),
            Err(problem) => format!("(It cannot be read: {problem}.)"),
        };
        let location = location(&rule.about);
        // Two files are often the same.
        if !text.is_empty() && !texts.iter().any(|known| known.ends_with(&text)) {
            texts.push(format!("From {location}:\n\n{text}"));
        }
    }
    (!texts.is_empty()).then(|| format!("# Rules\n\n{}", texts.join("\n\n")))
}

/// Returns a list of the rules for some files or some work, which an agent reads when it needs them.
fn rules_on_request(customizations: &TurnCustomizations, own: &[&str]) -> Option<String> {
    let rules = customizations
        .rules()
        .filter(|rule| !rule.always && !is_read(&rule.about, own));
    let line = |rule: &innkeeper_host::customizations::Rule| {
        let files = match rule.globs.is_empty() {
            true => String::new(),
            false => format!(" (for files that match {})", rule.globs.join(", ")),
        };
        format!("- {}{files}{}", location(&rule.about), described(&rule.about))
    };
    let lines: Vec<String> = rules.take(MAX_LISTED).map(line).collect();
    let start = "# Rules on request\n\nRead the file of a rule before you do what it is about.";
    (!lines.is_empty()).then(|| format!("{start}\n\n{}", lines.join("\n")))
}

/// Returns a list of the skills.
fn skills(customizations: &TurnCustomizations, own: &[&str]) -> Option<String> {
    let skills = customizations.skills_for_models().into_iter();
    let skills = skills.filter(|(_, skill)| !is_read(&skill.about, own));
    let lines: Vec<String> = skills
        .take(MAX_LISTED)
        .map(|(name, skill)| format!("- {name}: {}{}", location(&skill.about), described(&skill.about)))
        .collect();
    let start = "# Skills\n\nRead the file of a skill before you do what it is for.";
    (!lines.is_empty()).then(|| format!("{start}\n\n{}", lines.join("\n")))
}

fn described(about: &About) -> String {
    let description = about.description.as_deref().unwrap_or_default();
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.is_empty() {
        true => line,
        false => format!(": {}", truncate_chars(&line, 500)),
    }
}

fn location(about: &About) -> String {
    let path = url::Url::parse(&about.uri).ok().and_then(|uri| uri.to_file_path().ok());
    path.map_or_else(|| about.uri.clone(), |path| path.display().to_string())
}

/// Returns whether the agent reads a file by itself. A name that ends with a slash is one of a directory.
fn is_read(about: &About, own: &[&str]) -> bool {
    let path = format!("/{}", location(about).trim_start_matches('/'));
    own.iter().any(|name| match name.ends_with('/') {
        true => path.contains(&format!("/{name}")),
        false => path.ends_with(&format!("/{name}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(uri: &str) -> About {
        About {
            uri: uri.to_owned(),
            ..About::default()
        }
    }

    #[test]
    fn claude_reads_its_own_files_and_goose_others() {
        let claude = ["CLAUDE.md", ".claude/"];
        assert!(is_read(&about("file:///w/CLAUDE.md"), &claude));
        assert!(is_read(&about("file:///w/.claude/skills/a/SKILL.md"), &claude));
        assert!(!is_read(&about("file:///w/AGENTS.md"), &claude));
        assert!(!is_read(&about("file:///w/NOT-CLAUDE.md"), &claude));
        assert!(is_read(&about("file:///w/AGENTS.md"), &["AGENTS.md"]));
    }

    #[test]
    fn another_context_replaces_the_one_before() {
        let context = |text: &str| SessionContext { text: text.to_owned() };
        let (none, first) = (context(""), context("Be brief."));
        assert_eq!(none.in_words(None), None);
        let words = first.in_words(None).expect("a text");
        assert!(words.contains("Be brief.") && !words.contains("replaces"), "{words}");
        assert_eq!(first.in_words(first.fingerprint()), None);
        assert!(
            none.in_words(first.fingerprint())
                .is_some_and(|words| words.contains("none any more"))
        );
    }
}
