//! The tour agent: needs no key and no network, always gives the same answer, and performs on
//! command, so that anyone who writes a client can see every part of it at work.

use std::time::Duration;

use async_trait::async_trait;

use crate::agent::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, TurnInput};

mod command;
mod talk;

use command::Command;

/// The built-in guide.
#[derive(Debug, Clone, Copy, Default)]
pub struct TourAgent {
    stamp: bool,
}

impl TourAgent {
    /// The guide.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts every streamed delta with the time it was produced, as 16 hexadecimal digits of
    /// nanoseconds since 1970. Benchmarks measure latency by it.
    #[must_use]
    pub fn stamped(mut self) -> Self {
        self.stamp = true;
        self
    }
}

#[async_trait]
impl Agent for TourAgent {
    fn info(&self) -> AgentInfo {
        AgentInfo::new(
            "tour",
            "Tour guide",
            "Shows you around this host. Needs no key; type /help to see what it can do.",
        )
        .with_model("tour", "Tour guide")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(*self))
    }
}

#[async_trait]
impl AgentChat for TourAgent {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        if turn.resume {
            return events
                .text("Picking up where we left off: this time nothing goes wrong.")
                .await;
        }
        match Command::parse(&turn.text) {
            Ok(Some(command)) => self.perform(command, &events).await,
            Ok(None) => say(&events, &talk::answer(&turn)).await,
            Err(problem) => say(&events, &problem).await,
        }
    }
}

impl TourAgent {
    async fn perform(self, command: Command, events: &EventSink) -> Result<(), AgentError> {
        match command {
            Command::Help => say(events, &talk::help()).await,
            Command::Stream { count, delay, bytes } => self.stream(events, count, delay, bytes).await,
            Command::Reason(thought) => {
                for word in thought.split_inclusive(' ') {
                    events.reasoning(word).await?;
                }
                say(events, "I have thought about it.").await
            }
            Command::Error { resumable: false } => {
                say(events, "Something is about to go wrong, because you asked for it.").await?;
                Err(AgentError::failed(
                    "tour",
                    "This error was asked for with /error. Nothing is broken; send another message.",
                ))
            }
            Command::Error { resumable: true } => {
                say(events, "Something is about to go wrong, but not for good.").await?;
                let message = "This error was asked for with /error resumable. Resume the turn to go on.";
                Err(AgentError::resumable("tour", message))
            }
            Command::Usage => {
                let usage = innkeeper_core::Usage {
                    input_tokens: Some(1200),
                    output_tokens: Some(34),
                    cache_read_tokens: Some(1000),
                    model: Some("tour".to_owned()),
                };
                events.usage(usage).await?;
                say(
                    events,
                    "I report 1200 tokens in, 1000 of them from the cache, and 34 out. They cost nothing.",
                )
                .await
            }
            Command::Slow(seconds) => {
                for left in (1..=seconds).rev() {
                    events.activity(format!("Taking it slowly: {left} s left")).await?;
                    pause(events, Duration::from_secs(1)).await?;
                }
                say(events, &format!("That took {seconds} s. Cancelling works at any time.")).await
            }
        }
    }

    async fn stream(self, events: &EventSink, count: u64, delay: Duration, bytes: usize) -> Result<(), AgentError> {
        for index in 0..count {
            let text = if self.stamp {
                talk::stamped_delta(bytes)
            } else {
                talk::delta(index, bytes)
            };
            events.text(text).await?;
            if !delay.is_zero() && index + 1 < count {
                pause(events, delay).await?;
            }
        }
        Ok(())
    }
}

/// Says something word by word, as a model would.
async fn say(events: &EventSink, text: &str) -> Result<(), AgentError> {
    for word in text.split_inclusive([' ', '\n']) {
        events.text(word).await?;
    }
    Ok(())
}

/// Waits, unless the turn is cancelled.
async fn pause(events: &EventSink, time: Duration) -> Result<(), AgentError> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        () = events.cancelled() => Err(AgentError::Cancelled),
    }
}
