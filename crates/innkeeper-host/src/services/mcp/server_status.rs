//! The status of a session's MCP servers as text, for users who want to know why one is not ready.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};

use tokio::sync::Notify;

use super::{AuthReason, McpPrompt, NOT_TRUSTED, ServerStatus, display_line};
use crate::services::customizations::TurnCustomizations;

/// The status of a server of a session as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatusText {
    /// The id of its customization.
    pub id: String,
    /// The display name of the server.
    pub name: String,
    /// The prefix of its prompts when users type them: its name, made safe and unique.
    pub prefix: String,
    /// Whether it offers anything now.
    pub is_ready: bool,
    /// The status, and the reason if it is not ready.
    pub words: String,
}

impl ServerStatusText {
    fn of(status: &ServerStatus) -> Self {
        let (is_ready, words) = match status {
            ServerStatus::Starting => (false, "it is starting".to_owned()),
            ServerStatus::Ready { .. } => (true, "ready".to_owned()),
            ServerStatus::AuthRequired(requirement) => {
                let whom = requirement.resource_name.as_deref();
                let whom = display_line(whom.unwrap_or(&requirement.resource));
                let why = match requirement.reason {
                    AuthReason::Required => "sign-in required",
                    AuthReason::Expired => "the sign-in has expired: sign in again",
                    AuthReason::InsufficientScope => "it wants more rights than were granted: sign in again",
                };
                // The rights that its token grants can still be used.
                let is_ready = requirement.reason == AuthReason::InsufficientScope;
                (is_ready, format!("{why} ({whom})"))
            }
            ServerStatus::Failed(failure) => (false, failure.message.clone()),
            ServerStatus::Stopped => (false, "it is stopped".to_owned()),
        };
        Self {
            id: String::new(),
            name: String::new(),
            prefix: String::new(),
            is_ready,
            words,
        }
    }

    fn not_ready(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            ..Self::of(&ServerStatus::Stopped)
        }
    }
}

/// The last reported status of every server of a session. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReportedStatuses(Arc<Statuses>);

#[derive(Debug, Default)]
struct Statuses {
    /// The status of each server, and of which start it is.
    known: Mutex<HashMap<String, (u64, ServerStatus)>>,
    changed: Notify,
}

impl ReportedStatuses {
    pub(super) fn note(&self, server: &str, attempt: u64, status: &ServerStatus) {
        let mut reported = self.known();
        let is_old = reported.get(server).is_some_and(|(newest, _)| *newest > attempt);
        if !is_old {
            reported.insert(server.to_owned(), (attempt, status.clone()));
        }
        drop(reported);
        self.0.changed.notify_waiters();
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (u64, ServerStatus)>> {
        self.0.known.lock()
    }

    /// The start of a server that waits until users allow it, if it does.
    pub(super) fn untrusted(&self, server: &str) -> Option<u64> {
        match self.known().get(server) {
            Some((attempt, ServerStatus::Failed(failure))) if failure.kind == NOT_TRUSTED => Some(*attempt),
            _ => None,
        }
    }

    /// Completes when none of these servers waits for a decision or starts.
    pub(super) async fn started(&self, servers: &[String]) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that no report is missed.
            changed.as_mut().enable();
            let is_on_its_way = |server: &String| {
                let is_starting = matches!(self.known().get(server), None | Some((_, ServerStatus::Starting)));
                is_starting || self.untrusted(server).is_some()
            };
            if !servers.iter().any(is_on_its_way) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn of(&self, server: &str) -> ServerStatusText {
        match self.known().get(server) {
            Some((_, status)) => ServerStatusText::of(status),
            None => ServerStatusText::of(&ServerStatus::Starting),
        }
    }
}

impl TurnCustomizations {
    /// Returns the status of the session's MCP servers, also of those that do not run, in the order of their
    /// declarations.
    pub fn mcp_servers(&self) -> Vec<ServerStatusText> {
        let declared: Vec<_> = self.declared_servers().collect();
        let mut uses: HashMap<String, usize> = HashMap::new();
        for (declared, _) in &declared {
            *uses.entry(safe(&declared.about.name)).or_default() += 1;
        }
        let standings = declared.into_iter().map(|(declared, is_on)| {
            let about = &declared.about;
            let known = match is_on {
                true => self.mcp().standing(&about.id),
                false => Some(ServerStatusText::not_ready("it is switched off")),
            };
            // A user stopped it, or there are too many: clients see which.
            let known = known.unwrap_or_else(|| ServerStatusText::not_ready("it is stopped"));
            let plain = safe(&about.name);
            let prefix = match uses.get(&plain) {
                Some(1) | None => plain,
                Some(_) => format!("{plain}-{}", digits(&about.id)),
            };
            ServerStatusText {
                id: about.id.clone(),
                name: about.name.clone(),
                prefix,
                ..known
            }
        });
        standings.collect()
    }

    /// Returns the prompts of the ready servers, under the names that users type. Servers that do not answer in time
    /// are left out.
    pub async fn mcp_prompts(&self, timeout: Duration) -> Vec<McpPrompt> {
        let servers = self.mcp_servers();
        let ready = servers.iter().filter(|server| server.is_ready);
        let lists = ready.map(|server| async move {
            let listed = tokio::time::timeout(timeout, self.prompts_of(server)).await;
            listed.unwrap_or_default()
        });
        futures_util::future::join_all(lists)
            .await
            .into_iter()
            .flatten()
            .collect()
    }

    /// The prompts of one of them.
    pub(super) async fn prompts_of(&self, server: &ServerStatusText) -> Vec<McpPrompt> {
        let mut prompts = self.mcp().prompts(&server.id).await;
        let mut taken = HashSet::new();
        for prompt in &mut prompts {
            let plain = format!("{}:{}", server.prefix, safe(&prompt.prompt));
            let mut name = plain.clone();
            let mut number = 1;
            while !taken.insert(name.clone()) {
                number += 1;
                name = format!("{plain}-{number}");
            }
            prompt.name = name;
        }
        prompts
    }
}

/// A name that is one word, however a server or its prompt is called.
fn safe(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = name
        .chars()
        .take(100)
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// Returns digits that distinguish two servers of one name, whichever of them run.
fn digits(id: &str) -> String {
    let digest = Sha256::digest(id);
    digest.iter().take(2).map(|byte| format!("{byte:02x}")).collect()
}
