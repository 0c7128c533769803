//! Persistence: what is written, and when.
//!
//! Every accepted action is persisted as it is published. In addition, the document of a channel is persisted: when
//! the channel is created, when a turn ends in it, when something changes that no action carries, when its log has
//! grown long, when it is evicted, and when the host stops.

use std::sync::Arc;

use ahp_types::actions::StateAction;
use ahp_types::state::SessionLifecycle;

use crate::chat::chats::Chat;
use crate::clients::channels::Subscription;
use crate::clients::client::Client;
use crate::config::CoreConfig;
use crate::core::{Cx, Host, ROOT, Timer, never};
use crate::ids::{ChannelId, ClientId, Seq};
use crate::session::{Session, millis};
use crate::storage::records::document::{
    self, ChatDraft, ClientDocument, RootDocument, SessionDocument, SubscriptionDocument,
};
use crate::storage::records::{ChatRecord, Document, Record, SessionRecord, StoredClient, SummaryRecord, TurnRecord};

/// The log of a channel grows to this many bytes before its document is persisted, or to the size of the document, so
/// that long turns are not written again and again.
const TAIL_BYTES: usize = 256 << 10;

/// How many bytes of a chat's latest turns stay in memory; the last one stays, however large. Others are read from the
/// store when they are needed.
const HISTORY_BYTES: usize = 1 << 20;

/// Most channels besides its subscriptions that the persisted state of a client may still name.
const MAX_EARLIER: usize = 256;

/// How long changes of clients' subscriptions are gathered.
const CLIENTS_MS: u64 = 10;

impl Host {
    /// Emits a record.
    fn record(cx: &mut Cx<'_>, record: Record) {
        cx.emit(record);
    }

    /// Keeps a channel that has just been made, before its first action.
    pub(crate) fn persist_new(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        if self.storage.mode().persists() {
            self.persist_channel(cx, channel, true);
        }
    }

    /// Keeps a channel as a whole, at the end of the present input.
    pub(crate) fn mark_dirty(&mut self, channel: ChannelId) {
        if self.storage.mode().persists() {
            self.storage.dirty.add(channel);
        }
    }

    /// Marks a channel as dirty if an action that was just published requires a new document.
    pub(crate) fn mark_dirty_after(&mut self, channel: ChannelId, action: &StateAction) {
        let ends_turn = matches!(
            action,
            StateAction::ChatTurnComplete(_)
                | StateAction::ChatTurnCancelled(_)
                | StateAction::ChatError(_)
                | StateAction::ChatTurnResume(_)
                | StateAction::ChatTruncated(_)
        );
        if ends_turn || channel == ROOT {
            self.mark_dirty(channel);
        }
    }

