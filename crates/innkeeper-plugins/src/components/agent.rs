//! Custom agents: Markdown files whose body is a system prompt (P8).

use crate::components::gather::{Gathering, NewChild};
use crate::components::listing::{self, Listed, ends_with, is_readme, stem};
use crate::components::skill::{is_hidden_from_users, note_missing};
use crate::formats::locations::{Location, is_directory, last_name};
use crate::read::frontmatter::Frontmatter;
use crate::read::scan_root::{PathKind, label};
use crate::tree::{Component, Kind};

/// How names of agent files end.
const ENDINGS: &[&str] = &[".agent.md", ".chatmode.md", ".md"];

/// A custom agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The model it is pinned to; `None` inherits the session's (CUS-25).
    pub model: Option<String>,
    /// The tools it is limited to; empty if it is not (CUS-25).
    pub tools: Vec<String>,
    /// Tools it must not use.
    pub disallowed_tools: Vec<String>,
    /// Whether the model must not hand work to it on its own (CUS-24).
    pub disable_model_invocation: bool,
    /// Whether users cannot choose it (CUS-24).
    pub disable_user_invocation: bool,
}

/// Gathers the agents of one location.
pub(crate) fn gather(gathering: &mut Gathering<'_>, location: &Location) {
    let files = if location.look == PathKind::File {
        vec![Listed {
            path: location.path.clone(),
            real: gathering.root.real(&location.path),
            folders: Vec::new(),
            name: last_name(&location.path),
        }]
    } else if is_directory(location, &mut gathering.notes) {
        listing::files(gathering, &location.path, 0, |name| {
            ends_with(name, ".md") && !is_readme(name)
        })
    } else {
        return;
    };
    for file in files {
        read(gathering, file);
    }
}

fn read(gathering: &mut Gathering<'_>, file: Listed) {
    if !gathering.is_new(Kind::Agent, &file.real) {
        return;
    }
    let Some(markdown) = gathering.markdown(&file.path) else {
        return;
    };
    let fields = markdown.fields.as_ref();
    let shown = label(&file.path);
    let fallback = stem(&file.name, ENDINGS).unwrap_or(&file.name);
    let name = gathering.name(fields, "name", fallback, &shown);
    let description = fields.and_then(|fields| fields.paragraph("description"));
    note_missing(gathering, &markdown, description.is_none(), &shown, "agent");
    let found = NewChild {
        name,
        description,
        range: None,
        icons: Vec::new(),
        component: Component::Agent(Agent::from_fields(fields)),
        path: file.path,
    };
    gathering.add_file(found, &file.real);
}

impl Agent {
    fn from_fields(fields: Option<&Frontmatter>) -> Self {
        let flag = |key: &str| fields.and_then(|fields| fields.flag(key));
        let list = |key: &str| fields.and_then(|fields| fields.list(key)).unwrap_or_default();
        // `infer` is older and wins over the field for models. `false` disabled both, so it also disables the choice of
        // users, unless the newer field says otherwise.
        let inferred = flag("infer");
        let has_user_invocable = fields.is_some_and(|fields| fields.flag("user-invocable").is_some());
        let tools = list("tools");
        Self {
            model: fields
                .and_then(|fields| fields.first("model"))
                .filter(|model| model != "inherit"),
            tools: if tools.iter().any(|tool| tool == "*") {
                Vec::new()
            } else {
                tools
            },
            disallowed_tools: list("disallowedTools"),
            disable_model_invocation: match inferred {
                Some(inferred) => !inferred,
                None => flag("disable-model-invocation") == Some(true),
            },
            disable_user_invocation: is_hidden_from_users(fields) || (inferred == Some(false) && !has_user_invocable),
        }
    }
}
