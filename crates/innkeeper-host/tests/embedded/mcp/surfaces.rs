//! Prompts of MCP servers that users call, and resources that they attach.

use std::time::Duration;

use innkeeper_host::Limits;
use innkeeper_host::agent::Attachment;
use innkeeper_host::mcp::{
    McpPrompt, McpPromptArgument, McpResource, PartData, PromptContent, PromptMessage, PromptMessages, ResourcePart,
};
use innkeeper_testkit::embedded::Running;
use innkeeper_testkit::official::{OfficialClient, turn_started};

use super::*;

/// The inn with a library: prompts, and something to read.
#[derive(Clone)]
struct Library(Inn);

impl McpServers for Library {
    fn open(&self, sink: ServerSink) -> Arc<dyn SessionServers> {
        self.0.open(sink);
        Arc::new(self.clone())
    }

    fn set_token(&self, resource: &str, change: TokenChange) -> BoxFuture<'static, ()> {
        self.0.set_token(resource, change)
    }
}

#[async_trait]
impl SessionServers for Library {
    fn want(&self, wanted: DesiredServers) {
        self.0.want(wanted);
    }

    fn tools(&self) -> Vec<McpTool> {
        vec![tool("links")]
    }

    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Arguments,
        during: &dyn CallHandler,
    ) -> Result<CallOutcome, McpError> {
        if tool == "links" {
            let link = |uri: &str| ToolContent::Resource {
                uri: uri.to_owned(),
                content_type: None,
                size: None,
                mention: Some(format!("A list of rooms ({uri})")),
            };
            return Ok(CallOutcome {
                content: vec![link("inn://rooms"), link("file:///etc/hosts")],
                ..CallOutcome::default()
            });
        }
        self.0.call(server, tool, arguments, during).await
    }

    async fn app_request(&self, _: &str, _: u64, _: &str, _: Map<String, Value>) -> Result<Value, McpError> {
        Err(McpError::new("this inn has no apps"))
    }

    fn app_notification(&self, _: &str, _: u64, _: &str, _: Map<String, Value>) {}

    async fn prompts(&self, server: &str) -> Vec<McpPrompt> {
        let argument = |name: &str, required| McpPromptArgument {
            name: name.to_owned(),
            description: Some(format!("The {name}.")),
            required,
        };
        let prompt = |name: &str| McpPrompt {
            server: server.to_owned(),
            server_name: "inn".to_owned(),
            prompt: name.to_owned(),
            ..McpPrompt::default()
        };
        let greet = McpPrompt {
            title: Some("Greet a guest".to_owned()),
            description: Some("Says hello.".to_owned()),
            arguments: vec![argument("who", true), argument("how", false)],
            ..prompt("greet")
        };
        let mut prompts = vec![greet];
        prompts.extend(["never", "refused", "a b", "a_b", "huge"].map(prompt));
        prompts
    }

    async fn prompt(&self, _: &str, prompt: &str, arguments: Map<String, Value>) -> Result<PromptMessages, McpError> {
        let said = |role: &str, content| PromptMessage {
            role: role.to_owned(),
            content,
        };
        let text = match prompt {
            "never" => std::future::pending().await,
            "refused" => return Err(McpError::new("the inn is closed.")),
            "huge" => "x".repeat(20 << 20),
            _ => format!("{prompt} {}", Value::Object(arguments)),
        };
        let image = PromptContent::Embedded {
            data: "AAAA".to_owned(),
            content_type: "image/png".to_owned(),
        };
        Ok(PromptMessages {
            messages: vec![
                said("user", PromptContent::Text(text)),
                said("assistant", PromptContent::Text("Welcome.".to_owned())),
                said("user", image),
            ],
        })
    }

    async fn resources(&self, server: &str) -> Vec<McpResource> {
        let resource = |uri: &str, name: &str| McpResource {
            server: server.to_owned(),
            server_name: "inn".to_owned(),
            uri: uri.to_owned(),
            name: name.to_owned(),
            ..McpResource::default()
        };
        let rooms = McpResource {
            title: Some("All rooms".to_owned()),
            content_type: Some("text/plain".to_owned()),
            size: Some(9),
            ..resource("inn://rooms", "rooms")
        };
        vec![
            rooms,
            resource("file:///etc/passwd", "guests"),
            resource("inn://never", "never"),
            resource("inn://endless", "endless"),
        ]
    }

    async fn read_resource(&self, _: &str, uri: &str) -> Result<Vec<ResourcePart>, McpError> {
        let text = match uri {
            "inn://never" => std::future::pending().await,
            "inn://endless" => "x".repeat(20 << 20),
            "file:///etc/passwd" => "the guests of the inn".to_owned(),
            _ => "two rooms".to_owned(),
        };
        Ok(vec![ResourcePart {
            content_type: None,
            data: PartData::Text(text),
        }])
    }
}

