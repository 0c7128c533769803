//! Tool calls of every kind, on command.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{pause, say};
use innkeeper_host::agent::{
    AuthRequirement, ConfirmOption, Confirmation, Decision, Invocation, Offer, Risk, SignIn, ToolCall, ToolCallBuilder,
    ToolContent, ToolKind, ToolResult, Verdict,
};
use innkeeper_host::{AgentError, EventSink, TurnInput};

/// The agent's own tools: name, title, description.
pub(super) const TOOLS: &[(&str, &str, &str)] = &[
    ("look_around", "Look around", "Looks at a room of the inn."),
    ("ring_bell", "Ring the bell", "Rings the bell at the desk."),
    ("read_guest_book", "Read the guest book", "Reads what guests wrote."),
    ("run_errand", "Run an errand", "Fetches something for a guest."),
    ("plan", "Plan", "Keeps a list of what is to be done."),
    ("start_subagent", "Start a subagent", "Has a subagent do something."),
    ("write_line", "Write a line", "Adds a line to a file of the session."),
    ("run_in_terminal", "Run in a terminal", "Runs a command in a terminal."),
];

fn title(name: &str) -> &'static str {
    let known = TOOLS.iter().find(|(known, ..)| *known == name);
    known.map_or("Tool", |(_, title, _)| *title)
}

/// Starts a call of one of them, with the kind that clients present.
pub(super) fn call(events: &EventSink, name: &str) -> ToolCallBuilder {
    let call = events.tool(name).display_name(title(name));
    match name {
        "look_around" => call.kind(ToolKind::Search),
        "read_guest_book" => call.kind(ToolKind::Read),
        "run_in_terminal" => call.kind(ToolKind::Terminal),
        _ => call,
    }
}

fn texts(lines: &[&str]) -> Vec<ToolContent> {
    vec![ToolContent::Text(lines.join("\n"))]
}

/// Logs the execution of a tool. Tests count these lines to prove that nothing ran twice, whatever happened to the
/// host (P4).
fn executes(turn: &TurnInput, tool: &str, call: &ToolCall) {
    let (session, turn) = (&*turn.session, turn.turn_id.as_str());
    tracing::debug!(session, turn, tool, call = call.id(), "a tool of the tour executes");
}

/// `/tool`: streams its input, runs, shows partial results, and completes.
pub(super) async fn tool(turn: &TurnInput, events: &EventSink) -> Result<(), AgentError> {
    let mut draft = call(events, "look_around")
        .intention("See what there is to see")
        .start()
        .await?;
    for piece in ["{\"room\":", " \"lobby\",", " \"closely\": true}"] {
        draft.input(piece).await?;
        if piece.contains("lobby") {
            draft.announce("Looking around the lobby").await?;
        }
        pause(events, Duration::from_millis(20)).await?;
    }
    let mut call = draft.run("Looks around the lobby").await?;
    executes(turn, "look_around", &call);
    let sights = ["a desk with a bell", "a guest book", "two armchairs by the fire"];
    for seen in 1..=sights.len() {
        call.content(texts(&sights[..seen])).await?;
        pause(events, Duration::from_millis(20)).await?;
    }
    call.complete(ToolResult::text("Looked around the lobby", sights.join("\n")))
        .await?;
    say(
        events,
        "I see a desk with a bell, a guest book and two armchairs by the fire.",
    )
    .await
}

/// `/confirm`: asks first. The input can be edited, and a risk assessment arrives while the user decides.
pub(super) async fn confirm(turn: &TurnInput, events: &EventSink) -> Result<(), AgentError> {
    let input = json!({ "times": 3 }).to_string();
    let mut draft = call(events, "ring_bell").start().await?;
    draft.input(input).await?;
    let judge = draft.risk_reporter();
    let judging = async {
        pause(events, Duration::from_millis(300)).await?;
        let reason = "It is loud, but nothing breaks.".to_owned();
        judge.report(Risk::Assessed { reason, safety: 0.8 }).await
    };
    let confirmation = Confirmation {
        title: Some("Ring the bell?".to_owned()),
        editable: true,
        risk: Some(Risk::Assessing),
        ..Confirmation::default()
    };
    let asking = draft.confirm("Rings the bell", confirmation);
    let (verdict, judged) = tokio::join!(asking, judging);
    judged?;
    match verdict? {
        Verdict::Approved(call, decision) => {
            executes(turn, "ring_bell", &call);
            let edited = decision.edited_input.as_deref();
            let times = edited.map_or(Some(3), times_of);
            match times {
                Some(times) => ring(events, call, times, &decided_by(&decision)).await,
                None => {
                    let error = "the edited input has no \"times\" from 0 to 100";
                    call.complete(ToolResult::failed("Did not ring the bell", error))
                        .await?;
                    say(events, "I could not make sense of the input you gave me.").await
                }
            }
        }
        Verdict::Denied(decision) => {
            let remark = decision.remark.as_deref().unwrap_or("no reason given");
            say(
                events,
                &format!("No bell, then: {} said no ({remark}).", decided_by(&decision)),
            )
            .await
        }
    }
}

