//! The enablement of customizations in a workspace, as the running host shows it.

use std::collections::HashMap;

use ahp_types::state::{ChildCustomization, Customization, CustomizationEnablement, SessionState, SessionSummary};

use crate::args::ConnectArgs;
use crate::block_on;
use crate::connection::Connection;
use crate::discovery::{DataDir, Endpoint};
use crate::failure::Failure;
use crate::sessions::all_sessions;

/// The name of a decision for all sessions.
pub const EVERYWHERE: &str = "everywhere";
/// The name of a decision for the sessions of a workspace.
pub const IN_WORKSPACE: &str = "in this workspace";
/// The name of a decision for a single session.
const IN_SESSION: &str = "in this session";

/// The decisions about customizations, and their source.
#[derive(Debug, Default)]
pub struct EnablementReport {
    /// The session that was asked, or why none was asked.
    source: Source,
    /// Decisions with their scope.
    decided: HashMap<String, Decision>,
    /// Whether a customization is on in the session, for kinds that show no more.
    flags: HashMap<String, bool>,
    /// Whether the persisted decisions could not be read.
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

/// A decision of a user.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Whether it is on.
    pub is_on: bool,
    /// The sessions it applies to.
    pub by: &'static str,
}

impl EnablementReport {
    /// Asks the host on the data directory, if one runs. `persisted` has the decisions of the data directory, if they can
    /// be read; they apply where no session decides otherwise.
    pub fn of_workspace(dir: &DataDir, workspace: &str, persisted: Option<HashMap<String, Decision>>) -> Self {
        let mut report = Self::default();
        let request = async {
            report = find(dir, workspace).await;
            Ok(())
        };
        // Without an event loop no host is asked, and the report says so like for any other reason.
        let _ = block_on(request);
        report.with_persisted(persisted)
    }

    /// Returns the decision about a customization, if there is one.
    pub fn of(&self, id: &str) -> Option<&Decision> {
        self.decided.get(id)
    }

    /// Adds the persisted decisions, which apply unless the session decides otherwise. `None` means that they could not
    /// be read.
    fn with_persisted(mut self, kept: Option<HashMap<String, Decision>>) -> Self {
        self.lacks_kept = kept.is_none();
        let kept = kept.unwrap_or_default();
        for (id, is_on) in std::mem::take(&mut self.flags) {
            let is_on_elsewhere = kept.get(&id).is_none_or(|switch| switch.is_on);
            if is_on != is_on_elsewhere {
                self.decided.insert(id, Decision { is_on, by: IN_SESSION });
            }
        }
        for (id, switch) in kept {
            self.decided.entry(id).or_insert(switch);
        }
        self
    }

    /// Describes the source of the decisions.
    pub fn in_words(&self) -> String {
        const KEPT: &str = "the decisions are those for this workspace and for everywhere";
        let kept = if self.lacks_kept {
            "everything is shown as on"
        } else {
            KEPT
        };
        match &self.source {
            Source::NoHost => format!("No host runs on the data directory; {kept}."),
            Source::NoSession => format!("The running host has no session in this directory; {kept}."),
            Source::Session(uri) => format!("The decisions are those of the session {uri}."),
            Source::Failed(why) => format!("The running host did not respond ({why}); {kept}."),
        }
    }
}

/// Asks the host on the data directory, if there is one. A failure becomes part of the report.
async fn find(dir: &DataDir, workspace: &str) -> EnablementReport {
    match ask(dir, workspace).await {
        Ok(switched) => switched,
        Err(failure) => EnablementReport {
            source: Source::Failed(failure.to_string()),
            ..EnablementReport::default()
        },
    }
}

async fn ask(dir: &DataDir, workspace: &str) -> Result<EnablementReport, Failure> {
    if Endpoint::find(dir).is_none() {
        return Ok(EnablementReport::default());
    }
    let connection = Connection::open(dir, &ConnectArgs::default()).await?;
    let sessions = all_sessions(&connection).await?;
    let Some(session) = latest_in(sessions, workspace) else {
        connection.close().await;
        return Ok(EnablementReport {
            source: Source::NoSession,
            ..EnablementReport::default()
        });
    };
    let (state, _) = connection.subscribe_to_state::<SessionState>(&session.resource).await?;
    connection.close().await;
    let mut switched = EnablementReport {
        source: Source::Session(session.resource),
        ..EnablementReport::default()
    };
    switched.take_in(&state);
    Ok(switched)
}

/// Returns the latest session whose first working directory is this one.
pub(crate) fn latest_in(sessions: Vec<SessionSummary>, workspace: &str) -> Option<SessionSummary> {
    let works_here = |directory: &String| directory.trim_end_matches('/') == workspace.trim_end_matches('/');
    // The latest session is the first.
    sessions.into_iter().find(|session| {
        let primary = session
            .working_directories
            .as_ref()
            .and_then(|directories| directories.first());
        primary.is_some_and(works_here)
    })
}

/// Returns the decisions about plugins and MCP servers of a session, which show every decision (CUS-07).
pub(crate) fn decided(state: &SessionState) -> HashMap<String, Decision> {
    let mut switched = EnablementReport::default();
    switched.take_in(state);
    switched.decided
}

impl EnablementReport {
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
        self.decided.insert(id.to_owned(), Decision { is_on, by });
    }
}
