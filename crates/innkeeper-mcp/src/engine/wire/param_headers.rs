//! Headers that repeat a part of a request, so that proxies can route it without reading it (since 2026-07-28).
//!
//! `Mcp-Method` and `Mcp-Name` go with every request. A tool may want arguments as `Mcp-Param-…` headers too: it
//! annotates properties of its input schema with `x-mcp-header`.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::message::OutgoingKind;

const ANNOTATION: &str = "x-mcp-header";

/// Returns the headers of a message. `schemas` has the input schemas of tools with annotations.
pub(super) fn headers(message: &OutgoingKind, schemas: &HashMap<String, Value>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut insert = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        if let Some((name, value)) = name.zip(HeaderValue::from_str(&encode(value)).ok()) {
            headers.insert(name, value);
        }
    };
    let (method, params) = match message {
        OutgoingKind::Request { method, params, .. } => (method, Some(params)),
        OutgoingKind::Notification { method } => (method, None),
        OutgoingKind::Answer => return headers,
    };
    insert("mcp-method", method);
    let named_by = match &**method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ => return headers,
    };
    let Some(params) = params else { return headers };
    let Some(name) = params.get(named_by).and_then(Value::as_str) else {
        return headers;
    };
    insert("mcp-name", name);
    if &**method == "tools/call"
        && let Some(schema) = schemas.get(name)
        && let Some(arguments) = params.get("arguments")
    {
        for annotated in annotated(schema) {
            let value = annotated.path.iter().try_fold(arguments, |value, key| value.get(key));
            let value = match value {
                Some(Value::String(text)) => text.clone(),
                Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
                _ => continue,
            };
            if let Some(header) = annotated.header.as_str() {
                insert(&format!("mcp-param-{header}"), &value);
            }
        }
    }
    headers
}

/// Returns true if a tool wants arguments as headers.
pub(super) fn has_any(schema: &Value) -> bool {
    !annotated(schema).is_empty()
}

/// Checks the annotations of an input schema. MCP has clients leave out tools with wrong ones.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let on_path = annotated(schema);
    if count(schema) != on_path.len() {
        return Err("an annotation is not on a property, or within a list or an alternative".to_owned());
    }
    let mut seen = HashSet::new();
    for annotated in on_path {
        let property = annotated.path.join(".");
        let Some(header) = annotated.header.as_str() else {
            return Err(format!("the header of `{property}` is not a string"));
        };
        if HeaderName::from_bytes(header.as_bytes()).is_err() {
            return Err(format!(
                "the header of `{property}` has a name that headers cannot have"
            ));
        }
        if !seen.insert(header.to_ascii_lowercase()) {
            return Err(format!("the header of `{property}` belongs to another property too"));
        }
        let kind = annotated.schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err(format!("`{property}` is neither a string, an integer nor a boolean"));
        }
    }
    Ok(())
}

/// A property with an annotation, reached from the root through `properties` alone.
struct Annotated<'a> {
    path: Vec<&'a str>,
    schema: &'a Value,
    header: &'a Value,
}

fn annotated(schema: &Value) -> Vec<Annotated<'_>> {
    fn collect<'a>(schema: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<Annotated<'a>>) {
        let Some(Value::Object(properties)) = schema.get("properties") else {
            // A schema without properties has no annotations.
            return;
        };
        for (name, schema) in properties {
            path.push(name);
            if let Some(header) = schema.get(ANNOTATION) {
                found.push(Annotated {
                    path: path.clone(),
                    schema,
                    header,
                });
            }
            collect(schema, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

/// Counts the annotations anywhere in a schema. Values that are no schemas do not count.
fn count(schema: &Value) -> usize {
    let of_map = |map: &Value| map.as_object().into_iter().flat_map(Map::values).map(count).sum();
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match name.as_str() {
                ANNOTATION => 1,
                "properties" | "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => of_map(value),
                "default" | "const" | "enum" | "examples" => 0,
                _ => count(value),
            })
            .sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

/// Encodes a value that a header cannot have as it is.
fn encode(value: &str) -> String {
    let is_padded = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let is_plain = value.chars().all(|c| matches!(c, ' '..='~'));
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if is_plain && !is_padded && !looks_encoded {
        return value.to_owned();
    }
    format!("=?base64?{}?=", BASE64_STANDARD.encode(value))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn call(arguments: Value) -> OutgoingKind {
        let params = json!({ "name": "where", "arguments": arguments });
        OutgoingKind::Request {
            id: 1,
            method: "tools/call".into(),
            params: Arc::new(params.as_object().cloned().unwrap()),
        }
    }

    fn property(header: &str, kind: &str) -> Value {
        json!({ "type": kind, ANNOTATION: header })
    }

    #[test]
    fn a_call_has_its_method_its_tool_and_annotated_arguments_as_headers() {
        let inner = json!({ "type": "object", "properties": { "n": property("Count", "integer") } });
        let schema =
            json!({ "type": "object", "properties": { "region": property("Region", "string"), "inner": inner } });
        assert_eq!(check(&schema), Ok(()));
        let schemas = HashMap::from([("where".to_owned(), schema)]);
        let sent = headers(
            &call(json!({ "region": "Zürich", "inner": { "n": 7 }, "other": 1 })),
            &schemas,
        );
        let sent: HashMap<&str, &str> = sent
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        let expected = [
            ("mcp-method", "tools/call"),
            ("mcp-name", "where"),
            ("mcp-param-region", "=?base64?WsO8cmljaA==?="),
            ("mcp-param-count", "7"),
        ];
        assert_eq!(sent, HashMap::from(expected));
        let listing = OutgoingKind::Request {
            id: 1,
            method: "tools/list".into(),
            params: Arc::default(),
        };
        assert_eq!(headers(&listing, &schemas).len(), 1);
    }

    #[test]
    fn annotations_that_cannot_be_sent_are_found() {
        let with = |property: Value| json!({ "type": "object", "properties": { "a": property } });
        for wrong in [
            json!({ ANNOTATION: "Root", "type": "object" }),
            with(property("two words", "string")),
            with(property("", "string")),
            with(property("List", "array")),
            with(json!({ "type": "string", ANNOTATION: 7 })),
            with(json!({ "type": "array", "items": property("Item", "string") })),
            json!({ "properties": { "a": property("A", "string"), "b": property("a", "string") } }),
            json!({ "properties": {}, "$defs": { "d": property("D", "string") } }),
        ] {
            assert!(check(&wrong).is_err(), "{wrong}");
        }
        let value = json!({ ANNOTATION: "no schema" });
        assert_eq!(check(&with(json!({ "type": "object", "default": value }))), Ok(()));
    }

    #[test]
    fn values_that_headers_cannot_have_are_encoded() {
        for plain in ["eu-west", "a b", ""] {
            assert_eq!(encode(plain), plain);
        }
        for other in [" a", "a\t", "line\nbreak", "=?base64?YQ==?="] {
            assert!(encode(other).starts_with("=?base64?"), "{other}");
        }
    }
}
