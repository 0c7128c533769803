//! Snapshots: captured in the core in constant time, encoded by the writer.

use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use ahp_types::state::{
    ActiveTurn, ChatState, InputRequestResponsePart, ResponsePart, RootState, SessionState, SessionStatus,
    ToolCallState,
};
use bytes::Bytes;
use innkeeper_dialects::state::{self as older, Around};
use serde::ser::{Error, SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::agent::Setting;
pub use crate::chat::history::History;
use crate::core::PartState;
use crate::ids::Seq;
use crate::protocol::answer_numbers;
use crate::protocol::dialect::extension::{ActiveClients, Agents, Catalogue, InputNeeded, InputRequest, OptIns};
use crate::protocol::dialect::mcp_apps::{WithoutApps, strip_apps};
use crate::protocol::dialect::{Dialect, Version};
use crate::protocol::frame::{ActionFrame, begin_result};
use crate::protocol::request::RequestId;
use crate::session::settings::InOrder;

/// Answers up to this size are encoded in one piece; larger ones on their way out.
const SMALL_BYTES: usize = 1 << 20;

/// A channel's state at one moment (SUB-02). Later actions copy what they change, so a snapshot
/// waiting in a queue never moves.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The channel's URI.
    pub resource: Arc<str>,
    /// The last action that is part of the state.
    pub from_seq: Seq,
    /// The state.
    pub state: State,
    /// Its reader's dialect.
    pub dialect: Dialect,
    /// Facts about a session that its state has in older versions only.
    pub around: Option<Box<Around>>,
}

/// The state of one channel.
#[derive(Debug, Clone)]
pub enum State {
    /// The root channel.
    Root(Configured<RootState, Catalogue>),
    /// A session.
    Session(Configured<SessionState, OptIns>),
    /// A chat: everything but the completed turns, those, and how many of them are shown.
    Chat(Arc<ChatState>, Arc<History>, Window),
    /// A session together with the chat that it shows, for versions in which they are one channel. A chat that is asked
    /// for by its own URI is shown as a session of its own.
    SessionWithChat(Configured<SessionState, OptIns>, Option<Box<VisibleChat>>),
    /// A channel of another kind.
    Part(PartState),
}

/// The chat that a session shows.
#[derive(Debug, Clone)]
pub struct VisibleChat {
    /// Everything but the completed turns.
    pub head: Arc<ChatState>,
    /// The completed turns.
    pub history: Arc<History>,
    /// How many of them are shown.
    pub window: Window,
}

/// Which of a chat's completed turns a snapshot shows (SUB-12).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Number of oldest turns that are left out.
    pub skipped: usize,
}

impl Window {
    /// All turns.
    pub const ALL: Self = Self { skipped: 0 };
}

/// The cursor for the turns before `loaded_from`, if there are any: it names the newest of them.
pub(crate) fn cursor(history: &History, loaded_from: usize) -> Option<String> {
    let newest = history.id(loaded_from.checked_sub(1)?)?;
    Some(format!("{CURSOR_HEAD}{newest}"))
}

/// Prefix of `fetchTurns` cursors.
pub(crate) const CURSOR_HEAD: &str = "through:";

/// A state with settings, the order in which they are declared, which the state does not have (CMP-08), and its
/// extension fields.
#[derive(Debug)]
pub struct Configured<T, X> {
    state: Arc<T>,
    settings: Arc<[Setting]>,
    beside: Arc<X>,
}

impl<T, X> Clone for Configured<T, X> {
    fn clone(&self) -> Self {
        Self::new(&self.state, &self.settings, &self.beside)
    }
}

impl<T, X> Configured<T, X> {
    pub(crate) fn new(state: &Arc<T>, settings: &Arc<[Setting]>, beside: &Arc<X>) -> Self {
        Self {
            state: Arc::clone(state),
            settings: Arc::clone(settings),
            beside: Arc::clone(beside),
        }
    }

    /// The state alone.
    pub fn shared(&self) -> Arc<T> {
        Arc::clone(&self.state)
    }
}

impl<T, X> Deref for Configured<T, X> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

impl Snapshot {
    /// A snapshot with everything in it.
    pub fn new(resource: Arc<str>, from_seq: Seq, state: State) -> Self {
        Self {
            resource,
            from_seq,
            state,
            dialect: Dialect::COMPLETE,
            around: None,
        }
    }

