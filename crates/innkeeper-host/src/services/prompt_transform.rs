//! `systemMessageTransform`: at most one client rewrites sections of a system prompt.
//!
//! The core chooses the client, and the request is sent here. If anything fails, the prompt stays as the agent wrote it
//! (SMT-08). The text of the sections is for the model only: it is never part of any state, and the log has only its
//! hash (SMT-16, SMT-17).

use std::collections::HashMap;
use std::time::Duration;

use innkeeper_core::{ChannelId, ConnId, PromptPlan, Transformer, TurnKey};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::agent::{PromptSection, RenderedPrompt, RenderedSection};
use crate::main_loop::Message;
use crate::main_loop::message::ConnectionMessage;
use crate::net::reverse_requests::ClientRequestError;

/// The name on the wire. Clients are asked this, and never ask it (SMT-01).
pub(crate) const METHOD: &str = "systemMessageTransform";

/// Bounds of one render.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransformLimits {
    /// Time for all of it.
    pub(crate) time: Duration,
    /// Maximum bytes of the request, and of the answer.
    pub(crate) bytes: usize,
}

/// Has the prompts of one chat rewritten.
#[derive(Debug, Clone)]
pub(crate) struct Renderer {
    chat: ChannelId,
    inbox: mpsc::Sender<Message>,
    limits: TransformLimits,
}

/// The reason why a prompt stays as it is although a client wanted to rewrite it. The client's own words are left out,
/// because they may repeat the prompt.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the request would have {bytes} bytes, and {most} are allowed")]
    RequestTooLarge { bytes: usize, most: usize },
    #[error("the answer has {bytes} bytes, and {most} are allowed")]
    AnswerTooLarge { bytes: usize, most: usize },
    #[error("the answer is malformed: `sections` is to be an object, and each `content` in it a string")]
    Malformed,
    #[error("the client answered with error {0}")]
    Refused(i64),
    #[error(transparent)]
    Peer(ClientRequestError),
}

impl From<ClientRequestError> for Failure {
    fn from(error: ClientRequestError) -> Self {
        match error {
            ClientRequestError::Refused { code, .. } => Self::Refused(code),
            other => Self::Peer(other),
        }
    }
}

impl Renderer {
    pub(crate) fn new(chat: ChannelId, inbox: mpsc::Sender<Message>, limits: TransformLimits) -> Self {
        Self { chat, inbox, limits }
    }

    /// Renders a prompt, for a run or, while the chat opens, for none. Returns at once when no client rewrites any of
    /// it, and never takes longer than the limit.
    pub(crate) async fn render(&self, turn: Option<TurnKey>, sections: Vec<PromptSection>) -> RenderedPrompt {
        let deadline = Instant::now() + self.limits.time;
        let ids = sections.iter().map(|section| section.id.clone()).collect();
        let chosen = tokio::time::timeout_at(deadline, self.plan(turn, ids)).await;
        let PromptPlan {
            restricted,
            transformer,
        } = chosen.unwrap_or_default();
        let transformer = transformer.and_then(|transformer| with_content(transformer, &sections));
        let mut prompt = match transformer {
            Some(transformer) => self.transform(deadline, &transformer, sections).await,
            None => RenderedPrompt::unchanged(sections),
        };
        for section in &mut prompt.sections {
            section.restricted = restricted.contains(&section.id);
        }
        prompt
    }

    async fn transform(
        &self,
        deadline: Instant,
        transformer: &Transformer,
        sections: Vec<PromptSection>,
    ) -> RenderedPrompt {
        let before = contents(&sections, transformer);
        let answer = tokio::time::timeout_at(deadline, self.ask(transformer, &before)).await;
        match answer.unwrap_or_else(|_| Err(ClientRequestError::TimedOut.into())) {
            Ok(after) => {
                audit(transformer, &before, &after);
                replace(sections, transformer, after)
            }
            Err(failure) => {
                let (session, client) = (&*transformer.session_uri, &transformer.client);
                let asked = &transformer.sections;
                tracing::debug!(%session, %client, sections = ?asked, %failure, "a prompt was not rewritten");
                RenderedPrompt::unchanged(sections)
            }
        }
    }

