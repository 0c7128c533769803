//! A plugin, from its directory to its entry in the tree.

use std::path::{Path, PathBuf};

use crate::components::gather::Gathering;
use crate::components::skill::{self, Rules, SKILL_FILE};
use crate::components::{HookOrigin, agent, hook, mcp, rule};
use crate::formats::detect::{Format, detect, is_metadata_directory};
use crate::formats::locations::{Defaults, defaults, last_name, locations, resolve};
use crate::formats::manifest::{Declarations, Declared, Manifest};
use crate::formats::marketplace::Listing;
use crate::id::id;
use crate::limits::{MAX_JSON_BYTES, MAX_NAME_CHARS};
use crate::note::{Code, LoadState, Notes};
use crate::read::json::Document;
use crate::read::scan_root::{Links, PathKind, ScanRoot, label};
use crate::read::text::{Encoding, decode, printable};
use crate::read::uri::Base;
use crate::scan::footprint::Footprint;
use crate::tree::{Icon, Plugin};

/// Where a plugin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSource {
    path: PathBuf,
    /// The boundary of the path to the plugin, the path below it, and the policy for symlinks.
    found_below: Option<(PathBuf, PathBuf, Links)>,
    base: Base,
    client_id: Option<String>,
    listing: Option<Listing>,
}

impl PluginSource {
    /// A plugin in a directory of this machine, given by an absolute path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            base: Base::Path(path.clone()),
            path,
            found_below: None,
            client_id: None,
            listing: None,
        }
    }

    /// A plugin below a directory.
    pub(crate) fn below(base: &Path, path: &Path, links: Links) -> Self {
        Self {
            found_below: Some((base.to_owned(), path.to_owned(), links)),
            ..Self::new(base.join(path))
        }
    }

    /// The plugin as a client published it, while its copy is read: its URIs are below this one.
    #[must_use]
    pub fn published_by(mut self, client_id: impl Into<String>, uri: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self.base = Base::Published(uri.into());
        self
    }

    /// The plugin as a marketplace lists it.
    #[must_use]
    pub fn listed_as(mut self, listing: Listing) -> Self {
        self.listing = Some(listing);
        self
    }

    /// The directory that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The id that the plugin has and will have (P18).
    pub fn id(&self) -> String {
        // Several plugins of a marketplace can share one directory; their names distinguish them.
        let listed = self.listing.as_ref().filter(|listing| !listing.is_strict);
        let name = listed.map_or("", |listing| listing.name.as_str());
        id(
            "plugin",
            &[&self.base.uri(), self.client_id.as_deref().unwrap_or(""), name],
        )
    }

    /// The entry to show while the plugin is read (CUS-04, CUS-05).
    pub fn announce(&self) -> Plugin {
        let name = match &self.listing {
            Some(listing) => listing.name.clone(),
            None => self.directory_name(),
        };
        Plugin {
            id: self.id(),
            uri: self.base.uri(),
            name,
            display_name: None,
            description: self.listing.as_ref().and_then(|listing| listing.description.clone()),
            version: self.listing.as_ref().and_then(|listing| listing.version.clone()),
            icons: Vec::new(),
            client_id: self.client_id.clone(),
            format: None,
            manifest: None,
            load: LoadState::Loading,
            children: None,
            notes: Vec::new(),
        }
    }

    fn directory_name(&self) -> String {
        let uri = self.base.uri();
        let from_uri = || {
            uri.trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or("plugin")
                .to_owned()
        };
        let name = match &self.base {
            Base::Path(path) => last_name(path),
            Base::Published(_) => from_uri(),
        };
        printable(&name, MAX_NAME_CHARS)
    }
}

/// Reads a plugin. There is an entry even if the plugin cannot be read. Nothing of it is run.
///
/// ```
/// # let temp = tempfile::tempdir().unwrap();
/// # let root = temp.path().join("greeter");
/// # std::fs::create_dir_all(root.join("skills/hello")).unwrap();
/// std::fs::write(
///     root.join("skills/hello/SKILL.md"),
///     "---\nname: hello\ndescription: Greets guests.\n---\nSay hello.\n",
/// )
/// .unwrap();
/// let plugin = innkeeper_plugins::load_plugin(&innkeeper_plugins::PluginSource::new(&root));
/// assert_eq!(plugin.name, "greeter");
/// assert_eq!(plugin.children.unwrap()[0].name, "hello");
/// ```
pub fn load_plugin(source: &PluginSource) -> Plugin {
    load_traced(source, &mut Footprint::default())
}

