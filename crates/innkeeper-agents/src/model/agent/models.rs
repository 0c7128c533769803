//! The models an agent offers: those of the settings, and those that the provider lists.

use innkeeper_host::{Choice, ModelInfo, Setting, SettingKind};
use serde_json::json;

use crate::model::api::{Effort, ModelEntry};

/// What a model can read and say together, if nobody knows better.
const CONTEXT_WINDOW: u32 = 128_000;

/// How hard a model thinks if nobody says. What people are shown, and what is sent.
pub(in crate::model) const DEFAULT_EFFORT: Effort = Effort::Medium;

/// A model that messages can choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The provider's name for it.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The most tokens that a request and its answer may have together.
    pub context_window: u32,
    /// The most tokens of one answer; `None` leaves it to the provider.
    pub max_output_tokens: Option<u32>,
    /// Whether it can look at pictures.
    pub accepts_images: bool,
    /// Whether it can be told how hard to think.
    pub accepts_effort: bool,
}

impl Model {
    /// A model of which only the name is known.
    pub fn new(id: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            name: id.clone(),
            id,
            context_window: CONTEXT_WINDOW,
            max_output_tokens: None,
            accepts_images: true,
            accepts_effort: false,
        }
    }

    pub(in crate::model) fn listed(entry: ModelEntry) -> Self {
        Self {
            name: entry.name,
            context_window: entry.context_window.unwrap_or(CONTEXT_WINDOW),
            ..Self::new(entry.id)
        }
    }

    /// How people see it.
    pub(in crate::model) fn info(&self) -> ModelInfo {
        let info = ModelInfo::new(&self.id, &self.name)
            .with_context_window(self.context_window)
            .with_vision(self.accepts_images);
        let info = match self.max_output_tokens {
            Some(most) => info.with_output_tokens(most),
            None => info,
        };
        if self.accepts_effort {
            info.with_setting(effort())
        } else {
            info
        }
    }
}

fn effort() -> Setting {
    let choices = [("low", "Low"), ("medium", "Medium"), ("high", "High")];
    Setting {
        id: "effort".to_owned(),
        title: "Effort".to_owned(),
        description: Some("How hard the model thinks before it answers.".to_owned()),
        kind: SettingKind::Choice(choices.map(|(id, label)| Choice::new(id, label)).to_vec()),
        default: Some(json!(effort_name(DEFAULT_EFFORT))),
        mutable: true,
        read_only: false,
        required: false,
    }
}

/// What an effort is called in settings.
fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

/// The effort of that name.
pub(in crate::model) fn effort_named(name: &str) -> Option<Effort> {
    let mut all = [Effort::Low, Effort::Medium, Effort::High].into_iter();
    all.find(|effort| effort_name(*effort) == name)
}

/// Those of the settings first, then what the provider lists besides.
pub(in crate::model) fn merged(configured_models: &[Model], listed: Vec<ModelEntry>) -> Vec<Model> {
    let mut models = configured_models.to_vec();
    for entry in listed {
        if !models.iter().any(|model| model.id == entry.id) {
            models.push(Model::listed(entry));
        }
    }
    models
}
