//! Which tests show which requirement of the protocol: `docs/conformance.md`, made from the tests.
//!
//! The page is generated, and tidy fails when it is out of date, so that it cannot claim more or
//! less than the tests do.

mod citations;
mod page;
mod requirements;
mod tests_in_source;

use anyhow::{Context, Result, bail};

use crate::source::Source;
use crate::tidy::Finding;
use crate::workspace::Workspace;
use citations::Cited;
use requirements::Requirements;
use tests_in_source::Test;

/// The list of requirements, one per line.
const REQUIREMENTS_PATH: &str = "docs/requirements.tsv";

/// The page that is made from the list and the tests.
const PAGE_PATH: &str = "docs/conformance.md";

/// The tests of this tool show nothing about the host, and they hold ids that do not exist.
const OWN_FOLDER: &str = "xtask";

const RULE: &str = "conformance";

/// Writes the page.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    let sources = sources(workspace)?;
    let (conformance, unknown) = Conformance::of(workspace, &sources)
        .map_err(|finding| anyhow::anyhow!("{finding}"))
        .context("the list of requirements cannot be read")?;
    complain(&unknown)?;
    workspace.write_text(PAGE_PATH, &conformance.page())?;
    println!("conformance: wrote {PAGE_PATH}, {}", conformance.in_short());
    Ok(())
}

/// Checks that the page is up to date, and prints what is not.
pub(crate) fn run_check(workspace: &Workspace) -> Result<()> {
    complain(&check(workspace, &sources(workspace)?))?;
    println!("conformance: {PAGE_PATH} is up to date");
    Ok(())
}

/// Checks that the page is up to date and that tests cite only requirements that exist.
pub(crate) fn check(workspace: &Workspace, sources: &[Source]) -> Vec<Finding> {
    match Conformance::of(workspace, sources) {
        Ok((conformance, mut findings)) => {
            let written = workspace.read_text(PAGE_PATH).unwrap_or_default();
            findings.extend(out_of_date(&written, &conformance.page()));
            findings
        }
        Err(finding) => vec![finding],
    }
}

fn complain(findings: &[Finding]) -> Result<()> {
    for finding in findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("conformance found {count} mistake(s); each line above says what to do"),
    }
}

fn sources(workspace: &Workspace) -> Result<Vec<Source>> {
    let files = workspace.files()?;
    let rust = files.iter().filter(|path| path.ends_with(".rs"));
    Ok(rust
        .filter_map(|path| Some(Source::new(path, &workspace.read_text(path)?)))
        .collect())
}

fn out_of_date(written: &str, expected: &str) -> Option<Finding> {
    if written == expected {
        return None;
    }
    let same = written.lines().zip(expected.lines()).take_while(|(a, b)| a == b);
    Some(Finding {
        path: PAGE_PATH.into(),
        line: same.count() + 1,
        rule: RULE,
        what: "the page no longer says what the tests and the list of requirements say".into(),
        remedy: "run `cargo xtask conformance` and commit what it writes".into(),
    })
}

/// Returns the line and the name of each test of a file.
pub(crate) fn test_names(source: &Source) -> Vec<(usize, String)> {
    let tests = tests_in_source::tests(source).into_iter();
    tests.map(|test| (test.line, test.name)).collect()
}

/// The requirements, and for each the tests that cite it.
struct Conformance {
    requirements: Requirements,
    /// In the order of the requirements.
    tests: Vec<Vec<Evidence>>,
}

/// A test that cites a requirement. The order is that of the page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Evidence {
    cited: Cited,
    path: String,
    test: String,
}

impl Conformance {
    /// Brings requirements and tests together. Also returns citations of ids that do not exist.
    fn of(workspace: &Workspace, sources: &[Source]) -> Result<(Self, Vec<Finding>), Finding> {
        let list = workspace.read_text(REQUIREMENTS_PATH).unwrap_or_default();
        let requirements = Requirements::parse(&list)?;
        let tests: Vec<Test> = sources
            .iter()
            .filter(|source| !source.is_under(OWN_FOLDER))
            .flat_map(tests_in_source::tests)
            .collect();
        Ok(Self::join(requirements, &tests))
    }

