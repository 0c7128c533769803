//! Requests of apps that a model answers: they wait for a turn in which users are asked.

use std::time::Duration;

use innkeeper_core::mcp::ToServer;
use innkeeper_core::{ChannelId, Input};

use crate::main_loop::Message;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::requests::OpenRequest;
use crate::services::customizations::CustomizationSet;
use crate::services::mcp::effects::{fitting, rpc_error};
use crate::services::mcp::{AppRequests, McpError};
use crate::services::resources::effects::failure;

/// How long users may take to decide, and the model to write.
const ANSWER_TIME: Duration = Duration::from_secs(600);

/// Starts a turn in which users decide about a request of an app to the model, and answers with the outcome.
pub(crate) fn sample_for_app(
    handles: &LoopHandles,
    request: OpenRequest,
    app_requests: &AppRequests,
    set: &CustomizationSet,
    session: ChannelId,
    what: ToServer,
) {
    let declared = set.mcp_servers.iter().find(|declared| declared.about.id == what.server);
    let name = declared.map_or_else(|| what.server.clone(), |declared| declared.about.name.clone());
    let most = handles.limits().mcp_answer_bytes;
    let added = fresh_id().and_then(|id| {
        let answer = app_requests.add(&id, session, what.server.clone(), name, &what.params)?;
        Ok((id, answer))
    });
    let app_requests = app_requests.clone();
    let inbox = request.inbox.clone();
    handles.tasks().spawn(async move {
        let outcome = match added {
            Ok((id, answer)) => {
                let turn = Input::AppTurn {
                    session,
                    server: what.server,
                    request: id.clone(),
                    asked_by: what.client,
                };
                let _ = inbox.send(Message::Core(turn)).await;
                let answered = tokio::time::timeout(ANSWER_TIME, answer).await;
                app_requests.refuse(&id, "no turn asked about it in time");
                match answered {
                    Ok(Ok(answer)) => answer.map_err(rpc_error),
                    Ok(Err(_)) => Err(failure(
                        "the turn in which users were asked is over; ask again".to_owned(),
                    )),
                    Err(_) => Err(failure(format!(
                        "no user allowed or denied the model's answer for the app within {} s",
                        ANSWER_TIME.as_secs()
                    ))),
                }
            }
            Err(error) => Err(rpc_error(error)),
        };
        let outcome = outcome.and_then(|value| fitting(what.method, value, most));
        request.respond_object(outcome).await;
    });
}

/// Returns an id that no request has had, even before a restart of the host: turns are named by it.
fn fresh_id() -> Result<String, McpError> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(|_| McpError::new("the host has no randomness; its log says more"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
