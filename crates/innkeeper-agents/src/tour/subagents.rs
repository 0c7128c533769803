//! Nested subagents, and work that outlives the turn.

use std::pin::Pin;
use std::time::Duration;

use super::{pause, prompt, say, tools};
use innkeeper_host::agent::{Confirmation, Invocation, SubagentEnd, SubagentSpec, ToolCall, ToolResult, Verdict};
use innkeeper_host::{AgentError, EventSink};

/// `/subagent`: nested subagents; the innermost asks for confirmation (CHT-12, CHT-25).
pub(super) async fn subagent(events: &EventSink, depth: u64) -> Result<(), AgentError> {
    match send(events.clone(), 1, depth).await {
        Ok(()) => say(events, &format!("{depth} subagents later, everything is done.")).await,
        Err(AgentError::Failed { message, .. }) => {
            say(events, &format!("No subagent could be started: {message}")).await
        }
        Err(AgentError::Cancelled) => Err(AgentError::Cancelled),
    }
}

/// Starts one subagent, which starts the next.
fn send(events: EventSink, level: u64, depth: u64) -> Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send>> {
    Box::pin(async move {
        let mut call = start(&events, &format!("Starts subagent {level} of {depth}")).await?;
        let spec = SubagentSpec::new(
            format!("Subagent {level}"),
            format!("You are subagent {level} of {depth}."),
        )
        .kind("subagent")
        .description("Does a part of the work.");
        let subagent = call.subagent(spec).await?;
        let outcome = subagent
            .drive(|events| async move {
                events.render_prompt(prompt::for_subagent(level, depth)).await?;
                say(&events, &format!("Subagent {level} of {depth} at work. ")).await?;
                if level < depth {
                    send(events.clone(), level + 1, depth).await?;
                } else {
                    ask(&events).await?;
                }
                say(&events, "Done.").await
            })
            .await;
        let result = match &outcome {
            Ok(SubagentEnd::Done) => ToolResult::text(format!("Subagent {level} is done"), "done"),
            Ok(SubagentEnd::Stopped) => {
                ToolResult::failed(format!("Subagent {level} was stopped"), "the user stopped the subagent")
            }
            Err(error) => ToolResult::failed(format!("Subagent {level} failed"), error.to_string()),
        };
        call.complete(result).await?;
        outcome.map(|_| ())
    })
}

async fn start(events: &EventSink, message: &str) -> Result<ToolCall, AgentError> {
    let draft = tools::call(events, "start_subagent").start().await?;
    draft.run(Invocation::new(message).input("{}")).await
}

/// The innermost subagent asks, so that users can see a confirmation from a nested chat.
async fn ask(events: &EventSink) -> Result<(), AgentError> {
    let draft = tools::call(events, "ring_bell").start().await?;
    let confirmation = Confirmation {
        title: Some("May the subagent ring the bell?".to_owned()),
        ..Confirmation::default()
    };
    match draft
        .confirm(Invocation::new("Rings the bell").input("{}"), confirmation)
        .await?
    {
        Verdict::Approved(call, _) => {
            call.complete(ToolResult::text("Rang the bell", "ding")).await?;
            say(events, "The bell was rung. ").await
        }
        Verdict::Denied(_) => say(events, "The bell was left alone. ").await,
    }
}

/// `/background`: leaves work running when the turn ends (CHT-24).
pub(super) async fn background(events: &EventSink, seconds: u64) -> Result<(), AgentError> {
    let time = Duration::from_secs(seconds);
    let watering = events
        .background("Watering the plants", format!("water --for {seconds}s"))
        .await?;
    watering.during(tokio::time::sleep(time));
    let mut call = start(events, "Starts a subagent that stays").await?;
    let spec = SubagentSpec::new("Night watch", format!("Keep watch for {seconds} s."))
        .kind("watch")
        .detached();
    match call.subagent(spec).await {
        Ok(watch) => {
            watch.drive_apart(move |events| async move {
                say(&events, "All is quiet. ").await?;
                pause(&events, time).await?;
                say(&events, "Good morning.").await
            });
            call.complete(ToolResult::text("The night watch is out", "watching"))
                .await?;
        }
        Err(AgentError::Failed { message, .. }) => {
            call.complete(ToolResult::failed("No night watch tonight", message))
                .await?;
        }
        Err(AgentError::Cancelled) => return Err(AgentError::Cancelled),
    }
    let words = format!("I am done, but the plants are watered for {seconds} s more. You can go on talking to me.");
    say(events, &words).await
}
