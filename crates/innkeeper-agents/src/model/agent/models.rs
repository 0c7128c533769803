//! The models that an agent offers: the configured ones and those that the provider lists.

use innkeeper_host::agent::{Choice, ModelInfo, Setting, SettingKind};
use serde_json::json;

use crate::model::api::{Effort, ModelEntry};

/// Assumed context window, in tokens, if neither the settings nor the provider say.
const CONTEXT_WINDOW: u32 = 128_000;

/// Reasoning effort if the user chose none. Shown in the setting and sent to the provider.
pub(in crate::model) const DEFAULT_EFFORT: Effort = Effort::Medium;

/// A model that a message can select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The provider's id of the model.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Context window: maximum tokens of a request and its answer together.
    pub context_window: u32,
    /// Maximum tokens of one answer; `None` leaves it to the provider.
    pub max_output_tokens: Option<u32>,
    /// Whether the model accepts images.
    pub accepts_images: bool,
    /// Whether the model accepts a reasoning effort.
    pub accepts_effort: bool,
}

impl Model {
    /// Creates a model of which only the id is known.
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

    /// Describes the model for clients.
    pub(in crate::model) fn info(&self) -> ModelInfo {
        let info = ModelInfo::new(&self.id, &self.name)
            .with_context_window(self.context_window)
            .with_vision(self.accepts_images);
        let info = match self.max_output_tokens {
            Some(limit) => info.with_output_tokens(limit),
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

/// Returns the setting value of an effort.
fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

/// Returns the effort with that setting value.
pub(in crate::model) fn effort_named(name: &str) -> Option<Effort> {
    let mut all = [Effort::Low, Effort::Medium, Effort::High].into_iter();
    all.find(|effort| effort_name(*effort) == name)
}

/// Merges the configured models with those that the provider lists. Configured ones come first and win.
pub(in crate::model) fn merged(configured_models: &[Model], listed: Vec<ModelEntry>) -> Vec<Model> {
    let mut models = configured_models.to_vec();
    for entry in listed {
        if !models.iter().any(|model| model.id == entry.id) {
            models.push(Model::listed(entry));
        }
    }
    models
}