/// A host whose agent says what a message calls and what came with it, with servers that have half a second.
async fn library(inn: &Inn) -> SessionFixture {
    let agent = scripted_host(|turn, events| async move {
        let called = turn.called.as_ref().map(|called| {
            let attached = called.attachments.len();
            let text: String = called.text.chars().take(200).collect();
            format!("{} | {text} | {attached}", called.about.name)
        });
        let attached = turn.attachments.iter().map(|attachment| match attachment {
            Attachment::Text { label, text } => format!("{label}: {text}"),
            other => format!("{other:?}"),
        });
        let attached: Vec<String> = attached.collect();
        let said = called.unwrap_or_else(|| turn.text.clone());
        events.text(format!("{said} {}", attached.join(", "))).await
    });
    started(inn, agent).await
}

async fn started(inn: &Inn, builder: HostBuilder) -> SessionFixture {
    let limits = Limits {
        mcp_request_time: Duration::from_millis(500),
        look_up_time: Duration::from_secs(20),
        ..Limits::default()
    };
    let builder = builder.customizations(OnePlugin).mcp_servers(Library(inn.clone()));
    let running = Running::start(builder.limits(limits)).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("fixture").await;
    SessionFixture { running, client, uris }
}

trait SurfaceFixture {
    async fn items(&self, text: &str) -> Vec<Value>;
    async fn attachment(&self, name: &str) -> Value;
    async fn read(&self, client: &OfficialClient, uri: &Value) -> Result<Value, String>;
    async fn say_with(&self, text: &str, attachment: Value) -> String;
    async fn error(&self) -> Value;
}

impl SurfaceFixture for SessionFixture {
    async fn items(&self, text: &str) -> Vec<Value> {
        let offset = text.encode_utf16().count();
        let params = json!({ "channel": self.uris.chat, "kind": "userMessage", "text": text, "offset": offset });
        let found: Value = self.client.request("completions", params).await.expect("answered");
        found["items"].as_array().expect("items").clone()
    }

    /// Returns the completion for a resource of the inn.
    async fn attachment(&self, name: &str) -> Value {
        let item = self.items(&format!("see @{name}")).await.remove(0);
        item["attachment"].clone()
    }

    async fn read(&self, client: &OfficialClient, uri: &Value) -> Result<Value, String> {
        let params = json!({ "channel": "ahp-root://", "uri": uri });
        let read: Result<Value, _> = client.request("resourceRead", params).await;
        read.map_err(|error| error.to_string())
    }

    async fn say_with(&self, text: &str, attachment: Value) -> String {
        let mut action = turn_started("t1", text);
        action["message"]["attachments"] = json!([attachment]);
        self.client.dispatch(&self.uris.chat, action).await;
        self.words().await
    }

    /// How `t1` failed.
    async fn error(&self) -> Value {
        let last = self.end().await.pop().expect("a part");
        assert_eq!((&last["kind"], &last["resumable"]), (&json!("error"), &json!(true)));
        last["error"].clone()
    }
}

#[tokio::test]
async fn mcp12_cmp03_prompts_of_ready_servers_are_slash_commands() {
    let inn = Inn::new();
    let fixture = library(&inn).await;
    assert_eq!(fixture.items("/inn").await, Vec::<Value>::new(), "it is not ready");
    inn.is_ready().await;
    let items = fixture.items("/inn:").await;
    let labels: Vec<&str> = items
        .iter()
        .filter_map(|item| item["attachment"]["label"].as_str())
        .collect();
    let expected = [
        "/inn:greet",
        "/inn:never",
        "/inn:refused",
        "/inn:a_b",
        "/inn:a_b-2",
        "/inn:huge",
    ];
    assert_eq!(labels, expected);
    let meta = &items[0]["attachment"]["_meta"];
    assert_eq!(meta["command"], "inn:greet");
    assert_eq!(meta["usage"], "<who> [how]");
    assert_eq!(meta["description"], "Greet a guest: Says hello.");
    let who = json!({ "name": "who", "description": "The who.", "required": true });
    assert_eq!(meta["mcpPrompt"]["arguments"][0], who);
    assert_eq!(items[0]["insertText"], "/inn:greet ");
    assert_eq!(fixture.items("/gre").await.len(), 1, "the second half is enough");
    // A stopped server offers nothing, at once.
    let stop = json!({ "type": "session/mcpServerStopRequested", "id": "inn" });
    fixture.client.dispatch(&fixture.uris.session, stop).await;
    fixture.server_is("stopped").await;
    assert_eq!(fixture.items("/inn").await, Vec::<Value>::new());
}

