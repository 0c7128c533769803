//! Files that a session shows, for clients that see the session (RES-03): those that its customizations are
//! written in, what lies beside a skill, and icons. Files with MCP servers are not among them, because that is
//! where secrets are (CUS-27).

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component as Step, Path, PathBuf};

use innkeeper_host::customizations::{Look, Shown};
use innkeeper_host::{Content, Entry as Listed, EntryKind, ResourceError};
use innkeeper_plugins::{Child, Component, Entry, Icon, SkillOrigin};
use url::Url;

use crate::brought::{Origin, Part};

/// Most entries of a directory that a client has.
const MAX_ENTRIES: usize = 10_000;

/// Finds what a URI stands for, if a part shows it. Looks at files.
pub(crate) fn find(part: &Part, uri: &str, look: Look) -> Option<Result<Shown, ResourceError>> {
    let relative = relative_to(part, uri)?;
    let shown = what(part, &relative)?;
    let outside = || ResourceError::Outside {
        uri: uri.to_owned(),
        write: false,
    };
    let real = match shown {
        // Whoever only looks is not told what is run (CUS-26).
        What::Commands if !look.drives => return Some(Err(outside())),
        What::Commands | What::Itself => part.reader().real_path(&relative),
        What::Beside(directory) => {
            let inside = relative.strip_prefix(&directory).unwrap_or_else(|_| Path::new(""));
            part.reader().real_path_in(&directory, inside)
        }
    };
    let found = real.and_then(|real| match part.origin() {
        Origin::Client(_) => copied(&real, uri, look.bytes),
        _ => match Url::from_file_path(&real) {
            Ok(here) => Ok(Ok(Shown::Here(here.into()))),
            Err(()) => Err(io::ErrorKind::NotFound.into()),
        },
    });
    Some(found.unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Err(ResourceError::NotFound(format!("there is no {uri:.300}")))
        }
        _ => Err(outside()),
    }))
}

/// Whether an MCP server is written in a file.
pub(crate) fn has_server(part: &Part, uri: &str) -> bool {
    let is_server = |child: &Child| child.uri == uri && matches!(child.component, Component::McpServer(_));
    match part.entry() {
        Entry::McpServer(server) => server.uri == uri,
        entry => entry.children().iter().any(is_server),
    }
}

/// The path of a URI from the root of a part.
fn relative_to(part: &Part, uri: &str) -> Option<PathBuf> {
    let Origin::Client(_) = part.origin() else {
        let path = Url::parse(uri).ok().filter(|uri| uri.scheme() == "file")?;
        let path = path.to_file_path().ok()?;
        return path.strip_prefix(part.root()).ok().map(Path::to_owned);
    };
    let Entry::Plugin(plugin) = part.entry() else {
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

/// A name of a URI as the file has it.
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

/// What of a part a path is.
enum What {
    /// The part, a file of it, or an icon.
    Itself,
    /// A file that says what is run.
    Commands,
    /// Something in this directory, which is a skill's.
    Beside(PathBuf),
}

fn what(part: &Part, relative: &Path) -> Option<What> {
    let (icons, children): (&[Icon], _) = match part.entry() {
        Entry::Plugin(plugin) => (&plugin.icons, part.entry().children()),
        Entry::Directory(_) => (&[], part.entry().children()),
        Entry::McpServer(_) => return None,
    };
    if relative.as_os_str().is_empty() {
        return Some(What::Itself);
    }
    let mut found = None;
    for child in children {
        let path = part.path_of(child);
        let is_it = path == relative;
        match &child.component {
            Component::McpServer(_) if is_it => return None,
            Component::Hook(_) if is_it => found = Some(What::Commands),
            Component::Skill(skill) if !is_it && skill.origin == SkillOrigin::Directory => {
                let directory = path.parent().unwrap_or_else(|| Path::new(""));
                if found.is_none() && relative.starts_with(directory) {
                    found = Some(What::Beside(directory.to_owned()));
                }
            }
            _ if is_it && !matches!(found, Some(What::Commands)) => found = Some(What::Itself),
            _ => {}
        }
        let icons = &child.icons;
        if found.is_none() && has_icon(part, icons, relative) {
            found = Some(What::Itself);
        }
    }
    let is_icon = found.is_none() && has_icon(part, icons, relative);
    found.or_else(|| is_icon.then_some(What::Itself))
}

fn has_icon(part: &Part, icons: &[Icon], relative: &Path) -> bool {
    let mut icons = icons.iter();
    icons.any(|icon| relative_to(part, &icon.src).is_some_and(|path| path == relative))
}

/// What is in the copy of a client's plugin.
fn copied(real: &Path, uri: &str, most: usize) -> io::Result<Result<Shown, ResourceError>> {
    let invalid = |problem: String| ResourceError::Invalid { field: "uri", problem };
    if fs::metadata(real)?.is_dir() {
        let mut entries = Vec::new();
        for entry in fs::read_dir(real)?.take(MAX_ENTRIES) {
            let entry = entry?;
            let is_directory = entry.file_type()?.is_dir();
            entries.push(Listed {
                name: entry.file_name().to_string_lossy().into_owned(),
                kind: if is_directory {
                    EntryKind::Directory
                } else {
                    EntryKind::File
                },
            });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        return Ok(Ok(Shown::Directory(entries)));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    fs::File::open(real)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Ok(Err(invalid(format!(
            "{uri:.300} has more than {most} bytes, the most that is read at once"
        ))));
    }
    let is_text = std::str::from_utf8(&bytes).is_ok();
    let content_type = match real.extension().and_then(|ending| ending.to_str()) {
        Some("md") => Some("text/markdown".to_owned()),
        Some("json") => Some("application/json".to_owned()),
        Some("png") => Some("image/png".to_owned()),
        Some("svg") => Some("image/svg+xml".to_owned()),
        _ => is_text.then(|| "text/plain".to_owned()),
    };
    Ok(Ok(Shown::File(Content { bytes, content_type })))
}
