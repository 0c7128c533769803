//! The page of edge cases names every case, and only tests that exist.

use super::Finding;

/// The page: one row per case, with the tests that show it in backticks.
pub(super) const PAGE_PATH: &str = "docs/dev/customization-cases.md";

/// How many cases there are.
const CASES: usize = 80;

const RULE: &str = "customization-cases";

/// Checks the page against the files of the workspace, given as paths and texts.
pub(super) fn check(page: &str, texts: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut numbers = Vec::new();
    for (line, row) in page.lines().enumerate() {
        let Some((number, shown_by)) = columns(row) else {
            continue;
        };
        let mut complain = |what: String, remedy: &str| {
            findings.push(Finding {
                path: PAGE_PATH.to_owned(),
                line: line + 1,
                rule: RULE,
                what,
                remedy: remedy.to_owned(),
            });
        };
        numbers.push(number);
        if shown_by.is_empty() {
            complain(
                format!("case {number} has neither a test nor a reason"),
                "write one down",
            );
        }
        for test in tests(shown_by).filter(|test| !exists(test, texts)) {
            complain(
                format!("there is no test {test}"),
                "name the test as `crate::module::function`, or take it off the page",
            );
        }
    }
    if numbers != (1..=CASES).collect::<Vec<_>>() {
        findings.push(Finding {
            path: PAGE_PATH.to_owned(),
            line: 1,
            rule: RULE,
            what: format!("the page must have the cases 1 to {CASES}, each once and in order"),
            remedy: "add the row that is missing, or remove the one too many".to_owned(),
        });
    }
    findings
}

/// The number of a row, and what shows it.
fn columns(row: &str) -> Option<(usize, &str)> {
    let mut cells = row.strip_prefix('|')?.strip_suffix('|')?.split('|');
    let number = cells.next()?.trim().parse().ok()?;
    Some((number, cells.nth(1)?.trim()))
}

/// The names in backticks that look like tests of a crate.
fn tests(shown_by: &str) -> impl Iterator<Item = &str> {
    let quoted = shown_by.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.starts_with("innkeeper") && name.contains("::"))
}

/// Whether a crate has a function of the name, or a row that a macro makes one of.
fn exists(test: &str, texts: &[(String, String)]) -> bool {
    let (Some((package, _)), Some((_, function))) = (test.split_once("::"), test.rsplit_once("::")) else {
        return false;
    };
    let folder = format!("crates/{package}/");
    let (written, made) = (format!("fn {function}("), format!(" {function} => "));
    let mut sources = texts
        .iter()
        .filter(|(path, _)| path.starts_with(&folder) && path.ends_with(".rs"));
    sources.any(|(_, text)| text.contains(&written) || text.contains(&made))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: impl IntoIterator<Item = usize>, shown_by: &str) -> String {
        let rows = rows
            .into_iter()
            .map(|number| format!("| {number} | a | {shown_by} |\n"));
        format!(
            "# Cases\n\n| | case | shown by |\n|---:|---|---|\n{}",
            rows.collect::<String>()
        )
    }

    fn texts() -> Vec<(String, String)> {
        let text = "#[test]\nfn d10_pipes() {}\ncases! {\n    no_name => \"no-name\",\n}\n";
        vec![("crates/innkeeper-plugins/tests/it/x.rs".to_owned(), text.to_owned())]
    }

    #[test]
    fn tests_that_exist_and_reasons_are_fine() {
        for shown_by in [
            "`innkeeper-plugins::x::d10_pipes`, `innkeeper-plugins::cases::no_name`",
            "because it cannot be `shown`",
            "host:",
        ] {
            assert_eq!(check(&page(1..=CASES, shown_by), &texts()), [], "{shown_by}");
        }
    }

    #[test]
    fn tests_that_do_not_exist_are_named() {
        for shown_by in ["`innkeeper-plugins::x::d10_pipe`", "`innkeeper-core::x::d10_pipes`"] {
            let findings = check(&page(1..=CASES, shown_by), &texts());
            assert_eq!(findings.len(), CASES);
            assert_eq!(findings.first().map(|finding| finding.line), Some(5));
        }
    }

    #[test]
    fn a_case_that_is_missing_or_empty_is_noticed() {
        assert_eq!(check(&page(1..CASES, "host:"), &texts()).len(), 1);
        assert_eq!(check(&page((1..=CASES).rev(), "host:"), &texts()).len(), 1);
        assert_eq!(check(&page(1..=CASES, ""), &texts()).len(), CASES);
        assert_eq!(check("", &texts()).len(), 1);
    }
}
