//! Imported sessions, and sessions whose deletion was undone. The store takes them in; the core only counts them.

use ahp_types::notifications::SessionAddedParams;
use ahp_types::state::SessionSummary;
use serde_json::json;

use crate::core::{Cx, Host};
use crate::effect::JournalCommand;
use crate::ids::ConnId;
use crate::protocol::dialect;
use crate::protocol::error::{RpcError, code};
use crate::protocol::frame::encode_notification;
use crate::protocol::request::RequestId;
use crate::protocol::uri;
use crate::storage::records::ImportedSession;

impl Host {
    /// Asks the store to take a session in.
    pub(crate) fn import_session(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, text: String) {
        let problem = if !self.storage.mode().has_store() {
            Some("this host does not store sessions, so it cannot import any".to_owned())
        } else if self.is_full() {
            let most = self.config.max_sessions;
            Some(format!("this host stores at most {most} sessions; dispose of some"))
        } else {
            None
        };
        match problem {
            Some(problem) => cx.answer(conn, id, Err(RpcError::new(code::CONFLICT, problem))),
            None => cx.emit(JournalCommand::Import {
                conn,
                id: id.clone(),
                text,
            }),
        }
    }

    /// The store imported the session, or refused it.
    pub(crate) fn imported(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        outcome: Result<ImportedSession, String>,
    ) {
        let session = match outcome {
            Ok(session) => session,
            Err(problem) => return cx.answer(conn, id, Err(RpcError::new(code::CONFLICT, problem))),
        };
        // Later actions of the session need numbers after all that it contains. The store has reserved the numbers
        // that follow.
        self.log.continue_after(session.last_seq);
        self.sessions.add_listed();
        // A load that is under way may answer that it does not exist.
        self.invalidate_all();
        let answer = json!({ "session": session.uri, "chats": session.chats, "turns": session.turns, "approvalsReset": session.approvals });
        cx.answer(conn, id, Ok(answer));
        if let Ok(summary) = serde_json::from_slice::<SessionSummary>(&session.summary) {
            self.notify_root(cx, |version| {
                let summary = dialect::summary(version, summary.clone());
                let params = SessionAddedParams {
                    channel: uri::ROOT.to_owned(),
                    summary,
                };
                Some(encode_notification("root/sessionAdded", &params))
            });
        }
        self.publish_active_sessions(cx);
        if !session.at_rest {
            // Turns that ran on the other host do not run here.
            self.recover_sessions(cx, vec![session.uri]);
        }
    }
}
