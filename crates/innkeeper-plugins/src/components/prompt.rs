//! Prompt files: `*.prompt.md`, slash commands that expand (P7).

use crate::components::gather::{Gathering, NewChild};
use crate::components::listing::{self, Listed, ends_with, stem};
use crate::formats::locations::{Location, is_directory};
use crate::tree::{Component, Kind};

/// How the name of a prompt file ends.
pub(crate) const ENDING: &str = ".prompt.md";

/// A prompt file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The hint for its arguments.
    pub argument_hint: Option<String>,
    /// The agent it wants to run in; older files call it `mode`.
    pub agent: Option<String>,
    /// The model it wants.
    pub model: Option<String>,
    /// The tools it is limited to; empty if it is not.
    pub tools: Vec<String>,
}

/// Gathers the prompt files of a directory.
pub(crate) fn gather(gathering: &mut Gathering<'_>, location: &Location) {
    if !is_directory(location, &mut gathering.notes) {
        return;
    }
    for file in listing::files(gathering, &location.path, 0, |name| ends_with(name, ENDING)) {
        read(gathering, file);
    }
}

/// Reads one prompt file.
pub(crate) fn read(gathering: &mut Gathering<'_>, file: Listed) {
    if !gathering.is_new(Kind::Prompt, &file.real) {
        return;
    }
    let Some(markdown) = gathering.markdown(&file.path) else {
        return;
    };
    let fields = markdown.fields.as_ref();
    let shown = crate::read::scan_root::label(&file.path);
    let fallback = stem(&file.name, &[ENDING]).unwrap_or(&file.name);
    let name = gathering.name(fields, "name", fallback, &shown);
    let line = |key: &str| fields.and_then(|fields| fields.line(key));
    let prompt = Prompt {
        argument_hint: line("argument-hint"),
        agent: line("agent").or_else(|| line("mode")),
        model: fields.and_then(|fields| fields.first("model")),
        tools: fields.and_then(|fields| fields.list("tools")).unwrap_or_default(),
    };
    let found = NewChild {
        name,
        description: fields.and_then(|fields| fields.paragraph("description")),
        range: None,
        icons: Vec::new(),
        component: Component::Prompt(prompt),
        path: file.path,
    };
    gathering.add_file(found, &file.real);
}