    /// The chat that this session shows, and whether the session counts as read, for versions in which they are one
    /// channel.
    pub fn shown_chat(&self) -> Option<(&str, bool)> {
        match &self.state {
            State::SessionWithChat(session, Some(chat)) => {
                let is_read = session.status & SessionStatus::IsRead.bits() != 0;
                Some((&chat.head.resource, is_read))
            }
            State::SessionWithChat(_, None) | State::Root(_) | State::Session(_) | State::Chat(..) | State::Part(_) => {
                None
            }
        }
    }

    /// The state of a session in JSON of the newest version, whatever version the snapshot is for.
    pub fn session_json(&self) -> Option<Map<String, Value>> {
        let (State::Session(session) | State::SessionWithChat(session, _)) = &self.state else {
            return None;
        };
        object_of::<serde_json::Error>(&VisibleSession(session, self.dialect)).ok()
    }

    /// The same as a client without MCP Apps sees it, for comparisons in tests.
    pub fn without_apps(mut self) -> Self {
        self.dialect.mcp_apps = false;
        if let State::Session(session) = &mut self.state
            && let Some(list) = &mut Arc::make_mut(&mut session.state).customizations
        {
            list.iter_mut().for_each(strip_apps);
        }
        self
    }
}

impl State {
    /// Whether nothing of it has to be read.
    fn is_in_memory(&self) -> bool {
        match self {
            Self::Root(_) | Self::Session(_) | Self::Part(_) => true,
            Self::Chat(_, history, window) => is_resident(history, *window),
            Self::SessionWithChat(_, chat) => chat.as_ref().is_none_or(|chat| is_resident(&chat.history, chat.window)),
        }
    }
}

fn is_resident(history: &History, window: Window) -> bool {
    history.resident_from() <= window.skipped.min(history.len())
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Snapshot", 3)?;
        out.serialize_field("resource", &*self.resource)?;
        match &self.state {
            _ if self.dialect.version.is_translated() => out.serialize_field("state", &Translated(self))?,
            State::Session(session) => out.serialize_field("state", &VisibleSession(session, self.dialect))?,
            state => out.serialize_field("state", state)?,
        }
        out.serialize_field("fromSeq", &self.from_seq.0)?;
        out.end()
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Root(root) => serialize_root(root, serializer),
            Self::Session(session) => VisibleSession(session, Dialect::COMPLETE).serialize(serializer),
            Self::Chat(head, history, window) => {
                let turns = history.shown_from(window.skipped);
                serialize_chat(head, &turns, cursor(history, window.skipped), serializer)
            }
            // It has no form of its own in the newest version.
            Self::SessionWithChat(session, _) => VisibleSession(session, Dialect::COMPLETE).serialize(serializer),
            Self::Part(state) => state.serialize(serializer),
        }
    }
}

/// The state of a snapshot in the words of an older version. The completed turns of a chat are translated one after
/// the other while they are written.
struct Translated<'a>(&'a Snapshot);

impl Serialize for Translated<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Snapshot {
            state, dialect, around, ..
        } = self.0;
        let to = dialect.version;
        let nothing = Around::default();
        let around = around.as_deref().unwrap_or(&nothing);
        match state {
            State::Root(_) => {
                let mut root = object_of(state)?;
                older::root(to, &mut root);
                root.serialize(serializer)
            }
            State::Session(session) => {
                let mut session = object_of(&VisibleSession(session, *dialect))?;
                older::session(to, &mut session, around);
                session.serialize(serializer)
            }
            State::Chat(head, history, window) => {
                let mut chat = head_of(head, history, *window)?;
                older::chat(to, &mut chat);
                serialize_with_turns(&chat, Some((history, *window)), to, serializer)
            }
            State::SessionWithChat(session, chat) => {
                let mut session = object_of(&VisibleSession(session, *dialect))?;
                let head = match chat {
                    Some(chat) => head_of(&chat.head, &chat.history, chat.window)?,
                    None => Map::new(),
                };
                older::session_with_chat(to, &mut session, head, around);
                session.insert(TURNS.to_owned(), Value::Array(Vec::new()));
                let turns = chat.as_ref().map(|chat| (&chat.history, chat.window));
                serialize_with_turns(&session, turns, to, serializer)
            }
            State::Part(part) => {
                let mut state = object_of(part)?;
                older::other(to, part.kind().prefix(), &mut state);
                state.serialize(serializer)
            }
        }
    }
}

