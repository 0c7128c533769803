//! Damaged files: only the damaged session is lost (P9).

use std::collections::BTreeMap;
use std::path::Path;

use innkeeper_core::records::{ListPage, Record};
use innkeeper_faults::Random;
use innkeeper_host::journal::Journal;
use innkeeper_store::{Archive, ErrorKind, Mode, Options};
use innkeeper_testkit::journal::describe;
use innkeeper_testkit::journal::host_run::{HostRun, client, turns_record};

use crate::disks::PlainStorage;

const SESSIONS: usize = 12;

/// Number of flipped bits.
const FLIPS: usize = 150;

fn session(number: usize) -> String {
    format!("ahp-session:/{number}")
}

fn chat(number: usize) -> String {
    format!("ahp-chat:/{number}/first")
}

/// Sessions with everything that a session can have, large enough to fill pages of every kind.
async fn furnish(life: &mut HostRun) {
    for number in 0..SESSIONS {
        let (session, chat) = (session(number), chat(number));
        life.create(&session, &chat).await;
        let ids: Vec<String> = (0..40)
            .map(|turn| format!("{number}-turn-{turn}-{}", "x".repeat(turn * 7)))
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let records = vec![
            turns_record(&chat, 0, &ids),
            life.chat(&session, &chat),
            life.session(&session),
        ];
        life.keep(records).await;
        for action in 0..8 {
            let record = life.title(
                &session,
                &format!("title {action} of {number} {}", "y".repeat(action * 50)),
            );
            life.keep(vec![record]).await;
            let record = life.delta(&chat, &format!("part {action}"), "some streamed text");
            life.keep(vec![record]).await;
        }
        life.keep(vec![client(&format!("client-{number}"), "known")]).await;
    }
    let records = vec![
        life.root_action(3),
        Record::Root {
            seq: life.seq,
            document: innkeeper_testkit::journal::host_run::text("the root"),
            is_promised: false,
        },
    ];
    life.keep(records).await;
    life.flush().await;
}

/// Returns everything that is known of a session.
fn contents(archive: &Archive, uri: &str) -> Result<Option<String>, ErrorKind> {
    let Some(session) = archive.load(uri).map_err(|error| error.kind)? else {
        return Ok(None);
    };
    let mut text = describe(&session);
    for chat in &session.chats {
        let turns = archive
            .turns(&chat.uri, 0..chat.turns.len())
            .map_err(|error| error.kind)?;
        for turn in turns {
            text.push_str(&String::from_utf8_lossy(&turn));
        }
    }
    for frame in &session.log {
        text.push_str(&format!(
            "{} {}..{} {:?}\n",
            frame.channel, frame.first, frame.seq, frame.bytes
        ));
    }
    Ok(Some(text))
}

fn all(path: &Path) -> BTreeMap<String, String> {
    let archive = Archive::open(path, Mode::ReadOnly).unwrap();
    let sessions = (0..SESSIONS).map(session);
    sessions
        .filter_map(|uri| Some((uri.clone(), contents(&archive, &uri).unwrap()?)))
        .collect()
}

/// A flipped bit anywhere in the file is harmless or detected, and never changes a session (F18).
#[tokio::test]
async fn f18_a_flipped_bit_never_yields_a_wrong_session() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    furnish(&mut life).await;
    drop(life);
    let good = all(&plain.file());
    assert_eq!(good.len(), SESSIONS);
    let bytes = std::fs::read(plain.file()).unwrap();
    let mut random = Random::new(18);
    let (mut noticed, mut refused, mut harmless) = (0, 0, 0);
    for _ in 0..FLIPS {
        let damaged = PlainStorage::new();
        let mut copy = bytes.clone();
        let (byte, bit) = (random.below(copy.len()), random.below(8));
        copy[byte] ^= 1 << bit;
        std::fs::write(damaged.file(), &copy).unwrap();
        let Ok(archive) = Archive::open(&damaged.file(), Mode::ReadOnly) else {
            refused += 1;
            continue;
        };
        let mut bad = 0;
        for (uri, expected) in &good {
            match contents(&archive, uri) {
                Ok(Some(found)) => assert_eq!(&found, expected, "{uri} is wrong after bit {bit} of byte {byte}"),
                Ok(None) => panic!("{uri} is hidden after bit {bit} of byte {byte}"),
                Err(kind) => {
                    assert_eq!(kind, ErrorKind::Damaged, "bit {bit} of byte {byte}");
                    bad += 1;
                }
            }
        }
        noticed += usize::from(bad > 0);
        harmless += usize::from(bad == 0);
        if bad > 0 {
            let findings = archive.check().expect("a damaged file can be checked");
            assert!(
                !findings.is_empty(),
                "bit {bit} of byte {byte} of {} is not found",
                copy.len()
            );
        }
    }
    println!("{FLIPS} flipped bits: {harmless} harmless, {noticed} noticed, {refused} refused");
}

