//! Requests that agents answer: values of settings.

use std::time::Duration;

use innkeeper_host::agent::{Setting, SettingKind, SettingQuery, SettingValue};
use innkeeper_host::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, Host, Limits, async_trait};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::OfficialClient;
use serde_json::{Value, json};

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
async fn cmp06_an_agent_completes_setting_values_and_reports_failures() {
    let limits = Limits {
        look_up_time: Duration::from_millis(100),
        requests_in_flight: 2,
        ..Limits::default()
    };
    let builder = Host::builder().agent(Librarian).agent(TestAgent).limits(limits);
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
    // More at once than may be in flight: each keeps its place until it is answered.
    let all = futures_util::future::join_all((0..8).map(|_| values(&client, "librarian", "book", "slow"))).await;
    assert!(all.iter().all(Result::is_err));
    client.client().ping().await.expect("still there");
}