#[tokio::test]
async fn mcp12_a_prompt_is_fetched_when_invoked_and_the_message_stays_as_typed() {
    let inn = Inn::new();
    let fixture = library(&inn).await;
    inn.is_ready().await;
    fixture.begin("/inn:greet Ada how=kindly").await;
    let words = fixture.words().await;
    assert!(
        words.starts_with(r#"inn:greet | User:"#) && words.contains(r#"greet {"how":"kindly","who":"Ada"}"#),
        "{words}"
    );
    assert!(words.contains("Assistant:\nWelcome."), "who says what is kept: {words}");
    assert!(words.contains("| 1"), "its image is attached: {words}");
    let turn = fixture.client.turn_end(&fixture.uris.chat, "t1").await;
    assert_eq!(turn.message.text, "/inn:greet Ada how=kindly");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn inp07_missing_arguments_of_a_prompt_are_asked_for() {
    let inn = Inn::new();
    let fixture = library(&inn).await;
    inn.is_ready().await;
    fixture.begin("/mcp:inn:greet").await;
    let question = fixture.question().await;
    assert_eq!(question["questions"].as_array().map(Vec::len), Some(1));
    assert_eq!(question["questions"][0]["id"], "who");
    let answer = json!({
        "type": "chat/inputCompleted", "requestId": question["id"], "response": "accept",
        "answers": { "who": { "state": "submitted", "value": { "kind": "text", "value": "Ada" } } },
    });
    fixture.client.dispatch(&fixture.uris.chat, answer).await;
    let words = fixture.words().await;
    assert!(words.contains(r#"greet {"who":"Ada"}"#), "{words}");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn inp07_a_prompt_with_missing_arguments_ends_its_turn_with_the_usage() {
    let inn = Inn::new();
    let fixture = library(&inn).await;
    inn.is_ready().await;
    fixture.begin("/inn:greet").await;
    let question = fixture.question().await;
    let answer = json!({ "type": "chat/inputCompleted", "requestId": question["id"], "response": "decline" });
    fixture.client.dispatch(&fixture.uris.chat, answer).await;
    let error = fixture.error().await;
    let message = error["message"].as_str().expect("a sentence");
    assert!(
        message.contains(r#"missing argument "who""#) && message.contains("`/inn:greet <who> [how]`"),
        "{message}"
    );
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn f17_a_failed_prompt_is_the_error_of_its_turn() {
    for (text, expected) in [
        ("/inn:never", "did not answer within"),
        ("/inn:refused", "could not be had: the inn is closed."),
        ("/inn:nonsense", r#"has no prompt "nonsense". Type `/inn:`"#),
    ] {
        let inn = Inn::new();
        let fixture = library(&inn).await;
        inn.is_ready().await;
        fixture.begin(text).await;
        let error = fixture.error().await;
        assert_eq!(error["errorType"], "mcpPrompt");
        let message = error["message"].as_str().expect("a sentence");
        assert!(message.contains(expected), "{message}");
        fixture.client.assert_converged().await;
    }
    let inn = Inn::new();
    let fixture = library(&inn).await;
    inn.does(ServerStatus::Failed(innkeeper_host::mcp::Failure::new(
        "x",
        "it crashed.",
    )))
    .await;
    fixture.server_is("error").await;
    fixture.begin("/inn:greet Ada").await;
    let error = fixture.error().await;
    let message = error["message"].as_str().expect("a sentence");
    assert!(message.contains("is not ready: it crashed. Once it is"), "{message}");
}

#[tokio::test]
async fn f17_a_huge_prompt_is_cut_and_a_waiting_one_can_be_cancelled() {
    let inn = Inn::new();
    let fixture = library(&inn).await;
    inn.is_ready().await;
    fixture.begin("/inn:huge").await;
    let words = fixture.words().await;
    assert!(words.starts_with("inn:huge | User:\nxxx"), "{words}");
    let limits = Limits::default();
    let agent = scripted_host(|_, events| async move { events.text("never said").await });
    let agent = agent.customizations(OnePlugin).mcp_servers(Library(inn.clone()));
    let running = Running::start(agent.limits(limits)).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("fixture").await;
    inn.is_ready().await;
    let fixture = SessionFixture { running, client, uris };
    fixture.begin("/inn:never").await;
    let is_asking = |view: &View| {
        let chat = view.chat(&fixture.uris.chat).expect("mirrored");
        chat.activity.as_deref() == Some("Asking inn for inn:never")
    };
    fixture.client.until("the server is asked", is_asking).await;
    fixture.cancel().await;
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn res17_a_servers_resource_is_attached_and_read_under_a_host_uri() {
    let inn = Inn::new();
    let fixture = library(&inn).await;
    inn.is_ready().await;
    let item = fixture.items("see @roo").await.remove(0);
    assert_eq!(item["insertText"], "@inn:rooms");
    assert_eq!((&item["rangeStart"], &item["rangeEnd"]), (&json!(4), &json!(8)));
    let rooms = &item["attachment"];
    assert_eq!(
        (&rooms["label"], &rooms["type"]),
        (&json!("All rooms"), &json!("resource"))
    );
    assert_eq!(rooms["uri"], rooms["_meta"]["uri"], "CMP-04");
    let uri = rooms["uri"].as_str().expect("a URI");
    assert!(uri.starts_with("mcp-resource:/") && !uri.contains("rooms"), "{uri}");
    let read = fixture.read(&fixture.client, &rooms["uri"]).await.expect("read");
    assert_eq!(
        read,
        json!({ "data": "two rooms", "encoding": "utf-8", "contentType": "text/plain" })
    );
    // A resource that looks like a file is read from the server, under the host's own name.
    let guests = fixture.attachment("guests").await;
    assert!(
        guests["uri"]
            .as_str()
            .is_some_and(|uri| uri.starts_with("mcp-resource:/"))
    );
    let read = fixture.read(&fixture.client, &guests["uri"]).await.expect("read");
    assert_eq!(read["data"], "the guests of the inn");
    assert_eq!(
        fixture.say_with("/who @inn:guests", guests).await,
        "/who @inn:guests guests: the guests of the inn"
    );
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn sec03_resources_of_an_invisible_session_cannot_be_read() {
    let inn = Inn::new();
    let fixture = library(&inn).await;
    inn.is_ready().await;
    let uri = fixture.attachment("rooms").await["uri"].clone();
    let stranger = OfficialClient::connect(&fixture.running.address, "stranger").await;
    let refused = fixture.read(&stranger, &uri).await.expect_err("not theirs");
    assert!(refused.contains("no MCP server of a session that you see"), "{refused}");
    // In another session it means nothing, even to those who see both.
    let other = stranger.create_session("other").await;
    inn.is_ready().await;
    let refused = fixture.read(&stranger, &uri).await.expect_err("of another session");
    assert!(refused.contains("no MCP server of a session that you see"), "{refused}");
    stranger.join(&fixture.uris.session).await;
    assert!(fixture.read(&stranger, &uri).await.is_ok(), "now they see it");
    drop(other);
    for made_up in ["mcp-resource:/x", "mcp-resource:/file:///etc/passwd", "MCP-Resource:"] {
        let refused = fixture
            .read(&fixture.client, &json!(made_up))
            .await
            .expect_err("made up");
        assert!(refused.contains("no MCP server of a session that you see"), "{refused}");
    }
}

#[tokio::test]
async fn f17_attachments_that_never_come_or_never_end_do_not_hold_a_turn() {
    let inn = Inn::new();
    for (name, expected) in [("never", "did not answer"), ("endless", "20971520 bytes")] {
        let fixture = library(&inn).await;
        inn.is_ready().await;
        let attachment = fixture.attachment(name).await;
        let problem = fixture.read(&fixture.client, &attachment["uri"]).await.expect_err(name);
        assert!(problem.contains(expected), "{problem}");
        let words = fixture.say_with("look", attachment).await;
        assert!(
            words.contains("(This attachment could not be read:") && words.contains(expected),
            "{words}"
        );
    }
    // One that is gone says so.
    let fixture = library(&inn).await;
    inn.is_ready().await;
    let attachment = fixture.attachment("rooms").await;
    let stop = json!({ "type": "session/mcpServerStopRequested", "id": "inn" });
    fixture.client.dispatch(&fixture.uris.session, stop).await;
    fixture.server_is("stopped").await;
    let words = fixture.say_with("look", attachment).await;
    assert!(words.contains("offers it any more; start its server"), "{words}");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn f17_a_cancel_does_not_wait_for_an_attachment_and_the_agent_goes_on() {
    let inn = Inn::new();
    let agent = scripted_host(|turn, events| async move { events.text(turn.text.clone()).await });
    // Nothing but the cancel ends it while a caller waits.
    let hour = Duration::from_secs(3600);
    let limits = Limits {
        mcp_request_time: hour,
        cancel_time: hour,
        ..Limits::default()
    };
    let agent = agent.customizations(OnePlugin).mcp_servers(Library(inn.clone()));
    let running = Running::start(agent.limits(limits)).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("fixture").await;
    let fixture = SessionFixture { running, client, uris };
    inn.is_ready().await;
    let mut action = turn_started("t1", "look");
    action["message"]["attachments"] = json!([fixture.attachment("never").await]);
    fixture.client.dispatch(&fixture.uris.chat, action).await;
    fixture.cancel().await;
    let turn = fixture.client.run_turn(&fixture.uris.chat, "t2", "go on").await;
    assert_eq!(innkeeper_testkit::official::markdown(&turn.response_parts), "go on");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn res03_a_link_in_a_result_is_served_by_the_host_or_dropped() {
    let inn = Inn::new();
    let agent = scripted_host(|turn, events| async move {
        let tool = turn.mcp().tool("inn__links").expect("the server is ready");
        events.mcp_tool(&tool).run(Map::new()).await?;
        Ok(())
    });
    let fixture = started(&inn, agent).await;
    inn.is_ready().await;
    fixture.server_is("ready").await;
    fixture.begin("look").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    let turn = fixture.client.turn_end(&fixture.uris.chat, "t1").await;
    let call = innkeeper_testkit::official::tool_calls_of(&turn).remove(0);
    let pieces = call["content"].as_array().expect("content").iter();
    let links: Vec<&Value> = pieces.filter(|piece| piece["type"] == "resource").collect();
    let [link] = links.as_slice() else {
        panic!("one of both is listed: {call}");
    };
    let read = fixture.read(&fixture.client, &link["uri"]).await.expect("it is served");
    assert_eq!(read["data"], "two rooms");
    assert!(
        call["content"]
            .to_string()
            .contains("only the server can read: file:///etc/hosts")
    );
    // Each link is one piece: a reference that clients can open, or a mention of what they cannot.
    assert_eq!(call["content"].as_array().map(Vec::len), Some(2), "{call}");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn agents_learn_why_a_server_is_not_ready_and_the_offers_of_a_ready_one() {
    let inn = Inn::new();
    let builder = scripted_host(|turn, events| async move {
        let customizations = &turn.customizations;
        for server in customizations.mcp_servers() {
            events.text(format!("{}: {}\n", server.name, server.words)).await?;
        }
        for prompt in customizations.mcp_prompts(Duration::from_secs(5)).await {
            events.text(format!("/{} {}\n", prompt.name, prompt.usage())).await?;
        }
        for resource in customizations.mcp().resources(Duration::from_secs(5)).await {
            events.text(format!("{}\n", resource.uri)).await?;
        }
        Ok(())
    });
    let fixture = started(&inn, builder).await;
    let say = async |turn: &str| {
        let turn = fixture
            .client
            .run_turn(&fixture.uris.chat, turn, "what is there?")
            .await;
        innkeeper_testkit::official::markdown(&turn.response_parts)
    };
    let requirement = AuthRequirement {
        resource: RESOURCE.to_owned(),
        resource_name: Some("The inn".to_owned()),
        ..AuthRequirement::default()
    };
    inn.does(ServerStatus::AuthRequired(Box::new(requirement))).await;
    fixture.server_is("authRequired").await;
    let words = say("t1").await;
    assert!(words.contains("inn: sign-in required (The inn)"), "{words}");
    inn.is_ready().await;
    let words = say("t2").await;
    for line in ["/inn:greet <who> [how]", "inn://rooms"] {
        assert!(words.contains(line), "{line} in {words}");
    }
    let off = json!({
        "type": "session/customizationToggled", "id": "inn", "enablement": [{ "kind": "session", "enabled": false }],
    });
    fixture.client.dispatch(&fixture.uris.session, off).await;
    fixture.server_is("stopped").await;
    let words = say("t3").await;
    assert!(words.contains("inn: it is switched off"), "{words}");
    fixture.client.assert_converged().await;
}
