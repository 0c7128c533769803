//! `edit_file`: replaces a piece of text in a file.

use serde_json::{Value, json};

use super::ToolLimits;
use super::change::{self, ChangeDefinition, PlannedChange};
use super::input::Input;
use super::paths::WorkingDirectories;
use super::text::Text;
use crate::model::api::ToolSpec;
use innkeeper_std::text::truncate_chars_counted;

mod nearest;

/// The tool `edit_file`.
pub(super) const EDIT_FILE: ChangeDefinition = ChangeDefinition {
    spec,
    title: "Edit a file",
    verb: "Editing",
    plan,
};

fn spec() -> ToolSpec {
    ToolSpec {
        name: "edit_file".to_owned(),
        description: "Replaces a piece of a file. `old_string` must be exactly what the file has, white space \
                      included and without line numbers, and must occur once; add lines around it until it does, \
                      or set `replace_all`. The user is asked first."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file: relative to the first working directory, or absolute within one." },
                "old_string": { "type": "string", "description": "The text to replace." },
                "new_string": { "type": "string", "description": "The text in its place; empty to delete." },
                "replace_all": { "type": "boolean", "description": "Whether to replace it everywhere in the file." },
            },
            "required": ["path", "old_string", "new_string"],
        }),
    }
}

fn plan(input: &Value, places: &WorkingDirectories, limits: &ToolLimits) -> Result<PlannedChange, String> {
    let input = Input::of(input)?;
    let path = input.non_empty_text("path", "the path of the file to edit")?;
    let old = input.text("old_string", "the text to replace")?;
    let new = input.text("new_string", "the text in its place")?;
    let replace_all = input.flag("replace_all")?;
    if old.is_empty() {
        return Err("`old_string` is empty: give the text to replace, or use `write_file` for a whole file".to_owned());
    }
    if old == new {
        return Err("`old_string` and `new_string` are the same: there is nothing to change".to_owned());
    }
    let place = places.existing(path)?;
    let Some(before) = change::read_current(&place, limits)? else {
        return Err(format!("{} no longer exists", place.quoted()));
    };
    let Some(text) = Text::of(&before) else {
        return Err(format!("{} is not UTF-8 text and cannot be edited", place.quoted()));
    };
    let (old, new) = (text.format().normalize(old), text.format().normalize(new));
    let occurrences: Vec<usize> = text.content.match_indices(&*old).map(|(start, _)| start).collect();
    let problem = match occurrences.as_slice() {
        [] => {
            let mut problem = format!("`old_string` does not occur in {}", place.quoted());
            // The model may not see the content of a secret file.
            if !place.is_secret() {
                problem.push_str(&nearest::hint(&text.content, &old, limits.line_chars));
            }
            Some(problem)
        }
        several @ [_, _, ..] if !replace_all => Some(format!(
            "`old_string` occurs {} times in {} (lines {}): add lines around it until it is the only one, or set \
             `replace_all`",
            several.len(),
            place.quoted(),
            lines_of(&text.content, several)
        )),
        // Check before replacing: a small pattern can expand beyond available memory.
        all if !fits(&text.content, all.len(), &old, &new, limits) => {
            Some(format!("{} would become too large", place.quoted()))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return PlannedChange::blocked(place, before, problem);
    }
    let after = text.format().write(&text.content.replace(&*old, &new));
    if after.len() as u64 > limits.change_bytes {
        let problem = format!("{} would become too large", place.quoted());
        return PlannedChange::blocked(place, before, problem);
    }
    Ok(PlannedChange::new(place, Some(before), after, limits))
}

/// Returns true if the text stays within the size limit after the replacements.
fn fits(text: &str, times: usize, old: &str, new: &str, limits: &ToolLimits) -> bool {
    let removed = times.checked_mul(old.len());
    let added = times.checked_mul(new.len());
    let rest = removed.and_then(|removed| text.len().checked_sub(removed));
    let size = rest.zip(added).and_then(|(rest, added)| rest.checked_add(added));
    size.is_some_and(|size| size as u64 <= limits.change_bytes)
}

/// Returns the line numbers of the first few occurrences.
fn lines_of(text: &str, places: &[usize]) -> String {
    const MOST: usize = 10;
    let line = |start: &usize| {
        let before = text.get(..*start).unwrap_or_default();
        (before.matches('\n').count() + 1).to_string()
    };
    let mut lines: Vec<String> = places.iter().take(MOST).map(line).collect();
    if places.len() > MOST {
        lines.push("…".to_owned());
    }
    lines.join(", ")
}

/// Numbers lines as `read_file` does.
fn numbered(lines: &[&str], first: usize, line_chars: usize) -> String {
    let lines = lines.iter().zip(first..);
    lines
        .map(|(line, number)| format!("{number:>6}\t{}\n", truncate_chars_counted(line, line_chars)))
        .collect()
}
