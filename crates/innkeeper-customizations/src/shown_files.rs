//! Files that a session shows, for clients that see the session (RES-03): the files of its customizations, the other
//! files of a skill, and icons. Settings, files of MCP servers and manifests are not shown, because they can contain
//! secrets (CUS-27).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component as Step, Path, PathBuf};

use innkeeper_host::customizations::{FileAccess, SharedEntry};
use innkeeper_host::resources::{Content, EntryKind, ResourceEntry, ResourceError, content_type};
use innkeeper_plugins::{Child, Component, Container, Icon, SkillOrigin, is_private};
use url::Url;

use crate::discovered::{DiscoveredContainer, Origin};

/// Maximum number of entries of a client's directory.
const MAX_ENTRIES: usize = 10_000;

/// The hooks file of a plugin. A file of another name may contain other settings.
const HOOKS_FILE: &str = "hooks.json";

/// Finds the file of a URI, if one of the containers shows it. Reads files.
pub(crate) fn find(
    parts: &[DiscoveredContainer],
    uri: &str,
    access: FileAccess,
) -> Option<Result<SharedEntry, ResourceError>> {
    // A file of one container may declare servers of another.
    if parts.iter().any(|part| has_server(part, uri)) {
        return None;
    }
    let found = parts.iter().find_map(|part| find_in(part, uri, access));
    found.or_else(|| names_at(parts, uri))
}

fn find_in(part: &DiscoveredContainer, uri: &str, access: FileAccess) -> Option<Result<SharedEntry, ResourceError>> {
    let relative = relative_to(part, uri)?;
    let shown = role_of(part, &relative)?;
    let outside = || ResourceError::Outside {
        uri: uri.to_owned(),
        write: false,
    };
    let real = match shown {
        // A client with the scope to view does not see commands (CUS-26).
        PathRole::Commands if !access.drives => return Some(Err(outside())),
        PathRole::Commands | PathRole::Itself => part.reader().real_path(&relative),
        PathRole::Beside(directory) => {
            let inside = relative.strip_prefix(&directory).unwrap_or_else(|_| Path::new(""));
            part.reader().real_path_in(&directory, inside)
        }
    };
    let found = real.and_then(|real| match part.origin() {
        // A symlink with a harmless name may lead to a private file.
        _ if is_private(&real) => Err(io::ErrorKind::PermissionDenied.into()),
        Origin::Client { .. } => copied(&real, uri, access.bytes),
        _ => match Url::from_file_path(&real) {
            Ok(here) => Ok(Ok(SharedEntry::Here(here.into()))),
            Err(()) => Err(io::ErrorKind::NotFound.into()),
        },
    });
    Some(found.unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Err(missing(uri)),
        _ => Err(outside()),
    }))
}

fn missing(uri: &str) -> ResourceError {
    ResourceError::NotFound(format!("there is no {uri:.300}"))
}

/// Whether a container has no directory of its own: it represents loose files of a home or a workspace, or reports that
/// a plugin is missing. Other files in that directory are not shown.
fn only_stands_there(part: &DiscoveredContainer) -> bool {
    match part.entry() {
        Container::Plugin(plugin) => plugin.format.is_none(),
        Container::Directory(_) => part.reader().is_base(),
        Container::McpServer(_) => false,
    }
}

/// Lists the names below a URI that is only a parent of containers.
fn names_at(parts: &[DiscoveredContainer], uri: &str) -> Option<Result<SharedEntry, ResourceError>> {
    let is_there = |path: PathBuf| path.as_os_str().is_empty();
    let is_it = |part: &&DiscoveredContainer| only_stands_there(part) && relative_to(part, uri).is_some_and(is_there);
    let mut standing = parts.iter().filter(is_it).peekable();
    if !standing.peek()?.root().is_dir() {
        return Some(Err(missing(uri)));
    }
    let mut names = BTreeMap::new();
    for part in standing {
        for child in part.entry().children() {
            let path = part.path_of(child);
            let mut steps = path
                .components()
                .map(|step| step.as_os_str().to_string_lossy().into_owned());
            if let Some(name) = steps.next() {
                let is_file = steps.next().is_none();
                names.insert(name, if is_file { EntryKind::File } else { EntryKind::Directory });
            }
        }
    }
    let entries = names.into_iter().map(|(name, kind)| ResourceEntry { name, kind });
    Some(Ok(SharedEntry::Directory(entries.collect())))
}

/// Whether an MCP server is declared in a file, however its URI is spelled.
fn has_server(part: &DiscoveredContainer, uri: &str) -> bool {
    let Some(relative) = relative_to(part, uri) else {
        return false;
    };
    let is_it = |server: &Child| part.path_of(server) == relative;
    let is_server = |child: &Child| matches!(child.component, Component::McpServer(_)) && is_it(child);
    match part.entry() {
        Container::McpServer(server) => is_it(server),
        entry => entry.children().iter().any(is_server),
    }
}

