//! Log records for clients that subscribe (OTL), independently of the filter of standard error.
//!
//! Only records of Innkeeper itself: libraries log headers and bodies at their lower levels, and with them secrets
//! (OTL-07).

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use innkeeper_host::telemetry::{LogLevel, LogSink, LogValue, Severity};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// Returns the layer that sends records to a sink.
pub(super) fn layer<S>(sink: &LogSink) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    ToClients { sink: sink.clone() }.with_filter(SubscriberFilter { sink: sink.clone() })
}

struct ToClients {
    sink: LogSink,
}

/// Filters by the levels of subscribers; without subscribers that is one atomic load.
struct SubscriberFilter {
    sink: LogSink,
}

impl<S> Filter<S> for SubscriberFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        if !is_ours(metadata.target()) {
            return false;
        }
        // Spans identify later events, also those after a new subscription.
        match metadata.is_span() {
            true => *metadata.level() <= Level::INFO,
            false => self.sink.wants(highest(*metadata.level())),
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_ours(metadata.target()) {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }
}

impl<S> Layer<S> for ToClients
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(About(fields.attributes));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut attributes = fields.attributes;
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(About(about)) = span.extensions().get::<About>() {
                // An inner span or the event itself has precedence.
                let more = about
                    .iter()
                    .filter(|(name, _)| !attributes.iter().any(|(known, _)| known == name));
                let more: Vec<_> = more.cloned().collect();
                attributes.extend(more);
            }
        }
        let metadata = event.metadata();
        let severity = fields.severity.unwrap_or_else(|| lowest(*metadata.level()));
        let body = fields.message + &fields.rest;
        self.sink.write(severity, metadata.target(), body, attributes);
    }
}

/// The ids that a span gives its events.
struct About(Vec<(Cow<'static, str>, LogValue)>);

/// The fields of an event: one line for users, attributes for programs.
#[derive(Default)]
struct Fields {
    message: String,
    /// The fields that are not ids, as the log shows them.
    rest: String,
    attributes: Vec<(Cow<'static, str>, LogValue)>,
    severity: Option<Severity>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: LogValue) {
        let name = field.name();
        // Logs of MCP servers: drop the count of left-out records if it is zero, and empty names.
        if matches!(name, "left_out" | "logger") && is_empty(&value) {
            return;
        }
        // Writing to a string does not fail.
        let _ = match &value {
            LogValue::Text(text) => write!(self.rest, " {name}={text}"),
            LogValue::Int(number) => write!(self.rest, " {name}={number}"),
            LogValue::Bool(value) => write!(self.rest, " {name}={value}"),
        };
        self.attributes.push((attribute(name).into(), value));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            // Logs of MCP servers have their own, finer levels.
            "mcp_level" => self.severity = severity_of(value),
            _ => self.add(field, LogValue::Text(value.to_owned())),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, LogValue::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, LogValue::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, LogValue::Bool(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.add(field, LogValue::Text(text)),
        }
    }
}

fn is_empty(value: &LogValue) -> bool {
    match value {
        LogValue::Text(text) => text.is_empty(),
        LogValue::Int(number) => *number == 0,
        LogValue::Bool(_) => false,
    }
}

/// Returns the attribute name of a field (OTL-06).
fn attribute(field: &'static str) -> &'static str {
    match field {
        "session" => "ahp.session.id",
        "chat" => "ahp.chat.id",
        "turn" => "ahp.turn.id",
        "call" => "ahp.tool_call.id",
        "server" => "mcp.server.name",
        other => other,
    }
}

fn is_ours(target: &str) -> bool {
    let rest = target.strip_prefix("innkeeper");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('_'))
}

fn lowest(level: Level) -> Severity {
    match level {
        Level::TRACE => LogLevel::Trace.into(),
        Level::DEBUG => LogLevel::Debug.into(),
        Level::INFO => LogLevel::Info.into(),
        Level::WARN => LogLevel::Warn.into(),
        Level::ERROR => LogLevel::Error.into(),
    }
}

/// Returns the highest severity of a level: `tracing` has no level above error.
fn highest(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::new(24),
        other => Severity::new(lowest(other).number() + 3),
    }
}

/// Returns the OpenTelemetry severity of an MCP level, which is a syslog level.
fn severity_of(level: &str) -> Option<Severity> {
    Some(match level {
        "debug" => Severity::new(5),
        "info" => Severity::new(9),
        "notice" => Severity::new(10),
        "warning" => Severity::new(13),
        "error" => Severity::new(17),
        "critical" => Severity::new(18),
        "alert" => Severity::new(19),
        "emergency" => Severity::new(21),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otl07_only_records_of_innkeeper_are_sent() {
        for ours in ["innkeeper", "innkeeper::serve", "innkeeper_host::main_loop::task"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["rmcp", "hyper::client", "innkeepers", "reqwest", ""] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn otl04_levels_of_mcp_servers_keep_their_order() {
        let names = [
            "debug",
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        ];
        let severities = names.map(|name| severity_of(name).expect("a level"));
        assert!(severities.is_sorted());
        assert_eq!(severities[7], LogLevel::Fatal.into());
        assert_eq!(severity_of("loud"), None);
        // No record of these severities is filtered out before.
        assert!(highest(Level::ERROR) >= severities[7] && highest(Level::INFO) >= severities[2]);
    }
}