/// The member of a chat that has its completed turns.
const TURNS: &str = "turns";

/// A value as an object of JSON.
fn object_of<E: Error>(value: &impl Serialize) -> Result<Map<String, Value>, E> {
    match serde_json::to_value(value).map_err(E::custom)? {
        Value::Object(object) => Ok(object),
        _ => Err(E::custom("a state is an object")),
    }
}

/// Everything of a chat but its completed turns, with an empty list in their place.
fn head_of<E: Error>(head: &ChatState, history: &History, window: Window) -> Result<Map<String, Value>, E> {
    struct Head<'a>(&'a ChatState, Option<String>);
    impl Serialize for Head<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serialize_chat(self.0, &[(); 0], self.1.clone(), serializer)
        }
    }
    object_of(&Head(head, cursor(history, window.skipped)))
}

/// Writes a state with the completed turns of a chat in their place.
fn serialize_with_turns<S: Serializer>(
    state: &Map<String, Value>,
    turns: Option<(&Arc<History>, Window)>,
    to: Version,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_map(Some(state.len()))?;
    for (key, value) in state {
        match turns {
            Some((history, window)) if key == TURNS => {
                out.serialize_entry(key, &history.shown_from(window.skipped).in_version(to))?;
            }
            _ => out.serialize_entry(key, value)?,
        }
    }
    out.end()
}

/// The state of a channel before an action, for the translation of the action. It is encoded when the first
/// connection needs it, and once for all of them.
#[derive(Debug)]
pub struct Before {
    state: State,
    dialect: Dialect,
    json: OnceLock<Value>,
}

impl Before {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            dialect: Dialect::COMPLETE,
            json: OnceLock::new(),
        }
    }

    /// The same for clients without MCP Apps.
    pub(crate) fn without_apps(&self) -> Self {
        let mut before = Self::new(self.state.clone());
        before.dialect.mcp_apps = false;
        before
    }

    /// The state in JSON of the newest version. A chat has its latest completed turns only.
    pub fn value(&self) -> &Value {
        self.json.get_or_init(|| {
            let json = match &self.state {
                State::Session(session) => serde_json::to_value(VisibleSession(session, self.dialect)),
                state => serde_json::to_value(state),
            };
            json.unwrap_or_default()
        })
    }
}

/// Writes the root as the published type would, with its settings in order. As with
/// [`serialize_chat`], a field added upstream does not compile until it is written here.
fn serialize_root<S: Serializer>(root: &Configured<RootState, Catalogue>, serializer: S) -> Result<S::Ok, S::Error> {
    let RootState {
        agents,
        active_sessions,
        terminals,
        config,
        meta,
    } = &*root.state;
    let config = config.as_ref().map(|config| InOrder::host(config, &root.settings));
    let mut out = serializer.serialize_map(None)?;
    out.serialize_entry("agents", &Agents(agents, &root.beside))?;
    optional(&mut out, "activeSessions", active_sessions)?;
    optional(&mut out, "terminals", terminals)?;
    optional(&mut out, "config", &config)?;
    optional(&mut out, "_meta", meta)?;
    out.end()
}

/// A session, and whether what belongs to MCP Apps is left out.
struct VisibleSession<'a>(&'a Configured<SessionState, OptIns>, Dialect);

impl Serialize for VisibleSession<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_session(self.0, self.1, serializer)
    }
}

/// Writes a session likewise.
fn serialize_session<S: Serializer>(
    session: &Configured<SessionState, OptIns>,
    dialect: Dialect,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let SessionState {
        provider,
        title,
        status,
        activity,
        origin,
        project,
        working_directories,
        annotations,
        lifecycle,
        creation_error,
        server_tools,
        active_clients,
        chats,
        default_chat,
        config,
        customizations,
        changesets,
        input_needed,
        meta,
    } = &*session.state;
    let config = config
        .as_ref()
        .map(|config| InOrder::session(config, &session.settings));
    let mut out = serializer.serialize_map(None)?;
    out.serialize_entry("provider", provider)?;
    out.serialize_entry("title", title)?;
    out.serialize_entry("status", status)?;
    optional(&mut out, "activity", activity)?;
    optional(&mut out, "origin", origin)?;
    optional(&mut out, "project", project)?;
    optional(&mut out, "workingDirectories", working_directories)?;
    optional(&mut out, "annotations", annotations)?;
    out.serialize_entry("lifecycle", lifecycle)?;
    optional(&mut out, "creationError", creation_error)?;
    optional(&mut out, "serverTools", server_tools)?;
    out.serialize_entry("activeClients", &ActiveClients(active_clients, &session.beside))?;
    out.serialize_entry("chats", chats)?;
    optional(&mut out, "defaultChat", default_chat)?;
    optional(&mut out, "config", &config)?;
    match customizations {
        Some(list) if !dialect.mcp_apps => out.serialize_entry("customizations", &WithoutApps(list))?,
        customizations => optional(&mut out, "customizations", customizations)?,
    }
    optional(&mut out, "changesets", changesets)?;
    let needed = input_needed.as_deref();
    let needed: Option<Vec<InputNeeded<'_>>> = needed.map(|needed| needed.iter().map(InputNeeded).collect());
    optional(&mut out, "inputNeeded", &needed)?;
    optional(&mut out, "_meta", meta)?;
    out.end()
}

