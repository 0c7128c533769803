//! The host's log, for clients with the scope `admin`: `ahp-otlp://logs/{level}` (OTL-01 to OTL-07).
//!
//! These channels have no state. A subscription is answered with an empty object. A record takes no sequence number,
//! is never persisted and never replayed: a connection gets the records that are written while it subscribes
//! (OTL-05). Each spelling of a URI is a stream of its own and is named in its notifications (OTL-03), but records
//! are encoded once per level, however many subscribe.
//!
//! The log contains details of all sessions, and AHP has no owners of sessions by which it could be filtered. So it
//! is for the scope `admin` alone: other connections are not offered it and cannot subscribe.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::clients::access::Scope;
use crate::core::{Cx, Host};
use crate::effect::Delivery;
use crate::ids::ConnId;
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::RequestId;
use crate::protocol::uri;

mod otlp;
mod record;

pub use record::{LogLevel, LogRecord, LogValue, Severity};

/// Where logs are, with the variable that clients fill in (OTL-01). The reference host has the same.
pub const LOGS_TEMPLATE: &str = "ahp-otlp://logs/{level}";

/// The same without a level: everything.
const ALL_LOGS: &str = "ahp-otlp://logs";

/// The subscribers of the log.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    /// By the exact URI that was subscribed to; with a level in any case there are few of them.
    streams: BTreeMap<Arc<str>, Stream>,
    /// The lowest level that has a subscriber.
    wanted: Option<LogLevel>,
}

#[derive(Debug)]
struct Stream {
    level: LogLevel,
    to: Vec<ConnId>,
}

impl Telemetry {
    fn count_besides(&self, uri: &str, conn: ConnId) -> usize {
        let others = self.streams.iter().filter(|(other, _)| &***other != uri);
        others.filter(|(_, stream)| stream.to.contains(&conn)).count()
    }

    fn add(&mut self, uri: &str, level: LogLevel, conn: ConnId) {
        let fresh = || Stream { level, to: Vec::new() };
        let stream = self.streams.entry(uri.into()).or_insert_with(fresh);
        if !stream.to.contains(&conn) {
            stream.to.push(conn);
        }
        self.settle();
    }

    fn remove(&mut self, conn: ConnId, is_meant: impl Fn(&str) -> bool) {
        for (uri, stream) in &mut self.streams {
            if is_meant(uri) {
                stream.to.retain(|listener| *listener != conn);
            }
        }
        self.streams.retain(|_, stream| !stream.to.is_empty());
        self.settle();
    }

    fn settle(&mut self) {
        self.wanted = self.streams.values().map(|stream| stream.level).min();
    }
}

impl Host {
    /// The lowest level of the log that has a subscriber. Records below it need not be passed to the core.
    pub(crate) fn needed_log_level(&self) -> Option<LogLevel> {
        self.telemetry.wanted
    }

    /// The telemetry capabilities in the answer to a connection's handshake, if any (OTL-01).
    pub(crate) fn offered_telemetry(&self, conn: ConnId) -> Option<serde_json::Value> {
        let scope = self.conns.get(&conn)?.principal.scope;
        let is_offered = self.config.serves_logs && scope >= Scope::Admin;
        is_offered.then(|| json!({ "logs": LOGS_TEMPLATE }))
    }

    /// `subscribe` to a channel without state (OTL-02).
    pub(crate) fn answer_logs(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, uri: &str) {
        let result = self.subscribe_to_logs(conn, uri);
        cx.answer(conn, id, result.map(|()| json!({})));
    }

