//! `pending`, `approve`, `deny` and `answer`, while another process waits for the outcome.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::{Home, Program, TIMEOUT, named_session};

/// Sends a message in another process, and waits until the host lists so many waits.
fn send(home: &Home, message: &str, count: usize) -> Program {
    let program = home.spawn(&["send", message]);
    waits(home, count);
    program
}

/// Everything that is awaited, as soon as it is so many.
fn waits(home: &Home, count: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let lines = home.run(&["pending", "--json"]).code(0).json_lines();
        if lines.len() == count {
            return lines;
        }
        assert!(begun.elapsed() < TIMEOUT, "{count} waits were expected: {lines:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn id(wait: &Value) -> &str {
    wait["request"]["id"].as_str().unwrap()
}

#[test]
fn pending_lists_an_approval_and_approve_settles_it() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["pending"]).code(0).says("Nothing waits for an answer.");
    assert!(home.run(&["pending", "--json"]).code(0).stdout.is_empty());
    let sender = send(&home, "/confirm", 1);
    let wait = waits(&home, 1).remove(0);
    assert_eq!(wait["request"]["kind"], "toolConfirmation");
    assert!(wait["session"].as_str().unwrap().starts_with("ahp-session:/"));
    let shown = home.run(&["pending"]).code(0).stdout;
    assert!(shown.contains(id(&wait)), "{shown}");
    assert!(shown.contains("approval: Ring the bell: Rings the bell"), "{shown}");
    assert!(shown.contains("  | times: 3\n"), "{shown}");
    assert!(
        shown.contains("--option allow-session: Allow `ring_bell` with exactly this input in this session"),
        "{shown}"
    );
    home.run(&["approve"]).code(0);
    let ended = sender.wait().code(0);
    assert!(ended.stdout.contains("I rang the bell 3 times"), "{ended:?}");
    assert!(waits(&home, 0).is_empty());
}

#[test]
fn approve_takes_an_option_and_an_edited_input() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = send(&home, "/confirm", 1);
    home.run(&["approve", "--input", "{\"times\": 7}"]).code(0);
    let ended = sender.wait().code(0);
    assert!(ended.stdout.contains("I rang the bell 7 times"), "{ended:?}");
    let sender = send(&home, "/options", 1);
    home.run(&["approve", "--option", "softly"]).code(0);
    let ended = sender.wait().code(0);
    assert!(ended.stdout.contains("*softly*"), "{ended:?}");
    let sender = send(&home, "/confirm", 1);
    home.run(&["approve", "--option", "allow-session"]).code(0);
    let ended = sender.wait().code(0);
    let session = named_session(&ended.stderr);
    // From now on that session does not ask.
    let ended = home.run(&["send", "--session", &session, "/confirm"]).code(0);
    assert!(ended.stdout.contains("your settings said yes"), "{ended:?}");
}

#[test]
fn deny_tells_the_agent_why() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = send(&home, "/confirm", 1);
    home.run(&["deny", "--because", "it is night"]).code(0);
    let ended = sender.wait().code(0);
    assert!(ended.stdout.contains("(it is night)"), "{ended:?}");
}

#[test]
fn results_are_approved_or_denied() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = send(&home, "/result", 1);
    let shown = home.run(&["pending"]).code(0).stdout;
    assert!(shown.contains("result: Read the guest book"), "{shown}");
    home.run(&["approve", "--option", "softly"]).code(2).says("result");
    home.run(&["approve"]).code(0);
    assert!(sender.wait().code(0).stdout.contains("a quiet night"));
    let sender = send(&home, "/result", 1);
    home.run(&["deny"]).code(0);
    assert!(sender.wait().code(0).stdout.contains("kept the guest book to yourself"));
}

