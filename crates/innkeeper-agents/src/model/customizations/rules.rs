//! Rules (CUS-26). Rules that always apply are part of the system prompt. Rules with globs are added when a turn
//! touches a matching file. The others are loaded on request.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_host::AgentError;
use innkeeper_host::agent::AppliedRule;
use innkeeper_host::customizations::{About, Rule};

use super::rule_globs::RuleScopes;
use super::{TurnContext, beginning};
use crate::model::conversation::pinned_instruction::PinnedInstruction;
use crate::model::conversation::{Conversation, Speaker, user};
use crate::model::prompt::file_path;
use crate::model::turn::TurnRun;

/// Maximum bytes of one rule.
const MAX_RULE: usize = 32 << 10;
/// Maximum bytes of all rules that always apply. For small models it is an eighth of the context window.
const MAX_ALWAYS: usize = 96 << 10;
/// Maximum bytes of rules added before one request.
const MAX_JOINING: usize = 64 << 10;

/// The rules that always apply, rendered for the system prompt.
#[derive(Debug, Default)]
pub(in crate::model) struct AlwaysRules {
    /// Text of the prompt section.
    pub(in crate::model) text: String,
    /// The rules in it.
    pub(in crate::model) applied: Vec<AppliedRule>,
    /// Notices for the user.
    pub(in crate::model) notices: Vec<String>,
}

impl AlwaysRules {
    /// Reads the rules again for every turn, so that edits take effect. `window` is the model's context window in
    /// tokens.
    pub(in crate::model) async fn load(turn_context: &TurnContext, window: u32) -> Self {
        // A token has about four bytes.
        let mut remaining = MAX_ALWAYS.min(window as usize / 8 * 4);
        let mut always = Self::default();
        // Hashes of the texts, to detect duplicates.
        let (digest, mut seen) = (RandomState::new(), HashSet::new());
        let mut left_out: usize = 0;
        for rule in turn_context.customizations.rules().filter(|rule| rule.always) {
            // Rules beyond the limit are not even read.
            if remaining == 0 {
                left_out += 1;
                continue;
            }
            let location = location_of(&rule.about);
            let text = match turn_context.customizations.text(&rule.about).await {
                Ok(text) => text,
                Err(problem) => {
                    let added = always.push(&location, &format!("(It cannot be read: {problem}.)"));
                    remaining = remaining.saturating_sub(added);
                    continue;
                }
            };
            let (start, was_cut) = beginning(&text, MAX_RULE.min(remaining));
            // AGENTS.md and CLAUDE.md are often the same file. Include it once.
            if start.is_empty() && !was_cut || !seen.insert((text.trim().len(), digest.hash_one(text.trim()))) {
                continue;
            }
            let added = if was_cut {
                always.notices.push(cut(rule));
                always.push(
                    &location,
                    &format!("{start}\n(The rest was left out because it is too long. Read the file.)"),
                )
            } else {
                always.push(&location, start)
            };
            remaining = remaining.saturating_sub(added);
            always.applied.push(applied(rule, "always", None));
        }
        if left_out > 0 {
            always
                .text
                .push_str("\n\n(More rules were left out because all of them are too long together.)");
            always.notices.push(format!(
                "The rules that always apply exceed the size limit: {} left out. Shorten them, or disable some.",
                counted(left_out)
            ));
        }
        always
    }

    /// Appends a text with its location. Returns the bytes added.
    fn push(&mut self, location: &str, text: &str) -> usize {
        let before = self.text.len();
        if before > 0 {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&format!("From {location}:\n\n{text}"));
        self.text.len() - before
    }
}

impl TurnContext {
    /// Records the rules that are part of the prompt.
    pub(in crate::model) fn apply_always_rules(&self, always: AlwaysRules) {
        for rule in always.applied {
            self.apply(rule);
        }
        for notice in always.notices {
            self.notify_once(notice);
        }
    }

    /// Returns the rules that match files touched since the last call, each with its first matching file.
    async fn rules_for_touched_files(&self) -> Vec<(Rule, PathBuf)> {
        let touched = self.take_touched();
        if touched.is_empty() {
            return Vec::new();
        }
        let scopes = Arc::clone(self.scopes.get_or_init(|| self.compile_scopes()).await);
        // Matching thousands of patterns and files runs on a blocking thread.
        let about = tokio::task::spawn_blocking(move || scopes.matching(&touched)).await;
        let mut about = about.unwrap_or_default().into_iter().peekable();
        let rules = self.customizations.rules().enumerate();
        let about = rules.filter_map(|(index, rule)| {
            let (_, file) = about.next_if(|(of, _)| *of == index)?;
            Some((rule.clone(), file))
        });
        about.collect()
    }

    /// Compiles the globs of all rules, once per turn.
    async fn compile_scopes(&self) -> Arc<RuleScopes> {
        let rules = self.customizations.rules().cloned().enumerate();
        let rules: Vec<(usize, Rule)> = rules
            .filter(|(_, rule)| !rule.always && !rule.globs.is_empty())
            .collect();
        let directories: Vec<PathBuf> = self.directories.iter().filter_map(|uri| file_path(uri)).collect();
        let reading = tokio::task::spawn_blocking(move || RuleScopes::compile(&rules, &directories));
        let scopes = reading.await.unwrap_or_default();
        if scopes.left_out > 0 {
            self.notify_once(format!(
                "The rules for files have too many patterns: {} left out. Disable some.",
                counted(scopes.left_out)
            ));
        }
        Arc::new(scopes)
    }
}

