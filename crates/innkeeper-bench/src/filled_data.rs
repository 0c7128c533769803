//! Data directories with years of sessions in them.
//!
//! One session is made by the real host, so that what is stored is what a host stores. The others
//! are copies of it under other URIs, and go into the file through the store itself.

use std::{fs::File, path::Path, sync::Arc};

use anyhow::{Context, Result};
use bytes::Bytes;
use innkeeper_core::{
    Seq,
    records::{Batch, ChatRecord, Document, ListPage, Record, SessionRecord, SummaryRecord, TurnRecord},
    uri::default_chat,
};
use innkeeper_host::journal::Journal;
use innkeeper_store::{Archive, FILE_NAME, Mode, Options, SqliteJournal};
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};

use crate::{
    client::delivery::{Stamping, StreamPlan},
    client::host_session,
    client::websocket::Connection,
    server::process::ServerProcess,
};

/// How many sessions go into one transaction.
const SESSIONS_PER_BATCH: u64 = 500;
/// How many bytes of turns go into one transaction.
const TURN_BYTES_PER_BATCH: usize = 4 << 20;

/// A session as it is stored.
pub(crate) struct Template {
    session: String,
    /// Its one chat.
    pub(crate) chat: String,
    seq: Seq,
    chat_seq: Seq,
    created_ms: i64,
    summary: String,
    document: String,
    chat_document: String,
    turns: Vec<(String, String)>,
}

impl Template {
    /// Lets the host make a session with a few turns in a data directory.
    pub(crate) async fn made_by_host(host_binary: &Path, data: &Path, turns: usize) -> Result<Self> {
        let host = ServerProcess::start_host_with(host_binary, &[], Some(data), "").await?;
        let made = make_session(&host, turns).await;
        let chat = made.map_err(|error| host.explain(error))?;
        host.stop().await?;
        Self::read(data, chat)
    }

    fn read(data: &Path, chat: String) -> Result<Self> {
        let archive = Archive::open(&data.join(FILE_NAME), Mode::ReadOnly)?;
        let session = archive.load(&chat)?.context("the session was not stored")?;
        let stored = session.chats.first().context("the chat was not stored")?;
        let bodies = archive.turns(&chat, 0..stored.turns.len())?;
        let page = ListPage { after: None, limit: 1 };
        let listed = archive.list(&page)?;
        let line = listed.first().context("the session is not listed")?;
        let turns = stored.turns.iter().zip(bodies);
        Ok(Self {
            seq: session.seq,
            chat_seq: stored.seq,
            created_ms: line.modified_ms,
            summary: text(&line.summary)?,
            document: text(&session.document)?,
            chat_document: text(&stored.document)?,
            turns: turns
                .map(|(turn, body)| Ok((turn.id.clone(), text(&body)?)))
                .collect::<Result<_>>()?,
            session: session.uri,
            chat,
        })
    }

    /// The records of a copy of the session; the later its number, the later it was changed.
    fn copy(&self, number: u64) -> Vec<Record> {
        let uri = stored_session(number);
        let chat = default_chat(&uri);
        let moved = |text: &str| {
            let text = text.replace(&self.chat, &chat).replace(&self.session, &uri);
            Document::ready(text.into_bytes())
        };
        let (uri, chat): (Arc<str>, Arc<str>) = (uri.as_str().into(), chat.as_str().into());
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        vec![
            Record::Session(Box::new(SessionRecord {
                seq: self.seq,
                is_new: true,
                is_draft: false,
                at_rest: true,
                summary: SummaryRecord {
                    uri: Arc::clone(&uri),
                    created_ms: self.created_ms,
                    modified_ms: self.created_ms.saturating_add(number),
                    is_archived: false,
                    summary: moved(&self.summary),
                },
                document: moved(&self.document),
            })),
            Record::Chat(Box::new(ChatRecord {
                uri: Arc::clone(&chat),
                session: uri,
                seq: self.chat_seq,
                is_new: true,
                document: moved(&self.chat_document),
            })),
            Record::Turns {
                chat,
                from: 0,
                turns: self
                    .turns
                    .iter()
                    .map(|(id, body)| turn_record(id, moved(body)))
                    .collect(),
            },
        ]
    }