#[test]
fn answer_reads_each_answer_as_its_question_wants_it() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = send(&home, "/ask", 1);
    let shown = home.run(&["pending"]).code(0).stdout;
    assert!(shown.contains("question: A few questions"), "{shown}");
    assert!(
        shown.contains("room=<garden|street>: Which room do you like?"),
        "{shown}"
    );
    home.run(&["answer", "nights=many", "name=Ada"])
        .code(2)
        .says("\"many\" is not a valid answer to the question \"nights\"");
    home.run(&["answer", "colour=red"])
        .code(2)
        .says("the questions are: name");
    home.run(&["answer", "Ada"]).code(2).says("question=answer");
    home.run(&["answer", "room=cellar", "name=Ada"]).code(5).says("room");
    home.run(&["answer", "nights=3"]).code(5).says("name");
    assert_eq!(waits(&home, 1).len(), 1, "what was refused is still open");
    home.run(&[
        "answer",
        "name=Ada = Countess",
        "height=1.9",
        "nights=3",
        "pet=no",
        "room=garden",
        "meals=lunch,supper",
    ])
    .code(0);
    let ended = sender.wait().code(0);
    for line in [
        "- name: Ada = Countess",
        "- height: 1.9",
        "- nights: 3",
        "- pet: no",
        "- room: garden",
        "- meals: lunch, supper",
    ] {
        assert!(ended.stdout.contains(line), "{line:?} is missing in {ended:?}");
    }
}

#[test]
fn questions_can_be_declined_and_pages_confirmed() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = send(&home, "/ask", 1);
    home.run(&["answer", "--decline"]).code(0);
    assert!(sender.wait().code(0).stdout.contains("You would rather not say"));
    let sender = send(&home, "/ask url", 1);
    let shown = home.run(&["pending"]).code(0).stdout;
    assert!(shown.contains("visit https://example.com/guest-book"), "{shown}");
    home.run(&["answer"]).code(0);
    assert!(sender.wait().code(0).stdout.contains("Thank you for signing."));
    home.run(&["answer", "--decline", "name=Ada"]).code(2);
}

#[test]
fn several_pending_inputs_need_an_id() {
    let home = Home::new();
    let _host = home.host(&[]);
    for command in ["approve", "deny", "answer"] {
        home.run(&[command]).code(5).says("innkeeper pending");
    }
    let sender = send(&home, "/parallel 2", 2);
    home.run(&["approve"]).code(2).says("2 inputs are pending");
    home.run(&["answer"]).code(5).says("no pending input matches");
    home.run(&["approve", "no-such-thing"])
        .code(5)
        .says("no pending input matches");
    let both = waits(&home, 2);
    home.run(&["approve", id(&both[0])]).code(0);
    home.run(&["approve", id(&both[0])])
        .code(5)
        .says("no pending input matches");
    // A part of an id is enough.
    let (_, tail) = id(&both[1]).rsplit_once('/').unwrap();
    home.run(&["deny", tail]).code(0);
    assert!(sender.wait().code(0).stdout.contains("1 of 2 errands"));
}

#[test]
fn a_rejected_answer_is_reported_and_stays_pending() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = send(&home, "/confirm", 1);
    home.run(&["approve", "--option", "softly"])
        .code(5)
        .says("the host rejected it");
    assert_eq!(waits(&home, 1).len(), 1);
    home.run(&["deny"]).code(0);
    assert!(sender.wait().code(0).stdout.contains("no reason given"));
    let lonely = Home::new();
    lonely.run(&["pending"]).code(69).says("start one with `innkeeper`");
}

/// A request of a subagent at depth three is found as well (lesson 41).
#[test]
fn pending_lists_requests_of_nested_subagents() {
    let home = Home::new();
    let _host = home.host(&[]);
    let sender = send(&home, "/subagent 3", 1);
    let shown = home.run(&["pending"]).code(0).stdout;
    assert!(shown.contains("approval: Ring the bell"), "{shown}");
    home.run(&["approve"]).code(0);
    let sent = sender.wait().code(0).says("a subagent of this turn waits for input");
    assert!(sent.stdout.contains("3 subagents later"), "{sent:?}");
}
