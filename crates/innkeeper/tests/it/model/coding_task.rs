//! A small real task in a real repository, from the question to the commit-ready change.

use std::path::Path;
use std::process::Command;

use ahp_types::state::{ResponsePart, TurnState};
use innkeeper_testkit::model_server::{Api, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::{markdown, tool_calls_of};
use serde_json::json;

use crate::model::support::{Setup, asks_for_title};

const BROKEN: &str = "#!/bin/sh\n# Adds two numbers.\necho $(($1 - $2))\n";
const TEST: &str =
    "#!/bin/sh\nsum=$(sh add.sh 2 3)\nif [ \"$sum\" = 5 ]; then echo passed; else echo \"failed: $sum\"; exit 1; fi\n";

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The steps of the model.
fn work(asked: &ReceivedRequest) -> Reply {
    if asks_for_title(asked) {
        return Reply::words("\"Fix the addition.\"").usage(7, 7, 0);
    }
    let results = asked.last_results().join("\n");
    let reply = Reply::new().usage(1000, 10, 600);
    match asked.said().iter().filter(|said| is_call(said)).count() {
        0 => reply
            .reasoning("Where is it?")
            .text("I look at it first.")
            .call("read_file", json!({ "path": "add.sh" }))
            .call("search", json!({ "pattern": "add\\.sh" })),
        2 => {
            assert!(results.contains("echo $(($1 - $2))"), "the file was read: {results}");
            assert!(results.contains("test.sh"), "the search found the test: {results}");
            let edit = json!({ "path": "add.sh", "old_string": "$1 - $2", "new_string": "$1 + $2" });
            reply.call("edit_file", edit)
        }
        3 => {
            assert!(
                results.contains("+echo $(($1 + $2))"),
                "the model sees the change: {results}"
            );
            reply.call("run_command", json!({ "command": "sh test.sh" }))
        }
        _ => {
            assert!(results.contains("passed"), "the test was run: {results}");
            reply.text("Fixed: it subtracted. The test passes.")
        }
    }
}

fn is_call(said: &innkeeper_testkit::model_server::ConversationPart) -> bool {
    matches!(said, innkeeper_testkit::model_server::ConversationPart::Call { .. })
}

async fn solve(api: Api) {
    let stage = Setup::new(api).models("titles = true").stage(Script::by(work)).await;
    let directory = stage.directory.path();
    stage.write("add.sh", BROKEN);
    stage.write("test.sh", TEST);
    git(directory, &["init", "-q"]);
    git(directory, &["add", "."]);
    git(directory, &["commit", "-q", "-m", "Begin"]);

    stage.start_turn("t1", "The test fails. Fix it.").await;
    let wait = stage.approve().await;
    let call = &wait["toolCall"];
    assert_eq!(call["toolName"], "edit_file");
    // The change can be looked at before it is made.
    let edits = call["edits"].to_string();
    assert!(edits.contains("add.sh"), "{call:#}");
    let wait = stage.approve().await;
    assert_eq!(wait["toolCall"]["toolName"], "run_command");
    let turn = stage.turn_end("t1").await;

    assert_eq!(turn.state, TurnState::Complete, "{:#?}", turn.response_parts);
    assert_eq!(
        markdown(&turn.response_parts),
        "I look at it first.Fixed: it subtracted. The test passes."
    );
    let kinds: Vec<&str> = turn
        .response_parts
        .iter()
        .map(|part| match part {
            ResponsePart::Reasoning(_) => "thought",
            ResponsePart::Markdown(_) => "words",
            ResponsePart::ToolCall(_) => "call",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["thought", "words", "call", "call", "call", "call", "words"]);
    let calls = tool_calls_of(&turn);
    let names: Vec<_> = calls
        .iter()
        .map(|call| call["toolName"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(names, ["read_file", "search", "edit_file", "run_command"]);
    for call in &calls {
        assert_eq!(
            (&call["status"], &call["success"]),
            (&json!("completed"), &json!(true)),
            "{call:#}"
        );
    }
    // Four answers of the turn; the title is not its cost.
    let usage = turn.usage.expect("a turn has a cost");
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.model.as_deref()
        ),
        (Some(4000), Some(40), Some(2400), Some("scripted"))
    );
    stage
        .client
        .until("the session has a title", |view| {
            view.session(&stage.uris.session)
                .is_some_and(|session| session.title == "Fix the addition")
        })
        .await;
    let diff = git(directory, &["diff", "--unified=0"]);
    let changed: Vec<&str> = diff.lines().filter(|line| line.starts_with(['+', '-'])).collect();
    assert_eq!(
        changed,
        [
            "--- a/add.sh",
            "+++ b/add.sh",
            "-echo $(($1 - $2))",
            "+echo $(($1 + $2))"
        ]
    );
    assert_eq!(git(directory, &["status", "--porcelain"]), " M add.sh\n");
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_small_real_task_is_solved_over_chat_completions() {
    solve(Api::Chat).await;
}

#[tokio::test]
async fn a_small_real_task_is_solved_over_responses() {
    solve(Api::Responses).await;
}

#[tokio::test]
async fn a_small_real_task_is_solved_over_messages() {
    solve(Api::Messages).await;
}

#[tokio::test]
async fn a_missing_title_delays_nothing() {
    let script = Script::by(|asked| match asks_for_title(asked) {
        true => Reply::words("Too late").stall_first(),
        false => Reply::words("Done."),
    });
    let stage = Setup::new(Api::Chat).models("titles = true").stage(script).await;
    stage.start_turn("t1", "Hurry.").await;
    stage.client.running_text(&stage.uris.chat, 5).await;
    let turn = stage.turn_end("t1").await;
    assert_eq!(turn.state, TurnState::Complete);
    let requests = stage.server.requests();
    let title = requests
        .iter()
        .find(|asked| asks_for_title(asked))
        .expect("a title was asked for");
    stage.server.until_hung_up(title.number).await;
    // Only the first message of a chat is asked about.
    stage.run_turn("t2", "Again.").await;
    let titles = stage
        .server
        .requests()
        .iter()
        .filter(|asked| asks_for_title(asked))
        .count();
    assert_eq!(titles, 1);
    stage.assert_in_order().await;
}
