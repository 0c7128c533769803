//! What is found outside the core: values of settings, completions, tokens.

use std::time::Duration;

use innkeeper_host::{
    Agent, AgentChat, AgentError, AgentInfo, ChatContext, Host, Limits, Setting, SettingKind, SettingQuery,
    SettingValue, TourAgent, async_trait,
};
use innkeeper_testkit::official::OfficialClient;
use serde_json::{Value, json};

use crate::Running;
use crate::scripted::Scene;

/// Finds values in its own good time, or not at all.
struct Librarian;

#[async_trait]
impl Agent for Librarian {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("librarian", "Librarian", "Looks for books.").with_setting(Setting {
            id: "book".to_owned(),
            title: "Book".to_owned(),
            description: None,
            kind: SettingKind::Search(Vec::new()),
            default: None,
            mutable: false,
            read_only: false,
            required: false,
        })
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Err(AgentError::failed("closed", "the library is closed"))
    }

    async fn setting_values(&self, query: SettingQuery) -> Vec<SettingValue> {
        match query.text.as_str() {
            "slow" => std::future::pending().await,
            "panic" => panic!("asked for by the test"),
            text => vec![SettingValue {
                value: text.to_owned(),
                label: text.to_uppercase(),
                description: None,
            }],
        }
    }
}

async fn values(client: &OfficialClient, provider: &str, property: &str, query: &str) -> Result<Value, String> {
    let params = json!({
        "channel": "ahp-root://", "provider": provider, "property": property, "query": query, "config": {},
    });
    let found: Result<Value, _> = client.request("sessionConfigCompletions", params).await;
    found.map_err(|error| error.to_string())
}

#[tokio::test]
async fn cmp06_an_agent_finds_values_while_somebody_types_and_failures_are_said() {
    let limits = Limits {
        look_up_time: Duration::from_millis(100),
        requests_in_flight: 2,
        ..Limits::default()
    };
    let builder = Host::builder().agent(Librarian).agent(TourAgent::new()).limits(limits);
    let running = Running::start(builder).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let found = values(&client, "librarian", "book", "ink").await.expect("found");
    assert_eq!(found, json!({ "items": [{ "value": "ink", "label": "INK" }] }));
    let slow = values(&client, "librarian", "book", "slow")
        .await
        .expect_err("too slow");
    assert!(slow.contains("-32603") && slow.contains("100 ms"), "{slow}");
    let broken = values(&client, "librarian", "book", "panic").await.expect_err("broken");
    assert!(broken.contains("-32603") && broken.contains("log"), "{broken}");
    let topics = values(&client, "tour", "topic", "RI").await.expect("found");
    let topics: Vec<&str> = topics["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["value"].as_str())
        .collect();
    assert_eq!(topics, ["bridges", "rivers"]);
    // More at once than may be in flight: each keeps its place until it is answered.
    let all = futures_util::future::join_all((0..8).map(|_| values(&client, "librarian", "book", "slow"))).await;
    assert!(all.iter().all(Result::is_err));
    client.client().ping().await.expect("still there");
}

#[tokio::test]
async fn cmp01_the_commands_of_an_agent_complete_a_message() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    let params = json!({ "channel": scene.uris.chat, "kind": "userMessage", "text": "/conf", "offset": 5 });
    let found: Value = scene.client.request("completions", params).await.expect("found");
    assert_eq!(found["items"][0]["insertText"], "/confirm ");
}

/// (AUTH-04, AUTH-12)
#[tokio::test]
async fn tool15_a_call_of_an_mcp_server_goes_on_once_somebody_has_signed_in() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    scene.begin("/auth").await;
    scene.call("auth-required").await;
    let params = json!({
        "channel": "ahp-root://", "resource": "https://guest-book.example.com", "token": "very-secret",
    });
    let _: Value = scene.client.request("authenticate", params).await.expect("taken");
    let words = scene.words().await;
    assert!(words.contains("forgotten the token"), "{words}");
    let seen = format!("{:?}", scene.client.view().actions);
    assert!(!seen.contains("very-secret"), "a token is never shown");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn tool15_giving_up_signing_in_ends_the_call() {
    let scene = Scene::with(Host::builder().agent(TourAgent::new())).await;
    scene.begin("/auth").await;
    let call = scene.call("auth-required").await;
    let result = json!({ "success": false, "pastTenseMessage": "Gave up" });
    scene
        .about(&call, json!({ "type": "chat/toolCallComplete", "result": result }))
        .await;
    assert_eq!(scene.words().await, "Then the guest book stays locked.");
    scene.client.assert_converged().await;
}

/// Creating a session reports how far it is to whoever asked (ROOT-17, ROOT-18).
#[tokio::test]
async fn root17_an_agent_reports_progress_while_it_opens() {
    let running = Running::start(Host::builder().agent(TourAgent::new())).await;
    let mut client = innkeeper_testkit::raw::RawClient::initialized(&running.address, "first").await;
    let params = json!({ "channel": "ahp-session:/lamps", "progressToken": "p1" });
    client.ask("createSession", params).await;
    let progress = client
        .notification("progress", |message| message["method"] == "root/progress")
        .await;
    assert_eq!(progress["params"]["progressToken"], "p1");
    assert_eq!(progress["params"]["message"], "Lighting the lamps");
}
