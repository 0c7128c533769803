//! The sign-ins that a session waits for: of servers, and of calls (MCP-07, MCP-09).

use ahp_types::state::{
    McpOAuthClient, McpServerState, ProtectedResourceMetadata, SessionInputRequest, SessionState, ToolCallContributor,
};

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use super::oauth::SignInTarget;
use super::server::{ListedServer, find, listed, no_server};

/// A required sign-in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SignInRequest {
    pub(super) needed: SignInTarget,
    /// The server, by its id.
    server: String,
    /// The state of the server when the request was found.
    before: Option<McpServerState>,
    /// The calls that wait for it.
    calls: Vec<String>,
}

/// The effect of a new token.
pub(super) enum SignInOutcome {
    /// The server or the call continues.
    Taken,
    /// The token was rejected.
    Failed(Failure),
    /// Not known yet.
    Waiting {
        /// Whether the server has changed its state since.
        moved: bool,
    },
}

/// Returns all required sign-ins of a session, in its order.
fn all(state: &SessionState) -> Vec<SignInRequest> {
    let servers = listed(state);
    let mut all: Vec<SignInRequest> = servers
        .iter()
        .filter_map(|listed| match &listed.server.state {
            McpServerState::AuthRequired(auth) => Some(SignInRequest {
                needed: needed(
                    &listed.server.name,
                    &auth.resource,
                    auth.required_scopes.as_deref(),
                    auth.oauth_client.as_ref(),
                ),
                server: listed.server.id.clone(),
                before: Some(listed.server.state.clone()),
                calls: Vec::new(),
            }),
            _ => None,
        })
        .collect();
    for request in state.input_needed.iter().flatten() {
        let SessionInputRequest::ToolAuthentication(request) = request else {
            continue;
        };
        let Some(ToolCallContributor::Mcp(contributor)) = &request.tool_call.contributor else {
            continue;
        };
        let id = &contributor.customization_id;
        let server = servers.iter().find(|listed| listed.server.id == *id);
        let name = server.map_or(&request.tool_call.display_name, |listed| &listed.server.name);
        let auth = &request.tool_call.auth;
        let of_call = needed(
            name,
            &auth.resource,
            auth.required_scopes.as_deref(),
            auth.oauth_client.as_ref(),
        );
        let same = |wanted: &&mut SignInRequest| wanted.server == *id && wanted.needed.resource == of_call.resource;
        match all.iter_mut().find(same) {
            // One token serves all of them.
            Some(wanted) => {
                wanted.calls.push(request.id.clone());
                for scope in of_call.scopes {
                    if !wanted.needed.scopes.contains(&scope) {
                        wanted.needed.scopes.push(scope);
                    }
                }
            }
            None => all.push(SignInRequest {
                needed: of_call,
                server: id.clone(),
                before: None,
                calls: vec![request.id.clone()],
            }),
        }
    }
    all
}

fn needed(
    name: &str,
    resource: &ProtectedResourceMetadata,
    scopes: Option<&[String]>,
    client: Option<&McpOAuthClient>,
) -> SignInTarget {
    // Without scopes in the challenge, request all scopes of the resource (MCP, scope selection).
    let scopes = scopes.or(resource.scopes_supported.as_deref()).unwrap_or_default();
    SignInTarget {
        name: name.to_owned(),
        resource: resource.resource.clone(),
        authorization_servers: resource.authorization_servers.clone().unwrap_or_default(),
        scopes: scopes.to_vec(),
        client_id: client.map(|client| client.client_id.clone()),
    }
}

/// Returns whether the required sign-ins are known.
pub(super) fn has_settled(state: &SessionState, name: Option<&str>) -> bool {
    let is_moving = |listed: &ListedServer<'_>| listed.is_starting() || listed.is_at_rest();
    match name {
        None => {
            let servers = listed(state);
            !all(state).is_empty() || !servers.is_empty() && !servers.iter().any(is_moving)
        }
        Some(name) => match find(state, name) {
            Ok(found) => found.is_some_and(|found| !is_moving(&found)),
            Err(_) => true,
        },
    }
}