/// Writes a chat as the published type would. The destructuring is exhaustive, so a field added
/// upstream does not compile until it is written here.
fn serialize_chat<S: Serializer, T: Serialize>(
    head: &ChatState,
    turns: &T,
    turns_next_cursor: Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let ChatState {
        resource,
        title,
        status,
        activity,
        modified_at,
        changes,
        origin,
        movable,
        interactivity,
        working_directories,
        changesets,
        background_work,
        canvases,
        turns: _,
        // The host has the whole history; where a reader's window ends is not part of the state.
        turns_next_cursor: _,
        active_turn,
        steering_message,
        queued_messages,
        draft,
        meta,
    } = head;
    let mut out = serializer.serialize_map(None)?;
    out.serialize_entry("resource", resource)?;
    out.serialize_entry("title", title)?;
    out.serialize_entry("status", status)?;
    optional(&mut out, "activity", activity)?;
    out.serialize_entry("modifiedAt", modified_at)?;
    optional(&mut out, "changes", changes)?;
    optional(&mut out, "origin", origin)?;
    optional(&mut out, "movable", movable)?;
    optional(&mut out, "interactivity", interactivity)?;
    optional(&mut out, "workingDirectories", working_directories)?;
    optional(&mut out, "changesets", changesets)?;
    optional(&mut out, "backgroundWork", background_work)?;
    optional(&mut out, "canvases", canvases)?;
    out.serialize_entry(TURNS, turns)?;
    optional(&mut out, "turnsNextCursor", &turns_next_cursor)?;
    optional(&mut out, "activeTurn", &active_turn.as_ref().map(Active))?;
    optional(&mut out, "steeringMessage", steering_message)?;
    optional(&mut out, "queuedMessages", queued_messages)?;
    optional(&mut out, "draft", draft)?;
    optional(&mut out, "_meta", meta)?;
    out.end()
}

/// Optional fields are omitted, never `null` (TRN-16).
fn optional<M: SerializeMap, T: Serialize>(out: &mut M, key: &str, value: &Option<T>) -> Result<(), M::Error> {
    match value {
        Some(value) => out.serialize_entry(key, value),
        None => Ok(()),
    }
}

/// The active turn as the published type would write it, except for calls that wait for a sign-in: the published type
/// encodes their `status` twice (E-41). A completed turn has no such call.
struct Active<'a>(&'a ActiveTurn);

impl Serialize for Active<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ActiveTurn {
            id,
            started_at,
            message,
            response_parts,
            usage,
        } = self.0;
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("id", id)?;
        out.serialize_entry("startedAt", started_at)?;
        out.serialize_entry("message", message)?;
        out.serialize_entry("responseParts", &Parts(response_parts))?;
        optional(&mut out, "usage", usage)?;
        out.end()
    }
}

struct Parts<'a>(&'a [ResponsePart]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Part))
    }
}

struct Part<'a>(&'a ResponsePart);

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let ResponsePart::ToolCall(part) = self.0
            && let ToolCallState::AuthRequired(call) = &part.tool_call
        {
            let mut out = serializer.serialize_map(Some(2))?;
            out.serialize_entry("kind", "toolCall")?;
            out.serialize_entry("toolCall", call)?;
            return out.end();
        }
        if let ResponsePart::InputRequest(part) = self.0 {
            let InputRequestResponsePart { request, response } = part;
            let mut out = serializer.serialize_map(None)?;
            out.serialize_entry("kind", "inputRequest")?;
            out.serialize_entry("request", &InputRequest(request))?;
            optional(&mut out, "response", response)?;
            return out.end();
        }
        self.0.serialize(serializer)
    }
}

