//! Signing in: a token goes to whoever waits for it, and nowhere else (AUTH-12).

use ahp_types::state::ToolCallState;
use serde_json::{Value, json};

use crate::agent::ToolReply;
use crate::core::{Cx, HostCore};
use crate::error::RpcError;
use crate::ids::{ChannelId, TurnKey};
use crate::request::Authenticate;

impl HostCore {
    /// `authenticate`: accepts exactly the resources that somebody asked to sign in to (AUTH-04).
    pub(crate) fn authenticate(&mut self, cx: &mut Cx<'_>, authenticate: &Authenticate) -> Result<Value, RpcError> {
        let waiting = self.waiting_for(&authenticate.resource);
        if waiting.is_empty() {
            return Err(RpcError::invalid_params(
                "resource",
                "nothing on this host asks to sign in to this resource",
            ));
        }
        // AUTH-05: an empty token takes back an earlier one; those who wait go on waiting.
        if !authenticate.token.reveal().is_empty() {
            for (chat, turn, call) in waiting {
                let token = authenticate.token.clone();
                self.tool_reply(cx, chat, turn, call, ToolReply::Authenticated { token });
            }
        }
        Ok(json!({}))
    }

    /// The calls that wait for a token of a resource.
    fn waiting_for(&self, resource: &str) -> Vec<(ChannelId, TurnKey, String)> {
        let mut waiting = Vec::new();
        for (chat_id, chat) in self.chats.iter() {
            let Some(run) = &chat.run else {
                continue;
            };
            for call in chat.model.open_calls() {
                if let ToolCallState::AuthRequired(call) = call
                    && call.auth.resource.resource == resource
                {
                    waiting.push((*chat_id, run.key, call.tool_call_id.clone()));
                }
            }
        }
        waiting.sort_unstable();
        waiting
    }
}
