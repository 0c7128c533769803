//! Changes and reviews of files, without a model.

use std::fs;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{say, tools};
use innkeeper_host::agent::{Confirmation, FileChange, FileSide, TextSpan, ToolContent, ToolResult, Verdict};
use innkeeper_host::{AgentError, EventSink, TurnInput};

/// Largest file that the tour changes.
const MAX_BYTES: u64 = 1 << 20;

/// A file in the first directory of the session.
fn file_in(turn: &TurnInput, name: &str) -> Result<(PathBuf, String), String> {
    let directory = turn.working_directories.first();
    let directory = directory.and_then(|uri| url::Url::parse(uri).ok()?.to_file_path().ok());
    let Some(directory) = directory else {
        return Err("This session has no directory. Create one with a working directory first.".to_owned());
    };
    let is_inside = |step: Component<'_>| matches!(step, Component::Normal(_));
    if !Path::new(name).components().all(is_inside) {
        return Err(format!(
            "`{name}` is not the name of a file in the directory of the session."
        ));
    }
    // A symlink may lead elsewhere.
    let mut path = directory.clone();
    for step in Path::new(name).components() {
        path.push(step);
        if fs::symlink_metadata(&path).is_ok_and(|about| about.is_symlink()) {
            return Err(format!("`{name}` leads through a symlink, which I do not follow."));
        }
    }
    match url::Url::from_file_path(&path) {
        Ok(uri) => Ok((path, uri.into())),
        Err(()) => Err(format!("`{name}` has no URI.")),
    }
}

/// `/edit`: asks, and adds a line to a file.
pub(super) async fn edit(turn: &TurnInput, events: &EventSink, name: &str, text: &str) -> Result<(), AgentError> {
    let (path, uri) = match file_in(turn, name) {
        Ok(file) => file,
        Err(problem) => return say(events, &problem).await,
    };
    let before = match fs::metadata(&path) {
        Ok(about) if about.len() > MAX_BYTES => return say(events, "That file is too large for me.").await,
        Ok(_) => fs::read_to_string(&path).ok(),
        Err(_) => None,
    };
    let former = before.clone().unwrap_or_default();
    let is_open = !former.is_empty() && !former.ends_with('\n');
    let after = format!("{former}{}{text}\n", if is_open { "\n" } else { "" });
    let mut draft = tools::call(events, "write_line").start().await?;
    draft.input(json!({ "file": name, "text": text }).to_string()).await?;
    let side = |text: &str| {
        let content = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(text));
        FileSide::new(uri.clone(), content)
    };
    let change = FileChange {
        before: before.as_deref().map(side),
        after: Some(side(&after)),
        added: 1,
        removed: u32::from(is_open),
    };
    let confirmation = Confirmation {
        title: Some(format!("Write to {name}?")),
        edits: vec![change.clone()],
        ..Confirmation::default()
    };
    match draft.confirm(format!("Writes to {name}"), confirmation).await? {
        Verdict::Approved(call, _) => {
            let written = path
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&path, &after));
            let result = match written {
                Ok(()) => ToolResult {
                    content: vec![ToolContent::FileEdit(change)],
                    ..ToolResult::text(format!("Wrote to {name}"), "")
                },
                Err(error) => ToolResult::failed(format!("Did not write to {name}"), error.to_string()),
            };
            call.complete(result).await?;
            say(
                events,
                &format!("`{name}` has one more line. The changes of this session show it."),
            )
            .await
        }
        Verdict::Denied(_) => say(events, "Then I leave the file alone.").await,
    }
}

/// `/review`: comments on a file.
pub(super) async fn review(turn: &TurnInput, events: &EventSink, name: &str) -> Result<(), AgentError> {
    let (path, uri) = match file_in(turn, name) {
        Ok(file) => file,
        Err(problem) => return say(events, &problem).await,
    };
    let lines = fs::read_to_string(&path).map(|text| text.lines().count());
    let Ok(lines) = lines else {
        return say(events, &format!("I cannot read `{name}`.")).await;
    };
    let first = TextSpan {
        start_line: 0,
        start_character: 0,
        end_line: 1,
        end_character: 0,
    };
    events
        .annotate(uri.clone(), Some(first), "A good **first line**.")
        .await?;
    events
        .annotate(uri, None, format!("{lines} lines, and all of them legible."))
        .await?;
    say(
        events,
        &format!("I left two comments on `{name}`; they are among the annotations of this session."),
    )
    .await
}
