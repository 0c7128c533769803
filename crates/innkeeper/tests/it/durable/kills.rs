//! F1: the host is killed at random times, and everything that a client was sent is there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ahp_types::actions::ActionEnvelope;
use ahp_types::state::TurnState;
use innkeeper_faults::Random;
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, tool_calls_of};
use innkeeper_testkit::process::{HostProcess, StoppedHost};
use serde_json::Value;

use crate::durable::busy_session::{BusySession, is_echo};
use crate::durable::{chosen, options};

/// Kills in an ordinary run; `INNKEEPER_KILLS=2000` is the full count.
const KILLS: u64 = 12;

/// Lives on one data directory. A directory of thousands takes longer to look through after every kill.
const GENERATION: usize = 100;

/// Somewhat more actions than one client gets in a run without a kill.
const ACTIONS: usize = 160;

/// The results of all kills.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    pub(crate) checked: usize,
    replays: u64,
    snapshots: u64,
    interrupted: u64,
    executions: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f1_a_kill_at_any_time_loses_nothing_that_was_sent() {
    let kills = chosen("INNKEEPER_KILLS", KILLS);
    let first_seed: u64 = chosen("INNKEEPER_KILL_SEED", 1);
    let mut tally = Tally::default();
    let mut seeds = first_seed..first_seed + kills;
    while !seeds.is_empty() {
        let generation: Vec<u64> = seeds.by_ref().take(GENERATION).collect();
        let mut host = HostProcess::start(options()).await;
        for seed in &generation {
            // A failure below names the life it happened in, which names the seed.
            host = one_kill(host, *seed, &mut tally).await;
        }
        assert_all_listed(&host, generation.len()).await;
    }
    assert!(
        tally.checked as u64 > 5 * kills,
        "most lives can be compared action by action"
    );
    println!(
        "kills: {}, actions checked: {}, lost: 0, replays: {}, snapshots: {}, turns interrupted: {}, tools executed: {}",
        tally.kills, tally.checked, tally.replays, tally.snapshots, tally.interrupted, tally.executions
    );
}

async fn assert_all_listed(host: &HostProcess, sessions: usize) {
    let client = OfficialClient::connect(host.address(), "reader").await;
    let listed: ahp_types::commands::ListSessionsResult = client
        .request("listSessions", serde_json::json!({ "channel": "ahp-root://" }))
        .await
        .expect("listSessions succeeds");
    assert_eq!(listed.items.len(), sessions, "every session is listed, and each once");
}

/// One life, one kill, and a look at what is left.
async fn one_kill(host: HostProcess, seed: u64, tally: &mut Tally) -> HostProcess {
    let name = format!("seed-{seed}");
    let mut random = Random::new(seed);
    let life = BusySession::begin(host.address(), &name).await;
    let moment = random.below(ACTIONS);
    let within = Duration::from_micros(random.number() % 4000);
    let dying = async {
        life.first
            .until("the moment to die", |view| view.actions.len() >= moment)
            .await;
        // Between two actions there are moments, too.
        tokio::time::sleep(within).await;
    };
    tokio::select! {
        () = life.go_on(&name, &mut random) => {}
        () = dying => {}
    }
    let killed = host.kill().await;
    look(killed, life, &name, tally).await
}

/// Restarts the host, and compares its state with everything that clients got.
pub(crate) async fn look(killed: StoppedHost, mut life: BusySession, name: &str, tally: &mut Tally) -> HostProcess {
    life.first.disconnected().await;
    life.second.disconnected().await;
    let told = life.told();
    let left_at = life.witness.view().last_seen;
    let highest = told.last().map_or(0, |envelope| envelope.server_seq);

    let host = killed.start().await;
    for client in [&mut life.first, &mut life.second, &mut life.witness] {
        client.move_to(host.address());
        match client.reconnect().await {
            Ok(ReconnectOutcome::Replay { missing, .. }) => {
                assert!(missing.is_empty(), "{name}: {missing:?} is lost");
                tally.replays += 1;
            }
            Ok(ReconnectOutcome::Snapshots(channels)) => {
                assert_eq!(channels.len(), 3, "{name}: something is lost, {channels:?} are left");
                tally.snapshots += 1;
            }
            Err(error) => panic!("{name}: {} is not known any more: {error}", client.client_id),
        }
    }
    tally.kills += 1;
    tally.checked += check_told(name, &life, &told, left_at);
    check_numbers(name, &life, &told, highest);
    check_turns(name, &life, tally).await;
    let again = usable(name, &life, &killed.log, &host).await;
    tally.executions += again;
    host
}

/// Every action that a client dispatched and any client saw accepted is part of what happened (P1): the one who was away
/// hears of it, under the same number, and what it adds up to is what the host has now.
fn check_told(name: &str, life: &BusySession, told: &[ActionEnvelope], left_at: u64) -> usize {
    let view = life.witness.view();
    if view.actions.is_empty() {
        // It left so shortly before the kill that the host does not know what it had, and got snapshots.
        return 0;
    }
    let log: BTreeMap<u64, &ActionEnvelope> = view.actions.iter().map(|action| (action.server_seq, action)).collect();
    let echoes = told.iter().filter(|envelope| is_echo(envelope));
    let echoes: Vec<_> = echoes.filter(|echo| echo.server_seq > left_at).collect();
    for echo in &echoes {
        let is_draft = serde_json::to_value(&echo.action).expect("JSON")["type"] == "chat/draftChanged";
        match log.get(&echo.server_seq) {
            Some(found) => assert_eq!(found, echo, "{name}: another action under the same number"),
            // Drafts may be lost with the last moments before a kill (P1), and a decision about a call that was
            // decided before changes nothing (DSP-15).
            None => assert!(is_draft || is_late_decision(told, echo), "{name}: lost {echo:#?}"),
        }
    }
    echoes.len()
}