/// A response that carries state. It is queued on the connection together with the actions that follow it, so nothing
/// can overtake it (SUB-03, E-04).
#[derive(Debug)]
pub struct RpcAnswer {
    /// The request it answers.
    pub id: RequestId,
    /// Its content.
    pub body: AnswerBody,
    /// Roughly how many bytes it will be, for the queue's bound.
    pub estimated_bytes: usize,
}

/// The large results.
#[derive(Debug)]
pub enum AnswerBody {
    /// `subscribe`.
    Subscribed(Snapshot),
    /// `initialize`: the result without its snapshots, as JSON object text, and they.
    Initialized {
        /// The object's fields before `snapshots`, encoded, without the closing brace.
        head: Vec<u8>,
        /// One per live initial subscription (NEG-10).
        snapshots: Vec<Snapshot>,
    },
    /// `reconnect` when the window still covers the gap (REC-03).
    Replayed {
        /// Every missed action on the resumed channels, ascending.
        actions: Vec<Arc<ActionFrame>>,
        /// Requested channels that do not exist (REC-02).
        missing: Vec<String>,
    },
    /// Something that was read for the client: the JSON object without its closing brace.
    Found(Vec<u8>),
    /// `reconnect` otherwise (REC-05).
    Resynced {
        /// One per resumed channel; what is absent is missing (REC-06).
        snapshots: Vec<Snapshot>,
    },
}

impl RpcAnswer {
    pub(crate) fn weight(&self) -> usize {
        self.estimated_bytes
    }

    /// Whether it completes the handshake of a connection.
    pub fn is_handshake(&self) -> bool {
        match self.body {
            AnswerBody::Initialized { .. } | AnswerBody::Replayed { .. } | AnswerBody::Resynced { .. } => true,
            AnswerBody::Subscribed(_) | AnswerBody::Found(_) => false,
        }
    }

    /// Its snapshots.
    pub fn snapshots(&self) -> &[Snapshot] {
        match &self.body {
            AnswerBody::Subscribed(snapshot) => std::slice::from_ref(snapshot),
            AnswerBody::Initialized { snapshots, .. } | AnswerBody::Resynced { snapshots } => snapshots,
            AnswerBody::Replayed { .. } | AnswerBody::Found(_) => &[],
        }
    }

    /// Whether it is worth encoding in one piece: little, and nothing of it has to be read first.
    pub(crate) fn is_small(&self) -> bool {
        let mut snapshots = self.snapshots().iter();
        self.estimated_bytes <= SMALL_BYTES && snapshots.all(|snapshot| snapshot.state.is_in_memory())
    }

    /// Encodes the whole response in memory.
    pub fn encode(&self) -> io::Result<Bytes> {
        let mut out = Vec::with_capacity(256);
        self.write_to(&mut out)?;
        Ok(out.into())
    }

    /// Writes the whole response, reading turns that are not in memory as it comes to them. That
    /// blocks. A failure of `out` is passed on; what cannot be read is [`io::ErrorKind::InvalidData`],
    /// and leaves half a message behind.
    pub fn write_to(&self, mut out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&begin_result(&self.id))?;
        match &self.body {
            AnswerBody::Subscribed(snapshot) => {
                out.write_all(br#"{"snapshot":"#)?;
                answer_numbers::to_writer(&mut out, snapshot)?;
            }
            AnswerBody::Initialized { head, snapshots } => {
                out.write_all(head)?;
                out.write_all(br#","snapshots":"#)?;
                answer_numbers::to_writer(&mut out, snapshots)?;
            }
            AnswerBody::Replayed { actions, missing } => {
                out.write_all(br#"{"type":"replay","actions":["#)?;
                for (index, action) in actions.iter().enumerate() {
                    if index > 0 {
                        out.write_all(b",")?;
                    }
                    out.write_all(action.envelope())?;
                }
                out.write_all(br#"],"missing":"#)?;
                serde_json::to_writer(&mut out, missing)?;
            }
            AnswerBody::Found(object) => out.write_all(object)?,
            AnswerBody::Resynced { snapshots } => {
                out.write_all(br#"{"type":"snapshot","snapshots":"#)?;
                answer_numbers::to_writer(&mut out, snapshots)?;
            }
        }
        out.write_all(b"}}")
    }
}
