//! A model that an agent offers.

use ahp_types::state::SessionModelInfo;

use super::Setting;

/// A model an agent offers.
///
/// ```
/// use innkeeper_host::AgentInfo;
/// use innkeeper_host::agent::ModelInfo;
///
/// let quill = ModelInfo::new("quill-2", "Quill 2").with_context_window(200_000).with_vision(true);
/// let info = AgentInfo::new("clerk", "Clerk", "Keeps the books.").with_model_info(quill);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The id that messages name.
    pub id: String,
    /// A short name.
    pub name: String,
    /// How many tokens it takes in and gives out together.
    pub max_context_window: Option<u32>,
    /// How many tokens it takes in.
    pub max_prompt_tokens: Option<u32>,
    /// How many tokens it gives out.
    pub max_output_tokens: Option<u32>,
    /// Whether it understands images, if that is known.
    pub supports_vision: Option<bool>,
    /// The settings that a message can choose, such as the reasoning effort. The values arrive with
    /// [`TurnInfo::model_settings`](super::TurnInfo::model_settings).
    pub settings: Vec<Setting>,
}

impl ModelInfo {
    /// A model of which no more is known.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            max_context_window: None,
            max_prompt_tokens: None,
            max_output_tokens: None,
            supports_vision: None,
            settings: Vec::new(),
        }
    }

    /// How many tokens it takes in and gives out together.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u32) -> Self {
        self.max_context_window = Some(tokens);
        self
    }

    /// How many tokens it takes in.
    #[must_use]
    pub fn with_prompt_tokens(mut self, tokens: u32) -> Self {
        self.max_prompt_tokens = Some(tokens);
        self
    }

    /// How many tokens it gives out.
    #[must_use]
    pub fn with_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Whether it understands images.
    #[must_use]
    pub fn with_vision(mut self, understands: bool) -> Self {
        self.supports_vision = Some(understands);
        self
    }

    /// Adds something that a message can set it up with.
    #[must_use]
    pub fn with_setting(mut self, setting: Setting) -> Self {
        self.settings.push(setting);
        self
    }

    pub(super) fn into_wire(self, provider: &str) -> SessionModelInfo {
        let settings = &self.settings;
        SessionModelInfo {
            config_schema: (!settings.is_empty()).then(|| Setting::schema(settings)),
            id: self.id,
            provider: provider.to_owned(),
            name: self.name,
            max_context_window: self.max_context_window.map(Into::into),
            max_output_tokens: self.max_output_tokens.map(Into::into),
            max_prompt_tokens: self.max_prompt_tokens.map(Into::into),
            supports_vision: self.supports_vision,
            policy_state: None,
            meta: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::{Choice, SettingKind};

    #[test]
    fn root05_a_model_has_its_known_properties_and_settings() {
        let plain = ModelInfo::new("m1", "One").into_wire("a");
        let plain = serde_json::to_value(plain).expect("JSON");
        assert_eq!(plain, json!({ "id": "m1", "provider": "a", "name": "One" }));
        let effort = Setting {
            id: "effort".to_owned(),
            title: "Effort".to_owned(),
            description: None,
            kind: SettingKind::Choice(vec![Choice::new("low", "Low"), Choice::new("high", "High")]),
            default: Some(json!("low")),
            mutable: true,
            read_only: false,
            required: false,
        };
        let model = ModelInfo::new("m2", "Two").with_vision(false).with_setting(effort);
        let model = serde_json::to_value(model.into_wire("a")).expect("JSON");
        assert_eq!(model["supportsVision"], false);
        let schema = &model["configSchema"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"]["effort"]["title"], "Effort");
        assert_eq!(schema["properties"]["effort"]["enum"], json!(["low", "high"]));
        assert_eq!(schema["properties"]["effort"]["default"], "low");
    }
}
