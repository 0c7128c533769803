//! The set-up that the scenarios share.

use ahp_types::state::{TerminalCommandPart, TerminalContentPart, TerminalInfo, TerminalLifecycleState, TerminalState};
use innkeeper_testkit::official::{OfficialClient, View};
use innkeeper_testkit::process::{HostOptions, HostProcess};
use serde_json::{Value, json};

use crate::options;

/// The terminal of most scenarios.
pub(crate) const TERMINAL: &str = "ahp-terminal:/one";

/// Bytes that [`tail`] returns at least, if there are so many.
const TAIL: usize = 64 << 10;

/// A host whose terminals run bash, with the environment of this process for its programs.
pub(crate) fn bash() -> HostOptions {
    shell("/bin/bash")
}

/// A host whose terminals run this shell.
pub(crate) fn shell(path: &str) -> HostOptions {
    let path_of_programs = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let section = format!("[terminals]\nshell = {path:?}");
    options().environment("PATH", path_of_programs).setting(&section)
}

/// A host with terminals, and one client that has one.
pub(crate) async fn start_with_terminal(options: HostOptions) -> (HostProcess, OfficialClient) {
    let host = HostProcess::start(options).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    create(&client, TERMINAL, json!({})).await;
    client.subscribe(TERMINAL).await;
    (host, client)
}

/// The parameters of a terminal that a client claims for itself.
pub(crate) fn of_client(client: &OfficialClient, uri: &str, more: Value) -> Value {
    let mut params = more;
    params["channel"] = json!(uri);
    if params["claim"].is_null() {
        params["claim"] = json!({ "kind": "client", "clientId": client.client_id });
    }
    params
}

/// Creates a terminal, for the client itself unless the parameters claim it otherwise.
pub(crate) async fn create(client: &OfficialClient, uri: &str, more: Value) {
    let params = of_client(client, uri, more);
    let created: Value = client.request("createTerminal", params).await.expect("created");
    assert_eq!(created, Value::Null, "TRM-01");
}

/// Types into a terminal.
pub(crate) async fn type_into(client: &OfficialClient, uri: &str, data: &str) {
    let input = json!({ "type": "terminal/input", "data": data });
    client.dispatch(uri, input).await;
}

/// Returns everything that a terminal's state contains, as text with escapes.
pub(crate) fn text_of(state: &TerminalState) -> String {
    let parts = state.content.iter().map(|part| match part {
        TerminalContentPart::Unclassified(part) => part.value.as_str(),
        TerminalContentPart::Command(part) => part.output.as_str(),
        TerminalContentPart::Unknown(_) => panic!("a part that the published types cannot read"),
    });
    parts.collect()
}

/// Returns the commands of a terminal.
pub(crate) fn commands_of(state: &TerminalState) -> Vec<TerminalCommandPart> {
    let parts = state.content.iter().filter_map(|part| match part {
        TerminalContentPart::Command(part) => Some(part.clone()),
        TerminalContentPart::Unclassified(_) | TerminalContentPart::Unknown(_) => None,
    });
    parts.collect()
}

/// Returns the text of a terminal in a client's mirror.
pub(crate) fn text(view: &View, uri: &str) -> String {
    view.terminal(uri).map(text_of).unwrap_or_default()
}

/// Returns how many bytes a terminal in a client's mirror shows.
pub(crate) fn length(view: &View, uri: &str) -> usize {
    let parts = view
        .terminal(uri)
        .map(|state| state.content.as_slice())
        .unwrap_or_default();
    let lengths = parts.iter().map(|part| match part {
        TerminalContentPart::Unclassified(part) => part.value.len(),
        TerminalContentPart::Command(part) => part.output.len(),
        TerminalContentPart::Unknown(_) => 0,
    });
    lengths.sum()
}

/// Returns the last thousands of bytes of a terminal in a client's mirror.
pub(crate) fn tail(view: &View, uri: &str) -> String {
    let parts = view
        .terminal(uri)
        .map(|state| state.content.as_slice())
        .unwrap_or_default();
    let mut tail = String::new();
    for part in parts.iter().rev() {
        let part = match part {
            TerminalContentPart::Unclassified(part) => part.value.as_str(),
            TerminalContentPart::Command(part) => part.output.as_str(),
            TerminalContentPart::Unknown(_) => "",
        };
        let start = part.ceil_char_boundary(part.len().saturating_sub(TAIL));
        tail.insert_str(0, &part[start..]);
        if tail.len() >= TAIL {
            break;
        }
    }
    tail
}

/// Waits until a terminal shows a text.
pub(crate) async fn shows(client: &OfficialClient, uri: &str, expected: &str) {
    client
        .until(&format!("{uri} shows {expected:?}"), |view| {
            tail(view, uri).contains(expected)
        })
        .await;
}

/// Waits until the process of a terminal has ended, and returns its exit code.
pub(crate) async fn exited(client: &OfficialClient, uri: &str) -> Option<i64> {
    client
        .until_some(&format!("{uri} has ended"), |view| {
            match &view.terminal(uri)?.lifecycle {
                TerminalLifecycleState::Running(_) => None,
                TerminalLifecycleState::Exited(exited) => Some(exited.exit_code),
            }
        })
        .await
}

/// Returns the terminals in the list of the root.
pub(crate) fn listed(view: &View) -> Vec<TerminalInfo> {
    let terminals = view.root().and_then(|root| root.terminals.clone());
    terminals.unwrap_or_default()
}

/// Waits until a terminal shows a marker with a process id behind it, and returns the id. The line that prints it has a
/// variable there.
pub(crate) async fn pid_printed(client: &OfficialClient, uri: &str, marker: &str) -> u32 {
    client
        .until_some(&format!("{uri} prints {marker}"), |view| {
            let text = tail(view, uri);
            text.match_indices(marker).find_map(|(at, _)| {
                let after = &text[at + marker.len()..];
                let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
                // The number is complete when something follows it.
                (after.len() > digits.len()).then(|| digits.parse().ok())?
            })
        })
        .await
}