    /// Adds copies of the session to a data directory.
    pub(crate) async fn fill(&self, data: &Path, sessions: u64) -> Result<()> {
        let (journal, seq) = open(data).await?;
        for first in (0..sessions).step_by(SESSIONS_PER_BATCH as usize) {
            let numbers = first..sessions.min(first + SESSIONS_PER_BATCH);
            let records = numbers.flat_map(|number| self.copy(number)).collect();
            journal.append(Batch { records, seq }).await?;
        }
        journal.flush().await?;
        Ok(())
    }

    /// Adds a copy whose chat has so many turns of so many bytes each.
    pub(crate) async fn fill_history(&self, data: &Path, number: u64, turns: usize, turn_bytes: usize) -> Result<()> {
        let (journal, seq) = open(data).await?;
        let mut records = self.copy(number);
        let chat: Arc<str> = default_chat(&stored_session(number)).into();
        records.pop();
        journal.append(Batch { records, seq }).await?;
        let (_, model) = self.turns.first().context("the template has no turn")?;
        let mut model: Value = serde_json::from_str(model)?;
        let per_batch = (TURN_BYTES_PER_BATCH / turn_bytes.max(1)).max(1);
        for from in (0..turns).step_by(per_batch) {
            let positions = from..turns.min(from + per_batch);
            let turns = positions
                .map(|position| long_turn(&mut model, position, turn_bytes))
                .collect::<Result<_>>()?;
            let chat = Arc::clone(&chat);
            let records = vec![Record::Turns { chat, from, turns }];
            journal.append(Batch { records, seq }).await?;
            // Turns are written behind; waiting keeps them from piling up in memory.
            journal.flush().await?;
        }
        Ok(())
    }
}

/// The URI of a copy.
pub(crate) fn stored_session(number: u64) -> String {
    format!("ahp-session:/stored-{number:07}")
}

/// Makes the system forget what it has read of the data file, so that the next reader waits for the disk.
pub(crate) fn forget_pages(data: &Path) -> Result<()> {
    let file = File::open(data.join(FILE_NAME))?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed).context("cannot drop the data file from the page cache")?;
    Ok(())
}

async fn open(data: &Path) -> Result<(SqliteJournal, Seq)> {
    let journal = SqliteJournal::new(&data.join(FILE_NAME), Options::default());
    let seq = journal.open().await?.last_seq;
    Ok((journal, seq))
}

async fn make_session(host: &ServerProcess, turns: usize) -> Result<String> {
    let mut connection = Connection::open(&host.url).await?;
    host_session::initialize(&mut connection, "filler", &[]).await?;
    host_session::create_session(&mut connection).await?;
    let chat = host_session::subscribe_session(&mut connection).await?;
    host_session::subscribe_chat(&mut connection, &chat, 0).await?;
    for number in 0..turns {
        let plan = StreamPlan {
            turn_id: format!("turn-{number}"),
            client_seq: number as u64 + 1,
            deltas: 20,
            bytes: 40,
            delay_ms: 0,
            stamping: Stamping::Plain,
        };
        host_session::start_turn(&mut connection, &chat, &plan).await?;
        loop {
            let message = connection.next_message().await?;
            if message.pointer("/params/action/type").and_then(Value::as_str) == Some("chat/turnComplete") {
                break;
            }
        }
    }
    connection.close().await?;
    Ok(chat)
}

fn text(bytes: &Bytes) -> Result<String> {
    String::from_utf8(bytes.to_vec()).context("something that was stored is not text")
}

fn turn_record(id: &str, document: Document) -> TurnRecord {
    TurnRecord {
        id: id.into(),
        document,
    }
}

/// A turn like the model, with another id and an answer of so many bytes.
fn long_turn(model: &mut Value, position: usize, bytes: usize) -> Result<TurnRecord> {
    let id = format!("turn-{position}");
    model["id"] = json!(id);
    let content = model
        .pointer_mut("/responseParts/0/content")
        .context("the model turn has no text")?;
    let line = format!("This is a line of the answer of turn {position}. ");
    let mut answer = line.repeat(bytes / line.len() + 1);
    answer.truncate(bytes);
    *content = Value::String(answer);
    Ok(turn_record(&id, Document::ready(serde_json::to_vec(model)?)))
}
