//! Test harness for customizations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahp_types::state::{ResponsePart, Turn};
use innkeeper_agents::model::client::{Api, Endpoint};
use innkeeper_agents::model::{Key, Model, ModelAgent, ModelAgentSettings};
use innkeeper_agents::tools::{ToolSettings, standard_tools};
use innkeeper_host::customizations::{
    About, CustomAgent, CustomizationSet, CustomizationSources, Customizations, CustomizationsSink, Following,
    HookCall, HookEvent, HookOutcome, Hooks, Rule, Skill, Texts,
};
use innkeeper_host::{Access, EventSink, Host, Limits, async_trait, http};
use innkeeper_testkit::model_server::{ConversationPart, ModelServer, ReceivedRequest, Script};
use innkeeper_testkit::official::{OfficialClient, SessionUris, turn_started};
use innkeeper_testkit::raw::Address;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the same customizations for every session.
struct Shelf(Arc<CustomizationSet>);

impl Customizations for Shelf {
    fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
        let set = Arc::clone(&self.0);
        Following::new(tokio::spawn(async move { sink.report(set).await }))
    }
}

/// Reads the current content of files.
struct OnDisk;

#[async_trait]
impl Texts for OnDisk {
    async fn read(&self, about: &About) -> Result<String, String> {
        let path = about.uri.strip_prefix("file://").unwrap_or_default();
        std::fs::read_to_string(path).map_err(|_| format!("{} is not there any more", about.uri))
    }
}

/// A hook that runs before calls of one tool.
struct BeforeTool<F>(&'static str, F);

#[async_trait]
impl<F: Fn(&HookCall) -> HookOutcome + Send + Sync + 'static> Hooks for BeforeTool<F> {
    fn hear(&self, event: HookEvent, _: &BTreeSet<String>) -> bool {
        event == HookEvent::PreToolUse
    }

    async fn run(&self, call: HookCall, _: &BTreeSet<String>, _: Option<&EventSink>) -> HookOutcome {
        if call.subject == self.0 {
            self.1(&call)
        } else {
            HookOutcome::default()
        }
    }
}

/// The files of a test and their customizations. `dir` contains the working directory `work`; everything else in it
/// is outside.
pub struct AgentFixture {
    pub dir: TempDir,
    pub set: CustomizationSet,
}

impl AgentFixture {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("work")).expect("a directory");
        let set = CustomizationSet {
            texts: Arc::new(OnDisk),
            ..CustomizationSet::default()
        };
        Self { dir, set }
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Writes a file at a path relative to `dir`.
    pub fn put(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("in a directory")).expect("a directory");
        std::fs::write(&path, text).expect("written");
        path
    }

    fn about(&self, path: &str, name: &str, text: &str) -> About {
        let path = self.put(path, text);
        About {
            id: format!("id-{name}"),
            container: "shelf".to_owned(),
            uri: format!("file://{}", path.display()),
            name: name.to_owned(),
            description: Some(format!("What {name} is for.")),
            ..About::default()
        }
    }

    /// Adds a rule for files, or one that always applies if there are no globs.
    pub fn rule(mut self, name: &str, globs: &[&str], text: &str) -> Self {
        let about = self.about(&format!("work/rules/{name}.md"), name, text);
        self.set.rules.push(Rule {
            about,
            always: globs.is_empty(),
            globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
            base: Some(self.work()),
        });
        self
    }

    /// Adds a rule without globs.
    pub fn rule_on_request(self, name: &str, text: &str) -> Self {
        let mut fixture = self.rule(name, &[], text);
        if let Some(rule) = fixture.set.rules.last_mut() {
            rule.always = false;
        }
        fixture
    }

    /// Adds a skill with its own directory outside the working directory.
    pub fn skill(mut self, name: &str, text: &str) -> Self {
        let about = self.about(&format!("home/skills/{name}/SKILL.md"), name, text);
        self.set.skills.push(Skill {
            about,
            for_models: true,
            for_users: true,
            directory: Some(self.dir.path().join("home/skills").join(name)),
            ..Skill::default()
        });
        self
    }

    pub fn last_skill(mut self, change: impl FnOnce(&mut Skill)) -> Self {
        change(self.set.skills.last_mut().expect("a skill"));
        self
    }

    pub fn agent(mut self, name: &str, text: &str, change: impl FnOnce(&mut CustomAgent)) -> Self {
        let mut agent = CustomAgent {
            about: self.about(&format!("work/agents/{name}.md"), name, text),
            for_models: true,
            for_users: true,
            ..CustomAgent::default()
        };
        change(&mut agent);
        self.set.agents.push(agent);
        self
    }

    /// Adds a hook for the calls of a tool.
    pub fn hook(&mut self, tool: &'static str, outcome: impl Fn(&HookCall) -> HookOutcome + Send + Sync + 'static) {
        self.set.hooks = Arc::new(BeforeTool(tool, outcome));
    }

    pub async fn open(self, script: impl Into<Script>) -> AgentSession {
        self.open_with(script, |_| {}).await
    }

    /// Starts a host, a client and a session.
    pub async fn open_with(
        self,
        script: impl Into<Script>,
        change: impl FnOnce(&mut ModelAgentSettings),
    ) -> AgentSession {
        let server = ModelServer::start(script).await;
        let endpoint = Endpoint::new(Api::ChatCompletions, server.url().parse().expect("a URL"));
        let mut settings = ModelAgentSettings::new("scripted", "Scripted", endpoint, Key::NotNeeded);
        settings.generate_titles = false;
        settings.models = vec![Model::new("scripted"), Model::new("big-sonnet-4")];
        settings.tools = standard_tools(ToolSettings::default());
        change(&mut settings);
        let agent = ModelAgent::new(settings).expect("an agent");
        let builder = Host::builder()
            .agent(agent)
            .customizations(Shelf(Arc::new(self.set)))
            .limits(Limits::default());
        let host = builder.start().await.expect("the host starts");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let bound = listener.local_addr().expect("an address");
        let web = http::serve_tcp(host.handle(), listener, Access::new(bound));
        let address = Address {
            url: format!("ws://{bound}"),
            token: None,
        };
        let client = OfficialClient::connect(&address, "first").await;
        let work = format!("file://{}", self.dir.path().join("work").display());
        let params = json!({ "provider": "scripted", "workingDirectories": [work] });
        let uris = client.create_session_with("work", params).await;
        AgentSession {
            server,
            client,
            uris,
            dir: self.dir,
            _web: web,
            _host: host,
        }
    }
}

