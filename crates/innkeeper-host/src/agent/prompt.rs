//! System prompts, put together from sections that clients may rewrite.
//!
//! An agent publishes its sections once, with
//! [`AgentInfo::with_section`](super::AgentInfo::with_section), and has every prompt rendered: when
//! a chat opens with [`ChatContext::render_prompt`](super::ChatContext::render_prompt), in a turn
//! with [`EventSink::render_prompt`](super::EventSink::render_prompt). A client that asked for some
//! of the sections gets their text and may send back another; the agent gets the outcome and need not know whether a
//! client was involved.

use std::collections::HashSet;

use super::AgentError;

/// A section of a system prompt, as the agent wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSection {
    /// Its id, unique in the prompt.
    pub id: String,
    /// The text of the section.
    pub content: String,
}

impl PromptSection {
    /// A section.
    pub fn new(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            content: content.into(),
        }
    }
}

/// A system prompt as the model should get it. Made by
/// [`EventSink::render_prompt`](super::EventSink::render_prompt) in a turn, and by
/// [`ChatContext::render_prompt`](super::ChatContext::render_prompt) when a chat opens.
///
/// ```
/// use innkeeper_host::agent::{PromptSection, Section};
/// use innkeeper_host::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, TurnInput, async_trait};
///
/// struct Clerk;
///
/// fn sections() -> Vec<PromptSection> {
///     vec![
///         PromptSection::new("identity", "You keep the books."),
///         PromptSection::new("tone", "Be brief."),
///     ]
/// }
///
/// #[async_trait]
/// impl Agent for Clerk {
///     fn info(&self) -> AgentInfo {
///         AgentInfo::new("clerk", "Clerk", "Keeps the books.")
///             .with_section(Section::new("identity", "Identity").description("Who it is.").restricted())
///             .with_section(Section::new("tone", "Tone"))
///     }
///     async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
///         let prompt = cx.render_prompt(sections()).await?;
///         println!("starts with {} bytes", prompt.text().len());
///         Ok(Box::new(Clerk))
///     }
/// }
///
/// #[async_trait]
/// impl AgentChat for Clerk {
///     async fn run_turn(&mut self, _: TurnInput, events: EventSink) -> Result<(), AgentError> {
///         let prompt = events.render_prompt(sections()).await?;
///         // The model gets `prompt.text()`.
///         events.text(format!("My instructions have {} bytes.", prompt.text().len())).await
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    /// The sections, in the agent's order.
    pub sections: Vec<RenderedSection>,
    /// The client whose answer was taken, if one was asked and answered well.
    pub client: Option<String>,
}

/// A section of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedSection {
    /// Its id.
    pub id: String,
    /// The text of the section after the rewrite.
    pub content: String,
    /// Whether that is not what the agent wrote.
    pub changed: bool,
    /// Whether no client may rewrite it.
    pub restricted: bool,
}

impl RenderedPrompt {
    /// Returns the prompt without any rewrite.
    pub(crate) fn unchanged(sections: Vec<PromptSection>) -> Self {
        let sections = sections.into_iter().map(|section| RenderedSection {
            id: section.id,
            content: section.content,
            changed: false,
            restricted: false,
        });
        Self {
            sections: sections.collect(),
            client: None,
        }
    }

    /// The whole prompt: every section that says anything, with a blank line between them.
    pub fn text(&self) -> String {
        let said = self.sections.iter().map(|section| section.content.trim_end());
        let said: Vec<&str> = said.filter(|content| !content.trim().is_empty()).collect();
        said.join("\n\n")
    }

    /// One section, if the prompt has it.
    pub fn section(&self, id: &str) -> Option<&RenderedSection> {
        self.sections.iter().find(|section| section.id == id)
    }
}

/// Refuses a prompt in which an id names two sections: an answer could not tell them apart.
pub(super) fn check(sections: &[PromptSection]) -> Result<(), AgentError> {
    let mut ids = HashSet::new();
    match sections.iter().find(|section| !ids.insert(&section.id)) {
        Some(twice) => Err(AgentError::failed(
            "duplicateSection",
            format!(
                "the agent's system prompt has two sections {:?}; give every section an id of its own",
                twice.id
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_its_sections_with_blank_lines_between_them() {
        let prompt = RenderedPrompt::unchanged(vec![
            PromptSection::new("identity", "You keep the books.\n"),
            PromptSection::new("tone", " \n"),
            PromptSection::new("guidelines", "  First this.\nThen that."),
        ]);
        assert_eq!(prompt.text(), "You keep the books.\n\n  First this.\nThen that.");
        assert_eq!(RenderedPrompt::unchanged(Vec::new()).text(), "");
    }

    #[test]
    fn a_prompt_with_two_sections_of_one_name_is_refused() {
        let twice = [PromptSection::new("tone", "a"), PromptSection::new("tone", "b")];
        let refused = check(&twice).expect_err("two of one name");
        assert!(refused.to_string().contains("two sections \"tone\""), "{refused}");
    }
}
