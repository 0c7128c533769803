//! `subscribe`, `unsubscribe`, and the consequences of a lost connection.

use std::sync::Arc;

use crate::clients::client::{GracePeriod, Phase, Presence, Subscriptions};
use crate::core::{Cx, Departure, Host, ROOT, Timer, never};
use crate::effect::Subscriber;
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::frame::Outgoing;
use crate::protocol::request::{RequestId, Subscribe};
use crate::protocol::snapshot::{AnswerBody, RpcAnswer, Window};
use crate::protocol::uri;

impl Host {
    pub(crate) fn subscribe(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, subscribe: Subscribe) {
        if uri::is_telemetry(&subscribe.channel) {
            return self.answer_logs(cx, conn, id, &subscribe.channel);
        }
        let result = self.register(cx, conn, &subscribe.channel, subscribe.max_latency_ms, subscribe.turns);
        let (channel, window) = match result {
            Ok(registered) => registered,
            Err(error) => return cx.answer(conn, id, Err(error)),
        };
        // Registered and captured in one step, and the response is queued before anything that follows (SUB-03,
        // E-04).
        if let Some(snapshot) = self.capture_for(conn, channel, window) {
            let answer = RpcAnswer {
                id: id.clone(),
                body: AnswerBody::Subscribed(snapshot),
                estimated_bytes: self.estimated_bytes_for(conn, channel, window),
            };
            cx.send(conn, Outgoing::Answer(Arc::new(answer)));
        }
    }

