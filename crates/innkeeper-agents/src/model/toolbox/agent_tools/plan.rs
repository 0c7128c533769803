//! `update_plan`: a task list that users see.

use innkeeper_host::AgentError;
use innkeeper_host::agent::{Invocation, ToolContent, ToolDraft, ToolResult};
use serde::Deserialize;
use serde_json::Value;

use crate::model::turn::TurnRun;
use crate::tools::ToolAnswer;

/// Maximum number of steps.
const MAX_STEPS: usize = 100;
/// Maximum characters of a step, which clients show in one line.
const MAX_STEP: usize = 200;

#[derive(Debug, Deserialize)]
struct Plan {
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Step {
    step: String,
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Done,
}

/// Shows the plan.
pub(in crate::model) async fn update_plan(
    draft: ToolDraft,
    input: Value,
    run: &TurnRun<'_>,
) -> Result<ToolAnswer, AgentError> {
    let plan = match serde_json::from_value::<Plan>(input.clone()) {
        Ok(plan) if plan.steps.len() > MAX_STEPS => Err(format!("`steps` has more than {MAX_STEPS} entries")),
        Ok(plan) if plan.steps.is_empty() => Err("`steps` is empty".to_owned()),
        Ok(plan) => Ok(plan),
        Err(error) => Err(format!("the plan cannot be read: {error}")),
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(problem) => {
            draft
                .complete(ToolResult::failed("Could not show the plan", problem.clone()))
                .await?;
            return Ok(ToolAnswer::failed(problem));
        }
    };
    let call = draft
        .run(Invocation::new("Updates the plan").input(input.to_string()))
        .await?;
    let done = plan.steps.iter().filter(|step| step.status == Status::Done).count();
    let now = plan.steps.iter().find(|step| step.status == Status::InProgress);
    run.set_plan_step(now.map(Step::line)).await?;
    let summary = format!("Plan: {done} of {} steps done", plan.steps.len());
    call.complete(ToolResult {
        success: true,
        summary: summary.clone(),
        content: vec![ToolContent::Text(plan.checklist())],
        ..ToolResult::default()
    })
    .await?;
    Ok(ToolAnswer::ok(summary))
}

impl Step {
    /// Renders the step as one line of limited length.
    fn line(&self) -> String {
        let words: Vec<&str> = self.step.split_whitespace().take(MAX_STEP).collect();
        let line = words.join(" ");
        match line.char_indices().nth(MAX_STEP) {
            Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
            None => line,
        }
    }
}

impl Plan {
    fn checklist(&self) -> String {
        let line = |step: &Step| {
            let (mark, emphasis) = match step.status {
                Status::Pending => (' ', ""),
                Status::InProgress => (' ', "**"),
                Status::Done => ('x', ""),
            };
            format!("- [{mark}] {emphasis}{}{emphasis}\n", step.line())
        };
        self.steps.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line_of_limited_length() {
        let step = |text: String| Step {
            step: text,
            status: Status::InProgress,
        };
        assert_eq!(step(" Read\nthe  file ".into()).line(), "Read the file");
        let plan = Plan {
            steps: vec![step("ä".repeat(1 << 20)), step("a b ".repeat(1 << 18))],
        };
        for step in &plan.steps {
            assert!(step.line().chars().count() <= MAX_STEP + 1);
        }
        assert!(plan.checklist().len() < 1000);
    }
}
