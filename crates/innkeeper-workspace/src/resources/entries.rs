//! Directories, and what has a name in them: listed, looked at, made, copied, moved and deleted.

use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::time::SystemTime;

use cap_std::fs::{Dir, OpenOptions};
use innkeeper_host::resources::{EntryKind, ResourceEntry, ResourceError, ResourceInfo, ResourceKind};
use innkeeper_std::{
    Opened, TEMP_PREFIX, TempEntry, create_directory, follow, open_child, open_regular, remove_all, rename_to_free,
};

use super::files::{self, invalid};
use super::forbidden::Forbidden;
use super::paths::{DirEntryRef, ResourcePath, problem};

/// Maximum files and directories that are copied at once.
const MAX_COPIED: usize = 100_000;
/// Maximum bytes of them.
const MAX_COPIED_BYTES: u64 = 4 << 30;
/// How deep directories lie in each other that are copied.
const MAX_DEPTH: usize = 200;
/// The bytes of a file that are copied between two checks for cancellation.
const COPIED_AT_ONCE: u64 = 64 << 20;

/// Returns true if the caller stopped waiting, so that the work may stop.
pub(crate) type IsOver<'a> = &'a dyn Fn() -> bool;

/// Lists a directory, by name (RES-09).
pub(crate) fn list(
    resource: &ResourcePath,
    forbidden: &Forbidden,
    most: usize,
) -> Result<Vec<ResourceEntry>, ResourceError> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotADirectory => invalid("uri", format!("{:.300} is not a directory", resource.uri)),
        _ => problem(&resource.uri, &error),
    };
    // Its own name tells a file from a directory that is not there.
    if !resource.is_root() {
        let entry = resource.entry(forbidden)?;
        let data = entry.dir.symlink_metadata(&entry.name).map_err(failed)?;
        if !data.is_dir() {
            return Err(failed(ErrorKind::NotADirectory.into()));
        }
    }
    let dir = resource.open_dir(forbidden)?;
    let mut entries = Vec::new();
    for entry in dir.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entries.len() >= most {
            let problem = format!(
                "{:.300} has more than {most} entries, the most that are listed",
                resource.uri
            );
            return Err(invalid("uri", problem));
        }
        let name = entry.file_name();
        let kind = entry.file_type().map_err(failed)?;
        // A link is what it leads to, as long as that is in the same place.
        let is_dir = match kind.is_symlink() {
            true => resource.leads_to_directory(&name),
            false => kind.is_dir(),
        };
        // A name that is no text cannot be said here, and one that almost is would name another file.
        let Ok(name) = name.into_string() else {
            continue;
        };
        entries.push(ResourceEntry {
            name,
            kind: if is_dir { EntryKind::Directory } else { EntryKind::File },
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Says what is there (RES-12).
pub(crate) fn resolve(
    resource: &ResourcePath,
    forbidden: &Forbidden,
    follow: bool,
    most: usize,
) -> Result<ResourceInfo, ResourceError> {
    let failed = |error: io::Error| problem(&resource.uri, &error);
    let uri = if follow {
        resource.canonical_uri()
    } else {
        resource.uri.clone()
    };
    if resource.is_root() {
        let data = resource.open_dir(forbidden)?.dir_metadata().map_err(failed)?;
        return Ok(info(uri, ResourceKind::Directory, &data));
    }
    let entry = resource.entry(forbidden)?;
    let data = entry.dir.symlink_metadata(&entry.name).map_err(failed)?;
    if data.is_symlink() {
        return Ok(info(uri, ResourceKind::Symlink, &data));
    }
    if data.is_dir() {
        return Ok(info(uri, ResourceKind::Directory, &data));
    }
    let mut info = info(uri, ResourceKind::File, &data);
    // Only a regular file has content, and with that a version.
    if let Opened::File(file) = open_regular(&entry.dir, &entry.name).map_err(failed)? {
        info.etag = Some(files::etag(&file, most).map_err(failed)?);
        info.size = Some(data.len());
        info.content_type = innkeeper_host::resources::content_type(&resource.canonical(), &[]);
    }
    Ok(info)
}

fn info(uri: String, kind: ResourceKind, data: &cap_std::fs::Metadata) -> ResourceInfo {
    let moment = |at: io::Result<cap_std::time::SystemTime>| {
        let at: SystemTime = at.ok()?.into_std();
        jiff::Timestamp::try_from(at).ok()
    };
    ResourceInfo {
        uri,
        kind,
        size: None,
        modified: moment(data.modified()),
        created: moment(data.created()),
        content_type: None,
        etag: None,
    }
}

/// Makes a directory and those it is in (RES-13).
pub(crate) fn make_directory(resource: &ResourcePath, forbidden: &Forbidden) -> Result<(), ResourceError> {
    if resource.is_root() {
        return Ok(());
    }
    resource.make_parents()?;
    let entry = resource.entry(forbidden)?;
    match create_directory(&entry.dir, &entry.name, resource.root.umask) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let data = entry.dir.symlink_metadata(&entry.name);
            if data.is_ok_and(|data| data.is_dir()) {
                return Ok(());
            }
            let problem = format!("{:.300} exists, and is not a directory", resource.uri);
            Err(ResourceError::Exists(problem))
        }
        Err(error) => Err(problem(&resource.uri, &error)),
    }
}

