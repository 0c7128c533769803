//! The copies on disk: one directory for each revision of each plugin, with limits. A copy in use is not deleted.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use innkeeper_host::customizations::{ClientFiles, ClientPlugin};
use innkeeper_std::sync::Mutex;
use sha2::{Digest as _, Sha256};

use super::fetch::{self, Failure};
use crate::background::drop_in_background;

/// Maximum number of revisions of one plugin.
const PER_PLUGIN: usize = 8;
/// Maximum number of all revisions.
const IN_ALL: usize = 64;
/// Prefix of the directories of copies that are unfinished, or are deleted after use.
const UNFINISHED: &str = "unfinished-";

/// Copies in use, by path.
type Used = HashMap<PathBuf, Weak<Use>>;

/// The copies on disk.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    /// Copies in use.
    used: Mutex<Used>,
}

/// A copy in use.
#[derive(Debug, Clone)]
pub(crate) struct CachedCopy {
    held: Arc<Use>,
}

impl CachedCopy {
    /// The directory with its files.
    pub(crate) fn path(&self) -> &Path {
        &self.held.path
    }
}

#[derive(Debug)]
struct Use {
    path: PathBuf,
    /// Without a nonce no session can ask for it again, so it is deleted after use.
    passing: Option<tempfile::TempDir>,
}

impl Cache {
    /// Puts copies into a directory, which is created with the first copy.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            used: Mutex::default(),
        }
    }

    /// Deletes unfinished copies of earlier runs of the host.
    pub(crate) fn sweep(&self) {
        for plugin in listed(&self.directory) {
            for copy in listed(&plugin).into_iter().filter(|copy| is_unfinished(copy)) {
                let _ = fs::remove_dir_all(copy);
            }
        }
    }

    /// Returns the copy of a revision, and makes it if there is none.
    pub(crate) async fn get_or_fetch(
        self: &Arc<Self>,
        plugin: &ClientPlugin,
        files: &ClientFiles,
    ) -> Result<CachedCopy, Failure> {
        let of_plugin = self.directory.join(digest(&[plugin.client.as_str(), &plugin.uri]));
        let place = plugin.nonce.as_ref().map(|nonce| of_plugin.join(digest(&[nonce])));
        let (cache, known) = (Arc::clone(self), place.clone());
        let begin = move || match known.and_then(|place| cache.find(&place)) {
            Some(kept) => Ok(Err(kept)),
            None => cache.begin(&of_plugin).map(Ok),
        };
        let copy = match blocking(begin).await? {
            Err(kept) => return Ok(kept),
            Ok(copy) => copy,
        };
        // Until it is complete, it is deleted with this future.
        fetch::fetch(files, plugin, copy.path()).await?;
        let cache = Arc::clone(self);
        blocking(move || cache.keep(copy, place)).await
    }

    /// Creates an empty directory in the file system of the cache.
    fn begin(&self, of_plugin: &Path) -> io::Result<Unfinished> {
        // The lock prevents that the parent directory is deleted meanwhile.
        let _used = self.used.lock();
        fs::create_dir_all(of_plugin)?;
        let directory = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(of_plugin)?;
        Ok(Unfinished(Some(directory)))
    }

    fn find(&self, place: &Path) -> Option<CachedCopy> {
        find(&mut self.used.lock(), place)
    }

    /// Renames a finished copy to its final name. If there is one by now, that one counts.
    fn keep(&self, mut copy: Unfinished, place: Option<PathBuf>) -> io::Result<CachedCopy> {
        let Some(place) = place else {
            let mut used = self.used.lock();
            return Ok(hold(&mut used, copy.path().to_owned(), copy.0.take()));
        };
        if let Some(kept) = self.find(&place) {
            return Ok(kept);
        }
        // An entry with its final name is complete, also after a power failure: it gets the name last and loses it
        // first.
        sync_all(copy.path())?;
        // From here on it has its name, and must not be deleted before it is listed as used.
        let mut used = self.used.lock();
        if let Some(kept) = find(&mut used, &place) {
            return Ok(kept);
        }
        fs::rename(copy.path(), &place)?;
        // It has another name now, so there is nothing left to delete.
        if let Some(directory) = copy.0.take() {
            let _ = directory.keep();
        }
        let kept = hold(&mut used, place, None);
        self.trim(&mut used);
        Ok(kept)
    }

    /// Deletes the oldest unused copies beyond the limits.
    fn trim(&self, used: &mut Used) {
        used.retain(|_, held| held.strong_count() > 0);
        let mut all = Vec::new();
        for plugin in listed(&self.directory) {
            let mut copies: Vec<(SystemTime, PathBuf)> = listed(&plugin)
                .into_iter()
                .filter(|copy| !is_unfinished(copy))
                .filter_map(|copy| Some((fs::metadata(&copy).ok()?.modified().ok()?, copy)))
                .collect();
            copies.sort();
            let surplus = copies.len().saturating_sub(PER_PLUGIN);
            all.extend(take_away(copies, surplus, used));
            // This removes only an empty directory.
            let _ = fs::remove_dir(&plugin);
        }
        all.sort();
        let surplus = all.len().saturating_sub(IN_ALL);
        take_away(all, surplus, used);
    }
}

