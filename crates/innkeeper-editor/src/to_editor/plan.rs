//! Plans: the calls of `update_plan`, whose steps editors show apart from the other calls.

use serde_json::{Value, json};

/// The tool whose calls are plans.
pub(super) const TOOL: &str = "update_plan";

/// Reads the steps of a plan: from the call's input, or from a list of tasks in Markdown. `None` if there are none.
pub(super) fn entries(input: Option<&Value>, text: &str) -> Option<Vec<Value>> {
    let steps = input.and_then(|input| input["steps"].as_array());
    let entries: Vec<Value> = match steps {
        Some(steps) => steps.iter().filter_map(of_input).collect(),
        None => text.lines().filter_map(of_line).collect(),
    };
    (!entries.is_empty()).then_some(entries)
}

fn of_input(step: &Value) -> Option<Value> {
    let status = match step["status"].as_str() {
        Some("done" | "completed") => "completed",
        Some("in_progress") => "in_progress",
        _ => "pending",
    };
    Some(entry(step["step"].as_str()?, status))
}

fn of_line(line: &str) -> Option<Value> {
    let line = line.trim_start();
    if let Some(step) = line.strip_prefix("- [x] ") {
        return Some(entry(step, "completed"));
    }
    let step = line.strip_prefix("- [ ] ")?;
    let active = step.strip_prefix("**").and_then(|step| step.strip_suffix("**"));
    Some(match active {
        Some(step) => entry(step, "in_progress"),
        None => entry(step, "pending"),
    })
}

fn entry(step: &str, status: &str) -> Value {
    json!({ "content": step, "priority": "medium", "status": status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_from_inputs_and_from_lists_of_tasks() {
        let statuses = |entries: Option<Vec<Value>>| {
            let entries = entries.expect("a plan");
            let status = |entry: &Value| format!("{} {}", entry["content"], entry["status"]);
            entries.iter().map(status).collect::<Vec<_>>().join(", ")
        };
        let input = json!({ "steps": [{ "step": "a", "status": "done" }, { "step": "b", "status": "in_progress" }] });
        assert_eq!(
            statuses(entries(Some(&input), "")),
            r#""a" "completed", "b" "in_progress""#
        );
        let list = "- [x] a\n- [ ] **b**\n- [ ] c\n";
        let expected = r#""a" "completed", "b" "in_progress", "c" "pending""#;
        assert_eq!(statuses(entries(None, list)), expected);
        assert_eq!(entries(None, "no list"), None);
    }
}
