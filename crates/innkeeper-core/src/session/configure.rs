//! Settings of the host and of sessions, and completions of values.

use std::sync::Arc;

use ahp_types::actions::{RootConfigChangedAction, SessionConfigChangedAction, StateAction};
use ahp_types::state::{RootConfigState, SessionConfigState};
use serde_json::{Map, Value, json};

use crate::agent::{AgentProfile, Choice, Setting, SettingKind};
use crate::chat::approval;
use crate::chat::approval_mode;
use crate::clients::access::Scope;
use crate::config::CoreConfig;
use crate::core::{Cx, Host, never};
use crate::customization::disabled_ids;
use crate::effect::{CompletionQuery, CompletionRequest};
use crate::ids::{ChannelId, ConnId};
use crate::protocol::error::RpcError;
use crate::protocol::frame::{Outgoing, encode_error, encode_result};
use crate::protocol::request::{Completions, RequestId, SessionSetup, SettingQuery};
use crate::session::Session;
use crate::session::create::directories_of;
use crate::session::isolation;
use crate::session::settings::{self, InOrder, Problem};

/// The host's setting for how long an agent may be silent.
const SILENCE_LIMIT: &str = "silenceLimitMinutes";
/// Longest silence that can be set: a year, beyond which "never" is clearer.
const MAX_SILENCE_MINUTES: f64 = 525_600.0;
const MINUTE_MS: f64 = 60_000.0;

/// The one kind of completion that AHP 1.0 has.
const USER_MESSAGE: &str = "userMessage";

/// A change of settings that passed its check.
#[derive(Debug, PartialEq)]
pub(crate) enum Change<A> {
    /// Everything is so already; its author applied it and gets this back.
    Repeat(A),
    /// Apply this.
    Apply(A),
}

impl<A> Change<A> {
    fn between(now: &Map<String, Value>, next: &Map<String, Value>, action: impl FnOnce() -> A) -> Self {
        match now == next {
            true => Self::Repeat(action()),
            false => Self::Apply(action()),
        }
    }
}

/// The host's own settings, in the order clients show them.
pub(crate) fn host_settings(config: &CoreConfig) -> Vec<Setting> {
    let mode = Setting {
        title: "Approvals in new sessions".to_owned(),
        description: Some("Whether tools that can do harm ask first, in sessions created from now on.".to_owned()),
        ..approval_mode::setting()
    };
    let silence = Setting {
        id: SILENCE_LIMIT.to_owned(),
        title: "Minutes of silence".to_owned(),
        description: Some(
            "A turn whose agent has sent nothing for this many minutes is ended. 0 means never.".to_owned(),
        ),
        kind: SettingKind::Number,
        default: Some(minutes(config.silence_limit_ms)),
        mutable: true,
        read_only: false,
        required: false,
    };
    vec![mode, silence]
}

/// The host's own settings, as clients see them (ROOT-06).
pub(crate) fn root_config(settings: &[Setting]) -> RootConfigState {
    RootConfigState {
        schema: settings::host_schema(settings),
        values: settings::defaults(settings),
    }
}

fn minutes(ms: u64) -> Value {
    match ms % 60_000 {
        0 => json!(ms / 60_000),
        _ => json!(ms as f64 / MINUTE_MS),
    }
}

