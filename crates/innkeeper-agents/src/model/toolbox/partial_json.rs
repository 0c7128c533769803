//! Reads fields of an incomplete JSON object.

/// Returns the value of a top-level field if it is a complete string.
pub(in crate::model) fn string_field(input: &str, field: &str) -> Option<String> {
    let mut rest = input.trim_start().strip_prefix('{')?;
    loop {
        let (key, after) = string(rest.trim_start())?;
        rest = after.trim_start().strip_prefix(':')?.trim_start();
        if key == field {
            return string(rest).map(|(value, _)| value);
        }
        rest = after_value(rest)?.trim_start().strip_prefix(',')?;
    }
}

/// Parses a complete string and returns the rest.
fn string(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = body.find(|c| match c {
        '"' if !is_escaped => true,
        c => {
            is_escaped = c == '\\' && !is_escaped;
            false
        }
    })?;
    let (whole, rest) = text.split_at(end + 2);
    Some((serde_json::from_str(whole).ok()?, rest))
}

/// Returns the rest after a complete value.
fn after_value(text: &str) -> Option<&str> {
    if text.starts_with('"') {
        return string(text).map(|(_, rest)| rest);
    }
    if !text.starts_with(['{', '[']) {
        let end = text.find([',', '}'])?;
        return text.get(end..);
    }
    let mut depth = 0_usize;
    let mut rest = text;
    loop {
        match rest.chars().next()? {
            '"' => {
                rest = string(rest)?.1;
                continue;
            }
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        let mut chars = rest.chars();
        chars.next();
        rest = chars.as_str();
        if depth == 0 {
            return Some(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_returned_once_its_string_is_complete() {
        for (input, expected) in [
            (r#"{"path":"out.txt""#, Some("out.txt")),
            (r#" { "n" : 3, "path" : "a \"b\".txt", "content"#, Some("a \"b\".txt")),
            (r#"{"o":{"path":"no","l":[1,"}"]},"path":"yes""#, Some("yes")),
            (r#"{"path":"out.t"#, None),
            (r#"{"path":"a\\"#, None),
            (r#"{"path":3,"x":1}"#, None),
            (r#"{"content":"path"#, None),
            (r#"{"pa"#, None),
            ("", None),
            ("[1]", None),
        ] {
            assert_eq!(string_field(input, "path").as_deref(), expected, "{input}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_partial_input_is_parsed_without_a_panic(input in ".{0,200}", field in "[a-z]{0,4}") {
            let _ = string_field(&input, &field);
        }
    }
}
