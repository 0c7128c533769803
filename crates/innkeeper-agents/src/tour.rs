//! The tour agent. It needs no key and no network, gives deterministic answers, and demonstrates every part of the
//! protocol on command, for authors of clients.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use innkeeper_host::agent::{
    Choice, Directories, RenderedPrompt, Setting, SettingKind, SettingQuery, SettingValue, ToolInfo,
};
use innkeeper_host::mcp::Sampler;
use innkeeper_host::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, TurnInput};

mod command;
mod customizations;
mod files;
mod mcp;
mod memory;
mod prompt;
mod questions;
mod subagents;
mod talk;
mod terminals;
mod tools;

use command::{COMMANDS, Command};
use memory::Memory;

/// Values of the setting `topic`, too many to list in the schema.
const TOPICS: &[(&str, &str)] = &[
    ("bread", "How it is baked"),
    ("bridges", "How they stay up"),
    ("clocks", "Why they strike"),
    ("gardens", "What grows in them"),
    ("maps", "How to fold them"),
    ("rivers", "Where they go"),
    ("trains", "When they come"),
    ("weather", "What it does"),
];

/// The tour agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct TourAgent {
    stamp: bool,
}

impl TourAgent {
    /// Creates the agent.
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
        let info = AgentInfo::new(
            "tour",
            "Tour guide",
            "Shows you around this host. Needs no key; type /help to see what it can do.",
        )
        .with_model("tour", "Tour guide")
        .with_resume()
        .with_chats()
        .with_side_chats()
        .with_app_sampling()
        .with_directories(Directories::ManyReplaceablePrimary)
        .with_standard_sections();
        let info = settings().into_iter().fold(info, AgentInfo::with_setting);
        let info = COMMANDS.iter().fold(info, |info, entry| {
            info.with_command(entry.name, entry.usage, entry.what)
        });
        tools::TOOLS.iter().fold(info, |info, (name, title, description)| {
            info.with_tool(ToolInfo {
                name: (*name).to_owned(),
                title: Some((*title).to_owned()),
                description: Some((*description).to_owned()),
                input_schema: Some(json!({ "type": "object" })),
            })
        })
    }

    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        cx.progress(1, Some(2), "Lighting the lamps").await;
        let prompt = cx
            .render_prompt(prompt::sections(&cx.settings, &cx.working_directories))
            .await?;
        Ok(Box::new(TourChat {
            stamp: self.stamp,
            memory: Memory::new(&cx),
            first_prompt: prompt::First::new(&prompt),
        }))
    }

    async fn sampler(&self, _: &TurnInput) -> Result<Option<Arc<dyn Sampler>>, AgentError> {
        Ok(Some(Arc::new(mcp::NoModel)))
    }

    async fn commit_message(&self, _: &TurnInput, changes: &str) -> Option<String> {
        // The description begins with one line for each file, its name last.
        let files: Vec<&str> = changes.lines().take_while(|line| !line.is_empty()).collect();
        match files.as_slice() {
            [] => None,
            [file] => Some(format!("Change {}", file.split('\t').next_back()?)),
            files => Some(format!("Change {} files", files.len())),
        }
    }

    async fn setting_values(&self, query: SettingQuery) -> Vec<SettingValue> {
        let typed = query.text.to_lowercase();
        let fits = |topic: &str| query.setting == "topic" && topic.contains(&typed);
        let found = TOPICS.iter().filter(|(topic, _)| fits(topic));
        found
            .map(|(topic, description)| SettingValue {
                value: (*topic).to_owned(),
                label: format!("{}{}", topic[..1].to_uppercase(), &topic[1..]),
                description: Some((*description).to_owned()),
            })
            .collect()
    }
}

fn settings() -> [Setting; 2] {
    let setting = |id: &str, title: &str, description: &str, kind, mutable| Setting {
        id: id.to_owned(),
        title: title.to_owned(),
        description: Some(description.to_owned()),
        kind,
        default: None,
        mutable,
        read_only: false,
        required: false,
    };
    let moods = vec![Choice::new("cheerful", "Cheerful"), Choice::new("grumpy", "Grumpy")];
    let mood = setting(
        "mood",
        "Mood",
        "How the guide talks to you.",
        SettingKind::Choice(moods),
        true,
    );
    let first = vec![Choice::new("bread", "Bread"), Choice::new("maps", "Maps")];
    [
        Setting {
            default: Some(json!("cheerful")),
            ..mood
        },
        setting(
            "topic",
            "Topic",
            "What the session is about. Type to find more.",
            SettingKind::Search(first),
            false,
        ),
    ]
}

/// One chat with the agent.
#[derive(Debug)]
struct TourChat {
    stamp: bool,
    memory: Memory,
    first_prompt: prompt::First,
}

#[async_trait]
impl AgentChat for TourChat {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        // A real agent would send the prompt to its model now.
        let sections = prompt::sections(&turn.settings, &turn.working_directories);
        let prompt = events.render_prompt(sections).await?;
        if turn.resume {
            return events
                .text("Picking up where we left off: this time nothing goes wrong.")
                .await;
        }
        if let Some(agent) = &turn.agent {
            customizations::introduce(&turn.customizations, agent, &events).await?;
        }
        if let Some(called) = &turn.called {
            self.memory.add(&turn.text);
            return say(&events, &customizations::called(called)).await;
        }
        let outcome = match Command::parse(&turn.text) {
            Ok(Some(command)) => self.perform(command, &turn, &prompt, &events).await,
            Ok(None) => say(&events, &talk::answer(&turn, &self.memory)).await,
            Err(problem) => say(&events, &problem).await,
        };
        self.memory.add(&turn.text);
        outcome
    }
}