fn check_silence_limit(chosen: &Map<String, Value>) -> Result<(), Problem> {
    match chosen.get(SILENCE_LIMIT).and_then(Value::as_f64) {
        Some(limit) if !(0.0..=MAX_SILENCE_MINUTES).contains(&limit) => Err(Problem::new(
            SILENCE_LIMIT,
            format!("must be between 0, which means never, and {MAX_SILENCE_MINUTES}"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// VS Code has the settings `isolation` and `mode` for every host. A host that makes no worktrees shows neither and
/// drops their values, with one exception: a client that wants a worktree must not find the changes in the folder
/// itself.
fn check_isolation(settings: &[Setting], chosen: &Map<String, Value>) -> Result<(), Problem> {
    let is_setting = settings::find(settings, isolation::ISOLATION).is_some();
    match chosen.get(isolation::ISOLATION).and_then(Value::as_str) {
        Some("worktree") if !is_setting => Err(Problem::new(
            isolation::ISOLATION,
            "must be folder: this host works in the directory itself; create a worktree and name its directory",
        )),
        Some(_) | None => Ok(()),
    }
}

/// The values after a change. A replacement leaves out what goes back to its default; it is
/// completed here, so that every reader of the state finds every setting in it.
fn changed_values(
    settings: &[Setting],
    now: &Map<String, Value>,
    change: &Map<String, Value>,
    replace: Option<bool>,
) -> Map<String, Value> {
    let mut values = match replace {
        Some(true) => settings::defaults(settings),
        Some(false) | None => now.clone(),
    };
    values.extend(change.clone());
    values
}

impl Host {
    /// The settings of a session of an agent: the host's policy, then what the agent asks for.
    /// An agent cannot redefine the policy.
    pub(crate) fn settings_for(&self, agent: &AgentProfile) -> Arc<[Setting]> {
        let mut settings = approval::settings();
        let default = self.host_value(approval_mode::MODE);
        for setting in settings.iter_mut().filter(|setting| setting.id == approval_mode::MODE) {
            setting.default = default.cloned().or_else(|| setting.default.take());
        }
        if self.config.serves_changes {
            settings.push(isolation::setting());
        }
        for setting in &agent.settings {
            if settings::find(&settings, &setting.id).is_none() {
                settings.push(setting.clone());
            }
        }
        settings.into()
    }

    fn host_value(&self, setting: &str) -> Option<&Value> {
        self.root.state().config.as_ref()?.values.get(setting)
    }

    /// A session's settings, host's and agent's, with the values it starts with (CMP-05, CMP-09).
    pub(crate) fn session_config(
        &self,
        agent: &AgentProfile,
        chosen: &Map<String, Value>,
    ) -> Result<(Arc<[Setting]>, SessionConfigState), Problem> {
        let (settings, config) = self.draft_config(agent, chosen)?;
        check_isolation(&settings, chosen)?;
        settings::check_required(&settings, &config.values)?;
        Ok((settings, config))
    }

    /// The same while the user is still choosing: missing values may follow.
    fn draft_config(
        &self,
        agent: &AgentProfile,
        chosen: &Map<String, Value>,
    ) -> Result<(Arc<[Setting]>, SessionConfigState), Problem> {
        let settings = self.settings_for(agent);
        let mut values = settings::defaults(&settings);
        let chosen = settings::known_values(&settings, chosen)?;
        settings::check_values(&settings, &chosen, &values)?;
        approval::check_rules(&chosen)?;
        values.extend(chosen);
        let schema = settings::session_schema(&settings);
        Ok((settings, SessionConfigState { schema, values }))
    }

    /// `resolveSessionConfig`: everything there is to choose, and what would be chosen now (CMP-05).
    pub(crate) fn resolve_session_config(&self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, setup: &SessionSetup) {
        let resolved = self
            .agent_named(setup.provider.as_deref())
            .and_then(|agent| self.draft_config(agent, &setup.config).map_err(Problem::into_error));
        let message = match resolved {
            Ok((settings, mut config)) => {
                // A session has the approvals of its workspace, even if its creator saw others before: a rule that
                // was revoked in between stays revoked.
                let approved = setup.working_directory.as_ref();
                let approved = approved.and_then(|directory| self.approvals.workspaces().get(directory));
                config.values.insert(
                    approval::WORKSPACE.to_owned(),
                    json!(approved.cloned().unwrap_or_default()),
                );
                let everywhere = json!(self.approvals.everywhere());
                config.values.insert(approval::EVERYWHERE.to_owned(), everywhere);
                // Written at once, not as a `Value`: that would sort the properties (CMP-08).
                encode_result(id, &InOrder::session(&config, &settings))
            }
            Err(error) => encode_error(Some(id), &error),
        };
        cx.send(conn, Outgoing::Text(message));
    }

    /// `sessionConfigCompletions`: what a setting can be (CMP-06).
    pub(crate) fn setting_values(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, query: SettingQuery) {
        let SettingQuery { setup, property, query } = query;
        let found = self.agent_named(setup.provider.as_deref()).and_then(|agent| {
            let settings = self.settings_for(agent);
            let values = settings::known_values(&settings, &setup.config).map_err(Problem::into_error)?;
            let kind = match settings::find(&settings, &property) {
                Some(setting) => setting.kind.clone(),
                None if approval_mode::is_former(&property) => SettingKind::Choice(approval_mode::former_choices()),
                None => return Err(RpcError::invalid_params("property", settings::unknown(&settings))),
            };
            Ok((agent.info.provider.clone(), values, kind))
        });
        let items = match found {
            Err(error) => return cx.answer(conn, id, Err(error)),
            Ok((provider, values, SettingKind::Search(seed))) => {
                // The seed is shown before the user has typed; the agent finds the rest.
                if query.is_empty() && !seed.is_empty() {
                    matching(&seed, "")
                } else {
                    return cx.emit(CompletionRequest {
                        conn,
                        id: id.clone(),
                        query: Box::new(CompletionQuery::SettingValue {
                            provider,
                            property,
                            query,
                            working_directory: setup.working_directory,
                            values,
                        }),
                    });
                }
            }
            Ok((_, _, SettingKind::Choice(choices))) => matching(&choices, &query),
            Ok((
                _,
                _,
                SettingKind::Text
                | SettingKind::Number
                | SettingKind::Integer
                | SettingKind::Boolean
                | SettingKind::TextList { .. },
            )) => Vec::new(),
        };
        cx.answer(conn, id, Ok(json!({ "items": items })));
    }

    /// `completions`: the completions at a position in a message (CMP-01).
    pub(crate) fn completions(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, request: Completions) {
        match self.check_completions(request) {
            Ok(Some(query)) => {
                if let CompletionQuery::Message { session, .. } = &query {
                    self.follow_customizations(cx, *session);
                }
                cx.emit(CompletionRequest {
                    conn,
                    id: id.clone(),
                    query: Box::new(query),
                });
            }
            Ok(None) => cx.answer(conn, id, Ok(json!({ "items": [] }))),
            Err(error) => cx.answer(conn, id, Err(error)),
        }
    }

    fn check_completions(&self, request: Completions) -> Result<Option<CompletionQuery>, RpcError> {
        let Completions {
            channel,
            kind,
            text,
            offset,
        } = request;
        let not_found = || RpcError::session_not_found(&channel);
        let chat_id = self.chat_named(&channel).ok_or_else(not_found)?;
        let chat = self.chats.get(&chat_id).ok_or_else(not_found)?;
        let session = self.sessions.get(&chat.session).ok_or_else(not_found)?;
        let entry = self.channels.get(chat_id).ok_or_else(not_found)?;
        if text.len() > self.config.max_message_bytes {
            let problem = format!("a message has at most {} bytes of text", self.config.max_message_bytes);
            return Err(RpcError::invalid_params("text", problem));
        }
        let length = text.encode_utf16().count();
        let within = usize::try_from(offset).ok().filter(|offset| *offset <= length);
        let Some(offset) = within else {
            let problem = format!("must be between 0 and {length}, the length of the text in UTF-16 code units");
            return Err(RpcError::invalid_params("offset", problem));
        };
        if kind != USER_MESSAGE {
            return Ok(None);
        }
        let agent = self.agent_of(session);
        Ok(Some(CompletionQuery::Message {
            provider: session.state.provider.clone(),
            chat_uri: Arc::clone(&entry.uri),
            working_directories: directories_of(session, chat),
            text,
            offset,
            commands: agent.map(|agent| agent.commands.clone()).unwrap_or_default(),
            session: chat.session,
            disabled_ids: disabled_ids(session),
        }))
    }

    /// The chat of a URI; a session's stands for its default chat, as the reference client has it.
    fn chat_named(&self, uri: &str) -> Option<ChannelId> {
        let channel = self.channels.find(uri)?;
        match self.sessions.get(&channel) {
            Some(session) => self.channels.find(session.state.default_chat.as_ref()?),
            None => Some(channel),
        }
    }

    /// Whether a client may change the host's settings like this (ROOT-07, ROOT-08).
    ///
    /// Settings of other hosts are dropped, and the echo does not have them: some clients push theirs at connect, and
    /// a rejection would help no client (E-51).
    pub(crate) fn check_root_config(
        &self,
        changed: &RootConfigChangedAction,
    ) -> Result<Change<RootConfigChangedAction>, Problem> {
        let empty = Map::new();
        let now = self
            .root
            .state()
            .config
            .as_ref()
            .map_or(&empty, |config| &config.values);
        let config = settings::known_values(self.root.settings(), &changed.config)?;
        settings::check_values(self.root.settings(), &config, now)?;
        check_silence_limit(&config)?;
        let next = changed_values(self.root.settings(), now, &config, changed.replace);
        let replace = changed.replace;
        Ok(Change::between(now, &next, || RootConfigChangedAction {
            config: match replace {
                Some(true) => next.clone(),
                Some(false) | None => config,
            },
            replace,
        }))
    }

    /// Applies the host's changed settings. The defaults of new sessions are read when one is created.
    pub(crate) fn root_config_changed(&mut self, cx: &mut Cx<'_>) {
        let limit = self
            .host_value(SILENCE_LIMIT)
            .and_then(Value::as_f64)
            .unwrap_or_default();
        // Rounded up, because a moment is not "never".
        let limit_ms = (limit * MINUTE_MS).ceil() as u64;
        if limit_ms == self.config.silence_limit_ms {
            return;
        }
        self.config.silence_limit_ms = limit_ms;
        // The watchdog of running turns follows the new setting from now on.
        self.timers.cancel_watchdogs();
        let mut running: Vec<ChannelId> = Vec::new();
        for (id, chat) in self.chats.iter_mut() {
            chat.is_watched = false;
            if chat.run().is_some() {
                running.push(*id);
            }
        }
        running.sort_unstable();
        for chat in running {
            self.watch(cx, chat);
        }
    }

    /// Takes a value that an agent chose for a setting of its own. Settings of the host are not its to change, and a
    /// value that does not fit is ignored.
    pub(crate) fn agent_sets(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, id: String, value: Value) {
        let Some(session) = self.session_of(chat_id) else {
            return never!("a run is in a chat of a session");
        };
        // A restored session may lack a setting that its agent has by now.
        let is_own = self
            .agent_of(session)
            .is_some_and(|agent| settings::find(&agent.settings, &id).is_some());
        let is_policy = settings::find(&approval::settings(), &id).is_some() || id == isolation::setting().id;
        if !is_own || is_policy {
            return;
        }
        let config = Map::from_iter([(id, value)]);
        let changed = SessionConfigChangedAction { config, replace: None };
        if let Ok(Change::Apply(action)) = self.check_session_config(session, &changed, Scope::Drive) {
            let session_id = self.chats.get(&chat_id).map(|chat| chat.session);
            if let Some(session_id) = session_id {
                self.commit(cx, session_id, StateAction::SessionConfigChanged(action), None);
            }
        }
    }

    /// Whether a client may change a session's settings like this (SES-23).
    pub(crate) fn check_session_config(
        &self,
        session: &Session,
        changed: &SessionConfigChangedAction,
        scope: Scope,
    ) -> Result<Change<SessionConfigChangedAction>, Problem> {
        let empty = Map::new();
        let now = session.state.config.as_ref().map_or(&empty, |config| &config.values);
        let config = settings::known_values(&session.settings, &changed.config)?;
        settings::check_values(&session.settings, &config, now)?;
        approval::check_change(session, &config, scope)?;
        let fixed = "was chosen when the session was created and cannot be changed now";
        let replaces = changed.replace == Some(true);
        for setting in session.settings.iter().filter(|setting| !setting.mutable) {
            let id = &setting.id;
            match config.get(id) {
                Some(value) if now.get(id) != Some(value) => return Err(Problem::new(id, fixed)),
                None if replaces && now.contains_key(id) => {
                    return Err(Problem::new(
                        id,
                        format!("{fixed}; a replacement of all values must contain it"),
                    ));
                }
                Some(_) | None => {}
            }
        }
        let mut next = changed_values(&session.settings, now, &config, changed.replace);
        // Other sessions share these rules, so a replacement in this session does not remove them.
        if let (None, Some(shared)) = (config.get(approval::EVERYWHERE), now.get(approval::EVERYWHERE)) {
            next.insert(approval::EVERYWHERE.to_owned(), shared.clone());
        }
        settings::check_required(&session.settings, &next)?;
        settings::check_size(&next)?;
        Ok(Change::between(now, &next, || SessionConfigChangedAction {
            config: if replaces { next.clone() } else { config },
            replace: changed.replace,
        }))
    }
}

/// The choices whose value or label contains what was typed, in their own order.
fn matching(choices: &[Choice], query: &str) -> Vec<Value> {
    let query = query.trim().to_lowercase();
    let fits = |text: &str| text.to_lowercase().contains(&query);
    let found = choices.iter().filter(|choice| fits(&choice.id) || fits(&choice.label));
    found
        .map(|choice| {
            let mut item = json!({ "value": choice.id, "label": choice.label });
            if let Some(description) = &choice.description {
                item["description"] = json!(description);
            }
            item
        })
        .collect()
}
