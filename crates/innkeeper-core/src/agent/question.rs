//! Questions to users, and their answers (INP-07).

use std::collections::BTreeMap;

/// A set of questions asked together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Questions {
    /// Unique in the turn; comes back with the answer.
    pub id: String,
    /// Why the agent asks.
    pub message: Option<String>,
    /// A page to visit, for questions that are answered there (INP-08).
    pub url: Option<String>,
    /// The questions; none when only `url` matters.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Unique among the questions asked together.
    pub id: String,
    /// A short title.
    pub title: Option<String>,
    /// The question.
    pub message: String,
    /// Whether an answer is wanted; users may still accept without one (INP-05).
    pub required: bool,
    /// Kind of answer.
    pub kind: QuestionKind,
}

/// The six kinds of question.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionKind {
    /// Words.
    Text {
        /// A format such as `email`.
        format: Option<String>,
        /// Default value.
        default: Option<String>,
        /// Fewest characters.
        min: Option<u32>,
        /// Maximum characters.
        max: Option<u32>,
    },
    /// A number.
    Number {
        /// The smallest.
        min: Option<f64>,
        /// The largest.
        max: Option<f64>,
        /// Default value.
        default: Option<f64>,
    },
    /// A whole number.
    Integer {
        /// The smallest.
        min: Option<i64>,
        /// The largest.
        max: Option<i64>,
        /// Default value.
        default: Option<i64>,
    },
    /// Yes or no.
    Boolean {
        /// Choices selected by default.
        default: Option<bool>,
    },
    /// One of several.
    One {
        /// The choices.
        options: Vec<super::Choice>,
        /// Whether users may write their own answer instead.
        freeform: bool,
    },
    /// Some of several.
    Many {
        /// The choices.
        options: Vec<super::Choice>,
        /// Whether users may add their own answer.
        freeform: bool,
        /// Fewest choices.
        min: Option<u32>,
        /// Most choices.
        max: Option<u32>,
    },
}

/// The users' response.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Whether they answered.
    pub response: Response,
    /// The answers by question; a question without one was skipped.
    pub values: BTreeMap<String, AnswerValue>,
}

/// Whether the user answered (INP-06).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// They did.
    Accept,
    /// They would rather not.
    Decline,
    /// They turned away, or the turn ended.
    Cancel,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerValue {
    /// Words.
    Text(String),
    /// A number.
    Number(f64),
    /// Yes or no.
    Boolean(bool),
    /// The ids of the chosen options, and the text that the user wrote instead or in addition.
    Selected {
        /// Chosen options.
        ids: Vec<String>,
        /// Written ones.
        freeform: Vec<String>,
    },
}
