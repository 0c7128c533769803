//! Calls of tools, with what servers want while they run.

use std::pin::Pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use innkeeper_host::mcp::{CallOutcome, During, McpError, Question as HostQuestion, QuestionAnswer};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::running::Running;
use super::words;
use crate::ask::{Answer, Ask, AskSink, Question};
use crate::call::Call;
use crate::server::{Progress, ProgressSink};
use crate::state::Event;

/// How many reports of progress wait to be shown; what comes faster is left out.
const KEPT_REPORTS: usize = 16;

/// Something that people do while the call runs. `false` says that it is to be given up.
type Doing<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

pub(super) async fn call(
    running: &Running,
    tool: &str,
    arguments: Map<String, Value>,
    during: &dyn During,
) -> Result<CallOutcome, McpError> {
    let lease = running.lease().ok_or_else(|| McpError::no_server(running.name()))?;
    let (reports, mut reported) = mpsc::channel(KEPT_REPORTS);
    // The engine bounds how many questions are open.
    let (asks, mut asked) = mpsc::unbounded_channel();
    let mut call = Call::new(tool, arguments);
    call.progress = Some(ProgressSink::new(move |progress| {
        let _ = reports.try_send(progress);
    }));
    // A question that nobody takes is dropped, and so declined.
    call.asks = Some(AskSink::new(move |ask| {
        let _ = asks.send(ask);
    }));
    let id = call.id;
    let mut events = lease.events();
    let calling = lease.call(call);
    tokio::pin!(calling);
    let mut doing: FuturesUnordered<Doing<'_>> = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            outcome = &mut calling => return outcome.map(words::outcome).map_err(words::error),
            () = running.ended.cancelled() => return Err(running.was_stopped()),
            Some(goes_on) = doing.next() => if !goes_on {
                return Err(McpError::new(format!(
                    "the MCP server {:?} wants somebody to sign in, and nobody did",
                    running.name()
                )));
            },
            Some(ask) = asked.recv() => doing.push(Box::pin(answer(ask, during))),
            Some(progress) = reported.recv() => during.progress(in_words(&progress)).await,
            Some(event) = events.next() => match event {
                Event::SignInNeeded { call, sign_in } if call == id => {
                    let requirement = words::requirement(&sign_in);
                    doing.push(Box::pin(async move { during.sign_in(requirement).await }));
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
        Some(message) => format!("{message} ({how_far})"),
        None => how_far,
    }
}
