//! Agents of the test's own have their prompts rendered: when a chat opens, in turns, and in subagents.

use std::time::Duration;

use innkeeper_host::agent::{Invocation, PromptSection, RenderedPrompt, Section, SubagentSpec, ToolResult};
use innkeeper_host::{
    Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, HostBuilder, Limits, TurnInput, async_trait,
};
use innkeeper_testkit::embedded::Running;
use innkeeper_testkit::official::{OfficialClient, SessionUris};
use innkeeper_testkit::rewriter::{Rewriter, asked_for};
use serde_json::json;
use tokio::sync::mpsc;

type Outcome = Result<RenderedPrompt, AgentError>;

/// Renders a prompt whenever it can, and tells the test what came of it.
#[derive(Clone)]
struct Writer {
    outcomes: mpsc::UnboundedSender<Outcome>,
}

fn sections() -> Vec<PromptSection> {
    vec![
        PromptSection::new("identity", "You write."),
        PromptSection::new("tone", "Be brief."),
        PromptSection::new("margin", "Leave one."),
    ]
}

#[async_trait]
impl Agent for Writer {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("writer", "Writer", "Writes.")
            .with_section(Section::new("identity", "Identity").restricted())
            .with_section(Section::new("tone", "Tone").description("How it writes."))
            .with_section(Section::new("margin", "Margin"))
    }

    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        let _ = self.outcomes.send(cx.render_prompt(sections()).await);
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl AgentChat for Writer {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        if turn.text == "twice" {
            let twice = [sections(), sections()].concat();
            return events.render_prompt(twice).await.map(|_| ());
        }
        if turn.text != "subagent" {
            let mut sections = sections();
            for section in &mut sections {
                // A section that the turn names is empty in its prompt.
                if turn.text.contains(&section.id) {
                    section.content.clear();
                }
            }
            let outcome = events.render_prompt(sections).await;
            let _ = self.outcomes.send(outcome.clone());
            return outcome.map(|_| ());
        }
        let draft = events.tool("send").start().await?;
        let mut call = draft.run(Invocation::new("Starts a subagent").input("{}")).await?;
        let subagent = call.subagent(SubagentSpec::new("Subagent", "Help.")).await?;
        let outcomes = self.outcomes.clone();
        subagent
            .drive(|events| async move {
                let _ = outcomes.send(events.render_prompt(sections()).await);
                Ok(())
            })
            .await?;
        call.complete(ToolResult::text("Started a subagent", "done")).await
    }
}

struct Desk {
    running: Running,
    client: OfficialClient,
    uris: SessionUris,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
}

impl Desk {
    async fn of(build: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let (outcomes, received) = mpsc::unbounded_channel();
        let running = Running::start(build(Host::builder().agent(Writer { outcomes }))).await;
        let client = OfficialClient::connect(&running.address, "first").await;
        let uris = client.create_session("desk").await;
        let mut desk = Self {
            running,
            client,
            uris,
            outcomes: received,
        };
        let opened = desk.outcome().await.expect("rendered");
        assert_eq!(
            (opened.text().as_str(), opened.client),
            (ALL, None),
            "SMT-05: no client is connected"
        );
        desk
    }

    async fn outcome(&mut self) -> Outcome {
        self.outcomes.recv().await.expect("the agent is there")
    }

    async fn joined(&self, client: &str, sections: &[&str]) -> Rewriter {
        Rewriter::join(&self.running.address, client, &self.uris.session, sections).await
    }
}

/// The prompt without rewrites.
const ALL: &str = "You write.\n\nBe brief.\n\nLeave one.";

#[tokio::test]
async fn smt06_smt07_an_agent_gets_its_prompt_as_the_client_rewrote_it() {
    let mut desk = Desk::of(|builder| builder).await;
    let mut rewriter = desk.joined("rewriter", &["identity", "tone", "margin"]).await;
    desk.client.start_turn(&desk.uris.chat, "t1", "write").await;
    let request = rewriter
        .rewrite(&[("tone", "Be long."), ("margin", "Leave one.")])
        .await;
    assert_eq!(asked_for(&request), ["tone", "margin"], "SMT-12");
    let prompt = desk.outcome().await.expect("rendered");
    assert_eq!(prompt.text(), "You write.\n\nBe long.\n\nLeave one.");
    assert_eq!(prompt.client.as_deref(), Some("rewriter"));
    let changed: Vec<bool> = prompt.sections.iter().map(|section| section.changed).collect();
    assert_eq!(changed, [false, true, false], "the same words are no change");
    let restricted: Vec<bool> = prompt.sections.iter().map(|section| section.restricted).collect();
    assert_eq!(restricted, [true, false, false]);
    desk.client.assert_converged().await;
}

