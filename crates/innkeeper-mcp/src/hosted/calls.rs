//! Calls of tools, with what servers want while they run.

use std::pin::Pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use innkeeper_host::mcp::{
    Arguments, CallOutcome, During, McpError, Question as HostQuestion, QuestionAnswer, defused,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::running::Running;
use super::tokens::Tokens;
use super::words;
use crate::engine::ask::{Answer, Ask, AskSink, Question};
use crate::engine::call::Call;
use crate::engine::server::{Progress, ProgressSink};
use crate::engine::state::Event;

/// How many reports of progress wait to be shown; what comes faster is left out.
const KEPT_REPORTS: usize = 16;

/// The code of JSON-RPC for what went wrong.
const INTERNAL_ERROR: i32 = -32603;

/// Something that people do while the call runs. `false` says that it is to be given up.
type Doing<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

pub(super) async fn call(
    running: &Running,
    tool: &str,
    arguments: Arguments,
    during: &dyn During,
    tokens: &Tokens,
) -> Result<CallOutcome, McpError> {
    let lease = running.lease().ok_or_else(|| McpError::no_server(running.name()))?;
    let (reports, mut reported) = mpsc::channel(KEPT_REPORTS);
    // The engine bounds how many questions are open.
    let (asks, mut asked) = mpsc::unbounded_channel();
    if lease
        .tools()
        .iter()
        .any(|listed| listed.name == tool && listed.needs_task)
    {
        return Err(McpError::new(format!(
            "the tool {tool:?} of the MCP server {:?} can be called only as a task of MCP, which this host does not \
             support: use another tool",
            running.name()
        )));
    }
    let (arguments, exact) = arguments.into_parts();
    let mut call = Call::new(tool, arguments);
    call.exact_arguments = exact;
    call.progress = Some(ProgressSink::new(move |progress| {
        let _ = reports.try_send(progress);
    }));
    // A question that nobody takes is dropped, and so declined.
    call.asks = Some(AskSink::new(move |ask| {
        let _ = asks.send(ask);
    }));
    call.session = Some(running.session());
    let id = call.id;
    let mut events = lease.events();
    let calling = lease.call(call);
    tokio::pin!(calling);
    let mut doing: FuturesUnordered<Doing<'_>> = FuturesUnordered::new();
    // The server has its token, wherever it came from: then nobody is asked any longer.
    let mut signed_in = CancellationToken::new();
    // For as long as they are asked, and not longer: a token that comes later is not meant for it.
    let mut asking = None;
    loop {
        tokio::select! {
            biased;
            outcome = &mut calling => return outcome.map(words::outcome).map_err(words::error),
            () = lease.gone.cancelled() => return Err(running.was_stopped()),
            Some(goes_on) = doing.next() => if !goes_on {
                return Err(McpError::new(format!(
                    "the MCP server {:?} wants somebody to sign in first, and nobody did: sign in, then try again",
                    running.name()
                )));
            },
            Some(ask) = asked.recv() => doing.push(Box::pin(answer(ask, during))),
            Some(progress) = reported.recv() => during.progress(in_words(&progress)).await,
            Some(event) = events.next() => match event {
                Event::SignInNeeded { call, sign_in } if call == id => {
                    asking = Some(running.asks_for(&sign_in));
                    let requirement = words::requirement(&sign_in, tokens);
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

async fn answer(mut ask: Ask, during: &dyn During) -> bool {
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
        // It gave up.
        () = ask.gone() => return true,
    };
    ask.answer(match answered {
        QuestionAnswer::Accepted(fields) => Answer::Accepted(has_fields.then_some(Value::Object(fields))),
        QuestionAnswer::Sampled(result) => Answer::Sampled(Value::Object(result)),
        QuestionAnswer::Declined => Answer::Declined,
        QuestionAnswer::Refused { code, message } => Answer::Refused {
            code: i32::try_from(code).unwrap_or(INTERNAL_ERROR),
            message,
        },
        QuestionAnswer::Cancelled => Answer::Cancelled,
    });
    true
}

/// How far a call is, for people.
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
