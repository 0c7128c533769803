//! Power cuts and kills at any point of a run (P1, P5, F1, F5).

use std::sync::Arc;

use innkeeper_faults::{Random, Recording};
use innkeeper_store::FILE_NAME;
use tempfile::TempDir;

use crate::fault_injection::run::{Run, images};

async fn work(seed: u64) -> (Run, Recording) {
    let mut run = Run::begin(seed).await;
    finish(&mut run).await;
    let recording = run.disk.recording();
    (run, recording)
}

async fn finish(run: &mut Run) {
    run.work(150).await;
    run.flush().await.unwrap();
}

async fn cut(run: &Run, recording: &Recording, cut: usize, seed: u64) {
    let directory = TempDir::new().unwrap();
    let image = recording.power_cut(cut, &mut Random::new(seed));
    image.write_to(directory.path()).unwrap();
    run.check_image(
        directory.path(),
        cut,
        &format!("cut {cut} of {}, seed {seed}", recording.len()),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_f5_a_power_cut_at_any_point_loses_nothing_acknowledged() {
    let mut random = Random::new(51);
    let mut done = 0;
    // Several runs, because thread scheduling differs between them.
    while done < images() {
        let (run, recording) = work(random.number()).await;
        for _ in 0..images().div_ceil(5).min(images() - done) {
            cut(&run, &recording, random.below(recording.len() + 1), random.number()).await;
            done += 1;
        }
    }
    println!("power cuts: {done} images, 0 losses");
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_f5_a_power_cut_around_any_sync_loses_nothing_acknowledged() {
    let (run, recording) = work(52).await;
    let cuts = recording.sync_boundaries();
    for (seed, at) in (0..).zip(&cuts) {
        cut(&run, &recording, *at, seed).await;
    }
    println!("power cuts around syncs: {} images, 0 losses", cuts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_f1_a_kill_at_any_write_loses_nothing_acknowledged() {
    let (run, recording) = work(53).await;
    let step = (recording.len() / images().max(1)).max(1);
    let cuts: Vec<usize> = (0..=recording.len()).step_by(step).collect();
    for at in &cuts {
        let directory = TempDir::new().unwrap();
        recording.kill(*at).write_to(directory.path()).unwrap();
        run.check_image(directory.path(), *at, &format!("kill {at} of {}", recording.len()))
            .await;
    }
    println!("kills at writes: {} images, 0 losses", cuts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_f5_a_power_cut_after_a_kill_loses_nothing_acknowledged() {
    let (killed, recording) = work(56).await;
    let mut random = Random::new(56);
    let lives = images().div_ceil(4);
    for _ in 0..lives {
        let at = random.below(recording.len() + 1);
        let mut run = Run::after_kill(&killed, at).await;
        run.append(1 + random.below(4)).await.unwrap();
        run.append(1 + random.below(4)).await.unwrap();
        let recording = run.disk.recording();
        for _ in 0..3 {
            let then = at + random.below(recording.len() + 1 - at);
            cut(&run, &recording, then, random.number()).await;
        }
    }
    println!("power cuts after kills: {} images, 0 losses", 3 * lives);
}

/// Writes enough to trigger checkpoints.
#[tokio::test(flavor = "multi_thread")]
async fn p1_f5_a_power_cut_during_a_checkpoint_loses_nothing_acknowledged() {
    let mut run = Run::begin(55).await;
    for _ in 0..150 {
        run.append(4).await.unwrap();
    }
    let recording = run.disk.recording();
    let writes_to_the_file = recording.writes_to(FILE_NAME);
    assert!(writes_to_the_file.len() > 100, "something was moved");
    let mut random = Random::new(55);
    let images = images().div_ceil(2);
    for _ in 0..images {
        let at = writes_to_the_file[random.below(writes_to_the_file.len())];
        cut(&run, &recording, at + random.below(3), random.number()).await;
    }
    println!("power cuts while the log is moved: {images} images, 0 losses");
}

/// Proves that the tests above would notice: on a disk that ignores syncs they find losses.
#[tokio::test(flavor = "multi_thread")]
async fn p1_f5_a_disk_that_ignores_syncs_is_detected() {
    let mut run = Run::begin(54).await;
    run.disk.ignore_syncs(true);
    finish(&mut run).await;
    let recording = run.disk.recording();
    let run = Arc::new(run);
    let mut random = Random::new(54);
    let mut losses = 0;
    for _ in 0..20 {
        let (run, recording) = (run.clone(), recording.clone());
        let (at, seed) = (random.below(recording.len() + 1), random.number());
        let checked = tokio::spawn(async move { cut(&run, &recording, at, seed).await });
        losses += usize::from(checked.await.is_err());
    }
    assert!(losses > 0);
    println!("power cuts on a disk that lies: 20 images, {losses} losses");
}
