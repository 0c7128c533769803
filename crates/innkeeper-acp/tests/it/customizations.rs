//! Rules, skills, custom agents and hooks of a session, as its agent gets them.

use std::collections::BTreeSet;
use std::sync::Arc;

use innkeeper_acp::{AcpAgent, ToolServer};
use innkeeper_host::customizations::{
    About, CustomAgent, CustomizationSet, CustomizationSources, Customizations, CustomizationsSink, Following,
    HookCall, HookEvent, HookOutcome, Hooks, Rule, Skill, Texts,
};
use innkeeper_host::mcp::ServerDeclaration;
use innkeeper_host::{EventSink, Host, async_trait};
use innkeeper_testkit::official::{markdown, now};
use serde_json::{Value, json};

use crate::support::{Agency, Stage, notices};

/// Returns the same customizations for every session.
struct Shelf(Arc<CustomizationSet>);

impl Customizations for Shelf {
    fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
        let set = Arc::clone(&self.0);
        Following::new(tokio::spawn(async move { sink.report(set).await }))
    }
}

/// The text of every file is its name.
struct Names;

#[async_trait]
impl Texts for Names {
    async fn read(&self, about: &About) -> Result<String, String> {
        Ok(format!("the text of {}", about.name))
    }
}

/// Adds context to every message and call, and sends the agent on once.
struct Chatty;

#[async_trait]
impl Hooks for Chatty {
    fn hear(&self, _: HookEvent, _: &BTreeSet<String>) -> bool {
        true
    }

    async fn run(&self, call: HookCall, _: &BTreeSet<String>, _: Option<&EventSink>) -> HookOutcome {
        let mut outcome = HookOutcome::default();
        match call.event {
            HookEvent::UserPromptSubmit => outcome.context = vec!["it is raining".to_owned()],
            HookEvent::PostToolUse => outcome.context = vec![format!("{} was used", call.subject)],
            HookEvent::Stop if call.input["stop_hook_active"] == false => outcome.deny = Some("texts".to_owned()),
            _ => {}
        }
        outcome
    }
}

fn about(name: &str, uri: &str) -> About {
    About {
        id: name.to_owned(),
        name: name.to_owned(),
        uri: uri.to_owned(),
        description: Some(format!("about {name}")),
        ..About::default()
    }
}

async fn open(agency: &Agency, set: CustomizationSet) -> Stage {
    let agent = AcpAgent::with_tools(agency.settings(), ToolServer::new(None));
    let set = CustomizationSet {
        texts: Arc::new(Names),
        ..set
    };
    agency
        .open_with(Host::builder().agent(agent).customizations(Shelf(Arc::new(set))))
        .await
}

fn shelf() -> CustomizationSet {
    let rule = |name: &str, always: bool| Rule {
        about: about(name, &format!("file:///w/{name}.md")),
        always,
        globs: if always { Vec::new() } else { vec!["*.rs".to_owned()] },
        ..Rule::default()
    };
    CustomizationSet {
        rules: vec![rule("brevity", true), rule("rust", false)],
        skills: vec![Skill {
            about: about("dance", "file:///w/dance/SKILL.md"),
            for_models: true,
            for_users: true,
            ..Skill::default()
        }],
        agents: vec![CustomAgent {
            about: about("pirate", "file:///w/pirate.md"),
            for_users: true,
            ..CustomAgent::default()
        }],
        ..CustomizationSet::default()
    }
}

#[tokio::test]
async fn rules_and_skills_are_sent_once() {
    let agency = Agency::new("load");
    let stage = open(&agency, shelf()).await;
    let said = stage.words("t1", "texts").await;
    for part in [
        "From /w/brevity.md:\n\nthe text of brevity",
        "/w/rust.md (for files that match *.rs)",
        "- dance: ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(
        stage.words("t2", "texts").await,
        "texts",
        "the agent has them in its context"
    );
    // A restored process has them as well.
    stage.turn("t3", "die").await;
    assert_eq!(stage.words("t4", "texts").await, "texts");
}

#[tokio::test]
async fn a_chosen_custom_agent_reaches_the_agent_and_another_replaces_it() {
    let agency = Agency::new("");
    let stage = open(&agency, shelf()).await;
    let message = |agent: &str| json!({ "text": "texts", "origin": { "kind": "user" }, "agent": { "uri": agent } });
    let turn = |id: &str, agent: &str| json!({ "type": "chat/turnStarted", "turnId": id, "message": message(agent), "startedAt": now() });
    let pirate = turn("t1", "file:///w/pirate.md");
    stage.client.dispatch(&stage.uris.chat, pirate).await;
    let said = markdown(&stage.end("t1").await.response_parts);
    assert!(
        said.contains("# You are the agent pirate\n\nthe text of pirate"),
        "{said}"
    );
    let said = stage.words("t2", "texts").await;
    assert!(
        said.contains("replaces the instructions") && !said.contains("pirate"),
        "{said}"
    );
    let gone = turn("t3", "file:///w/gone.md");
    stage.client.dispatch(&stage.uris.chat, gone).await;
    let failed = crate::support::error_of(&stage.end("t3").await);
    assert_eq!(failed["error"]["errorType"], "noAgent", "{failed}");
}

#[tokio::test]
async fn hook_context_reaches_the_agent_and_a_stop_hook_sends_it_on() {
    let agency = Agency::new("");
    let set = CustomizationSet {
        hooks: Arc::new(Chatty),
        ..CustomizationSet::default()
    };
    let stage = open(&agency, set).await;
    let turn = stage.turn("t1", "tool").await;
    let said = markdown(&turn.response_parts);
    assert!(
        said.starts_with("read it") && said.contains("read was used") && said.ends_with("texts"),
        "{said}"
    );
    assert!(notices(&turn).contains("A hook sends the agent on"), "{turn:?}");
    let usage = turn.usage.expect("usage");
    assert_eq!(usage.input_tokens, Some(200), "both answers of the turn");
    let said = stage.words("t2", "texts").await;
    assert!(said.contains("it is raining"), "{said}");
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn skills_are_prompts_of_the_mcp_server() {
    let agency = Agency::new("");
    let stage = open(&agency, shelf()).await;
    assert_eq!(stage.words("t1", "mcp-prompt dance").await, "dance: the text of dance");
}

/// Claude finds `.mcp.json` by itself, and would start its servers a second time.
#[tokio::test]
async fn claude_leaves_the_servers_of_the_session_to_the_host() {
    let agency = Agency::new("claude");
    let server = ServerDeclaration {
        about: about("garden", "file:///w/.mcp.json"),
        ..ServerDeclaration::default()
    };
    let set = CustomizationSet {
        mcp_servers: vec![Arc::new(server)],
        ..CustomizationSet::default()
    };
    let stage = open(&agency, set).await;
    assert_eq!(stage.words("t1", "say hi").await, "hi");
    let meta: Value = serde_json::from_str(&agency.noted("meta").pop().expect("a session")).expect("JSON");
    let settings = &meta["claudeCode"]["options"]["settings"];
    assert_eq!(settings["disabledMcpjsonServers"], json!(["garden"]));
}
