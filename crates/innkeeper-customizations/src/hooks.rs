//! Runs the hooks of plugins and workspaces as commands.
//!
//! `matching.rs` finds the hooks of an event, `consent.rs` asks the user whether they may run, `payload.rs` writes their
//! input, `process.rs` runs them, and `outcome.rs` reads their result. `tool_names.rs` has the names and inputs of tools in
//! the formats of other agents.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use innkeeper_host::EventSink;
use innkeeper_host::customizations::{HookCall, HookEvent, HookOutcome, Hooks};
use innkeeper_plugins::{Child, CommandLine, Component, Container, Hook, HookAction, HookFile, HookOrigin};
use innkeeper_std::sync::Mutex;
use tokio::sync::Semaphore;

use self::consent::Consent;
pub(crate) use self::consent::visible;
use self::matching::{LazyMatcher, Matcher};
use self::outcome::{Answering, together};
pub use self::process::HookSettings;
use self::process::Job;
pub(crate) use self::scripts::{ScriptDigests, runs_from};
pub(crate) use self::shell_words::Words;
use crate::discovered::{Discovered, DiscoveredContainer, Origin};
use crate::trust::{Subject, TrustFile};

mod consent;
mod matching;
mod outcome;
mod payload;
mod process;
mod scripts;
mod shell_words;
mod tool_names;

#[cfg(test)]
mod tests;

/// Maximum number of hooks that run at the same time.
const AT_ONCE: usize = 8;
/// Maximum number of hooks of a session: a workspace can have any number.
const MAX_HOOKS: usize = 256;

/// The hooks of one file, with their origin.
#[derive(Debug, Clone)]
pub(crate) struct SourcedHooks {
    /// The id of their container.
    container: String,
    /// The id of their own entry.
    child: String,
    /// The plugin they belong to.
    plugin: Option<String>,
    /// The name of the file for users.
    label: String,
    origin: Origin,
    /// The directory of the plugin on this machine.
    root: Option<PathBuf>,
    file: HookFile,
}

impl SourcedHooks {
    /// The hooks of an entry of a tree. `root` is the directory of a plugin on this machine.
    fn of_entry(entry: &Container, origin: &Origin, root: Option<&Path>) -> Vec<Self> {
        let plugin = match entry {
            Container::Plugin(plugin) => Some(plugin.name.clone()),
            Container::Directory(_) | Container::McpServer(_) => None,
        };
        let files = entry.children().iter().filter_map(|child| match &child.component {
            Component::Hook(file) => Some(Self {
                container: entry.id().to_owned(),
                child: child.id.clone(),
                label: label(child, plugin.as_deref(), origin),
                plugin: plugin.clone(),
                origin: origin.clone(),
                root: root.map(Path::to_owned).filter(|_| plugin.is_some()),
                file: file.clone(),
            }),
            _ => None,
        });
        files.collect()
    }

    fn is_off(&self, off: &BTreeSet<String>) -> bool {
        off.contains(&self.child) || off.contains(&self.container)
    }

    /// Whether they are the user's own, and may answer for the user.
    fn speak_for_users(&self) -> bool {
        self.origin.is_own()
    }
}

/// The hooks of one session.
#[derive(Debug)]
pub struct CommandHooks {
    files: Vec<SourcedHooks>,
    /// One for each hook of each file, shared by hooks with the same text, and parsed on first use.
    matchers: Vec<Vec<Arc<LazyMatcher>>>,
    /// The number of hooks beyond the limit.
    surplus: usize,
    trust: Arc<TrustFile>,
    settings: Arc<HookSettings>,
    /// One question at a time: a second call waits and finds it answered.
    asking: Semaphore,
    seen: Mutex<SeenNotices>,
    /// Retains copies of clients' plugins while their hooks may run.
    _containers: Vec<DiscoveredContainer>,
}

/// Notices and questions that the user has seen.
#[derive(Debug, Default)]
struct SeenNotices {
    notices: BTreeSet<String>,
    /// The turn in which the user last left the question about a subject open.
    open: HashMap<Subject, Arc<str>>,
}

