//! What people switched on or off in a workspace, as the host that runs knows it.

use std::collections::HashMap;

use ahp_types::state::{ChildCustomization, Customization, CustomizationEnablement, SessionState, SessionSummary};

use crate::cli::{CommonArgs, ConnectArgs};
use crate::config::ConfigFile;
use crate::data_dir::DataDir;
use crate::endpoint::Endpoint;
use crate::failure::Failure;

use super::connect::Connection;
use super::sessions::all_sessions;

/// How a decision for all sessions is called.
pub(crate) const EVERYWHERE: &str = "everywhere";

/// Which customizations somebody decided about.
#[derive(Debug, Default)]
pub(crate) struct Switched {
    /// The session that was asked, or why none was.
    source: Source,
    decided: HashMap<String, Switch>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    NoHost,
    NoSession,
    Session(String),
    Failed(String),
}

/// What somebody decided.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// Whether it is on.
    pub(crate) is_on: bool,
    /// For which sessions that was decided.
    pub(crate) by: &'static str,
}

impl Switched {
    /// What was decided about a customization, if anything was.
    pub(crate) fn of(&self, id: &str) -> Option<&Switch> {
        self.decided.get(id)
    }

    /// Says where this comes from.
    pub(crate) fn in_words(&self) -> String {
        match &self.source {
            Source::NoHost => "No host runs on the data directory, so what people switched off is not known; \
                               everything counts as on."
                .to_owned(),
            Source::NoSession => "The running host has no session that works here, so what people switched off is not \
                                  known; everything counts as on."
                .to_owned(),
            Source::Session(uri) => format!("What is on and off is that of the session {uri}."),
            Source::Failed(why) => format!(
                "The running host could not be asked what people switched off ({why}); everything counts as on."
            ),
        }
    }
}

/// Asks the host on the data directory, if there is one. That it cannot be asked is no failure of whoever only wants
/// to know more.
pub(super) async fn find(args: &CommonArgs, workspace: &str) -> Switched {
    match ask(args, workspace).await {
        Ok(switched) => switched,
        Err(failure) => Switched {
            source: Source::Failed(failure.to_string()),
            ..Switched::default()
        },
    }
}

async fn ask(args: &CommonArgs, workspace: &str) -> Result<Switched, Failure> {
    let config = ConfigFile::examine(args)?.config;
    let dir = DataDir::existing(config.data_dir(args)?);
    if Endpoint::find(&dir).is_none() {
        return Ok(Switched::default());
    }
    let connect = ConnectArgs {
        common: args.clone(),
        ..ConnectArgs::default()
    };
    let connection = Connection::open(&connect).await?;
    let sessions = all_sessions(&connection).await?;
    let Some(session) = latest_in(sessions, workspace) else {
        connection.close().await;
        return Ok(Switched {
            source: Source::NoSession,
            ..Switched::default()
        });
    };
    let (state, _) = connection.subscribe_to_state::<SessionState>(&session.resource).await?;
    connection.close().await;
    Ok(Switched {
        source: Source::Session(session.resource),
        decided: decided(&state),
    })
}

/// The latest session whose first working directory is this one.
pub(super) fn latest_in(sessions: Vec<SessionSummary>, workspace: &str) -> Option<SessionSummary> {
    let works_here = |directory: &String| directory.trim_end_matches('/') == workspace.trim_end_matches('/');
    // The latest come first.
    sessions.into_iter().find(|session| {
        let primary = session
            .working_directories
            .as_ref()
            .and_then(|directories| directories.first());
        primary.is_some_and(works_here)
    })
}

/// What was decided about each customization of a session.
pub(super) fn decided(state: &SessionState) -> HashMap<String, Switch> {
    let mut decided = HashMap::new();
    for entry in state.customizations.iter().flatten() {
        let children = match entry {
            Customization::Plugin(plugin) => {
                note_enablement(&mut decided, &plugin.id, plugin.enablement.as_deref());
                plugin.children.as_deref()
            }
            Customization::Directory(directory) => {
                note_enabled(&mut decided, &directory.id, Some(directory.enabled));
                directory.children.as_deref()
            }
            Customization::McpServer(server) => {
                note_enablement(&mut decided, &server.id, server.enablement.as_deref());
                None
            }
            Customization::Unknown(_) => None,
        };
        for child in children.unwrap_or_default() {
            match child {
                ChildCustomization::Agent(agent) => note_enabled(&mut decided, &agent.id, agent.enabled),
                ChildCustomization::Skill(skill) => note_enabled(&mut decided, &skill.id, skill.enabled),
                ChildCustomization::Prompt(prompt) => note_enabled(&mut decided, &prompt.id, prompt.enabled),
                ChildCustomization::Rule(rule) => note_enabled(&mut decided, &rule.id, rule.enabled),
                ChildCustomization::Hook(hook) => note_enabled(&mut decided, &hook.id, hook.enabled),
                ChildCustomization::McpServer(server) => {
                    note_enablement(&mut decided, &server.id, server.enablement.as_deref());
                }
                ChildCustomization::Unknown(_) => {}
            }
        }
    }
    decided
}

/// Directories and their like say only whether they are on. That they are is what they are without any decision.
fn note_enabled(decided: &mut HashMap<String, Switch>, id: &str, enabled: Option<bool>) {
    if enabled == Some(false) {
        let by = "in this session, in the workspace or everywhere";
        decided.insert(id.to_owned(), Switch { is_on: false, by });
    }
}

/// The first decision counts (CUS-10).
fn note_enablement(decided: &mut HashMap<String, Switch>, id: &str, enablement: Option<&[CustomizationEnablement]>) {
    let (is_on, by) = match enablement.and_then(<[_]>::first) {
        Some(CustomizationEnablement::Session { enabled }) => (*enabled, "in this session"),
        Some(CustomizationEnablement::Workspace { enabled, .. }) => (*enabled, "in this workspace"),
        Some(CustomizationEnablement::Global { enabled }) => (*enabled, EVERYWHERE),
        Some(CustomizationEnablement::Unknown(_)) | None => return,
    };
    decided.insert(id.to_owned(), Switch { is_on, by });
}
