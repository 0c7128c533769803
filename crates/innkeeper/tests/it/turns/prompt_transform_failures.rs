//! A failed prompt transform leaves the prompt unchanged, and the turn continues.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::rewriter::{Rewriter, asked_for, rewritten};
use serde_json::json;

use crate::options;
use crate::turns::prompt_transform::{stage, words};

/// The response of the guide with its own tone.
const UNCHANGED: &str = "`tone` (22 bytes):\n\nBe cheerful and brief.\n";

#[tokio::test]
async fn smt08_errors_and_malformed_answers_leave_everything_unchanged() {
    let (host, client, uris) = stage().await;
    let mut desk = Rewriter::join(host.address(), "desk", &uris.session, &["tone", "guidelines"]).await;
    let malformed = [
        json!(null),
        json!([]),
        json!("words"),
        json!({}),
        json!({ "sections": [] }),
        json!({ "sections": { "tone": "Whisper." } }),
        json!({ "sections": { "tone": { "content": 5 } } }),
        json!({ "sections": { "tone": { "content": "Whisper." }, "guidelines": {} } }),
        json!({ "sections": { "tone": { "content": "Whisper." }, "not_asked": { "content": null } } }),
    ];
    for (number, answer) in malformed.into_iter().enumerate() {
        let turn_id = format!("t{number}");
        client.start_turn(&uris.chat, &turn_id, "/prompt tone").await;
        let request = desk.request().await;
        desk.answer(&request, answer.clone()).await;
        assert_eq!(words(&client, &uris, &turn_id).await, UNCHANGED, "{answer}");
    }
    client.start_turn(&uris.chat, "refused", "/prompt tone").await;
    let request = desk.request().await;
    desk.refuse(&request, "out of ink").await;
    assert_eq!(words(&client, &uris, "refused").await, UNCHANGED);
    client.start_turn(&uris.chat, "well", "/prompt tone").await;
    desk.rewrite(&[("tone", "Whisper.")]).await;
    assert!(
        words(&client, &uris, "well").await.contains("Whisper."),
        "and it still works"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn smt09_a_client_that_takes_too_long_is_not_waited_for() {
    let host = HostProcess::start(options().limit("system_message_transform_ms", 200)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("slow").await;
    let mut slow = Rewriter::join(host.address(), "slow", &uris.session, &["tone"]).await;
    client.start_turn(&uris.chat, "t1", "/prompt tone").await;
    assert_eq!(words(&client, &uris, "t1").await, UNCHANGED);
    let request = slow.request().await;
    slow.answer(&request, rewritten(&[("tone", "Too late.")])).await;
    slow.raw.still_works().await;
    client.start_turn(&uris.chat, "t2", "/prompt tone").await;
    slow.rewrite(&[("tone", "In time.")]).await;
    assert!(words(&client, &uris, "t2").await.contains("In time."));
}

#[tokio::test]
async fn smt08_smt10_a_disconnected_client_has_no_substitute() {
    let (host, client, uris) = stage().await;
    let mut other = Rewriter::join(host.address(), "other", &uris.session, &["tone"]).await;
    let mut leaving = Rewriter::join(host.address(), "leaving", &uris.session, &["tone"]).await;
    client.start_turn(&uris.chat, "t1", "/prompt tone").await;
    leaving.request().await;
    drop(leaving);
    assert_eq!(words(&client, &uris, "t1").await, UNCHANGED);
    assert!(!other.was_asked().await);
    client.start_turn(&uris.chat, "t2", "/prompt tone").await;
    other.rewrite(&[("tone", "Whisper.")]).await;
    assert!(words(&client, &uris, "t2").await.contains("by the client `other`"));
    client.assert_converged().await;
}

#[tokio::test]
async fn smt10_a_change_of_members_counts_from_the_next_render_on() {
    let (host, client, uris) = stage().await;
    let mut first = Rewriter::join(host.address(), "desk", &uris.session, &["tone"]).await;
    client.start_turn(&uris.chat, "t1", "/prompt tone").await;
    let request = first.request().await;
    // It leaves, and another one comes, while the request is on its way.
    first.leave().await;
    let mut second = Rewriter::join(host.address(), "second", &uris.session, &["tone", "guidelines"]).await;
    assert!(!second.was_asked().await);
    first.answer(&request, rewritten(&[("tone", "Goodbye.")])).await;
    let said = words(&client, &uris, "t1").await;
    assert_eq!(said, "`tone` (8 bytes, rewritten by the client `desk`):\n\nGoodbye.\n");
    client.start_turn(&uris.chat, "t2", "/prompt tone").await;
    let request = second.rewrite(&[("tone", "Hello.")]).await;
    assert_eq!(asked_for(&request).len(), 2);
    assert!(words(&client, &uris, "t2").await.contains("by the client `second`"));
    assert!(!first.was_asked().await);
    client.assert_converged().await;
}

#[tokio::test]
async fn smt15_sections_and_bytes_are_bounded() {
    let bounded = options()
        .limit("system_message_transform_bytes", 200)
        .limit("system_message_transform_sections", 8);
    let host = HostProcess::start(bounded).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("bounded").await;
    let all = ["tone", "guidelines", "last_instructions", "code_change_rules"];
    let mut desk = Rewriter::join(host.address(), "desk", &uris.session, &all).await;
    client.start_turn(&uris.chat, "t1", "/prompt tone").await;
    assert_eq!(words(&client, &uris, "t1").await, UNCHANGED);
    assert!(!desk.was_asked().await, "the request would have been too large");
    desk.announce(&["tone"]).await;
    client.start_turn(&uris.chat, "t2", "/prompt tone").await;
    desk.rewrite(&[("tone", &"x".repeat(300))]).await;
    assert_eq!(words(&client, &uris, "t2").await, UNCHANGED, "the answer was too large");
    client.start_turn(&uris.chat, "t3", "/prompt tone").await;
    desk.rewrite(&[("tone", "Whisper.")]).await;
    assert!(words(&client, &uris, "t3").await.contains("Whisper."));
    let refused = desk.announce(&["1", "2", "3", "4", "5", "6", "7", "8", "9"]).await;
    assert_eq!(
        refused["rejectionReason"],
        "activeClient.systemMessageTransform.sections: a client names at most 8 sections"
    );
}

#[tokio::test]
async fn smt16_the_log_has_hashes_of_sections_and_no_text() {
    let host = HostProcess::start(options().flags(&["--log", "info,innkeeper_host=debug"])).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("audited").await;
    let mut desk = Rewriter::join(host.address(), "desk", &uris.session, &["tone", "guidelines"]).await;
    client.start_turn(&uris.chat, "t1", "hello").await;
    desk.rewrite(&[("tone", "Whisper.")]).await;
    client.turn_end(&uris.chat, "t1").await;
    // SHA-256 of what the guide wrote, and of what came back.
    let before = "aa0581b35c8c580511800447a97da447418bfc9f10471e716c16ade9c8715212";
    let after = "1a310d9ed9899209f598be2e5631680f8f3bd1e0068a95a1964699ab8530c147";
    host.logged("the audit", |log| {
        let mut lines = log.lines();
        lines.any(|line| {
            ["DEBUG", &uris.session, "desk", "tone", before, after]
                .iter()
                .all(|word| line.contains(word))
        })
    })
    .await;
    client.start_turn(&uris.chat, "t2", "hello").await;
    let request = desk.request().await;
    desk.answer(&request, json!({ "sections": { "tone": "Whisper." } }))
        .await;
    client.turn_end(&uris.chat, "t2").await;
    client.start_turn(&uris.chat, "t3", "hello").await;
    let request = desk.request().await;
    desk.refuse(&request, "I would rather not say: Whisper.").await;
    client.turn_end(&uris.chat, "t3").await;
    host.logged("both failures", |log| {
        log.matches("a prompt was not rewritten").count() == 2 && log.contains("error -32603")
    })
    .await;
    for content in ["Whisper", "Be cheerful and brief", "Show, do not tell"] {
        assert!(!host.log().contains(content), "{}", host.log());
    }
}
