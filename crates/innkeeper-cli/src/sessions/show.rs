//! `innkeeper sessions show`.

use ahp_types::commands::{SubscribeParams, SubscribeView};
use ahp_types::state::SessionState;
use serde_json::{Value, json};

use crate::args::ShowArgs;
use crate::connection::{Connection, RawSnapshot};
use crate::failure::{Failure, Kind};
use crate::format;
use crate::terminal::{Output, one_line};

use super::{choose, list};

/// Shows a session and the end of its chats.
pub async fn run(args: &ShowArgs, connection: &Connection) -> Result<(), Failure> {
    let all = list::all_sessions(connection).await?;
    let uri = choose::choose(&args.session, all.iter().map(|session| session.resource.as_str()))?;
    let summary = all.iter().find(|session| session.resource == uri);
    let session = snapshot(connection, SubscribeParams::new(uri)).await?;
    let state: SessionState = serde_json::from_value(session.state.clone()).map_err(|error| senseless(uri, &error))?;
    let mut chats = Vec::new();
    for chat in &state.chats {
        let mut params = SubscribeParams::new(chat.resource.as_str());
        params.view = Some(SubscribeView {
            turns: Some(args.turns.into()),
        });
        chats.push((chat.resource.as_str(), snapshot(connection, params).await?));
    }

    let mut output = Output::stdout();
    if args.json {
        let chats: Vec<&Value> = chats.iter().map(|(_, chat)| &chat.state).collect();
        let shown = json!({ "session": uri, "state": session.state, "chats": chats });
        return output.show(&format!("{shown}\n"));
    }
    output.show(&format!("{}\n", one_line(&state.title, 200)))?;
    let mut facts = vec![
        ("uri", uri.to_owned()),
        ("agent", state.provider.clone()),
        ("status", format::status_in_words(state.status)),
    ];
    if let Some(summary) = summary {
        facts.push(("created", list::moment(&summary.created_at)));
        facts.push(("modified", list::moment(&summary.modified_at)));
    }
    for directory in state.working_directories.iter().flatten() {
        facts.push(("directory", directory.clone()));
    }
    for (name, value) in facts {
        output.show(&format!("  {name:<10} {}\n", one_line(&value, 400)))?;
    }
    for (chat, snapshot) in &chats {
        output.show("\n")?;
        output.show(&format::state(chat, snapshot))?;
        if snapshot
            .state
            .get("turnsNextCursor")
            .is_some_and(|cursor| !cursor.is_null())
        {
            output.show("  (older turns are not shown; --turns N shows more)\n")?;
        }
    }
    Ok(())
}

async fn snapshot(connection: &Connection, params: SubscribeParams) -> Result<RawSnapshot, Failure> {
    let uri = params.channel.clone();
    let snapshot = connection.subscribe_with(params).await?.unwrap_or_default();
    let _ = connection.client.unsubscribe(uri.clone()).await;
    serde_json::from_value(snapshot).map_err(|error| senseless(&uri, &error))
}

fn senseless(uri: &str, error: &serde_json::Error) -> Failure {
    Failure::new(
        Kind::Unexpected,
        format!("the host sent an invalid state of {uri} ({error})"),
    )
}
