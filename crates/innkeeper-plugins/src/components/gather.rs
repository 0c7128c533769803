//! Collects the children of one container: duplicates, ids, and the files read for them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::id::id;
use crate::limits::{LARGE_FILE_BYTES, MAX_FRONTMATTER_BYTES, MAX_JSON_BYTES, MAX_NAME_CHARS};
use crate::note::{Code, LoadState, Note, Notes};
use crate::read::frontmatter::{Frontmatter, Reading, split_frontmatter};
use crate::read::scan_root::{ReadError, ScanRoot, label};
use crate::read::text::{Encoding, TextRange, decode, printable};
use crate::read::uri::Base;
use crate::tree::{Child, Component, Icon, Kind, sort_children};

/// A container while its children are collected.
#[derive(Debug)]
pub(crate) struct Gathering<'r> {
    pub(crate) root: &'r ScanRoot,
    pub(crate) base: &'r Base,
    pub(crate) notes: Notes,
    container_id: String,
    children: Vec<Child>,
    /// Files that were already read, by their paths without symlinks.
    files: HashSet<(Kind, PathBuf)>,
    /// The children by name.
    names: HashMap<(Kind, String), String>,
}

/// A component before it has an id.
#[derive(Debug)]
pub(crate) struct NewChild {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) range: Option<TextRange>,
    pub(crate) icons: Vec<Icon>,
    pub(crate) component: Component,
}

/// A Markdown file, read.
#[derive(Debug)]
pub(crate) struct Markdown {
    /// Its fields; `None` if it has no frontmatter, or an unclosed one.
    pub(crate) fields: Option<Frontmatter>,
    /// Whether the notes say already that something is wrong with its head.
    pub(crate) is_noted: bool,
}

impl<'r> Gathering<'r> {
    pub(crate) fn new(root: &'r ScanRoot, base: &'r Base, container_id: &str) -> Self {
        Self {
            root,
            base,
            notes: Notes::default(),
            container_id: container_id.to_owned(),
            children: Vec::new(),
            files: HashSet::new(),
            names: HashMap::new(),
        }
    }

    /// Whether a file was not read before as a component of this kind (P13: silent).
    pub(crate) fn is_new(&mut self, kind: Kind, real: impl Into<PathBuf>) -> bool {
        self.files.insert((kind, real.into()))
    }

    /// Adds a component of a file with several, unless one of its kind has its name already (P13).
    pub(crate) fn add(&mut self, found: NewChild) {
        self.add_child(found, None);
    }

    /// The same for a component that is a file, by the path that [`Self::is_new`] was asked about.
    pub(crate) fn add_file(&mut self, found: NewChild, real: &Path) {
        // A published plugin is a copy, so no other path leads to its files.
        let real = match self.base {
            Base::Path(_) => Some(self.root.full(real)),
            Base::Published(_) => None,
        };
        self.add_child(found, real);
    }

    fn add_child(&mut self, found: NewChild, real: Option<PathBuf>) {
        let mut child = Child {
            id: String::new(),
            uri: self.base.file(&found.path),
            path: label(&found.path),
            name: found.name,
            description: found.description,
            range: found.range,
            icons: found.icons,
            component: found.component,
            real,
        };
        let kind = child.kind();
        let path = child.path.clone();
        // Rules and files of hooks all apply, whatever their names.
        if !matches!(kind, Kind::Rule | Kind::Hook) {
            let key = (kind, child.name.clone());
            if let Some(first) = self.names.get(&key) {
                let message = format!(
                    "is left out, because {first} is a {} of the same name ({}): rename one of them",
                    kind.as_str(),
                    child.name
                );
                self.notes.warn(Code::DuplicateName, &path, message);
                return;
            }
            self.names.insert(key, path);
        }
        // Servers share a file and are identified by name. Everything else is identified by its file, so that a new
        // name in its frontmatter does not change its id.
        let name = if kind == Kind::McpServer {
            child.name.as_str()
        } else {
            ""
        };
        child.id = id(kind.as_str(), &[&self.container_id, &child.uri, name]);
        self.children.push(child);
    }