    /// Makes a connection a subscriber of a channel. For a chat it gets the latest completed turns,
    /// `turns`, or all of them; the answer says what its snapshot has to show.
    ///
    /// To a client that knows no chats, a session and its default chat are one channel: it subscribes to both in one
    /// step, and the window is that of the chat.
    pub(crate) fn register(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        uri: &str,
        max_latency_ms: Option<u32>,
        turns: Option<usize>,
    ) -> Result<(ChannelId, Window), RpcError> {
        let version = self.conns.dialect(conn).version;
        let channel = if version.names_root(uri) {
            if let Some(connection) = self.conns.get_mut(&conn) {
                connection.root_name = Some(uri.into());
            }
            ROOT
        } else {
            self.find_or_open(cx, uri).ok_or_else(|| no_such_channel(uri))?
        };
        let window = self.register_channel(cx, conn, channel, max_latency_ms, turns)?;
        if !version.session_is_chat() || !self.sessions.contains_key(&channel) {
            return Ok((channel, window));
        }
        let shown = self.default_chat(channel);
        self.hide_chat(cx, conn, channel, shown);
        let Some(chat) = shown else {
            return Ok((channel, window));
        };
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.shown_chats.insert(channel, chat);
        }
        match self.register_channel(cx, conn, chat, max_latency_ms, turns) {
            Ok(window) => Ok((channel, window)),
            Err(error) => {
                self.leave_channel(cx, conn, channel);
                Err(error)
            }
        }
    }

    /// The default chat of a session.
    pub(crate) fn default_chat(&self, session: ChannelId) -> Option<ChannelId> {
        let uri = self.sessions.get(&session)?.state.default_chat.as_deref()?;
        self.channels.find(uri)
    }

    /// Ends the subscription to the chat that a session shows to a connection, unless it goes on showing this one.
    fn hide_chat(&mut self, cx: &mut Cx<'_>, conn: ConnId, session: ChannelId, next: Option<ChannelId>) {
        let connection = self.conns.get_mut(&conn);
        let shown = connection.and_then(|connection| connection.shown_chats.remove(&session));
        if let Some(chat) = shown.filter(|chat| Some(*chat) != next) {
            self.leave_channel(cx, conn, chat);
        }
    }

    pub(super) fn register_channel(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        channel: ChannelId,
        max_latency_ms: Option<u32>,
        turns: Option<usize>,
    ) -> Result<Window, RpcError> {
        let max_subscriptions = self.config.max_subscriptions;
        let started = self.log.seq();
        let Some(uri) = self.channels.get(channel).map(|entry| Arc::clone(&entry.uri)) else {
            let message = "the channel is gone";
            return Err(RpcError::new(code::NOT_FOUND, message));
        };
        self.check_subscriber(cx, conn, channel)?;
        let Some(connection) = self.conns.get_mut(&conn) else {
            return Err(no_such_channel(&uri));
        };
        let Phase::Ready { client, dialect } = &connection.phase else {
            return Err(RpcError::invalid_request("send initialize first"));
        };
        // An acknowledgement to another connection does not count for this one (DSP-15).
        if let Some(session) = self.sessions.get_mut(&channel)
            && !connection.subscriptions.contains(&channel)
        {
            session.forget_acknowledged(client);
        }
        if connection.subscriptions.len() >= max_subscriptions && !connection.subscriptions.contains(&channel) {
            let problem = format!("a connection has at most {max_subscriptions} subscriptions; unsubscribe from some");
            return Err(RpcError::invalid_params("channel", problem));
        }
        let subscriber = Subscriber {
            conn,
            max_latency_ms: max_latency_ms.unwrap_or(self.config.default_latency_ms),
            dialect: *dialect,
        };
        connection.subscriptions.insert(channel);
        let client = client.clone();
        // A later run must not continue the subscription before this one.
        match self
            .clients
            .get(&client)
            .is_some_and(|client| client.may_be_persisted_with(&uri))
        {
            true => self.mark_client_replaced(&client),
            false => self.mark_client_dirty(&client),
        }
        let (window, unloaded) = self.window(channel, turns);
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.subscribe(subscriber, started, unloaded);
        }
        self.hold_draft(channel);
        self.follow_subscribed(cx, channel);
        Ok(window)
    }

    /// `unsubscribe`: fire and forget, and harmless for an unknown channel (SUB-06).
    pub(crate) fn unsubscribe(&mut self, cx: &mut Cx<'_>, conn: ConnId, uri: &str) {
        if uri::is_telemetry(uri) {
            return self.unsubscribe_from_logs(conn, uri);
        }
        let is_root = self.conns.dialect(conn).version.names_root(uri);
        // The client chose the URI; the channel may also have been removed since it subscribed.
        let Some(channel) = is_root.then_some(ROOT).or_else(|| self.channels.find(uri)) else {
            return;
        };
        self.hide_chat(cx, conn, channel, None);
        self.leave_channel(cx, conn, channel);
    }

    /// Ends a connection's subscription to one channel.
    fn leave_channel(&mut self, cx: &mut Cx<'_>, conn: ConnId, channel: ChannelId) {
        // A notification of a connection that was closed since it was read.
        let Some(connection) = self.conns.get_mut(&conn) else {
            return;
        };
        connection.subscriptions.remove(&channel);
        let client = match &connection.phase {
            Phase::Ready { client, .. } => client.clone(),
            Phase::Fresh => return,
        };
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.unsubscribe(conn);
        }
        self.sessions.note_released_drafts();
        self.subscriber_left(cx, channel, Departure::Unsubscribed);
        self.mark_client_dirty(&client);
        // ACT-09, unless another connection of the same client still listens (ACT-14).
        if !self.client_listens(&client, channel) {
            self.leave(cx, &client, channel);
            self.parts.watches.recheck();
        }
    }

    pub(crate) fn disconnect(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        // The transport also reports the end of a connection that the host closed.
        let Some(connection) = self.conns.close(conn) else {
            return;
        };
        self.forget_logs_of(conn);
        self.sessions.note_released_drafts();
        let mut subscriptions = Subscriptions::default();
        for channel in &connection.subscriptions {
            if let Some(entry) = self.channels.get_mut(*channel) {
                if let Some(subscription) = entry.subscription(conn) {
                    subscriptions.insert(Arc::clone(&entry.uri), subscription);
                }
                entry.unsubscribe(conn);
            }
            self.subscriber_left(cx, *channel, Departure::Disconnected);
        }
        // A connection that ends before its handshake belongs to no client.
        let Phase::Ready { client: client_id, .. } = connection.phase else {
            return;
        };
        let grace_ms = self.config.grace_ms;
        let Some(client) = self.clients.get_mut(&client_id) else {
            return never!("a connection that is ready has a client");
        };
        let absent = Presence::Absent(Subscriptions::default());
        let Presence::Active(transports) = std::mem::replace(&mut client.presence, absent) else {
            return never!("a client with a connection is active");
        };
        match transports.without(conn) {
            Some(rest) => {
                // When the client comes back, its state may contain what was sent to the lost connection alone, and
                // the host cannot tell which of the client's connections it was.
                for other in rest.iter() {
                    for (uri, lost) in &subscriptions {
                        let channel = self.channels.find(uri);
                        if let Some(entry) = channel.and_then(|channel| self.channels.get_mut(channel)) {
                            entry.limit_replay_to(other, lost);
                        }
                    }
                }
                client.presence = Presence::Active(rest);
                self.leave_unsubscribed(cx, &client_id, &[]);
                self.parts.watches.recheck();
            }
            None => {
                let until_ms = cx.now.mono_ms.saturating_add(grace_ms);
                client.presence = Presence::Grace(GracePeriod {
                    until_ms,
                    subscriptions,
                });
                self.timers.set(until_ms, Timer::EndGrace(client_id));
            }
        }
    }

    /// The client did not come back in time: it leaves its sessions (ACT-10), and only what was
    /// negotiated is remembered, for a `reconnect` much later.
    pub(crate) fn end_grace(&mut self, cx: &mut Cx<'_>, client_id: &ClientId) {
        // The timer outlives a client that was forgotten meanwhile.
        let Some(client) = self.clients.get_mut(client_id) else {
            return;
        };
        let subscriptions = match &mut client.presence {
            Presence::Grace(kept) if kept.until_ms <= cx.now.mono_ms => std::mem::take(&mut kept.subscriptions),
            // It started anew, and has not subscribed to these sessions again.
            Presence::Active(_) => return self.leave_unsubscribed(cx, client_id, &[]),
            Presence::Grace(_) | Presence::Absent(_) => return,
        };
        client.presence = Presence::Absent(subscriptions);
        self.forget_tokens(cx, client_id);
        let Some(client) = self.clients.get(client_id) else {
            return never!("a connection that is ready has a client");
        };
        for session in client.memberships.clone() {
            self.leave(cx, client_id, session);
        }
        for forgotten in self.clients.add_absent(client_id, self.config.max_absent_clients) {
            self.mark_client_dirty(&forgotten);
        }
    }

    /// Whether any connection of a client subscribes to a channel.
    pub(crate) fn client_listens(&self, client: &ClientId, channel: ChannelId) -> bool {
        match self.clients.get(client).map(|client| &client.presence) {
            Some(Presence::Active(transports)) => transports.iter().any(|conn| {
                self.conns
                    .get(&conn)
                    .is_some_and(|conn| conn.subscriptions.contains(&channel))
            }),
            Some(Presence::Grace(_) | Presence::Absent(_)) | None => false,
        }
    }

    /// A client that no longer listens to a session with any of its connections has left it
    /// (REC-14, ACT-14), but for those it is about to listen to.
    pub(crate) fn leave_unsubscribed(&mut self, cx: &mut Cx<'_>, id: &ClientId, kept: &[ChannelId]) {
        let memberships = self
            .clients
            .get(id)
            .map(|client| client.memberships.clone())
            .unwrap_or_default();
        for session in memberships {
            if !kept.contains(&session) && !self.client_listens(id, session) {
                self.leave(cx, id, session);
            }
        }
    }

    /// Takes a client out of a session it is an active client of.
    pub(crate) fn leave(&mut self, cx: &mut Cx<'_>, client: &ClientId, session: ChannelId) {
        let is_member = self
            .clients
            .get(client)
            .is_some_and(|client| client.memberships.contains(&session));
        if is_member {
            self.remove_active_client(cx, session, client.as_str().to_owned(), None);
        }
    }
}

/// The error for a URI that names nothing (SUB-04): prompt, never an endless wait.
fn no_such_channel(uri: &str) -> RpcError {
    if uri::looks_like_session_or_chat(uri) {
        RpcError::session_not_found(uri)
    } else {
        RpcError::new(code::NOT_FOUND, format!("there is no channel {uri:?} on this host"))
    }
}
