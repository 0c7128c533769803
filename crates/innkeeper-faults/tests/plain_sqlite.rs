//! Plain SQLite on the failing disk: the disk keeps SQLite's guarantees and nothing more, and a database that does
//! not sync is detected.

use std::path::Path;

use innkeeper_faults::{Disk, Fault, Op, Random, Recording};
use rusqlite::{Connection, ErrorCode, OpenFlags, Result};
use tempfile::TempDir;

const FILE: &str = "rows.db";

fn open(directory: &Path, disk: &Disk) -> Result<Connection> {
    let connection = Connection::open_with_flags_and_vfs(directory.join(FILE), OpenFlags::default(), disk.vfs())?;
    // Small, so that the workload has many checkpoints.
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 12;")?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, text TEXT);")?;
    Ok(connection)
}

fn insert(connection: &Connection, n: u32) -> Result<usize> {
    let text = format!("{n} ").repeat(1 + n as usize * 37 % 900);
    connection.execute("INSERT INTO rows VALUES (?1, ?2)", (n, text))
}

fn error_code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

/// Returns the rows in order and the result of SQLite's integrity check.
fn rows(path: &Path) -> Result<(Vec<u32>, String)> {
    let connection = Connection::open(path)?;
    // Nothing here has to be durable.
    connection.pragma_update(None, "synchronous", "OFF")?;
    let check = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    if connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get::<_, u32>(0))? == 0 {
        return Ok((Vec::new(), check));
    }
    let mut select = connection.prepare("SELECT n FROM rows ORDER BY n")?;
    let rows = select.query_map((), |row| row.get(0))?.collect::<Result<_>>()?;
    Ok((rows, check))
}

/// Inserts rows and returns after how many events each was acknowledged.
fn insert_rows(synchronous: &str) -> (Recording, Vec<usize>) {
    let directory = TempDir::new().unwrap();
    let disk = Disk::install(directory.path());
    insert_rows_on(&disk, &directory, synchronous)
}

fn insert_rows_on(disk: &Disk, directory: &TempDir, synchronous: &str) -> (Recording, Vec<usize>) {
    let connection = open(directory.path(), disk).unwrap();
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    let mut acknowledged = Vec::new();
    for n in 0..120 {
        insert(&connection, n).unwrap();
        acknowledged.push(disk.position());
        if n % 40 == 39 {
            connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
                .unwrap();
        }
    }
    drop(connection);
    (disk.recording(), acknowledged)
}

/// Checks the disk after a power cut.
fn losses(recording: &Recording, acknowledged: &[usize], cut: usize, seed: u64) -> Option<String> {
    let directory = TempDir::new().unwrap();
    let image = recording.power_cut(cut, &mut Random::new(seed));
    image.write_to(directory.path()).unwrap();
    let expected = acknowledged.iter().filter(|position| **position <= cut).count();
    match rows(&directory.path().join(FILE)) {
        Err(error) => Some(format!("unreadable: {error}")),
        Ok((_, check)) if check != "ok" => Some(check),
        Ok((rows, _)) if rows.len() < expected => Some(format!("{} of {expected} rows", rows.len())),
        Ok((rows, _)) if !(0..).zip(&rows).all(|(n, row)| n == *row) => Some("rows are missing in the middle".into()),
        Ok(_) => None,
    }
}

#[test]
fn f5_a_power_cut_loses_nothing_acknowledged() {
    let (recording, acknowledged) = insert_rows("FULL");
    let mut random = Random::new(5);
    let images = std::env::var("INNKEEPER_POWER_CUTS").ok();
    let images = images.map_or(200, |images| images.parse().expect("INNKEEPER_POWER_CUTS is a number"));
    let mut cuts: Vec<usize> = (0..images).map(|_| random.below(recording.len() + 1)).collect();
    cuts.extend(recording.sync_boundaries());
    for (seed, cut) in (0..).zip(&cuts) {
        let lost = losses(&recording, &acknowledged, *cut, seed);
        assert_eq!(lost, None, "cut {cut} of {}, seed {seed}", recording.len());
    }
    println!("power cuts under plain SQLite: {} images, 0 losses", cuts.len());
}

