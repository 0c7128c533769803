//! The mapping from the host to ACP: messages as prompts, decisions as outcomes.
//!
//! Nothing here waits or has a state. [`crate::chat`] sends the results.

use innkeeper_host::TurnInput;
use innkeeper_host::agent::{Attachment, ConfirmOption, Decision};
use serde_json::{Value, json};

use crate::learned::Abilities;

/// The text that an agent gets when an interrupted turn goes on.
const CONTINUE: &str = "Your work on the last message was interrupted before it was done. Continue it from where you \
                        stopped; do not repeat what is done already. The message was:";

/// Returns the prompt of a turn, with texts that come before the user's message.
pub(crate) fn prompt(turn: &TurnInput, before: &[String], abilities: Abilities) -> Vec<Value> {
    let mut blocks: Vec<Value> = before.iter().map(|text| text_block(text)).collect();
    let text = match &turn.called {
        // The user named a skill or a prompt of the session; the agent gets its text.
        Some(called) => called.text.clone(),
        None => turn.text.clone(),
    };
    let text = if turn.resume {
        format!("{CONTINUE}\n\n{text}")
    } else {
        text
    };
    blocks.push(text_block(&text));
    let of_prompt = turn.called.iter().flat_map(|called| &called.attachments);
    let attachments = turn.attachments.iter().chain(of_prompt);
    blocks.extend(attachments.map(|attachment| attached(attachment, abilities)));
    blocks
}

pub(crate) fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn attached(attachment: &Attachment, abilities: Abilities) -> Value {
    match attachment {
        Attachment::Text { label, text } => text_block(&format!("Attached: {label}\n{text}")),
        Attachment::Embedded {
            label,
            data,
            content_type,
            ..
        } => embedded(label, data, content_type, abilities),
        Attachment::Resource {
            label,
            uri,
            content_type,
            selection,
        } => {
            let mut link = json!({ "type": "resource_link", "name": label, "uri": uri });
            if let Some(content_type) = content_type {
                link["mimeType"] = json!(content_type);
            }
            if let Some(selection) = selection {
                link["description"] = json!(selection.in_words());
            }
            link
        }
        Attachment::Annotations { label, remarks, .. } => {
            let remarks: String = remarks.iter().map(|remark| remark.in_words(&remark.file)).collect();
            text_block(&format!("Attached remarks: {label}\n{remarks}"))
        }
        Attachment::Chat { label, transcript, .. } => {
            let turns = transcript
                .iter()
                .map(|turn| format!("User: {}\nAgent: {}\n", turn.text, turn.reply));
            text_block(&format!(
                "Attached conversation: {label}\n{}",
                turns.collect::<String>()
            ))
        }
        Attachment::Reference { label, .. } => text_block(&format!("Attached: {label}")),
    }
}

fn embedded(label: &str, data: &str, content_type: &str, abilities: Abilities) -> Value {
    if content_type.starts_with("image/") && abilities.images {
        return json!({ "type": "image", "data": data, "mimeType": content_type });
    }
    let uri = format!("attachment:///{}", label.replace(char::is_whitespace, "-"));
    if abilities.embedded {
        let resource = json!({ "uri": uri, "blob": data, "mimeType": content_type });
        return json!({ "type": "resource", "resource": resource });
    }
    text_block(&format!(
        "Attached: {label} ({content_type}), which this agent cannot read"
    ))
}

/// Returns the options of `session/request_permission` as the choices of a confirmation.
pub(crate) fn confirm_options(options: &Value) -> Vec<ConfirmOption> {
    let options = options.as_array().into_iter().flatten().take(20);
    let option = |option: &Value| {
        let kind = option["kind"].as_str().unwrap_or_default();
        let approves = is_approval(option);
        Some(ConfirmOption {
            id: option["optionId"].as_str()?.to_owned(),
            label: option["name"].as_str().unwrap_or(kind).to_owned(),
            approves,
            group: Some(u32::from(!approves)),
        })
    };
    options.filter_map(option).collect()
}

