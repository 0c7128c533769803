//! The host's log, as a client hears it. The published client drops these notifications, so the raw one listens.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::raw::RawClient;

/// One record of the log, with the channel it came on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRecord {
    /// The URI of the channel.
    pub channel: String,
    /// `severityNumber`.
    pub severity: u64,
    /// The name of its scope.
    pub scope: String,
    /// Its text.
    pub body: String,
    /// Its attributes, each as text.
    pub attributes: BTreeMap<String, String>,
}

/// Whether a message carries part of the log.
pub fn is_log(message: &Value) -> bool {
    message["method"] == "otlp/exportLogs"
}

/// The records that a notification carries.
pub fn records(message: &Value) -> Vec<ReceivedRecord> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let params = &message["params"];
    let mut heard = Vec::new();
    for resource in list(&params["payload"]["resourceLogs"]) {
        for scope in list(&resource["scopeLogs"]) {
            for record in list(&scope["logRecords"]) {
                let attributes = list(&record["attributes"]).into_iter().map(|attribute| {
                    let value = attribute["value"].as_object().and_then(|value| value.values().next());
                    let value = match value {
                        Some(Value::String(text)) => text.clone(),
                        Some(other) => other.to_string(),
                        None => String::new(),
                    };
                    (text(&attribute["key"]), value)
                });
                heard.push(ReceivedRecord {
                    channel: text(&params["channel"]),
                    severity: record["severityNumber"].as_u64().unwrap_or_default(),
                    scope: text(&scope["scope"]["name"]),
                    body: text(&record["body"]["stringValue"]),
                    attributes: attributes.collect(),
                });
            }
        }
    }
    heard
}

/// The log of one connection from now on.
pub struct LogListener {
    /// The connection.
    pub client: RawClient,
    /// The records received so far, oldest first.
    pub heard: Vec<ReceivedRecord>,
}

impl LogListener {
    /// Subscribes a connection that is initialized.
    pub async fn subscribe(mut client: RawClient, level: &str) -> Self {
        let channel = json!({ "channel": format!("ahp-otlp://logs/{level}") });
        let answer = client.call("subscribe", channel).await;
        assert_eq!(answer, Ok(json!({})), "a log has no state");
        Self::of(client)
    }

    /// Listens on a connection that has subscribed already.
    pub fn of(client: RawClient) -> Self {
        Self {
            client,
            heard: Vec::new(),
        }
    }

    /// Waits until a record that fits was heard.
    pub async fn until(&mut self, what: &str, fits: impl Fn(&ReceivedRecord) -> bool) -> ReceivedRecord {
        loop {
            if let Some(found) = self.heard.iter().find(|record| fits(record)) {
                return found.clone();
            }
            let message = self.client.notification(what, is_log).await;
            self.heard.extend(records(&message));
        }
    }
}
