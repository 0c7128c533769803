//! `innkeeper models` and `innkeeper settings`: what agents offer, and how a session is set up.

use std::collections::BTreeMap;

use ahp_types::actions::{SessionConfigChangedAction, StateAction};
use ahp_types::common::ROOT_RESOURCE_URI;
use ahp_types::state::{RootState, SessionConfigState, SessionState};
use serde_json::{Map, Value, json};

use crate::args::{ModelsArgs, SessionArg, SettingsArgs};
use crate::connection::Connection;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::pending::settle;
use crate::sessions::find;
use crate::terminal::{Output, note, one_line};

/// Lists the agents of the host and their models.
pub(crate) async fn models(dir: &DataDir, args: ModelsArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let (root, _): (RootState, i64) = connection.subscribe_to_state(ROOT_RESOURCE_URI).await?;
    connection.close().await;
    let mut output = Output::stdout();
    if args.json {
        return output.show(&format!("{}\n", json!(root.agents)));
    }
    for agent in &root.agents {
        let about = format!("{}: {}", agent.display_name, agent.description);
        output.show(&format!("{}  {}\n", agent.provider, one_line(&about, 200)))?;
        for model in &agent.models {
            let window = model.max_context_window.map(|tokens| format!(", {tokens} tokens"));
            let name = format!("{}{}", model.name, window.unwrap_or_default());
            output.show(&format!(
                "  --model {}  {}\n",
                one_line(&model.id, 100),
                one_line(&name, 100)
            ))?;
        }
    }
    Ok(())
}

/// Lists or changes the settings of a session.
pub(crate) async fn run(dir: &DataDir, args: SettingsArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    let session = find(&connection, &args.connect, &SessionArg { session: args.session }).await?;
    let (state, _): (SessionState, i64) = connection.subscribe_to_state(&session).await?;
    let Some(config) = &state.config else {
        return Err(Failure::new(Kind::Rejected, "this session has no settings"));
    };
    let mut output = Output::stdout();
    if args.json {
        output.show(&format!("{}\n", json!(config)))?;
    } else if args.changes.is_empty() {
        output.show(&described(config))?;
    } else {
        let changes = changes(config, &args.changes)?;
        let action = StateAction::SessionConfigChanged(SessionConfigChangedAction {
            config: changes,
            replace: None,
        });
        settle(&mut connection, &session, action).await?;
        note("Changed for the next turn.");
    }
    connection.close().await;
    Ok(())
}

fn described(config: &SessionConfigState) -> String {
    let mut text = String::new();
    // The published type does not keep the order.
    let properties: BTreeMap<_, _> = config.schema.properties.iter().collect();
    for (name, property) in properties {
        let value = config.values.get(name).or(property.default.as_ref());
        let value = value.map_or_else(|| "not set".to_owned(), ToString::to_string);
        let fixed = if property.read_only == Some(true) {
            " (cannot be changed)"
        } else {
            ""
        };
        text.push_str(&format!("{name} = {}{fixed}\n", one_line(&value, 300)));
        text.push_str(&format!("  {}\n", one_line(&property.title, 200)));
        let choices = property.r#enum.iter().flatten().map(ToString::to_string);
        let choices: Vec<String> = choices.collect();
        if !choices.is_empty() {
            text.push_str(&format!("  one of {}\n", one_line(&choices.join(", "), 300)));
        }
    }
    text
}

/// Reads `name=value` words. The host checks the values.
fn changes(config: &SessionConfigState, words: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut changes = Map::new();
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Failure::new(
                Kind::Usage,
                format!("{word:?} is not of the form name=value"),
            ));
        };
        if !config.schema.properties.contains_key(name) {
            return Err(Failure::new(Kind::Usage, format!("there is no setting {name:?}"))
                .hint("`innkeeper settings` lists the settings"));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        changes.insert(name.to_owned(), value);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_or_else_text() {
        let config: SessionConfigState = serde_json::from_value(json!({
            "schema": { "type": "object", "properties": {
                "mode": { "type": "string", "title": "Mode" }, "limit": { "type": "number", "title": "Limit" },
            } },
            "values": { "mode": "ask" },
        }))
        .unwrap();
        let words = ["mode=allow all", "limit=3"].map(str::to_owned);
        assert_eq!(
            Value::Object(changes(&config, &words).unwrap()),
            json!({ "mode": "allow all", "limit": 3 })
        );
        for wrong in ["mode", "other=1"] {
            assert!(changes(&config, &[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(described(&config).contains("mode = \"ask\"\n  Mode\n"));
    }
}
