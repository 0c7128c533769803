//! Skills: listed by name, loaded on use, called by users.

use innkeeper_host::customizations::HookOutcome;
use innkeeper_testkit::model_server::Reply;
use serde_json::json;

use crate::customizations::harness::{AgentFixture, count, remarks, users};

#[tokio::test]
async fn cus24_a_skill_is_listed_loaded_on_use_and_its_files_are_readable() {
    let fixture = AgentFixture::new().skill("bell", "Ring it $ARGUMENTS.");
    let script = fixture.put("home/skills/bell/scripts/ring.sh", "echo ding");
    let harness = fixture
        .open([
            Reply::new().call("read_file", json!({ "path": script })),
            Reply::new().call("use_skill", json!({ "name": "bell", "arguments": "twice" })),
            Reply::new().call("read_file", json!({ "path": script })),
            Reply::new().call("write_file", json!({ "path": script, "content": "x" })),
            Reply::words("Rung."),
        ])
        .await;
    harness.run("t1", "Ring.").await;
    let asked = harness.asked();
    assert!(asked[0].system().contains("- bell: What bell is for."));
    assert!(!asked[0].system().contains("Ring it"), "its text comes when it is used");
    let result = |index: usize| asked[index].last_results().join("\n");
    assert!(
        result(1).contains("outside the session's working directories"),
        "{}",
        result(1)
    );
    assert!(result(2).contains("Ring it twice."), "{}", result(2));
    assert!(result(2).contains("- scripts/ring.sh"), "{}", result(2));
    assert!(result(3).contains("echo ding"), "{}", result(3));
    assert!(result(4).contains("outside"), "never changed: {}", result(4));
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn cus24_skills_for_users_only_are_neither_listed_nor_loaded() {
    let fixture = AgentFixture::new()
        .skill("open", "Come in.")
        .skill("secret", "Hush.")
        .last_skill(|skill| skill.for_models = false);
    let harness = fixture
        .open([
            Reply::new()
                .call("use_skill", json!({ "name": "secret" }))
                .call("use_skill", json!({ "name": "nothing" }))
                .call("use_skill", json!({ "search": "what" })),
            Reply::words("No."),
            Reply::words("Hushed."),
        ])
        .await;
    harness.run("t1", "Tell.").await;
    assert!(!harness.asked()[0].system().contains("secret"));
    let results = harness.last_asked().last_results();
    assert!(results[0].contains("only the user may use the skill"), "{results:?}");
    assert!(results[1].contains("there is no skill"), "{results:?}");
    assert_eq!(results[2], "- open: What open is for.");
    // The user calls it by name; the history has the original message.
    let turn = harness.run("t2", "/secret now").await;
    assert_eq!(turn.message.text, "/secret now");
    let users = users(&harness.last_asked());
    let said = users.last().expect("something was said");
    assert!(
        said.starts_with("/secret now") && said.contains("Hush.\n\nArguments: now"),
        "{said}"
    );
}

#[tokio::test]
async fn cus24_skills_hidden_from_users_are_rejected_and_not_sent() {
    let fixture = AgentFixture::new()
        .skill("deploy", "Ship it.")
        .last_skill(|skill| skill.for_users = false)
        .skill("archive", "Box it.")
        .last_skill(|skill| (skill.for_users, skill.for_models) = (false, false));
    let harness = fixture
        .open([
            Reply::new().call("use_skill", json!({ "name": "archive" })),
            Reply::words("No."),
        ])
        .await;
    for (turn, text, why) in [
        ("t1", "/deploy now", "only the agent uses it"),
        ("t2", "/archive", "cannot be used at all"),
    ] {
        let turn = harness.run(turn, text).await;
        let said = json!(turn).to_string();
        assert!(said.contains(why), "{said}");
    }
    assert!(harness.asked().is_empty(), "the model was asked nothing");
    harness.run("t3", "Box it up.").await;
    let results = harness.last_asked().last_results();
    assert!(
        results[0].contains("forbids calls by users and by models"),
        "{results:?}"
    );
}

#[tokio::test]
async fn thousands_of_skills_fit_into_the_prompt_and_can_be_searched() {
    let mut fixture = AgentFixture::new();
    for number in 0..2000 {
        fixture = fixture.skill(&format!("skill-{number}"), "Do it.");
    }
    let harness = fixture
        .open([
            Reply::new().call("use_skill", json!({ "search": "skill-1999" })),
            Reply::words("Found."),
        ])
        .await;
    harness.run("t1", "Find it.").await;
    let system = harness.asked()[0].system();
    assert!(system.len() < 20_000, "{}", system.len());
    assert!(system.contains("more, which `use_skill` finds"), "{system}");
    assert_eq!(
        harness.last_asked().last_results(),
        ["- skill-1999: What skill-1999 is for."]
    );
}

#[tokio::test]
async fn without_skills_there_is_no_use_skill() {
    let harness = AgentFixture::new().open([Reply::words("Hello.")]).await;
    let turn = harness.run("t1", "/unknown thing").await;
    let asked = harness.last_asked();
    assert!(!asked.tools().contains(&"use_skill".to_owned()));
    assert_eq!(count(&asked, "/unknown thing"), 1, "it is what it is");
    assert_eq!(remarks(&turn), "[]");
}

#[tokio::test]
async fn cus24_a_skill_denied_by_a_hook_is_not_loaded() {
    let mut fixture = AgentFixture::new().skill("bell", "Ring it.");
    let script = fixture.put("home/skills/bell/ring.sh", "echo ding");
    fixture.hook("use_skill", |_| HookOutcome {
        deny: Some("No noise.".to_owned()),
        ..HookOutcome::default()
    });
    let harness = fixture
        .open([
            Reply::new().call("use_skill", json!({ "name": "bell" })),
            Reply::new().call("read_file", json!({ "path": script })),
            Reply::words("Quiet."),
        ])
        .await;
    harness.run("t1", "Ring.").await;
    let asked = harness.asked();
    let result = |index: usize| asked[index].last_results().join("\n");
    assert!(result(1).contains("No noise."), "{}", result(1));
    assert!(result(2).contains("outside"), "{}", result(2));
    assert_eq!(count(&harness.last_asked(), "Ring it."), 0);
}

#[tokio::test]
async fn a_plugin_text_that_names_its_directory_makes_it_readable() {
    let text = "Run ${CLAUDE_PLUGIN_ROOT}/bin/ring.sh and ${PLUGIN_ROOT}/bin/ring.sh.";
    let mut fixture = AgentFixture::new()
        .skill("plain", "Look around.")
        .skill("bell", text)
        // A command has no directory.
        .skill("gong", text)
        .last_skill(|skill| skill.directory = None)
        .agent("ringer", "You use ${CLAUDE_PLUGIN_ROOT}/bin, for $1.", |_| {});
    let root = fixture.dir.path().join("plugin");
    let script = fixture.put("plugin/bin/ring.sh", "echo ding");
    let abouts = fixture.set.skills.iter_mut().map(|skill| &mut skill.about);
    for about in abouts.chain(fixture.set.agents.iter_mut().map(|agent| &mut agent.about)) {
        about.plugin_root = Some(root.clone());
    }
    let read = || Reply::new().call("read_file", json!({ "path": script }));
    let harness = fixture
        .open([
            Reply::new().call("use_skill", json!({ "name": "plain" })),
            read(),
            Reply::new().call("use_skill", json!({ "name": "bell" })),
            read(),
            Reply::words("Rung."),
            read(),
            Reply::words("Rung."),
            read(),
            Reply::words("Rung."),
        ])
        .await;
    harness.run("t1", "Ring.").await;
    let asked = harness.asked();
    let result = |index: usize| asked[index].last_results().join("\n");
    assert!(result(2).contains("outside"), "no text named it: {}", result(2));
    let ring = format!("Run {0} and {0}.", script.display());
    assert!(result(3).contains(&ring), "{}", result(3));
    assert!(result(4).contains("echo ding"), "{}", result(4));

    harness.run("t2", "/gong").await;
    let users = users(&harness.last_asked()).concat();
    assert!(users.matches(&ring).count() == 1, "{users}");
    assert!(harness.last_asked().last_results().concat().contains("echo ding"));

    let agent = format!("file://{}", harness.path("work/agents/ringer.md").display());
    harness
        .run_with("t3", "Ring.", json!({ "agent": { "uri": agent } }))
        .await;
    let role = format!("You use {}/bin, for $1.", root.display());
    assert!(
        harness.last_asked().system().contains(&role),
        "{}",
        harness.last_asked().system()
    );
    assert!(harness.last_asked().last_results().concat().contains("echo ding"));
}
