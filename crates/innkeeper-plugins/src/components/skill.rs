//! Skills: directories with a `SKILL.md` (P6), and commands (P7).

use std::path::{Path, PathBuf};

use crate::components::gather::{Gathering, Markdown, NewChild};
use crate::components::listing::{self, ends_with, is_readme, stem};
use crate::components::prompt;
use crate::formats::detect::has_manifest;
use crate::formats::locations::{Location, is_directory, last_name, resolve};
use crate::limits::{MAX_FRONTMATTER_BYTES, MAX_NAME_CHARS};
use crate::note::Code;
use crate::read::frontmatter::Frontmatter;
use crate::read::scan_root::{PathKind, ReadError, label};
use crate::read::text::{decode, printable};
use crate::read::yaml::{self, Yaml};
use crate::tree::{Component, Icon, Kind};

/// The name of the file that makes a directory a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";

/// Maximum number of directories without a `SKILL.md` that are searched for one that is too deep. The search only helps
/// users to find a mistake, so it may stop early.
const MAX_PROBES: usize = 64;

/// A skill or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The form of its file.
    pub origin: SkillOrigin,
    /// Whether the model must not use it on its own (CUS-24).
    pub disable_model_invocation: bool,
    /// Whether users cannot call it (CUS-24).
    pub disable_user_invocation: bool,
    /// The hint for its arguments.
    pub argument_hint: Option<String>,
    /// Tools that it may use without being asked.
    pub allowed_tools: Vec<String>,
    /// The model it wants.
    pub model: Option<String>,
    /// The agent it wants to run in.
    pub agent: Option<String>,
    /// Whether it runs in its own conversation.
    pub in_fork: bool,
}

/// The form of a skill's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SkillOrigin {
    /// A directory with a `SKILL.md`, and files beside it.
    Directory,
    /// A single file in a directory of commands.
    Command,
}

/// Which rules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Missing fields are guessed and noted.
    Lenient,
    /// Agent Plugins: a skill that breaks a rule is skipped.
    Strict,
}

/// The policy for skill directories that are plugins, because they have a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugins {
    /// They are skills like the others. So it is in a plugin, which cannot hold another one.
    AreSkills,
    /// They are left out and returned.
    SetAside,
}

/// Gathers the skills of one location.
pub(crate) fn gather(gathering: &mut Gathering<'_>, location: &Location, rules: Rules) {
    if location.look == PathKind::File && ends_with(&last_name(&location.path), ".md") {
        // A manifest may name the file itself.
        let directory = location.path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let fallback = last_name(&directory);
        let real = gathering.root.real(&location.path);
        return read(gathering, location.path.clone(), real, &fallback, rules);
    }
    if !is_directory(location, &mut gathering.notes) {
        return;
    }
    let real = gathering.root.real(&location.path);
    let own = location.path.join(SKILL_FILE);
    if gathering.root.look(&own) == PathKind::File {
        let fallback = last_name(&location.path);
        return read(gathering, own, real.join(SKILL_FILE), &fallback, rules);
    }
    gather_below(gathering, &location.path, &real, rules, Plugins::AreSkills);
}

/// Gathers the skills in the immediate directories of a directory. Returns those that are plugins.
pub(crate) fn gather_below(
    gathering: &mut Gathering<'_>,
    directory: &Path,
    real: &Path,
    rules: Rules,
    plugins: Plugins,
) -> Vec<PathBuf> {
    let mut aside = Vec::new();
    let entries = match gathering.root.list(directory) {
        Ok(entries) => entries,
        Err(ReadError::Missing) => return aside,
        Err(refusal) => {
            gathering.refuse(&refusal, &label(directory));
            return aside;
        }
    };
    let mut probes = 0;
    for entry in entries.into_iter().filter(|entry| entry.may_be_directory) {
        let folder = directory.join(&entry.name);
        let file = folder.join(SKILL_FILE);
        if plugins == Plugins::SetAside && has_manifest(gathering.root, &folder) {
            aside.push(folder);
            continue;
        }
        match gathering.root.look(&file) {
            PathKind::File => {
                let real = if entry.is_link {
                    gathering.root.real(&folder)
                } else {
                    real.join(&entry.name)
                };
                let fallback = entry.name.to_string_lossy().into_owned();
                read(gathering, file, real.join(SKILL_FILE), &fallback, rules);
            }
            PathKind::Missing if !entry.is_link && probes < MAX_PROBES => {
                probes += 1;
                probe(gathering, &folder);
            }
            PathKind::Missing => {}
            PathKind::Outside => gathering.refuse(&ReadError::Outside, &label(&file)),
            PathKind::Directory => gathering.refuse(&ReadError::NotAFile, &label(&file)),
            PathKind::Special => gathering.refuse(&ReadError::Special, &label(&file)),
            PathKind::Unreadable => {
                gathering.refuse(&ReadError::Unreadable("permission denied".to_owned()), &label(&file))
            }
        }
    }
    aside
}

