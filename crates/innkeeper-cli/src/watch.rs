//! `innkeeper watch`: prints a channel's state, then its actions.

use ahp::{ClientEvent, SubscriptionEvent};
use ahp_types::common::ROOT_RESOURCE_URI;
use serde_json::{Value, json};

use crate::args::WatchArgs;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::StopSignals;
use crate::terminal::{Output, note, one_line};

use crate::connection::{Connection, RawSnapshot, connection_lost};
use crate::format;
use crate::sessions::find_named;

/// Prints until Ctrl-C, or until the channel or the host ends.
pub(crate) async fn run(dir: &DataDir, mut args: WatchArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    if !args.uri.contains(':') {
        args.uri = find_named(&connection, &args.uri).await?;
    }
    let mut signals = StopSignals::listen()?;
    let mut output = Output::stdout();
    let snapshot = connection.subscribe(&args.uri).await?;
    let seen = match snapshot {
        Some(snapshot) => {
            if args.json {
                output.show(&format!("{snapshot}\n"))?;
            }
            let snapshot: RawSnapshot = serde_json::from_value(snapshot).map_err(unexpected)?;
            if !args.json {
                output.show(&format::state(&args.uri, &snapshot))?;
            }
            snapshot.from_seq
        }
        None => {
            if !args.json {
                output.show(&format!("{} has no state\n", args.uri))?;
            }
            -1
        }
    };
    loop {
        let event = tokio::select! {
            event = connection.events.recv() => event.ok_or_else(connection_lost)?,
            _ = signals.next() => {
                connection.close().await;
                return Ok(());
            }
        };
        if is_removal_of(&event, &args.uri) {
            note(&format!("{} was disposed", args.uri));
            connection.close().await;
            return Ok(());
        }
        if event.channel != args.uri {
            continue;
        }
        let Some(line) = line(event.event, seen, args.json)? else {
            continue;
        };
        output.show(&format!("{line}\n"))?;
    }
}

/// Renders an event, unless the snapshot already contains it.
fn line(event: SubscriptionEvent, seen: i64, json: bool) -> Result<Option<String>, Failure> {
    let (method, params) = match event {
        SubscriptionEvent::Action(envelope) => {
            if i64::try_from(envelope.server_seq).is_ok_and(|seq| seq <= seen) {
                return Ok(None);
            }
            let value = serde_json::to_value(&envelope).map_err(unexpected)?;
            if json {
                return Ok(Some(value.to_string()));
            }
            let action = &value["action"];
            let name = action["type"].as_str().unwrap_or("unknown action");
            let mut line = format::event(&envelope.server_seq.to_string(), name, action);
            if let Some(reason) = &envelope.rejection_reason {
                line.push_str(&format!("  (rejected: {})", one_line(reason, 160)));
            }
            return Ok(Some(line));
        }
        SubscriptionEvent::SessionAdded(params) => ("root/sessionAdded", serde_json::to_value(params)),
        SubscriptionEvent::SessionRemoved(params) => ("root/sessionRemoved", serde_json::to_value(params)),
        SubscriptionEvent::SessionSummaryChanged(params) => {
            ("root/sessionSummaryChanged", serde_json::to_value(params))
        }
        SubscriptionEvent::AuthRequired(params) => ("auth/required", serde_json::to_value(params)),
        _ => return Ok(None),
    };
    let mut params: Value = params.map_err(unexpected)?;
    if json {
        return Ok(Some(json!({"method": method, "params": params}).to_string()));
    }
    if let Value::Object(fields) = &mut params {
        // The channel is the one being watched.
        fields.remove("channel");
    }
    Ok(Some(format::event("", method, &params)))
}

fn is_removal_of(event: &ClientEvent, uri: &str) -> bool {
    event.channel == ROOT_RESOURCE_URI
        && matches!(&event.event, SubscriptionEvent::SessionRemoved(removed) if removed.session == uri)
}

fn unexpected(error: serde_json::Error) -> Failure {
    Failure::new(Kind::Unexpected, format!("the host sent an invalid message ({error})"))
}