fn times_of(input: &str) -> Option<usize> {
    let input: Value = serde_json::from_str(input).ok()?;
    let times = usize::try_from(input.get("times")?.as_u64()?).ok()?;
    Some(times).filter(|times| *times <= 100)
}

async fn ring(events: &EventSink, call: ToolCall, times: usize, who: &str) -> Result<(), AgentError> {
    let sound = vec!["ding"; times].join(" ");
    let result = ToolResult::text(format!("Rang the bell {times} times"), sound);
    call.complete(result).await?;
    say(
        events,
        &format!("I rang the bell {times} times, because {who} said yes."),
    )
    .await
}

fn decided_by(decision: &Decision) -> String {
    match &decision.by {
        Some(client) => format!("the client `{}`", client.as_str()),
        None => "your settings".to_owned(),
    }
}

/// `/confirm again`: asks once more during the run, for something that the first confirmation did not cover
/// (TOOL-03).
pub(super) async fn reconfirm(turn: &TurnInput, events: &EventSink) -> Result<(), AgentError> {
    let draft = call(events, "ring_bell").start().await?;
    let ask = |title: &str| Confirmation {
        title: Some(title.to_owned()),
        ..Confirmation::default()
    };
    let once = Invocation::new("Rings the bell once").input(json!({ "times": 1 }).to_string());
    let Verdict::Approved(mut running, _) = draft.confirm(once, ask("Ring the bell?")).await? else {
        return say(events, "No bell, then.").await;
    };
    executes(turn, "ring_bell", &running);
    running.content(texts(&["ding"])).await?;
    pause(events, Duration::from_millis(50)).await?;
    let again = Invocation::new("Rings the bell once more").input(json!({ "times": 2 }).to_string());
    match running.confirm(again, ask("No answer. Ring again?")).await? {
        Verdict::Approved(running, decision) => ring(events, running, 2, &decided_by(&decision)).await,
        Verdict::Denied(_) => say(events, "I rang once, and leave it at that.").await,
    }
}

/// `/options`: asks with the agent's own choices, in two groups (TOOL-09).
pub(super) async fn options(events: &EventSink) -> Result<(), AgentError> {
    let option = |id: &str, label: &str, approves, group| ConfirmOption {
        id: id.to_owned(),
        label: label.to_owned(),
        approves,
        group: Some(group),
    };
    let confirmation = Confirmation {
        title: Some("How shall I ring?".to_owned()),
        offer: Offer::Own(vec![
            option("softly", "Softly", true, 0),
            option("loudly", "Loudly", true, 0),
            option("later", "Not now", false, 1),
            option("never", "Never again", false, 1),
        ]),
        ..Confirmation::default()
    };
    let draft = call(events, "ring_bell").start().await?;
    let asking = draft.confirm(Invocation::new("Rings the bell").input("{}"), confirmation);
    let (decision, call) = match asking.await? {
        Verdict::Approved(call, decision) => (decision, Some(call)),
        Verdict::Denied(decision) => (decision, None),
    };
    let choice = decision.choice.as_deref().unwrap_or("nothing in particular");
    if let Some(call) = call {
        call.complete(ToolResult::text("Rang the bell", format!("ding ({choice})")))
            .await?;
    }
    say(events, &format!("You chose *{choice}*.")).await
}

/// `/result`: the user confirms the result before the model gets it.
pub(super) async fn result(events: &EventSink) -> Result<(), AgentError> {
    let draft = call(events, "read_guest_book").start().await?;
    let call = draft.run(Invocation::new("Reads the guest book").input("{}")).await?;
    let result = ToolResult::text("Read the guest book", "“A warm bed and a quiet night.” — a guest");
    if call.complete_reviewed(result).await? {
        say(events, "Thank you for letting me read it: the guest had a quiet night.").await
    } else {
        say(
            events,
            "You kept the guest book to yourself, and I do not know what it says.",
        )
        .await
    }
}