/// Deletes something by its name; a link goes, and not what it leads to (RES-11).
pub(crate) fn delete(
    resource: &ResourcePath,
    forbidden: &Forbidden,
    recursive: bool,
    is_over: IsOver<'_>,
) -> Result<(), ResourceError> {
    let failed = |error: io::Error| problem(&resource.uri, &error);
    let entry = resource.entry(forbidden)?;
    check_whole(resource, forbidden)?;
    let data = entry.dir.symlink_metadata(&entry.name).map_err(failed)?;
    if !data.is_dir() {
        return entry.dir.remove_file(&entry.name).map_err(failed);
    }
    if recursive {
        remove_all(&entry.dir, &entry.name, is_over).map_err(failed)
    } else {
        entry.dir.remove_dir(&entry.name).map_err(failed)
    }
}

/// Nothing that the host's own data is in goes as a whole, and nothing takes its place: what had the name
/// before is removed (SEC-03).
fn check_whole(resource: &ResourcePath, forbidden: &Forbidden) -> Result<(), ResourceError> {
    if forbidden.is_within(&resource.canonical()) {
        let problem = format!("the host's own data is in {:.300}", resource.uri);
        return Err(ResourceError::Refused(problem));
    }
    Ok(())
}

/// Copies a file or a directory (RES-10). An unfinished copy has a temporary name, and a copy that fails
/// leaves what was there.
pub(crate) fn copy(
    source: &ResourcePath,
    destination: &ResourcePath,
    forbidden: &Forbidden,
    fail_if_exists: bool,
    is_over: IsOver<'_>,
) -> Result<(), ResourceError> {
    check_apart(source, destination)?;
    check_whole(source, forbidden)?;
    check_whole(destination, forbidden)?;
    let from = source.entry(forbidden)?;
    destination.make_parents()?;
    let to = destination.entry(forbidden)?;
    if fail_if_exists && to.dir.symlink_metadata(&to.name).is_ok() {
        let problem = format!("{:.300} exists already", destination.uri);
        return Err(ResourceError::Exists(problem));
    }
    let failed = |error: io::Error| problem(&source.uri, &error);
    let umask = destination.root.umask;
    let mut budget = CopyBudget::new(umask, is_over);
    let copied = TempEntry::create(&to.dir, |name| {
        copy_one(
            &from.dir,
            &from.name,
            &to.dir,
            name,
            &mut CopyBudget::new(umask, is_over),
        )
    })
    .map_err(failed);
    // Directories are filled after they are made, so that a copy that fails is cleared away.
    let copied = copied?;
    if *copied.made() == Copied::Directory {
        let inner = open_child(&from.dir, &from.name).map_err(failed)?;
        let outer = open_child(&to.dir, copied.name()).map_err(failed)?;
        fill(&inner, &outer, &mut budget, 0).map_err(failed)?;
    }
    put(copied, &to, fail_if_exists).map_err(|error| problem(&destination.uri, &error))
}

/// Gives what is finished its name, over what has it now.
fn put(new: TempEntry<'_, Copied>, to: &DirEntryRef, is_new: bool) -> io::Result<()> {
    let old = to.dir.symlink_metadata(&to.name).ok();
    let in_the_way = old.is_some_and(|old| old.is_dir() || *new.made() == Copied::Directory);
    if is_new || !in_the_way {
        return new.take_name(&to.name, is_new);
    }
    // A directory cannot be renamed over another that has something in it.
    let aside = TempEntry::create(&to.dir, |name| rename_to_free(&to.dir, &to.name, &to.dir, name))?;
    match new.take_name(&to.name, true) {
        // Dropped, the old one goes.
        Ok(()) => Ok(()),
        Err(error) => {
            let _ = aside.take_name(&to.name, true);
            Err(error)
        }
    }
}

/// How much was copied, and how.
struct CopyBudget<'a> {
    entries: usize,
    bytes: u64,
    /// The permissions that its directories go without; files have those of the original.
    umask: Option<u32>,
    is_over: IsOver<'a>,
}

impl<'a> CopyBudget<'a> {
    fn new(umask: Option<u32>, is_over: IsOver<'a>) -> Self {
        Self {
            entries: 0,
            bytes: 0,
            umask,
            is_over,
        }
    }

    fn check(&self) -> io::Result<()> {
        match (self.is_over)() {
            true => Err(ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }

    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.check()?;
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.entries > MAX_COPIED || self.bytes > MAX_COPIED_BYTES {
            let problem =
                format!("it is too much to copy at once: at most {MAX_COPIED} files of {MAX_COPIED_BYTES} bytes");
            return Err(io::Error::other(problem));
        }
        Ok(())
    }
}

/// The kind of a new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    File,
    Directory,
}