impl CommandHooks {
    /// Takes the hooks of the given files, in their order. Runs, reads and asks nothing yet.
    pub(crate) fn new(mut files: Vec<SourcedHooks>, trust: Arc<TrustFile>, settings: Arc<HookSettings>) -> Self {
        let surplus = keep_few(&mut files);
        let mut known = HashMap::<Option<String>, Arc<LazyMatcher>>::new();
        let mut shared = |hook: &Hook| {
            let new = || Arc::new(LazyMatcher::new(hook.matcher.clone()));
            Arc::clone(known.entry(hook.matcher.clone()).or_insert_with(new))
        };
        let matchers = files
            .iter()
            .map(|file| file.file.hooks.iter().map(&mut shared).collect());
        Self {
            matchers: matchers.collect(),
            surplus,
            files,
            trust,
            settings,
            asking: Semaphore::new(1),
            seen: Mutex::default(),
            _containers: Vec::new(),
        }
    }

    /// The hooks of a session.
    pub fn of(discovered: &Discovered, trust: &Arc<TrustFile>, settings: &Arc<HookSettings>) -> Self {
        let (mut files, mut parts) = (Vec::new(), Vec::new());
        for part in &discovered.containers {
            let found = SourcedHooks::of_entry(part.entry(), part.origin(), Some(&part.root()));
            if !found.is_empty() {
                files.extend(found);
                parts.push(part.clone());
            }
        }
        Self {
            _containers: parts,
            ..Self::new(files, Arc::clone(trust), Arc::clone(settings))
        }
    }

    /// Every hook with its file, unless it is disabled.
    fn hooks<'a>(
        &'a self,
        off: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = (&'a SourcedHooks, &'a Hook, &'a LazyMatcher)> {
        let files = self.files.iter().zip(&self.matchers);
        files
            .filter(|(file, _)| !file.is_off(off))
            .flat_map(|(file, matchers)| {
                let hooks = file.file.hooks.iter().zip(matchers);
                hooks.map(move |(hook, matcher)| (file, hook, &**matcher))
            })
    }

    /// Returns a notice once, however often it occurs.
    fn once(&self, notice: String) -> Option<String> {
        let mut seen = self.seen.lock();
        seen.notices.insert(notice.clone()).then_some(notice)
    }

    /// The commands of an event, in order, and notices about hooks that cannot run.
    fn chosen<'a>(&'a self, call: &HookCall, off: &'a BTreeSet<String>) -> (Vec<Chosen<'a>>, Vec<String>) {
        let (mut chosen, mut notices, mut known) = (Vec::new(), Vec::new(), HashSet::new());
        if self.surplus > 0 {
            let notice = format!(
                "{} hooks never run: a session uses {MAX_HOOKS} at most, the user's own first.",
                self.surplus
            );
            notices.extend(self.once(notice));
        }
        for (file, hook, matcher) in self.hooks(off).filter(|(_, hook, _)| matching::hears(hook, call.event)) {
            let matcher = matcher.get();
            if let Matcher::Invalid(why) = matcher {
                let event = hook.event.as_str();
                let notice = format!("A hook for {event} in {} never runs: its matcher {why}", file.label);
                notices.extend(self.once(notice));
                continue;
            }
            if !matching::wants(hook, matcher, file.file.origin, call) {
                continue;
            }
            let kind = match &hook.action {
                HookAction::Command(command) if command.here().is_some() => {
                    // The same command in two files is one hook, but only within one origin: a workspace that copies a
                    // hook of the user does not replace it (P12).
                    let CommandLine { args, cwd, env, .. } = command;
                    if known.insert((&file.origin, &file.root, command.here(), args, cwd, env)) {
                        chosen.push(Chosen { file, hook, command });
                    }
                    continue;
                }
                HookAction::Command(_) => "has no command for this system",
                HookAction::Prompt(_) => "asks a model, which this host does not do",
                HookAction::Agent(_) => "asks an agent, which this host does not do",
                HookAction::Http { .. } => "calls an address, which this host does not do",
                _ => "is of a kind that this host does not know",
            };
            let notice = format!(
                "A hook for {} in {} never runs: it {kind}.",
                hook.event.as_str(),
                file.label
            );
            notices.extend(self.once(notice));
        }
        (chosen, notices)
    }

    /// Whether the user allows the hooks of a file to run.
    async fn may_run(&self, subject: &Subject, call: &HookCall, events: Option<&EventSink>) -> Result<bool, String> {
        let of_subject = |file: &&SourcedHooks| consent::subject(file).as_ref() == Some(subject);
        let files: Vec<SourcedHooks> = self.files.iter().filter(of_subject).cloned().collect();
        // The semaphore is never closed, and a cancelled call releases it.
        let _place = self.asking.acquire().await;
        let left_open = {
            let seen = self.seen.lock();
            seen.open.get(subject) == Some(&call.turn)
        };
        let events = events.filter(|_| !left_open);
        let consent = consent::ask(&self.trust, subject, &files, events).await?;
        if consent == Consent::Open && events.is_some() {
            let mut seen = self.seen.lock();
            seen.open.insert(subject.clone(), Arc::clone(&call.turn));
        }
        Ok(consent == Consent::Given)
    }

    async fn run_one(&self, chosen: &Chosen<'_>, call: &HookCall) -> HookOutcome {
        let Chosen { file, hook, command } = *chosen;
        let project = project(call, file);
        let origin = file.file.origin;
        let root = file.root.as_deref().unwrap_or(&project);
        let at = working_directory(file, command, &project);
        let cwd = match &command.cwd {
            Some(cwd) => at.join(&*expand(cwd, root, &project)),
            None => at.to_owned(),
        };
        let chat = chat_directory(call).unwrap_or_else(|| project.clone());
        let payload = payload::payload(call, hook, origin, Directories { at, chat: &chat });
        let job = Job {
            command: command.here().unwrap_or_default().to_owned(),
            args: command.args.as_ref().map(|args| {
                let args = args.iter().map(|arg| expand(arg, root, &project).into_owned());
                args.collect()
            }),
            wants_bash: origin == HookOrigin::Copilot,
            environment: environment(file, command, &project),
            cwd,
            stdin: payload.to_string().into_bytes(),
            time: hook.timeout.unwrap_or_else(|| origin.exit_contract().timeout),
        };
        // With arguments it is a program, and no shell expands its path.
        let job = match job.args {
            Some(_) => Job {
                command: expand(&job.command, root, &project).into_owned(),
                ..job
            },
            None => job,
        };
        let end = process::run(job, &self.settings).await;
        let name = format!("for {} in {}", hook.event.as_str(), file.label);
        let answering = Answering {
            call,
            origin,
            on_failure: hook.on_failure,
            name: &name,
            speaks_for_users: file.speak_for_users(),
            chat: &chat,
        };
        answering.outcome(end)
    }
}

