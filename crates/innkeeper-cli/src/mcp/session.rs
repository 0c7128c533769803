//! The session of a command: an existing one, or a temporary one.

use std::path::Path;

use ahp::SubscriptionEvent;
use ahp::reducers::apply_action_to_session;
use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::commands::CreateSessionParams;
use ahp_types::state::{SessionState, SessionSummary};
use serde_json::Value;
use tokio::time::Instant;

use crate::args::McpSessionArgs;
use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use crate::connection::is_here;
use crate::connection::{Connection, connection_lost, request_failure};
use crate::enablement::latest_in;
use crate::send::{is_after, ready_chat, rejection};
use crate::sessions::{Deletion, all_sessions, choose_session, dispose};

/// The agent that needs no model and calls tools by command.
const TOUR: &str = "tour";

/// The session or directory that the arguments select.
#[derive(Default)]
pub(super) struct SessionTarget {
    /// The existing session, if there is one.
    pub(super) session: Option<SessionSummary>,
    /// The working directories of a temporary session.
    pub(super) directories: Option<Vec<String>>,
    /// Its name in messages. `None` if the host is on another machine and no directory was named.
    name: Option<String>,
}

impl SessionTarget {
    /// Finds the named session, or the latest one in the directory.
    pub(super) async fn find(connection: &Connection, args: &McpSessionArgs) -> Result<Self, Failure> {
        let sessions = all_sessions(connection).await?;
        let is_here = args.connect.url.as_deref().is_none_or(is_here);
        let directory = match &args.session {
            Some(wanted) if is_here && is_directory(wanted) => Path::new(wanted).canonicalize(),
            // Only that host knows its directories.
            Some(wanted) if !is_here && Path::new(wanted).is_absolute() => Ok(Path::new(wanted).components().collect()),
            Some(wanted) => {
                let uri = choose_session(wanted, sessions.iter().map(|session| session.resource.as_str()))?.to_owned();
                let session = sessions.into_iter().find(|session| session.resource == uri);
                return Ok(Self {
                    directories: session.as_ref().and_then(|session| session.working_directories.clone()),
                    session,
                    name: Some(uri),
                });
            }
            // A host on another machine has other directories.
            None if !is_here => return Ok(Self::default()),
            None => std::env::current_dir(),
        };
        let directory = directory.map_err(|error| {
            let shown = args.session.as_deref().unwrap_or(".");
            Failure::new(Kind::Usage, format!("the directory {shown} cannot be used ({error})"))
        })?;
        let name = directory.display().to_string();
        let uri = url::Url::from_file_path(directory)
            .map(String::from)
            .map_err(|()| Failure::new(Kind::Usage, format!("{name} has no URI")))?;
        Ok(Self {
            session: latest_in(sessions, &uri),
            directories: Some(vec![uri]),
            name: Some(name),
        })
    }

    /// Describes the temporary session, if there is no existing one.
    pub(super) fn describe_new(&self) -> String {
        match &self.name {
            Some(name) => format!("No session works in {name}. A new one would have:"),
            None => "That host is on another machine, and --session names a session or a directory there. A new \
                     session that works in no directory would have:"
                .to_owned(),
        }
    }

    /// Returns the existing session, or a failure.
    pub(super) fn existing(self) -> Result<String, Failure> {
        let nothing = || {
            match &self.name {
            Some(name) => Failure::new(Kind::Rejected, format!("no session works in {name}")).hint(
                "`innkeeper sessions` lists those there are, and --session names one; `innkeeper send` starts one here",
            ),
            None => Failure::new(
                Kind::Usage,
                "that host is on another machine, so the current directory does not select a session",
            )
            .hint("name a session or a directory there with --session; `innkeeper sessions` with the same --url lists them"),
        }
        };
        self.session
            .as_ref()
            .map(|session| session.resource.clone())
            .ok_or_else(nothing)
    }
}

/// A session URI has a scheme, so an existing directory is never one.
fn is_directory(wanted: &str) -> bool {
    Path::new(wanted).is_dir()
}

/// A session and its state.
pub(super) struct Session {
    pub(super) uri: String,
    pub(super) state: SessionState,
    from_seq: i64,
    /// Whether it is temporary.
    is_own: bool,
}

