//! Which tools the agent of a session offers there.

use std::panic::AssertUnwindSafe;

use innkeeper_core::{ChannelId, Effect, Input, Now};

use crate::main_loop::message::Message;
use crate::main_loop::task::HostTask;
use crate::services::customizations::TurnCustomizations;

impl HostTask {
    /// Has the agent asked with the next messages: what it says then is as new as what has happened by then.
    pub(crate) fn ask_for_tools(&self, session: ChannelId, provider: String) {
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        // The inbox may be full, and this is the task that empties it.
        self.tasks.spawn(async move {
            let _ = inbox.send(Message::ListTools { session, provider }).await;
        });
    }

    pub(crate) fn list_tools(&mut self, now: Now, session: ChannelId, provider: String, effects: &mut Vec<Effect>) {
        let Some(agent) = self.agents.get(&provider) else {
            return;
        };
        let off = self.core.switched_off(session);
        let customizations =
            TurnCustomizations::of_session(self.followed.known_set(session), off, self.servers.of(session));
        let listed = std::panic::catch_unwind(AssertUnwindSafe(|| agent.session_tools(&customizations)));
        let Ok(tools) = listed else {
            tracing::error!(provider, "an agent panicked when it was asked for its tools");
            return;
        };
        let listed = Input::ToolsListed {
            session,
            provider,
            tools,
        };
        self.handle_input(now, listed, effects);
    }
}
