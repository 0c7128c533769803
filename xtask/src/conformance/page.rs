//! The page as Markdown.

use std::fmt::Write as _;

use super::requirements::Requirement;
use super::{Conformance, Evidence};

/// More tests than this would drown the other columns.
const MAX_TESTS_SHOWN: usize = 3;

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask conformance` from docs/requirements.tsv and the tests. Do not edit. -->

# Conformance

What a host of the Agent Host Protocol 1.0 has to do, and which of our tests show that this one does it.

The requirements stand in [requirements.tsv](requirements.tsv), in our own words. A test shows a requirement if it names
its id: `dsp08` in the name of the function, or `DSP-08` in a comment directly above it, or inside it in a comment or in
the message of an assertion. Tests that carry the id in their name come first, and at most three are shown. A row with
*none* has no such test: the requirement may still be met, but nothing here proves it. A row with tests is only as good
as they are.

The levels `MUST`, `SHOULD`, `SHOULD NOT` and `MAY` are the protocol's own. `INF` is written down nowhere, but clients
break without it. `TRAP` is a mistake that the published types and reducers invite, and `LESSON` a failure that was
reported from hosts of the same kind.

After adding, renaming or removing a test, run `cargo xtask conformance`. `cargo xtask tidy` fails while this page is out
of date, or when a test names an id that the list does not have.
";

/// The requirements of one area, each with its tests.
struct Area<'a> {
    name: &'a str,
    rows: Vec<(&'a Requirement, &'a [Evidence])>,
}

/// Returns the page.
pub(super) fn render(conformance: &Conformance) -> String {
    let areas = areas(conformance);
    let mut page = INTRODUCTION.to_owned();
    page += "\n## Summary\n\n";
    page += "| area | requirements | with a test | without | of these `MUST` |\n|---|---:|---:|---:|---:|\n";
    let mut total = Counts::default();
    for area in &areas {
        let counts = Counts::of(area);
        total.add(&counts);
        page += &counts.row(&format!("[{}](#{})", area.name, anchor(area.name)));
    }
    page += &total.row("All");
    for area in &areas {
        let _ = write!(
            page,
            "\n## {}\n\n| id | level | what | tests |\n|---|---|---|---|\n",
            area.name
        );
        for (Requirement { id, level, what, .. }, tests) in &area.rows {
            let what = what.replace('|', "\\|");
            let _ = writeln!(page, "| {id} | {level} | {what} | {} |", cell(tests));
        }
    }
    page
}

fn areas(conformance: &Conformance) -> Vec<Area<'_>> {
    let mut areas: Vec<Area<'_>> = Vec::new();
    for (requirement, tests) in conformance.requirements.rows().iter().zip(&conformance.tests) {
        let row = (requirement, tests.as_slice());
        match areas.last_mut() {
            Some(area) if area.name == requirement.area => area.rows.push(row),
            _ => areas.push(Area {
                name: &requirement.area,
                rows: vec![row],
            }),
        }
    }
    areas
}

fn cell(tests: &[Evidence]) -> String {
    if tests.is_empty() {
        return "*none*".to_owned();
    }
    let mut lines: Vec<String> = tests
        .iter()
        .take(MAX_TESTS_SHOWN)
        .map(|Evidence { path, test, .. }| format!("`{path}`: `{test}`"))
        .collect();
    if tests.len() > MAX_TESTS_SHOWN {
        lines.push(format!("and {} more", tests.len() - MAX_TESTS_SHOWN));
    }
    lines.join("<br>")
}

/// Returns the anchor that Markdown viewers give a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

#[derive(Default)]
struct Counts {
    all: usize,
    without: usize,
    binding_without: usize,
}

impl Counts {
    fn of(area: &Area<'_>) -> Self {
        let without = || area.rows.iter().filter(|(_, tests)| tests.is_empty());
        Self {
            all: area.rows.len(),
            without: without().count(),
            binding_without: without().filter(|(row, _)| row.level == "MUST").count(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.without += other.without;
        self.binding_without += other.binding_without;
    }

    fn row(&self, name: &str) -> String {
        let Self {
            all,
            without,
            binding_without,
        } = self;
        let with = all - without;
        format!("| {name} | {all} | {with} | {without} | {binding_without} |\n")
    }
}
