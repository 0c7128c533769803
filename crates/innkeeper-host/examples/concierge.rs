//! An agent that asks: before it runs a tool, for what it needs to know, and for a tool that only
//! the client has.
//!
//! Run it with `cargo run -p innkeeper-host --example concierge`, connect a client to
//! `ws://127.0.0.1:4749`, and ask it for a table.

use std::time::Duration;

use innkeeper_host::agent::{
    AnswerValue, Choice, Confirmation, Form, Invocation, Response, ToolInfo, ToolResult, Verdict,
};
use innkeeper_host::{
    Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, TurnInput, async_trait, http,
};
use serde_json::json;

struct Concierge;

#[async_trait]
impl Agent for Concierge {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("concierge", "Concierge", "Books a table, and asks before it does.").with_tool(ToolInfo {
            name: "book_table".to_owned(),
            title: Some("Book a table".to_owned()),
            description: Some("Books a table at a restaurant.".to_owned()),
            input_schema: None,
        })
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(Self))
    }
}

#[async_trait]
impl AgentChat for Concierge {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        // A question. Every client shows it; the first answer counts for all.
        let form = Form::new("I shall be glad to book you a table.")
            .integer("guests", "For how many?")
            .required()
            .one(
                "place",
                "Where?",
                [
                    Choice::new("terrace", "On the terrace"),
                    Choice::new("hall", "In the hall"),
                ],
            );
        let answer = events.ask(form).await?;
        if answer.response != Response::Accept {
            return events.text("Very well. Let me know if you change your mind.").await;
        }
        let guests = match answer.values.get("guests") {
            Some(AnswerValue::Number(guests)) => *guests,
            _ => 2.0,
        };
        let place = match answer.values.get("place") {
            Some(AnswerValue::Selected { ids, .. }) => ids.first().map_or("hall", String::as_str),
            _ => "hall",
        };

        // A tool that asks first. Only an approved call can be completed: a denied one is gone.
        let draft = events.tool("book_table").display_name("Book a table").start().await?;
        let input = json!({ "guests": guests, "place": place }).to_string();
        let confirmation = Confirmation {
            title: Some(format!("Book a table for {guests}?")),
            editable: true,
            ..Confirmation::default()
        };
        let invocation = Invocation::new("Books a table").input(input);
        match draft.confirm(invocation, confirmation).await? {
            Verdict::Approved(call, decision) => {
                let changed = decision.edited_input.map_or("", |_| ", as you changed it");
                let result = ToolResult::text("Booked a table", format!("table 7, in the {place}"));
                call.complete(result).await?;
                events.text(format!("Table 7 is yours{changed}. ")).await?;
            }
            Verdict::Denied(_) => return events.text("Then I have not booked anything.").await,
        }

        // A tool that the client executes, if one of the session's clients offers it.
        if let Some(calendar) = turn
            .client_tools
            .iter()
            .find(|tool| tool.client_name == "add_to_calendar")
        {
            let entry = json!({ "title": "Dinner", "place": place }).to_string();
            let result = events.call_client_tool(calendar, entry).await?;
            let outcome = if result.success { "is" } else { "could not be put" };
            events.text(format!("It {outcome} in your calendar.")).await?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder()
        .agent(Concierge)
        .server_info("concierge", "1.0.0")
        .start()
        .await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:4749").await?;
    let access = Access::new(listener.local_addr()?);
    let server = http::serve_tcp(host.handle(), listener, access);
    eprintln!("The concierge listens on ws://127.0.0.1:4749. Press Enter to stop it.");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    server.stop().await;
    host.shutdown(Duration::from_secs(10)).await;
    Ok(())
}
