//! A session with many servers, on an embedded host: a few start at a time, and late ones are restarted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_host::customizations::{
    About, CustomizationSet, CustomizationSources, Customizations, CustomizationsSink, Following,
};
use innkeeper_host::mcp::{ServerDeclaration, Transport};
use innkeeper_host::{
    Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, TurnInput, async_trait, http,
};
use innkeeper_mcp::{BaseEnvironment, McpRunner, RestartPolicy, RunnerSettings};
use innkeeper_testkit::official::{OfficialClient, View};
use innkeeper_testkit::raw::Address;
use serde_json::{Value, json};

use crate::support::{eventually_within, limits, max_at_once};

const SERVERS: usize = 66;
/// Servers that need longer to start than the probe for the newest protocol revision waits.
const SLOW: usize = 4;
/// Servers whose first process never answers.
const LATE: usize = 4;
/// Time for one start. The processes of late servers are ended after it.
const START_TIME: Duration = Duration::from_secs(6);
/// Longer than all starts take on a busy machine with two cores.
const ALL_STARTS: Duration = Duration::from_secs(150);

struct Silent;

#[async_trait]
impl Agent for Silent {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("silent", "Silent", "Says nothing.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(Self))
    }
}

#[async_trait]
impl AgentChat for Silent {
    async fn run_turn(&mut self, _: TurnInput, _: EventSink) -> Result<(), AgentError> {
        Ok(())
    }
}

/// Declares servers to every session.
struct Declared(Vec<Arc<ServerDeclaration>>);

impl Customizations for Declared {
    fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
        let entries = self.0.iter().map(|declared| {
            let About { id, name, .. } = &declared.about;
            let entry = json!({
                "type": "mcpServer", "id": id, "uri": "file:///w/.mcp.json", "name": name,
                "state": { "kind": "stopped" },
            });
            Arc::new(serde_json::from_value(entry).unwrap())
        });
        let set = Arc::new(CustomizationSet {
            entries: entries.collect(),
            mcp_servers: self.0.clone(),
            ..CustomizationSet::default()
        });
        Following::new(tokio::spawn(async move {
            sink.report(set).await;
        }))
    }
}

/// The kind of the server with this number.
fn kind(number: usize) -> &'static str {
    match number {
        // First, so that they occupy room while all others wait.
        0..LATE => "busy-late-once",
        _ => "busy",
    }
}

fn declared(number: usize, directory: &Path) -> Arc<ServerDeclaration> {
    let delay = if number < SERVERS - SLOW { 20 } else { 3500 };
    let name = name_of(number);
    let env = [
        (innkeeper_testkit::misbehaving_server::KIND, kind(number).to_owned()),
        ("ODD_NAME", name.clone()),
        ("ODD_STARTS", starts_of(&name, directory)),
        ("ODD_BUSY", directory.join("busy").display().to_string()),
        ("ODD_DELAY_MS", delay.to_string()),
    ];
    let transport = Transport::Stdio {
        command: std::env::current_exe().unwrap().display().to_string(),
        args: ["--exact", "odd_server", "--nocapture"].map(str::to_owned).into(),
        env: BTreeMap::from(env.map(|(name, value)| (name.to_owned(), Some(value)))),
        env_file: None,
        cwd: None,
    };
    Arc::new(ServerDeclaration {
        about: About {
            id: name.clone(),
            name,
            ..About::default()
        },
        transport,
        is_trusted: true,
        ..ServerDeclaration::default()
    })
}

fn name_of(number: usize) -> String {
    format!("server-{number}")
}

/// The file that counts the starts of a server.
fn starts_of(name: &str, directory: &Path) -> String {
    directory.join(name).display().to_string()
}

/// The states of all servers that a client is shown.
fn states(view: &View, session: &str) -> Vec<Value> {
    let shown = view.session(session).map(|session| json!(session.customizations));
    let servers = shown.as_ref().and_then(Value::as_array);
    let states = servers.into_iter().flatten().map(|server| server["state"].clone());
    states.collect()
}

#[tokio::test]
async fn f3_all_of_66_servers_become_ready_and_late_ones_are_restarted() {
    let directory = tempfile::tempdir().unwrap();
    let servers: Vec<_> = (0..SERVERS).map(|number| declared(number, directory.path())).collect();
    let runner = McpRunner::new(RunnerSettings {
        environment: BaseEnvironment::of_process(),
        limits: innkeeper_mcp::Limits {
            start_time: START_TIME,
            ..limits()
        },
        restart: RestartPolicy {
            delay: Duration::from_millis(50),
            ..RestartPolicy::default()
        },
        ..RunnerSettings::default()
    });
    // The default limits: a user with 66 servers configures none.
    let builder = Host::builder().agent(Silent).customizations(Declared(servers));
    let host = builder.mcp_servers(runner.clone()).start().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bound = listener.local_addr().unwrap();
    let _server = http::serve_tcp(host.handle(), listener, Access::new(bound));
    let address = Address {
        url: format!("ws://{bound}"),
        token: None,
    };
    let client = OfficialClient::connect(&address, "first").await;
    let session = client.create_session("many").await.session;

    eventually_within(ALL_STARTS, || {
        let states = states(&client.view(), &session);
        let given_up = states.iter().find(|state| {
            let message = state["error"]["message"].as_str().unwrap_or_default();
            message.contains("until a user starts it")
        });
        assert_eq!(given_up, None);
        states.len() == SERVERS && states.iter().all(|state| state["kind"] == "ready")
    })
    .await;

    let starts = |name: &str| std::fs::read(starts_of(name, directory.path())).unwrap().len();
    let noted = std::fs::read_to_string(directory.path().join("busy")).unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // A process that was ended because it was late has not noted the end of its start.
    let at_once = max_at_once(&noted, |name| starts(name) == 1);
    assert!(at_once <= (2 * cores).clamp(4, 16), "{at_once}: {noted}");
    for number in 0..SERVERS {
        let starts = starts(&name_of(number));
        let expected = if number < LATE { 2..=3 } else { 1..=3 };
        assert!(expected.contains(&starts), "server {number} was started {starts} times");
    }
    runner.stop().await;
}
