//! The session list as a client keeps it: fetched once, then kept current by notifications.

use std::collections::BTreeMap;

use ahp_types::commands::ListSessionsResult;
use ahp_types::notifications::{SessionAddedParams, SessionRemovedParams, SessionSummaryChangedParams};
use serde_json::Value;

use crate::sim::Violation;
use crate::sim::client::decoding::decode;
use crate::sim::client::mirror::{Mirror, comparable_summary};

/// The list as it was fetched.
pub fn from_list(list: &ListSessionsResult) -> BTreeMap<String, Value> {
    list.items
        .iter()
        .map(|summary| {
            let value = serde_json::to_value(summary).unwrap_or_default();
            (summary.resource.clone(), comparable_summary(value))
        })
        .collect()
}

/// Applies a notification that is not an action.
pub fn notification(mirror: &mut Mirror, method: &str, params: &Value) -> Result<(), Violation> {
    if !mirror.channels.contains_key(innkeeper_core::uri::ROOT) {
        return Err(Violation::new(format!(
            "{method} without a subscription to the root (SUB-05): {params}"
        )));
    }
    match method {
        "root/sessionAdded" => {
            let added: SessionAddedParams = decode(params.clone())?;
            if let Some(catalogue) = &mut mirror.catalogue {
                let summary = serde_json::to_value(&added.summary).unwrap_or_default();
                catalogue.insert(added.summary.resource, comparable_summary(summary));
            }
        }
        "root/sessionRemoved" => {
            let removed: SessionRemovedParams = decode(params.clone())?;
            if let Some(catalogue) = &mut mirror.catalogue {
                catalogue.remove(&removed.session);
            }
        }
        "root/sessionSummaryChanged" => {
            let changed: SessionSummaryChangedParams = decode(params.clone())?;
            let changes = serde_json::to_value(&changed.changes).unwrap_or_default();
            let Some(known) = mirror
                .catalogue
                .as_mut()
                .and_then(|catalogue| catalogue.get_mut(&changed.session))
            else {
                return Ok(());
            };
            for forbidden in ["resource", "provider", "createdAt"] {
                if changes.get(forbidden).is_some() {
                    return Err(Violation::new(format!("{forbidden} never changes (ROOT-12): {params}")));
                }
            }
            if let (Some(known), Some(changes)) = (known.as_object_mut(), changes.as_object()) {
                known.extend(changes.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            *known = comparable_summary(known.take());
        }
        other => return Err(Violation::new(format!("an unknown notification {other}: {params}"))),
    }
    Ok(())
}
