//! Creation, input, size, title, directory, clearing, end and disposal.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostProcess, gone};
use serde_json::json;

use super::support::{
    TERMINAL, bash, create, exited, listed, of_client, pid_printed, shell, shows, start_with_terminal, text, type_into,
};

#[tokio::test]
async fn trm01_trm06_trm10_a_client_opens_a_shell_and_types_into_it() {
    let host = HostProcess::start(bash()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let other = OfficialClient::connect(host.address(), "second").await;
    let home = format!("file://{}", host.path("").display());
    create(
        &client,
        TERMINAL,
        json!({ "name": "build", "cols": 100, "rows": 30, "cwd": home }),
    )
    .await;
    for client in [&client, &other] {
        client.until("it is listed", |view| listed(view).len() == 1).await;
        let info = serde_json::to_value(listed(&client.view())).expect("JSON");
        let expected = json!([{
            "resource": TERMINAL, "title": "build", "lifecycle": { "status": "running" },
            "claim": { "kind": "client", "clientId": "first" },
        }]);
        assert_eq!(info, expected);
        client.subscribe(TERMINAL).await;
    }
    let state = client.view().terminal(TERMINAL).cloned().expect("subscribed");
    assert_eq!((state.cols, state.rows), (Some(100), Some(30)));
    assert_eq!(
        state.cwd.as_deref().map(|cwd| cwd.trim_end_matches('/')),
        Some(home.trim_end_matches('/'))
    );
    assert_eq!(state.is_pty, Some(true));
    type_into(&client, TERMINAL, "echo to''gether; stty size; tty\r").await;
    for client in [&client, &other] {
        shows(client, TERMINAL, "together\r\n30 100\r\n/dev/pts/").await;
    }
    let before = other.view().terminal(TERMINAL).cloned();
    assert!(before.is_some());
    client.assert_converged().await;
    other.assert_converged().await;
    // The same URI twice, and a URI of something else.
    let again = client
        .refused("createTerminal", of_client(&client, TERMINAL, json!({})))
        .await;
    assert_eq!(again.0, -32010, "{again:?}");
    let wrong = client
        .refused("createTerminal", of_client(&client, "ahp-chat:/one", json!({})))
        .await;
    assert_eq!(wrong.0, -32602, "{wrong:?}");
}

#[tokio::test]
async fn trm12_a_resize_reaches_the_program() {
    let (_host, client) = start_with_terminal(bash()).await;
    type_into(&client, TERMINAL, "trap 'echo now $(stty size)' WINCH; echo rea''dy\r").await;
    shows(&client, TERMINAL, "ready").await;
    let resized = |cols: i64, rows: i64| json!({ "type": "terminal/resized", "cols": cols, "rows": rows });
    client.dispatch(TERMINAL, resized(132, 50)).await;
    // Some versions of bash run a trap of this signal with the next line.
    type_into(&client, TERMINAL, "\r").await;
    shows(&client, TERMINAL, "now 50 132").await;
    assert_eq!(client.view().terminal(TERMINAL).and_then(|state| state.cols), Some(132));
    client.dispatch(TERMINAL, resized(0, 50)).await;
    assert_eq!(client.refusal(1).await, "cols: 0 is not between 1 and 4096");
    client.assert_converged().await;
}

#[tokio::test]
async fn a_title_and_a_directory_are_those_that_the_program_reports() {
    let (host, client) = start_with_terminal(shell("/bin/sh")).await;
    type_into(
        &client,
        TERMINAL,
        "printf '\\033]2;my title\\007\\033]7;file://box/usr/local\\007'\r",
    )
    .await;
    client
        .until("both are known", |view| {
            let state = view.terminal(TERMINAL).expect("subscribed");
            state.title == "my title" && state.cwd.as_deref() == Some("file:///usr/local")
        })
        .await;
    client
        .until("the list has the title", |view| {
            listed(view).iter().any(|info| info.title == "my title")
        })
        .await;
    // A user can rename it, too, and other clients see that.
    let other = OfficialClient::connect(host.address(), "second").await;
    let titled = json!({ "type": "terminal/titleChanged", "title": "renamed" });
    client.dispatch(TERMINAL, titled).await;
    other
        .until("the list has the title", |view| {
            listed(view).iter().any(|info| info.title == "renamed")
        })
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn trm13_clearing_empties_the_output_for_all_clients() {
    let (host, client) = start_with_terminal(bash()).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    other.subscribe(TERMINAL).await;
    type_into(&client, TERMINAL, "echo sec''ret\r").await;
    shows(&other, TERMINAL, "secret").await;
    client.dispatch(TERMINAL, json!({ "type": "terminal/cleared" })).await;
    other
        .until("it is empty", |view| !text(view, TERMINAL).contains("secret"))
        .await;
    let late = OfficialClient::connect(host.address(), "third").await;
    late.subscribe(TERMINAL).await;
    assert!(!text(&late.view(), TERMINAL).contains("secret"));
    type_into(&client, TERMINAL, "echo af''ter\r").await;
    shows(&late, TERMINAL, "after").await;
    other.assert_converged().await;
    late.assert_converged().await;
}

#[tokio::test]
async fn trm10_trm11_the_end_of_the_process_follows_its_last_output() {
    let (_host, client) = start_with_terminal(bash()).await;
    type_into(&client, TERMINAL, "seq 1 20000; printf 'the l''ast'; exit 7\r").await;
    assert_eq!(exited(&client, TERMINAL).await, Some(7));
    let shown = text(&client.view(), TERMINAL);
    assert!(
        shown.contains("\n19999\r\n20000\r\nthe last"),
        "all of it came before the end"
    );
    let actions = client.view().actions_on(TERMINAL);
    assert_eq!(actions.last().expect("actions")["type"], "terminal/exited");
    client
        .until("the list has the end", |view| {
            let info = serde_json::to_value(listed(view)).expect("JSON");
            info[0]["lifecycle"] == json!({ "status": "exited", "exitCode": 7 })
        })
        .await;
    type_into(&client, TERMINAL, "too late").await;
    assert_eq!(client.refusal(1).await, "the process of this terminal has ended");
    // VS Code fits the terminal of a finished command to its view.
    let resized = json!({ "type": "terminal/resized", "cols": 61, "rows": 17 });
    client.dispatch(TERMINAL, resized).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn trm10_a_process_that_a_signal_ends_has_no_exit_code() {
    let (_host, client) = start_with_terminal(bash()).await;
    type_into(&client, TERMINAL, "kill -9 $$\r").await;
    assert_eq!(exited(&client, TERMINAL).await, None);
    client.assert_converged().await;
}

#[tokio::test]
async fn trm02_disposing_of_a_terminal_ends_everything_that_it_started() {
    let (host, client) = start_with_terminal(bash()).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    // A job in the background, one that ignores the hangup, a pipeline, a stopped job, and one in the foreground.
    let lines = "sleep 1001 & echo p1=$!\r(trap '' HUP; exec sleep 1002) & echo p2=$!\r\
                 sleep 1003 | cat & echo p3=$!\rsleep 1004 & kill -STOP $!; echo p4=$!\r\
                 sh -c 'echo p5=$$; exec sleep 1005'\r";
    type_into(&client, TERMINAL, lines).await;
    let mut processes = Vec::new();
    for marker in ["p1=", "p2=", "p3=", "p4=", "p5="] {
        processes.push(pid_printed(&client, TERMINAL, marker).await);
    }
    // A holder decides about its terminal; the list follows for all clients.
    let disposed: serde_json::Value = client
        .request("disposeTerminal", json!({ "channel": TERMINAL }))
        .await
        .expect("disposed of");
    assert_eq!(disposed, serde_json::Value::Null);
    for process in processes {
        gone(process).await;
    }
    for client in [&client, &other] {
        client.until("it is not listed", |view| listed(view).is_empty()).await;
    }
    let unknown = other.refused("subscribe", json!({ "channel": TERMINAL })).await;
    assert_eq!(unknown.0, -32008, "{unknown:?}");
    let unknown = client.refused("disposeTerminal", json!({ "channel": TERMINAL })).await;
    assert_eq!(unknown.0, -32008, "{unknown:?}");
    // The URI is free again.
    create(&client, TERMINAL, json!({})).await;
}

#[tokio::test]
async fn jobs_in_the_background_end_with_their_shell() {
    let (_host, client) = start_with_terminal(bash()).await;
    type_into(&client, TERMINAL, "(trap '' HUP; exec sleep 1006) & echo p1=$!\r").await;
    let job = pid_printed(&client, TERMINAL, "p1=").await;
    type_into(&client, TERMINAL, "exit 3\r").await;
    assert_eq!(exited(&client, TERMINAL).await, Some(3));
    gone(job).await;
}
