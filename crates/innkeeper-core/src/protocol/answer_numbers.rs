//! Whole numbers in questions and answers, written as clients wrote them.
//!
//! The published types store these numbers as floating point, which `serde_json` writes as `3.0` where the client
//! wrote `3`. JSON that merely passes through this host keeps its own spelling: only the members of published
//! questions and answers are written like this.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Beyond this a floating point number does not stand for one whole number only.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes a value as compact JSON.
pub(crate) fn to_writer<W: io::Write, T: Serialize + ?Sized>(out: W, value: &T) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, AnswerNumbers::default()))
}

/// Recognises `{"kind":"number","value":3.0}` and the bounds of `number` and `integer` questions
/// while they are written. The tag of a published enum comes before its other members.
#[derive(Debug, Default)]
struct AnswerNumbers {
    /// Whether a name of a member is being written, rather than text.
    in_key: bool,
    key: Key,
    /// Whether the object that is being written is a number or a question for one.
    is_numeric: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Key {
    Kind,
    Number,
    #[default]
    Other,
}

impl Formatter for AnswerNumbers {
    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_numeric = false;
        CompactFormatter.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_numeric = false;
        CompactFormatter.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.in_key = true;
        self.key = Key::Other;
        CompactFormatter.begin_object_key(writer, first)
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.in_key = false;
        CompactFormatter.end_object_key(writer)
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if self.in_key {
            self.key = match fragment {
                "kind" => Key::Kind,
                "value" | "min" | "max" | "defaultValue" => Key::Number,
                _ => Key::Other,
            };
        } else if self.key == Key::Kind {
            self.is_numeric = matches!(fragment, "number" | "integer");
        }
        CompactFormatter.write_string_fragment(writer, fragment)
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let is_whole = value.fract() == 0.0 && value.abs() <= LARGEST_EXACT;
        if self.is_numeric && self.key == Key::Number && is_whole {
            return CompactFormatter.write_i64(writer, value as i64);
        }
        CompactFormatter.write_f64(writer, value)
    }
}

#[cfg(test)]
mod tests {
    use ahp_types::state::{ChatInputAnswer, ChatInputQuestion};
    use serde_json::{Value, json};

    use super::*;

    fn written<T: Serialize>(value: &T) -> String {
        let mut out = Vec::new();
        to_writer(&mut out, value).expect("JSON");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn numbers_in_answers_and_questions_are_written_as_clients_wrote_them() {
        for text in [
            r#"{"state":"submitted","value":{"kind":"number","value":3}}"#,
            r#"{"state":"submitted","value":{"kind":"number","value":-7}}"#,
            r#"{"state":"draft","value":{"kind":"number","value":2.5}}"#,
            r#"{"state":"draft","value":{"kind":"number","value":9007199254740992}}"#,
            r#"{"state":"draft","value":{"kind":"text","value":"number"}}"#,
        ] {
            let answer: ChatInputAnswer = serde_json::from_str(text).expect("an answer");
            assert_eq!(written(&answer), text);
        }
        for text in [
            r#"{"kind":"integer","id":"value","message":"kind","min":1,"max":9,"defaultValue":3}"#,
            r#"{"kind":"number","id":"a","message":"m","min":0.5,"max":10}"#,
        ] {
            let question: ChatInputQuestion = serde_json::from_str(text).expect("a question");
            assert_eq!(written(&question), text);
        }
        // Too large to be sure of: as it is.
        let large: ChatInputAnswer =
            serde_json::from_str(r#"{"state":"draft","value":{"kind":"number","value":1e300}}"#).expect("an answer");
        assert_eq!(
            serde_json::from_str::<ChatInputAnswer>(&written(&large)).ok(),
            Some(large)
        );
    }

    #[test]
    fn json_that_passes_through_keeps_its_spelling() {
        for text in [
            r#"{"kind":"text","value":3.0}"#,
            r#"{"value":3.0,"kind":"number"}"#,
            r#"{"kind":"number","other":3.0}"#,
            r#"{"kind":"number","deep":{"value":3.0}}"#,
            r#"{"a":[3.0,{"min":1.0}]}"#,
        ] {
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(written(&value), text);
        }
        assert_eq!(written(&json!("kind\"number")), r#""kind\"number""#);
    }
}