impl TurnRun<'_> {
    /// Adds the rules that match touched files before the next request. Each is added once per chat, and again if it
    /// changed.
    pub(in crate::model) async fn apply_file_rules(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        let mut remaining = MAX_JOINING;
        let mut joined = false;
        let mut left_out: usize = 0;
        for (rule, file) in self.turn_context.rules_for_touched_files().await {
            if remaining == 0 {
                if conversation.has_pinned(&rule.about.id) {
                    self.turn_context.apply(applied(&rule, "glob", Some(&file)));
                } else {
                    left_out += 1;
                }
                continue;
            }
            let Ok(text) = self.turn_context.customizations.text(&rule.about).await else {
                let name = rule.about.full_name();
                self.turn_context
                    .notify_once(format!("The rule {name} could not be read and was not applied."));
                continue;
            };
            let mut pinned = PinnedInstruction {
                id: rule.about.id.clone(),
                title: format!("the rule {} ({})", rule.about.full_name(), location_of(&rule.about)),
                text: beginning(&text, MAX_RULE).0.to_owned(),
                only_turn: None,
            };
            if pinned.text.is_empty() {
                continue;
            }
            self.turn_context.apply(applied(&rule, "glob", Some(&file)));
            // Compare without the size limit, so that a small remaining budget does not add a shorter version.
            if conversation.has_pinned_version(&pinned) {
                continue;
            }
            let (start, was_cut) = beginning(&text, MAX_RULE.min(remaining));
            if was_cut {
                self.turn_context.notify_once(cut(&rule));
                start.clone_into(&mut pinned.text);
                if conversation.has_pinned_version(&pinned) {
                    continue;
                }
            }
            remaining -= start.len();
            joined = true;
            let message = format!(
                "A rule of this project holds for {}:\n\n{}",
                file.display(),
                pinned.render()
            );
            conversation.push(Speaker::Host, user(message));
            conversation.pin(vec![pinned]);
        }
        if left_out > 0 {
            self.turn_context.notify_once(format!(
                "The rules for the files of this turn exceed the size limit: {} left out. Shorten them, or disable some.",
                counted(left_out)
            ));
        }
        if joined {
            self.persist_memory(conversation).await?;
        }
        self.show_notices(conversation).await
    }
}

/// Describes an applied rule for clients.
pub(super) fn applied(rule: &Rule, reason: &'static str, file: Option<&Path>) -> AppliedRule {
    AppliedRule {
        id: rule.about.id.clone(),
        name: rule.about.full_name(),
        uri: rule.about.uri.clone(),
        reason,
        file: file.map(|file| file.display().to_string()),
    }
}

fn cut(rule: &Rule) -> String {
    let name = rule.about.full_name();
    format!("The rule {name} is too long: the model got only its beginning. Shorten it, or split it.")
}

/// Formats the number of rules with its verb.
fn counted(rules: usize) -> String {
    match rules {
        1 => "1 rule was".to_owned(),
        rules => format!("{rules} rules were"),
    }
}

/// Returns the path of a customization, or its URI if it is not a local file.
pub(super) fn location_of(about: &About) -> String {
    file_path(&about.uri).map_or_else(|| about.uri.clone(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use innkeeper_host::async_trait;
    use innkeeper_host::customizations::{CustomizationSet, Texts, TurnCustomizations};

    use super::*;

    /// Returns long texts that start with the rule's name, and counts the reads.
    #[derive(Default)]
    struct LongTexts(Arc<AtomicUsize>);

    #[async_trait]
    impl Texts for LongTexts {
        async fn read(&self, about: &About) -> Result<String, String> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(format!("{} {}", about.name, "really ".repeat(MAX_RULE / 7)))
        }
    }

    #[tokio::test]
    async fn cus26_rules_beyond_the_limit_are_not_read_and_reported_in_one_notice() {
        let read = Arc::new(AtomicUsize::new(0));
        let rules = (0..1000).map(|number| Rule {
            about: About {
                id: format!("id-{number}"),
                name: format!("rule-{number}"),
                ..About::default()
            },
            always: true,
            ..Rule::default()
        });
        let set = CustomizationSet {
            rules: rules.collect(),
            texts: Arc::new(LongTexts(Arc::clone(&read))),
            ..CustomizationSet::default()
        };
        let customizations = TurnCustomizations::new(Arc::new(set), Arc::default());
        let always = AlwaysRules::load(&TurnContext::new(customizations, &[], None), u32::MAX).await;
        let added = always.applied.len();
        assert!(always.text.len() < MAX_ALWAYS + 1000, "{}", always.text.len());
        assert_eq!(read.load(Ordering::SeqCst), added);
        assert_eq!(always.notices.len(), added + 1, "{:?}", always.notices);
        let left_out = always.notices.last().map(String::as_str).unwrap_or_default();
        assert!(
            left_out.contains(&format!("{} rules were left out", 1000 - added)),
            "{left_out}"
        );
    }
}
