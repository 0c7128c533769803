//! Commands of agents in terminals: users watch them, type into them and stop them.

use ahp_types::state::TerminalClaim;
use innkeeper_testkit::model_server::{Api, ConversationPart, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown, tool_calls_of};
use innkeeper_testkit::process::{HostProcess, gone, lives};
use serde_json::{Value, json};

use super::support::{TERMINAL, bash, create, exited, listed, pid_printed, shows, text, type_into};
use crate::model::support::{Setup, Stage};

/// A host with the tour agent, and a session in the home directory of the host.
async fn tour() -> (HostProcess, OfficialClient, SessionUris) {
    let host = HostProcess::start(bash()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("tour").await;
    (host, client, uris)
}

/// Returns the terminal in the content of a tool call.
fn terminal_in(call: &Value) -> Option<&Value> {
    let content = call["content"].as_array()?;
    content.iter().find(|part| part["type"] == "terminal")
}

/// Waits until a running tool call shows its terminal, and subscribes to it.
async fn shown_terminal(client: &OfficialClient, chat: &str) -> String {
    let uri = client
        .until_some("a call shows its terminal", |view| {
            let calls = view.tool_calls(chat);
            let running = calls.iter().filter(|call| call["status"] == "running");
            let mut terminals = running.filter_map(terminal_in);
            terminals.next()?["resource"].as_str().map(str::to_owned)
        })
        .await;
    client.subscribe(&uri).await;
    uri
}

/// Returns the fields of the claim of a terminal.
fn claim(client: &OfficialClient, uri: &str) -> (String, Option<String>, Option<String>) {
    let view = client.view();
    match &view.terminal(uri).expect("subscribed").claim {
        TerminalClaim::Session(claim) => (claim.chat.clone(), claim.turn_id.clone(), claim.tool_call_id.clone()),
        TerminalClaim::Client(claim) => panic!("claimed by {claim:?}"),
    }
}

#[tokio::test]
async fn tool16_tool17_trm17_the_terminal_of_a_call_leads_to_its_end_later() {
    let (_host, client, uris) = tour().await;
    let turn = client.run_turn(&uris.chat, "t1", "/terminal").await;
    assert_eq!(
        markdown(&turn.response_parts),
        "It ended with 3. Its terminal can still be read."
    );
    let call = tool_calls_of(&turn).remove(0);
    let terminal = terminal_in(&call).expect("a terminal");
    assert_eq!(terminal["isPty"], true);
    assert_eq!(terminal["result"]["exitCode"], 3);
    assert!(
        terminal["result"]["preview"]
            .as_str()
            .expect("a preview")
            .contains("Room 3 is ready.")
    );
    let uri = terminal["resource"].as_str().expect("a URI");
    client.subscribe(uri).await;
    assert_eq!(exited(&client, uri).await, Some(3));
    assert!(text(&client.view(), uri).contains("\x1b[1;32mWelcome\x1b[0m to a terminal.\r\n"));
    client
        .until("it is not listed any more", |view| listed(view).is_empty())
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn trm17_the_terminal_of_a_call_can_be_read_after_a_restart() {
    let (host, client, uris) = tour().await;
    let turn = client.run_turn(&uris.chat, "t1", "/terminal").await;
    let call = tool_calls_of(&turn).remove(0);
    let terminal = terminal_in(&call).expect("a terminal")["resource"].clone();
    let host = host.stop().await.start().await;
    let other = OfficialClient::connect(host.address(), "second").await;
    let uri = terminal.as_str().expect("a URI");
    other.subscribe(uri).await;
    assert_eq!(exited(&other, uri).await, Some(3));
    assert!(text(&other.view(), uri).contains("Room 2 is ready."));
    assert!(listed(&other.view()).is_empty());
}

#[tokio::test]
async fn trm15_users_watch_a_command_of_an_agent_and_type_into_it() {
    let (host, client, uris) = tour().await;
    let other = OfficialClient::connect(host.address(), "second").await;
    client
        .start_turn(
            &uris.chat,
            "t1",
            "/terminal echo your name; read name; echo \"hello $name\"",
        )
        .await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    let uri = shown_terminal(&client, &uris.chat).await;
    let call = wait["toolCall"]["toolCallId"].as_str().expect("an id").to_owned();
    assert_eq!(
        claim(&client, &uri),
        (uris.chat.clone(), Some("t1".to_owned()), Some(call))
    );
    other.subscribe(&uri).await;
    shows(&other, &uri, "your name").await;
    type_into(&other, &uri, "Ada\r").await;
    shows(&client, &uri, "hello Ada").await;
    client.turn_end(&uris.chat, "t1").await;
    assert_eq!(exited(&other, &uri).await, Some(0));
    client
        .until("the claim narrows to the chat", |view| {
            let state = view.terminal(&uri).expect("subscribed");
            matches!(&state.claim, TerminalClaim::Session(claim) if claim.tool_call_id.is_none())
        })
        .await;
    let actions = other.view().actions_on(&uri);
    let commands = actions
        .iter()
        .filter(|action| action["type"] == "terminal/commandExecuted");
    assert!(commands.count() <= 1);
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn users_stop_a_command_of_an_agent() {
    let (_host, client, uris) = tour().await;
    for (turn, end) in [("t1", "A signal ended it."), ("t2", "You closed its terminal.")] {
        client
            .start_turn(&uris.chat, turn, "/terminal echo p1=$$; exec sleep 1012")
            .await;
        let wait = client.wait_for(&uris.session, "toolConfirmation").await;
        client.decide(&wait, json!({ "approved": true })).await;
        let uri = shown_terminal(&client, &uris.chat).await;
        let process = pid_printed(&client, &uri, "p1=").await;
        if turn == "t1" {
            type_into(&client, &uri, "\x03").await;
        } else {
            let _: Value = client
                .request("disposeTerminal", json!({ "channel": uri }))
                .await
                .expect("disposed of");
            client.view().forget(&uri);
        }
        gone(process).await;
        let turn = client.turn_end(&uris.chat, turn).await;
        assert!(markdown(&turn.response_parts).starts_with(end), "{turn:?}");
    }
    // A turn that is cancelled ends its command.
    client
        .start_turn(&uris.chat, "t3", "/terminal echo p1=$$; exec sleep 1013")
        .await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    let uri = shown_terminal(&client, &uris.chat).await;
    let process = pid_printed(&client, &uri, "p1=").await;
    client.cancel_turn(&uris.chat, "t3").await;
    gone(process).await;
    assert_eq!(exited(&client, &uri).await, None);
    client.assert_converged().await;
}

#[tokio::test]
async fn cht24_cht25_trm15_a_command_goes_on_in_the_background() {
    let (_host, client, uris) = tour().await;
    client
        .start_turn(
            &uris.chat,
            "t1",
            "/terminal background echo p1=$$; read line; echo later $line; exec sleep 1014",
        )
        .await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    client.turn_end(&uris.chat, "t1").await;
    let work = client.chat(&uris.chat).background_work.expect("background work");
    let work = serde_json::to_value(&work).expect("JSON");
    let uri = work[0]["terminal"].as_str().expect("CHT-25").to_owned();
    client.subscribe(&uri).await;
    let process = pid_printed(&client, &uri, "p1=").await;
    assert!(lives(process));
    client
        .until("the claim narrows to the chat", |view| {
            let state = view.terminal(&uri).expect("subscribed");
            matches!(&state.claim, TerminalClaim::Session(claim) if claim.tool_call_id.is_none())
        })
        .await;
    assert_eq!(claim(&client, &uri), (uris.chat.clone(), None, None));
    type_into(&client, &uri, "today\r").await;
    shows(&client, &uri, "later today").await;
    assert_eq!(listed(&client.view()).len(), 1);
    // The chat goes on beside it.
    client.run_turn(&uris.chat, "t2", "hello").await;
    assert!(lives(process));
    type_into(&client, &uri, "\x03").await;
    gone(process).await;
    client
        .until("it is no longer shown", |view| {
            let chat = view.chat(&uris.chat).expect("subscribed");
            chat.background_work.as_ref().is_none_or(Vec::is_empty)
        })
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn trm16_commands_without_a_pty_show_plain_text_and_take_no_input() {
    let host = HostProcess::start(bash().setting("agent_pty = false")).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("plain").await;
    let turn = client.run_turn(&uris.chat, "t1", "/terminal").await;
    let call = tool_calls_of(&turn).remove(0);
    let terminal = terminal_in(&call).expect("a terminal");
    assert_eq!(
        (&terminal["isPty"], &terminal["result"]["exitCode"]),
        (&json!(false), &json!(3))
    );
    let uri = terminal["resource"].as_str().expect("a URI");
    client.subscribe(uri).await;
    let expected = "Welcome to a terminal.\nRoom 1 is ready.\nRoom 2 is ready.\nRoom 3 is ready.\n";
    assert_eq!(text(&client.view(), uri), expected);
    assert_eq!(client.view().terminal(uri).and_then(|state| state.is_pty), Some(false));
    // While it runs, it has no terminal, reads nothing, and ends with all that it started.
    let line = "/terminal test -t 1 || echo piped; echo to errors >&2; cat; sleep 1018 & echo p1=$!; wait";
    client.start_turn(&uris.chat, "t2", line).await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    let uri = shown_terminal(&client, &uris.chat).await;
    let process = pid_printed(&client, &uri, "p1=").await;
    assert!(text(&client.view(), &uri).starts_with("piped\nto errors\np1="));
    type_into(&client, &uri, "typed\r").await;
    let refused = client.refusal(1).await;
    assert!(refused.starts_with("this terminal takes no input"), "{refused}");
    client.cancel_turn(&uris.chat, "t2").await;
    gone(process).await;
    client.assert_converged().await;
    // Shells of users still have a terminal.
    create(&client, TERMINAL, json!({})).await;
    client.subscribe(TERMINAL).await;
    type_into(&client, TERMINAL, "test -t 0 && echo a term''inal\r").await;
    shows(&client, TERMINAL, "a terminal\r\n").await;
}

async fn model(call: Value) -> Stage {
    stage([Reply::new().call("run_command", call), Reply::words("Done.")]).await
}

/// Starts a turn whose first call is approved.
async fn stage(script: impl Into<Script>) -> Stage {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let setup = Setup::new(Api::Messages).options(|options| options.environment("PATH", path));
    let stage = setup.stage(script).await;
    stage.start_turn("t1", "Run it.").await;
    stage.approve().await;
    stage
}

/// Runs a command, and then checks it with each of these inputs and the id that the model was told.
fn checking<const N: usize>(command: Value, checks: [Value; N]) -> Script {
    Script::by(move |asked| {
        let results = asked.said().into_iter().filter_map(|said| match said {
            ConversationPart::Result { text, .. } => Some(text),
            _ => None,
        });
        let results: Vec<String> = results.collect();
        let Some(first) = results.first() else {
            return Reply::new().call("run_command", command.clone());
        };
        let Some(check) = checks.get(results.len() - 1) else {
            return Reply::words("Done.");
        };
        let (_, id) = first.split_once("with the id ").expect("an id");
        let mut check = check.clone();
        check["id"] = json!(id.split(' ').next());
        Reply::new().call("check_command", check)
    })
}

/// Returns all results that the model got.
fn results(stage: &Stage) -> Vec<String> {
    let said = stage.last_asked().said().into_iter();
    let results = said.filter_map(|said| match said {
        ConversationPart::Result { text, .. } => Some(text),
        _ => None,
    });
    results.collect()
}

#[tokio::test]
async fn tool16_tool17_the_model_runs_its_commands_in_terminals() {
    let command = "test -t 0 && test -t 1 && printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n'; cat -; exit 4";
    let stage = model(json!({ "command": command })).await;
    let uri = shown_terminal(&stage.client, &stage.uris.chat).await;
    shows(&stage.client, &uri, "\x1b[31mred\x1b[0m\r\n10%\r100%").await;
    // The user types what the command reads, and ends its input.
    type_into(&stage.client, &uri, "typed\r\x04").await;
    let turn = stage.turn_end("t1").await;
    let call = tool_calls_of(&turn).remove(0);
    let terminal = terminal_in(&call).expect("a terminal");
    assert_eq!(terminal["resource"], uri);
    assert_eq!(
        (&terminal["isPty"], &terminal["result"]["exitCode"]),
        (&json!(true), &json!(4))
    );
    let preview = terminal["result"]["preview"].as_str().expect("a preview");
    assert!(preview.starts_with("red\n100%\n"), "{preview}");
    let told = stage.last_asked().last_results().remove(0);
    assert_eq!(
        told, "red\n100%\ntyped\ntyped\n[exit code 4]",
        "the model reads plain text"
    );
    assert_eq!(exited(&stage.client, &uri).await, Some(4));
    stage.assert_in_order().await;
}

#[tokio::test]
async fn the_output_that_the_model_sees_of_a_terminal_is_bounded() {
    let stage = model(json!({ "command": "seq 1 200000" })).await;
    stage.turn_end("t1").await;
    let told = stage.last_asked().last_results().remove(0);
    assert!(told.len() < 100_000, "{}", told.len());
    assert!(
        told.starts_with("1\n2\n") && told.ends_with("199999\n200000\n[exit code 0]"),
        "{told}"
    );
    assert!(told.contains("bytes of the output left out"));
}

#[tokio::test]
async fn cht24_cht25_a_long_command_of_the_model_goes_on_in_the_background() {
    let command = "sleep 1015 & echo p1=$!; wait; echo never";
    let checks = [json!({}), json!({ "stop": true }), json!({})];
    let stage = stage(checking(json!({ "command": command, "timeout_seconds": 2 }), checks)).await;
    let uri = shown_terminal(&stage.client, &stage.uris.chat).await;
    let process = pid_printed(&stage.client, &uri, "p1=").await;
    stage
        .client
        .until("it is in the background", |view| {
            let chat = view.chat(&stage.uris.chat).expect("subscribed");
            let work = serde_json::to_value(&chat.background_work).expect("JSON");
            work[0]["terminal"] == uri.as_str()
        })
        .await;
    stage.turn_end("t1").await;
    gone(process).await;
    let told = results(&stage);
    assert!(
        told[0].starts_with("p1=") && told[0].contains("it still runs after 2 seconds and goes on in the background"),
        "{told:?}"
    );
    assert_eq!(told[1], "[no new output]\n[it still runs]");
    assert_eq!(told[2], "[no new output]\n[ended by a signal]");
    assert!(told[3].starts_with("no command `"), "{told:?}");
    stage
        .client
        .until("it is no longer shown", |view| {
            let chat = view.chat(&stage.uris.chat).expect("subscribed");
            chat.background_work.as_ref().is_none_or(Vec::is_empty)
        })
        .await;
    stage.assert_in_order().await;
}

#[tokio::test]
async fn the_model_waits_for_a_command_in_the_background() {
    let command = "echo first; sleep 3.5; echo second; exit 5";
    let script = checking(
        json!({ "command": command, "background": true }),
        [json!({ "wait_seconds": 60 })],
    );
    let stage = stage(script).await;
    stage.turn_end("t1").await;
    let told = results(&stage);
    assert!(told[0].starts_with("first\n[it goes on in the background"), "{told:?}");
    assert_eq!(told[1], "second\n[exit code 5]");
    stage.assert_in_order().await;
}

#[tokio::test]
async fn commands_get_needed_and_passed_variables_alone() {
    let command = "echo \"$PASSED,$UNPASSED,$MY_TOKEN,$HOME_OF_TOOL,${HOME:+home}\"";
    let script = [
        Reply::new().call("run_command", json!({ "command": command })),
        Reply::words("Done."),
    ];
    let setup = Setup::new(Api::Messages).models("titles = false\npass_env = [\"PASSED\", \"*OF_TOOL\"]");
    let setup = setup.options(|options| {
        let names = ["PASSED", "UNPASSED", "MY_TOKEN", "HOME_OF_TOOL"];
        let options = options.environment("PATH", std::env::var_os("PATH").unwrap_or_default());
        names
            .into_iter()
            .fold(options, |options, name| options.environment(name, name))
    });
    let stage = setup.stage(script).await;
    stage.start_turn("t1", "Run it.").await;
    stage.approve().await;
    stage.turn_end("t1").await;
    let told = stage.last_asked().last_results().remove(0);
    assert_eq!(told, "PASSED,,,HOME_OF_TOOL,home\n[exit code 0]");
}

#[tokio::test]
async fn cht24_cht25_the_model_leaves_a_command_in_the_background() {
    let command = "echo p1=$$; echo listening; exec sleep 1016";
    let stage = model(json!({ "command": command, "background": true })).await;
    stage.turn_end("t1").await;
    let told = stage.last_asked().last_results().remove(0);
    assert!(
        told.contains("listening\n[it goes on in the background, until it ends or the user stops it; `check_command`"),
        "{told}"
    );
    let chat = stage.client.chat(&stage.uris.chat);
    let work = serde_json::to_value(&chat.background_work).expect("JSON");
    assert_eq!(work[0]["command"], command);
    let uri = work[0]["terminal"].as_str().expect("CHT-25").to_owned();
    stage.client.subscribe(&uri).await;
    let process = pid_printed(&stage.client, &uri, "p1=").await;
    assert!(lives(process));
    // With its session, it ends.
    let _: Value = stage
        .client
        .request("disposeSession", json!({ "channel": stage.uris.session }))
        .await
        .expect("disposed of");
    gone(process).await;
}