/// Returns the copy at a path, if there is one.
fn find(used: &mut Used, place: &Path) -> Option<CachedCopy> {
    if let Some(held) = used.get(place).and_then(Weak::upgrade) {
        return Some(CachedCopy { held });
    }
    // Copies that were used last are retained the longest.
    File::open(place)
        .and_then(|copy| copy.set_modified(SystemTime::now()))
        .ok()?;
    Some(hold(used, place.to_owned(), None))
}

/// Deletes up to so many of the oldest unused copies, and returns the others.
fn take_away(oldest_first: Vec<(SystemTime, PathBuf)>, surplus: usize, used: &Used) -> Vec<(SystemTime, PathBuf)> {
    let mut left = surplus;
    let mut kept = Vec::new();
    for (time, copy) in oldest_first {
        if left > 0 && !used.contains_key(&copy) && remove(&copy).is_ok() {
            left -= 1;
        } else {
            kept.push((time, copy));
        }
    }
    kept
}

/// Deletes a copy. A host that is killed meanwhile leaves nothing that looks complete.
fn remove(copy: &Path) -> io::Result<()> {
    let set_aside = set_aside(copy)?;
    // An entry that cannot be removed is no copy any more. The next start tries again.
    let _ = fs::remove_dir_all(set_aside);
    Ok(())
}

/// Renames a copy so that it counts as unfinished.
fn set_aside(copy: &Path) -> io::Result<PathBuf> {
    let around = copy.parent().unwrap_or(copy);
    // An empty directory, which a rename may replace.
    let aside = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(around)?;
    fs::rename(copy, aside.path())?;
    Ok(aside.keep())
}

/// Syncs everything in a directory to disk.
fn sync_all(directory: &Path) -> io::Result<()> {
    let mut ahead = vec![directory.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                ahead.push(entry.path());
            } else {
                OpenOptions::new().write(true).open(entry.path())?.sync_all()?;
            }
        }
        File::open(&directory)?.sync_all()?;
    }
    Ok(())
}

fn hold(used: &mut Used, path: PathBuf, passing: Option<tempfile::TempDir>) -> CachedCopy {
    let held = Arc::new(Use {
        path: path.clone(),
        passing,
    });
    used.insert(path, Arc::downgrade(&held));
    CachedCopy { held }
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some(passing) = self.passing.take() {
            drop_in_background(passing);
        }
    }
}

/// An unfinished copy, which is deleted when it is dropped.
#[derive(Debug)]
struct Unfinished(Option<tempfile::TempDir>);

