//! Truncates and escapes records, so that a client can show them whatever their source is (T15).

use std::borrow::Cow;
use std::fmt::Write as _;

use innkeeper_core::{LogRecord, LogValue};

/// Longest text of a record.
const BODY_BYTES: usize = 8 << 10;
/// Longest text of an attribute.
const VALUE_BYTES: usize = 1 << 10;
/// Longest name of an attribute or scope.
const NAME_BYTES: usize = 128;
/// Most attributes of a record.
const ATTRIBUTES: usize = 32;
/// The size of a record beside its texts.
const OVERHEAD: usize = 128;

/// The record as it may be sent.
pub(super) fn fit(mut record: LogRecord) -> LogRecord {
    record.attributes.truncate(ATTRIBUTES);
    for (name, value) in &mut record.attributes {
        clean(name, NAME_BYTES);
        if let LogValue::Text(text) = value {
            clean_string(text, VALUE_BYTES);
        }
    }
    clean(&mut record.scope, NAME_BYTES);
    clean_string(&mut record.body, BODY_BYTES);
    record
}

/// Roughly how many bytes a record takes.
pub(super) fn weight(record: &LogRecord) -> usize {
    let attributes = record.attributes.iter().map(|(name, value)| {
        let text = match value {
            LogValue::Text(text) => text.len(),
            LogValue::Int(_) | LogValue::Bool(_) => 8,
        };
        name.len() + text + OVERHEAD / 2
    });
    OVERHEAD + record.scope.len() + record.body.len() + attributes.sum::<usize>()
}

fn clean(text: &mut Cow<'static, str>, most: usize) {
    if !is_fine(text, most) {
        *text = cleaned(text, most).into();
    }
}

fn clean_string(text: &mut String, most: usize) {
    if !is_fine(text, most) {
        *text = cleaned(text, most);
    }
}

fn is_fine(text: &str, most: usize) -> bool {
    text.len() <= most && !text.chars().any(is_odd)
}

fn cleaned(text: &str, most: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(most) + 8);
    for found in text.chars() {
        if clean.len() + found.len_utf8() > most {
            clean.push('…');
            break;
        }
        if is_odd(found) {
            // Writing to a string does not fail.
            let _ = write!(clean, "{}", found.escape_default());
        } else {
            clean.push(found);
        }
    }
    clean
}

/// Control characters, which terminals act on, and those that turn the direction of text around.
fn is_odd(found: char) -> bool {
    found.is_control() || matches!(found, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use innkeeper_core::LogLevel;

    #[test]
    fn t15_otl02_texts_are_cut_and_no_control_character_is_left() {
        let record = fit(LogRecord {
            time_unix_nano: 0,
            severity: LogLevel::Info.into(),
            scope: "s".repeat(1000).into(),
            body: format!("\u{1b}[2Ja\nb\u{202e}{}", "é".repeat(BODY_BYTES)),
            attributes: (0..100)
                .map(|n| (format!("k\t{n}").into(), LogValue::Text("v\0".repeat(BODY_BYTES))))
                .collect(),
        });
        assert!(record.body.starts_with(r"\u{1b}[2Ja\nb\u{202e}é"), "{}", record.body);
        assert!(record.body.ends_with('…') && record.body.len() <= BODY_BYTES + 16);
        assert_eq!(record.attributes.len(), ATTRIBUTES);
        let LogValue::Text(value) = &record.attributes[0].1 else {
            panic!("a text");
        };
        assert!(
            value.len() <= VALUE_BYTES + 16 && value.starts_with(r"v\u{0}v"),
            "{value}"
        );
        assert_eq!(record.attributes[0].0, r"k\t0");
        assert!(record.scope.len() <= NAME_BYTES + 4);
        assert!(!record.body.chars().any(is_odd));
    }

    #[test]
    fn records_within_the_limits_are_unchanged() {
        let record = LogRecord {
            time_unix_nano: 1,
            severity: LogLevel::Info.into(),
            scope: "scope".into(),
            body: "körper \"quoted\"".to_owned(),
            attributes: vec![("n".into(), LogValue::Int(1)), ("b".into(), LogValue::Bool(true))],
        };
        assert_eq!(fit(record.clone()), record);
    }
}