/// Removes hooks beyond the limit of a session, the user's own last. Returns their number.
fn keep_few(files: &mut Vec<SourcedHooks>) -> usize {
    let (mut free, mut surplus) = (MAX_HOOKS, 0);
    for own in [true, false] {
        for file in files.iter_mut().filter(|file| file.speak_for_users() == own) {
            let hooks = &mut file.file.hooks;
            let kept = hooks.len().min(free);
            surplus += hooks.len() - kept;
            free -= kept;
            hooks.truncate(kept);
        }
    }
    files.retain(|file| !file.file.hooks.is_empty());
    surplus
}

/// A command that is about to run.
struct Chosen<'a> {
    file: &'a SourcedHooks,
    hook: &'a Hook,
    command: &'a CommandLine,
}

#[async_trait]
impl Hooks for CommandHooks {
    fn hear(&self, event: HookEvent, off: &BTreeSet<String>) -> bool {
        self.hooks(off).any(|(_, hook, _)| matching::hears(hook, event))
    }

    async fn run(&self, call: HookCall, off: &BTreeSet<String>, events: Option<&EventSink>) -> HookOutcome {
        let (mut chosen, mut notices) = self.chosen(&call, off);
        let subjects: BTreeSet<Subject> = chosen
            .iter()
            .filter_map(|chosen| consent::subject(chosen.file))
            .collect();
        for subject in subjects {
            let may_run = match self.may_run(&subject, &call, events).await {
                Ok(may_run) => may_run,
                Err(why) => {
                    notices.extend(self.once(format!("The hooks of {} are not run: {why}", subject.place)));
                    false
                }
            };
            if !may_run {
                chosen.retain(|chosen| consent::subject(chosen.file).as_ref() != Some(&subject));
            }
        }
        let mut runs = Vec::new();
        for chosen in &chosen {
            runs.push(self.run_one(chosen, &call));
        }
        let outcomes: Vec<HookOutcome> = futures_util::stream::iter(runs).buffered(AT_ONCE).collect().await;
        let first = HookOutcome {
            notices,
            ..HookOutcome::default()
        };
        together(std::iter::once(first).chain(outcomes))
    }
}

