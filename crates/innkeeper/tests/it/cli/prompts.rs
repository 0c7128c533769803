//! Questions on a terminal: `send` runs in a terminal of another host, where it has a real one to ask on.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use serde_json::json;

use crate::options;
use crate::terminals::support::{TERMINAL, bash, shows, start_with_terminal, type_into};

/// Two hosts: one whose terminal the user sits at, and one to which `send` talks.
struct Desk {
    _screen: HostProcess,
    user: OfficialClient,
    host: HostProcess,
}

impl Desk {
    async fn new() -> Self {
        let (screen, user) = start_with_terminal(bash()).await;
        let host = HostProcess::start(options()).await;
        let program = env!("CARGO_BIN_EXE_innkeeper");
        let setup = format!(
            "export INNKEEPER_DATA='{}'; ink() {{ '{program}' \"$@\"; }}; PS1='$ '; clear; echo rea''dy\r",
            host.data_path("").display()
        );
        type_into(&user, TERMINAL, &setup).await;
        shows(&user, TERMINAL, "ready").await;
        Self {
            _screen: screen,
            user,
            host,
        }
    }

    async fn enter(&self, line: &str) {
        type_into(&self.user, TERMINAL, &format!("{line}\r")).await;
    }

    async fn shows(&self, text: &str) {
        shows(&self.user, TERMINAL, text).await;
    }
}

#[tokio::test]
async fn send_asks_for_approvals_with_every_option_and_takes_a_reason() {
    let desk = Desk::new().await;
    desk.enter("ink send /options").await;
    desk.shows("2  Loudly").await;
    desk.shows("n [reason] = deny]").await;
    // An unclear line decides nothing.
    desk.enter("perhaps").await;
    desk.enter("2").await;
    desk.shows("ding (loudly)").await;
    desk.shows("continue with: ").await;
    desk.enter("ink send -c /confirm").await;
    desk.shows("| times: 3").await;
    desk.enter("n it is night").await;
    desk.shows("(it is night)").await;
}

#[tokio::test]
async fn send_asks_every_kind_of_question() {
    let desk = Desk::new().await;
    desk.enter("ink send /ask").await;
    desk.shows("What is your name?").await;
    desk.enter("Ada").await;
    desk.shows("How long must the bed be").await;
    desk.enter("2.1").await;
    desk.shows("How many nights").await;
    desk.enter("3").await;
    desk.shows("Do you bring a pet?").await;
    desk.enter("no").await;
    desk.shows("2  Street").await;
    desk.enter("2").await;
    desk.shows("3  Supper").await;
    desk.enter("1,3").await;
    desk.shows("name: Ada").await;
    desk.shows("nights: 3").await;
}

#[tokio::test]
async fn a_question_that_another_client_answers_is_withdrawn() {
    let desk = Desk::new().await;
    desk.enter("ink send /confirm").await;
    desk.shows("| times: 3").await;
    let other = OfficialClient::connect(desk.host.address(), "other").await;
    let sessions: serde_json::Value = other
        .request("listSessions", json!({ "channel": "ahp-root://" }))
        .await
        .expect("listed");
    let session = sessions["items"][0]["resource"].as_str().expect("a session");
    other.subscribe(session).await;
    let request = other
        .until_some("the session waits", |view| {
            view.session(session)?.input_needed.clone()?.into_iter().next()
        })
        .await;
    let request = serde_json::to_value(request).expect("JSON");
    let chat = request["chat"].as_str().expect("a chat");
    other
        .dispatch(
            chat,
            json!({
                "type": "chat/toolCallConfirmed", "turnId": request["turnId"],
                "toolCallId": request["toolCall"]["toolCallId"], "approved": true,
            }),
        )
        .await;
    desk.shows("this was settled elsewhere").await;
    desk.shows("I rang the bell 3 times").await;
}
