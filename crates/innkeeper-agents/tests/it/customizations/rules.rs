//! Rules: they are sent once and listed in the usage.

use innkeeper_host::customizations::HookOutcome;
use innkeeper_testkit::model_server::{Reply, Script};
use serde_json::json;

use crate::customizations::harness::{AgentFixture, count, remarks, rules, uri_of, users};

fn own(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test]
async fn cus26_always_rules_are_in_every_prompt_and_reread() {
    let fixture = AgentFixture::new()
        .rule("house", &[], "Wipe your feet.")
        .rule("again", &[], "Wipe your feet.\n");
    // Without discovered rules the agent reads this file itself. It must not be sent twice.
    fixture.put("work/AGENTS.md", "Wipe your feet.");
    let harness = fixture.open([Reply::words("Yes."), Reply::words("Yes.")]).await;
    let turn = harness.run("t1", "Come in.").await;
    assert_eq!(rules(&turn), own(&[("house", "always")]));
    assert_eq!(count(&harness.last_asked(), "Wipe your feet."), 1);
    std::fs::write(harness.path("work/rules/house.md"), "Knock first.").expect("written");
    harness.run("t2", "And now?").await;
    assert!(harness.last_asked().system().contains("Knock first."));
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn cus26_a_file_rule_is_added_before_the_next_request_once_per_chat() {
    let fixture = AgentFixture::new()
        .rule("rust", &["*.rs"], "Use tabs.")
        .rule("docs", &["docs/**"], "Be brief.");
    fixture.put("work/src/main.rs", "fn main() {}");
    let read = || Reply::new().call("read_file", json!({ "path": "src/main.rs" }));
    let harness = fixture
        .open([
            read(),
            Reply::words("Read."),
            read(),
            Reply::words("Again."),
            read(),
            Reply::words("Changed."),
        ])
        .await;
    let turn = harness.run("t1", "Read it.").await;
    assert_eq!(rules(&turn), own(&[("rust", "glob")]));
    let asked = harness.asked();
    assert_eq!(count(&asked[0], "Use tabs."), 0, "not before it is about such a file");
    assert_eq!(count(&asked[1], "Use tabs."), 1);
    assert_eq!(count(&asked[1], "Be brief."), 0);
    let file = serde_json::to_value(&turn).expect("JSON")["usage"]["_meta"]["innkeeper.rules"][0]["file"].clone();
    assert!(
        file.as_str().is_some_and(|file| file.ends_with("work/src/main.rs")),
        "{file}"
    );

    let turn = harness.run("t2", "Once more.").await;
    assert_eq!(rules(&turn), own(&[("rust", "glob")]), "it holds in this turn as well");
    assert_eq!(count(&harness.last_asked(), "Use tabs."), 1);

    std::fs::write(harness.path("work/rules/rust.md"), "Use spaces.").expect("written");
    harness.run("t3", "Once more.").await;
    assert_eq!(count(&harness.last_asked(), "Use spaces."), 1);
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn cus26_writing_or_editing_a_file_adds_its_rule() {
    let calls = [
        ("write_file", json!({ "path": "src/new.rs", "content": "fn new() {}" })),
        (
            "edit_file",
            json!({ "path": "src/main.rs", "old_string": "main", "new_string": "start" }),
        ),
    ];
    for (tool, input) in calls {
        let mut fixture =
            AgentFixture::new()
                .rule("rust", &["*.rs"], "Use tabs.")
                .rule("docs", &["docs/**"], "Be brief.");
        fixture.put("work/src/main.rs", "fn main() {}");
        // No confirmation is needed.
        fixture.hook(tool, |_| HookOutcome {
            allow: true,
            ..HookOutcome::default()
        });
        let harness = fixture
            .open([Reply::new().call(tool, input), Reply::words("Done.")])
            .await;
        let turn = harness.run("t1", "Do it.").await;
        assert_eq!(rules(&turn), own(&[("rust", "glob")]), "{tool}: {}", remarks(&turn));
        let asked = harness.asked();
        assert_eq!(
            count(&asked[0], "Use tabs."),
            0,
            "{tool}: not before it is about such a file"
        );
        assert_eq!(
            (count(&asked[1], "Use tabs."), count(&asked[1], "Be brief.")),
            (1, 0),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn cus26_an_attached_file_adds_its_rule_to_the_first_request() {
    let fixture = AgentFixture::new().rule("rust", &["src/**"], "Use tabs.");
    let file = uri_of(&fixture.put("work/src/main.rs", "fn main() {}"));
    let harness = fixture.open([Reply::words("I see.")]).await;
    let attachment = json!({ "type": "resource", "label": "main.rs", "uri": file });
    let turn = harness
        .run_with("t1", "Look.", json!({ "attachments": [attachment] }))
        .await;
    assert_eq!(rules(&turn), own(&[("rust", "glob")]));
    assert_eq!(count(&harness.last_asked(), "Use tabs."), 1);
}

#[tokio::test]
async fn cus26_a_rule_without_globs_is_loaded_on_request() {
    let fixture = AgentFixture::new().rule_on_request("music", "Play softly.");
    let harness = fixture
        .open([
            Reply::new().call("use_skill", json!({ "name": "music" })),
            Reply::words("La."),
        ])
        .await;
    let turn = harness.run("t1", "Play.").await;
    let asked = harness.asked();
    assert!(
        asked[0].system().contains("- music: What music is for."),
        "{}",
        asked[0].system()
    );
    assert_eq!(
        (count(&asked[0], "Play softly."), count(&asked[1], "Play softly.")),
        (0, 1)
    );
    assert_eq!(rules(&turn), own(&[("music", "request")]));
}

#[tokio::test]
async fn a_long_rule_is_truncated_with_one_notice() {
    let long = format!("Be brief.{}", " really".repeat(10_000));
    let fixture = AgentFixture::new()
        .rule("long", &[], &long)
        .rule("short", &[], "Be kind.");
    let harness = fixture.open([Reply::words("Yes."), Reply::words("Yes.")]).await;
    let turn = harness.run("t1", "Well?").await;
    let system = harness.last_asked().system();
    assert!(system.contains("Be brief.") && system.contains("The rest was left out") && system.contains("Be kind."));
    assert!(system.len() < 60_000, "{}", system.len());
    assert!(
        remarks(&turn).contains("The rule long is too long"),
        "{}",
        remarks(&turn)
    );
    let turn = harness.run("t2", "Well?").await;
    assert_eq!(remarks(&turn), "[]");
}

#[tokio::test]
async fn rules_and_skills_in_use_survive_compaction() {
    let fixture = AgentFixture::new()
        .rule("rust", &["*.rs"], "Use tabs.")
        .skill("bell", "Ring twice.");
    fixture.put("work/main.rs", &"fn main() {}\n".repeat(500));
    let calls = || {
        Reply::new()
            .call("read_file", json!({ "path": "main.rs" }))
            .call("use_skill", json!({ "name": "bell" }))
    };
    let script = Script::by(move |asked| {
        if asked.system().starts_with("You shorten the beginning") {
            return Reply::words("A file was read.");
        }
        match users(asked).last().map(String::as_str) {
            Some("Begin.") if asked.last_results().is_empty() => calls(),
            _ => Reply::words("Done."),
        }
    });
    let harness = fixture.open(script).await;
    harness.run("t1", "Begin.").await;
    harness.run("t2", "Go on.").await;
    harness.run("t3", "/compact").await;
    harness.run("t4", "And now?").await;
    let asked = harness.last_asked();
    assert_eq!(count(&asked, "fn main"), 0, "shortened");
    assert!(count(&asked, "A file was read.") == 1, "{:#?}", asked.said());
    assert_eq!(count(&asked, "Use tabs."), 1, "{:#?}", asked.said());
    assert_eq!(count(&asked, "Ring twice."), 1, "{:#?}", asked.said());
    // A file of the skill is still readable, and the rule is not sent again.
    harness.client.assert_converged().await;
}

#[tokio::test]
async fn cus26_rules_apply_to_the_file_that_a_hook_substituted() {
    let mut fixture = AgentFixture::new()
        .rule("rust", &["*.rs"], "Use tabs.")
        .rule("text", &["*.txt"], "Be brief.");
    fixture.put("work/main.rs", "fn main() {}");
    fixture.put("work/main.txt", "main");
    fixture.hook("read_file", |_| HookOutcome {
        input: Some(json!({ "path": "main.txt" })),
        ..HookOutcome::default()
    });
    let read = Reply::new().call("read_file", json!({ "path": "main.rs" }));
    let harness = fixture.open([read, Reply::words("Read.")]).await;
    let turn = harness.run("t1", "Read it.").await;
    assert_eq!(rules(&turn), own(&[("text", "glob")]));
}

#[tokio::test]
async fn cus26_file_rules_beyond_the_limit_are_reported_once() {
    let long = "really ".repeat(4_000);
    let mut fixture = AgentFixture::new();
    for number in 0..10 {
        fixture = fixture.rule(&format!("rule-{number}"), &["*.rs"], &format!("Rule {number}: {long}"));
    }
    fixture.put("work/main.rs", "fn main() {}");
    let read = || Reply::new().call("read_file", json!({ "path": "main.rs" }));
    let script = [read(), Reply::words("Read."), read(), Reply::words("Again.")];
    let harness = fixture
        .open_with(script, |settings| settings.models[0].context_window = 1_000_000)
        .await;
    let turn = harness.run("t1", "Read it.").await;
    let told = remarks(&turn);
    assert_eq!(rules(&turn).len(), 3, "{:?}", rules(&turn));
    assert!(told.contains("exceed the size limit: 7 rules were left out"), "{told}");
    assert_eq!(
        told.matches("only its beginning").count(),
        1,
        "the third is cut: {told}"
    );
    harness.run("t2", "Once more.").await;
    let asked = harness.last_asked();
    for number in 0..2 {
        assert_eq!(count(&asked, &format!("Rule {number}: ")), 1);
    }
}
