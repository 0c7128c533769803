//! The report of the doctor.

use serde::Serialize;

use innkeeper_cli::failure::Failure;
use innkeeper_cli::terminal::{Output, one_line};

/// The level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// A finding.
#[derive(Debug, Serialize)]
struct Finding {
    level: Level,
    subject: &'static str,
    finding: String,
    /// The advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// All findings, in order.
#[derive(Debug, Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// Reports a successful check.
    pub(super) fn ok(&mut self, subject: &'static str, finding: impl Into<String>) {
        self.add(Level::Ok, subject, finding.into(), None);
    }

    /// Reports a warning.
    pub(super) fn warn(&mut self, subject: &'static str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Warn, subject, finding.into(), Some(advice.into()));
    }

    /// Reports a failed check.
    pub(super) fn fail(&mut self, subject: &'static str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Fail, subject, finding.into(), Some(advice.into()));
    }

    fn add(&mut self, level: Level, subject: &'static str, finding: String, advice: Option<String>) {
        let advice = advice.filter(|advice| !advice.is_empty());
        self.findings.push(Finding {
            level,
            subject,
            finding,
            advice,
        });
    }

    /// Returns the number of failed checks.
    pub(super) fn failures(&self) -> usize {
        let failed = |finding: &&Finding| finding.level == Level::Fail;
        self.findings.iter().filter(failed).count()
    }

    /// Prints the report.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        let mut output = Output::stdout();
        for finding in &self.findings {
            let line = match json {
                true => {
                    serde_json::to_string(finding).expect("invariant: a finding has only string keys and plain values")
                }
                false => finding.in_words(),
            };
            output.show(&format!("{line}\n"))?;
        }
        Ok(())
    }
}

impl Finding {
    fn in_words(&self) -> String {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        let finding = one_line(self.finding.trim_end_matches('.'), 1000);
        let advice = match &self.advice {
            Some(advice) => format!("\n      {:<15} to do: {}", "", one_line(advice, 1000)),
            None => String::new(),
        };
        format!("{level:<4}  {:<15} {finding}{advice}", self.subject)
    }
}
