//! MCP servers behind the seam, scripted by the test: sockets, clients, agents and the host are real.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ahp_types::state::Customization;
use futures_util::future::BoxFuture;
use innkeeper_host::agent::{AuthRequirement, ToolContent};
use innkeeper_host::customizations::{
    About, CustomizationSet, CustomizationSources, Customizations, CustomizationsSink, Following,
};
use innkeeper_host::mcp::{
    AppCapabilities, Arguments, CallHandler, CallOutcome, DesiredServers, McpError, McpServers, McpTool, Question,
    QuestionAnswer, Remote, ServerDeclaration, ServerSink, ServerStatus, ServerToken, SessionServers, TokenChange,
    Transport,
};
use innkeeper_host::{HostBuilder, async_trait};
use innkeeper_testkit::embedded::{SessionFixture, scripted_host};
use innkeeper_testkit::official::View;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, RwLock, watch};

mod calls;
mod side_channel;
mod surfaces;

const RESOURCE: &str = "https://mcp.example.com/";

/// Finds one plugin with one server.
struct OnePlugin;

impl Customizations for OnePlugin {
    fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
        let server = json!({
            "type": "mcpServer", "id": "inn", "uri": "file:///p/.mcp.json", "name": "inn", "state": { "kind": "stopped" },
        });
        let plugin = json!({
            "type": "plugin", "id": "p", "uri": "file:///p", "name": "p", "load": { "kind": "loaded" },
            "children": [server],
        });
        let entries: Vec<Customization> = serde_json::from_value(json!([plugin])).expect("customizations");
        let declaration = ServerDeclaration {
            about: About {
                id: "inn".to_owned(),
                container: "p".to_owned(),
                name: "inn".to_owned(),
                ..About::default()
            },
            transport: Transport::Http(Remote {
                url: RESOURCE.to_owned(),
                ..Remote::default()
            }),
            ..ServerDeclaration::default()
        };
        let set = Arc::new(CustomizationSet {
            entries: entries.into_iter().map(Arc::new).collect(),
            mcp_servers: vec![Arc::new(declaration)],
            ..CustomizationSet::default()
        });
        let reporting = tokio::spawn(async move {
            sink.report(set).await;
        });
        Following::new(reporting)
    }
}

/// Everything that happened to the servers, as the test sees it.
#[derive(Clone)]
struct Inn {
    /// The desired servers of the latest session.
    wants: watch::Sender<DesiredServers>,
    sink: Arc<Mutex<Option<ServerSink>>>,
    tokens: watch::Sender<BTreeMap<String, Option<ServerToken>>>,
    /// Held by a test for which nothing is kept yet.
    kept: Arc<RwLock<()>>,
    /// The notifications of apps.
    told: watch::Sender<Vec<(String, Value)>>,
    /// Calls that were dropped before they were done.
    given_up: Arc<Notify>,
}

impl Inn {
    fn new() -> Self {
        Self {
            wants: watch::Sender::default(),
            sink: Arc::default(),
            tokens: watch::Sender::default(),
            kept: Arc::default(),
            told: watch::Sender::default(),
            given_up: Arc::default(),
        }
    }

    /// Which start of its server is the present one; waits until there is one.
    async fn attempt(&self) -> u64 {
        let mut wants = self.wants.subscribe();
        let wants = wants.wait_for(|wants| !wants.servers.is_empty()).await.expect("alive");
        assert_eq!(wants.servers[0].declaration.about.id, "inn");
        wants.servers[0].attempt
    }

    /// Waits until nothing is to run.
    async fn is_let_go(&self) {
        let mut wants = self.wants.subscribe();
        let wants = wants.wait_for(|wants| wants.servers.is_empty()).await.expect("alive");
        drop(wants);
    }

    async fn does(&self, status: ServerStatus) {
        let attempt = self.attempt().await;
        let sink = self.sink.lock().expect("no panic").clone().expect("a session");
        assert!(sink.status("inn", attempt, status).await, "the host is there");
    }

    async fn is_ready(&self) {
        self.does(ServerStatus::Ready { apps: None }).await;
    }
}

impl McpServers for Inn {
    fn open(&self, sink: ServerSink) -> Arc<dyn SessionServers> {
        *self.sink.lock().expect("no panic") = Some(sink);
        Arc::new(self.clone())
    }

    fn set_token(&self, resource: &str, change: TokenChange) -> BoxFuture<'static, ()> {
        let token = match change {
            TokenChange::Given(token) => Some(*token),
            TokenChange::TakenBack | TokenChange::Expired => None,
        };
        self.tokens.send_modify(|tokens| {
            tokens.insert(resource.to_owned(), token);
        });
        let kept = Arc::clone(&self.kept);
        Box::pin(async move { drop(kept.read().await) })
    }
}

fn tool(name: &str) -> McpTool {
    McpTool {
        name: format!("inn__{name}"),
        server: "inn".to_owned(),
        server_name: "inn".to_owned(),
        tool: name.to_owned(),
        input_schema: json!({ "type": "object" }),
        ..McpTool::default()
    }
}

fn said(text: impl Into<String>) -> Result<CallOutcome, McpError> {
    Ok(CallOutcome {
        content: vec![ToolContent::Text(text.into())],
        ..CallOutcome::default()
    })
}

