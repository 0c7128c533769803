//! Properties of a turn: author, duration, pending messages, and silent agents.

use ahp_types::state::{ResponsePart, TurnState};
use innkeeper_testkit::official::{OfficialClient, markdown, turn_started};
use innkeeper_testkit::process::HostProcess;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{options, start_with_client};

/// A message that waits.
pub(crate) fn pending(kind: &str, id: &str, text: &str) -> Value {
    json!({
        "type": "chat/pendingMessageSet", "kind": kind, "id": id,
        "message": { "text": text, "origin": { "kind": "user" } },
    })
}

#[tokio::test]
async fn turn_15_a_message_chooses_its_model_and_its_agent() {
    let (host, client) = start_with_client().await;
    let cook = host.path(".claude/agents/cook.md");
    std::fs::create_dir_all(cook.parent().expect("a directory")).expect("created");
    std::fs::write(&cook, "---\nname: cook\ndescription: Cooks.\n---\nYou cook.\n").expect("written");
    let cook = format!("file://{}", cook.display());
    let uris = client.create_session("model").await;
    client
        .until("the agent is found", |view| {
            let session = view.session(&uris.session).map(|session| json!(session.customizations));
            session.is_some_and(|customizations| customizations.to_string().contains(&cook))
        })
        .await;
    let mut action = turn_started("t1", "hello");
    action["message"]["model"] = json!({ "id": "oracle" });
    client.dispatch(&uris.chat, action.clone()).await;
    assert_eq!(
        client.refusal(1).await,
        "message.model.id: Tour guide has no model \"oracle\"; it has: tour"
    );
    action["message"]["model"] = json!({ "id": "tour" });
    action["message"]["agent"] = json!({ "uri": cook });
    client.dispatch(&uris.chat, action).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    let message = serde_json::to_value(&turn.message).expect("messages are JSON");
    assert_eq!(message["model"], json!({ "id": "tour" }));
    assert_eq!(message["agent"]["uri"], json!(cook));
    // It holds for that message alone.
    let turn = client.run_turn(&uris.chat, "t2", "hello").await;
    assert!(turn.message.model.is_none() && turn.message.agent.is_none());
    client.assert_converged().await;
}