/// A running session.
pub struct AgentSession {
    pub server: ModelServer,
    pub client: OfficialClient,
    pub uris: SessionUris,
    pub dir: TempDir,
    _web: http::Server,
    _host: Host,
}

impl AgentSession {
    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub async fn run(&self, id: &str, text: &str) -> Turn {
        self.client.run_turn(&self.uris.chat, id, text).await
    }

    /// Runs a turn whose message has attachments or a selected agent.
    pub async fn run_with(&self, id: &str, text: &str, more: Value) -> Turn {
        let mut action = turn_started(id, text);
        for (field, value) in more.as_object().expect("fields") {
            action["message"][field] = value.clone();
        }
        self.client.dispatch(&self.uris.chat, action).await;
        self.client.turn_end(&self.uris.chat, id).await
    }

    pub fn asked(&self) -> Vec<ReceivedRequest> {
        self.server.requests()
    }

    pub fn last_asked(&self) -> ReceivedRequest {
        self.asked().pop().expect("something was asked")
    }
}

/// Returns the names and reasons of the rules that a turn lists.
pub fn rules(turn: &Turn) -> Vec<(String, String)> {
    let usage = serde_json::to_value(turn).expect("JSON");
    let rules = usage["usage"]["_meta"]["innkeeper.rules"].as_array().cloned();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rules = rules.unwrap_or_default();
    rules
        .iter()
        .map(|rule| (text(&rule["name"]), text(&rule["reason"])))
        .collect()
}

/// Returns the user messages of a request, including those of the host.
pub fn users(asked: &ReceivedRequest) -> Vec<String> {
    let said = asked.said().into_iter();
    said.filter_map(|said| match said {
        ConversationPart::User(text) => Some(text),
        _ => None,
    })
    .collect()
}

/// Returns the notices and the error of a turn as JSON.
pub fn remarks(turn: &Turn) -> String {
    let parts = turn.response_parts.iter();
    let remarks: Vec<&ResponsePart> = parts
        .filter(|part| matches!(part, ResponsePart::SystemNotification(_) | ResponsePart::Error(_)))
        .collect();
    serde_json::to_string(&remarks).expect("JSON")
}

/// Counts the occurrences of a text in a request.
pub fn count(asked: &ReceivedRequest, text: &str) -> usize {
    let said = asked.said().into_iter().map(|said| format!("{said:?}"));
    said.map(|said| said.matches(text).count()).sum::<usize>() + asked.system().matches(text).count()
}

pub fn uri_of(path: &Path) -> String {
    format!("file://{}", path.display())
}