/// `/parallel`: several confirmations at once, each decided on its own.
pub(super) async fn parallel(turn: &TurnInput, events: &EventSink, count: u64) -> Result<(), AgentError> {
    let outcomes = join_all((1..=count).map(|number| errand(turn, events, number))).await;
    let mut done = 0;
    for outcome in outcomes {
        done += u64::from(outcome?);
    }
    say(events, &format!("{done} of {count} errands were allowed and are done.")).await
}

async fn errand(turn: &TurnInput, events: &EventSink, number: u64) -> Result<bool, AgentError> {
    let draft = call(events, "run_errand").start().await?;
    let input = json!({ "errand": number }).to_string();
    let confirmation = Confirmation {
        title: Some(format!("Run errand {number}?")),
        ..Confirmation::default()
    };
    let invocation = Invocation::new(format!("Runs errand {number}")).input(input);
    match draft.confirm(invocation, confirmation).await? {
        Verdict::Approved(call, _) => {
            executes(turn, "run_errand", &call);
            let result = ToolResult::text(format!("Ran errand {number}"), format!("errand {number} is done"));
            call.complete(result).await?;
            Ok(true)
        }
        Verdict::Denied(_) => Ok(false),
    }
}

/// `/plan`: a task list whose items are completed one by one.
pub(super) async fn plan(events: &EventSink) -> Result<(), AgentError> {
    const STEPS: [&str; 4] = ["Sweep the hall", "Light the fire", "Lay the table", "Open the door"];
    let draft = call(events, "plan").start().await?;
    let input = json!({ "steps": STEPS }).to_string();
    let mut call = draft.run(Invocation::new("Makes a plan").input(input)).await?;
    let list = |done: usize| {
        let line = |(index, step): (usize, &&str)| {
            let mark = if index < done { 'x' } else { ' ' };
            format!("- [{mark}] {step}\n")
        };
        STEPS.iter().enumerate().map(line).collect::<String>()
    };
    for (done, step) in STEPS.iter().enumerate() {
        call.content(vec![ToolContent::Text(list(done))]).await?;
        events.activity(*step).await?;
        pause(events, Duration::from_millis(100)).await?;
    }
    let summary = format!("Finished the plan of {} steps", STEPS.len());
    call.complete(ToolResult::text(summary, list(STEPS.len()))).await?;
    say(events, "Everything on the plan is done.").await
}

/// `/client-tool`: has a client run one of its own tools (TOOL-11).
pub(super) async fn client_tool(
    turn: &TurnInput,
    events: &EventSink,
    name: &str,
    input: String,
) -> Result<(), AgentError> {
    let Some(tool) = turn.client_tools.iter().find(|tool| tool.name == name) else {
        let offered: Vec<String> = turn
            .client_tools
            .iter()
            .map(|tool| format!("`{}`", tool.name))
            .collect();
        let offered = if offered.is_empty() {
            "no client of this session offers any".to_owned()
        } else {
            format!("there are {}", offered.join(", "))
        };
        return say(events, &format!("No client offers a tool called `{name}`; {offered}.")).await;
    };
    let result = events.call_client_tool(tool, input).await?;
    let outcome = if result.success {
        let text = result.content.iter().filter_map(|content| match content {
            ToolContent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        text.collect::<Vec<_>>().join("\n")
    } else {
        let error = result.error.unwrap_or(result.summary);
        format!("it failed: {error}")
    };
    say(events, &format!("Your client says: {outcome}")).await
}

/// `/auth`: a tool of an MCP server that needs the user to sign in (TOOL-15).
pub(super) async fn auth(events: &EventSink) -> Result<(), AgentError> {
    let draft = call(events, "read_guest_book")
        .display_name("Read the locked guest book")
        .mcp("tour-guest-book")
        .start()
        .await?;
    let call = draft
        .run(Invocation::new("Opens the locked guest book").input("{}"))
        .await?;
    let requirement = AuthRequirement {
        resource: "https://guest-book.example.com".to_owned(),
        resource_name: Some("The locked guest book".to_owned()),
        authorization_servers: vec!["https://sign-in.example.com".to_owned()],
        scopes: vec!["read".to_owned()],
        description: Some("The guest book is locked. Any token opens it.".to_owned()),
        ..AuthRequirement::default()
    };
    match call.require_auth(requirement).await? {
        SignIn::Granted(call, _) => {
            let result = ToolResult::text("Read the locked guest book", "“For no eyes but mine.” — a guest");
            call.complete(result).await?;
            say(events, "Your token opened it. I have forgotten the token already.").await
        }
        SignIn::Refused => say(events, "Then the guest book stays locked.").await,
    }
}
