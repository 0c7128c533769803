//! Computes the content of a disk after a crash.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use crate::random::Random;
use crate::recording::{Event, Inode, Recording};

/// Unit that a disk writes atomically.
const SECTOR: u64 = 512;

/// The files of a disk after a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    /// Writes the files into a directory, which should be empty.
    pub fn write_to(&self, directory: &Path) -> io::Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|(name, bytes)| fs::write(directory.join(name), bytes))
    }

    /// Returns the content of a file, if it exists.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// Returns the names of all files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

impl Recording {
    /// Content after the process is killed at a cut while the machine keeps running: everything.
    pub fn kill(&self, cut: usize) -> Image {
        let mut disk = ReplayedDisk::new(self);
        for event in self.until(cut) {
            match event {
                Event::Create { .. } | Event::Delete { .. } => rename(&mut disk.names, event),
                Event::Write { inode, .. } | Event::Truncate { inode, .. } => disk.file(*inode).apply(event, 0),
                Event::Sync { .. } | Event::SyncFailed { .. } | Event::SyncNames => {}
            }
        }
        disk.image()
    }

    /// A random content after a power cut.
    pub fn power_cut(&self, cut: usize, random: &mut Random) -> Image {
        let odds = SurvivalOdds::draw(random);
        let mut disk = ReplayedDisk::new(self);
        // Operations that are not durable yet.
        let mut names: Vec<&Event> = Vec::new();
        let mut writes: HashMap<Inode, Vec<&Event>> = HashMap::new();
        for event in self.until(cut) {
            match event {
                Event::Create { .. } | Event::Delete { .. } => names.push(event),
                Event::Write { inode, .. } | Event::Truncate { inode, .. } => {
                    writes.entry(*inode).or_default().push(event);
                }
                Event::Sync { inode } => {
                    for safe in writes.remove(inode).unwrap_or_default() {
                        disk.file(*inode).apply(safe, 0);
                    }
                }
                Event::SyncFailed { inode } => {
                    for doubtful in writes.remove(inode).unwrap_or_default() {
                        disk.file(*inode).apply_at_random(doubtful, odds, random);
                    }
                }
                Event::SyncNames => names.drain(..).for_each(|safe| rename(&mut disk.names, safe)),
            }
        }
        for doubtful in names {
            if random.percent(odds.name) {
                rename(&mut disk.names, doubtful);
            }
        }
        // Iterate over the events, not over a hash table, so that a seed yields the same image.
        for event in self.until(cut) {
            let (Event::Write { inode, .. } | Event::Truncate { inode, .. }) = event else {
                continue;
            };
            for doubtful in writes.remove(inode).unwrap_or_default() {
                disk.file(*inode).apply_at_random(doubtful, odds, random);
            }
        }
        disk.image()
    }

    fn until(&self, cut: usize) -> &[Event] {
        &self.events[..cut.min(self.events.len())]
    }
}

/// Survival odds of an image, in percent. They vary per image: with constant odds, losing a single write, or all but
/// one, would be very rare.
#[derive(Debug, Clone, Copy)]
struct SurvivalOdds {
    /// A write or truncation is complete.
    whole: u8,
    /// An incomplete one is torn instead of missing.
    torn: u8,
    /// A sector of a torn write is there.
    sector: u8,
    /// A file has its new size although the bytes are missing.
    grown: u8,
    /// A directory entry was created or removed.
    name: u8,
}

impl SurvivalOdds {
    fn draw(random: &mut Random) -> Self {
        let mut one_of = |chances: &[u8]| chances[random.below(chances.len())];
        Self {
            whole: one_of(&[0, 10, 50, 90, 97]),
            torn: one_of(&[0, 30, 100]),
            sector: one_of(&[20, 50, 90]),
            grown: one_of(&[0, 50, 100]),
            name: one_of(&[0, 50, 100]),
        }
    }
}

/// A disk on which events are replayed.
#[derive(Debug)]
struct ReplayedDisk {
    names: BTreeMap<Arc<str>, Inode>,
    files: HashMap<Inode, FileContent>,
}

impl ReplayedDisk {
    fn new(recording: &Recording) -> Self {
        let base = recording.base.iter();
        let (names, files) = base
            .map(|(name, inode, bytes)| ((name.clone(), *inode), (*inode, FileContent(bytes.to_vec()))))
            .unzip();
        Self { names, files }
    }

    fn file(&mut self, inode: Inode) -> &mut FileContent {
        self.files.entry(inode).or_default()
    }

    fn image(mut self) -> Image {
        let names = std::mem::take(&mut self.names).into_iter();
        let files = names.map(|(name, inode)| (name.to_string(), self.files.remove(&inode).unwrap_or_default().0));
        Image { files: files.collect() }
    }
}

fn rename(names: &mut BTreeMap<Arc<str>, Inode>, event: &Event) {
    match event {
        Event::Create { name, inode } => {
            names.insert(name.clone(), *inode);
        }
        Event::Delete { name } => {
            names.remove(name);
        }
        _ => {}
    }
}

#[derive(Debug, Clone, Default)]
struct FileContent(Vec<u8>);