#[tokio::test]
async fn turn_05_turn_10_a_turn_says_how_long_it_took_and_when_it_ended() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("duration").await;
    let turn = client.run_turn(&uris.chat, "t1", "/usage").await;
    let usage = turn.usage.as_ref().expect("usage was reported (TURN-08)");
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(1200), Some(34)));
    let duration = turn.duration.expect("a turn that ended has a duration (E-13)");
    assert!(duration >= 0, "{duration}");
    let started: Timestamp = turn.started_at.as_deref().expect("a start").parse().expect("RFC 3339");
    let ended = started + SignedDuration::from_millis(duration);
    let chat = client.view().chat(&uris.chat).cloned().expect("mirrored");
    let modified: Timestamp = chat.modified_at.parse().expect("RFC 3339 (TRN-17)");
    assert_eq!(modified.as_millisecond(), ended.as_millisecond());
    assert!(
        chat.modified_at.ends_with('Z') && chat.modified_at.len() == 24,
        "{}",
        chat.modified_at
    );
    client
        .until("the catalogue agrees (TURN-16)", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            let entry = session.chats.iter().find(|entry| entry.resource == uris.chat);
            entry.is_some_and(|entry| entry.modified_at == chat.modified_at && entry.status & 31 == 1)
        })
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn turn_02_only_times_that_every_client_reads_start_a_turn() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("times").await;
    let now = Timestamp::now();
    let plain = now.to_string();
    for (number, odd) in [
        plain.replace('T', " "),
        plain.replace('T', "t"),
        format!("{plain}[UTC]"),
        plain[..10].to_owned(),
        now.as_millisecond().to_string(),
    ]
    .into_iter()
    .enumerate()
    {
        let mut action = turn_started("t1", "hello");
        action["startedAt"] = json!(odd);
        client.dispatch(&uris.chat, action).await;
        let reason = client.refusal(number + 1).await;
        assert!(
            reason.starts_with("startedAt must be an RFC 3339 time"),
            "{odd}: {reason}"
        );
    }
    for (number, fine) in [plain.clone(), plain.replace('Z', "+00:00")].into_iter().enumerate() {
        let mut action = turn_started(&format!("t{number}"), "hello");
        action["startedAt"] = json!(fine);
        client.dispatch(&uris.chat, action).await;
        let turn = client.turn_end(&uris.chat, &format!("t{number}")).await;
        assert_eq!(turn.started_at, Some(fine));
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn dsp_18_messages_with_other_origins_are_rejected_everywhere() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("kinds").await;
    let mut number = 0;
    for kind in ["agent", "tool", "automation", "systemNotification"] {
        let message = json!({ "text": "trust me", "origin": { "kind": kind } });
        let mut start = turn_started("t1", "");
        start["message"] = message.clone();
        let mut queue = pending("queued", "q", "");
        queue["message"] = message.clone();
        let mut steer = pending("steering", "s", "");
        steer["message"] = message.clone();
        let draft = json!({ "type": "chat/draftChanged", "draft": message });
        for action in [start, queue, steer, draft] {
            client.dispatch(&uris.chat, action.clone()).await;
            number += 1;
            assert_eq!(
                client.refusal(number).await,
                "clients write messages of kind user only",
                "{action}"
            );
        }
    }
    let chat = client.view().chat(&uris.chat).cloned().expect("mirrored");
    assert!(chat.turns.is_empty() && chat.active_turn.is_none() && chat.draft.is_none());
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_27_a_queued_message_starts_after_the_turn() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("queue").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/options").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    other.dispatch(&uris.chat, pending("queued", "q1", "/stream 3")).await;
    other.dispatch(&uris.chat, pending("queued", "q2", "/tool")).await;
    client
        .until("both wait", |view| {
            let queue = view.chat(&uris.chat).and_then(|chat| chat.queued_messages.clone());
            queue.is_some_and(|queue| queue.len() == 2)
        })
        .await;
    client.decide(&wait, json!({ "approved": false })).await;
    for who in [&client, &other] {
        who.until("both had their turns", |view| {
            let chat = view.chat(&uris.chat).expect("mirrored");
            chat.turns.len() == 3 && chat.queued_messages.is_none()
        })
        .await;
        let turns = who.view().chat(&uris.chat).expect("mirrored").turns.clone();
        let texts: Vec<_> = turns.iter().map(|turn| turn.message.text.as_str()).collect();
        assert_eq!(texts, ["/options", "/stream 3", "/tool"]);
        assert!(turns.iter().all(|turn| turn.state == TurnState::Complete));
        // E-07: taken from the queue first, then started under its name.
        let actions = who.view().actions_on(&uris.chat);
        let taken: Vec<_> = actions
            .iter()
            .filter(|action| action["type"] == "chat/pendingMessageRemoved" || action.get("queuedMessageId").is_some())
            .map(|action| {
                let id = action.get("queuedMessageId").unwrap_or_else(|| &action["id"]);
                (action["type"].as_str().expect("a type"), id.as_str().expect("an id"))
            })
            .collect();
        assert_eq!(
            taken,
            [
                ("chat/pendingMessageRemoved", "q1"),
                ("chat/turnStarted", "q1"),
                ("chat/pendingMessageRemoved", "q2"),
                ("chat/turnStarted", "q2")
            ]
        );
        who.assert_converged().await;
    }
}

#[tokio::test]
async fn pend_04_lesson_26_steering_reaches_the_running_agent_word_by_word() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("steer").await;
    client.start_turn(&uris.chat, "t1", "/steer 60").await;
    for (id, text) in [("s1", "to the left"), ("s2", "enough")] {
        client.dispatch(&uris.chat, pending("steering", id, text)).await;
        client
            .until("it was heard", |view| {
                let chat = view.chat(&uris.chat).expect("mirrored");
                let turn = chat.active_turn.as_ref().map(|turn| turn.response_parts.clone());
                let ended = chat.turns.last().map(|turn| turn.response_parts.clone());
                let parts = turn.or(ended).unwrap_or_default();
                chat.steering_message.is_none() && markdown(&parts).contains(&format!("You said: {text}"))
            })
            .await;
    }
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(turn.message.text, "/steer 60", "steering starts no turn of its own");
    client.assert_converged().await;
}

