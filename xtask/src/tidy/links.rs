//! Links between pages lead to files that exist.

use std::collections::HashSet;

use super::Finding;

const RULE: &str = "broken-link";

/// Checks the relative links of a Markdown page against the files of the repository.
pub(super) fn check(path: &str, text: &str, files: &HashSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for target in targets(line) {
            let file = resolve(path, target);
            let is_folder = || files.iter().any(|known| known.starts_with(&format!("{file}/")));
            if files.contains(file.as_str()) || is_folder() {
                continue;
            }
            findings.push(Finding {
                path: path.to_owned(),
                line: index + 1,
                rule: RULE,
                what: format!("the link to {target} leads nowhere"),
                remedy: "correct the path, or remove the link".to_owned(),
            });
        }
    }
    findings
}

/// Returns the targets of links to files of the repository, without their anchors.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    links
        .map(|(target, _)| target.split_once('#').map_or(target, |(file, _)| file))
        .filter(|target| !target.is_empty() && !target.contains([':', ' ']))
}

fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(line: &str) -> usize {
        let files = HashSet::from(["README.md", "docs/a.md", "docs/adr/README.md"]);
        check("docs/b.md", line, &files).len()
    }

    #[test]
    fn links_lead_to_files_and_folders() {
        assert_eq!(
            broken("[a](a.md#x), [r](../README.md), [adr](adr), [web](https://example.net), [here](#x)"),
            0
        );
        assert_eq!(broken("[a](c.md) and [r](README.md)"), 2);
        assert_eq!(broken("```\n[a](c.md)\n```"), 0);
    }
}