#[test]
fn f5_a_database_without_syncs_is_detected() {
    let (recording, acknowledged) = insert_rows("OFF");
    let mut random = Random::new(5);
    let found: Vec<String> = (0..200)
        .filter_map(|seed| losses(&recording, &acknowledged, random.below(recording.len() + 1), seed))
        .collect();
    assert!(
        found.iter().any(|loss| loss.contains("rows")),
        "rows are lost: {found:?}"
    );
    assert!(
        found.iter().any(|loss| !loss.contains("rows")),
        "files are broken: {found:?}"
    );
    println!("power cuts without syncs: 200 images, {} losses", found.len());
}

#[test]
fn f5_a_disk_that_ignores_syncs_is_detected() {
    let directory = TempDir::new().unwrap();
    let disk = Disk::install(directory.path());
    disk.ignore_syncs(true);
    let (recording, acknowledged) = insert_rows_on(&disk, &directory, "FULL");
    assert!(disk.counts().of(Op::Sync) > 100);
    assert_eq!(recording.sync_boundaries(), []);
    assert!((0..20).any(|seed| losses(&recording, &acknowledged, recording.len(), seed).is_some()));
}

#[test]
fn f1_a_kill_at_any_write_loses_nothing_even_without_syncs() {
    let (recording, acknowledged) = insert_rows("OFF");
    for cut in 0..=recording.len() {
        let directory = TempDir::new().unwrap();
        recording.kill(cut).write_to(directory.path()).unwrap();
        let (rows, check) = rows(&directory.path().join(FILE)).unwrap();
        let expected = acknowledged.iter().filter(|position| **position <= cut).count();
        assert_eq!(check, "ok", "cut {cut}");
        assert!(rows.len() >= expected, "cut {cut}");
    }
}

#[test]
fn f6_a_full_disk_rejects_rows_until_there_is_space() {
    let directory = TempDir::new().unwrap();
    let disk = Disk::install(directory.path());
    let connection = open(directory.path(), &disk).unwrap();
    disk.capacity(Some(disk.used() + 40_000));
    let kept = (0..1000).take_while(|n| insert(&connection, *n).is_ok()).count() as u32;
    assert!(kept > 1 && kept < 1000, "{kept}");
    let error = insert(&connection, kept).unwrap_err();
    assert_eq!(error_code(&error), Some(ErrorCode::DiskFull));
    let count = || connection.query_row("SELECT count(*) FROM rows", (), |row| row.get::<_, u32>(0));
    assert_eq!(count().unwrap(), kept, "reads go on");

    disk.capacity(None);
    insert(&connection, kept).unwrap();
    assert_eq!(count().unwrap(), kept + 1);
    drop(connection);
    assert_eq!(
        rows(&directory.path().join(FILE)).unwrap(),
        ((0..=kept).collect(), "ok".into())
    );
}

#[test]
fn f7_an_error_at_any_operation_keeps_earlier_rows() {
    let workload = |disk: &Disk, directory: &Path| -> (u32, Result<()>) {
        let connection = match open(directory, disk) {
            Ok(connection) => connection,
            Err(error) => return (0, Err(error)),
        };
        for n in 0..30 {
            if let Err(error) = insert(&connection, n) {
                return (n, Err(error));
            }
        }
        (30, Ok(()))
    };
    let mut cases = 0;
    for op in Op::ALL {
        let count = {
            let directory = TempDir::new().unwrap();
            let disk = Disk::install(directory.path());
            workload(&disk, directory.path()).1.unwrap();
            disk.counts().of(op)
        };
        for n in 1..=count {
            for fault in [Fault::Io, Fault::Short, Fault::Full, Fault::Stop] {
                let directory = TempDir::new().unwrap();
                let disk = Disk::install(directory.path());
                disk.fail_nth(op, n, fault);
                let (acknowledged, _) = workload(&disk, directory.path());
                drop(disk);
                let (rows, check) = rows(&directory.path().join(FILE)).unwrap();
                assert_eq!(check, "ok", "{op:?} {n} {fault:?}");
                assert!(
                    rows.len() >= acknowledged as usize,
                    "{op:?} {n} {fault:?}: {} of {acknowledged}",
                    rows.len()
                );
                cases += 1;
            }
        }
    }
    println!("errors at every operation under plain SQLite: {cases} cases");
}