fn is_approval(option: &Value) -> bool {
    match option["kind"].as_str() {
        Some(kind) => kind.starts_with("allow"),
        // Without a kind, the id says it best.
        None => option["optionId"]
            .as_str()
            .is_some_and(|id| id.starts_with("allow") || id.starts_with("proceed")),
    }
}

/// Returns the outcome of a permission request after a decision.
///
/// The option that the user chose counts. Other decisions, such as those of a rule or a hook, take the option for this one
/// call.
pub(crate) fn outcome(options: &Value, decision: &Decision) -> Value {
    let options = options.as_array().into_iter().flatten();
    let options: Vec<&Value> = options.filter(|option| option["optionId"].is_string()).collect();
    let named = |choice: &&&Value| {
        choice["optionId"].as_str() == decision.choice.as_deref() && is_approval(choice) == decision.approved
    };
    let once = |choice: &&&Value| {
        is_approval(choice) == decision.approved && choice["kind"].as_str().is_some_and(|kind| kind.ends_with("_once"))
    };
    let any = |choice: &&&Value| is_approval(choice) == decision.approved;
    let chosen = options.iter().find(named).or_else(|| options.iter().find(once));
    match chosen.or_else(|| options.iter().find(any)) {
        Some(choice) => json!({ "outcome": { "outcome": "selected", "optionId": choice["optionId"] } }),
        // An agent that offers no way to say no is told that the question was cancelled.
        None => cancelled(),
    }
}

/// Returns the outcome of a permission request that no user decides any more.
pub(crate) fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Value {
        json!([
            { "optionId": "always", "name": "Always", "kind": "allow_always" },
            { "optionId": "once", "name": "Once", "kind": "allow_once" },
            { "optionId": "no", "name": "No", "kind": "reject_once" },
            { "name": "no id" },
        ])
    }

    #[test]
    fn every_option_is_offered_and_the_chosen_one_answered() {
        let offered = confirm_options(&options());
        let approving: Vec<(&str, bool)> = offered.iter().map(|option| (&*option.id, option.approves)).collect();
        assert_eq!(approving, [("always", true), ("once", true), ("no", false)]);
        let decide = |approved, choice: Option<&str>| {
            let decision = Decision {
                choice: choice.map(str::to_owned),
                ..Decision::by_host(approved)
            };
            outcome(&options(), &decision)["outcome"]["optionId"].clone()
        };
        assert_eq!(decide(true, Some("always")), "always");
        assert_eq!(decide(true, None), "once");
        assert_eq!(decide(false, None), "no");
        // A choice that contradicts the decision does not count.
        assert_eq!(decide(false, Some("always")), "no");
    }

    #[test]
    fn an_agent_without_a_way_to_refuse_is_told_that_it_was_cancelled() {
        let only = json!([{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }]);
        assert_eq!(outcome(&only, &Decision::by_host(false)), cancelled());
    }

    #[test]
    fn attachments_become_blocks_that_the_agent_can_read() {
        let image = Attachment::Embedded {
            label: "a shot.png".to_owned(),
            data: "AAEC".to_owned(),
            content_type: "image/png".to_owned(),
            selection: None,
        };
        let all = Abilities {
            images: true,
            embedded: true,
            ..Abilities::default()
        };
        assert_eq!(attached(&image, all)["type"], "image");
        let embedded = attached(&image, Abilities { images: false, ..all });
        assert_eq!(embedded["resource"]["uri"], "attachment:///a-shot.png");
        let none = attached(&image, Abilities::default());
        assert!(
            none["text"].as_str().is_some_and(|text| text.contains("cannot read")),
            "{none}"
        );
        let file = Attachment::Resource {
            label: "a.rs".to_owned(),
            uri: "file:///w/a.rs".to_owned(),
            content_type: None,
            selection: None,
        };
        assert_eq!(attached(&file, all)["type"], "resource_link");
    }
}
