//! JSON with comments and trailing commas, and with the position of every member.

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use crate::read::text::{LineIndex, TextRange};

/// A JSON text with an object.
#[derive(Debug)]
pub(crate) struct Document<'t> {
    object: Object<'t>,
    lines: LineIndex,
    /// Whether it has comments or trailing commas, which strict readers refuse.
    pub(crate) is_jsonc: bool,
}

/// A member of an object: `"name": value`.
#[derive(Debug)]
pub(crate) struct Member<'d> {
    pub(crate) name: &'d str,
    pub(crate) value: &'d Node<'d>,
    /// The span from the name to the end of the value.
    pub(crate) range: TextRange,
}

impl<'t> Document<'t> {
    /// Reads an object, or returns the reason for users why there is none.
    pub(crate) fn read(text: &'t str) -> Result<Self, String> {
        let parsed = match parse(text, Grammar::Strict) {
            Ok(node) => (node, false),
            Err(_) => (parse(text, Grammar::WithComments)?, true),
        };
        match parsed {
            (Some(Node::Object(object)), is_jsonc) => Ok(Self {
                object,
                lines: LineIndex::new(text),
                is_jsonc,
            }),
            (Some(_), _) => Err("is JSON, but not an object: it must be `{ … }`".to_owned()),
            (None, _) => Err("is empty: it must hold a JSON object".to_owned()),
        }
    }

    pub(crate) fn object(&self) -> &Object<'t> {
        &self.object
    }

    /// The object as a plain value.
    pub(crate) fn whole(&self) -> Value {
        plain_object(&self.object)
    }

    /// The members of an object in the order of the text, all of them, even of the same name.
    pub(crate) fn members<'d>(&'d self, object: &'d Object<'t>) -> impl Iterator<Item = Member<'d>> {
        object.properties.iter().map(|property| Member {
            name: property.name.as_str(),
            value: &property.value,
            range: self.lines.range(property.start(), property.end()),
        })
    }

    /// The span of a member of the object itself.
    pub(crate) fn range_of(&self, name: &str) -> Option<TextRange> {
        let property = self.object.get(name)?;
        Some(self.lines.range(property.start(), property.end()))
    }

    /// A member of the object itself as a plain value.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        self.object.get(name).map(|property| plain(&property.value))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Grammar {
    Strict,
    WithComments,
}

fn parse(text: &str, grammar: Grammar) -> Result<Option<Node<'_>>, String> {
    let options = ParseOptions {
        allow_comments: grammar == Grammar::WithComments,
        allow_trailing_commas: grammar == Grammar::WithComments,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    parsed.map(|result| result.value).map_err(|error| {
        // The text of the error quotes nothing of the file; its position helps users.
        format!(
            "is not JSON (line {}, column {}: {}): correct it there",
            error.line_display(),
            error.column_display(),
            error.kind()
        )
    })
}

/// A node as a plain value. Of members of the same name the first counts, as everywhere here.
pub(crate) fn plain(node: &Node<'_>) -> Value {
    match node {
        Node::StringLit(text) => Value::String(text.value.to_string()),
        Node::NumberLit(number) => serde_json::from_str(number.value).unwrap_or(Value::Null),
        Node::BooleanLit(boolean) => Value::Bool(boolean.value),
        Node::NullKeyword(_) => Value::Null,
        Node::Array(array) => Value::Array(array.elements.iter().map(plain).collect()),
        Node::Object(object) => plain_object(object),
    }
}

fn plain_object(object: &Object<'_>) -> Value {
    let mut map = serde_json::Map::new();
    for property in &object.properties {
        map.entry(property.name.as_str())
            .or_insert_with(|| plain(&property.value));
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_read_and_said() {
        let document = Document::read("{ // c\n \"a\": 1, /* x */ }").unwrap();
        assert!(document.is_jsonc);
        assert_eq!(document.value("a"), Some(Value::from(1)));
        assert!(!Document::read("{\"a\": 1}").unwrap().is_jsonc);
    }

    #[test]
    fn other_liberties_are_refused_with_their_place() {
        for text in [
            "{a: 1}",
            "{'a': 1}",
            "{\"a\": 0x1}",
            "{\"a\": 1 \"b\": 2}",
            "{",
            "",
            "[]",
            "1",
        ] {
            assert!(Document::read(text).is_err(), "{text}");
        }
        let error = Document::read("{\n\"a\": ?}").unwrap_err();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn the_first_of_two_members_counts() {
        let document = Document::read("{\"o\": {\"a\": 1, \"a\": 2}}").unwrap();
        assert_eq!(document.value("o"), Some(serde_json::json!({"a": 1})));
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_crash() {
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(Document::read(&deep).is_err());
    }
}
