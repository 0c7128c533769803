//! Custom agents, selected by the user or by the model.

use innkeeper_testkit::model_server::{Reply, Script};
use serde_json::json;

use crate::customizations::harness::{AgentFixture, remarks, uri_of};

#[tokio::test]
async fn cus25_a_selected_agent_sets_instructions_model_and_tools_for_the_turn() {
    let fixture = AgentFixture::new().agent("reviewer", "You find faults.", |agent| {
        agent.model = Some("sonnet".to_owned());
        agent.tools = ["Read", "Grep", "Teleport"].map(str::to_owned).to_vec();
    });
    let harness = fixture
        .open([Reply::words("One."), Reply::words("Two."), Reply::words("Three.")])
        .await;
    let uri = uri_of(&harness.path("work/agents/reviewer.md"));
    let turn = harness
        .run_with("t1", "Review.", json!({ "agent": { "uri": uri } }))
        .await;
    let asked = harness.last_asked();
    assert!(asked.system().contains("You find faults.") && asked.system().contains("You are a capable coding agent"));
    assert_eq!(asked.model(), "big-sonnet-4");
    let mut tools = asked.tools();
    tools.sort_unstable();
    assert_eq!(
        tools,
        ["ask_user", "list_directory", "read_file", "search", "update_plan"]
    );
    assert!(remarks(&turn).contains("are unknown: Teleport"), "{}", remarks(&turn));
    let turn = harness
        .run_with("t2", "Again.", json!({ "agent": { "uri": uri } }))
        .await;
    assert_eq!(remarks(&turn), "[]", "said once");
    harness.run("t3", "By yourself.").await;
    let asked = harness.last_asked();
    assert!(!asked.system().contains("You find faults.") && asked.tools().contains(&"run_command".to_owned()));
    assert_eq!(asked.model(), "scripted");
}

#[tokio::test]
async fn cus25_an_unknown_model_is_reported_and_a_missing_file_ends_the_turn() {
    let fixture = AgentFixture::new().agent("seer", "You foresee.", |agent| {
        agent.model = Some("oracle-9".to_owned())
    });
    let harness = fixture.open([Reply::words("One."), Reply::words("Two.")]).await;
    let path = harness.path("work/agents/seer.md");
    let choice = json!({ "agent": { "uri": uri_of(&path) } });
    let turn = harness.run_with("t1", "Look.", choice.clone()).await;
    assert!(remarks(&turn).contains("oracle-9"), "{}", remarks(&turn));
    assert_eq!(harness.last_asked().model(), "scripted");
    std::fs::remove_file(&path).expect("removed");
    let turn = harness.run_with("t2", "Look.", choice).await;
    assert!(remarks(&turn).contains("is not there any more"), "{}", remarks(&turn));
    let turn = harness.run("t3", "Without.").await;
    assert_eq!(remarks(&turn), "[]");
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn cus24_the_model_delegates_to_its_agents_as_named_subagents() {
    let fixture = AgentFixture::new()
        .agent("scout", "You look around.", |agent| {
            agent.tools = vec!["Glob".to_owned()]
        })
        .agent("hermit", "You are alone.", |agent| agent.for_models = false);
    let script = Script::by(|asked| {
        if asked.system().contains("You look around.") {
            return Reply::words("I saw a tree.");
        }
        match asked.last_results().first() {
            None => {
                let task = |agent: &str| json!({ "title": "Look", "task": "Look around.", "agent": agent });
                Reply::new()
                    .call("delegate", task("scout"))
                    .call("delegate", task("hermit"))
            }
            Some(_) => Reply::words("Done."),
        }
    });
    let harness = fixture.open(script).await;
    harness.run("t1", "Look around.").await;
    let asked = harness.asked();
    let tool = |name: &str| {
        let tools = asked[0].body["tools"].as_array().cloned().unwrap_or_default();
        let tool = tools.into_iter().find(|tool| tool["function"]["name"] == name);
        tool.expect("offered")
    };
    let delegate = tool("delegate").to_string();
    assert!(
        delegate.contains("- scout: What scout is for.") && !delegate.contains("hermit"),
        "{delegate}"
    );
    let subagent = asked
        .iter()
        .find(|asked| asked.system().contains("You look around."))
        .expect("a subagent");
    let mut tools = subagent.tools();
    tools.sort_unstable();
    assert_eq!(tools, ["glob", "update_plan"]);
    let results = harness.last_asked().last_results();
    assert!(
        results.iter().any(|result| result.contains("I saw a tree.")),
        "{results:?}"
    );
    assert!(
        results
            .iter()
            .any(|result| result.contains("there is no agent \"hermit\"")),
        "{results:?}"
    );
    let seen = format!("{:?}", harness.client.view().actions);
    assert!(seen.contains("scout"), "its chat says who works there");
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn cus25_unsupported_tool_restrictions_are_reported_once() {
    let fixture = AgentFixture::new().agent("keeper", "You keep.", |agent| {
        agent.tools = ["Read", "Bash(git:*)"].map(str::to_owned).to_vec();
    });
    let keeper = uri_of(&fixture.work().join("agents/keeper.md"));
    let harness = fixture.open([Reply::words("Yes."), Reply::words("Yes.")]).await;
    let more = || json!({ "agent": { "uri": keeper } });
    let turn = harness.run_with("t1", "Well?", more()).await;
    assert!(
        remarks(&turn).contains("restricts Bash(git:*) to some inputs"),
        "{}",
        remarks(&turn)
    );
    let turn = harness.run_with("t2", "Well?", more()).await;
    assert_eq!(remarks(&turn), "[]");
}