#[test]
fn f7_a_failed_sync_rejects_the_row_and_the_next_succeeds() {
    let directory = TempDir::new().unwrap();
    let disk = Disk::install(directory.path());
    let connection = open(directory.path(), &disk).unwrap();
    insert(&connection, 0).unwrap();
    let before = disk.counts().of(Op::Sync);
    disk.fail_next_sync();
    assert_eq!(
        error_code(&insert(&connection, 1).unwrap_err()),
        Some(ErrorCode::SystemIoFailure)
    );
    assert_eq!(disk.counts().of(Op::Sync), before + 1);
    insert(&connection, 2).unwrap();
    drop(connection);
    assert_eq!(rows(&directory.path().join(FILE)).unwrap(), (vec![0, 2], "ok".into()));
}

#[test]
fn f7_a_read_only_disk_can_be_read() {
    let directory = TempDir::new().unwrap();
    let disk = Disk::install(directory.path());
    let connection = open(directory.path(), &disk).unwrap();
    insert(&connection, 0).unwrap();
    disk.read_only(true);
    assert!(insert(&connection, 1).is_err());
    let count = |connection: &Connection| connection.query_row("SELECT count(*) FROM rows", (), |row| row.get(0));
    assert_eq!(count(&connection), Ok(1));
    disk.read_only(false);
    insert(&connection, 1).unwrap();
    assert_eq!(count(&connection), Ok(2));
}

#[test]
fn f18_a_flipped_bit_is_read_until_its_byte_is_written_again() {
    let directory = TempDir::new().unwrap();
    let disk = Disk::install(directory.path());
    let connection = open(directory.path(), &disk).unwrap();
    connection
        .execute("INSERT INTO rows VALUES (1, 'innkeeper')", ())
        .unwrap();
    drop(connection);
    let bytes = std::fs::read(directory.path().join(FILE)).unwrap();
    let at = bytes.windows(9).position(|window| window == b"innkeeper").unwrap();

    let text = || {
        let connection = open(directory.path(), &disk).unwrap();
        connection
            .query_row("SELECT text FROM rows", (), |row| row.get::<_, String>(0))
            .unwrap()
    };
    disk.flip_bit(FILE, at as u64, 5);
    assert_eq!(text(), "Innkeeper", "a bit makes a letter large");
    let connection = open(directory.path(), &disk).unwrap();
    connection.execute("UPDATE rows SET text = 'landlord '", ()).unwrap();
    drop(connection);
    assert_eq!(text(), "landlord ");
    disk.flip_bit(FILE, at as u64, 0);
    disk.clear_faults();
    assert_eq!(text(), "landlord ");
}

#[test]
fn a_stopped_disk_fails_every_operation_and_keeps_its_data() {
    let directory = TempDir::new().unwrap();
    let disk = Disk::install(directory.path());
    let connection = open(directory.path(), &disk).unwrap();
    insert(&connection, 0).unwrap();
    disk.stop();
    let position = disk.position();
    assert!(insert(&connection, 1).is_err());
    assert!(open(directory.path(), &disk).is_err());
    drop(connection);
    assert_eq!(disk.position(), position, "nothing happens on a stopped disk");
    assert_eq!(rows(&directory.path().join(FILE)).unwrap(), (vec![0], "ok".into()));
}

#[test]
fn existing_files_are_part_of_every_image() {
    let directory = TempDir::new().unwrap();
    {
        let disk = Disk::install(directory.path());
        insert(&open(directory.path(), &disk).unwrap(), 0).unwrap();
    }
    let disk = Disk::install(directory.path());
    insert(&open(directory.path(), &disk).unwrap(), 1).unwrap();
    let recording = disk.recording();
    for cut in 0..=recording.len() {
        assert_eq!(losses(&recording, &[0], cut, cut as u64), None, "cut {cut}");
    }
}

#[test]
fn f5_unsynced_data_of_a_killed_process_can_be_lost_later() {
    let (recording, acknowledged) = insert_rows("OFF");
    let middle = acknowledged[60];
    let mut lost = 0;
    for seed in 0..40 {
        let directory = TempDir::new().unwrap();
        let disk = Disk::after_kill(directory.path(), &recording, middle);
        assert_eq!(disk.position(), middle);
        let connection = open(directory.path(), &disk).unwrap();
        let count = connection.query_row("SELECT count(*) FROM rows", (), |row| row.get::<_, u32>(0));
        assert!(count.unwrap() >= 61, "a kill takes nothing");
        let recording = disk.recording();
        lost += usize::from(losses(&recording, &acknowledged[..61], recording.len(), seed).is_some());
        // A synced commit makes everything before it durable.
        insert(&connection, 1000).unwrap();
    }
    assert!(lost > 0, "but a power cut does");
}
