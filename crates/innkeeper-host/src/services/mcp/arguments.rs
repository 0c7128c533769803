//! The arguments of a tool call, digit by digit as they were written.
//!
//! A JSON number may have more digits than the types of this process hold: an integer beyond 64 bits, a decimal that no
//! `f64` equals. The object below is what hooks, policies and agents look at; the text beside it is what the server gets.

use serde_json::{Map, Value};

/// The arguments of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    object: Map<String, Value>,
    /// The same object as it was written, without white space; only if the object alone would be written differently.
    text: Option<String>,
}

impl Arguments {
    /// Reads arguments that a model or a user wrote.
    ///
    /// # Errors
    ///
    /// When the text is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let object: Map<String, Value> = serde_json::from_str(text)?;
        let written = Value::Object(object.clone()).to_string();
        let exact = compact(text);
        // If two members have one name, the object has the last; another reader may take the first, and then users
        // would allow one call and the server would carry out another.
        let has_duplicates = colons(&exact) != members(&object);
        let text = (exact != written && !has_duplicates).then_some(exact);
        Ok(Self { object, text })
    }

    /// The arguments as an object.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// The text that the object alone does not reproduce, if there is such a text.
    pub fn exact_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The arguments as JSON.
    pub fn to_json(&self) -> String {
        match &self.text {
            Some(text) => text.clone(),
            None => Value::Object(self.object.clone()).to_string(),
        }
    }

    /// The object and the text that it does not reproduce.
    pub fn into_parts(self) -> (Map<String, Value>, Option<String>) {
        (self.object, self.text)
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(object: Map<String, Value>) -> Self {
        Self { object, text: None }
    }
}

/// JSON without the white space between its tokens. Strings and numbers stay as they are written.
pub fn compact(json: &str) -> String {
    let mut compacted = String::with_capacity(json.len());
    let (mut is_in_string, mut is_escaped) = (false, false);
    for c in json.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_in_string => is_escaped = true,
            '"' => is_in_string = !is_in_string,
            ' ' | '\t' | '\r' | '\n' if !is_in_string => continue,
            _ => {}
        }
        compacted.push(c);
    }
    compacted
}

/// Whether every number of a JSON text keeps its value in the types of this process.
pub fn numbers_fit(json: &str) -> bool {
    /// An `f64` keeps that many significant digits of any decimal.
    const KEPT_DIGITS: usize = 15;
    numbers(json).all(|number| {
        let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let significant = digits.trim_matches('0').len();
        // One beyond the largest `f64` is not read at all.
        let read = serde_json::from_str::<serde_json::Number>(number);
        read.is_ok_and(|read| significant <= KEPT_DIGITS || read.to_string() == number)
    })
}

/// The numbers of a JSON text, as they are written.
fn numbers(json: &str) -> impl Iterator<Item = &str> {
    outside_strings(json)
        .flat_map(|piece| piece.split(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')))
        .filter(|token| token.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
}

/// How many members all objects of a JSON text have together.
fn colons(json: &str) -> usize {
    outside_strings(json).map(|piece| piece.matches(':').count()).sum()
}

fn members(object: &Map<String, Value>) -> usize {
    fn below(value: &Value) -> usize {
        match value {
            Value::Object(object) => members(object),
            Value::Array(values) => values.iter().map(below).sum(),
            _ => 0,
        }
    }
    object.len() + object.values().map(below).sum::<usize>()
}

/// The pieces of a JSON text between its strings.
fn outside_strings(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, string) = rest.split_once('"').unwrap_or((rest, ""));
        let mut is_escaped = false;
        let end = string.find(|c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        rest = end.and_then(|end| string.get(end + 1..)).unwrap_or_default();
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_of_a_number_is_kept() {
        let text = r#"{ "z": 110000.00000000001, "big": 123456789012345678901234567890,
            "a": [1.10, -0.0, 1e400, "x: 1 \" {"] }"#;
        // A number beyond the largest `f64` is refused, because the object could not hold it.
        assert!(Arguments::parse(text).is_err());
        let text = text.replace("1e400", "1e40");
        let read = Arguments::parse(&text).expect("an object");
        assert_eq!(
            read.to_json(),
            r#"{"z":110000.00000000001,"big":123456789012345678901234567890,"a":[1.10,-0.0,1e40,"x: 1 \" {"]}"#
        );
        let names: Vec<&String> = read.object().keys().collect();
        assert_eq!(names, ["z", "big", "a"], "in the order in which they were written");
    }

    #[test]
    fn arguments_equal_to_their_object_have_no_separate_text() {
        let read = Arguments::parse("{\n \"b\": 1, \"a\": 110000.00000000001 }").expect("an object");
        assert_eq!(read.exact_text(), None);
        assert_eq!(read.to_json(), r#"{"b":1,"a":110000.00000000001}"#);
        assert!(Arguments::parse("[1]").is_err() && Arguments::parse("{").is_err());
    }

    #[test]
    fn duplicate_members_have_one_value_for_all_readers() {
        let read = Arguments::parse(r#"{"path":"/safe","n":1.10,"path":"/other"}"#).expect("an object");
        assert_eq!(read.exact_text(), None);
        let nested = Arguments::parse(r#"{"n":1.10,"deep":[{"a":1,"a":2}]}"#).expect("an object");
        assert_eq!(nested.to_json(), r#"{"n":1.1,"deep":[{"a":2}]}"#);
    }

    #[test]
    fn numbers_that_lose_their_value_are_told_apart() {
        for (json, fits) in [
            (r#"{"a":1,"b":[2.5,-3e10,0.1,1.10,18446744073709551615]}"#, true),
            (r#"{"a":110000.00000000001}"#, true),
            (r#"{"12345678901234567890123":"98765432109876543210987"}"#, true),
            (r#"{"a":18446744073709551616}"#, false),
            (r#"{"a":0.1234567890123456789}"#, false),
        ] {
            assert_eq!(numbers_fit(json), fits, "{json}");
        }
    }
}
