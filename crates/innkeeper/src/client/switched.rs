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
/// How one for the sessions of a workspace is called.
pub(crate) const IN_WORKSPACE: &str = "in this workspace";
/// How one for a single session is called.
const IN_SESSION: &str = "in this session";

/// Which customizations somebody decided about.
#[derive(Debug, Default)]
pub(crate) struct Switched {
    /// The session that was asked, or why none was.
    source: Source,
    /// The decisions that are known in full.
    decided: HashMap<String, Switch>,
    /// Of what says no more than that, whether it is on in the session.
    flags: HashMap<String, bool>,
    /// Whether what the data directory keeps could not be read.
    lacks_kept: bool,
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

    /// Adds what the data directory keeps, which holds wherever a session says nothing else. `None` says that it cannot
    /// be read.
    pub(super) fn with_kept(mut self, kept: Option<HashMap<String, Switch>>) -> Self {
        self.lacks_kept = kept.is_none();
        let kept = kept.unwrap_or_default();
        for (id, is_on) in std::mem::take(&mut self.flags) {
            let is_on_elsewhere = kept.get(&id).is_none_or(|switch| switch.is_on);
            if is_on != is_on_elsewhere {
                self.decided.insert(id, Switch { is_on, by: IN_SESSION });
            }
        }
        for (id, switch) in kept {
            self.decided.entry(id).or_insert(switch);
        }
        self
    }

    /// Says where this comes from.
    pub(crate) fn in_words(&self) -> String {
        const KEPT: &str = "what is on and off is what was decided for this workspace and for everywhere";
        let kept = if self.lacks_kept {
            "everything counts as on"
        } else {
            KEPT
        };
        match &self.source {
            Source::NoHost => format!("No host runs on the data directory; {kept}."),
            Source::NoSession => format!("The running host has no session that works here; {kept}."),
            Source::Session(uri) => format!("What is on and off is that of the session {uri}."),
            Source::Failed(why) => format!("The running host could not be asked ({why}); {kept}."),
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
    let mut switched = Switched {
        source: Source::Session(session.resource),
        ..Switched::default()
    };
    switched.take_in(&state);
    Ok(switched)
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

/// What was decided about plugins and MCP servers of a session, wherever they are: they show every decision (CUS-07).
pub(super) fn decided(state: &SessionState) -> HashMap<String, Switch> {
    let mut switched = Switched::default();
    switched.take_in(state);
    switched.decided
}

impl Switched {
    fn take_in(&mut self, state: &SessionState) {
        for entry in state.customizations.iter().flatten() {
            let children = match entry {
                Customization::Plugin(plugin) => {
                    self.take_decisions(&plugin.id, plugin.enablement.as_deref());
                    plugin.children.as_deref()
                }
                Customization::Directory(directory) => {
                    self.take_flag(&directory.id, Some(directory.enabled));
                    directory.children.as_deref()
                }
                Customization::McpServer(server) => {
                    self.take_decisions(&server.id, server.enablement.as_deref());
                    None
                }
                Customization::Unknown(_) => None,
            };
            children
                .unwrap_or_default()
                .iter()
                .for_each(|child| self.take_child(child));
        }
    }

    fn take_child(&mut self, child: &ChildCustomization) {
        match child {
            ChildCustomization::Agent(agent) => self.take_flag(&agent.id, agent.enabled),
            ChildCustomization::Skill(skill) => self.take_flag(&skill.id, skill.enabled),
            ChildCustomization::Prompt(prompt) => self.take_flag(&prompt.id, prompt.enabled),
            ChildCustomization::Rule(rule) => self.take_flag(&rule.id, rule.enabled),
            ChildCustomization::Hook(hook) => self.take_flag(&hook.id, hook.enabled),
            ChildCustomization::McpServer(server) => self.take_decisions(&server.id, server.enablement.as_deref()),
            ChildCustomization::Unknown(_) => {}
        }
    }

    fn take_flag(&mut self, id: &str, enabled: Option<bool>) {
        self.flags.insert(id.to_owned(), enabled.unwrap_or(true));
    }

    /// The first decision counts (CUS-10).
    fn take_decisions(&mut self, id: &str, enablement: Option<&[CustomizationEnablement]>) {
        let (is_on, by) = match enablement.and_then(<[_]>::first) {
            Some(CustomizationEnablement::Session { enabled }) => (*enabled, IN_SESSION),
            Some(CustomizationEnablement::Workspace { enabled, .. }) => (*enabled, IN_WORKSPACE),
            Some(CustomizationEnablement::Global { enabled }) => (*enabled, EVERYWHERE),
            Some(CustomizationEnablement::Unknown(_)) | None => return,
        };
        self.decided.insert(id.to_owned(), Switch { is_on, by });
    }
}