/// Searches for files that may have been meant as a skill.
fn probe(gathering: &mut Gathering<'_>, folder: &Path) {
    let Ok(entries) = gathering.root.list(folder) else {
        return;
    };
    for entry in entries.iter().take(MAX_PROBES) {
        let path = folder.join(&entry.name);
        let name = entry.name.to_string_lossy();
        if name != SKILL_FILE && name.eq_ignore_ascii_case(SKILL_FILE) {
            gathering.notes.warn(
                Code::SkillFileCase,
                &label(&path),
                "is not read as a skill: rename it to exactly SKILL.md",
            );
        } else if entry.may_be_directory
            && !entry.is_link
            && gathering.root.look(&path.join(SKILL_FILE)) == PathKind::File
        {
            gathering.notes.info(
                Code::SkillNested,
                &label(&path.join(SKILL_FILE)),
                "is one directory too deep to be a skill: move it up",
            );
        }
    }
}

/// Reads one `SKILL.md`.
pub(crate) fn read(gathering: &mut Gathering<'_>, file: PathBuf, real: PathBuf, fallback: &str, rules: Rules) {
    if !gathering.is_new(Kind::Skill, &real) {
        return;
    }
    let shown = label(&file);
    let Some(markdown) = gathering.markdown(&file) else {
        return;
    };
    let fields = markdown.fields.as_ref();
    if rules == Rules::Strict
        && let Err(why) = check(fields, fallback)
    {
        let message = format!("is skipped, because {why}: Agent Plugins demand it");
        return gathering.notes.warn(Code::SkillSkipped, &shown, message);
    }
    let name = gathering.name(fields, "name", fallback, &shown);
    if name != fallback && fields.is_some_and(|fields| fields.line("name").is_some()) {
        gathering.notes.info(
            Code::SkillNameMismatch,
            &shown,
            "has another name than its directory, which other hosts may refuse",
        );
    }
    let description = fields.and_then(|fields| fields.paragraph("description"));
    note_missing(gathering, &markdown, description.is_none(), &shown, "skill");
    let mut skill = Skill::from_fields(fields, SkillOrigin::Directory);
    let mut icons = Vec::new();
    if let Some(folder) = file.parent() {
        read_sidecar(gathering, folder, &mut skill, &mut icons);
    }
    let found = NewChild {
        path: file,
        name,
        description,
        range: None,
        icons,
        component: Component::Skill(skill),
    };
    let real = gathering.root.through_link(&found.path).unwrap_or(real);
    gathering.add_file(found, &real);
}

/// Gathers the commands of one location: `*.md` directly inside, and with more levels their
/// directories as parts of their names. Prompt files among them are prompts.
pub(crate) fn gather_commands(gathering: &mut Gathering<'_>, location: &Location, levels: usize) {
    let files = if location.look == PathKind::File {
        vec![listing::Listed {
            path: location.path.clone(),
            real: gathering.root.real(&location.path),
            folders: Vec::new(),
            name: last_name(&location.path),
        }]
    } else if is_directory(location, &mut gathering.notes) {
        listing::files(gathering, &location.path, levels, |name| {
            ends_with(name, ".md") && !is_readme(name)
        })
    } else {
        return;
    };
    for file in files {
        if ends_with(&file.name, prompt::ENDING) {
            prompt::read(gathering, file);
            continue;
        }
        if !gathering.is_new(Kind::Skill, &file.real) {
            continue;
        }
        let Some(markdown) = gathering.markdown(&file.path) else {
            continue;
        };
        let fields = markdown.fields.as_ref();
        let mut name = file.folders;
        name.push(stem(&file.name, &[".md"]).unwrap_or(&file.name).to_owned());
        let found = NewChild {
            name: printable(&name.join(":"), MAX_NAME_CHARS),
            description: fields.and_then(|fields| fields.paragraph("description")),
            range: None,
            icons: Vec::new(),
            component: Component::Skill(Skill::from_fields(fields, SkillOrigin::Command)),
            path: file.path,
        };
        gathering.add_file(found, &file.real);
    }
}

