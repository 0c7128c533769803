//! Builds the set of a session: the entries that clients see, and the view for agents, in the order in which names win.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_host::customizations::{
    self as host, About, CustomAgent, CustomizationSet, Original, PromptFile, Rule, Skill,
};
use innkeeper_plugins::{Child, Component, Container, SkillOrigin};

use crate::discovered::{Discovered, DiscoveredContainer, Origin};

/// How many customizations of the same name before one are remembered. All of them would have to be disabled before its
/// shadow mark is wrong.
const MAX_BEFORE: usize = 8;

impl Discovered {
    /// Returns the set of a session, without hooks and MCP servers. Asks the file system which files are the same.
    pub fn set(&self) -> CustomizationSet {
        let mut set = CustomizationSet {
            entries: self.containers.iter().map(|part| Arc::clone(part.shown())).collect(),
            ..CustomizationSet::default()
        };
        let mut shadows = Shadows::default();
        for part in self.by_precedence() {
            for child in part.entry().children() {
                add(&mut set, &mut shadows, part, child);
            }
        }
        shadows.settle_rules(&mut set.rules);
        set.texts = Arc::new(self.clone());
        set.shadows = shadows.found;
        set
    }
}

/// Adds a child to the set, if agents read it.
fn add(set: &mut CustomizationSet, shadows: &mut Shadows, part: &DiscoveredContainer, child: &Child) {
    let mut about = about(part, child);
    let path = part.root().join(part.path_of(child));
    // The copy of a client's plugin shares no file with others.
    let file = (!matches!(part.origin(), Origin::Client { .. })).then(|| path.clone());
    match &child.component {
        Component::Agent(agent) => {
            about.original = shadows.meet(Named::Agent, &about, file);
            set.agents.push(CustomAgent {
                about,
                model: agent.model.clone(),
                tools: agent.tools.clone(),
                for_models: !agent.disable_model_invocation,
                for_users: !agent.disable_user_invocation,
            });
        }
        Component::Skill(skill) => {
            about.original = shadows.meet(Named::Skill, &about, file);
            let directory = || path.parent().map(Path::to_owned);
            set.skills.push(Skill {
                about,
                argument_hint: skill.argument_hint.clone(),
                for_models: !skill.disable_model_invocation,
                for_users: !skill.disable_user_invocation,
                directory: (skill.origin == SkillOrigin::Directory).then(directory).flatten(),
            });
        }
        Component::Prompt(prompt) => {
            about.original = shadows.meet(Named::Prompt, &about, file);
            set.prompts.push(PromptFile {
                about,
                argument_hint: prompt.argument_hint.clone(),
                agent: prompt.agent.clone(),
                model: prompt.model.clone(),
                tools: prompt.tools.clone(),
            });
        }
        Component::Rule(rule) => {
            shadows.meet_file(set.rules.len(), file);
            set.rules.push(Rule {
                about,
                always: rule.always_apply == Some(true) && applies_everywhere(&rule.globs),
                globs: rule.globs.clone(),
                // A rule outside of workspaces applies to the files of all of them.
                base: part.origin().workspace().map(Path::to_owned),
            });
        }
        Component::Hook(_) | Component::McpServer(_) => {}
    }
}

/// Whether a rule that always applies ignores its patterns. Otherwise it applies to matching files only.
fn applies_everywhere(globs: &[String]) -> bool {
    let is_everything = |glob: &String| matches!(glob.trim(), "*" | "**" | "**/*" | "/**" | "**/**");
    globs.is_empty() || globs.iter().any(is_everything)
}

pub(crate) fn about(part: &DiscoveredContainer, child: &Child) -> About {
    let (plugin, plugin_root) = match part.entry() {
        Container::Plugin(plugin) => (Some(plugin.name.clone()), Some(part.root())),
        Container::Directory(_) | Container::McpServer(_) => (None, None),
    };
    About {
        id: child.id.clone(),
        container: part.entry().id().to_owned(),
        plugin,
        plugin_root,
        uri: child.uri.clone(),
        name: child.name.clone(),
        description: child.description.clone(),
        original: None,
    }
}

/// Kinds of customizations that users call by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Named {
    Agent,
    Skill,
    Prompt,
}

/// Finds customizations with the name of an earlier one, and those that are the same file.
#[derive(Debug, Default)]
struct Shadows {
    /// The customizations that a plain name means, and those that it would mean without them.
    winners: HashMap<(Named, String), Winner>,
    /// Files by real path. Only two of one name can be the same, so the file system is asked about those alone, and
    /// once about each.
    named_files: HashMap<(Named, PathBuf), Original>,
    /// The indexes of rules, by real path.
    rules: HashMap<PathBuf, Vec<usize>>,
    found: host::Shadows,
}

#[derive(Debug)]
struct Winner {
    original: Original,
    /// Its file, until it is in `named_files`.
    file: Option<PathBuf>,
    /// The ids of all customizations of its name so far, itself first.
    so_far: Vec<String>,
}

impl Shadows {
    /// Adds a named customization. Returns an earlier one that is the same file, reached through another directory.
    fn meet(&mut self, kind: Named, about: &About, file: Option<PathBuf>) -> Option<Original> {
        let Some(winner) = self.winners.get_mut(&(kind, about.name.clone())) else {
            let original = itself(about);
            let so_far = vec![about.id.clone()];
            let winner = Winner { original, file, so_far };
            self.winners.insert((kind, about.name.clone()), winner);
            return None;
        };
        self.found.insert(about.id.clone(), winner.so_far.clone());
        if winner.so_far.len() < MAX_BEFORE {
            winner.so_far.push(about.id.clone());
        }
        if let Some(real) = winner.file.take().and_then(|file| fs::canonicalize(file).ok()) {
            self.named_files.insert((kind, real), winner.original.clone());
        }
        let real = fs::canonicalize(file?).ok()?;
        match self.named_files.entry((kind, real)) {
            Entry::Occupied(known) => Some(known.get().clone()),
            Entry::Vacant(place) => {
                place.insert(itself(about));
                None
            }
        }
    }

    /// Adds a rule, whose name does not matter, by its index.
    fn meet_file(&mut self, place: usize, file: Option<PathBuf>) {
        if let Some(real) = file.and_then(|file| fs::canonicalize(file).ok()) {
            self.rules.entry(real).or_default().push(place);
        }
    }

    /// Decides which of several rules that are one file counts. The location of a file decides when it applies, so the
    /// one that applies the most counts: a symlink among rules on request does not disable AGENTS.md.
    fn settle_rules(&mut self, rules: &mut [Rule]) {
        for places in self.rules.values().filter(|places| places.len() > 1) {
            let of_all = places.iter().filter_map(|place| rules.get(*place));
            // Of rules that apply equally, the first counts.
            let Some(strongest) = of_all.min_by_key(|rule| (!rule.always, rule.globs.is_empty())) else {
                continue;
            };
            let original = itself(&strongest.about);
            for place in places {
                let Some(rule) = rules.get_mut(*place).filter(|rule| rule.about.id != original.id) else {
                    continue;
                };
                self.found.insert(rule.about.id.clone(), vec![original.id.clone()]);
                rule.about.original = Some(original.clone());
            }
        }
    }
}

fn itself(about: &About) -> Original {
    Original {
        id: about.id.clone(),
        container: about.container.clone(),
    }
}
