//! Early returns that say nothing: `else { return; }` without a comment, and in the core without `never!`.
//!
//! Such a return hides a bug when the object cannot be missing, and hides the reason when it can.

use super::Finding;
use super::ratchet::{Scoped, scope_of};
use crate::source::{Source, find_word, line_at, matching_close};

const RULE: &str = "silent-return";

/// The crate whose objects are resolved at the edge.
const CORE: &str = "crates/innkeeper-core/src";
/// Where a lost message or an answer that never comes would be the consequence: whatever is missing there has a reason.
const OTHERS: &[&str] = &["crates/innkeeper-host/src", "crates/innkeeper-mcp/src"];

/// Checks one file.
pub(super) fn check(source: &Source) -> Vec<Scoped> {
    if !source.is_under(CORE) && !OTHERS.iter().any(|folder| source.is_under(folder)) {
        return Vec::new();
    }
    let remedy = match source.is_under(CORE) {
        true => {
            "if the object cannot be missing, `return never!(\"…\")`; otherwise say in a comment at the return when it is"
        }
        false => {
            "say in a comment at the return, or above the statement, when this happens and why nothing is to be done"
        }
    };
    let code = &source.product_code;
    let mut found = Vec::new();
    for start in find_word(code, "else {") {
        let open = start + "else ".len();
        let close = matching_close(code, open).unwrap_or(code.len());
        // A comment behind the return may stand behind the brace, too.
        let line_end = code[close..].find('\n').map_or(code.len(), |offset| close + offset);
        let has_comment = source.prose[open..line_end].contains("//");
        if code[open + 1..close].trim() != "return;" || has_comment || is_explained(source, start) {
            continue;
        }
        found.push(Scoped {
            scope: scope_of(&source.path),
            finding: Finding {
                path: source.path.clone(),
                line: line_at(
                    code,
                    open + 1 + code[open + 1..close].find("return").unwrap_or_default(),
                ),
                rule: RULE,
                what: "a silent return".to_owned(),
                remedy: remedy.to_owned(),
            },
        });
    }
    found
}

/// Whether a comment stands directly above the `let` statement of this `else`.
fn is_explained(source: &Source, else_at: usize) -> bool {
    let Some(statement) = source.product_code[..else_at].rfind("let ") else {
        return false;
    };
    let mut lines = source.prose[..statement].lines().rev().skip(1);
    lines.next().is_some_and(|line| line.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = check(&Source::new(path, text));
        found.into_iter().map(|found| found.finding.line).collect()
    }

    const FILE: &str = "crates/innkeeper-core/src/a.rs";
    const SILENT: &str = "fn f() {\n    let Some(a) = b else {\n        return;\n    };\n}\n";

    #[test]
    fn a_bare_return_fails_in_the_core_the_host_and_the_engine() {
        assert_eq!(lines(FILE, SILENT), [3]);
        assert_eq!(lines("crates/innkeeper-host/src/a.rs", SILENT), [3]);
        assert!(lines("crates/innkeeper-host/tests/it/a.rs", SILENT).is_empty());
        assert!(lines("crates/innkeeper-plugins/src/a.rs", SILENT).is_empty());
        assert_eq!(lines(FILE, "fn f() {\n    if a {\n    } else { return; }\n}\n"), [3]);
    }

    #[test]
    fn a_reason_passes() {
        for reason in [
            "return never!(\"the chat is in memory\");",
            "return; // DSP-05",
            "// The timer is older than the chat.\n        return;",
            "return Vec::new();",
        ] {
            let text = SILENT.replace("return;", reason);
            assert!(lines(FILE, &text).is_empty(), "{reason}");
        }
    }

    #[test]
    fn a_comment_directly_above_the_statement_is_a_reason() {
        let text = SILENT.replace("    let Some", "    // The timer is older than the chat.\n    let Some");
        assert!(lines(FILE, &text).is_empty());
        let text = SILENT.replace("    let Some", "    // Resolves it.\n    resolve();\n    let Some");
        assert_eq!(lines(FILE, &text), [5]);
    }

    #[test]
    fn tests_may_return_silently() {
        let text = format!("#[cfg(test)]\nmod tests {{\n{SILENT}}}\n");
        assert!(lines(FILE, &text).is_empty());
    }
}
