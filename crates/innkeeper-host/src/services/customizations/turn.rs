//! The customizations that a turn may use.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::time::Instant;

use super::expand::{PathVariables, expand, expand_places, names_plugin_root};
use super::hook::Hooks;
use super::set::{About, CustomAgent, CustomizationSet, Original, PromptFile, Rule, Skill};
use crate::agent::{AgentError, Attachment};
use crate::services::mcp::{Mcp, ServerDeclaration};

/// The enabled customizations of a session, as they were when the turn started.
#[derive(Debug, Clone, Default)]
pub struct TurnCustomizations {
    pub(super) set: Arc<CustomizationSet>,
    pub(super) off: Arc<BTreeSet<String>>,
    pub(super) is_known: bool,
    /// The deadline for the next report, if one is expected.
    pub(super) wait_until: Option<Instant>,
    pub(super) mcp: Mcp,
}

/// A skill or prompt that users call with a `/` and its name.
#[derive(Debug, Clone, Copy)]
pub enum Callable<'a> {
    /// A skill or a command.
    Skill(&'a Skill),
    /// A prompt file.
    Prompt(&'a PromptFile),
}

impl<'a> Callable<'a> {
    /// The fields of every customization.
    pub fn about(self) -> &'a About {
        match self {
            Self::Skill(skill) => &skill.about,
            Self::Prompt(prompt) => &prompt.about,
        }
    }

    /// Usage of its arguments.
    pub fn argument_hint(self) -> Option<&'a str> {
        match self {
            Self::Skill(skill) => skill.argument_hint.as_deref(),
            Self::Prompt(prompt) => prompt.argument_hint.as_deref(),
        }
    }

    fn is_for_users(self) -> bool {
        match self {
            Self::Skill(skill) => skill.for_users,
            Self::Prompt(_) => true,
        }
    }
}

/// A skill or a prompt that a message called by name, with its expanded text. The message itself stays as the user
/// wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Called {
    /// The skill or prompt.
    pub about: About,
    /// The name in the message.
    pub name: String,
    /// The text after the name.
    pub arguments: String,
    /// Its text with the arguments.
    pub text: String,
    /// The directory with the other files of a skill.
    pub directory: Option<PathBuf>,
    /// The directory of its plugin, if its text refers to it, so that tools may read it.
    pub plugin_root: Option<PathBuf>,
    /// The custom agent that a prompt asks for, by name.
    pub agent: Option<String>,
    /// The model that a prompt asks for.
    pub model: Option<String>,
    /// The tools that a prompt is restricted to; empty for all.
    pub tools: Vec<String>,
    /// Content of an MCP server's prompt that is not text, such as images.
    pub attachments: Vec<Attachment>,
}

/// The expanded text of a customization.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expanded {
    /// The text.
    pub text: String,
    /// The directory of its plugin, if the text refers to it, so that tools may read it.
    pub plugin_root: Option<PathBuf>,
}

impl TurnCustomizations {
    /// The enabled part of a set, for tests of agents. In a host, agents get it with
    /// [`TurnInput::customizations`](crate::TurnInput::customizations).
    pub fn new(set: Arc<CustomizationSet>, off: Arc<BTreeSet<String>>) -> Self {
        Self {
            set,
            off,
            is_known: true,
            wait_until: None,
            mcp: Mcp::default(),
        }
    }

    /// The MCP servers of the session.
    pub fn mcp(&self) -> &Mcp {
        &self.mcp
    }

    /// Whether the host discovers customizations and has a report. Otherwise an agent may look for files itself.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Names of plugins that their clients have not handed over yet.
    pub fn awaited(&self) -> &[String] {
        &self.set.awaited
    }

    /// The names of all MCP servers that the host knows of, also of those that are off: an agent that finds the same files
    /// leaves them to the host.
    pub fn server_names(&self) -> Vec<String> {
        let names = self.set.mcp_servers.iter();
        names.map(|server| server.about.name.clone()).collect()
    }

    /// The declarations of MCP servers, with their enablement. A duplicate of an enabled server is left out.
    pub(crate) fn declared_servers(&self) -> impl Iterator<Item = (&Arc<ServerDeclaration>, bool)> {
        let is_off = |about: &About| self.off.contains(&about.id) || self.off.contains(&about.container);
        let declared = self.set.mcp_servers.iter();
        declared.filter_map(move |declared| match is_off(&declared.about) {
            true => Some((declared, false)),
            false => self.is_on(&declared.about).then_some((declared, true)),
        })
    }

