//! Working directories that clients name are looked at before the core takes them: it does no IO.
//!
//! Only the connection that names a directory waits for the answer, so what it sends afterwards
//! still comes after it.

use std::time::Duration;

use ahp_types::actions::StateAction;
use innkeeper_core::decode::DecodeError;
use innkeeper_core::{Command, Dispatch, RpcError};
use tokio::time::Instant;

use crate::services::completions::Files;

/// How long the file system has to answer for one message.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum directories that are looked at; the core refuses more.
const MOST: usize = 256;

/// Checks the directories that a request names.
pub(crate) async fn check_request(files: &dyn Files, command: &Command) -> Result<(), RpcError> {
    let Command::CreateSession(create) = command else {
        return Ok(());
    };
    let deadline = Instant::now() + TIMEOUT;
    for (index, directory) in create.working_directories.iter().enumerate().take(MOST) {
        if let Err(problem) = check(files, directory, deadline).await {
            return Err(RpcError::invalid_params(
                &format!("workingDirectories[{index}]"),
                problem,
            ));
        }
    }
    Ok(())
}

/// Checks the directory that an action names; the core then refuses it with the reason.
pub(crate) async fn check_action(files: &dyn Files, dispatch: &mut Dispatch) {
    let (field, directory) = match &dispatch.action {
        Ok(StateAction::SessionWorkingDirectorySet(set)) => ("directory", &set.directory),
        Ok(StateAction::SessionWorkingDirectoryReplaced(replaced)) => ("replacement", &replaced.replacement),
        _ => return,
    };
    if let Err(problem) = check(files, directory, Instant::now() + TIMEOUT).await {
        dispatch.action = Err(DecodeError::Unusable(format!("{field}: {problem}")));
    }
}

async fn check(files: &dyn Files, directory: &str, deadline: Instant) -> Result<(), String> {
    // The core says what is wrong with anything else.
    if innkeeper_core::uri::check_directory(directory).is_err() {
        return Ok(());
    }
    match tokio::time::timeout_at(deadline, files.check_directory(directory)).await {
        Ok(checked) => checked,
        Err(_) => Err(format!(
            "the file system has not answered within {} s",
            TIMEOUT.as_secs()
        )),
    }
}
