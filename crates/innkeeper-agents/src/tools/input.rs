//! Typed access to the input fields of a call.
//!
//! Every error names the field, so that the model can correct it.

use serde_json::{Map, Value};

/// The input of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a>(&'a Map<String, Value>);

impl<'a> Input<'a> {
    pub(super) fn of(input: &'a Value) -> Result<Self, String> {
        let fields = input.as_object().ok_or("the input must be a JSON object")?;
        Ok(Self(fields))
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        // Models write `null` for omitted fields.
        self.0.get(field).filter(|value| !value.is_null())
    }

    /// Returns a string, which may be empty. `meaning` completes "give …".
    pub(super) fn text(&self, field: &str, meaning: &str) -> Result<&'a str, String> {
        let value = self
            .get(field)
            .ok_or_else(|| format!("`{field}` is missing: give {meaning}"))?;
        value
            .as_str()
            .ok_or_else(|| format!("`{field}` must be a string: give {meaning}"))
    }

    /// Returns a string that is not blank.
    pub(super) fn non_empty_text(&self, field: &str, meaning: &str) -> Result<&'a str, String> {
        let text = self.text(field, meaning)?;
        if text.trim().is_empty() {
            return Err(format!("`{field}` is empty: give {meaning}"));
        }
        Ok(text)
    }

    /// Returns an optional string. A blank one counts as omitted.
    pub(super) fn optional_text(&self, field: &str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let text = value
            .as_str()
            .ok_or_else(|| format!("`{field}` must be a string, or left out"))?;
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    /// Returns an optional integer within bounds. Models also write numbers as strings.
    pub(super) fn number(&self, field: &str, minimum: u64, limit: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64(),
        };
        match number {
            Some(number) if (minimum..=limit).contains(&number) => Ok(Some(number)),
            _ => Err(format!(
                "`{field}` must be a whole number from {minimum} to {limit}, not {value}"
            )),
        }
    }

    /// Returns a boolean; omitted means false.
    pub(super) fn flag(&self, field: &str) -> Result<bool, String> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(value) => Err(format!("`{field}` must be true or false, not {value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_name_the_field_and_the_expected_value() {
        let input = json!({ "path": 3, "empty": " ", "limit": 9000, "all": "maybe" });
        let input = Input::of(&input).expect("an object");
        let complaints = [
            input.non_empty_text("missing", "the file").expect_err("missing"),
            input.non_empty_text("path", "the file").expect_err("a number"),
            input.non_empty_text("empty", "the file").expect_err("empty"),
            input.number("limit", 1, 2000).expect_err("too large"),
            input.flag("all").expect_err("neither"),
        ];
        let expected = [
            "`missing` is missing: give the file",
            "`path` must be a string: give the file",
            "`empty` is empty: give the file",
            "`limit` must be a whole number from 1 to 2000, not 9000",
            "`all` must be true or false, not \"maybe\"",
        ];
        assert_eq!(complaints, expected);
        assert!(Input::of(&json!([])).is_err());
    }

    #[test]
    fn null_counts_as_omitted_and_numbers_may_be_strings() {
        let input = json!({ "path": null, "limit": "12", "all": "true", "glob": "" });
        let input = Input::of(&input).expect("an object");
        assert_eq!(input.optional_text("path"), Ok(None));
        assert_eq!(input.optional_text("glob"), Ok(None));
        assert_eq!(input.number("limit", 1, 20), Ok(Some(12)));
        assert_eq!(input.flag("all"), Ok(true));
    }
}