    /// Lets a connection listen to the log.
    pub(crate) fn subscribe_to_logs(&mut self, conn: ConnId, uri: &str) -> Result<(), RpcError> {
        let Some(connection) = self.conns.get(&conn) else {
            return Err(RpcError::invalid_request("the connection is closed"));
        };
        let held = connection.principal.scope;
        if held < Scope::Admin {
            return Err(RpcError::needs_scope("reading the log", Scope::Admin, held));
        }
        if !self.config.serves_logs {
            let message = format!("there is no channel {uri:?}: this host does not offer its log");
            return Err(RpcError::new(code::NOT_FOUND, message));
        }
        let level = level_of(uri).ok_or_else(|| no_such_log(uri))?;
        let most = self.config.max_subscriptions;
        let others = connection.subscriptions.len() + self.telemetry.count_besides(uri, conn);
        if others >= most {
            let problem = format!("a connection has at most {most} subscriptions; unsubscribe from some");
            return Err(RpcError::invalid_params("channel", problem));
        }
        self.telemetry.add(uri, level, conn);
        Ok(())
    }

    /// Ends one subscription of a connection (SUB-06).
    pub(crate) fn unsubscribe_from_logs(&mut self, conn: ConnId, uri: &str) {
        self.telemetry.remove(conn, |found| found == uri);
    }

    /// Ends all subscriptions of a connection that ended. A client that reconnects names them again (REC-07).
    pub(crate) fn forget_logs_of(&mut self, conn: ConnId) {
        if self.telemetry.wanted.is_some() {
            self.telemetry.remove(conn, |_| true);
        }
    }

    /// Sends records to the subscribers of their level (OTL-03, OTL-04).
    pub(crate) fn export_logs(&mut self, cx: &mut Cx<'_>, records: &[LogRecord]) {
        for level in LogLevel::ALL {
            let streams = self.telemetry.streams.iter();
            let mut streams = streams.filter(|(_, stream)| stream.level == level).peekable();
            if streams.peek().is_none() {
                continue;
            }
            let version = self.config.server_version.as_deref();
            let Some(payload) = otlp::payload(&self.config.server_name, version, records, level) else {
                continue;
            };
            for (uri, stream) in streams {
                cx.emit(Delivery::ExportLogs {
                    to: stream.to.as_slice().into(),
                    message: otlp::notification(uri, &payload),
                });
            }
        }
    }
}

/// From which level on a URI wants the log; without one, all of it. Levels are read in any case.
fn level_of(uri: &str) -> Option<LogLevel> {
    let rest = uri.strip_prefix(ALL_LOGS)?;
    match rest {
        "" | "/" => Some(LogLevel::Trace),
        level => LogLevel::from_name(level.strip_prefix('/')?),
    }
}

fn no_such_log(uri: &str) -> RpcError {
    debug_assert!(uri::is_telemetry(uri), "the caller has looked");
    let names = LogLevel::ALL.map(LogLevel::name).join(", ");
    let message = format!("there is no channel {uri:?}; the log is {LOGS_TEMPLATE}, with one of the levels {names}");
    RpcError::new(code::NOT_FOUND, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otl04_levels_are_read_in_any_case_and_without_one_everything_is_meant() {
        for (uri, level) in [
            ("ahp-otlp://logs/trace", LogLevel::Trace),
            ("ahp-otlp://logs/debug", LogLevel::Debug),
            ("ahp-otlp://logs/info", LogLevel::Info),
            ("ahp-otlp://logs/WARN", LogLevel::Warn),
            ("ahp-otlp://logs/Error", LogLevel::Error),
            ("ahp-otlp://logs/fatal", LogLevel::Fatal),
            ("ahp-otlp://logs", LogLevel::Trace),
            ("ahp-otlp://logs/", LogLevel::Trace),
        ] {
            assert_eq!(level_of(uri), Some(level), "{uri}");
        }
        for uri in [
            "ahp-otlp://logs/{level}",
            "ahp-otlp://logs/loud",
            "ahp-otlp://logs/info/",
            "ahp-otlp://logsinfo",
            "ahp-otlp://traces",
            "ahp-otlp:",
        ] {
            assert_eq!(level_of(uri), None, "{uri}");
        }
    }
}
