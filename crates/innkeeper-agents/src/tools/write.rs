//! `write_file`: creates or overwrites a file.

use serde_json::{Value, json};

use super::ToolLimits;
use super::change::{self, ChangeDefinition, PlannedChange};
use super::input::Input;
use super::paths::WorkingDirectories;
use super::text::Text;
use crate::model::api::ToolSpec;

/// The tool `write_file`.
pub(super) const WRITE_FILE: ChangeDefinition = ChangeDefinition {
    spec,
    title: "Write a file",
    verb: "Writing",
    plan,
};

fn spec() -> ToolSpec {
    ToolSpec {
        name: "write_file".to_owned(),
        description: "Writes a file of the session's working directories, in place of what it was; missing \
                      directories are created. The user is asked first. To change a part of a file, use \
                      `edit_file`."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file: relative to the first working directory, or absolute within one." },
                "content": { "type": "string", "description": "All of the file's text." },
            },
            "required": ["path", "content"],
        }),
    }
}

fn plan(input: &Value, places: &WorkingDirectories, limits: &ToolLimits) -> Result<PlannedChange, String> {
    let input = Input::of(input)?;
    let path = input.non_empty_text("path", "the path of the file to write")?;
    let content = input.text("content", "all of the file's text")?;
    if content.len() as u64 > limits.change_bytes {
        return Err(format!(
            "`content` has more than {} bytes: write it in parts with `run_command`",
            limits.change_bytes
        ));
    }
    if path.ends_with('/') {
        return Err(format!("`path` must name a file, not a directory: `{path}`"));
    }
    let place = places.target(path)?;
    let before = change::read_current(&place, limits)?;
    let old = before.as_deref().and_then(Text::of);
    // An existing file keeps its byte-order mark and line endings.
    let after = match old {
        Some(old) => old.format().write(&old.format().normalize(content)),
        None => content.as_bytes().to_owned(),
    };
    Ok(PlannedChange::new(place, before, after, limits))
}
