//! Single files of a workspace or a user: AGENTS.md and its like, settings, MCP servers.
//!
//! The protocol has no container for loose files. Rules and hooks become children of a read-only directory, the workspace
//! itself; MCP servers stand alone (CUS-01). A problem in a file of servers is reported by such a directory without
//! children, because a server that could not be read has no entry of its own (CUS-05).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::components::gather::Gathering;
use crate::components::listing::Listed;
use crate::components::rule::Unscoped;
use crate::components::{HookOrigin, hook, mcp, rule};
use crate::containers::directory::{Scope, directory_id};
use crate::containers::well_known::files;
use crate::formats::locations::last_name;
use crate::note::{LoadState, Note};
use crate::read::scan_root::{PathKind, ReadError, ScanRoot, label};
use crate::read::uri::Base;
use crate::scan::footprint::Footprint;
use crate::tree::{Child, Container, Directory, Kind};

/// The entries of loose files.
#[derive(Debug, Clone, Default)]
pub(crate) struct LooseFiles {
    /// Directories that stand for the files, without those that would be empty.
    pub(crate) directories: Vec<Arc<Container>>,
    pub(crate) servers: Vec<Arc<Container>>,
    /// Remarks about files of servers without problems.
    pub(crate) notes: Vec<Note>,
}

pub(crate) fn load(path: &Path, scope: Scope, footprint: &mut Footprint) -> LooseFiles {
    // A workspace that cannot be opened is complained about by its directories.
    let Ok(root) = ScanRoot::open(path, scope.links()) else {
        footprint.extend([path.to_owned()]);
        return LooseFiles::default();
    };
    let files = files(scope);
    let base = Base::Path(path.to_owned());
    let mut loose = LooseFiles::default();

    let container = |kind: Kind| directory_id(&base.uri(), kind);
    let mut rules = Gathering::new(&root, &base, &container(Kind::Rule));
    for file in files.rules {
        if let Some(path) = readable(&mut rules, file) {
            let listed = Listed {
                real: root.real(&path),
                folders: Vec::new(),
                name: last_name(&path),
                path,
            };
            rule::read(&mut rules, listed, Unscoped::Everywhere);
        }
    }
    loose.keep(rules, &base, Kind::Rule, scope);

    let mut hooks = Gathering::new(&root, &base, &container(Kind::Hook));
    for file in files.settings {
        let origin = if file.starts_with(".claude") {
            HookOrigin::Claude
        } else {
            HookOrigin::Copilot
        };
        if let Some(path) = readable(&mut hooks, file) {
            hook::gather_file(&mut hooks, path, origin, hook::Shape::Settings);
        }
    }
    loose.keep(hooks, &base, Kind::Hook, scope);

    let mut servers = Gathering::new(&root, &base, &base.uri());
    let shapes = files.servers.iter().map(|file| (file, mcp::Shape::Any));
    let shapes = shapes.chain(files.settings.iter().map(|file| (file, mcp::Shape::Settings)));
    for (file, shape) in shapes {
        if let Some(path) = readable(&mut servers, file) {
            mcp::gather_file(&mut servers, &path, shape);
        }
    }
    let (children, notes, load) = servers.finish();
    let servers = children.into_iter().map(Container::McpServer);
    loose.servers = servers.map(Arc::new).collect();
    match load {
        LoadState::Loaded => loose.notes = notes,
        _ => loose.show(&base, Kind::McpServer, scope, Vec::new(), notes, load),
    }
    footprint.extend(root.into_touched());
    loose
}

/// The path of a file that exists. An entry that is not a file is noted.
fn readable(gathering: &mut Gathering<'_>, file: &str) -> Option<PathBuf> {
    let path = PathBuf::from(file);
    match gathering.root.look(&path) {
        PathKind::File | PathKind::Unreadable => return Some(path),
        PathKind::Missing => {}
        PathKind::Directory => gathering.refuse(&ReadError::NotAFile, &label(&path)),
        PathKind::Special => gathering.refuse(&ReadError::Special, &label(&path)),
        PathKind::Outside => gathering.refuse(&ReadError::Outside, &label(&path)),
    }
    None
}

impl LooseFiles {
    fn keep(&mut self, gathering: Gathering<'_>, base: &Base, contents: Kind, scope: Scope) {
        let (children, notes, load) = gathering.finish();
        if !children.is_empty() || !notes.is_empty() {
            self.show(base, contents, scope, children, notes, load);
        }
    }

    fn show(
        &mut self,
        base: &Base,
        contents: Kind,
        scope: Scope,
        children: Vec<Child>,
        notes: Vec<Note>,
        load: LoadState,
    ) {
        let uri = base.uri();
        let name = match scope {
            Scope::Workspace => uri
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
            Scope::User => "~".to_owned(),
        };
        let directory = Directory {
            id: directory_id(&uri, contents),
            name,
            scope,
            contents,
            writable: false,
            exists: true,
            load,
            children: Some(children),
            notes,
            uri,
        };
        self.directories.push(Arc::new(Container::Directory(directory)));
    }
}