#[tokio::test]
async fn smt03_sections_that_are_empty_in_a_render_are_not_asked_for() {
    let mut desk = Desk::of(|builder| builder).await;
    let mut rewriter = desk.joined("rewriter", &["tone", "margin"]).await;
    desk.client.start_turn(&desk.uris.chat, "t1", "no tone").await;
    let request = rewriter.rewrite(&[("margin", "Leave two.")]).await;
    assert_eq!(asked_for(&request), ["margin"]);
    let prompt = desk.outcome().await.expect("rendered");
    assert_eq!(prompt.client.as_deref(), Some("rewriter"));
    desk.client.turn_end(&desk.uris.chat, "t1").await;
    // With nothing left to rewrite, no client is asked, and the turn does not wait.
    desk.client
        .start_turn(&desk.uris.chat, "t2", "no tone, no margin")
        .await;
    let prompt = desk.outcome().await.expect("rendered");
    assert_eq!(prompt.client, None);
    desk.client.turn_end(&desk.uris.chat, "t2").await;
}

#[tokio::test]
async fn smt06_the_starter_of_the_parent_turn_rewrites_subagent_prompts() {
    let mut desk = Desk::of(|builder| builder).await;
    let mut starter = desk.joined("starter", &["tone"]).await;
    let mut newer = desk.joined("newer", &["tone"]).await;
    starter.start_turn(&desk.uris.chat, "t1", "subagent").await;
    let request = starter.rewrite(&[("tone", "Be a reviewer.")]).await;
    assert_eq!(request["params"]["channel"], desk.uris.session.as_str());
    let prompt = desk.outcome().await.expect("rendered");
    assert_eq!(prompt.client.as_deref(), Some("starter"));
    assert!(prompt.text().contains("Be a reviewer."));
    desk.client.turn_end(&desk.uris.chat, "t1").await;
    assert!(!newer.was_asked().await);
    desk.client.assert_converged().await;
}

#[tokio::test]
async fn smt09_a_cancelled_turn_waits_for_no_client() {
    let limits = Limits {
        transform_time: Duration::from_secs(600),
        cancel_time: Duration::from_secs(600),
        ..Limits::default()
    };
    let mut desk = Desk::of(|builder| builder.limits(limits)).await;
    let mut silent = desk.joined("silent", &["tone"]).await;
    desk.client.start_turn(&desk.uris.chat, "t1", "write").await;
    silent.request().await;
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    desk.client.dispatch(&desk.uris.chat, cancel).await;
    assert_eq!(desk.outcome().await, Err(AgentError::Cancelled));
    desk.client.turn_end(&desk.uris.chat, "t1").await;
    // The next turn does not wait for the last one's answer either.
    desk.client.start_turn(&desk.uris.chat, "t2", "write").await;
    silent.rewrite(&[("tone", "Whisper.")]).await;
    let prompt = desk.outcome().await.expect("rendered");
    assert!(prompt.text().contains("Whisper."));
}

#[tokio::test]
async fn smt12_a_host_decides_the_restricted_sections() {
    let mut desk = Desk::of(|builder| builder.restricted_sections(["margin"]).limits(Limits::default())).await;
    let mut rewriter = desk.joined("rewriter", &["identity", "tone", "margin"]).await;
    desk.client.start_turn(&desk.uris.chat, "t1", "write").await;
    let request = rewriter.rewrite(&[("margin", "None.")]).await;
    assert_eq!(asked_for(&request), ["identity", "tone"]);
    assert_eq!(desk.outcome().await.expect("rendered").text(), ALL);
}

#[tokio::test]
async fn two_sections_of_one_name_end_the_turn_with_a_reason() {
    let desk = Desk::of(|builder| builder).await;
    let turn = desk.client.run_turn(&desk.uris.chat, "t1", "twice").await;
    let parts = serde_json::to_string(&turn.response_parts).expect("JSON");
    assert!(
        parts.contains("duplicateSection") && parts.contains("identity"),
        "{parts}"
    );
}
