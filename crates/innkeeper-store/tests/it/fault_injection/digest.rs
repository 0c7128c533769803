//! A textual digest of a journal's content, for comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};

use innkeeper_core::Seq;
use innkeeper_core::records::{Batch, ListPage, Record, StoredChat, StoredFrame, StoredSession, TurnSource};
use innkeeper_host::journal::{Journal, Lease};
use serde_json::Value;

/// Describes everything that the records determine. Excludes merged appends, actions retained for replay only, and
/// the list of unsettled sessions.
pub async fn digest(journal: &dyn Journal, lease: &Lease) -> String {
    let mut out = format!("{} sessions\n", lease.sessions);
    for client in &lease.clients {
        line(&mut out, &format!("client {}: {}", client.id, brief(&client.document)));
    }
    if let Some(root) = &lease.root {
        line(&mut out, &format!("root at {}: {}", root.seq, brief(&root.document)));
        folding_log(&mut out, &root.log, |_| Some(root.seq));
    }
    let turns = journal.turns().expect("a journal that keeps sessions reads turns");
    let mut after = None;
    loop {
        let page = ListPage { after, limit: 5 };
        let listed = journal.list(page).await.expect("sessions can be listed");
        let Some(last) = listed.last() else { break };
        after = Some((last.modified_ms, last.uri.clone()));
        for summary in &listed {
            let shown = brief(&summary.summary);
            line(
                &mut out,
                &format!("{} of {}: {shown}", summary.uri, summary.modified_ms),
            );
            let session = journal.load(&summary.uri).await.expect("a listed session can be read");
            let session = session.expect("a listed session is there");
            describe(&mut out, &session, turns.as_ref());
        }
    }
    out
}

fn describe(out: &mut String, session: &StoredSession, source: &dyn TurnSource) {
    line(out, &format!("  at {}: {}", session.seq, brief(&session.document)));
    let mut chats: Vec<&StoredChat> = session.chats.iter().collect();
    chats.sort_by(|a, b| a.uri.cmp(&b.uri));
    for chat in &chats {
        line(
            out,
            &format!("  {} at {}: {}", chat.uri, chat.seq, brief(&chat.document)),
        );
        let all = tokio::task::block_in_place(|| source.read(&chat.uri, 0..chat.turns.len()));
        let all = all.expect("turns can be read");
        assert_eq!(all.len(), chat.turns.len());
        for (turn, body) in chat.turns.iter().zip(&all) {
            assert_eq!(turn.bytes, body.len(), "{}: size of {}", chat.uri, turn.id);
            line(out, &format!("    {}: {}", turn.id, brief(body)));
        }
        assert!(
            all.ends_with(&chat.recent),
            "{}: the latest turns are the last ones",
            chat.uri
        );
        assert_eq!(
            chat.recent.is_empty(),
            all.is_empty(),
            "{}: the last turn comes along",
            chat.uri
        );
    }
    folding_log(out, &session.log, |channel| {
        let chat = chats.iter().find(|chat| chat.uri == channel).map(|chat| chat.seq);
        chat.or_else(|| (session.uri == channel).then_some(session.seq))
    });
}

/// Returns the part of a log that is newer than the document, with merged appends.
fn folding_log(out: &mut String, log: &[StoredFrame], folded: impl Fn(&str) -> Option<Seq>) {
    assert!(log.is_sorted_by(|a, b| a.seq < b.seq), "a log is in order");
    let mut channels: BTreeMap<&str, Vec<(String, String, Seq)>> = BTreeMap::new();
    for frame in log {
        let folded = folded(&frame.channel).unwrap_or_else(|| panic!("a log of {}", frame.channel));
        if frame.seq <= folded {
            continue;
        }
        assert!(
            frame.first > folded,
            "a frame of {} is in its document in part",
            frame.channel
        );
        let message: Value = serde_json::from_slice(&frame.bytes).expect("a frame is JSON");
        let params = &message["params"];
        assert_eq!(params["serverSeq"], frame.seq.0, "a frame carries its number");
        let action = &params["action"];
        let runs = channels.entry(&frame.channel).or_default();
        if action["type"] == "chat/delta" {
            let (part, text) = (
                action["partId"].to_string(),
                action["content"].as_str().unwrap_or_default(),
            );
            if let Some(run) = runs.last_mut().filter(|run| run.0 == part) {
                run.1.push_str(text);
                run.2 = frame.seq;
                continue;
            }
            runs.push((part, text.to_owned(), frame.seq));
        } else {
            runs.push((String::new(), action.to_string(), frame.seq));
        }
    }
    for (channel, runs) in channels {
        for (part, text, seq) in runs {
            line(out, &format!("  {channel} {part} until {seq}: {text}"));
        }
    }
}

/// Checks that logs have no gaps: from the first retained action of a channel on, every action is there, and nothing
/// else.
pub async fn check_logs(journal: &dyn Journal, batches: &[Batch]) {
    let mut said: BTreeMap<&str, BTreeSet<Seq>> = BTreeMap::new();
    for record in batches.iter().flat_map(|batch| &batch.records) {
        if let Record::Action(action) = record {
            said.entry(&action.channel).or_default().insert(action.frame.seq);
        }
    }
    let everything = ListPage {
        after: None,
        limit: usize::MAX >> 1,
    };
    for summary in journal.list(everything).await.expect("sessions can be listed") {
        let session = journal.load(&summary.uri).await.expect("a listed session can be read");
        let session = session.expect("a listed session is there");
        let mut left: BTreeMap<&str, Vec<&StoredFrame>> = BTreeMap::new();
        for frame in &session.log {
            left.entry(&frame.channel).or_default().push(frame);
        }
        for (channel, frames) in left {
            let mut rest = said[channel].range(frames[0].first..).peekable();
            for frame in frames {
                assert_eq!(rest.peek(), Some(&&frame.first), "{channel}: a hole");
                let mut end = None;
                while let Some(seq) = rest.next_if(|seq| **seq <= frame.seq) {
                    end = Some(*seq);
                }
                assert_eq!(end, Some(frame.seq), "{channel}: a frame ends with an action");
            }
            assert_eq!(rest.next(), None, "{channel}: the end is missing");
        }
    }
}

fn brief(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]);
    format!("{} bytes {:016x} {start}", bytes.len(), hasher.finish())
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("text grows");
}