/// The name of a hook file for users: its path in its plugin or workspace, else the full path.
fn label(child: &Child, plugin: Option<&str>, origin: &Origin) -> String {
    match (plugin, origin, path(&child.uri)) {
        (Some(plugin), ..) => format!("{plugin}/{}", child.path),
        (None, Origin::Workspace(workspace), Some(path)) => {
            let within = path.strip_prefix(workspace).unwrap_or(&path);
            within.to_string_lossy().into_owned()
        }
        (None, _, Some(path)) => path.to_string_lossy().into_owned(),
        (None, _, None) => child.path.clone(),
    }
}

/// The working directory of a chat's tools.
fn chat_directory(call: &HookCall) -> Option<PathBuf> {
    call.working_directories.iter().find_map(|uri| path(uri))
}

/// The project directory of a hook: the workspace that it came with and in which the user trusted it, wherever the chat
/// works (P12); else the chat's directory.
fn project(call: &HookCall, file: &SourcedHooks) -> PathBuf {
    let workspace = file.origin.workspace().map(Path::to_owned);
    workspace
        .or_else(|| chat_directory(call))
        .or_else(|| file.root.clone())
        .unwrap_or_else(std::env::temp_dir)
}

/// The directory in which a hook runs: the project. For a client's plugin the user trusted its own files: if a command
/// names one of them by its path in the plugin, it runs there, so that no file of the project with that name runs
/// instead (P12).
fn working_directory<'a>(file: &'a SourcedHooks, command: &CommandLine, project: &'a Path) -> &'a Path {
    let is_own_file = file.origin.is_of_client() && command.cwd.is_none();
    let root = file.root.as_deref().filter(|_| is_own_file);
    root.filter(|root| runs_from(root, &scripts::words(command)))
        .unwrap_or(project)
}

/// The directories of a hook that runs.
#[derive(Debug, Clone, Copy)]
struct Directories<'a> {
    /// Its working directory.
    at: &'a Path,
    /// The working directory of the tools.
    chat: &'a Path,
}

fn path(uri: &str) -> Option<PathBuf> {
    url::Url::parse(uri).ok()?.to_file_path().ok()
}

/// The variables of a hook besides those of every hook.
fn environment(file: &SourcedHooks, command: &CommandLine, project: &Path) -> BTreeMap<String, OsString> {
    let root = file.root.as_deref().unwrap_or(project);
    let declared = command.env.iter();
    let declared = declared.map(|(name, value)| (name.clone(), OsString::from(expand(value, root, project).as_ref())));
    let mut environment: BTreeMap<String, OsString> = declared.collect();
    for name in PROJECT {
        environment.insert((*name).to_owned(), project.into());
    }
    if file.origin.is_of_client() {
        // All files of its plugin count for trust (P12), so a cache that Python writes beside them would cause a
        // question.
        environment.entry(NO_BYTECODE.to_owned()).or_insert_with(|| "1".into());
    }
    if let Some(root) = &file.root {
        for name in ROOT {
            environment.insert((*name).to_owned(), root.into());
        }
    }
    environment
}

/// Keeps Python from writing caches next to its scripts.
pub(crate) const NO_BYTECODE: &str = "PYTHONDONTWRITEBYTECODE";

/// The variables that formats use for the directories of plugins and projects.
const ROOT: &[&str] = &["PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT", "CURSOR_PLUGIN_ROOT"];
const PROJECT: &[&str] = &["CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR"];

/// Expands directories, once and from left to right. A line for a shell is not expanded: the shell does it, so that a
/// directory with a strange name stays one word.
fn expand<'a>(text: &'a str, root: &Path, project: &Path) -> Cow<'a, str> {
    if !text.contains('$') {
        return Cow::Borrowed(text);
    }
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let values = ROOT
            .iter()
            .map(|name| (name, root))
            .chain(PROJECT.iter().map(|name| (name, project)));
        let found = values.into_iter().find_map(|(name, value)| {
            let braced = after
                .strip_prefix('{')
                .and_then(|after| after.strip_prefix(name)?.strip_prefix('}'));
            let bare = || {
                let ends = |rest: &&str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                after.strip_prefix(name).filter(ends)
            };
            Some((braced.or_else(bare)?, value))
        });
        match found {
            Some((after, value)) => {
                expanded.push_str(&value.to_string_lossy());
                rest = after;
            }
            None => {
                expanded.push('$');
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    Cow::Owned(expanded)
}