/// Whether an echo is a decision about a tool call that was decided, or whose turn was cancelled, before it.
fn is_late_decision(told: &[ActionEnvelope], echo: &ActionEnvelope) -> bool {
    let content = |envelope: &ActionEnvelope| serde_json::to_value(&envelope.action).expect("JSON");
    let decision = content(echo);
    let earlier = told.iter().filter(|envelope| envelope.server_seq < echo.server_seq);
    decision["type"] == "chat/toolCallConfirmed"
        && earlier.map(content).any(|action| match action["type"].as_str() {
            Some("chat/toolCallConfirmed") => action["toolCallId"] == decision["toolCallId"],
            Some("chat/turnCancelled") => action["turnId"] == decision["turnId"],
            _ => false,
        })
}

/// Numbers never go back, and none is given out twice (P5).
fn check_numbers(name: &str, life: &BusySession, told: &[ActionEnvelope], highest: u64) {
    let before: BTreeMap<u64, &ActionEnvelope> = told.iter().map(|action| (action.server_seq, action)).collect();
    for client in [&life.first, &life.second, &life.witness] {
        let view = client.view();
        for envelope in &view.actions {
            match before.get(&envelope.server_seq) {
                Some(known) => assert_eq!(known.channel, envelope.channel, "{name}: a number is used twice"),
                None if is_news(envelope) => {
                    assert!(
                        envelope.server_seq > highest,
                        "{name}: {envelope:?} comes before {highest}"
                    );
                }
                None => {}
            }
        }
    }
}

/// Whether the host did this after it came back.
fn is_news(envelope: &ActionEnvelope) -> bool {
    let action = serde_json::to_value(&envelope.action).expect("JSON");
    action["part"]["error"]["errorType"] == "hostRestarted"
}

/// No turn is left open, and what was interrupted says so (P4).
async fn check_turns(name: &str, life: &BusySession, tally: &mut Tally) {
    let chat = &life.uris.chat;
    for client in [&life.first, &life.second, &life.witness] {
        client
            .until("nothing runs", |view| {
                view.chat(chat).is_some_and(|chat| chat.active_turn.is_none())
            })
            .await;
    }
    let state = life.first.chat(chat);
    for turn in &state.turns {
        let last = turn.response_parts.last();
        let last = serde_json::to_value(last).expect("JSON");
        if turn.state == TurnState::Error {
            assert_eq!(last["error"]["errorType"], "hostRestarted", "{name}: {last}");
            tally.interrupted += 1;
        }
        for call in tool_calls_of(turn) {
            let status = call["status"].as_str().unwrap_or_default();
            assert!(
                matches!(status, "completed" | "cancelled"),
                "{name}: a call is left {status}"
            );
        }
    }
    assert!(
        life.first.view().waits(&life.uris.session).is_empty(),
        "{name}: no client is waited for"
    );
}

/// Checks that the session works as before, that all clients agree, and that no tool ran twice (P4). Returns how many
/// ran.
async fn usable(name: &str, life: &BusySession, log: &str, host: &HostProcess) -> usize {
    let BusySession {
        first,
        second,
        witness,
        uris,
    } = life;
    let mut executed = executions(log, &uris.session);
    // Pending messages are still there and run after the next turn; their confirmations are denied.
    let saying_no = async {
        loop {
            let wait = second.wait_for(&uris.session, "toolConfirmation").await;
            second.decide(&wait, serde_json::json!({ "approved": false })).await;
            second.nothing_waits(&uris.session).await;
        }
    };
    let before = first.chat(&uris.chat);
    let turns = before.turns.len() + before.queued_messages.map_or(0, |queue| queue.len()) + 1;
    let going_on = async {
        let turn = first
            .run_turn(&uris.chat, &format!("{name}-after"), "still there?")
            .await;
        assert_eq!(turn.state, TurnState::Complete, "{name}");
        first
            .until("everything that waited is done", |view| {
                let chat = view.chat(&uris.chat);
                chat.is_some_and(|chat| chat.turns.len() == turns)
            })
            .await;
    };
    tokio::select! {
        () = going_on => {}
        () = saying_no => {}
    }
    for client in [first, second, witness] {
        client.assert_converged().await;
    }
    let session = first.session(&uris.session);
    let listed = first.listed(&uris.session).await;
    assert_eq!(listed.title, session.title, "{name}");
    let history = first.chat(&uris.chat);
    let mut known = BTreeSet::new();
    for turn in &history.turns {
        for call in tool_calls_of(turn) {
            known.insert((turn.id.clone(), text(&call["toolCallId"])));
        }
    }
    executed.extend(executions(&host.log(), &uris.session));
    let once: BTreeSet<_> = executed.iter().cloned().collect();
    assert_eq!(once.len(), executed.len(), "{name}: a tool ran twice: {executed:?}");
    for execution in &once {
        assert!(
            known.contains(execution),
            "{name}: {execution:?} ran, and the history does not know of it"
        );
    }
    executed.len()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The turn and the call of every execution in a session that a host logged.
fn executions(log: &str, session: &str) -> Vec<(String, String)> {
    let lines = log.lines().filter(|line| line.contains("a tool of the tour executes"));
    lines
        .filter(|line| field(line, "session") == Some(session))
        .map(|line| {
            let found = field(line, "turn").zip(field(line, "call"));
            let (turn, call) = found.unwrap_or_else(|| panic!("a turn and a call are named: {line}"));
            (turn.to_owned(), call.to_owned())
        })
        .collect()
}

/// The value of a field in a line of the log.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0)
}
