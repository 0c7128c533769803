//! A request with everything that it may wait for: a start, a sign-in, and questions of the server.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::connection::{AttemptFailure, Connection, Request};
use super::{CallContext, ServerShared};
use crate::engine::ask::NoAnswer;
use crate::engine::auth::{SignIn, SignInReason};
use crate::engine::error::Error;
use crate::engine::state::{Event, ServerState};
use crate::engine::wire::Challenged;

/// The number of times that a server may ask for input before it answers.
const MAX_ROUNDS: usize = 16;

impl ServerShared {
    /// Sends a request and returns the text of its result. It waits for a server that starts. A call also waits for a sign-in,
    /// and answers the questions that the server asks first.
    pub(crate) async fn request(&self, mut request: Request) -> Result<String, Error> {
        for _ in 0..MAX_ROUNDS {
            let text = self.request_signed_in(&request).await?;
            let Some(asked) = InputRequired::read(&text) else {
                return Ok(text);
            };
            self.answer_all(asked, &mut request).await?;
        }
        Err(Error::NotUnderstood {
            server: self.config.name.clone(),
            why: format!("it asked for more {MAX_ROUNDS} times without answering"),
        })
    }

    async fn request_signed_in(&self, request: &Request) -> Result<String, Error> {
        let mut refused_token = None;
        let mut may_renew = true;
        loop {
            let connection = self.ready(request).await?;
            let challenged = match connection.request(request).await {
                Ok(text) => return Ok(text),
                Err(AttemptFailure::Final(error)) => return Err(self.hide(error)),
                Err(AttemptFailure::Challenged(challenged)) => challenged,
            };
            // Another token has come meanwhile: it is tried before a user is asked.
            let is_current = self
                .remote
                .as_ref()
                .is_none_or(|remote| remote.credentials.generation() == challenged.generation);
            if !is_current && refused_token != Some(challenged.generation) {
                refused_token = Some(challenged.generation);
                continue;
            }
            self.sign_in_first(&challenged, request, may_renew).await?;
            may_renew = false;
        }
    }

