//! F18: bits flip in the file while no host runs. No client ever gets a wrong session, an empty one instead, or none at
//! all.

use std::collections::BTreeMap;

use innkeeper_faults::Random;
use innkeeper_store::{Archive, Mode};
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostProcess, StoppedHost};
use innkeeper_testkit::raw::{Address, RawClient};
use serde_json::{Value, json};

use crate::durable::{chosen, options};

/// Flipped bits in an ordinary run; `INNKEEPER_FLIPS` chooses another number.
const FLIPS: usize = 20;

const SESSIONS: usize = 6;

/// Returns the state of a session and its chat, or the error.
type SessionStates = Result<(Value, Value), String>;

#[tokio::test]
async fn f18_flipped_bits_are_noticed_and_cost_no_other_session() {
    let flips = chosen("INNKEEPER_FLIPS", FLIPS);
    let seed: u64 = chosen("INNKEEPER_FLIP_SEED", 18);
    let (stopped, good) = furnished().await;
    let file = stopped.data_path("sessions.db");
    let bytes = std::fs::read(&file).expect("readable");
    let mut random = Random::new(seed);
    let (mut harmless, mut noticed, mut refused) = (0, 0, 0);
    for number in 0..flips {
        let (byte, bit) = (random.below(bytes.len()), random.below(8));
        let what = format!("flip {number} of seed {seed}, bit {bit} of byte {byte}");
        let mut damaged = bytes.clone();
        damaged[byte] ^= 1 << bit;
        std::fs::write(&file, &damaged).expect("writable");
        let _ = std::fs::remove_file(stopped.data_path("sessions.db-wal"));
        let _ = std::fs::remove_file(stopped.data_path("sessions.db-shm"));
        match stopped.try_start().await {
            Err(stopped) => {
                assert_eq!(stopped.status.code(), Some(73), "{what}: {}", stopped.log);
                assert!(
                    stopped.log.contains("sessions.db") && names_the_remedy(&stopped.log),
                    "{what}: {}",
                    stopped.log
                );
                assert!(!stopped.log.contains("panicked"), "{what}: {}", stopped.log);
                assert!(file.exists(), "{what}: the file is gone");
                refused += 1;
            }
            Ok(host) => {
                let bad = compare(&what, &host, &good).await;
                let log = host.kill().await.log;
                assert!(!log.contains("panicked"), "{what}: {log}");
                noticed += usize::from(bad > 0);
                harmless += usize::from(bad == 0);
            }
        }
    }
    println!("flipped bits: {flips}, harmless: {harmless}, noticed: {noticed}, refused: {refused}, wrong: 0");
    std::fs::write(&file, &bytes).expect("writable");
    let host = stopped.start().await;
    assert_eq!(compare("as it was", &host, &good).await, 0);
}

/// A damaged session can still be deleted by an explicit request, without other effects.
#[tokio::test]
async fn f18_a_damaged_session_can_be_disposed_of() {
    let host = HostProcess::start(options()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let damaged = client.create_session("damaged").await;
    client.run_turn(&damaged.chat, "t1", "hello").await;
    client.run_turn(&damaged.chat, "t2", "words to be damaged").await;
    let whole = client.create_session("whole").await;
    client.run_turn(&whole.chat, "t1", "hello").await;
    let stopped = host.stop().await;
    let file = stopped.data_path("sessions.db");
    let mut bytes = std::fs::read(&file).expect("readable");
    let words = b"words to be damaged";
    let places: Vec<usize> = (0..bytes.len() - words.len())
        .filter(|at| bytes[*at..].starts_with(words))
        .collect();
    assert!(!places.is_empty(), "the words are in the file");
    for place in places {
        bytes[place] ^= 1;
    }
    std::fs::write(&file, bytes).expect("writable");

    let host = stopped.start().await;
    let mut client = RawClient::initialized(host.address(), "tidy").await;
    let channel = json!({ "channel": damaged.session });
    let refusal = client.call("subscribe", channel.clone()).await.expect_err("damaged");
    assert!(refusal.message.contains("damaged"), "{refusal:?}");
    // Pruning cannot know whether the session is unchanged.
    let tidy = json!({ "channel": damaged.session, "_meta": { "innkeeper.onlyIf": {} } });
    client.call("disposeSession", tidy).await.expect_err("not to be judged");
    client.call("disposeSession", channel.clone()).await.expect("deleted");
    let refusal = client.call("disposeSession", channel).await.expect_err("gone");
    assert_eq!(refusal.code, -32001, "{refusal:?}");
    let killed = host.kill().await;

    let archive = Archive::open(&file, Mode::ReadOnly).expect("readable");
    assert_eq!(archive.count().expect("readable"), 1);
    assert!(archive.load(&damaged.session).expect("readable").is_none());
    assert_eq!(archive.check().expect("readable"), []);
    drop(archive);
    let host = killed.start().await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.join(&whole.session).await;
    assert_eq!(reader.chat(&whole.chat).turns.len(), 1);
    let again = reader.create_listed_session("damaged").await;
    assert!(reader.chat(&again.chat).turns.is_empty());
    reader
        .until("both are counted", |view| {
            view.root().and_then(|root| root.active_sessions) == Some(2)
        })
        .await;
    reader.run_turn(&again.chat, "t1", "anew").await;
    reader.assert_converged().await;
}

/// A stopped host with sessions, and what each of them shows.
async fn furnished() -> (StoppedHost, BTreeMap<String, (Value, Value)>) {
    let host = HostProcess::start(options()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let mut chats = Vec::new();
    for number in 0..SESSIONS {
        let uris = client.create_session(&format!("number-{number}")).await;
        for turn in 0..4 {
            let text = format!("/stream {} 0 300", 3 + number + turn);
            client.run_turn(&uris.chat, &format!("t{turn}"), &text).await;
        }
        chats.push(uris);
    }
    let host = host.stop().await.start().await;
    let mut good = BTreeMap::new();
    for uris in chats {
        let shown = shown(host.address(), &uris.session).await;
        good.insert(uris.session, shown.expect("an undamaged session"));
    }
    (host.stop().await, good)
}

/// Returns whether a message says what to do.
fn names_the_remedy(words: &str) -> bool {
    words.contains("`innkeeper doctor`") || words.contains("innkeeper doctor --move-aside")
}

/// Compares every session with what it was; returns how many are damaged and say so.
async fn compare(what: &str, host: &HostProcess, good: &BTreeMap<String, (Value, Value)>) -> usize {
    let mut bad = 0;
    for (session, expected) in good {
        match shown(host.address(), session).await {
            Ok(found) => assert_eq!(found, *expected, "{what}: {session} is wrong"),
            Err(problem) => {
                // Only the operator needs the path of the file; every client needs the problem and the advice.
                assert!(
                    problem.contains("damaged") && names_the_remedy(&problem),
                    "{what}: {session}: {problem}"
                );
                bad += 1;
            }
        }
    }
    bad
}

async fn shown(address: &Address, session: &str) -> SessionStates {
    let mut client = RawClient::initialized(address, "reader").await;
    let mut subscribe = async |uri: &str| {
        let answer = client.call("subscribe", json!({ "channel": uri })).await;
        let answer = answer.map_err(|refusal| format!("{} ({})", refusal.message, refusal.code))?;
        Ok::<_, String>(answer["snapshot"]["state"].clone())
    };
    let state = subscribe(session).await?;
    let chat = state["defaultChat"].as_str().expect("a default chat").to_owned();
    let chat = subscribe(&chat).await?;
    Ok((state, chat))
}