    /// Counts an action that was just published.
    pub(crate) fn count_tail(&mut self, channel: ChannelId, bytes: usize) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return never!("the channel exists");
        };
        entry.last = self.log.seq();
        entry.tail += bytes;
        if entry.tail <= TAIL_BYTES || !self.storage.mode().persists() {
            return;
        }
        let tail = entry.tail;
        let whole = self.chats.get(&channel).map_or(0, |chat| chat.model.turn_bytes());
        if tail > whole {
            self.mark_dirty(channel);
        }
    }

    /// Persists everything that the present input made dirty.
    pub(crate) fn persist_dirty(&mut self, cx: &mut Cx<'_>) {
        // Sessions last: what comes after one of them may unsettle it again.
        let channels = self.storage.dirty.take_channels();
        let (sessions, others): (Vec<_>, Vec<_>) = channels.into_iter().partition(|id| self.sessions.contains_key(id));
        for channel in others.into_iter().chain(sessions) {
            self.persist_channel(cx, channel, false);
        }
        if self.storage.dirty.has_replaced() {
            self.persist_clients(cx);
        }
        if self.storage.dirty.schedule_clients() {
            let at = cx.now.mono_ms.saturating_add(CLIENTS_MS);
            self.timers.set(at, Timer::PersistClients);
        }
    }

    /// Keeps everything, because the host is going down.
    pub(crate) fn persist_all(&mut self, cx: &mut Cx<'_>) {
        if self.storage.mode().persists() {
            let changed = self.channels.changed().into_iter();
            for channel in changed.chain(self.sessions.keys().copied()) {
                self.storage.dirty.add(channel);
            }
            self.persist_dirty(cx);
            self.persist_clients(cx);
            self.shut_down_parts(cx);
        }
    }

    fn persist_channel(&mut self, cx: &mut Cx<'_>, channel: ChannelId, is_new: bool) {
        if channel == ROOT {
            self.persist_root(cx);
        } else if self.sessions.contains_key(&channel) {
            self.persist_session(cx, channel, is_new);
        } else if self.chats.contains_key(&channel) {
            self.persist_chat(cx, channel, is_new);
        }
        // Channels of other kinds are not persisted, or by their service.
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.tail = 0;
        }
    }

    fn persist_root(&mut self, cx: &mut Cx<'_>) {
        let is_promised = self.grants.take_changed() | self.enablement.take_changed();
        let Some(entry) = self.channels.get(ROOT) else {
            return never!("the channel exists");
        };
        let document = RootDocument {
            version: document::VERSION,
            state: Arc::clone(self.root.state()),
            catalogue: Arc::clone(self.agents.catalogue()),
            workspace_approvals: self.approvals.workspaces().clone(),
            everywhere_approvals: self.approvals.everywhere().clone(),
            outdated_approvals: self.approvals.outdated().clone(),
            resource_grants: self.grants.clone(),
            enablement: Arc::clone(self.enablement.store()),
            gaps: self.log.gaps().clone(),
        };
        Self::record(
            cx,
            Record::Root {
                seq: entry.last,
                document: Document::new(move || document::write(&document)),
                is_promised,
            },
        );
    }

    fn persist_session(&self, cx: &mut Cx<'_>, session_id: ChannelId, is_new: bool) {
        let (Some(session), Some(entry)) = (self.sessions.get(&session_id), self.channels.get(session_id)) else {
            return never!("the session is in memory");
        };
        let document = SessionDocument {
            version: document::VERSION,
            created_at: session.created_at().to_owned(),
            created_seq: entry.created.0,
            titled_by: session.titled_by,
            settings: Arc::clone(&session.settings),
            state: Arc::clone(&session.state),
            opt_ins: Arc::clone(&session.opt_ins),
            decisions: Arc::clone(&session.customization.decisions),
            annotations: self.parts.annotations.document(session_id, &self.channels),
            edits: session.edits.clone(),
            reviews: session.reviews.clone(),
            is_draft: session.is_draft(),
            counted: session.counted.clone(),
            imported: false,
        };
        let record = SessionRecord {
            seq: entry.last,
            is_new,
            is_draft: session.is_draft(),
            // The next run of the host has to know of every draft, to delete those that stay unused.
            at_rest: self.is_at_rest(session) && !session.is_draft(),
            summary: summary_record(session),
            document: Document::new(move || document::write(&document)),
        };
        Self::record(cx, Record::Session(Box::new(record)));
    }

    /// Keeps what lists show of a session.
    pub(crate) fn persist_summary(&self, cx: &mut Cx<'_>, session_id: ChannelId) {
        if let Some(session) = self
            .sessions
            .get(&session_id)
            .filter(|_| self.storage.mode().persists())
        {
            Self::record(cx, Record::Summary(Box::new(summary_record(session))));
        }
    }

    fn persist_chat(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, is_new: bool) {
        let parent = self.chats.get(&chat_id).and_then(|chat| chat.parent);
        let parent = parent.and_then(|parent| Some(Arc::clone(&self.channels.get(parent)?.uri)));
        let (Some(chat), Some(entry)) = (self.chats.get_mut(&chat_id), self.channels.get(chat_id)) else {
            return never!("the chat is in memory and has a channel");
        };
        let Some(session) = self.sessions.get(&chat.session) else {
            return never!("the session is in memory");
        };
        let uri = Arc::clone(&entry.uri);
        let draft = ChatDraft {
            version: document::VERSION,
            created_seq: entry.created.0,
            titled_by: chat.titled_by,
            can_resume: chat.can_resume,
            parent,
            context: Arc::clone(&chat.side_context.context),
            selection: chat.side_context.selection.clone(),
            writers: chat
                .writers
                .iter()
                .map(|(id, client)| (id.clone(), client.as_str().to_owned()))
                .collect(),
            memory: chat.memory.clone(),
            state: document::head(chat.model.shared_head()),
        };
        let record = ChatRecord {
            uri: Arc::clone(&uri),
            session: Arc::clone(&session.uri),
            seq: entry.last,
            is_new,
            document: Document::new(move || document::write(&draft)),
        };
        Self::record(cx, Record::Chat(Box::new(record)));
        // Most actions leave the completed turns as they are.
        let Some(changes) = chat.model.turn_changes() else {
            return;
        };
        forget_turns(chat, self.log.durable(), &self.config);
        chat.rows = (self.log.seq(), chat.model.turn_count());
        if let Some((from, count)) = changes.copied {
            let to = Arc::clone(&uri);
            Self::record(cx, Record::CopyTurns { from, to, count });
        }
        let turns = changes.turns.into_iter().map(|turn| TurnRecord {
            id: turn.id.as_str().into(),
            document: Document::new(move || document::write(&*turn)),
        });
        let turns = turns.collect();
        let (chat, from) = (uri, changes.from);
        Self::record(cx, Record::Turns { chat, from, turns });
    }

    /// Lets the older turns of every chat go that are safe in the store.
    pub(crate) fn forget_old_turns(&mut self) {
        for chat in self.chats.values_mut() {
            forget_turns(chat, self.log.durable(), &self.config);
        }
    }

    /// The same for a chat whose older turns have just been read: a client that pages back to the
    /// beginning must not leave all of them in memory.
    pub(crate) fn forget_turns_read(&mut self, chat: ChannelId) {
        if let Some(chat) = self.chats.get_mut(&chat) {
            forget_turns(chat, self.log.durable(), &self.config);
        }
    }

    /// Persists the removal of a channel.
    pub(crate) fn persist_removal(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        self.storage.dirty.forget(channel);
        if !self.storage.mode().persists() {
            return;
        }
        let Some(entry) = self.channels.get(channel) else {
            return never!("the channel exists");
        };
        let uri = Arc::clone(&entry.uri);
        let record = match entry.kind {
            crate::protocol::action_table::ChannelKind::Session => Record::SessionRemoved { uri },
            _ => Record::ChatRemoved { uri },
        };
        Self::record(cx, record);
    }

    /// Notes that a session was deleted in a way that can be undone.
    pub(crate) fn persist_deletion(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        self.storage.dirty.forget(session_id);
        if let Some(entry) = self.channels.get(session_id).filter(|_| self.storage.mode().persists()) {
            let uri = Arc::clone(&entry.uri);
            let at_ms = cx.now.wall.as_millisecond();
            Self::record(cx, Record::SessionDeleted { uri, at_ms });
        }
    }

    /// Notes that a channel is closed whose rows stay.
    pub(crate) fn discard_dirty(&mut self, channel: ChannelId) {
        self.storage.dirty.forget(channel);
    }

    /// Persists the removal of a session that was never in memory.
    pub(crate) fn persist_removal_of(&self, cx: &mut Cx<'_>, uri: &Arc<str>) {
        if self.storage.mode().persists() {
            let uri = Arc::clone(uri);
            Self::record(cx, Record::SessionRemoved { uri });
        }
    }

    /// Notes that a client's subscriptions, or what was negotiated with it, changed.
    pub(crate) fn mark_client_dirty(&mut self, client: &ClientId) {
        if self.storage.mode().persists() {
            self.storage.dirty.add_client(client);
        }
    }

    /// Notes that the persisted state of a client contradicts the next message to it.
    pub(crate) fn mark_client_replaced(&mut self, client: &ClientId) {
        if self.storage.mode().persists() {
            self.storage.dirty.replace_client(client);
        }
    }

    /// Keeps the clients that changed.
    pub(crate) fn persist_clients(&mut self, cx: &mut Cx<'_>) {
        for (id, is_replaced) in self.storage.dirty.take_clients() {
            let key: Arc<str> = id.as_str().into();
            let subscriptions = self.earlier_subscriptions(&id);
            let mut replaces = is_replaced;
            if let Some(client) = self.clients.get_mut(&id) {
                replaces = client.persist_with(subscriptions.into_keys().collect(), is_replaced, MAX_EARLIER);
            }
            let record = match self.clients.get(&id) {
                Some(client) => Record::Client {
                    id: key,
                    document: Document::ready(self.client_document(&id, client)),
                    replaces,
                },
                None => Record::ClientForgotten { id: key },
            };
            Self::record(cx, record);
        }
    }

    /// Persists a client that has just completed its handshake.
    pub(crate) fn persist_client_now(&mut self, cx: &mut Cx<'_>, client: &ClientId) {
        self.mark_client_dirty(client);
        self.persist_clients(cx);
    }

    /// Marks all clients to be persisted again.
    pub(crate) fn mark_all_clients_replaced(&mut self) {
        let clients: Vec<ClientId> = self.clients.keys().cloned().collect();
        for client in clients {
            self.mark_client_replaced(&client);
        }
    }

    /// The clients as they are now, for a core that replaces this one.
    pub(crate) fn stored_clients(&self) -> Vec<StoredClient> {
        let stored = |(id, client): (&ClientId, &Client)| StoredClient {
            id: id.as_str().to_owned(),
            document: self.client_document(id, client).into(),
        };
        self.clients.iter().map(stored).collect()
    }

    fn client_document(&self, id: &ClientId, client: &Client) -> Vec<u8> {
        let subscriptions = self.earlier_subscriptions(id);
        let describe = |subscription: &Subscription| SubscriptionDocument {
            max_latency_ms: subscription.max_latency_ms,
            // A state that was sent in another dialect is not continued.
            started: match subscription.dialect.has_state_of(client.negotiated.dialect) {
                true => subscription.base.started.0,
                false => Seq::MAX.0,
            },
            unloaded: subscription.base.unloaded.as_deref().map(str::to_owned),
        };
        document::write(&ClientDocument {
            version: document::VERSION,
            principal: (&**client.principal()).into(),
            protocol: (&*client.negotiated.version).into(),
            mcp_apps: client.negotiated.dialect.mcp_apps,
            locale: client.negotiated.locale.as_deref().map(Into::into),
            subscriptions: subscriptions
                .iter()
                .map(|(uri, subscription)| (uri.to_string(), describe(subscription)))
                .collect(),
        })
    }

    /// Whether nothing runs in a session, so that a crash leaves nothing to recover.
    pub(crate) fn is_at_rest(&self, session: &Session) -> bool {
        session.state.lifecycle != SessionLifecycle::Creating
            && session.state.active_clients.is_empty()
            && session.chats.iter().filter_map(|id| self.chats.get(id)).all(|chat| {
                let head = chat.model.head();
                chat.run().is_none()
                    && head.active_turn.is_none()
                    && head.background_work.as_ref().is_none_or(Vec::is_empty)
            })
    }
}

/// Lets the older turns of a chat go, if the store is known to have them.
fn forget_turns(chat: &mut Chat, durable: Seq, config: &CoreConfig) {
    let (seq, stored) = chat.rows;
    if seq <= durable {
        chat.model.forget_turns(stored, config.history_turns, HISTORY_BYTES);
    }
}

fn summary_record(session: &Session) -> SummaryRecord {
    let summary = session.summary();
    SummaryRecord {
        uri: Arc::clone(&session.uri),
        created_ms: millis(session.created_at()),
        modified_ms: session.order_ms(),
        is_archived: session.is_archived(),
        summary: Document::new(move || document::write(&summary)),
    }
}
