//! Terminals after a restart of the host, and those of deleted sessions.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostProcess, gone};
use serde_json::json;

use super::support::{
    TERMINAL, bash, create, exited, listed, pid_printed, shows, start_with_terminal, text, type_into,
};

const REASON: &str = "[The host was restarted. The process of this terminal has ended.]";

#[tokio::test]
async fn trm17_after_a_restart_a_terminal_has_ended_and_shows_its_last_screen() {
    let (host, mut client) = start_with_terminal(bash()).await;
    type_into(
        &client,
        TERMINAL,
        "echo bef''ore; sh -c 'echo p1=$$; exec sleep 1007'\r",
    )
    .await;
    let process = pid_printed(&client, TERMINAL, "p1=").await;
    create(&client, "ahp-terminal:/two", json!({})).await;
    client.subscribe("ahp-terminal:/two").await;
    type_into(&client, "ahp-terminal:/two", "exit 5\r").await;
    assert_eq!(exited(&client, "ahp-terminal:/two").await, Some(5));
    let stopped = host.stop().await;
    gone(process).await;
    client.cut().await;
    let host = stopped.start().await;
    client.move_to(host.address());
    client.reconnect().await.expect("known across restarts");
    // The client that continues, and one that never saw it.
    let other = OfficialClient::connect(host.address(), "second").await;
    for client in [&client, &other] {
        client
            .until("the list has their ends", |view| {
                let info = serde_json::to_value(listed(view)).expect("JSON");
                info[0]["lifecycle"] == json!({ "status": "exited" })
                    && info[1]["lifecycle"] == json!({ "status": "exited", "exitCode": 5 })
            })
            .await;
        client.subscribe(TERMINAL).await;
        assert_eq!(exited(client, TERMINAL).await, None);
        let shown = text(&client.view(), TERMINAL);
        assert!(shown.contains("before\r\n") && shown.contains(REASON), "{shown}");
    }
    other.subscribe("ahp-terminal:/two").await;
    assert!(
        !text(&other.view(), "ahp-terminal:/two").contains(REASON),
        "it had ended before"
    );
    type_into(&client, TERMINAL, "echo\r").await;
    assert_eq!(client.refusal(1).await, "the process of this terminal has ended");
    client.assert_converged().await;
    other.assert_converged().await;
    // Disposed of, it is gone for good.
    let _: serde_json::Value = client
        .request("disposeTerminal", json!({ "channel": TERMINAL }))
        .await
        .expect("disposed of");
    let host = host.stop().await.start().await;
    let third = OfficialClient::connect(host.address(), "third").await;
    third.until("one is left", |view| listed(view).len() == 1).await;
    assert_eq!(
        third.refused("subscribe", json!({ "channel": TERMINAL })).await.0,
        -32008
    );
}

#[tokio::test]
async fn trm17_after_a_crash_a_terminal_has_ended_and_its_processes_with_it() {
    let (host, client) = start_with_terminal(bash()).await;
    type_into(&client, TERMINAL, "sh -c 'echo p1=$$; exec sleep 1008'\r").await;
    let process = pid_printed(&client, TERMINAL, "p1=").await;
    let host = host.kill_and_restart().await;
    // The kernel hangs up when the host's side of the terminal is gone.
    gone(process).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    other.until("it is listed", |view| listed(view).len() == 1).await;
    other.subscribe(TERMINAL).await;
    assert_eq!(exited(&other, TERMINAL).await, None);
    assert!(text(&other.view(), TERMINAL).contains(REASON));
    other.assert_converged().await;
}

#[tokio::test]
async fn ses29_terminals_of_a_session_end_with_it() {
    let host = HostProcess::start(bash()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("short").await;
    let claim = json!({ "kind": "session", "session": uris.session, "chat": uris.chat });
    create(&client, TERMINAL, json!({ "claim": claim })).await;
    client.subscribe(TERMINAL).await;
    type_into(&client, TERMINAL, "sh -c 'echo p1=$$; exec sleep 1009'\r").await;
    let process = pid_printed(&client, TERMINAL, "p1=").await;
    let _: serde_json::Value = client
        .request("disposeSession", json!({ "channel": uris.session }))
        .await
        .expect("disposed of");
    gone(process).await;
    client.until("it is not listed", |view| listed(view).is_empty()).await;
}

#[tokio::test]
async fn the_directory_of_a_session_is_that_of_its_terminals() {
    let host = HostProcess::start(bash()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let directory = tempfile::tempdir().expect("a directory");
    let uri = format!("file://{}", directory.path().display());
    let uris = client.create_session_in("work", &uri).await;
    let claim = json!({ "kind": "session", "session": uris.session, "chat": uris.chat });
    create(&client, TERMINAL, json!({ "claim": claim })).await;
    client.subscribe(TERMINAL).await;
    type_into(&client, TERMINAL, "echo in $PWD.\r").await;
    shows(&client, TERMINAL, &format!("in {}.", directory.path().display())).await;
}