/// The path of a URI relative to the root of a container.
fn relative_to(part: &DiscoveredContainer, uri: &str) -> Option<PathBuf> {
    let Origin::Client { .. } = part.origin() else {
        let path = Url::parse(uri).ok().filter(|uri| uri.scheme() == "file")?;
        let path = path.to_file_path().ok()?;
        return path.strip_prefix(part.root()).ok().map(Path::to_owned);
    };
    let Container::Plugin(plugin) = part.entry() else {
        return None;
    };
    // A query belongs to all URIs of the plugin.
    let split = |uri: &str| -> (String, String) {
        let uri = uri.split('#').next().unwrap_or_default();
        let (path, query) = uri.split_at(uri.find('?').unwrap_or(uri.len()));
        (path.trim_end_matches('/').to_owned(), query.to_owned())
    };
    let ((path, query), (root, its_query)) = (split(uri), split(&plugin.uri));
    let rest = path.strip_prefix(&root).filter(|_| query == its_query)?;
    if rest.is_empty() {
        return Some(PathBuf::new());
    }
    let names = rest.strip_prefix('/')?.split('/').map(|name| {
        let name = decoded(name)?;
        let mut steps = Path::new(&name).components();
        let is_plain = matches!((steps.next(), steps.next()), (Some(Step::Normal(step)), None) if *step == *name);
        is_plain.then_some(name)
    });
    names.collect()
}

/// Decodes a name of a URI.
fn decoded(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok().filter(|name| !name.contains('\0'))
}

/// The role of a path in a container.
enum PathRole {
    /// The container, a file of it, or an icon.
    Itself,
    /// A file with commands.
    Commands,
    /// A file in this directory of a skill.
    Beside(PathBuf),
}

fn role_of(part: &DiscoveredContainer, relative: &Path) -> Option<PathRole> {
    let (icons, children): (&[Icon], _) = match part.entry() {
        Container::Plugin(plugin) => (&plugin.icons, part.entry().children()),
        Container::Directory(_) => (&[], part.entry().children()),
        Container::McpServer(_) => return None,
    };
    if relative.as_os_str().is_empty() {
        return (!only_stands_there(part)).then_some(PathRole::Itself);
    }
    let is_plain = relative.components().all(|step| matches!(step, Step::Normal(_)));
    if !is_plain || is_private(relative) {
        return None;
    }
    let mut found = None;
    for child in children {
        let path = part.path_of(child);
        let is_it = path == relative;
        match &child.component {
            Component::McpServer(_) if is_it => return None,
            Component::Hook(_) if is_it && !has_hooks_only(part, relative) => return None,
            Component::Hook(_) if is_it => found = Some(PathRole::Commands),
            Component::Skill(skill) if !is_it && skill.origin == SkillOrigin::Directory => {
                let directory = path.parent().unwrap_or_else(|| Path::new(""));
                if found.is_none() && is_beside(directory, relative) {
                    found = Some(PathRole::Beside(directory.to_owned()));
                }
            }
            _ if is_it && !matches!(found, Some(PathRole::Commands)) => found = Some(PathRole::Itself),
            _ => {}
        }
        let icons = &child.icons;
        if found.is_none() && has_icon(part, icons, relative) {
            found = Some(PathRole::Itself);
        }
    }
    let is_icon = found.is_none() && has_icon(part, icons, relative);
    found.or_else(|| is_icon.then_some(PathRole::Itself))
}

/// Whether a file has hooks and nothing else: it is in a directory of hooks, or has the standard name in a plugin.
fn has_hooks_only(part: &DiscoveredContainer, relative: &Path) -> bool {
    match part.entry() {
        Container::Directory(_) => !only_stands_there(part),
        _ => relative.file_name().is_some_and(|name| name == HOOKS_FILE),
    }
}

/// Whether a file is shown with a skill in this directory. The directory of a skill that is the root of its plugin
/// contains the whole plugin, which is not shown; nor are hidden files and hooks.
fn is_beside(directory: &Path, relative: &Path) -> bool {
    let Ok(inside) = relative.strip_prefix(directory) else {
        return false;
    };
    let is_open = |step: Step<'_>| {
        let name = step.as_os_str().to_string_lossy();
        !name.starts_with('.') && !name.eq_ignore_ascii_case(HOOKS_FILE)
    };
    !directory.as_os_str().is_empty() && inside.components().all(is_open)
}

/// Whether it is an icon, by the file name of an image.
fn has_icon(part: &DiscoveredContainer, icons: &[Icon], relative: &Path) -> bool {
    let mut icons = icons.iter().filter(|icon| icon.mime_type.is_some());
    icons.any(|icon| relative_to(part, &icon.src).is_some_and(|path| path == relative))
}

/// Reads a file or lists a directory in the copy of a client's plugin.
fn copied(real: &Path, uri: &str, most: usize) -> io::Result<Result<SharedEntry, ResourceError>> {
    let invalid = |problem: String| ResourceError::Invalid { field: "uri", problem };
    if fs::metadata(real)?.is_dir() {
        let mut entries = Vec::new();
        for entry in fs::read_dir(real)?.take(MAX_ENTRIES) {
            let entry = entry?;
            let is_directory = entry.file_type()?.is_dir();
            entries.push(ResourceEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                kind: if is_directory {
                    EntryKind::Directory
                } else {
                    EntryKind::File
                },
            });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        return Ok(Ok(SharedEntry::Directory(entries)));
    }
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let Some(bytes) = innkeeper_std::read_whole(fs::File::open(real)?, limit)? else {
        return Ok(Err(invalid(format!(
            "{uri:.300} has more than {most} bytes, the most that is read at once"
        ))));
    };
    let content_type = content_type(real, &bytes);
    Ok(Ok(SharedEntry::File(Content { bytes, content_type })))
}
