//! The scenarios that each version plays, and the table that names them.
//!
//! A scenario gets a client of its version and creates a session of its own. It ends with a fold that equals a fresh
//! snapshot. The page of compatibility has one row per scenario.

pub(crate) mod changes;
mod connections;
mod host;
mod terminals;
mod turns;
mod waits;

use std::pin::Pin;

use innkeeper_compat::client::CompatClient;
use innkeeper_compat::version::Version;
use innkeeper_compat::words::Uris;
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

/// Scenarios that share a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Host,
    Turns,
    Waits,
    Connections,
}

/// A row of the table.
pub(crate) struct Scenario {
    pub(crate) group: Group,
    pub(crate) name: &'static str,
    /// The capability, as the page of compatibility calls it.
    pub(crate) capability: &'static str,
    /// Whether this version has the capability.
    pub(crate) applies: fn(Version) -> bool,
    play: for<'a> fn(&'a mut Stage) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// The host, a client of the version, and the scenario that is played.
pub(crate) struct Stage {
    pub(crate) version: Version,
    pub(crate) client: CompatClient,
    name: &'static str,
    host: Option<HostProcess>,
}

impl Stage {
    /// Creates the session of this scenario.
    pub(crate) async fn session(&self) -> Uris {
        self.session_with(json!({})).await
    }

    /// The same with further params.
    pub(crate) async fn session_with(&self, more: Value) -> Uris {
        self.client.create_session(self.name, more).await
    }

    /// Connects another client of any version.
    pub(crate) async fn connect(&self, version: Version, id: &str) -> CompatClient {
        let id = format!("{id}-{}", self.name);
        CompatClient::connect(&self.url(), version, &id).await
    }

    /// Where the host listens.
    pub(crate) fn url(&self) -> String {
        self.host().address().url_with_token()
    }

    pub(crate) fn host(&self) -> &HostProcess {
        self.host.as_ref().expect("the host runs")
    }

    /// Kills the host and starts it again on the same data. Connections end.
    pub(crate) async fn restart(&mut self) {
        let host = self.host.take().expect("the host runs");
        self.host = Some(host.kill_and_restart().await);
        let url = self.url();
        self.client.move_to(&url);
    }
}

/// Plays all scenarios of a group.
pub(crate) async fn run(version: Version, group: Group) {
    let host = crate::start().await;
    let url = host.address().url_with_token();
    let mut host = Some(host);
    for scenario in ALL.iter().filter(|scenario| scenario.group == group) {
        if !(scenario.applies)(version) {
            continue;
        }
        eprintln!("{}: {}", version.number(), scenario.name);
        let url = host
            .as_ref()
            .map_or_else(|| url.clone(), |host| host.address().url_with_token());
        let client = CompatClient::connect(&url, version, &format!("client-{}", scenario.name)).await;
        let mut stage = Stage {
            version,
            client,
            name: scenario.name,
            host: host.take(),
        };
        (scenario.play)(&mut stage).await;
        host = stage.host;
    }
}

macro_rules! scenarios {
    ($($group:ident / $module:ident::$name:ident: $capability:literal, $applies:expr;)*) => {
        /// All scenarios, in the order of the page.
        pub(crate) const ALL: &[Scenario] = &[$(
            Scenario {
                group: Group::$group,
                name: stringify!($name),
                capability: $capability,
                applies: $applies,
                play: |stage| Box::pin($module::$name(stage)),
            },
        )*];
    };
}

/// A capability of all versions.
fn always(_: Version) -> bool {
    true
}

scenarios! {
    Host / host::greets: "connects with the first frame of its SDK", always;
    Host / host::sees_the_root: "root state and settings of the host", always;
    Host / host::lists: "list of sessions, announcements of changes", always;
    Host / host::names_its_session: "sessions with a URI of the client's own", always;
    Host / host::pages_the_list: "list of sessions in pages", Version::has_cursors;
    Host / host::renames_reads_and_archives: "rename, read, archive", always;
    Host / host::configures: "settings of a session", always;
    Host / host::chooses_a_model: "model of the session", Version::has_session_model;
    Host / host::works_in_a_directory: "working directory", always;
    Host / host::uses_files: "files of the working directory", always;
    Host / host::completes: "completions", Version::has_channels;
    Host / changes::follows_changed_files: "changed files: follow, discard lines and files", Version::has_channels;
    Host / changes::reviews_files: "changed files: review", Version::keeps_answers;
    Host / changes::annotates: "annotations", Version::has_chats;
    Host / host::toggles_customizations: "customizations, switched off and on", always;
    Host / terminals::uses_a_terminal: "terminals: open, type, share, end", always;
    Host / terminals::watches_a_command: "terminals of commands", always;
    Host / host::disposes: "dispose a session", always;
    Host / host::is_refused: "errors and rejections", always;
    Turns / turns::talks: "talk: text, reasoning, usage", always;
    Turns / turns::runs_a_tool: "tools with streamed input and output", always;
    Turns / turns::attaches: "attachments", always;
    Turns / turns::reads_a_long_answer: "content kept outside the conversation", always;
    Turns / turns::queues: "queued messages, reordered and removed", always;
    Turns / turns::steers: "steering", always;
    Turns / turns::cancels: "cancel a turn", always;
    Turns / turns::fails: "a turn that fails", always;
    Turns / turns::sees_a_resumed_turn: "a failed turn that is resumed", always;
    Turns / turns::truncates: "truncate", always;
    Turns / turns::forks_a_session: "fork of a session", Version::has_session_forks;
    Turns / turns::forks_a_chat: "fork into another chat", Version::has_chats;
    Turns / turns::fetches_turns_before: "older turns with `before` and `limit`", |version| !version.has_cursors();
    Turns / turns::fetches_turns_by_cursor: "older turns by cursor", Version::has_cursors;
    Turns / turns::follows_a_subagent: "subagents, approved in their own conversation", always;
    Waits / waits::approves: "approve a tool, with edited input", always;
    Waits / waits::denies: "deny a tool", always;
    Waits / waits::chooses_an_option: "choices of an approval", always;
    Waits / waits::confirms_again: "a tool that asks again", always;
    Waits / waits::reviews_a_result: "review a result", always;
    Waits / waits::decides_in_parallel: "several approvals at once", always;
    Waits / waits::answers_every_kind: "questions of every kind, with drafts", always;
    Waits / waits::declines: "decline a question", always;
    Waits / waits::visits_a_page: "a question with a page to visit", always;
    Connections / connections::owns_a_tool: "tools of the client", always;
    Connections / connections::becomes_active_and_leaves: "active client: set, changed, removed", always;
    Connections / connections::changes_its_tools: "new tools of the active client", |version| !version.has_active_clients();
    Connections / connections::leaves_a_channel: "unsubscribe", always;
    Connections / connections::reconnects: "reconnect at several cuts", always;
    Connections / connections::survives_a_restart: "restart of the host", always;
}