/// Notices that it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[async_trait]
impl SessionServers for Inn {
    fn want(&self, wanted: DesiredServers) {
        self.wants.send_replace(wanted);
    }

    fn tools(&self) -> Vec<McpTool> {
        let ui = json!({ "resourceUri": "ui://inn/rooms" }).as_object().cloned();
        let view = McpTool { ui, ..tool("view") };
        let app_only = McpTool {
            ui: json!({ "visibility": ["app"] }).as_object().cloned(),
            ..tool("app_only")
        };
        let mut tools: Vec<McpTool> = ["echo", "locked", "asks", "samples", "fails", "broken", "slow"]
            .into_iter()
            .map(tool)
            .collect();
        tools.extend([view, app_only]);
        tools
    }

    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Arguments,
        during: &dyn CallHandler,
    ) -> Result<CallOutcome, McpError> {
        assert_eq!(server, "inn");
        match tool {
            "locked" => {
                let requirement = AuthRequirement {
                    resource: RESOURCE.to_owned(),
                    scopes: vec!["rooms".to_owned()],
                    ..AuthRequirement::default()
                };
                if !during.sign_in(requirement).await {
                    return Err(McpError::new("no user signed in"));
                }
                // It goes on by itself with the token that the host has set by now.
                let tokens = self.tokens.borrow();
                assert!(matches!(tokens.get(RESOURCE), Some(Some(_))), "the token came first");
                said("unlocked")
            }
            "asks" => {
                let schema = json!({ "properties": { "nights": { "type": "integer" } }, "required": ["nights"] });
                let message = "How long?".to_owned();
                let answer = during.ask(Question::Form { message, schema }).await;
                said(format!("{answer:?}"))
            }
            "samples" => {
                let answer = during.ask(Question::Sampling(Map::new())).await;
                assert!(
                    matches!(answer, QuestionAnswer::Refused { code: -32601, .. }),
                    "{answer:?}"
                );
                said("no model for me")
            }
            "fails" => Ok(CallOutcome {
                is_error: true,
                ..said("no rooms left")?
            }),
            "broken" => Err(McpError::new("the MCP server ended before it answered")),
            "slow" => {
                let _dropped = Dropped(Arc::clone(&self.given_up));
                during.progress("1 of 2 rooms".to_owned()).await;
                std::future::pending().await
            }
            _ => said(arguments.to_json()),
        }
    }

    async fn app_request(
        &self,
        server: &str,
        attempt: u64,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<Value, McpError> {
        assert_eq!((server, attempt), ("inn", self.attempt().await));
        match params.get("name").and_then(Value::as_str) {
            Some("refused") => Err(McpError {
                code: Some(-32002),
                data: Some(json!({ "uri": "ui://x" })),
                ..McpError::new("no such resource")
            }),
            Some("huge") => Ok(json!({ "text": "x".repeat(20 << 20) })),
            Some("large") => Ok(json!({ "text": "x".repeat(12 << 20) })),
            _ => Ok(json!({ "method": method, "params": params })),
        }
    }

    fn app_notification(&self, _: &str, _: u64, method: &str, params: Map<String, Value>) {
        self.told
            .send_modify(|told| told.push((method.to_owned(), Value::Object(params))));
    }
}

/// A host with the inn, and an agent that calls the tool that a message names, with `{"text": …}`.
async fn fixture(inn: &Inn) -> SessionFixture {
    SessionFixture::with(host(inn)).await
}

fn host(inn: &Inn) -> HostBuilder {
    let agent = scripted_host(|turn, events| async move {
        let Some((name, text)) = turn.text.split_once(' ') else {
            let names: Vec<String> = turn.mcp().tools().into_iter().map(|tool| tool.name).collect();
            return events.text(names.join(" ")).await;
        };
        let Some(tool) = turn.mcp().tool(name) else {
            return events.text(format!("there is no {name}")).await;
        };
        let arguments = Map::from_iter([("text".to_owned(), json!(text))]);
        let result = events.mcp_tool(&tool).run(arguments).await?;
        let text = match (&result.error, result.content.first()) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(ToolContent::Text(text))) => text.clone(),
            _ => "nothing".to_owned(),
        };
        events.text(text).await
    });
    agent.customizations(OnePlugin).mcp_servers(inn.clone())
}

/// Returns the published server, as JSON.
fn shown(view: &View, session: &str) -> Value {
    let session = view.session(session).expect("mirrored");
    let list = serde_json::to_value(&session.customizations).expect("JSON");
    list[0]["children"][0].clone()
}

trait ServerFixture {
    async fn server_is(&self, kind: &str) -> Value;
}

impl ServerFixture for SessionFixture {
    /// Waits until the server is shown in a state.
    async fn server_is(&self, kind: &str) -> Value {
        let is = |view: &View| shown(view, &self.uris.session)["state"]["kind"] == kind;
        self.client.until(&format!("the server is {kind}"), is).await;
        shown(&self.client.view(), &self.uris.session)
    }
}

/// The whole of what a server that has apps may serve.
fn apps() -> ServerStatus {
    ServerStatus::Ready {
        apps: Some(AppCapabilities {
            tools: Some(true),
            resources: Some(false),
            logging: true,
            sampling: None,
        }),
    }
}