    fn join(requirements: Requirements, tests: &[Test]) -> (Self, Vec<Finding>) {
        let mut evidence = vec![Vec::<Evidence>::new(); requirements.rows().len()];
        let mut unknown = Vec::new();
        for test in tests {
            for (id, cited) in citations::of(test, &requirements) {
                match requirements.position(&id) {
                    Some(position) => evidence[position].push(Evidence {
                        cited,
                        path: test.path.clone(),
                        test: test.name.clone(),
                    }),
                    None => unknown.push(unknown_id(test, &id)),
                }
            }
        }
        for tests in &mut evidence {
            tests.sort();
        }
        let conformance = Self {
            requirements,
            tests: evidence,
        };
        (conformance, unknown)
    }

    fn page(&self) -> String {
        page::render(self)
    }

    fn in_short(&self) -> String {
        let shown = self.tests.iter().filter(|tests| !tests.is_empty()).count();
        format!("{shown} of {} requirements have a test", self.tests.len())
    }
}

fn unknown_id(test: &Test, id: &str) -> Finding {
    Finding {
        path: test.path.clone(),
        line: test.line,
        rule: RULE,
        what: format!("the test `{}` cites {id}, which is no requirement we know", test.name),
        remedy: format!("correct the id, or add the requirement to {REQUIREMENTS_PATH}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "id\tlevel\tarea\twhat\n\
                        DSP-01\tMUST\tActions\tOne\n\
                        DSP-02\tINF\tActions\tTwo with a | in it\n\
                        E-41\tTRAP\tTraps\tThree\n";

    fn joined(text: &str) -> (Conformance, Vec<Finding>) {
        let tests = tests_in_source::tests(&Source::new("a/b.rs", text));
        Conformance::join(Requirements::parse(LIST).unwrap(), &tests)
    }

    #[test]
    fn the_page_names_the_tests_of_each_requirement() {
        let (conformance, unknown) = joined(
            "/// (DSP-01)\n#[test]\nfn a() {}\n#[test]\nfn dsp01_b() {}\n\
             #[test]\nfn dsp01_c() {}\n#[test]\nfn dsp01_d() {}\n#[test]\nfn e41_dsp01_e() {}\n",
        );
        assert!(unknown.is_empty());
        let page = conformance.page();
        let row =
            "| DSP-01 | MUST | One | `a/b.rs`: `dsp01_b`<br>`a/b.rs`: `dsp01_c`<br>`a/b.rs`: `dsp01_d`<br>and 2 more |";
        assert!(page.contains(row), "{page}");
        assert!(
            page.contains("| DSP-02 | INF | Two with a \\| in it | *none* |"),
            "{page}"
        );
        assert!(page.contains("| [Actions](#actions) | 2 | 1 | 1 | 0 |"), "{page}");
        assert!(page.contains("| All | 3 | 2 | 1 | 0 |"), "{page}");
        assert_eq!(conformance.in_short(), "2 of 3 requirements have a test");
    }

    #[test]
    fn an_id_that_does_not_exist_is_reported_where_it_is_cited() {
        let (_, unknown) = joined("\n#[test]\nfn dsp99_a() {}\n");
        assert_eq!((unknown[0].path.as_str(), unknown[0].line), ("a/b.rs", 3));
        assert!(unknown[0].what.contains("DSP-99"));
        // Other lists have ids of the same form, and they are not ours to check.
        assert!(joined("// RFC-99, SHA-256\n#[test]\nfn p99_a() {}\n").1.is_empty());
    }

    #[test]
    fn a_stale_page_names_the_line_and_the_command_to_run() {
        assert_eq!(out_of_date("a\nb\n", "a\nb\n"), None);
        let finding = out_of_date("a\nb\n", "a\nc\n").unwrap();
        assert_eq!(finding.line, 2);
        assert!(finding.remedy.contains("cargo xtask conformance"));
        assert_eq!(out_of_date("", "a\n").unwrap().line, 1);
    }
}