impl FileContent {
    /// Applies a write or truncation. A gap before the written bytes is filled with noise from a seed, or with zeros
    /// if the seed is 0.
    fn apply(&mut self, event: &Event, noise: u64) {
        match event {
            Event::Write { offset, bytes, .. } => self.write(*offset, bytes, noise),
            Event::Truncate { size, .. } => self.0.resize(*size as usize, 0),
            _ => {}
        }
    }

    fn apply_at_random(&mut self, event: &Event, odds: SurvivalOdds, random: &mut Random) {
        let noise = if random.percent(50) { 0 } else { random.number() };
        if random.percent(odds.whole) {
            return self.apply(event, noise);
        }
        let Event::Write { offset, bytes, .. } = event else {
            return;
        };
        if random.percent(odds.torn) {
            for (at, piece) in sectors(*offset, bytes) {
                if random.percent(odds.sector) {
                    self.write(at, piece, noise);
                }
            }
        }
        if random.percent(odds.grown) {
            self.grow(offset + bytes.len() as u64, noise);
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8], noise: u64) {
        self.grow(offset, noise);
        let start = offset as usize;
        let over = bytes.len().min(self.0.len() - start);
        self.0[start..start + over].copy_from_slice(&bytes[..over]);
        self.0.extend_from_slice(&bytes[over..]);
    }

    fn grow(&mut self, size: u64, noise: u64) {
        let mut random = Random::new(noise);
        while (self.0.len() as u64) < size {
            self.0.push(if noise == 0 { 0 } else { random.number() as u8 });
        }
    }
}

/// Splits a write into pieces within one sector each, with their offsets.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = offset;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = ((SECTOR - at % SECTOR) as usize).min(rest.len());
        let (piece, after) = rest.split_at(len);
        let start = at;
        at += len as u64;
        rest = after;
        Some((start, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Recorder;

    #[test]
    fn synced_data_survives_power_cuts_and_unsynced_data_is_torn_at_sectors() {
        let mut recorder = Recorder::default();
        let inode = recorder.created("a");
        recorder.written(inode, 0, &[1; 1024]);
        recorder.synced(inode);
        recorder.synced_names();
        recorder.written(inode, 256, &[2; 1024]);
        let recording = recorder.recording;

        let mut images = Vec::new();
        for seed in 0..500 {
            let image = recording.power_cut(recording.len(), &mut Random::new(seed));
            let bytes = image.file("a").unwrap();
            assert_eq!(bytes[..256], [1; 256], "seed {seed}");
            for sector in [256..512, 512..1024] {
                let first = bytes[sector.start];
                assert!(bytes[sector].iter().all(|byte| *byte == first), "seed {seed}");
            }
            images.push(bytes.to_vec());
        }
        let seen = |wanted: &dyn Fn(&[u8]) -> bool| images.iter().any(|image| wanted(image));
        assert!(seen(&|image| image == [1; 1024]), "nothing of the second write");
        assert!(seen(&|image| image[256..] == [2; 1024]), "all of it");
        assert!(seen(&|image| image[256] == 1 && image[512] == 2), "its middle alone");
        assert!(seen(&|image| image.len() == 1280 && image[1024] == 0), "its size alone");
    }

    #[test]
    fn a_name_is_not_durable_until_the_directory_is_synced() {
        let mut recorder = Recorder::default();
        recorder.add_existing("old", vec![7]);
        let inode = recorder.created("new");
        recorder.written(inode, 0, &[1]);
        recorder.synced(inode);
        recorder.deleted("old");
        let unsafe_until = recorder.recording.len();
        recorder.synced_names();
        let recording = recorder.recording;

        let names = |cut, seed| {
            let image = recording.power_cut(cut, &mut Random::new(seed));
            image.names().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let seen: std::collections::BTreeSet<_> = (0..200).map(|seed| names(unsafe_until, seed)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["", "new", "new old", "old"]);
        assert!((0..200).all(|seed| names(unsafe_until + 1, seed) == "new"));
    }

    #[test]
    fn f7_data_of_a_failed_sync_stays_undurable_after_a_later_sync() {
        let mut recorder = Recorder::default();
        recorder.add_existing("a", vec![1]);
        let inode = recorder.named("a").unwrap();
        recorder.written(inode, 0, &[2]);
        recorder.sync_failed(inode);
        recorder.synced(inode);
        let recording = recorder.recording;

        let byte = |seed| {
            recording
                .power_cut(recording.len(), &mut Random::new(seed))
                .file("a")
                .unwrap()[0]
        };
        assert!((0..100).any(|seed| byte(seed) == 1));
        assert!((0..100).any(|seed| byte(seed) == 2));
    }

    #[test]
    fn a_killed_process_loses_nothing_and_a_seed_repeats_its_image() {
        let mut recorder = Recorder::default();
        for name in ["a", "b", "c"] {
            let inode = recorder.created(name);
            recorder.written(inode, 3, name.as_bytes());
        }
        let recording = recorder.recording;
        assert_eq!(recording.kill(recording.len()).file("c"), Some(&b"\0\0\0c"[..]));
        assert_eq!(recording.kill(0), Image::default());
        for seed in 0..50 {
            let image = || recording.power_cut(recording.len(), &mut Random::new(seed));
            assert_eq!(image(), image());
        }
    }
}
