//! The `mcp://` channels of the protocol: MCP requests of Apps to their server.
//!
//! Only promised methods pass (MCP-15); others do not exist for the App (MCP-16).

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::engine::error::Error;
use crate::engine::server::{CallContext, Request, Server};
use crate::engine::state::CallId;

/// The methods that an App was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// `tools/list` and `tools/call`, for tools that are for Apps.
    pub tools: bool,
    /// `resources/list`, `resources/templates/list` and `resources/read`.
    pub resources: bool,
    /// `logging/setLevel`, and `notifications/message` to the server.
    pub logging: bool,
}

impl Allowed {
    fn allows_request(self, method: &str) -> bool {
        match method {
            "tools/list" | "tools/call" => self.tools,
            "resources/list" | "resources/templates/list" | "resources/read" => self.resources,
            "logging/setLevel" => self.logging,
            // The host answers `sampling/createMessage` itself.
            _ => false,
        }
    }

    fn allows_notification(self, method: &str) -> bool {
        method == "notifications/message" && self.logging
    }
}

impl Server {
    /// Passes a request of an App to the server, and the answer back, both unchanged. The `channel` of the parameters is removed
    /// (MCP-18). Other methods fail with [`Error::NotOffered`] (-32601 in the protocol).
    ///
    /// No turn shows the requests of an App, so they wait for no user: if a sign-in is needed, they fail at once with
    /// [`Error::SignInNeeded`] (-32007), and the state of the server shows it to every client (MCP-07). `session` is the session of the
    /// App: questions of the server during the request go to calls of the same session only.
    pub async fn pass(
        &self,
        allowed: Allowed,
        session: Option<Arc<str>>,
        method: &str,
        params: Option<Map<String, Value>>,
        cancel: CancellationToken,
    ) -> Result<Value, Error> {
        let not_offered = |what: &str| Error::NotOffered {
            server: self.config().name.clone(),
            what: what.to_owned(),
        };
        if !allowed.allows_request(method) {
            return Err(not_offered(method));
        }
        let mut params = params.unwrap_or_default();
        params.shift_remove("channel");
        if method == "tools/call" {
            let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
            if !self.tools().iter().any(|tool| tool.name == name && tool.is_for_app()) {
                return Err(not_offered(name));
            }
        }
        let level =
            (method == "logging/setLevel").then(|| params.get("level").and_then(Value::as_str).map(str::to_owned));
        let heard = session.clone().zip(level.flatten());
        if let Some((session, level)) = &heard
            && let Some(told) = self.shared().levels.to_tell(session, level)
        {
            // Other sessions share the server, and get the log messages that they asked for.
            params.insert("level".to_owned(), Value::from(told));
        }
        let limits = &self.config().limits;
        let is_call = method == "tools/call";
        let request = Request {
            method: method.to_owned(),
            params,
            exact_arguments: None,
            time: if is_call { limits.call_time } else { limits.request_time },
            time_max: if is_call {
                limits.call_time_max
            } else {
                limits.request_time
            },
            cancel,
            call: is_call.then(|| CallContext {
                id: CallId::new(),
                session,
                ..CallContext::default()
            }),
            is_of_app: true,
        };
        let text = self.shared().request(request).await?;
        if let Some((session, level)) = &heard {
            self.shared().levels.set(session, level);
        }
        serde_json::from_str(&text).map_err(|error| Error::NotUnderstood {
            server: self.config().name.clone(),
            why: error.to_string(),
        })
    }

    /// Passes a notification of an App to the server.
    pub async fn pass_notification(
        &self,
        allowed: Allowed,
        method: &str,
        params: Option<Map<String, Value>>,
    ) -> Result<(), Error> {
        let connection = self
            .shared()
            .connection()
            .filter(|_| allowed.allows_notification(method));
        let Some(connection) = connection else {
            return Err(Error::NotOffered {
                server: self.config().name.clone(),
                what: method.to_owned(),
            });
        };
        let params = params.map(|mut params| {
            params.shift_remove("channel");
            params
        });
        connection.notify(method, params).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp15_only_promised_methods_pass() {
        let tools = Allowed {
            tools: true,
            ..Allowed::default()
        };
        assert!(tools.allows_request("tools/call"));
        for method in [
            "resources/read",
            "logging/setLevel",
            "sampling/createMessage",
            "initialize",
            "prompts/get",
            "",
        ] {
            assert!(!tools.allows_request(method), "{method}");
        }
        let all = Allowed {
            tools: true,
            resources: true,
            logging: true,
        };
        for method in [
            "initialize",
            "sampling/createMessage",
            "prompts/list",
            "completion/complete",
            "notifications/cancelled",
            "ping",
        ] {
            assert!(
                !all.allows_request(method) && !all.allows_notification(method),
                "{method}"
            );
        }
        assert!(all.allows_notification("notifications/message"));
    }
}