/// Reads a plugin and leaves behind which directories that depended on.
pub(crate) fn load_traced(source: &PluginSource, footprint: &mut Footprint) -> Plugin {
    let root = match &source.found_below {
        Some((base, path, links)) => {
            ScanRoot::open_below(base, path, *links).and_then(|root| match links {
                Links::Confined => Ok(root),
                // The user's symlinks lead to the plugin, but not out of it.
                Links::Followed => ScanRoot::open(&source.path, Links::Confined),
            })
        }
        None => ScanRoot::open(&source.path, Links::Confined),
    };
    match root {
        Ok(root) => {
            let plugin = load_from(&root, source);
            footprint.extend(root.into_touched());
            plugin
        }
        Err(error) => {
            footprint.extend([source.path.clone()]);
            let why = format!(
                "the plugin's directory cannot be opened ({}): check that it exists",
                error.kind()
            );
            failed(source.announce(), Code::RootUnreadable, ".", &why)
        }
    }
}

fn load_from(root: &ScanRoot, source: &PluginSource) -> Plugin {
    let mut plugin = source.announce();
    if is_metadata_directory(&source.path) {
        let why = "this directory holds the manifest of a plugin: name the directory that contains it";
        return failed(plugin, Code::RootUnreadable, ".", why);
    }
    let (format, manifest_path, others) = match detect(root) {
        Some(detected) => (detected.format, detected.manifest, detected.others),
        None if source.listing.as_ref().is_some_and(|listing| !listing.is_strict) => (Format::Bare, None, Vec::new()),
        None => {
            let why = "there is no manifest and no skill, command, agent, rule, hook or MCP server: add \
                       .plugin/plugin.json";
            return failed(plugin, Code::ManifestUnreadable, ".", why);
        }
    };
    plugin.format = Some(format);
    let mut gathering = Gathering::new(root, &source.base, &plugin.id);
    for other in others {
        gathering.notes.info(
            Code::ManifestOther,
            &label(&other),
            "is another manifest, which is not used",
        );
    }
    let text = match manifest_path.as_deref().map(|path| manifest_text(root, path)) {
        None => None,
        Some(Ok(text)) => Some(text),
        Some(Err((code, why))) => {
            let shown = manifest_path.as_deref().map(label).unwrap_or_default();
            plugin.manifest = Some(shown.clone());
            return failed(plugin, code, &shown, &why);
        }
    };
    let shown = manifest_path.as_deref().map(label).unwrap_or_default();
    let document = match text.as_deref().map(Document::read) {
        None => None,
        Some(Ok(document)) => Some(document),
        Some(Err(why)) => {
            plugin.manifest = Some(shown.clone());
            return failed(plugin, Code::ManifestInvalid, &shown, &why);
        }
    };
    let manifest = match &document {
        None => Manifest::default(),
        Some(document) => match Manifest::read(document, format, &shown, &mut gathering.notes) {
            Some(manifest) => manifest,
            None => {
                let (_, notes, load) = gathering.finish();
                return Plugin {
                    manifest: Some(shown),
                    children: Some(Vec::new()),
                    load,
                    notes,
                    ..plugin
                };
            }
        },
    };
    describe(&mut plugin, source, &manifest);
    plugin.icons = icons(root, &source.base, &manifest);
    let reading = Reading {
        format,
        path: manifest_path.as_deref().unwrap_or_else(|| Path::new("")),
        shown: &shown,
        document: document.as_ref(),
        defaults: defaults(format),
        declared: declarations(source, document.is_some(), &manifest),
    };
    reading.gather(&mut gathering, &plugin.name);
    if document.is_none() {
        note_unread(&reading.declared, &mut gathering.notes);
    }
    let (children, notes, load) = gathering.finish();
    plugin.manifest = document.is_some().then_some(shown);
    plugin.children = Some(children);
    plugin.notes = notes;
    plugin.load = load;
    plugin
}

/// The inputs for finding components.
struct Reading<'p> {
    format: Format,
    path: &'p Path,
    shown: &'p str,
    document: Option<&'p Document<'p>>,
    defaults: Defaults,
    declared: Declarations,
}