    /// Reads the head of a Markdown file. `None` if the file cannot be read.
    pub(crate) fn markdown(&mut self, path: &Path) -> Option<Markdown> {
        let shown = label(path);
        let contents = match self.root.read(path, MAX_FRONTMATTER_BYTES) {
            Ok(contents) => contents,
            // A broken symlink, or a file that was deleted after the listing.
            Err(ReadError::Missing) => return None,
            Err(refusal) => {
                self.refuse(&refusal, &shown);
                return None;
            }
        };
        if contents.size > LARGE_FILE_BYTES {
            self.notes
                .info(Code::Large, &shown, "is larger than 1 MiB; only its head is read");
        }
        let mut markdown = Markdown {
            fields: None,
            is_noted: false,
        };
        let (text, encoding) = decode(&contents.bytes, contents.is_cut_off());
        match encoding {
            Encoding::Utf8 => {}
            Encoding::Replaced => {
                self.notes.warn(
                    Code::NotUtf8,
                    &shown,
                    "is not UTF-8, so some of its characters are lost: save it as UTF-8",
                );
            }
            Encoding::Utf16 => {
                self.notes
                    .warn(Code::NotUtf8, &shown, "is UTF-16 and is not read: save it as UTF-8");
                markdown.is_noted = true;
                return Some(markdown);
            }
        }
        let split = split_frontmatter(&text);
        if split.is_unclosed && contents.is_cut_off() {
            self.notes.info(
                Code::FrontmatterUnclosed,
                &shown,
                "has no `---` that ends its head within 64 KiB, so its head is not read",
            );
            markdown.is_noted = true;
        } else if split.is_unclosed {
            self.notes.warn(
                Code::FrontmatterUnclosed,
                &shown,
                "has no `---` that ends its head, so its head is not read: add one",
            );
            markdown.is_noted = true;
        }
        if let Some(head) = split.head {
            let fields = Frontmatter::read(head);
            if fields.reading == Reading::LineByLine {
                self.notes.info(
                    Code::FrontmatterLenient,
                    &shown,
                    "has a head that is not YAML and was read line by line: put values with colons or stars in quotes",
                );
            }
            if fields.has_duplicates() {
                self.notes.info(
                    Code::FrontmatterDuplicateKey,
                    &shown,
                    "has a field twice; the first one counts",
                );
            }
            markdown.fields = Some(fields);
        }
        Some(markdown)
    }

    /// Reads a JSON file as text. Returns `None` and adds a note with `code` if it cannot be read.
    pub(crate) fn json_text(&mut self, path: &Path, code: Code) -> Option<String> {
        let shown = label(path);
        let contents = match self.root.read(path, MAX_JSON_BYTES) {
            Ok(contents) => contents,
            Err(ReadError::Missing) => return None,
            Err(refusal) => {
                self.refuse(&refusal, &shown);
                return None;
            }
        };
        if contents.is_cut_off() {
            self.notes
                .warn(code, &shown, "is larger than 1 MiB and is not read: make it smaller");
            return None;
        }
        let (text, encoding) = decode(&contents.bytes, false);
        if encoding != Encoding::Utf8 {
            self.notes.warn(
                Code::NotUtf8,
                &shown,
                "is not UTF-8, so some of its characters are lost: save it as UTF-8",
            );
        }
        Some(text.into_owned())
    }

    /// The name of a field, or else of its file. A name that cannot be shown is cleaned (P34).
    pub(crate) fn name(&mut self, fields: Option<&Frontmatter>, key: &str, fallback: &str, path: &str) -> String {
        if fields.is_some_and(|fields| fields.is_no_text(key)) {
            self.notes.info(
                Code::FrontmatterFieldType,
                path,
                format!("`{key}` is not a string, so the name of the file is used"),
            );
        }
        let name = fields.and_then(|fields| fields.line(key));
        name.unwrap_or_else(|| printable(fallback, MAX_NAME_CHARS))
    }

    /// Notes why something was not read.
    pub(crate) fn refuse(&mut self, refusal: &ReadError, path: &str) {
        self.notes.warn(refusal.code(), path, refusal.explain());
    }

    /// Returns the sorted children, the notes and the load state.
    pub(crate) fn finish(mut self) -> (Vec<Child>, Vec<Note>, LoadState) {
        if self.root.is_exhausted() {
            self.notes.warn(
                Code::Limit,
                ".",
                "holds more directories or files than are read, so something may be missing: split it up",
            );
        }
        sort_children(&mut self.children);
        let (notes, load) = self.notes.finish();
        (self.children, notes, load)
    }
}
