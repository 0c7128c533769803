//! `innkeeper terminals`: run inside a terminal of the same host, where it has a real terminal to switch to raw mode.

use std::process::Stdio;

use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::support::{TERMINAL, bash, listed, shows, start_with_terminal, tail, type_into};

/// A client command of the program, for this host.
fn program(host: &HostProcess, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_innkeeper"));
    command
        .args(args)
        .arg("--data")
        .arg(host.data_path(""))
        .env_clear()
        .env("HOME", host.path(""))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn output(host: &HostProcess, args: &[&str]) -> String {
    let run = program(host, args).output().await.expect("it runs");
    assert!(run.status.success(), "{args:?}: {run:?}");
    String::from_utf8(run.stdout).expect("text")
}

#[tokio::test]
async fn terminals_are_listed_opened_and_ended_from_the_command_line() {
    let (host, client) = start_with_terminal(bash()).await;
    let uri = output(&host, &["terminals", "new", "--detached", "--name", "build"]).await;
    let uri = uri.trim();
    client.until("both are listed", |view| listed(view).len() == 2).await;
    let list = output(&host, &["terminals"]).await;
    assert!(
        list.contains(&format!("{TERMINAL}  bash  running  of client first")),
        "{list}"
    );
    assert!(
        list.contains(&format!("{uri}  build  running  of this command")),
        "{list}"
    );
    let json: Value = serde_json::from_str(&output(&host, &["terminals", "list", "--json"]).await).expect("JSON");
    assert_eq!(json[1]["resource"], *uri);
    // A script types into the terminal that the command opened, and reads to its end.
    let mut attached = program(&host, &["terminals", "attach", "build"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = attached.stdin.take().expect("a pipe");
    stdin
        .write_all(b"echo from a scr''ipt\rexit 5\r")
        .await
        .expect("written");
    drop(stdin);
    let run = attached.wait_with_output().await.expect("it ends");
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(shown.contains("from a script\r\n"), "{shown}");
    output(&host, &["terminals", "kill", "build"]).await;
    client.until("one is left", |view| listed(view).len() == 1).await;
    // A terminal of another client is only watched.
    let mut attached = program(&host, &["terminals", "attach", TERMINAL])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut stdin = attached.stdin.take().expect("a pipe");
    stdin.write_all(b"echo intruder\r").await.expect("written");
    let run = attached.wait_with_output().await.expect("it ends");
    let problem = String::from_utf8_lossy(&run.stderr);
    assert!(
        !run.status.success() && problem.contains("\"first\" holds this terminal"),
        "{problem}"
    );
    let none = program(&host, &["terminals", "kill", "nothing"])
        .output()
        .await
        .expect("it runs");
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no terminal \"nothing\""));
}

#[tokio::test]
async fn attaching_is_raw_follows_the_size_and_ends_with_the_detach_key() {
    let (host, client) = start_with_terminal(bash()).await;
    let innkeeper = env!("CARGO_BIN_EXE_innkeeper");
    let data = host.data_path("");
    let new = format!("{innkeeper} terminals new --name inner --data {}\r", data.display());
    type_into(&client, TERMINAL, &new).await;
    shows(&client, TERMINAL, "Attached. Ctrl-] detaches.").await;
    let inner = client
        .until_some("the inner terminal is listed", |view| {
            let inner = listed(view).into_iter().find(|info| info.title == "inner");
            inner.map(|info| info.resource)
        })
        .await;
    client.subscribe(&inner).await;
    // Keys go to the inner shell one by one, and Ctrl-C too.
    // The program says that it runs: a Ctrl-C while the shell starts it would reach nothing.
    type_into(&client, TERMINAL, "sh -c 'echo run''ning; exec sleep 1017'\r").await;
    shows(&client, &inner, "running\r\n").await;
    type_into(&client, TERMINAL, "\x03").await;
    type_into(&client, TERMINAL, "echo in''ner $(stty size)\r").await;
    shows(&client, TERMINAL, "inner 24 80\r\n").await;
    shows(&client, &inner, "inner 24 80\r\n").await;
    client
        .dispatch(TERMINAL, json!({ "type": "terminal/resized", "cols": 100, "rows": 30 }))
        .await;
    client
        .until("the inner one has the size", |view| {
            view.terminal(&inner).and_then(|state| state.cols) == Some(100)
        })
        .await;
    // The modes that a program left on are switched back, so that the user's own lines are there again.
    type_into(&client, TERMINAL, "printf '\\e[?1049h\\e[?25l\\e[1mfu''ll'\r").await;
    shows(&client, TERMINAL, "full").await;
    type_into(&client, TERMINAL, "\x1d").await;
    shows(&client, TERMINAL, "Detached. The terminal goes on.").await;
    let shown = tail(&client.view(), TERMINAL);
    let (_, after) = shown.rsplit_once("full").expect("shown above");
    for undo in ["\x1b[m", "\x1b[?25h", "\x1b[?1049l"] {
        assert!(after.contains(undo), "{undo:?} in {after:?}");
    }
    // The outer shell has its own mode again, and the inner one goes on.
    type_into(&client, TERMINAL, "stty -a | grep -o '[- ]icanon'; echo out''er\r").await;
    shows(&client, TERMINAL, "outer\r\n").await;
    assert!(
        tail(&client.view(), TERMINAL).contains(" icanon"),
        "{}",
        tail(&client.view(), TERMINAL)
    );
    let attach = format!("{innkeeper} terminals attach inner --data {}\r", data.display());
    type_into(&client, TERMINAL, &attach).await;
    client
        .until("what it showed is shown again", |view| {
            let shown = tail(view, TERMINAL);
            let again = shown.rsplit("Attached. Ctrl-] detaches.").next().unwrap_or_default();
            again.contains("inner 24 80")
        })
        .await;
    type_into(&client, TERMINAL, "exit 9\r").await;
    shows(&client, TERMINAL, "The terminal's process exited with 9.").await;
}
