//! Questions to the user, steering and attachments.

use std::time::Duration;

use super::{pause, say};
use innkeeper_host::agent::{Answer, AnswerValue, Attachment, Choice, Form, Response};
use innkeeper_host::{AgentError, EventSink, TurnInput};

/// `/ask`: one question of every kind.
pub(super) async fn ask(events: &EventSink) -> Result<(), AgentError> {
    let rooms = [Choice::new("garden", "Garden"), Choice::new("street", "Street")];
    let meals = [
        Choice::new("breakfast", "Breakfast"),
        Choice::new("lunch", "Lunch"),
        Choice::new("supper", "Supper"),
    ];
    let form = Form::new("A few questions, so that you have a good stay.")
        .text("name", "What is your name?")
        .required()
        .number("height", "How long must the bed be, in metres?")
        .integer("nights", "How many nights do you stay?")
        .boolean("pet", "Do you bring a pet?")
        .one("room", "Which room do you like?", rooms)
        .many("meals", "Which meals do you want?", meals);
    let answer = events.ask(form).await?;
    say(events, &repeat(&answer)).await
}

fn repeat(answer: &Answer) -> String {
    match answer.response {
        Response::Decline => return "You would rather not say. That is fine.".to_owned(),
        Response::Cancel => return "Another time, then.".to_owned(),
        Response::Accept => {}
    }
    let mut text = String::from("Thank you. I wrote down:\n\n");
    for (id, value) in &answer.values {
        let value = match value {
            AnswerValue::Text(text) => text.clone(),
            AnswerValue::Number(number) => number.to_string(),
            AnswerValue::Boolean(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            AnswerValue::Selected { ids, freeform } => {
                let all: Vec<&str> = ids.iter().chain(freeform).map(String::as_str).collect();
                all.join(", ")
            }
        };
        text.push_str(&format!("- {id}: {value}\n"));
    }
    if answer.values.is_empty() {
        text.push_str("nothing at all\n");
    }
    text
}

/// `/ask url`: sends the user to a page and waits for the return (INP-08).
pub(super) async fn ask_url(events: &EventSink) -> Result<(), AgentError> {
    let url = "https://example.com/guest-book";
    let said = match events.ask_url("Please sign the guest book.", url).await? {
        Response::Accept => "Thank you for signing.",
        Response::Decline => "You did not want to sign. That is fine.",
        Response::Cancel => "Another time, then.",
    };
    say(events, said).await
}

/// `/steer`: waits for steering messages and repeats them until the user sends “enough”.
pub(super) async fn steer(events: &EventSink, seconds: u64) -> Result<(), AgentError> {
    say(
        events,
        &format!("I listen for {seconds} s. Say “enough” to stop me.\n\n"),
    )
    .await?;
    for _ in 0..seconds * 10 {
        if let Some(text) = events.steering().await? {
            say(events, &format!("You said: {text}\n\n")).await?;
            if text.trim().eq_ignore_ascii_case("enough") {
                break;
            }
        }
        pause(events, Duration::from_millis(100)).await?;
    }
    say(events, "I have stopped listening.").await
}

/// `/attachments`: lists the attachments of the message.
pub(super) async fn attachments(turn: &TurnInput, events: &EventSink) -> Result<(), AgentError> {
    if turn.attachments.is_empty() {
        return say(events, "Nothing came with your message.").await;
    }
    let mut text = String::from("With your message came:\n\n");
    for attachment in &turn.attachments {
        text.push_str(&format!("- {}\n", describe(attachment)));
    }
    say(events, &text).await
}

pub(super) fn describe(attachment: &Attachment) -> String {
    match attachment {
        Attachment::Text { label, text } => format!("“{label}”, text of {} characters", text.chars().count()),
        Attachment::Reference { label, .. } => format!("“{label}”, something this host suggested"),
        Attachment::Embedded {
            label,
            data,
            content_type,
            ..
        } => format!("“{label}”, {content_type} of about {} bytes", data.len() / 4 * 3),
        Attachment::Resource {
            label, uri, selection, ..
        } => match selection {
            Some(selection) => format!("“{label}”, which is at `{uri}`; {}", selection.in_words()),
            None => format!("“{label}”, which is at `{uri}`"),
        },
        Attachment::Annotations { label, remarks, .. } => {
            let mut told = format!("“{label}”, {} remarks on files", remarks.len());
            for remark in remarks {
                told.push_str(&format!(
                    "\n    - {}",
                    remark.in_words(&remark.file).trim_end().replace('\n', " ")
                ));
            }
            told
        }
        Attachment::Chat { label, transcript, .. } => {
            format!("“{label}”, a chat of {} turns", transcript.len())
        }
    }
}