impl Unfinished {
    fn path(&self) -> &Path {
        self.0.as_ref().map_or_else(|| Path::new(""), tempfile::TempDir::path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(directory) = self.0.take() {
            drop_in_background(directory);
        }
    }
}

fn is_unfinished(copy: &Path) -> bool {
    let name = copy.file_name().and_then(|name| name.to_str());
    name.is_none_or(|name| name.starts_with(UNFINISHED))
}

fn listed(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns a directory name for any text.
fn digest(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let bytes = digest.finalize();
    bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Failure::new(format!(
            "its copy cannot be stored ({}): check the data directory",
            error.kind()
        ))),
        Err(_) => Err(Failure::new("its copy cannot be stored")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn copied(cache: &Cache, plugin: &str, nonce: &str) -> CachedCopy {
        let of_plugin = cache.directory.join(plugin);
        let copy = cache.begin(&of_plugin).unwrap();
        fs::write(copy.path().join("SKILL.md"), nonce).unwrap();
        let kept = cache.keep(copy, Some(of_plugin.join(nonce))).unwrap();
        // Later ones are newer, also on a file system with coarse times.
        let number = nonce.trim_start_matches('n').parse::<u64>().unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + number);
        File::open(kept.path()).unwrap().set_modified(time).unwrap();
        kept
    }

    #[test]
    fn p20_eight_revisions_of_a_plugin_are_kept_and_those_in_use_besides() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::new(temp.path());
        let oldest = copied(&cache, "p", "n0");
        for number in 1..20 {
            drop(copied(&cache, "p", &format!("n{number}")));
        }
        drop(copied(&cache, "p", "n20"));
        let left = listed(&temp.path().join("p")).len();
        assert!(left <= PER_PLUGIN + 1, "{left}");
        assert!(oldest.path().join("SKILL.md").exists(), "a session uses it");
        assert!(
            cache.find(&temp.path().join("p/n20")).is_some(),
            "a nonce that comes back is here"
        );
        assert!(cache.find(&temp.path().join("p/n1")).is_none(), "the oldest is not");
        drop(oldest);
        drop(copied(&cache, "p", "n21"));
        assert!(
            !temp.path().join("p/n0").exists(),
            "it was evicted when it became unused"
        );
    }

    /// A new copy stays where it was put, however many others are added at the same time.
    #[test]
    fn p20_a_copy_is_not_taken_away_between_its_coming_and_its_use() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::new(temp.path());
        let of_plugin = temp.path().join("p");
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, of_plugin) = (&cache, &of_plugin);
                scope.spawn(move || {
                    for number in 0..100 {
                        let copy = cache.begin(of_plugin).unwrap();
                        fs::write(copy.path().join("SKILL.md"), "s").unwrap();
                        // The oldest goes first, so every other process would evict this one.
                        File::open(copy.path()).unwrap().set_modified(old).unwrap();
                        let place = of_plugin.join(format!("n{thread}-{number}"));
                        let kept = cache.keep(copy, Some(place)).unwrap();
                        assert!(kept.path().join("SKILL.md").exists(), "{}", kept.path().display());
                    }
                });
            }
        });
    }

    #[test]
    fn p20_sixty_four_revisions_are_kept_in_all() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::new(temp.path());
        for plugin in 0..20 {
            for number in 0..5 {
                drop(copied(
                    &cache,
                    &format!("p{plugin}"),
                    &format!("n{}", plugin * 10 + number),
                ));
            }
        }
        let left: usize = listed(temp.path()).iter().map(|plugin| listed(plugin).len()).sum();
        assert_eq!(left, IN_ALL);
        assert!(!temp.path().join("p0").exists(), "nothing is left of the oldest plugin");
    }

    #[test]
    fn d75_copies_that_were_not_finished_or_have_no_nonce_leave_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::new(temp.path());
        let of_plugin = temp.path().join("p");
        drop(cache.begin(&of_plugin).unwrap());
        assert_eq!(listed(&of_plugin), Vec::<PathBuf>::new());
        let passing = cache.keep(cache.begin(&of_plugin).unwrap(), None).unwrap();
        assert!(passing.path().is_dir());
        drop(passing);
        assert_eq!(listed(&of_plugin), Vec::<PathBuf>::new());
        // The next start removes what a killed host left behind.
        let left = cache.begin(&of_plugin).unwrap().0.take().unwrap().keep();
        let kept = copied(&cache, "p", "n1");
        Cache::new(temp.path()).sweep();
        assert!(!left.exists() && kept.path().exists());
    }

    #[test]
    fn d75_a_copy_that_is_taken_away_is_none_from_the_first_moment_on() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::new(temp.path());
        let path = copied(&cache, "p", "n1").path().to_owned();
        // A host that is killed now has removed none of its files, or some of them.
        let left = set_aside(&path).unwrap();
        assert!(left.join("SKILL.md").exists() && is_unfinished(&left));
        let next = Cache::new(temp.path());
        assert!(next.find(&path).is_none(), "half a copy would be taken for a whole one");
        next.sweep();
        assert!(!left.exists());
        let again = copied(&next, "p", "n1");
        assert_eq!(again.path(), path);
    }
}
