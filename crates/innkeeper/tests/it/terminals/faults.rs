//! Shells that cannot be started, directories that are not there, and the environment of shells.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use serde_json::json;

use super::support::{TERMINAL, bash, create, listed, of_client, shell, shows, start_with_terminal, text, type_into};

#[tokio::test]
async fn a_shell_that_cannot_be_started_is_an_error_that_names_it() {
    for (program, problem) in [
        ("/no/such/shell", "there is no shell /no/such/shell"),
        ("/etc/passwd", "/etc/passwd is not a program"),
    ] {
        let host = HostProcess::start(shell(program)).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        let refused = client
            .refused("createTerminal", of_client(&client, TERMINAL, json!({})))
            .await;
        assert_eq!(refused.0, -32603, "{refused:?}");
        assert!(refused.1.contains(problem), "{refused:?}");
        client.caught_up().await;
        assert!(listed(&client.view()).is_empty());
        assert_eq!(
            client.refused("subscribe", json!({ "channel": TERMINAL })).await.0,
            -32008
        );
    }
}

#[tokio::test]
async fn a_missing_directory_is_an_error_and_one_that_vanishes_is_none() {
    let (_host, client) = start_with_terminal(bash()).await;
    let directory = tempfile::tempdir().expect("a directory");
    let uri = format!("file://{}", directory.path().display());
    create(&client, "ahp-terminal:/two", json!({ "cwd": uri })).await;
    client.subscribe("ahp-terminal:/two").await;
    type_into(&client, "ahp-terminal:/two", "echo rea''dy\r").await;
    shows(&client, "ahp-terminal:/two", "ready\r\n").await;
    std::fs::remove_dir_all(directory.path()).expect("removed");
    type_into(&client, "ahp-terminal:/two", "echo still he''re\r").await;
    shows(&client, "ahp-terminal:/two", "still here\r\n").await;
    for (cwd, problem) in [
        (uri.as_str(), "is not a directory"),
        ("file:///etc/passwd", "/etc/passwd is not a directory"),
        ("http://example.com/x", "is not a directory of this machine"),
        ("relative", "is not a directory of this machine"),
    ] {
        let params = of_client(&client, "ahp-terminal:/three", json!({ "cwd": cwd }));
        let refused = client.refused("createTerminal", params).await;
        assert!(refused.1.contains(problem), "{refused:?}");
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn t15_a_shell_has_no_secret_of_the_host() {
    let options = bash()
        .environment("OPENAI_API_KEY", "s3cr3t-of-a-provider")
        .environment("AWS_SECRET_ACCESS_KEY", "s3cr3t-of-a-cloud")
        .environment("PASSED_ON", "on purpose")
        .environment("LANG", "C.UTF-8")
        .setting("pass_env = [\"PASSED_ON\"]\nenv = { FIXED = \"by the configuration\" }");
    let (_host, client) = start_with_terminal(options).await;
    type_into(
        &client,
        TERMINAL,
        "env; cat /proc/$$/environ | tr '\\0' '\\n'; echo do''ne\r",
    )
    .await;
    shows(&client, TERMINAL, "done\r\n").await;
    let shown = text(&client.view(), TERMINAL);
    for expected in [
        "PASSED_ON=on purpose",
        "FIXED=by the configuration",
        "LANG=C.UTF-8",
        "TERM=xterm-256color",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    assert!(!shown.contains("s3cr3t"), "{shown}");
    assert!(!shown.contains("INNKEEPER_TEST_LIMITS"), "{shown}");
}

#[tokio::test]
async fn a_program_that_does_not_read_costs_only_its_own_input() {
    let (host, client) = start_with_terminal(bash()).await;
    create(&client, "ahp-terminal:/two", json!({})).await;
    client.subscribe("ahp-terminal:/two").await;
    type_into(&client, TERMINAL, "stty raw -echo; echo rea''dy; sleep 1010\r").await;
    shows(&client, TERMINAL, "ready").await;
    let pasted = "x".repeat(1 << 20);
    for _ in 0..30 {
        type_into(&client, TERMINAL, &pasted).await;
        // Every paste is echoed to its author, and the host closes the connection of a client that does not read.
        client.caught_up().await;
    }
    type_into(&client, "ahp-terminal:/two", "echo oth''er\r").await;
    shows(&client, "ahp-terminal:/two", "other\r\n").await;
    type_into(&client, TERMINAL, &"x".repeat((1 << 20) + 1)).await;
    let refused = client.refusal(1).await;
    assert!(
        refused.contains("one action has at most 1048576; send several"),
        "{refused}"
    );
    drop(host);
}

#[tokio::test]
async fn terminals_can_be_switched_off() {
    let host = HostProcess::start(crate::options().setting("[terminals]\nenabled = false")).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let refused = client
        .refused("createTerminal", of_client(&client, TERMINAL, json!({})))
        .await;
    assert_eq!(refused.0, -32601, "{refused:?}");
}
