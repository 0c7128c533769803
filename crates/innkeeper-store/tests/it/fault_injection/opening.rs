//! Failures while the file is created, recovered or migrated: existing data survives (P9, F23).

use std::fs;
use std::path::Path;

use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use innkeeper_core::{ActionFrame, Seq};
use innkeeper_faults::{Disk, Fault, Op, Random};
use innkeeper_host::journal::{Journal, RESERVED};
use innkeeper_store::FILE_NAME;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::fault_injection::digest::digest;
use crate::fault_injection::run::{Run, images, journal_in, journal_on};

/// A data directory and the expected result of opening it.
struct DataDirectory {
    what: &'static str,
    directory: TempDir,
    expected: Found,
}

#[derive(Debug, PartialEq)]
struct Found {
    digest: String,
    persisted_seq: Seq,
}

impl DataDirectory {
    async fn new(what: &'static str, directory: TempDir) -> Self {
        let mut data_dir = Self {
            what,
            directory,
            expected: Found {
                digest: String::new(),
                persisted_seq: Seq(0),
            },
        };
        let copy = data_dir.copy();
        data_dir.expected = find(copy.path()).await.0;
        data_dir
    }

    fn copy(&self) -> TempDir {
        let copy = TempDir::new().unwrap();
        for entry in fs::read_dir(self.directory.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        copy
    }

    /// Opens the directory on a disk that fails once, and then on a good one.
    async fn survives(&self, op: Op, n: u64, fault: Fault) {
        let context = format!("{}, {fault:?} at {op:?} {n}", self.what);
        let copy = self.copy();
        let disk = Disk::install(copy.path());
        let journal = journal_on(&disk, copy.path());
        disk.fail_nth(op, n, fault);
        // A failed start can be repeated.
        let opened = journal.open().await;
        drop(journal);
        disk.clear_faults();
        drop(disk);
        let (found, last_seq) = find(copy.path()).await;
        assert_eq!(found, self.expected, "{context}, where open said {opened:?}");
        if let Ok(lease) = opened {
            assert!(
                last_seq.0 >= lease.last_seq.0 + RESERVED - 1,
                "{context}: numbers start again"
            );
        }
    }
}

/// Returns the content of a directory and the sequence number after which its next journal starts.
async fn find(directory: &Path) -> (Found, Seq) {
    let journal = journal_in(directory);
    let lease = match journal.open().await {
        Ok(lease) => lease,
        Err(error) => panic!("a good disk, but {error}"),
    };
    let found = Found {
        digest: digest(&journal, &lease).await,
        persisted_seq: lease.persisted_seq,
    };
    (found, lease.last_seq)
}

/// Directories of all kinds.
async fn data_dirs() -> Vec<DataDirectory> {
    let mut ended = Run::begin(61).await;
    ended.work(20).await;
    ended.flush().await.unwrap();
    drop(ended.journal);

    let mut killed = Run::begin(62).await;
    killed.work(20).await;
    killed.flush().await.unwrap();
    let image = killed.disk.recording();
    let left = TempDir::new().unwrap();
    image.kill(image.len()).write_to(left.path()).unwrap();

    vec![
        DataDirectory::new("nothing", TempDir::new().unwrap()).await,
        DataDirectory::new("after a good end", ended.directory).await,
        DataDirectory::new("after a kill", left).await,
        DataDirectory::new("of the earliest version", earliest_version()).await,
    ]
}

/// Sessions in the draft format, which opening migrates.
fn earliest_version() -> TempDir {
    let directory = TempDir::new().unwrap();
    let file = Connection::open(directory.path().join(FILE_NAME)).unwrap();
    file.execute_batch(include_str!("../../../src/schema/0.sql")).unwrap();
    file.execute_batch("PRAGMA application_id = 0x494E4E4B; PRAGMA user_version = 0;")
        .unwrap();
    file.execute("INSERT INTO host VALUES (100000, 500)", ()).unwrap();
    for n in 1..=20_u32 {
        let (session, chat) = (format!("ahp-session:/{n}"), format!("ahp-chat:/{n}"));
        let text = "what it was about ".repeat(n as usize * 13);
        let row = (&session, n, 2 * n, 10 * n, text.as_bytes(), text.as_bytes());
        file.execute("INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row)
            .unwrap();
        let row = (&chat, &session, 10 * n, text.as_bytes());
        file.execute("INSERT INTO chat VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        for position in 0..n % 4 {
            let row = (&chat, position, format!("turn {position}"), text.as_bytes());
            file.execute("INSERT INTO turn VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        }
        let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title: text });
        let seq = 10 * n + 5;
        let frame = ActionFrame::from_action(&session, &action, Seq(u64::from(seq)));
        let row = (seq, &session, 1_000, 0, &frame.bytes);
        file.execute("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5)", row)
            .unwrap();
    }
    drop(file);
    directory
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_f23_an_error_at_any_operation_of_opening_loses_no_data() {
    let mut cases = 0;
    for data_dir in data_dirs().await {
        let copy = data_dir.copy();
        let disk = Disk::install(copy.path());
        journal_on(&disk, copy.path()).open().await.unwrap();
        let counts = disk.counts();
        for op in Op::ALL {
            for n in 1..=counts.of(op) {
                // All operations if they are few, otherwise a sample.
                if n <= 30 || n % 7 == 0 {
                    let fault = if n % 2 == 0 { Fault::Full } else { Fault::Io };
                    data_dir.survives(op, n, fault).await;
                    data_dir.survives(op, n, Fault::Stop).await;
                    cases += 2;
                }
            }
        }
    }
    println!("errors while opening: {cases} cases, 0 losses");
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_f5_a_power_cut_at_any_point_of_opening_loses_no_data() {
    let mut cases = 0;
    for data_dir in data_dirs().await {
        let copy = data_dir.copy();
        let disk = Disk::install(copy.path());
        let journal = journal_on(&disk, copy.path());
        let lease = journal.open().await.unwrap();
        let opened = disk.position();
        drop(journal);
        let recording = disk.recording();
        // All cuts if they are few, otherwise as many as requested.
        let step = (recording.len() / images()).max(1);
        for cut in (0..=recording.len()).step_by(step) {
            let seed = cut as u64;
            let left = TempDir::new().unwrap();
            let image = recording.power_cut(cut, &mut Random::new(seed));
            image.write_to(left.path()).unwrap();
            let context = format!("{}, cut {cut} of {}, seed {seed}", data_dir.what, recording.len());
            let (found, last_seq) = find(left.path()).await;
            assert_eq!(found, data_dir.expected, "{context}");
            if cut >= opened {
                assert!(
                    last_seq.0 >= lease.last_seq.0 + RESERVED - 1,
                    "{context}: numbers start again"
                );
            }
            cases += 1;
        }
    }
    println!("power cuts while opening: {cases} images, 0 losses");
}