/// Notes a head or a description that is missing but needed.
pub(crate) fn note_missing(
    gathering: &mut Gathering<'_>,
    markdown: &Markdown,
    has_no_description: bool,
    path: &str,
    what: &str,
) {
    if markdown.is_noted {
        return;
    }
    if markdown.fields.is_none() {
        gathering.notes.warn(
            Code::FrontmatterMissing,
            path,
            format!(
                "has no frontmatter between `---` lines, so no model knows when to use the {what}: add a `description`"
            ),
        );
    } else if has_no_description {
        gathering.notes.warn(
            Code::DescriptionMissing,
            path,
            format!("has no `description`, so no model knows when to use the {what}: add one"),
        );
    }
}

impl Skill {
    pub(crate) fn from_fields(fields: Option<&Frontmatter>, origin: SkillOrigin) -> Self {
        let line = |key: &str| fields.and_then(|fields| fields.line(key));
        Self {
            origin,
            disable_model_invocation: fields.and_then(|f| f.flag("disable-model-invocation")) == Some(true),
            disable_user_invocation: is_hidden_from_users(fields),
            argument_hint: line("argument-hint"),
            allowed_tools: fields.and_then(allowed_tools).unwrap_or_default(),
            model: fields
                .and_then(|fields| fields.first("model"))
                .filter(|model| model != "inherit"),
            agent: line("agent"),
            in_fork: line("context").as_deref() == Some("fork"),
        }
    }
}

/// Whether the frontmatter says that users cannot call it. The second spelling is an older one.
pub(crate) fn is_hidden_from_users(fields: Option<&Frontmatter>) -> bool {
    let flag = |key: &str| fields.and_then(|fields| fields.flag(key));
    flag("user-invocable").or_else(|| flag("user-invokable")) == Some(false)
}

/// `allowed-tools` is a list, or separated by commas, or by blanks.
fn allowed_tools(fields: &Frontmatter) -> Option<Vec<String>> {
    let tools = fields.list("allowed-tools")?;
    match tools.as_slice() {
        [one] if !one.contains('(') => Some(one.split_whitespace().map(str::to_owned).collect()),
        _ => Some(tools),
    }
}

/// The rules for skills of Agent Plugins.
fn check(fields: Option<&Frontmatter>, directory: &str) -> Result<(), &'static str> {
    let fields = fields.ok_or("it has no head between `---` lines")?;
    let name = fields.line("name").ok_or("it has no `name`")?;
    let length = name.chars().count();
    let is_word = |c: char| c.is_alphanumeric() && !c.is_uppercase();
    if !(1..=64).contains(&length)
        || !name.chars().all(|c| is_word(c) || c == '-')
        || name.starts_with('-')
        || name.ends_with('-')
        || name.contains("--")
    {
        return Err("its `name` is not of lower case letters, digits and single dashes");
    }
    if name != directory {
        return Err("its `name` is not that of its directory");
    }
    let description = fields.paragraph("description").ok_or("it has no `description`")?;
    if description.chars().count() > 1024 {
        return Err("its `description` is longer than 1024 characters");
    }
    Ok(())
}

/// Reads the file of Codex beside a skill: `agents/openai.yaml`.
fn read_sidecar(gathering: &Gathering<'_>, folder: &Path, skill: &mut Skill, icons: &mut Vec<Icon>) {
    let Ok(contents) = gathering
        .root
        .read(&folder.join("agents/openai.yaml"), MAX_FRONTMATTER_BYTES)
    else {
        return;
    };
    let (text, _) = decode(&contents.bytes, contents.is_cut_off());
    let Ok(fields) = yaml::read_mapping(&text) else { return };
    let field = |section: &str, key: &str| -> Option<String> {
        let Some((_, Yaml::Map(section))) = fields.fields.iter().find(|(name, _)| name == section) else {
            return None;
        };
        match section.iter().find(|(name, _)| name == key) {
            Some((_, Yaml::Plain(text) | Yaml::Text(text))) => Some(text.trim().to_owned()),
            _ => None,
        }
    };
    if field("policy", "allow_implicit_invocation").is_some_and(|flag| flag.eq_ignore_ascii_case("false")) {
        skill.disable_model_invocation = true;
    }
    for key in ["icon_small", "icon_large"] {
        let path = field("interface", key).and_then(|path| resolve(&path));
        if let Some(path) = path.map(|path| folder.join(path))
            && gathering.root.look(&path) == PathKind::File
        {
            icons.push(Icon::new(gathering.base.file(&path)));
        }
    }
}