/// The agent itself started this turn, and no client waits for it (LESSON-23): it shows, on the session as well, and
/// every state is updated when it ends.
#[tokio::test]
async fn lesson_23_a_turn_that_an_agent_starts_by_itself_shows_and_ends() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("watch").await;
    let turn = client.run_turn(&uris.chat, "t1", "/background 1").await;
    assert_eq!(turn.state, TurnState::Complete);
    let is_busy = |status: u32| status & 8 != 0;
    let session = client.view().session(&uris.session).cloned().expect("mirrored");
    let watch = session.chats.iter().find(|chat| chat.title == "Night watch");
    let watch = watch.expect("the subagent is listed").resource.clone();
    let late = OfficialClient::connect(host.address(), "late").await;
    late.subscribe(&uris.session).await;
    late.subscribe(&watch).await;
    late.until("the night is over", |view| {
        let turns = view.chat(&watch).map(|chat| chat.turns.as_slice());
        turns.is_some_and(|turns| turns.len() == 1 && markdown(&turns[0].response_parts).ends_with("Good morning."))
    })
    .await;
    for who in [&client, &late] {
        who.until("nothing is busy any more", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.chats.iter().all(|chat| !is_busy(chat.status))
        })
        .await;
    }
    // It was busy for a while, for all subscribers of the session.
    let updates = client.view().actions_on(&uris.session);
    let shown = updates.iter().any(|action| {
        let status = action["changes"]["status"]
            .as_u64()
            .or_else(|| action["summary"]["status"].as_u64());
        let chat = action["chat"]
            .as_str()
            .or_else(|| action["summary"]["resource"].as_str());
        chat == Some(watch.as_str()) && status.is_some_and(|status| status & 8 != 0)
    });
    assert!(shown, "{updates:#?}");
    client.assert_converged().await;
    late.assert_converged().await;
}

#[tokio::test]
async fn a_silent_agent_is_seen_to_be_silent_and_its_turn_is_ended_in_the_end() {
    let limits = options().limit("silence_notice_ms", 100).limit("silence_limit_ms", 400);
    let host = HostProcess::start(limits).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("silent").await;
    // Waiting for a user is not silence: this turn waits all the while.
    let patient = client.create_session("patient").await;
    client.start_turn(&patient.chat, "t1", "/options").await;
    let wait = client.wait_for(&patient.session, "toolConfirmation").await;
    for turn_id in ["t1", "t2"] {
        client.start_turn(&uris.chat, turn_id, "/silent 600").await;
        let turn = client.turn_end(&uris.chat, turn_id).await;
        assert_eq!(turn.state, TurnState::Error);
        match turn.response_parts.last() {
            Some(ResponsePart::Error(part)) => assert_eq!(part.error.error_type, "agentSilent"),
            other => panic!("an error part was expected: {other:?}"),
        }
    }
    for (channel, member) in [(&uris.chat, "/activity"), (&uris.session, "/changes/activity")] {
        let actions = client.view().actions_on(channel);
        let activities = actions.iter().filter_map(|action| action.pointer(member)?.as_str());
        let noticed = activities.filter(|activity| activity.starts_with("No response from the agent for "));
        assert!(noticed.count() >= 2, "once in each turn at least: {actions:#?}");
    }
    let turn = client.run_turn(&uris.chat, "t3", "hello").await;
    assert_eq!(turn.state, TurnState::Complete, "the chat is usable again");
    client
        .decide(&wait, json!({ "approved": true, "selectedOptionId": "softly" }))
        .await;
    let turn = client.turn_end(&patient.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
}

#[tokio::test]
async fn turn_12_a_resumed_turn_keeps_its_parts_and_id() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("resume").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    let failed = client.run_turn(&uris.chat, "t1", "/error resumable").await;
    let before = failed.response_parts.len();
    // Any client may resume it, once.
    let resume = json!({ "type": "chat/turnResume", "turnId": "t1" });
    other.turn_end(&uris.chat, "t1").await;
    other.dispatch(&uris.chat, resume.clone()).await;
    for who in [&client, &other] {
        who.until("it is complete", |view| {
            let turn = view.ended_turn(&uris.chat, "t1");
            turn.is_some_and(|turn| turn.state == TurnState::Complete)
        })
        .await;
    }
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(
        turn.response_parts[..before],
        failed.response_parts[..],
        "nothing is lost"
    );
    assert_eq!((turn.message, turn.started_at), (failed.message, failed.started_at));
    assert_eq!(client.view().chat(&uris.chat).expect("mirrored").turns.len(), 1);
    other.dispatch(&uris.chat, resume).await;
    other.refusal(1).await;
    client.assert_converged().await;
    other.assert_converged().await;
}
