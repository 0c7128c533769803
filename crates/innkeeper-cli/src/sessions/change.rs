//! `innkeeper sessions rename` and `archive`: small changes of a session through a running host.

use ahp_types::actions::{SessionIsArchivedChangedAction, SessionTitleChangedAction, StateAction};

use super::find::find_named;
use crate::args::{ArchiveArgs, RenameArgs};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::pending::settle;
use crate::terminal::note;

/// Gives a session another title.
pub async fn rename(args: &RenameArgs, connection: &mut Connection) -> Result<(), Failure> {
    let session = find_named(connection, &args.session).await?;
    let title = args.title.join(" ");
    let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title });
    settle(connection, &session, action).await?;
    note(&format!("renamed {session}"));
    Ok(())
}

/// Archives sessions, or takes them back from the archive.
pub async fn archive(args: &ArchiveArgs, connection: &mut Connection) -> Result<(), Failure> {
    for name in &args.sessions {
        let session = find_named(connection, name).await?;
        let action = StateAction::SessionIsArchivedChanged(SessionIsArchivedChangedAction {
            is_archived: !args.undo,
        });
        settle(connection, &session, action).await?;
        let done = if args.undo { "took back" } else { "archived" };
        note(&format!("{done} {session}"));
    }
    Ok(())
}