    fn is_on(&self, about: &About) -> bool {
        let is_on = |id: &str, container: &str| !self.off.contains(id) && !self.off.contains(container);
        let is_there_already = |original: &Original| is_on(&original.id, &original.container);
        is_on(&about.id, &about.container) && !about.original.as_ref().is_some_and(is_there_already)
    }

    /// The hooks, with the disabled ids.
    pub(crate) fn hooks(&self) -> (&dyn Hooks, &BTreeSet<String>) {
        (&*self.set.hooks, &self.off)
    }

    /// Skills and commands, in the order in which names win.
    pub fn skills(&self) -> impl Iterator<Item = &Skill> {
        self.set.skills.iter().filter(|skill| self.is_on(&skill.about))
    }

    /// Prompt files.
    pub fn prompts(&self) -> impl Iterator<Item = &PromptFile> {
        self.set.prompts.iter().filter(|prompt| self.is_on(&prompt.about))
    }

    /// Custom agents.
    pub fn agents(&self) -> impl Iterator<Item = &CustomAgent> {
        self.set.agents.iter().filter(|agent| self.is_on(&agent.about))
    }

    /// Rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.set.rules.iter().filter(|rule| self.is_on(&rule.about))
    }

    /// The agent that a message chose by its URI (`AgentSelection.uri`).
    ///
    /// # Errors
    ///
    /// If there is none, if it is disabled, or if it is not for users. If it may be in a plugin that a client has not
    /// handed over yet, the error is resumable.
    pub fn agent(&self, uri: &str) -> Result<&CustomAgent, AgentError> {
        let failed = |problem| Err(AgentError::failed("noAgent", problem));
        let mut here = self.set.agents.iter().filter(|agent| agent.about.uri == uri);
        // Two directories may lead to the same file, and only one of them is enabled.
        let found = here
            .clone()
            .find(|agent| self.is_on(&agent.about))
            .or_else(|| here.next());
        match found {
            Some(agent) if !self.is_on(&agent.about) => failed(format!(
                "The agent {} ({uri}) is switched off. Switch it on, or choose another one.",
                agent.about.name
            )),
            Some(agent) if !agent.for_users && !agent.for_models => failed(format!(
                "The agent {} ({uri}) cannot be used at all: its file forbids calls by users and by models. Remove \
                 `user-invocable: false` or `disable-model-invocation: true` from it to use it.",
                agent.about.name
            )),
            Some(agent) if !agent.for_users => failed(format!(
                "The agent {} ({uri}) cannot be chosen by users; only models may delegate to it.",
                agent.about.name
            )),
            Some(agent) => Ok(agent),
            None if !self.set.awaited.is_empty() => Err(AgentError::resumable(
                "agentLoading",
                format!(
                    "The agent {uri} is not known yet: its client has not handed over all of {}. Nothing was done. \
                     Resume the turn in a moment, or choose another agent.",
                    self.set.awaited.join(", ")
                ),
            )),
            None => failed(format!(
                "The agent {uri} no longer exists. Its file may have been moved or deleted: choose another one."
            )),
        }
    }

    /// Everything that users can call, each under the shortest name that calls it: the plain name or the full one. A
    /// customization without such a name is left out. `taken` are names with another meaning.
    pub fn callable(&self, taken: &[&str]) -> Vec<(String, Callable<'_>)> {
        let everything = self.called_by_users(|about| self.is_on(about));
        named(everything, |callable| callable.about(), taken)
    }

    /// The skills that a model may use on its own, each under an unambiguous name.
    pub fn skills_for_models(&self) -> Vec<(String, &Skill)> {
        let skills = self.skills().filter(|skill| skill.for_models);
        named(skills.collect(), |skill| &skill.about, &[])
    }

    /// The agents that a model may delegate to, each under an unambiguous name.
    pub fn agents_for_models(&self) -> Vec<(String, &CustomAgent)> {
        let agents = self.agents().filter(|agent| agent.for_models);
        named(agents.collect(), |agent| &agent.about, &[])
    }

    fn called_by_users(&self, counts: impl Fn(&About) -> bool) -> Vec<Callable<'_>> {
        let skills = self.set.skills.iter().map(Callable::Skill);
        let all = skills.chain(self.set.prompts.iter().map(Callable::Prompt));
        all.filter(|callable| callable.is_for_users() && counts(callable.about()))
            .collect()
    }

    /// Expands a message that begins with `/` and the name of a skill or a prompt. Returns `None` for any other
    /// message, also if the name is `taken` by the agent.
    ///
    /// # Errors
    ///
    /// A sentence, if the skill or prompt is disabled, is not for users, or cannot be read.
    pub async fn call(&self, text: &str, taken: &[&str], directories: &[String]) -> Result<Option<Called>, String> {
        let Some(line) = text.trim().strip_prefix('/') else {
            return Ok(None);
        };
        let on = self.called_by_users(|about| self.is_on(about));
        let Some((name, callable)) = find_called(&on, line, taken) else {
            return self.refuse_call(line, taken).map_or(Ok(None), Err);
        };
        let about = callable.about();
        let body = self.text(about).await?;
        let arguments = line.get(name.len()..).unwrap_or_default().trim().to_owned();
        let mut called = Called {
            about: about.clone(),
            name: name.to_owned(),
            text: String::new(),
            directory: None,
            plugin_root: None,
            agent: None,
            model: None,
            tools: Vec::new(),
            attachments: Vec::new(),
            arguments,
        };
        match callable {
            Callable::Skill(skill) => called.directory.clone_from(&skill.directory),
            Callable::Prompt(prompt) => {
                called.agent.clone_from(&prompt.agent);
                called.model.clone_from(&prompt.model);
                called.tools.clone_from(&prompt.tools);
            }
        }
        let (arguments, directory) = (Some(called.arguments.as_str()), called.directory.as_deref());
        let expanded = expand_text(&body, arguments, about, directory, directories);
        let expanded = expanded.map_err(|problem| format!("/{name}: {problem}"))?;
        (called.text, called.plugin_root) = (expanded.text, expanded.plugin_root);
        Ok(Some(called))
    }

    /// Returns why a message cannot call the skill or prompt that it names: it is disabled, or its file hides it from
    /// users. Returns `None` for an ordinary message.
    fn refuse_call(&self, line: &str, taken: &[&str]) -> Option<String> {
        let off = self.called_by_users(|about| !self.is_on(about));
        if let Some((name, _)) = find_called(&off, line, taken) {
            return Some(format!(
                "/{name} is switched off in this session. Switch it on to use it, or say what you want in your own \
                 words."
            ));
        }
        let closed = self.set.skills.iter().filter(|skill| !skill.for_users);
        let closed: Vec<Callable<'_>> = closed.map(Callable::Skill).collect();
        let (name, callable) = find_called(&closed, line, taken)?;
        let uri = &callable.about().uri;
        let is_for_models = matches!(callable, Callable::Skill(skill) if skill.for_models);
        Some(match is_for_models {
            true => format!(
                "/{name} cannot be called: its file ({uri}) says `user-invocable: false`, so only the agent uses it, \
                 by itself. Say in your own words what you want done."
            ),
            false => format!(
                "/{name} cannot be used at all: its file ({uri}) forbids calls by users and by the agent. Remove \
                 `user-invocable: false` or `disable-model-invocation: true` from it to use it."
            ),
        })
    }

    /// Returns the expanded text of a skill.
    ///
    /// # Errors
    ///
    /// A sentence, if its file does not exist or cannot be read.
    pub async fn skill_text(&self, skill: &Skill, arguments: &str, directories: &[String]) -> Result<Expanded, String> {
        let body = self.text(&skill.about).await?;
        let directory = skill.directory.as_deref();
        expand_text(&body, Some(arguments), &skill.about, directory, directories)
    }

    /// Returns the expanded instructions of a custom agent. They take no arguments, but may refer to paths.
    ///
    /// # Errors
    ///
    /// A sentence, if its file does not exist or cannot be read.
    pub async fn agent_text(&self, agent: &CustomAgent, directories: &[String]) -> Result<Expanded, String> {
        let body = self.text(&agent.about).await?;
        expand_text(&body, None, &agent.about, None, directories)
    }

    /// Returns the text of a customization without its frontmatter.
    ///
    /// # Errors
    ///
    /// A sentence, if its file does not exist or cannot be read.
    pub async fn text(&self, about: &About) -> Result<String, String> {
        self.set.texts.read(about).await
    }
}

