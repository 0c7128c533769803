//! Requests of apps that a model answers: they wait for a turn in which users are asked.

use std::time::Duration;

use innkeeper_core::mcp::{AppTurn, ToServer};
use innkeeper_core::{ChannelId, ConnId, Input, RequestId};

use crate::main_loop::message::Message;
use crate::main_loop::task::HostTask;
use crate::services::mcp::McpError;
use crate::services::mcp::effects::{fitting, rpc_error};
use crate::services::resources::effects::failure;

/// How long users may take to decide, and the model to write.
const ANSWER_TIME: Duration = Duration::from_secs(600);

impl HostTask {
    /// Has a turn found for a request. The answer comes back as a message.
    pub(crate) fn sample_for_app(&mut self, conn: ConnId, id: RequestId, session: ChannelId, what: ToServer) {
        let ticket = self.requests.take(conn, &id);
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let set = self.followed.set(session);
        let declared = set.mcp_servers.iter().find(|declared| declared.about.id == what.server);
        let name = declared.map_or_else(|| what.server.clone(), |declared| declared.about.name.clone());
        let most = self.limits.mcp_answer_bytes;
        let added = fresh_id().and_then(|request| {
            let answer = self
                .app_requests
                .add(&request, session, what.server.clone(), name, &what.params)?;
            Ok((request, answer))
        });
        let app_requests = self.app_requests.clone();
        self.tasks.spawn(async move {
            let outcome = match added {
                Ok((request, answer)) => {
                    let turn = Input::AppTurn {
                        session,
                        server: what.server,
                        request: request.clone(),
                        asked_by: what.client,
                    };
                    let _ = inbox.send(Message::Core(turn)).await;
                    let answered = tokio::time::timeout(ANSWER_TIME, answer).await;
                    app_requests.refuse(&request, "no turn asked about it in time");
                    match answered {
                        Ok(Ok(answer)) => answer.map_err(rpc_error),
                        Ok(Err(_)) => Err(failure(
                            "the turn in which users were asked is over; ask again".to_owned(),
                        )),
                        Err(_) => Err(failure(format!(
                            "nobody answered within {} s whether the model may write for the app",
                            ANSWER_TIME.as_secs()
                        ))),
                    }
                }
                Err(error) => Err(rpc_error(error)),
            };
            let outcome = outcome.and_then(|value| fitting(what.method, value, most));
            let _ = inbox.send(Message::found(conn, id, outcome)).await;
            drop(ticket);
        });
    }

    /// A request of an app joins a turn that runs, or has none.
    pub(crate) fn app_turn(&mut self, request: &str, outcome: AppTurn) {
        let (chat, turn) = match outcome {
            AppTurn::Joins { chat, turn } => (chat, turn),
            AppTurn::Refused(why) => return self.app_requests.refuse(request, &why),
        };
        let serving = self.drivers.get(&chat).and_then(|driver| driver.serve_app(turn));
        match (serving, self.app_requests.take(request)) {
            (Some(serving), Some(request)) => {
                self.tasks.spawn(serving.serve(request));
            }
            (None, Some(request)) => request.refuse("a turn of the session is about to start; ask again when it runs"),
            (_, None) => {}
        }
    }
}

/// An id that no request has had, also in an earlier life of the host: turns are named by it.
fn fresh_id() -> Result<String, McpError> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(|_| McpError::new("the host has no randomness; its log says more"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
