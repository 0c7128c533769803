//! Parses model lists of various servers.

use serde_json::Value;

use crate::model::api::ModelEntry;
use crate::model::error::{ErrorKind, Provider, ProviderError};

/// Maximum number of models of a list.
const MAX_MODELS: usize = 2000;

/// Names that servers use for the context window.
const CONTEXT_FIELDS: &[&str] = &[
    "context_length",
    "context_window",
    "max_context_length",
    "max_model_len",
    "max_input_tokens",
    "context_size",
];

/// Parses a model list.
pub(super) fn read(provider: &Provider, body: &[u8]) -> Result<Vec<ModelEntry>, ProviderError> {
    let list: Value = serde_json::from_slice(body).map_err(|error| {
        provider.error(
            ErrorKind::Malformed,
            &format!("the list of models is not JSON: {error}"),
        )
    })?;
    let list = list.get("data").or_else(|| list.get("models")).unwrap_or(&list);
    let entries = list.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(entries.iter().filter_map(entry).take(MAX_MODELS).collect())
}

fn entry(value: &Value) -> Option<ModelEntry> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let id = text("id").or_else(|| text("model")).or_else(|| text("name"))?;
    let name = text("display_name").or_else(|| text("name")).unwrap_or(id);
    let windows = CONTEXT_FIELDS.iter().filter_map(|field| value.get(*field));
    let trained = value.get("meta").and_then(|meta| meta.get("n_ctx_train"));
    let window = windows
        .chain(trained)
        .filter_map(Value::as_u64)
        .find_map(|window| u32::try_from(window).ok());
    Some(ModelEntry {
        id: id.to_owned(),
        name: name.to_owned(),
        context_window: window.filter(|window| *window > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_lists_of_many_servers_are_parsed() {
        let read = |text: &str| {
            let models = read(&Provider::default(), text.as_bytes()).unwrap();
            let tuples = models
                .into_iter()
                .map(|model| (model.id, model.name, model.context_window));
            tuples.collect::<Vec<_>>()
        };
        let model = |id: &str, name: &str, window| (id.to_owned(), name.to_owned(), window);
        assert_eq!(
            read(r#"{"object":"list","data":[{"id":"a","object":"model"}]}"#),
            [model("a", "a", None)]
        );
        assert_eq!(
            read(
                r#"{"data":[{"type":"model","id":"c","display_name":"C 1","max_input_tokens":200000}],"has_more":false}"#
            ),
            [model("c", "C 1", Some(200_000))]
        );
        assert_eq!(
            read(r#"[{"id":"o/x","name":"X","context_length":8192},{"no":"id"}]"#),
            [model("o/x", "X", Some(8192))]
        );
        assert_eq!(
            read(r#"{"data":[{"id":"l","meta":{"n_ctx_train":4096}}]}"#),
            [model("l", "l", Some(4096))]
        );
        assert_eq!(read("{}"), []);
    }
}