/// Expands a text of a customization. Without `arguments`, only paths are expanded. `directory` is that of a skill.
fn expand_text(
    body: &str,
    arguments: Option<&str>,
    about: &About,
    directory: Option<&Path>,
    working_directories: &[String],
) -> Result<Expanded, String> {
    let workspace = working_directories.first().and_then(|uri| path_of(uri));
    let variables = PathVariables {
        workspace: workspace.as_deref(),
        directory,
        plugin: about.plugin_root.as_deref(),
    };
    let text = match arguments {
        Some(arguments) => expand(body, arguments, &variables)?,
        None => expand_places(body, &variables)?,
    };
    let plugin_root = variables.plugin.filter(|_| names_plugin_root(body));
    Ok(Expanded {
        text,
        plugin_root: plugin_root.map(Path::to_owned),
    })
}

/// Pairs items with the names that call them.
fn named<'a, T: Copy>(everything: Vec<T>, about: impl Fn(T) -> &'a About, taken: &[&str]) -> Vec<(String, T)> {
    let names = Names::of(everything.iter().map(|thing| about(*thing)), taken);
    let everything = everything.into_iter().enumerate();
    everything
        .filter_map(|(index, thing)| Some((names.of_index(index, about(thing))?, thing)))
        .collect()
}

/// The path of a `file:` URI.
fn path_of(uri: &str) -> Option<PathBuf> {
    let url = url::Url::parse(uri).ok()?;
    url.to_file_path().ok()
}