    /// Returns the client that rewrites a prompt with these sections.
    async fn plan(&self, turn: Option<TurnKey>, sections: Vec<String>) -> PromptPlan {
        let (reply, chosen) = oneshot::channel();
        let chat = self.chat;
        let render = Message::Render {
            chat,
            turn,
            sections,
            reply,
        };
        if self.inbox.send(render).await.is_err() {
            return PromptPlan::default();
        }
        chosen.await.unwrap_or_default()
    }

    /// Asks the client, once and for everything (SMT-04).
    async fn ask(&self, transformer: &Transformer, before: &Contents) -> Result<Contents, Failure> {
        let sections = transformer.sections.iter();
        let sections: Map<String, Value> = sections
            .filter_map(|id| Some((id.clone(), json!({ "content": before.get(id)? }))))
            .collect();
        let params = json!({ "channel": &*transformer.session_uri, "sections": sections }).to_string();
        let most = self.limits.bytes;
        if params.len() > most {
            let bytes = params.len();
            return Err(Failure::RequestTooLarge { bytes, most });
        }
        let (reply, answer) = oneshot::channel();
        let conn: ConnId = transformer.conn;
        let ask = ConnectionMessage::Transform { conn, params, reply };
        if self.inbox.send(ask.into()).await.is_err() {
            return Err(ClientRequestError::Disconnected.into());
        }
        let answer = answer.await.unwrap_or(Err(ClientRequestError::Disconnected))?;
        read(answer, before, most)
    }
}

/// Leaves out the sections that are empty in this render: there is nothing to rewrite in them. A
/// client that is left with none is not asked at all.
fn with_content(mut transformer: Transformer, sections: &[PromptSection]) -> Option<Transformer> {
    let has_content = |id: &String| {
        let mut named = sections.iter().filter(|section| section.id == *id);
        named.any(|section| !section.content.is_empty())
    };
    transformer.sections.retain(has_content);
    (!transformer.sections.is_empty()).then_some(transformer)
}

/// The texts of sections, by id.
type Contents = HashMap<String, String>;

fn contents(sections: &[PromptSection], transformer: &Transformer) -> Contents {
    let asked = |section: &&PromptSection| transformer.sections.contains(&section.id);
    let asked = sections.iter().filter(asked);
    asked
        .map(|section| (section.id.clone(), section.content.clone()))
        .collect()
}

/// Reads an answer: what it says of sections that were asked for. Others are ignored (SMT-07), but
/// one of them that is malformed makes the whole answer so.
fn read(answer: Value, asked: &Contents, most: usize) -> Result<Contents, Failure> {
    #[derive(Deserialize)]
    struct TransformAnswer {
        sections: HashMap<String, Section>,
    }
    #[derive(Deserialize)]
    struct Section {
        content: String,
    }
    let answer: TransformAnswer = serde_json::from_value(answer).map_err(|_| Failure::Malformed)?;
    let size = |(id, section): (&String, &Section)| id.len() + section.content.len();
    let bytes = answer.sections.iter().map(size).sum();
    if bytes > most {
        return Err(Failure::AnswerTooLarge { bytes, most });
    }
    let sections = answer.sections.into_iter();
    let known = sections.filter(|(id, _)| asked.contains_key(id));
    Ok(known.map(|(id, section)| (id, section.content)).collect())
}

fn replace(sections: Vec<PromptSection>, transformer: &Transformer, mut after: Contents) -> RenderedPrompt {
    let sections = sections.into_iter().map(|section| {
        let rewritten = after.remove(&section.id).filter(|content| *content != section.content);
        RenderedSection {
            changed: rewritten.is_some(),
            content: rewritten.unwrap_or(section.content),
            id: section.id,
            restricted: false,
        }
    });
    RenderedPrompt {
        sections: sections.collect(),
        client: Some(transformer.client.as_str().to_owned()),
    }
}

/// Logs the sections before and after, by hash (SMT-16). SHA-256, because an auditor compares with text of their own,
/// outside this program and long after it.
fn audit(transformer: &Transformer, before: &Contents, after: &Contents) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let (session, client) = (&*transformer.session_uri, &transformer.client);
    for id in &transformer.sections {
        let before = before.get(id).map(|content| hash(content)).unwrap_or_default();
        let after = after.get(id).map_or_else(|| before.clone(), |content| hash(content));
        tracing::debug!(%session, %client, section = %id, %before, %after, "a client had a section of a prompt to rewrite");
    }
}

fn hash(content: &str) -> String {
    let digest = Sha256::digest(content.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
