//! Records as an OTLP/JSON `ExportLogsServiceRequest`.
//!
//! The handful of fields that the host fills are written here rather than taken from `opentelemetry-proto`: that
//! would add forty crates for three structs, and write every absent field as `null`.

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::record::{LogLevel, LogRecord, LogValue};

/// The records from a level on, if there are any. Neighbours of one scope stand together, and the order stays.
pub(super) fn payload(
    service: &str,
    version: Option<&str>,
    records: &[LogRecord],
    level: LogLevel,
) -> Option<Box<RawValue>> {
    let lowest = level.lowest();
    let wanted: Vec<&LogRecord> = records.iter().filter(|record| record.severity >= lowest).collect();
    if wanted.is_empty() {
        return None;
    }
    let scope_logs = wanted
        .chunk_by(|one, next| one.scope == next.scope)
        .filter_map(|records| {
            Some(ScopeLogs {
                scope: Scope {
                    name: &records.first()?.scope,
                },
                log_records: records.iter().map(|record| Record::of(record)).collect(),
            })
        });
    let mut attributes = vec![attribute("service.name", Value::Text(service))];
    attributes.extend(version.map(|version| attribute("service.version", Value::Text(version))));
    let request = Request {
        resource_logs: [ResourceLogs {
            resource: Resource { attributes },
            scope_logs: scope_logs.collect(),
        }],
    };
    serde_json::value::to_raw_value(&request).ok()
}

/// `otlp/exportLogs` (OTL-02), for the subscribers of exactly this URI (OTL-03).
pub(super) fn notification(uri: &str, payload: &RawValue) -> Bytes {
    let channel = serde_json::Value::from(uri);
    let payload = payload.get();
    format!(r#"{{"jsonrpc":"2.0","method":"otlp/exportLogs","params":{{"channel":{channel},"payload":{payload}}}}}"#)
        .into()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_logs: [ResourceLogs<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceLogs<'a> {
    resource: Resource<'a>,
    scope_logs: Vec<ScopeLogs<'a>>,
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeLogs<'a> {
    scope: Scope<'a>,
    log_records: Vec<Record<'a>>,
}

#[derive(Serialize)]
struct Scope<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    /// 64-bit numbers are strings in OTLP/JSON.
    time_unix_nano: String,
    observed_time_unix_nano: String,
    severity_number: u8,
    severity_text: &'static str,
    body: Value<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute<'a>>,
}

impl<'a> Record<'a> {
    fn of(record: &'a LogRecord) -> Self {
        let time = record.time_unix_nano.to_string();
        let attributes = record.attributes.iter();
        let attributes = attributes.map(|(key, value)| {
            let value = match value {
                LogValue::Text(text) => Value::Text(text),
                LogValue::Int(number) => Value::Int(*number),
                LogValue::Bool(value) => Value::Bool(*value),
            };
            attribute(key, value)
        });
        Self {
            // The writer of a record also observes it.
            observed_time_unix_nano: time.clone(),
            time_unix_nano: time,
            severity_number: record.severity.number(),
            severity_text: record.severity.text(),
            body: Value::Text(&record.body),
            attributes: attributes.collect(),
        }
    }
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: Value<'a>,
}

fn attribute<'a>(key: &'a str, value: Value<'a>) -> Attribute<'a> {
    Attribute { key, value }
}

enum Value<'a> {
    Text(&'a str),
    Int(i64),
    Bool(bool),
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::Text(text) => map.serialize_entry("stringValue", text)?,
            Self::Int(number) => map.serialize_entry("intValue", &number.to_string())?,
            Self::Bool(value) => map.serialize_entry("boolValue", value)?,
        }
        map.end()
    }
}
