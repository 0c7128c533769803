//! The discovered agents that a message may choose (CUS-24, `Message.agent`).

use ahp_types::state::{
    AgentCustomization, ChildCustomization, ClientPluginCustomization, Customization, CustomizationLoadState, Message,
    SessionActiveClient,
};

use super::entry::{children_of, is_on, load_of};
use crate::agent::Failure;
use crate::core::Host;
use crate::ids::ChannelId;
use crate::session::Session;

/// How many names a refusal lists.
const MAX_NAMED: usize = 10;

impl Host {
    /// Whether a message may choose its custom agent. Before the first report of discovery any choice passes; the
    /// agent itself then reports an unknown one.
    pub(crate) fn check_custom_agent(&self, session: &Session, message: &Message) -> Result<(), String> {
        let Some(chosen) = &message.agent else {
            return Ok(());
        };
        if !self.config.serves_customizations || session.state.customizations.is_none() {
            return Ok(());
        }
        check(session, &chosen.uri).map_err(|problem| format!("message.agent.uri: {problem}"))
    }

    /// Why no agent can run the turn of a message that waited: its custom agent was removed since it was written.
    pub(crate) fn missing_custom_agent(&self, chat_id: ChannelId) -> Option<Failure> {
        let chat = self.chats.get(&chat_id)?;
        let session = self.sessions.get(&chat.session)?;
        let turn = chat.model.head().active_turn.as_ref()?;
        let problem = self.check_custom_agent(session, &turn.message).err()?;
        Some(Failure::new("agentNotFound", problem))
    }
}

fn check(session: &Session, uri: &str) -> Result<(), String> {
    let mut refusal = None;
    for (agent, is_on) in agents(session).filter(|(agent, _)| agent.uri == uri) {
        let name = &agent.name;
        if !is_on {
            refusal = Some(format!(
                "the agent {name:?} is disabled; enable it, or choose another one"
            ));
        } else if agent.disable_user_invocation == Some(true) && agent.disable_model_invocation == Some(true) {
            refusal = Some(format!(
                "the agent {name:?} cannot be used: its file allows neither users nor other agents to choose it; choose \
                 another one"
            ));
        } else if agent.disable_user_invocation == Some(true) {
            refusal = Some(format!(
                "the agent {name:?} works for other agents only; choose another one"
            ));
        } else {
            return Ok(());
        }
    }
    if refusal.is_none() && !is_read(session) {
        return Ok(()); // It may be in what is not read yet.
    }
    Err(refusal.unwrap_or_else(|| {
        let usable = agents(session).filter(|(agent, is_on)| *is_on && agent.disable_user_invocation != Some(true));
        let names: Vec<String> = usable.map(|(agent, _)| agent.name.clone()).take(MAX_NAMED).collect();
        let has = match names.as_slice() {
            [] => "none that can be chosen".to_owned(),
            names => names.join(", "),
        };
        let uri: String = uri.chars().take(256).collect();
        format!("this session has no agent {uri:?}; it has: {has}")
    }))
}

/// Whether discovery has read everything, also a plugin that a client has just published.
fn is_read(session: &Session) -> bool {
    let shown = || session.state.customizations.iter().flatten();
    let is_loading = |entry: &Customization| matches!(load_of(entry), Some(CustomizationLoadState::Loading(_)));
    let is_shown = |client: &SessionActiveClient, published: &ClientPluginCustomization| {
        shown().any(|entry| match entry {
            Customization::Plugin(plugin) => {
                plugin.client_id.as_ref() == Some(&client.client_id) && plugin.uri == published.uri
            }
            _ => false,
        })
    };
    let mut clients = session.state.active_clients.iter();
    let are_shown = clients.all(|client| {
        let mut published = client.customizations.iter().flatten();
        published.all(|published| is_shown(client, published))
    });
    are_shown && !shown().any(is_loading)
}

/// The agents of a session, and whether they are on.
fn agents(session: &Session) -> impl Iterator<Item = (&AgentCustomization, bool)> {
    let entries = session.state.customizations.iter().flatten();
    entries.flat_map(|entry| {
        children_of(entry).iter().filter_map(move |child| match child {
            ChildCustomization::Agent(agent) => Some((agent, is_on(entry) && agent.enabled.unwrap_or(true))),
            _ => None,
        })
    })
}