impl Session {
    /// Subscribes to an existing session.
    pub(super) async fn follow(connection: &Connection, uri: String) -> Result<Self, Failure> {
        let (state, from_seq) = connection.subscribe_to_state(&uri).await?;
        Ok(Self {
            uri,
            state,
            from_seq,
            is_own: false,
        })
    }

    /// Creates a temporary session.
    pub(super) async fn open(connection: &Connection, directories: Option<Vec<String>>) -> Result<Self, Failure> {
        let uri = format!("ahp-session:/{}", uuid::Uuid::new_v4());
        let params = CreateSessionParams {
            channel: uri.clone(),
            meta: None,
            provider: Some(TOUR.to_owned()),
            working_directories: directories,
            config: None,
            active_client: None,
            progress_token: None,
        };
        let _: Value = connection.request("createSession", params).await?;
        let mut session = Self::follow(connection, uri).await?;
        session.is_own = true;
        Ok(session)
    }

    /// Disposes of the session if it is temporary.
    pub(super) async fn leave(self, connection: &Connection) {
        if self.is_own {
            // A session that stays is no failure of the command.
            let _ = dispose(connection, &self.uri, Deletion::ForGood).await;
        }
    }

    /// Waits for the default chat.
    pub(super) async fn chat(&mut self, connection: &mut Connection) -> Result<String, Failure> {
        loop {
            if let Some(chat) = ready_chat(&self.state)? {
                return Ok(chat);
            }
            self.next(connection).await?;
        }
    }

    /// Waits for the next action on any subscribed channel, and applies it to the state of the session.
    pub(super) async fn next(&mut self, connection: &mut Connection) -> Result<ActionEnvelope, Failure> {
        loop {
            let event = connection.events.recv().await.ok_or_else(connection_lost)?;
            match event.event {
                SubscriptionEvent::Action(envelope) => {
                    let is_ours = envelope.channel == self.uri && is_after(&envelope, self.from_seq);
                    if is_ours && envelope.rejection_reason.is_none() {
                        apply_action_to_session(&mut self.state, &envelope.action);
                    }
                    return Ok(envelope);
                }
                SubscriptionEvent::SessionRemoved(removed) if removed.session == self.uri => {
                    return Err(Failure::new(Kind::Rejected, "the session was disposed"));
                }
                _ => {}
            }
        }
    }

    /// Waits until a condition is true, at most until the deadline. Returns whether it is.
    pub(super) async fn until(
        &mut self,
        connection: &mut Connection,
        give_up_at: Instant,
        is_so: impl Fn(&SessionState) -> bool,
    ) -> Result<bool, Failure> {
        while !is_so(&self.state) {
            match tokio::time::timeout_at(give_up_at, self.next(connection)).await {
                Ok(envelope) => envelope?,
                Err(_) => return Ok(false),
            };
        }
        Ok(true)
    }

    /// Dispatches an action to a channel, and waits until the host accepts or rejects it.
    pub(super) async fn dispatch(
        &mut self,
        connection: &mut Connection,
        channel: &str,
        action: StateAction,
    ) -> Result<(), Failure> {
        let handle = connection.client.dispatch(channel.to_owned(), action).await;
        let seq = handle
            .map_err(|error| request_failure("dispatchAction", error))?
            .client_seq;
        loop {
            let envelope = self.next(connection).await?;
            if let Some(reason) = rejection(&envelope, &connection.client_id, seq) {
                let reason = one_line(reason, 500);
                return Err(Failure::new(Kind::Rejected, format!("the host rejected it: {reason}")));
            }
            let origin = envelope.origin.as_ref();
            if origin.is_some_and(|origin| origin.client_id == connection.client_id && origin.client_seq == seq) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_host_needs_an_explicit_session() {
        let told = SessionTarget::default().existing().unwrap_err().to_string();
        assert!(
            told.contains("on another machine") && told.contains("--session"),
            "{told}"
        );
        let told = SessionTarget::default().describe_new();
        assert!(
            told.contains("--session names a session or a directory there"),
            "{told}"
        );
    }
}