impl TourChat {
    async fn perform(
        &mut self,
        command: Command,
        turn: &TurnInput,
        prompt: &RenderedPrompt,
        events: &EventSink,
    ) -> Result<(), AgentError> {
        match command {
            Command::Help => say(events, &talk::help()).await,
            Command::Stream { count, delay, bytes } => self.stream(events, count, delay, bytes).await,
            Command::Reason(thought) => {
                for word in thought.split_inclusive(' ') {
                    events.reasoning(word).await?;
                }
                say(events, "I have thought about it.").await
            }
            Command::Error { resumable } => fail(events, resumable).await,
            Command::Usage => report_usage(events).await,
            Command::Long(kilobytes) => write_report(events, kilobytes).await,
            Command::Slow(seconds) => {
                for left in (1..=seconds).rev() {
                    events.activity(format!("Taking it slowly: {left} s left")).await?;
                    pause(events, Duration::from_secs(1)).await?;
                }
                say(events, &format!("That took {seconds} s. Cancelling works at any time.")).await
            }
            Command::Silent(seconds) => {
                pause(events, Duration::from_secs(seconds)).await?;
                say(events, &format!("I said nothing for {seconds} s, and the host let me.")).await
            }
            Command::Remember(words) => {
                self.memory.note(&words);
                events.remember(json!({ "note": words })).await?;
                say(events, "Noted. Ask me to recall it, even after the host was restarted.").await
            }
            Command::Prompt(None) => say(events, &prompt::overview(prompt, &self.first_prompt)).await,
            Command::Prompt(Some(id)) => say(events, &prompt::in_full(prompt, &id)).await,
            Command::Customizations => say(events, &customizations::overview(turn)).await,
            Command::Mcp => say(events, &mcp::overview(&turn.customizations).await).await,
            Command::McpPrompt { server, prompt, input } => {
                let said = mcp::prompt(&turn.customizations, &server, &prompt, &input).await;
                say(events, &said).await
            }
            Command::McpRead { server, uri } => say(events, &mcp::read(turn.mcp(), &server, &uri).await).await,
            Command::McpTool { server, tool, input } => mcp::call(turn.mcp(), events, &server, &tool, &input).await,
            Command::Tool => tools::tool(turn, events).await,
            Command::Confirm { again: false } => tools::confirm(turn, events).await,
            Command::Confirm { again: true } => tools::reconfirm(turn, events).await,
            Command::Options => tools::options(events).await,
            Command::Result => tools::result(events).await,
            Command::Parallel(count) => tools::parallel(turn, events, count).await,
            Command::Plan => tools::plan(events).await,
            Command::ClientTool { name, input } => tools::client_tool(turn, events, &name, input).await,
            Command::Auth => tools::auth(events).await,
            Command::Ask { url: false } => questions::ask(events).await,
            Command::Ask { url: true } => questions::ask_url(events).await,
            Command::Steer(seconds) => questions::steer(events, seconds).await,
            Command::Attachments => questions::attachments(turn, events).await,
            Command::Subagent(depth) => subagents::subagent(events, depth).await,
            Command::Background(seconds) => subagents::background(events, seconds).await,
            Command::Edit { file, text } => files::edit(turn, events, &file, &text).await,
            Command::Review(file) => files::review(turn, events, &file).await,
            Command::Terminal { line, background } => {
                terminals::terminal(turn, events, line.as_deref(), background).await
            }
        }
    }

    async fn stream(&self, events: &EventSink, count: u64, delay: Duration, bytes: usize) -> Result<(), AgentError> {
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

async fn fail(events: &EventSink, resumable: bool) -> Result<(), AgentError> {
    if resumable {
        say(events, "Something is about to go wrong, but not for good.").await?;
        let message = "This error was asked for with /error resumable. Resume the turn to go on.";
        return Err(AgentError::resumable("tour", message));
    }
    say(events, "Something is about to go wrong, because you asked for it.").await?;
    Err(AgentError::failed(
        "tour",
        "This error was asked for with /error. Nothing is broken; send another message.",
    ))
}

/// `/long`: a report that the turn refers to.
async fn write_report(events: &EventSink, kilobytes: u64) -> Result<(), AgentError> {
    let bytes = usize::try_from(kilobytes).unwrap_or(usize::MAX).saturating_mul(1024);
    let mut report = "# The guest book\n".to_owned();
    for guest in 1.. {
        if report.len() >= bytes {
            break;
        }
        report.push_str(&format!("- Guest {guest} slept well.\n"));
    }
    match events.attach("guest-book.md", report, "text/markdown").await? {
        true => {
            say(
                events,
                "The report is too long to read it to you, so I left it beside the session.",
            )
            .await
        }
        false => {
            say(
                events,
                "I could not leave the report beside the session; the host's log says why.",
            )
            .await
        }
    }
}

async fn report_usage(events: &EventSink) -> Result<(), AgentError> {
    let usage = innkeeper_host::agent::Usage {
        input_tokens: Some(1200),
        output_tokens: Some(34),
        cache_read_tokens: Some(1000),
        model: Some("tour".to_owned()),
        ..innkeeper_host::agent::Usage::default()
    };
    events.usage(usage).await?;
    let words = "I report 1200 tokens in, 1000 of them from the cache, and 34 out. They cost nothing.";
    say(events, words).await
}

/// Streams a text word by word, as a model would.
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