/// Finds an item by name: by its full name, or else the first one with that plain name.
pub fn by_name<'a, T>(
    items: impl Iterator<Item = &'a T> + Clone,
    about: fn(&T) -> &About,
    name: &str,
) -> Option<&'a T> {
    let exact = items.clone().find(|item| about(item).full_name() == name);
    exact.or_else(|| items.clone().find(|item| about(item).name == name))
}

/// Returns the item that a line after the `/` calls, and the name in the line.
fn find_called<'a, 'b>(everything: &[Callable<'a>], line: &'b str, taken: &[&str]) -> Option<(&'b str, Callable<'a>)> {
    let names = Names::of(everything.iter().map(|callable| callable.about()), taken);
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    if let Some(callable) = names.index_of(word).and_then(|index| everything.get(index)) {
        return Some((word, *callable));
    }
    // Names may contain spaces.
    let starts = |name: &str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let spaced = names.0.iter().filter(|(name, _)| name.contains(char::is_whitespace));
    let (name, index) = spaced
        .filter(|(name, _)| starts(name))
        .max_by_key(|(name, _)| name.len())?;
    Some((line.get(..name.len())?, *everything.get(*index)?))
}

/// The items that names call, by index.
struct Names(HashMap<String, usize>);

impl Names {
    fn of<'a>(everything: impl Iterator<Item = &'a About> + Clone, taken: &[&str]) -> Self {
        let mut names = HashMap::new();
        let full = everything.clone().map(About::full_name);
        let plain = everything.map(|about| about.name.clone());
        for (index, name) in full.enumerate().chain(plain.enumerate()) {
            if !taken.contains(&name.as_str()) {
                names.entry(name).or_insert(index);
            }
        }
        Self(names)
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }

    fn of_index(&self, index: usize, about: &About) -> Option<String> {
        let mut names = [about.name.clone(), about.full_name()].into_iter();
        names.find(|name| self.index_of(name) == Some(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::customizations::Texts;

    struct Named;

    #[async_trait::async_trait]
    impl Texts for Named {
        async fn read(&self, about: &About) -> Result<String, String> {
            Ok(format!("{} says $ARGUMENTS", about.id))
        }
    }

    fn about(id: &str, plugin: Option<&str>, name: &str) -> About {
        About {
            id: id.to_owned(),
            plugin: plugin.map(str::to_owned),
            name: name.to_owned(),
            uri: format!("file:///{id}"),
            ..About::default()
        }
    }

    fn skill(id: &str, plugin: Option<&str>, name: &str) -> Skill {
        Skill {
            about: about(id, plugin, name),
            for_users: true,
            ..Skill::default()
        }
    }

    fn customizations(off: &[&str]) -> TurnCustomizations {
        let set = CustomizationSet {
            skills: vec![
                skill("a", Some("set"), "review"),
                skill("b", None, "review"),
                skill("c", Some("box"), "review"),
                skill("d", None, "tidy up"),
                skill("e", None, "git:commit"),
                skill("f", Some("git"), "commit"),
            ],
            agents: vec![
                CustomAgent {
                    about: about("g", None, "judge"),
                    for_users: true,
                    ..CustomAgent::default()
                },
                CustomAgent {
                    about: About {
                        id: "h".to_owned(),
                        ..about("g", None, "judge")
                    },
                    for_users: true,
                    ..CustomAgent::default()
                },
            ],
            texts: Arc::new(Named),
            ..CustomizationSet::default()
        };
        let off = off.iter().map(|id| (*id).to_owned()).collect();
        TurnCustomizations::new(Arc::new(set), Arc::new(off))
    }

    async fn said(given: &TurnCustomizations, text: &str) -> Result<Option<String>, String> {
        let called = given.call(text, &["stop"], &[]).await?;
        Ok(called.map(|called| called.text))
    }

    #[tokio::test]
    async fn a_full_name_is_exact_and_a_plain_one_names_the_winner() {
        let given = customizations(&[]);
        for (text, expected) in [
            ("/set:review x", "a says x"),
            ("  /review x\n", "b says x"),
            ("/box:review", "c says "),
            ("/tidy up the house", "d says the house"),
            ("/git:commit", "e says "),
            ("/commit", "f says "),
        ] {
            assert_eq!(said(&given, text).await, Ok(Some(expected.to_owned())), "{text}");
        }
        for plain in ["/stop", "/tidy", "/", "review", "/ review", "/reviewer"] {
            assert_eq!(said(&given, plain).await, Ok(None), "{plain}");
        }
    }

    #[tokio::test]
    async fn cus11_a_disabled_name_is_reported_unless_another_entry_has_it() {
        let given = customizations(&["b"]);
        assert_eq!(said(&given, "/review x").await, Ok(Some("a says x".to_owned())));
        let given = customizations(&["a", "b", "c"]);
        let problem = said(&given, "/review x").await.expect_err("switched off");
        assert!(problem.contains("/review is switched off"), "{problem}");
        assert_eq!(given.callable(&[]).len(), 3);
    }

    #[tokio::test]
    async fn cus24_a_non_invocable_command_is_rejected_and_not_sent_as_text() {
        let gated = |id: &str, for_models: bool| Skill {
            for_models,
            for_users: false,
            ..skill(id, None, id)
        };
        let set = CustomizationSet {
            skills: vec![
                gated("deploy", true),
                gated("archive", false),
                skill("open", None, "open"),
                Skill {
                    for_users: false,
                    ..skill("closed", Some("set"), "open")
                },
            ],
            texts: Arc::new(Named),
            ..CustomizationSet::default()
        };
        let given = TurnCustomizations::new(Arc::new(set), Arc::default());
        let problem = said(&given, "/deploy now").await.expect_err("for the agent alone");
        assert!(problem.contains("/deploy cannot be called"), "{problem}");
        assert!(problem.contains("only the agent uses it"), "{problem}");
        let problem = said(&given, "/archive").await.expect_err("callable by neither");
        assert!(problem.contains("cannot be used at all"), "{problem}");
        assert!(problem.contains("users and by the agent"), "{problem}");
        let problem = said(&given, "/set:open").await.expect_err("named exactly");
        assert!(problem.contains("/set:open"), "{problem}");
        assert_eq!(said(&given, "/open x").await, Ok(Some("open says x".to_owned())));
        assert_eq!(said(&given, "/deployment").await, Ok(None), "an ordinary message");
    }

    #[test]
    fn cus02_an_agent_is_chosen_by_its_file_through_whichever_directory_is_on() {
        assert_eq!(customizations(&["g"]).agent("file:///g").expect("on").about.id, "h");
        let problem = customizations(&["g", "h"]).agent("file:///g").expect_err("off");
        let problem = problem.into_failure().message;
        assert!(problem.contains("switched off"), "{problem}");
    }

    #[test]
    fn cus24_an_agent_that_is_not_user_invocable_is_an_error() {
        let closed = |for_models: bool| {
            let agent = CustomAgent {
                about: about("a", None, "a"),
                for_models,
                for_users: false,
                ..CustomAgent::default()
            };
            let set = CustomizationSet {
                agents: vec![agent],
                ..CustomizationSet::default()
            };
            let given = TurnCustomizations::new(Arc::new(set), Arc::default());
            given.agent("file:///a").expect_err("closed").into_failure().message
        };
        assert!(closed(true).contains("only models may delegate to it"));
        assert!(closed(false).contains("cannot be used at all"));
    }

    #[test]
    fn cus22_an_agent_of_a_loading_plugin_can_be_requested_again() {
        let chosen = |awaited: &[&str]| {
            let set = CustomizationSet {
                awaited: awaited.iter().map(|name| (*name).to_owned()).collect(),
                ..CustomizationSet::default()
            };
            let given = TurnCustomizations::new(Arc::new(set), Arc::default());
            given.agent("virtual://editor/p/agents/a.md").map(|_| ())
        };
        let Err(AgentError::Failed {
            kind,
            message,
            resumable,
        }) = chosen(&["tools"])
        else {
            panic!("it is not there");
        };
        assert_eq!((kind.as_str(), resumable), ("agentLoading", true), "{message}");
        assert!(
            message.contains("tools") && message.contains("Resume the turn"),
            "{message}"
        );
        let Err(AgentError::Failed { kind, resumable, .. }) = chosen(&[]) else {
            panic!("it is not there");
        };
        assert_eq!((kind.as_str(), resumable), ("noAgent", false));
    }
}
