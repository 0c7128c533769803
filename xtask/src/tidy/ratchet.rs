//! Rules that the repository does not meet everywhere yet: counts that may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Finding;

/// The file with the counts: rule, scope and allowed count, separated by tabs.
pub(super) const PATH: &str = "xtask/ratchet.tsv";

const HEADER: &str = "# Findings that `cargo xtask tidy` still tolerates: rule, scope, count, separated by tabs.\n\
                      # A count may only shrink. `cargo xtask tidy --lower` writes lower counts; never raise one by hand.\n";

/// The allowed count of each rule and scope. A pair that is not listed is allowed none.
pub(super) struct Ratchet {
    allowed: BTreeMap<(String, String), usize>,
}

impl Ratchet {
    /// Reads the file. Lines that cannot be read count as absent, so that they fail where they matter.
    pub(super) fn parse(text: &str) -> Self {
        let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let mut cells = line.split('\t');
            let (rule, scope, count) = (cells.next()?, cells.next()?, cells.next()?);
            Some(((rule.to_owned(), scope.to_owned()), count.trim().parse().ok()?))
        });
        Self {
            allowed: rows.collect(),
        }
    }

    /// Returns the findings of the scopes that have more than they may.
    pub(super) fn excess(&self, findings: &[Scoped]) -> Vec<Finding> {
        let mut excess = Vec::new();
        for ((rule, scope), count) in counts(findings) {
            let allowed = self.allowed(&rule, &scope);
            if count <= allowed {
                continue;
            }
            let of_scope = findings.iter().filter(|found| found.scope == scope);
            excess.extend(of_scope.filter(|found| found.finding.rule == rule).map(|found| {
                let finding = found.finding.clone();
                let what = format!("{} ({scope} has {count}, allowed are {allowed})", finding.what);
                Finding { what, ..finding }
            }));
        }
        excess
    }

    /// Returns the file with the counts of today where they are lower, and without scopes that are clean.
    pub(super) fn lowered(&self, findings: &[Scoped]) -> String {
        let counts = counts(findings);
        let mut text = HEADER.to_owned();
        for ((rule, scope), allowed) in &self.allowed {
            let count = counts.get(&(rule.clone(), scope.clone())).copied().unwrap_or_default();
            if count > 0 {
                let _ = writeln!(text, "{rule}\t{scope}\t{}", count.min(*allowed));
            }
        }
        text
    }

    fn allowed(&self, rule: &str, scope: &str) -> usize {
        let key = (rule.to_owned(), scope.to_owned());
        self.allowed.get(&key).copied().unwrap_or_default()
    }
}

/// A finding that counts against the allowance of a scope, such as a crate.
pub(super) struct Scoped {
    pub(super) scope: String,
    pub(super) finding: Finding,
}

/// Returns the crate or the top folder of a file; files at the root are one scope.
pub(super) fn scope_of(path: &str) -> String {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["crates", name, ..] => format!("crates/{name}"),
        [_] => ".".to_owned(),
        [folder, ..] => (*folder).to_owned(),
        [] => String::new(),
    }
}

fn counts(findings: &[Scoped]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for found in findings {
        let key = (found.finding.rule.to_owned(), found.scope.clone());
        *counts.entry(key).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(scope: &str, count: usize) -> Vec<Scoped> {
        let finding = Finding {
            path: format!("{scope}/a.rs"),
            line: 1,
            rule: "prose",
            what: "a free relative clause".to_owned(),
            remedy: "say it plainly".to_owned(),
        };
        let scoped = |finding: Finding| Scoped {
            scope: scope.to_owned(),
            finding,
        };
        (0..count).map(|_| scoped(finding.clone())).collect()
    }

    #[test]
    fn more_than_allowed_fails_and_fewer_pass() {
        let ratchet = Ratchet::parse("# a remark\nprose\tcrates/a\t2\n");
        assert_eq!(ratchet.excess(&found("crates/a", 2)), []);
        assert_eq!(ratchet.excess(&found("crates/a", 1)), []);
        assert_eq!(ratchet.excess(&found("crates/a", 3)).len(), 3);
        assert_eq!(ratchet.excess(&found("crates/b", 1)).len(), 1);
    }

    #[test]
    fn counts_are_lowered_and_never_raised() {
        let ratchet = Ratchet::parse("prose\tcrates/a\t2\nprose\tcrates/b\t5\nprose\tcrates/c\t5\n");
        let mut today = found("crates/a", 3);
        today.extend(found("crates/b", 4));
        assert_eq!(
            ratchet.lowered(&today),
            format!("{HEADER}prose\tcrates/a\t2\nprose\tcrates/b\t4\n")
        );
    }

    #[test]
    fn scopes_are_crates_and_top_folders() {
        assert_eq!(scope_of("crates/a/src/b/c.rs"), "crates/a");
        assert_eq!(scope_of("docs/dev/style.md"), "docs");
        assert_eq!(scope_of("README.md"), ".");
    }
}
