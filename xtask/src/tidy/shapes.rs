//! Shapes of code that hide mistakes: guessing deserializers, and matches that miss new actions.

use super::Finding;
use crate::source::{Source, find_word, line_at, matching_close};

const SERDE_RULE: &str = "serde-shape";
const MATCH_RULE: &str = "exhaustive-actions";
const ACTION_TABLE: &str = "crates/innkeeper-core/src/protocol/action_table";

/// Checks one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = check_serde(source);
    if source.path.starts_with(ACTION_TABLE) {
        findings.extend(check_matches(source));
    }
    findings
}

fn check_serde(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    let mut findings = Vec::new();
    for start in find_word(code, "serde(") {
        let open = start + "serde".len();
        let close = matching_close(code, open).unwrap_or(code.len());
        for attribute in ["untagged", "flatten"] {
            for offset in find_word(&code[open..close], attribute) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: line_at(code, open + offset),
                    rule: SERDE_RULE,
                    what: format!("`serde({attribute})` buffers the value and hides which field was wrong"),
                    remedy: "use a tagged enum or write the fields out; for a foreign shape, parse it by hand".into(),
                });
            }
        }
    }
    findings
}

/// Finds wildcard arms in matches that name variants of `StateAction`.
fn check_matches(source: &Source) -> Vec<Finding> {
    let code = &source.product_code;
    let names = names_of_state_action(code);
    let mut findings = Vec::new();
    for start in find_word(code, "match ") {
        let Some(open) = code[start..].find('{').map(|offset| start + offset) else {
            continue;
        };
        let close = matching_close(code, open).unwrap_or(code.len());
        let arms = without_nested_blocks(&code[open + 1..close]);
        let over_actions = names
            .iter()
            .any(|name| !find_word(&arms, &format!("{name}::")).is_empty());
        if !over_actions {
            continue;
        }
        for offset in find_word(&arms, "_ =>").into_iter().chain(find_word(&arms, "_ if ")) {
            findings.push(Finding {
                path: source.path.clone(),
                line: line_at(code, open + 1 + offset),
                rule: MATCH_RULE,
                what: "a wildcard arm in a match over StateAction".into(),
                remedy: "name every action, so that a new one in the protocol does not compile before it has its row"
                    .into(),
            });
        }
    }
    findings
}

/// Returns `StateAction` and the name it was imported as, if it was renamed.
fn names_of_state_action(code: &str) -> Vec<&str> {
    let renamed = find_word(code, "StateAction as ").into_iter().filter_map(|start| {
        let alias = &code[start + "StateAction as ".len()..];
        let end = alias.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        Some(&alias[..end])
    });
    ["StateAction"].into_iter().chain(renamed).collect()
}

/// Turns everything inside nested brackets into spaces, which leaves the heads of the arms.
fn without_nested_blocks(block: &str) -> String {
    let mut depth = 0usize;
    let kept = block.bytes().map(|byte| {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let keep = byte == b'\n' || (depth == 0 && byte.is_ascii());
        char::from(if keep { byte } else { b' ' })
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let findings = check(&Source::new(path, text));
        findings.into_iter().map(|finding| finding.rule).collect()
    }

    const TABLE: &str = "crates/innkeeper-core/src/protocol/action_table.rs";

    #[test]
    fn plain_serde_passes() {
        let text = "// No #[serde(untagged)] here.\n#[serde(tag = \"kind\", rename_all = \"camelCase\")]\nenum A {}";
        assert!(rules("a.rs", text).is_empty());
    }

    #[test]
    fn guessing_serde_fails() {
        assert_eq!(rules("a.rs", "#[serde(untagged)]\nenum A {}"), [SERDE_RULE]);
        let split = "#[serde(\n    default,\n    flatten,\n)]\na: A";
        assert_eq!(rules("a.rs", split), [SERDE_RULE]);
        assert_eq!(check(&Source::new("a.rs", split))[0].line, 3);
    }

    #[test]
    fn exhaustive_matches_pass() {
        let text = "match action {\n  StateAction::A(_) => match x { 1 => 2, _ => 3 },\n  StateAction::B { .. } => { match y { _ => 4 } }\n}";
        assert!(rules(TABLE, text).is_empty());
        let other_enum = "match origin { Origin::Host => 1, _ => 2 }";
        assert!(rules(TABLE, other_enum).is_empty());
    }

    #[test]
    fn wildcard_arms_over_actions_fail() {
        let text = "match action {\n  StateAction::A(_) => 1,\n  _ => 2,\n}";
        assert_eq!(rules(TABLE, text), [MATCH_RULE]);
        assert!(rules("crates/innkeeper-core/src/other.rs", text).is_empty());
        let renamed = "use ahp_types::StateAction as A;\nfn f() { match action { A::B(_) | A::C => 1, _ => 2 } }";
        assert_eq!(rules(TABLE, renamed), [MATCH_RULE]);
    }
}