/// Returns the sign-in of the server with this name, or the only one.
pub(super) fn pick(state: &SessionState, name: Option<&str>) -> Result<SignInRequest, Failure> {
    let mut wanted = all(state);
    if let Some(name) = name {
        let found = find(state, name)?.ok_or_else(|| no_server(state, name))?;
        let of_it = wanted.into_iter().find(|wanted| wanted.server == found.server.id);
        return of_it.ok_or_else(|| {
            found.failure().unwrap_or_else(|| {
                let name = one_line(name, 200);
                Failure::new(Kind::Unexpected, format!("{name} is ready: it needs no sign-in"))
            })
        });
    }
    // Servers of one resource use the same token.
    wanted.dedup_by(|next, first| next.needed.resource == first.needed.resource);
    match wanted.len() {
        0 => Err(
            Failure::new(Kind::Unexpected, "nothing in this session needs a sign-in")
                .hint("`innkeeper mcp` lists its servers with their status"),
        ),
        1 => Ok(wanted.remove(0)),
        _ => {
            let names: Vec<String> = wanted.iter().map(|wanted| one_line(&wanted.needed.name, 100)).collect();
            let message = format!("{} servers need a sign-in", names.len());
            Err(Failure::new(Kind::Usage, message).hint(format!("name one of them: {}", names.join(", "))))
        }
    }
}

/// Returns the resource to sign out of: of the server with this name, or of the only one with a token.
pub(super) fn signed_in(state: &SessionState, name: Option<&str>) -> Result<String, Failure> {
    let with_url = "`--resource URL` signs out of anything that a token was given for";
    if let Some(name) = name {
        let found = find(state, name)?.ok_or_else(|| no_server(state, name))?;
        let asked = match &found.server.state {
            McpServerState::AuthRequired(auth) => Some(auth.resource.resource.as_str()),
            _ => None,
        };
        let resource = asked.or_else(|| found.resource()).map(str::to_owned);
        return resource.ok_or_else(|| {
            let message = format!("not signed in to {}", one_line(name, 200));
            Failure::new(Kind::Unexpected, message).hint(with_url)
        });
    }
    let servers = listed(state);
    let mut resources: Vec<&str> = servers.iter().filter_map(ListedServer::resource).collect();
    resources.sort_unstable();
    resources.dedup();
    match resources.as_slice() {
        [] => {
            let message = "not signed in to any server of this session";
            Err(Failure::new(Kind::Unexpected, message).hint(with_url))
        }
        [resource] => Ok((*resource).to_owned()),
        _ => {
            let with_token = servers.iter().filter(|listed| listed.resource().is_some());
            let names: Vec<String> = with_token.map(|listed| one_line(&listed.server.name, 100)).collect();
            let message = format!("signed in to {} servers", names.len());
            Err(Failure::new(Kind::Usage, message).hint(format!("name one of them: {}", names.join(", "))))
        }
    }
}

impl SignInRequest {
    /// Returns whether the host drops the token soon after its client disconnects.
    pub(super) fn is_forgotten(&self, state: &SessionState) -> bool {
        let found = find(state, &self.server).ok().flatten();
        found.is_some_and(|listed| listed.forgets_token())
    }

    /// Returns the effect of the token on the session. `has_moved` is whether the server changed its state since the
    /// token was sent.
    pub(super) fn after(&self, state: &SessionState, has_moved: bool) -> SignInOutcome {
        let name = one_line(&self.needed.name, 200);
        let found = find(state, &self.server).ok().flatten();
        let Some(listed) = found else {
            return SignInOutcome::Failed(Failure::new(Kind::Unexpected, format!("{name} was removed")));
        };
        let now = &listed.server.state;
        match now {
            McpServerState::Ready(_) => {
                let mut waits = state.input_needed.iter().flatten();
                let is_ours = |request: &SessionInputRequest| {
                    matches!(request, SessionInputRequest::ToolAuthentication(request)
                        if self.calls.contains(&request.id))
                };
                match waits.any(is_ours) {
                    true => SignInOutcome::Waiting { moved: false },
                    false => SignInOutcome::Taken,
                }
            }
            McpServerState::AuthRequired(_) if !has_moved && self.before.as_ref() == Some(now) => {
                SignInOutcome::Waiting { moved: false }
            }
            McpServerState::AuthRequired(_) | McpServerState::Error(_) | McpServerState::Stopped(_) => {
                let failure = listed.failure();
                let failure = failure.map(|failure| format!("{name} did not accept the token: {failure}"));
                SignInOutcome::Failed(Failure::new(
                    Kind::Rejected,
                    failure.unwrap_or_else(|| format!("{name} is gone")),
                ))
            }
            McpServerState::Starting(_) | McpServerState::Unknown(_) => SignInOutcome::Waiting { moved: true },
        }
    }
}
