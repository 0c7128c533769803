//! Normalises the schemas of client and MCP tools.
//!
//! Providers reject a whole request if the top level of one schema is not a plain object. Client and MCP tools are
//! written for hosts that are less strict.

use serde_json::{Map, Value, json};

/// Combinators, which providers reject at the top level.
const COMBINING: [&str; 3] = ["anyOf", "oneOf", "allOf"];
/// Other keywords that providers reject at the top level.
const REFUSED: [&str; 7] = ["enum", "const", "not", "if", "then", "else", "$ref"];

/// Returns a schema with an object at the top level, or `None` if the input is not an object.
pub(in crate::model) fn normalize(schema: Option<&Value>) -> Option<Value> {
    let mut top = match schema {
        None | Some(Value::Null | Value::Bool(true)) => Map::new(),
        Some(Value::Object(top)) => top.clone(),
        Some(_) => return None,
    };
    if let Some(named) = named(&top) {
        let definitions = ["$defs", "definitions"].map(|field| (field, top.remove(field)));
        top = named;
        top.extend(
            definitions
                .into_iter()
                .filter_map(|(field, found)| Some((field.to_owned(), found?))),
        );
    }
    let is_object = match top.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !is_object {
        return None;
    }
    top.insert("type".to_owned(), "object".into());
    let mut properties = match top.get_mut("properties").map(Value::take) {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    // Accept the properties of every branch; the owner of the tool validates the input.
    for combining in COMBINING {
        let Some(Value::Array(branches)) = top.shift_remove(combining) else {
            continue;
        };
        let known = branches
            .iter()
            .filter_map(|branch| branch.get("properties")?.as_object());
        for (name, schema) in known.flatten() {
            properties.entry(name).or_insert_with(|| schema.clone());
        }
        // `additionalProperties: false` would forbid properties of the branches.
        top.shift_remove("additionalProperties");
    }
    top.retain(|field, _| !REFUSED.contains(&field.as_str()));
    // Keep the position: models read a schema in its order.
    top.insert("properties".to_owned(), properties.into());
    Some(json!(top))
}

/// Returns the definition that a top-level `$ref` refers to.
fn named(top: &Map<String, Value>) -> Option<Map<String, Value>> {
    let pointer = top.get("$ref")?.as_str()?.strip_prefix('#')?;
    let mut path = pointer.split('/').skip(1);
    let first = top.get(path.next()?)?;
    path.try_fold(first, |value, step| value.get(step))?
        .as_object()
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_without_an_object_at_the_top_are_rejected() {
        let empty = json!({"type": "object", "properties": {}});
        for schema in [
            None,
            Some(json!(null)),
            Some(json!(true)),
            Some(json!({})),
            Some(json!({"type": ["object", "null"]})),
        ] {
            assert_eq!(normalize(schema.as_ref()), Some(empty.clone()), "{schema:?}");
        }
        for schema in [
            json!(5),
            json!(false),
            json!({"type": "string"}),
            json!({"type": ["null"]}),
            json!({"type": 1}),
        ] {
            assert_eq!(normalize(Some(&schema)), None, "{schema}");
        }
        let whole = json!({"type": "object", "properties": {"a": {"anyOf": [{}]}}, "required": ["a"], "additionalProperties": false});
        let fitted = normalize(Some(&whole)).expect("an object");
        assert_eq!(
            fitted.to_string(),
            whole.to_string(),
            "what is fit stays as it is, in its order"
        );
    }

    #[test]
    fn combinators_are_merged_into_one_object() {
        let schema = json!({
            "properties": {"a": {"type": "string"}},
            "additionalProperties": false,
            "anyOf": [{"properties": {"b": {"type": "number"}}, "required": ["b"]}, {"required": ["a"]}],
        });
        let expected = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}});
        assert_eq!(normalize(Some(&schema)), Some(expected));
    }

    #[test]
    fn a_top_level_ref_is_resolved() {
        let schema = json!({
            "$ref": "#/$defs/Ring",
            "$defs": {"Ring": {"type": "object", "properties": {"bell": {"$ref": "#/$defs/Bell"}}}, "Bell": {}},
        });
        let fitting = normalize(Some(&schema)).unwrap();
        assert_eq!(fitting["properties"]["bell"]["$ref"], "#/$defs/Bell");
        assert!(fitting["$defs"]["Bell"].is_object() && fitting.get("$ref").is_none());
    }
}
