//! Rules and instruction files: text for the context while they apply (P9).

use crate::components::gather::{Gathering, NewChild};
use crate::components::listing::{self, Listed, ends_with, stem};
use crate::formats::locations::{Location, is_directory, last_name};
use crate::read::frontmatter::Frontmatter;
use crate::read::scan_root::{PathKind, label};
use crate::tree::{Component, Kind};

/// How names of rules end.
const ENDINGS: &[&str] = &[".instructions.md", ".mdc", ".md"];

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whether it always applies, if the file says so.
    pub always_apply: Option<bool>,
    /// The files it applies to; empty if it is not bound to files.
    pub globs: Vec<String>,
}

/// The meaning of a rule without `globs` and `alwaysApply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unscoped {
    /// The model decides when to apply it.
    OnRequest,
    /// It always applies, as rules of Claude do.
    Always,
    /// It always applies, as AGENTS.md does, also with globs that match everything (profile B.2).
    Everywhere,
}

/// Which files of a directory are rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub(crate) endings: &'static [&'static str],
    /// How many directories below are searched.
    pub(crate) levels: usize,
    pub(crate) unscoped: Unscoped,
}

/// The rules of a plugin.
pub(crate) const IN_PLUGIN: Pattern = Pattern {
    endings: &[".mdc", ".md"],
    levels: 0,
    unscoped: Unscoped::OnRequest,
};

/// Gathers the rules of one location.
pub(crate) fn gather(gathering: &mut Gathering<'_>, location: &Location, pattern: Pattern) {
    let files = if location.look == PathKind::File {
        vec![Listed {
            path: location.path.clone(),
            real: gathering.root.real(&location.path),
            folders: Vec::new(),
            name: last_name(&location.path),
        }]
    } else if is_directory(location, &mut gathering.notes) {
        listing::files(gathering, &location.path, pattern.levels, |name| {
            pattern.endings.iter().any(|ending| ends_with(name, ending))
        })
    } else {
        return;
    };
    for file in files {
        read(gathering, file, pattern.unscoped);
    }
}

/// Reads one rule.
pub(crate) fn read(gathering: &mut Gathering<'_>, file: Listed, unscoped: Unscoped) {
    if !gathering.is_new(Kind::Rule, &file.real) {
        return;
    }
    let Some(markdown) = gathering.markdown(&file.path) else {
        return;
    };
    let fields = markdown.fields.as_ref();
    let shown = label(&file.path);
    let fallback = stem(&file.name, ENDINGS).unwrap_or(&file.name);
    let name = gathering.name(fields, "name", fallback, &shown);
    let found = NewChild {
        name,
        description: fields.and_then(|fields| fields.paragraph("description")),
        range: None,
        icons: Vec::new(),
        component: Component::Rule(Rule::from_fields(fields, unscoped)),
        path: file.path,
    };
    gathering.add_file(found, &file.real);
}

impl Rule {
    fn from_fields(fields: Option<&Frontmatter>, unscoped: Unscoped) -> Self {
        let globs = ["globs", "applyTo", "paths"]
            .iter()
            .find_map(|key| fields.and_then(|fields| fields.list(key)))
            .map(|globs| {
                globs
                    .iter()
                    .flat_map(|glob| crate::read::frontmatter::split_at_commas(glob))
                    .collect()
            })
            .unwrap_or_default();
        let mut rule = Self {
            always_apply: fields.and_then(|fields| fields.flag("alwaysApply")),
            globs,
        };
        let is_everything = |glob: &String| matches!(glob.as_str(), "**" | "**/*");
        let is_unscoped = match unscoped {
            Unscoped::OnRequest => false,
            Unscoped::Always => rule.globs.is_empty(),
            Unscoped::Everywhere => rule.globs.is_empty() || rule.globs.iter().any(is_everything),
        };
        if is_unscoped {
            rule.always_apply = Some(true);
        }
        rule
    }
}