    /// Returns the connection, once there is one.
    async fn ready(&self, request: &Request) -> Result<Arc<Connection>, Error> {
        let mut states = self.state.subscribe();
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                ServerState::Ready => {
                    if let Some(connection) = self.connection() {
                        return Ok(connection);
                    }
                }
                ServerState::Starting { .. } => {}
                // The request may work without a token. The server refuses it if not.
                ServerState::AuthRequired(sign_in) => match (self.connection(), request.waiting_call()) {
                    (Some(connection), _) => return Ok(connection),
                    (None, Some(call)) => {
                        let in_time = self.wait_for_start(call, &sign_in, request).await;
                        in_time?;
                        continue;
                    }
                    (None, None) => return Err(self.sign_in_needed(*sign_in)),
                },
                ServerState::Error { message, .. } => return Err(self.not_running(message)),
                ServerState::Stopped => return Err(self.not_running("it was stopped: start it first".to_owned())),
            }
            tokio::select! {
                changed = states.changed() => if changed.is_err() {
                    return Err(self.not_running("it is gone".to_owned()));
                },
                () = request.cancel.cancelled() => return Err(Error::Cancelled),
            }
        }
    }

    /// A call that finds a server waiting for a token waits as well.
    async fn wait_for_start(&self, call: &CallContext, sign_in: &SignIn, request: &Request) -> Result<(), Error> {
        self.events.send(Event::SignInNeeded {
            call: call.id,
            sign_in: Box::new(sign_in.clone()),
        });
        let mut states = self.state.subscribe();
        let signed_in = states.wait_for(|state| !matches!(state, ServerState::AuthRequired(_)));
        tokio::select! {
            signed_in = tokio::time::timeout(self.config.limits.sign_in_time, signed_in) => match signed_in {
                Ok(_) => {
                    self.events.send(Event::SignedIn { call: call.id });
                    Ok(())
                }
                Err(_) => Err(self.sign_in_needed(sign_in.clone())),
            },
            () = request.cancel.cancelled() => Err(Error::Cancelled),
        }
    }

    /// Handles the refusal of a request. A call waits for a better token (MCP-09); whether the server itself needs one is
    /// another matter (MCP-10). Users are not asked if there is another token to try.
    async fn sign_in_first(&self, challenged: &Challenged, request: &Request, may_renew: bool) -> Result<(), Error> {
        let sign_in = tokio::select! {
            sign_in = self.sign_in_for(challenged) => sign_in,
            () = request.cancel.cancelled() => return Err(Error::Cancelled),
        };
        let Some((sign_in, remote)) = sign_in.zip(self.remote.as_ref()) else {
            return Err(self.not_running("it wants a token, which processes are not given".to_owned()));
        };
        if may_renew {
            let is_renewed = tokio::select! {
                is_renewed = self.renewed(&sign_in) => is_renewed,
                () = request.cancel.cancelled() => return Err(Error::Cancelled),
            };
            if is_renewed {
                return Ok(());
            }
        }
        // A request that needs more than the token grants reports it itself, a call in its turn and an App with its answer: the
        // server stays ready for all other sessions (MCP-10). Without a token, users can sign in only if the server shows what for,
        // and an App's request cannot show it (MCP-07).
        let is_of_server = sign_in.reason != SignInReason::InsufficientScope
            || (request.is_of_app && remote.credentials.token().is_none());
        if is_of_server
            && (remote.credentials.generation() == challenged.generation || remote.credentials.token().is_none())
            && self.connection().is_some()
        {
            self.set_state(ServerState::AuthRequired(Box::new(sign_in.clone())));
            // A sign-in between the check and the change of state saw a server that was ready.
            if remote.credentials.generation() != challenged.generation {
                self.was_signed_in();
            }
        }
        let Some(call) = request.waiting_call() else {
            return Err(self.sign_in_needed(sign_in));
        };
        self.events.send(Event::SignInNeeded {
            call: call.id,
            sign_in: Box::new(sign_in.clone()),
        });
        let newer = remote.credentials.newer_than(challenged.generation);
        let mut states = self.state.subscribe();
        let is_over = |state: &ServerState| matches!(state, ServerState::Stopped | ServerState::Error { .. });
        tokio::select! {
            // The caller then gets the reason why it does not run.
            _ = states.wait_for(is_over) => Ok(()),
            newer = tokio::time::timeout(self.config.limits.sign_in_time, newer) => match newer {
                Ok(()) => {
                    self.events.send(Event::SignedIn { call: call.id });
                    Ok(())
                }
                Err(_) => Err(self.sign_in_needed(sign_in)),
            },
            () = request.cancel.cancelled() => Err(Error::Cancelled),
        }
    }

    /// Answers the questions that a server since 2026-07-28 asks before it answers.
    async fn answer_all(&self, asked: InputRequired, request: &mut Request) -> Result<(), Error> {
        let owner = request.call.as_ref().map(|call| (call.id, call.asks.clone()));
        let mut answers = Map::new();
        for (key, question) in asked.questions {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let params = question.get("params").unwrap_or(&Value::Null);
            let answer = tokio::select! {
                answer = self.asker.answer(method, params, owner.clone()) => answer,
                () = request.cancel.cancelled() => return Err(Error::Cancelled),
            };
            let answer = answer.map_err(|no_answer| Error::NotOffered {
                server: self.config.name.clone(),
                what: match no_answer {
                    NoAnswer::Declined => format!("an answer without `{method}`, which was declined"),
                    NoAnswer::Refused { message, .. } => format!("an answer without `{method}` ({message})"),
                    NoAnswer::UnknownMethod | NoAnswer::TooMany => {
                        format!("an answer without `{method}`, which is not answered here")
                    }
                },
            })?;
            answers.insert(key, answer);
        }
        request
            .params
            .insert("inputResponses".to_owned(), Value::Object(answers));
        match asked.state {
            Some(state) => request.params.insert("requestState".to_owned(), state),
            None => request.params.shift_remove("requestState"),
        };
        Ok(())
    }

    fn not_running(&self, why: String) -> Error {
        Error::NotRunning {
            server: self.config.name.clone(),
            why,
        }
    }

    fn sign_in_needed(&self, sign_in: SignIn) -> Error {
        Error::SignInNeeded {
            server: self.config.name.clone(),
            sign_in: Box::new(sign_in),
        }
    }

    /// Removes the token from an error, whatever the server wrote.
    fn hide(&self, error: Error) -> Error {
        match error {
            Error::Refused {
                server,
                code,
                message,
                data,
            } => Error::Refused {
                server,
                code,
                message: self.scrub(&message),
                data: data.map(|data| self.scrub_value(data)),
            },
            Error::Unreachable { server, why } => Error::Unreachable {
                server,
                why: self.scrub(&why),
            },
            Error::NotUnderstood { server, why } => Error::NotUnderstood {
                server,
                why: self.scrub(&why),
            },
            other => other,
        }
    }
}

impl Request {
    /// Returns the call that waits for a sign-in, if it is one that does.
    fn waiting_call(&self) -> Option<&CallContext> {
        self.call.as_ref().filter(|_| !self.is_of_app)
    }
}

/// A result that asks for input first.
struct InputRequired {
    questions: Map<String, Value>,
    state: Option<Value>,
}

impl InputRequired {
    fn read(text: &str) -> Option<Self> {
        // Almost no result asks for input, and some are large.
        if !text.contains("\"input_required\"") {
            return None;
        }
        let mut result: Value = serde_json::from_str(text).ok()?;
        if result.get("resultType")?.as_str()? != "input_required" {
            return None;
        }
        let questions = match result.get_mut("inputRequests").map(Value::take) {
            Some(Value::Object(questions)) => questions,
            _ => Map::new(),
        };
        Some(Self {
            questions,
            state: result.get_mut("requestState").map(Value::take),
        })
    }
}
