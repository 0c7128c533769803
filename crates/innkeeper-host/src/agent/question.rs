//! Questions that an agent asks users.

use innkeeper_core::agent::Questions;

use super::{Choice, Question, QuestionKind};

/// Questions that are asked together (INP-07).
///
/// ```
/// use innkeeper_host::agent::{Choice, Form};
///
/// let form = Form::new("A few things before I book.")
///     .text("name", "In whose name?")
///     .required()
///     .integer("nights", "How many nights?")
///     .one("room", "Which room?", [Choice::new("garden", "Garden"), Choice::new("street", "Street")]);
/// # drop(form);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Form {
    message: Option<String>,
    url: Option<String>,
    questions: Vec<Question>,
    /// Whether an MCP server asks, and not the agent.
    is_elicited: bool,
}

impl Form {
    /// A form with a sentence that says why the agent asks.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: Some(message.into()),
            ..Self::default()
        }
    }

    /// A page to visit instead of questions (INP-08).
    pub(super) fn visit(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::new(message)
        }
    }

    /// Says that an MCP server asks.
    pub(crate) fn elicited(mut self) -> Self {
        self.is_elicited = true;
        self
    }

    pub(super) fn is_elicited(&self) -> bool {
        self.is_elicited
    }

    /// Asks for words. `id` comes back with the answer.
    #[must_use]
    pub fn text(self, id: impl Into<String>, message: impl Into<String>) -> Self {
        let kind = QuestionKind::Text {
            format: None,
            default: None,
            min: None,
            max: None,
        };
        self.add(id, message, kind)
    }

    /// Asks for a number.
    #[must_use]
    pub fn number(self, id: impl Into<String>, message: impl Into<String>) -> Self {
        let kind = QuestionKind::Number {
            min: None,
            max: None,
            default: None,
        };
        self.add(id, message, kind)
    }

    /// Asks for a whole number.
    #[must_use]
    pub fn integer(self, id: impl Into<String>, message: impl Into<String>) -> Self {
        let kind = QuestionKind::Integer {
            min: None,
            max: None,
            default: None,
        };
        self.add(id, message, kind)
    }

    /// Asks for yes or no.
    #[must_use]
    pub fn boolean(self, id: impl Into<String>, message: impl Into<String>) -> Self {
        self.add(id, message, QuestionKind::Boolean { default: None })
    }

    /// Asks for one of several.
    #[must_use]
    pub fn one(
        self,
        id: impl Into<String>,
        message: impl Into<String>,
        options: impl IntoIterator<Item = Choice>,
    ) -> Self {
        let kind = QuestionKind::One {
            options: options.into_iter().collect(),
            freeform: false,
        };
        self.add(id, message, kind)
    }

    /// Asks for some of several.
    #[must_use]
    pub fn many(
        self,
        id: impl Into<String>,
        message: impl Into<String>,
        options: impl IntoIterator<Item = Choice>,
    ) -> Self {
        let kind = QuestionKind::Many {
            options: options.into_iter().collect(),
            freeform: false,
            min: None,
            max: None,
        };
        self.add(id, message, kind)
    }

    /// Marks the question added last as required; users may still leave it out (INP-05).
    #[must_use]
    pub fn required(mut self) -> Self {
        if let Some(question) = self.questions.last_mut() {
            question.required = true;
        }
        self
    }

    /// Adds a question with bounds, defaults or a title of its own.
    #[must_use]
    pub fn with(mut self, question: Question) -> Self {
        self.questions.push(question);
        self
    }

    fn add(self, id: impl Into<String>, message: impl Into<String>, kind: QuestionKind) -> Self {
        self.with(Question {
            id: id.into(),
            title: None,
            message: message.into(),
            required: false,
            kind,
        })
    }

    pub(super) fn into_questions(self, id: String) -> Questions {
        Questions {
            id,
            message: self.message,
            url: self.url,
            questions: self.questions,
        }
    }
}