/// Copies one file or link, or makes an empty directory.
fn copy_one(from: &Dir, name: &Path, to: &Dir, new: &Path, budget: &mut CopyBudget<'_>) -> io::Result<Copied> {
    let data = from.symlink_metadata(name)?;
    if data.is_symlink() {
        // As it is: where it leads, only who may go there can follow.
        budget.take(0)?;
        copy_link(from, name, to, new)?;
        return Ok(Copied::File);
    }
    if data.is_dir() {
        budget.take(0)?;
        create_directory(to, new, budget.umask)?;
        return Ok(Copied::Directory);
    }
    let Opened::File(mut file) = open_regular(from, name)? else {
        let problem = format!(
            "{} is a pipe, a socket or a device, which is not copied",
            name.display()
        );
        return Err(io::Error::other(problem));
    };
    budget.take(data.len())?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut made = to.open_with(new, &options)?.into_std();
    while io::copy(&mut (&mut file).take(COPIED_AT_ONCE), &mut made)? == COPIED_AT_ONCE {
        budget.check()?;
    }
    made.set_permissions(file.metadata()?.permissions())?;
    Ok(Copied::File)
}

#[cfg(unix)]
fn copy_link(from: &Dir, name: &Path, to: &Dir, new: &Path) -> io::Result<()> {
    let target = from.read_link_contents(name)?;
    to.symlink_contents(target, new)
}

#[cfg(not(unix))]
fn copy_link(_: &Dir, name: &Path, _: &Dir, _: &Path) -> io::Result<()> {
    let problem = format!("{} is a link, which is not copied here", name.display());
    Err(io::Error::other(problem))
}

fn fill(from: &Dir, to: &Dir, budget: &mut CopyBudget<'_>, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("its directories lie too deep in each other"));
    }
    for entry in from.entries()? {
        let name = entry?.file_name();
        let name = Path::new(&name);
        if name.to_string_lossy().starts_with(TEMP_PREFIX) {
            continue;
        }
        if copy_one(from, name, to, name, budget)? == Copied::Directory {
            fill(&open_child(from, name)?, &open_child(to, name)?, budget, depth + 1)?;
        }
    }
    Ok(())
}

fn check_apart(source: &ResourcePath, destination: &ResourcePath) -> Result<(), ResourceError> {
    let (from, to) = (source.canonical(), destination.canonical());
    if from.starts_with(&to) || to.starts_with(&from) {
        let problem = "must be neither the source, nor in it, nor around it".to_owned();
        return Err(invalid("destination", problem));
    }
    Ok(())
}

/// A link never takes the name of what it leads to, or of what that is in: it would lead to itself, and what
/// it led to would be gone.
fn check_leads_elsewhere(source: &ResourcePath, destination: &ResourcePath) -> Result<(), ResourceError> {
    let to = destination.canonical();
    let way = follow(&source.canonical());
    let is_lost = way.links.iter().chain([&way.end]).any(|step| step.starts_with(&to));
    if is_lost {
        let problem = "must be neither the target of the source, nor a parent of it".to_owned();
        return Err(invalid("destination", problem));
    }
    Ok(())
}

/// Moves a file or a directory (RES-10). A link is moved as it is, and what takes a name takes it from a link.
pub(crate) fn rename(
    source: &ResourcePath,
    destination: &ResourcePath,
    forbidden: &Forbidden,
    fail_if_exists: bool,
    is_over: IsOver<'_>,
) -> Result<(), ResourceError> {
    check_apart(source, destination)?;
    check_leads_elsewhere(source, destination)?;
    check_whole(source, forbidden)?;
    check_whole(destination, forbidden)?;
    let from = source.entry(forbidden)?;
    from.dir
        .symlink_metadata(&from.name)
        .map_err(|error| problem(&source.uri, &error))?;
    destination.make_parents()?;
    let to = destination.entry(forbidden)?;
    let moved = if fail_if_exists {
        rename_to_free(&from.dir, &from.name, &to.dir, &to.name)
    } else {
        rename_over(&from, &to)
    };
    match moved {
        Ok(()) => Ok(()),
        // On another disk it has to be copied.
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            copy(source, destination, forbidden, fail_if_exists, is_over)?;
            delete(source, forbidden, true, is_over)
        }
        Err(error) => Err(problem(&destination.uri, &error)),
    }
}

fn rename_over(from: &DirEntryRef, to: &DirEntryRef) -> io::Result<()> {
    match from.dir.rename(&from.name, &to.dir, &to.name) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DirectoryNotEmpty
                    | ErrorKind::IsADirectory
                    | ErrorKind::NotADirectory
                    | ErrorKind::AlreadyExists
            ) =>
        {
            let aside = TempEntry::create(&to.dir, |name| rename_to_free(&to.dir, &to.name, &to.dir, name))?;
            match rename_to_free(&from.dir, &from.name, &to.dir, &to.name) {
                Ok(()) => Ok(()),
                Err(error) => {
                    let _ = aside.take_name(&to.name, true);
                    Err(error)
                }
            }
        }
        other => other,
    }
}
