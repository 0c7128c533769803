//! Tool calls, and the questions of servers while they run.

use std::pin::Pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use innkeeper_host::mcp::{
    Arguments, CallHandler, CallOutcome, McpError, Question as HostQuestion, QuestionAnswer, defused,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::convert;
use super::session_server::SessionServer;
use super::tokens::Tokens;
use crate::engine::ask::{Ask, AskOutcome, AskSink, Question};
use crate::engine::call::Call;
use crate::engine::server::{Progress, ProgressSink};
use crate::engine::state::Event;

/// The number of progress reports that wait to be shown. Further ones are dropped.
const KEPT_REPORTS: usize = 16;

/// The JSON-RPC code for internal errors.
const INTERNAL_ERROR: i32 = -32603;

/// A task of users while the call runs. False means that the call is given up.
type Doing<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

pub(super) async fn call(
    server: &SessionServer,
    tool: &str,
    arguments: Arguments,
    during: &dyn CallHandler,
    tokens: &Tokens,
) -> Result<CallOutcome, McpError> {
    let lease = server.lease().ok_or_else(|| McpError::no_server(server.name()))?;
    let (reports, mut reported) = mpsc::channel(KEPT_REPORTS);
    // The engine bounds the number of open questions.
    let (asks, mut asked) = mpsc::unbounded_channel();
    if lease
        .tools()
        .iter()
        .any(|listed| listed.name == tool && listed.needs_task)
    {
        return Err(McpError::new(format!(
            "the tool {tool:?} of the MCP server {:?} can be called only as a task of MCP, which this host does not \
             support: use another tool",
            server.name()
        )));
    }
    let (arguments, exact) = arguments.into_parts();
    let mut call = Call::new(tool, arguments);
    call.exact_arguments = exact;
    call.progress = Some(ProgressSink::new(move |progress| {
        let _ = reports.try_send(progress);
    }));
    // A question that is dropped counts as declined.
    call.asks = Some(AskSink::new(move |ask| {
        let _ = asks.send(ask);
    }));
    call.session = Some(server.session());
    let id = call.id;
    let mut events = lease.events();
    let calling = lease.call(call);
    tokio::pin!(calling);
    let mut doing: FuturesUnordered<Doing<'_>> = FuturesUnordered::new();
    // Cancelled when the server has its token, wherever it came from.
    let mut signed_in = CancellationToken::new();
    // Dropped when users are not asked any more: a later token is not for this call.
    let mut asking = None;
    loop {
        tokio::select! {
            biased;
            outcome = &mut calling => return outcome.map(convert::outcome).map_err(convert::error),
            () = lease.gone.cancelled() => return Err(server.was_stopped()),
            Some(goes_on) = doing.next() => if !goes_on {
                return Err(McpError::new(format!(
                    "the MCP server {:?} needs a sign-in, and no user signed in: sign in, then try again",
                    server.name()
                )));
            },
            Some(ask) = asked.recv() => doing.push(Box::pin(answer(ask, during))),
            Some(progress) = reported.recv() => during.progress(in_words(&progress)).await,
            Some(event) = events.next() => match event {
                Event::SignInNeeded { call, sign_in } if call == id => {
                    asking = Some(server.asks_for(&sign_in));
                    let requirement = convert::requirement(&sign_in, tokens);
                    signed_in = CancellationToken::new();
                    let has_signed_in = signed_in.clone();
                    doing.push(Box::pin(async move {
                        tokio::select! {
                            goes_on = during.sign_in(requirement) => goes_on,
                            () = has_signed_in.cancelled() => true,
                        }
                    }));
                }
                Event::SignedIn { call } if call == id => {
                    signed_in.cancel();
                    drop(asking.take());
                }
                _ => {}
            },
        }
    }
}

async fn answer(mut ask: Ask, during: &dyn CallHandler) -> bool {
    let question = match &ask.question {
        Question::Form { message, schema } => HostQuestion::Form {
            message: message.clone(),
            schema: schema.clone(),
        },
        Question::Url { message, url, .. } => HostQuestion::Url {
            message: message.clone(),
            url: url.clone(),
        },
        Question::Sampling(Value::Object(params)) => HostQuestion::Sampling(params.clone()),
        Question::Sampling(_) => return true,
    };
    let has_fields = matches!(question, HostQuestion::Form { .. });
    let answered = tokio::select! {
        answered = during.ask(question) => answered,
        // The server does not wait any more.
        () = ask.gone() => return true,
    };
    ask.answer(match answered {
        QuestionAnswer::Accepted(fields) => AskOutcome::Accepted(has_fields.then_some(Value::Object(fields))),
        QuestionAnswer::Sampled(result) => AskOutcome::Sampled(Value::Object(result)),
        QuestionAnswer::Declined => AskOutcome::Declined,
        QuestionAnswer::Refused { code, message } => AskOutcome::Refused {
            code: i32::try_from(code).unwrap_or(INTERNAL_ERROR),
            message,
        },
        QuestionAnswer::Cancelled => AskOutcome::Cancelled,
    });
    true
}

/// Describes the progress of a call.
fn in_words(progress: &Progress) -> String {
    let how_far = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{} ({how_far})", defused(message)),
        None => how_far,
    }
}
