//! Directories of customizations in workspaces and homes.
//!
//! A directory is published whether it exists or not (CUS-06), so that a client can save the first skill into it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::components::gather::Gathering;
use crate::components::listing::{self, ends_with};
use crate::components::rule::{Pattern, Unscoped};
use crate::components::skill::{self, Rules};
use crate::components::{HookOrigin, agent, hook, prompt, rule};
use crate::formats::locations::{Location, is_directory};
use crate::id::id;
use crate::limits::MAX_DEPTH;
use crate::note::{Code, LoadState, Notes};
use crate::read::scan_root::{Links, PathKind, ScanRoot, label};
use crate::read::uri::Base;
use crate::scan::footprint::Footprint;
use crate::tree::{Container, Directory, Kind};

/// The owner of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A workspace. Symlinks that lead out of the workspace are not followed: their targets may belong to others.
    Workspace,
    /// A user, whose symlinks may lead anywhere.
    User,
}

impl Scope {
    /// The policy for symlinks.
    pub(crate) fn links(self) -> Links {
        match self {
            Self::Workspace => Links::Confined,
            Self::User => Links::Followed,
        }
    }
}

/// The kind of components in a directory, and how their files are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Agents: `*.md`.
    Agents,
    /// Skills: `*/SKILL.md`.
    Skills,
    /// Commands: `**/*.md`, directories are part of the name.
    Commands,
    /// Prompts: `*.prompt.md`.
    Prompts,
    /// Instructions: `**/*.instructions.md`.
    Instructions,
    /// Rules: `**/*.md`; without paths they always apply.
    ClaudeRules,
    /// Rules: `**/*.mdc`.
    CursorRules,
    /// Hooks: `**/*.json`.
    Hooks,
}

impl Layout {
    /// The kind of its children.
    pub fn contents(self) -> Kind {
        match self {
            Self::Agents => Kind::Agent,
            Self::Skills | Self::Commands => Kind::Skill,
            Self::Prompts => Kind::Prompt,
            Self::Instructions | Self::ClaudeRules | Self::CursorRules => Kind::Rule,
            Self::Hooks => Kind::Hook,
        }
    }
}

/// Where a directory is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectorySource {
    /// The workspace or the home.
    pub base: PathBuf,
    /// From there.
    pub path: PathBuf,
    /// The kind of its components.
    pub layout: Layout,
    /// Its owner.
    pub scope: Scope,
}

impl DirectorySource {
    /// The full path.
    pub fn full_path(&self) -> PathBuf {
        self.base.join(&self.path)
    }

    /// The id that the directory has and will have (P18).
    pub fn id(&self) -> String {
        directory_id(&Base::Path(self.full_path()).uri(), self.layout.contents())
    }

    /// The entry to show while the directory is read (CUS-04, CUS-05).
    pub fn announce(&self) -> Directory {
        let path = label(&self.path);
        Directory {
            id: self.id(),
            uri: Base::Path(self.full_path()).uri(),
            name: match self.scope {
                Scope::Workspace => path,
                Scope::User => format!("~/{path}"),
            },
            scope: self.scope,
            contents: self.layout.contents(),
            writable: false,
            exists: false,
            load: LoadState::Loading,
            children: None,
            notes: Vec::new(),
        }
    }
}

pub(crate) fn directory_id(uri: &str, contents: Kind) -> String {
    id("directory", &[uri, contents.as_str()])
}

/// The entry of a directory, and the plugins among its skills.
#[derive(Debug, Clone)]
pub(crate) struct LoadedDirectory {
    pub(crate) entry: Arc<Container>,
    /// Directories among its skills that are plugins: they have a manifest.
    pub(crate) plugins: Vec<PathBuf>,
}

/// Reads a directory, and adds the directories that the result depends on to the footprint. There is an entry even if
/// the directory cannot be read.
pub(crate) fn load(source: &DirectorySource, footprint: &mut Footprint) -> LoadedDirectory {
    match ScanRoot::open_within(&source.base, &source.path, source.scope.links()) {
        Ok(root) => {
            let loaded = load_from(&root, source);
            footprint.extend(root.into_touched());
            loaded
        }
        Err(error) => {
            footprint.extend([source.full_path()]);
            let mut directory = source.announce();
            let mut notes = Notes::default();
            let why = format!(
                "its workspace {} cannot be opened ({}): check that it exists",
                source.base.display(),
                error.kind()
            );
            notes.error(Code::RootUnreadable, ".", why);
            (directory.notes, directory.load) = notes.finish();
            directory.children = Some(Vec::new());
            LoadedDirectory {
                entry: Arc::new(Container::Directory(directory)),
                plugins: Vec::new(),
            }
        }
    }
}

fn load_from(root: &ScanRoot, source: &DirectorySource) -> LoadedDirectory {
    let mut directory = source.announce();
    let base = Base::Path(source.full_path());
    let mut gathering = Gathering::new(root, &base, &directory.id);
    let place = Location {
        path: PathBuf::new(),
        look: root.look(Path::new("")),
    };
    let mut plugins = Vec::new();
    directory.exists = place.look == PathKind::Directory;
    directory.writable = matches!(place.look, PathKind::Directory | PathKind::Missing) && root.is_writable();
    if place.look == PathKind::Missing && root.leads_nowhere() {
        gathering.notes.info(
            Code::WrongKind,
            ".",
            "is or lies behind a broken symlink, so nothing can be saved there: create its target, or remove the symlink",
        );
    }
    // A directory that does not exist is like an empty one.
    if place.look != PathKind::Missing && is_directory(&place, &mut gathering.notes) {
        gather(&mut gathering, source.layout, &place, &mut plugins);
    }
    let (children, notes, load) = gathering.finish();
    directory.children = Some(children);
    directory.notes = notes;
    directory.load = load;
    LoadedDirectory {
        entry: Arc::new(Container::Directory(directory)),
        plugins: plugins.into_iter().map(|path| source.full_path().join(path)).collect(),
    }
}

fn gather(gathering: &mut Gathering<'_>, layout: Layout, place: &Location, plugins: &mut Vec<PathBuf>) {
    match layout {
        Layout::Agents => agent::gather(gathering, place),
        Layout::Skills => {
            let real = gathering.root.real(&place.path);
            *plugins = skill::gather_below(gathering, &place.path, &real, Rules::Lenient, skill::Plugins::SetAside);
        }
        Layout::Commands => skill::gather_commands(gathering, place, MAX_DEPTH),
        Layout::Prompts => prompt::gather(gathering, place),
        Layout::Instructions => gather_rules(gathering, place, &[".instructions.md"], Unscoped::OnRequest),
        Layout::ClaudeRules => gather_rules(gathering, place, &[".md"], Unscoped::Always),
        Layout::CursorRules => gather_rules(gathering, place, &[".mdc"], Unscoped::OnRequest),
        Layout::Hooks => {
            let files = listing::files(gathering, &place.path, MAX_DEPTH, |name| ends_with(name, ".json"));
            for file in files {
                hook::gather_file(gathering, file.path, HookOrigin::Copilot, hook::Shape::Own);
            }
        }
    }
}

fn gather_rules(gathering: &mut Gathering<'_>, place: &Location, endings: &'static [&'static str], unscoped: Unscoped) {
    let pattern = Pattern {
        endings,
        levels: MAX_DEPTH,
        unscoped,
    };
    rule::gather(gathering, place, pattern);
}
