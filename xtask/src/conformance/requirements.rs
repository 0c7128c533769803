//! The list of requirements.

use std::collections::{BTreeSet, HashMap};

use super::{REQUIREMENTS_PATH, RULE};
use crate::tidy::Finding;

const HEADER: &str = "id\tlevel\tarea\twhat";

/// How binding a requirement is; the page explains the words.
const LEVELS: &[&str] = &["MUST", "SHOULD", "SHOULD NOT", "MAY", "INF", "TRAP", "LESSON"];

/// A longer sentence makes the tables unreadable.
const LONGEST_SENTENCE: usize = 120;

/// One requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) id: String,
    pub(super) level: String,
    pub(super) area: String,
    pub(super) what: String,
}

/// All requirements, in the order of the list.
pub(super) struct Requirements {
    rows: Vec<Requirement>,
    positions: HashMap<String, usize>,
    prefixes: BTreeSet<String>,
}

impl Requirements {
    /// Reads the list, or says what is wrong with it and where.
    pub(super) fn parse(text: &str) -> Result<Self, Finding> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != HEADER) {
            return Err(flaw(1, "the first line must name the columns id, level, area and what"));
        }
        let mut requirements = Self {
            rows: Vec::new(),
            positions: HashMap::new(),
            prefixes: BTreeSet::new(),
        };
        for (index, line) in lines {
            let added = requirement(line).and_then(|requirement| requirements.add(requirement));
            added.map_err(|what| flaw(index + 1, &what))?;
        }
        Ok(requirements)
    }

    fn add(&mut self, requirement: Requirement) -> Result<(), String> {
        let Requirement { id, area, .. } = &requirement;
        let is_continued = self.rows.last().is_some_and(|last| last.area == *area);
        if !is_continued && self.rows.iter().any(|row| row.area == *area) {
            return Err(format!("the area `{area}` ended further above"));
        }
        let (prefix, _) = split(id).ok_or_else(|| format!("`{id}` is not of the form DSP-08"))?;
        self.prefixes.insert(prefix.to_owned());
        if self.positions.insert(id.clone(), self.rows.len()).is_some() {
            return Err(format!("{id} is listed twice"));
        }
        self.rows.push(requirement);
        Ok(())
    }

    /// Returns the requirements in the order of the list.
    pub(super) fn rows(&self) -> &[Requirement] {
        &self.rows
    }

    /// Returns where a requirement stands in the list.
    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.positions.get(id).copied()
    }

    /// Returns whether ids that start so are ours.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.prefixes.contains(prefix)
    }
}

/// Splits an id into its prefix and its two digits.
fn split(id: &str) -> Option<(&str, &str)> {
    let (prefix, number) = id.split_once('-')?;
    let is_id = !prefix.is_empty()
        && prefix.bytes().all(|byte| byte.is_ascii_uppercase())
        && number.len() == 2
        && number.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then_some((prefix, number))
}

fn requirement(line: &str) -> Result<Requirement, String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [id, level, area, what] = columns.as_slice() else {
        return Err(format!("{} columns instead of 4, separated by tabs", columns.len()));
    };
    if !LEVELS.contains(level) {
        return Err(format!("the level `{level}` is none of {}", LEVELS.join(", ")));
    }
    if area.is_empty() || what.is_empty() {
        return Err(format!("{id} lacks its area or its sentence"));
    }
    let length = what.chars().count();
    if length > LONGEST_SENTENCE {
        return Err(format!(
            "the sentence of {id} has {length} characters; {LONGEST_SENTENCE} are the most"
        ));
    }
    Ok(Requirement {
        id: (*id).to_owned(),
        level: (*level).to_owned(),
        area: (*area).to_owned(),
        what: (*what).to_owned(),
    })
}

fn flaw(line: usize, what: &str) -> Finding {
    Finding {
        path: REQUIREMENTS_PATH.into(),
        line,
        rule: RULE,
        what: what.into(),
        remedy: "correct the line; the other lines show the form".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rows: &str) -> Result<Requirements, Finding> {
        Requirements::parse(&format!("{HEADER}\n{rows}"))
    }

    #[test]
    fn rows_are_found_by_their_id() {
        let list = parse("DSP-01\tMUST\tActions\tOne\nE-02\tTRAP\tTraps\tTwo\n").unwrap();
        assert_eq!(list.position("E-02"), Some(1));
        assert_eq!(list.position("E-03"), None);
        assert!(list.has_prefix("DSP") && !list.has_prefix("D"));
    }

    #[test]
    fn flaws_are_reported_with_their_line() {
        assert_eq!(Requirements::parse("").err().unwrap().line, 1);
        let long = format!("A-02\tMUST\ta\t{}", "x".repeat(121));
        for flawed in [
            "A-2\tMUST\ta\tb",
            "a-02\tMUST\ta\tb",
            "A-01\tMUST\ta\tb",
            "A-02\tWISH\ta\tb",
            "A-02\tMUST\ta",
            "A-02\tMUST\ta\t",
            "",
            &long,
        ] {
            let finding = parse(&format!("A-01\tMUST\ta\tb\n{flawed}\n")).err();
            assert_eq!(finding.map(|finding| finding.line), Some(3), "{flawed}");
        }
    }

    #[test]
    fn an_area_is_contiguous() {
        assert!(parse("A-01\tMUST\ta\tx\nB-01\tMUST\tb\tx\nA-02\tMUST\ta\tx\n").is_err());
    }
}