/// The other sessions work, and the damaged one is neither removed nor replaced (P9).
#[tokio::test]
async fn p9_a_damaged_session_is_reported_and_the_others_work() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    furnish(&mut life).await;
    drop(life);
    let mut bytes = std::fs::read(plain.file()).unwrap();
    let needle = format!("{} at ", chat(5));
    let place = bytes
        .windows(needle.len())
        .position(|window| window == needle.as_bytes());
    bytes[place.expect("the document is in the file")] ^= 0x20;
    std::fs::write(plain.file(), &bytes).unwrap();
    let mut life = HostRun::begin(&plain).await;
    assert_eq!(life.lease.sessions, SESSIONS);
    for _ in 0..2 {
        for number in 0..SESSIONS {
            let loaded = life.journal.load(&session(number)).await;
            if number == 5 {
                let error = loaded.expect_err("it is damaged").to_string();
                assert!(
                    error.contains(&chat(5)) && error.contains("innkeeper doctor"),
                    "{error}"
                );
            } else {
                assert!(loaded.expect("it is not damaged").is_some());
            }
        }
        let record = life.title(&session(3), "others can be written to");
        life.keep(vec![record]).await;
        life = life.again(&plain).await;
    }
    assert_eq!(life.list().await.len(), SESSIONS);
    drop(life);
    let archive = Archive::open(&plain.file(), Mode::ReadOnly).unwrap();
    let findings = archive.check().unwrap();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].session.as_deref(), Some(&*session(5)));
}

/// A truncated write-ahead log loses the truncated transaction and those after it (F17).
#[tokio::test]
async fn f17_a_truncated_wal_loses_only_its_end() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    life.create(&session(0), &chat(0)).await;
    let mut lengths = Vec::new();
    for action in 0..6 {
        let record = life.title(&session(0), &format!("title {action}"));
        life.keep(vec![record]).await;
        lengths.push((std::fs::metadata(plain.wal()).unwrap().len(), life.seq));
    }
    let copy = plain.copy();
    drop(life);
    let wal = std::fs::OpenOptions::new().write(true).open(copy.wal()).unwrap();
    let length = wal.metadata().unwrap().len();
    for cut in (length - 4096..=length).rev() {
        wal.set_len(cut).unwrap();
        let _ = std::fs::remove_file(copy.0.path().join("sessions.db-shm"));
        let archive = Archive::open(&copy.file(), Mode::ReadOnly).unwrap();
        let loaded = archive.load(&session(0)).unwrap().expect("the session is there");
        let whole = lengths.iter().filter(|(length, _)| *length <= cut);
        let expected = whole.map(|(_, seq)| *seq).next_back();
        assert_eq!(loaded.log.last().map(|frame| frame.seq), expected, "cut at {cut}");
    }
}

/// A flipped bit in the write-ahead log ends it there; everything before is intact (F18).
#[tokio::test]
async fn f18_a_flipped_bit_in_the_wal_ends_it_there() {
    let plain = PlainStorage::new();
    let mut life = HostRun::begin(&plain).await;
    life.create(&session(0), &chat(0)).await;
    for action in 0..20 {
        let record = life.title(&session(0), &format!("title {action}"));
        life.keep(vec![record]).await;
    }
    let said = life.said_in(&session(0));
    let copy = plain.copy();
    drop(life);
    let wal = std::fs::read(copy.wal()).unwrap();
    let mut random = Random::new(19);
    for _ in 0..120 {
        let mut damaged = wal.clone();
        let byte = random.below(damaged.len());
        damaged[byte] ^= 1 << random.below(8);
        let case = copy.copy();
        std::fs::write(case.wal(), &damaged).unwrap();
        let journal = case.sqlite(Options::default());
        let lease = journal.open().await.expect("it opens");
        let page = ListPage { after: None, limit: 10 };
        let listed = journal.list(page).await.unwrap().len();
        let loaded = journal.load(&session(0)).await.unwrap();
        assert_eq!(
            (lease.sessions, listed),
            (usize::from(loaded.is_some()), usize::from(loaded.is_some()))
        );
        let Some(loaded) = loaded else { continue };
        for (frame, action) in loaded.log.iter().zip(&said) {
            assert_eq!((frame.seq, &frame.bytes[..]), (action.seq, &action.bytes[..]));
        }
        let last = loaded.log.last().map_or(loaded.seq, |frame| frame.seq);
        assert!(
            lease.persisted_seq <= last,
            "more is kept than there is, after a flip of byte {byte}"
        );
    }
}