impl Reading<'_> {
    fn gather(&self, gathering: &mut Gathering<'_>, plugin_name: &str) {
        let rules = match self.format {
            Format::AgentPlugin => Rules::Strict,
            _ => Rules::Lenient,
        };
        for place in self.places(gathering, self.defaults.agents, &self.declared.agents) {
            agent::gather(gathering, &place);
        }
        // Skills come before commands, because the first of a name wins (P13).
        let places = self.places(gathering, self.defaults.skills, &self.declared.skills);
        let has_no_skills = places.is_empty() && !self.declared.skills.is_present;
        for place in places {
            skill::gather(gathering, &place, rules);
        }
        let own = PathBuf::from(SKILL_FILE);
        if has_no_skills && rules == Rules::Lenient && gathering.root.look(&own) == PathKind::File {
            let real = gathering.root.real(&own);
            skill::read(gathering, own, real, plugin_name, rules);
        }
        for place in self.places(gathering, self.defaults.commands, &self.declared.commands) {
            skill::gather_commands(gathering, &place, 0);
        }
        for place in self.places(gathering, self.defaults.rules, &self.declared.rules) {
            rule::gather(gathering, &place, rule::IN_PLUGIN);
        }
        self.gather_hooks(gathering);
        self.gather_servers(gathering);
    }

    fn gather_hooks(&self, gathering: &mut Gathering<'_>) {
        let origin = HookOrigin::of(self.format);
        for place in self.places(gathering, self.defaults.hooks, &self.declared.hooks) {
            let path = match place.look {
                PathKind::Directory => place.path.join("hooks.json"),
                _ => place.path,
            };
            hook::gather_file(gathering, path, origin, hook::Shape::Own);
        }
        if let Some(document) = self.document.filter(|_| self.declared.hooks.is_inline) {
            hook::gather_inline(gathering, self.path.to_owned(), document, origin);
        }
    }

    fn gather_servers(&self, gathering: &mut Gathering<'_>) {
        let shape = match self.format {
            Format::AgentPlugin => mcp::Shape::Strict,
            _ => mcp::Shape::Any,
        };
        if let Some(document) = self.document.filter(|_| self.declared.mcp_servers.is_inline) {
            mcp::gather_inline(gathering, self.path, document);
        }
        for place in self.places(gathering, self.defaults.mcp_servers, &self.declared.mcp_servers) {
            mcp::gather_file(gathering, &place.path, shape);
        }
    }

    fn places(
        &self,
        gathering: &mut Gathering<'_>,
        defaults: &[&str],
        declared: &Declared,
    ) -> Vec<crate::formats::locations::Location> {
        locations(gathering.root, defaults, declared, self.shown, &mut gathering.notes)
    }
}

/// The declarations that count: those of the manifest, or of the marketplace where it is the
/// manifest. A marketplace entry lists all components.
fn declarations(source: &PluginSource, has_manifest: bool, manifest: &Manifest) -> Declarations {
    let listing = source.listing.as_ref().filter(|_| !has_manifest);
    let Some(listing) = listing else {
        return manifest.declared.clone();
    };
    let mut declared = listing.declared.clone();
    declared.skills.exclusive |= !declared.skills.paths.is_empty();
    declared
}

/// Notes components in the entry of a marketplace, which are not read. The entry is not a file of the plugin, so a
/// question about its commands could not name their file.
fn note_unread(declared: &Declarations, notes: &mut Notes) {
    for (field, declared, file) in [
        ("hooks", &declared.hooks, "hooks/hooks.json"),
        ("mcpServers", &declared.mcp_servers, ".mcp.json"),
    ] {
        if declared.is_inline {
            let why = format!(
                "the marketplace has `{field}` in the entry of this plugin, which are not read: put them into {file} of \
                 the plugin"
            );
            notes.warn(Code::ManifestFieldType, ".", why);
        }
    }
}

fn describe(plugin: &mut Plugin, source: &PluginSource, manifest: &Manifest) {
    if let Some(name) = &manifest.name {
        plugin.name.clone_from(name);
    } else if source.listing.is_none() {
        plugin.name = source.directory_name();
    }
    plugin.display_name.clone_from(&manifest.display_name);
    // The marketplace's description of a plugin replaces the plugin's own.
    plugin.version = plugin.version.take().or_else(|| manifest.version.clone());
    plugin.description = plugin.description.take().or_else(|| manifest.description.clone());
}

fn icons(root: &ScanRoot, base: &Base, manifest: &Manifest) -> Vec<Icon> {
    let Some(logo) = &manifest.logo else { return Vec::new() };
    if logo.starts_with("https://") || logo.starts_with("data:image/") {
        return vec![Icon::new(logo.clone())];
    }
    match resolve(logo) {
        Some(path) if root.look(&path) == PathKind::File => vec![Icon::new(base.file(&path))],
        _ => Vec::new(),
    }
}

fn manifest_text(root: &ScanRoot, path: &Path) -> Result<String, (Code, String)> {
    let contents = root
        .read(path, MAX_JSON_BYTES)
        .map_err(|refusal| (Code::ManifestUnreadable, refusal.explain()))?;
    if contents.is_cut_off() {
        return Err((
            Code::ManifestUnreadable,
            "is larger than 1 MiB and is not read: make it smaller".to_owned(),
        ));
    }
    let (text, encoding) = decode(&contents.bytes, false);
    if encoding == Encoding::Utf8 {
        Ok(text.into_owned())
    } else {
        Err((Code::ManifestInvalid, "is not UTF-8: save it as UTF-8".to_owned()))
    }
}

fn failed(plugin: Plugin, code: Code, path: &str, why: &str) -> Plugin {
    let mut notes = Notes::default();
    notes.error(code, path, why);
    let (notes, load) = notes.finish();
    Plugin {
        load,
        notes,
        children: Some(Vec::new()),
        ..plugin
    }
}
