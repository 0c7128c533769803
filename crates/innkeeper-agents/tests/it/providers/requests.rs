//! Requests: what each API requires and what it rejects.

use innkeeper_agents::model::api::{
    AssistantPart, Document, Effort, Image, ModelMessage, ModelRequest, Reasoning, ToolOutcome, ToolSpec, ToolUse,
    UserPart,
};
use innkeeper_agents::model::client::{ModelClient, TokenField};
use innkeeper_host::agent::Secret;
use innkeeper_testkit::model_server::{Api, ConversationPart, ModelServer, ReceivedRequest, Reply, Script};
use serde_json::{Value, json};

use crate::providers::support::{AnswerContent, ask, client, drain, endpoint};

/// A received request.
async fn arrives(api: Api, request: &ModelRequest) -> ReceivedRequest {
    let server = ModelServer::start([Reply::words("Yes.")]).await;
    client(api, &server).stream(request, None).await.expect("an answer");
    server.requests().remove(0)
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text(text.into())
}

fn call(id: &str, input: &str) -> AssistantPart {
    AssistantPart::Call(ToolUse {
        id: id.into(),
        name: "read".into(),
        input: input.into(),
    })
}

fn user(words: &str) -> ModelMessage {
    ModelMessage::User(vec![UserPart::Text(words.into())])
}

fn outcome(id: &str, words: &str) -> ToolOutcome {
    ToolOutcome {
        call: id.into(),
        text: words.into(),
        ..ToolOutcome::default()
    }
}

fn image() -> Image {
    Image {
        media_type: "image/png".into(),
        base64: "AAAA".into(),
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "A tool.".into(),
        input_schema: json!({"type": "object"}),
    }
}

#[tokio::test]
async fn images_and_failures_reach_the_model() {
    let mut request = ask("Look.");
    request.messages = vec![
        ModelMessage::User(vec![UserPart::Text("Look.".into()), UserPart::Image(image())]),
        ModelMessage::Assistant(vec![call("c1", "{}"), call("c2", "{}")]),
        ModelMessage::ToolResults(vec![
            ToolOutcome {
                images: vec![image()],
                ..outcome("c1", "an image")
            },
            ToolOutcome {
                is_error: true,
                ..outcome("c2", "")
            },
        ]),
    ];
    let image = || ConversationPart::Image("image/png".into());
    for api in Api::ALL {
        let asked = arrives(api, &request).await;
        let said = asked.said();
        assert_eq!(said[..2], [ConversationPart::User("Look.".into()), image()], "{api:?}");
        match api {
            Api::Chat => assert_eq!(said.last(), Some(&image())),
            Api::Responses => assert_eq!(
                asked.body.pointer("/input/3/output/1/type"),
                Some(&json!("input_image"))
            ),
            Api::Messages => {
                assert_eq!(
                    asked.body.pointer("/messages/2/content/0/content/1/type"),
                    Some(&json!("image"))
                );
                assert_eq!(asked.body.pointer("/messages/2/content/1/is_error"), Some(&json!(true)));
            }
        }
        let failed = said.iter().any(
            |said| matches!(said, ConversationPart::Result { call, text } if call == "c2" && text == "It failed."),
        );
        assert!(failed, "{api:?}: {said:?}");
    }
}

#[tokio::test]
async fn documents_are_sent_or_replaced_by_a_note() {
    let document = Document {
        name: "menu.pdf".into(),
        base64: "JVBERi0xLjc=".into(),
    };
    let mut request = ask("");
    let parts = vec![
        UserPart::Document(document),
        UserPart::Text("What is for lunch?".into()),
    ];
    request.messages = vec![ModelMessage::User(parts)];
    let messages = arrives(Api::Messages, &request).await;
    let block = json!({
        "type": "document", "title": "menu.pdf",
        "source": { "type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc=" },
    });
    assert_eq!(messages.body.pointer("/messages/0/content/0"), Some(&block));
    let responses = arrives(Api::Responses, &request).await;
    let file = json!({
        "type": "input_file", "filename": "menu.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc=",
    });
    assert_eq!(responses.body.pointer("/input/0/content/0"), Some(&file));
    let chat = arrives(Api::Chat, &request).await;
    let told = chat.body["messages"][0]["content"].as_str().expect("words").to_owned();
    assert!(
        told.contains("menu.pdf, a PDF document, which you cannot look into"),
        "{told}"
    );
    assert!(told.ends_with("What is for lunch?"), "{told}");
}

#[tokio::test]
async fn content_that_providers_reject_is_not_sent() {
    let mut request = ask("");
    request.system = vec!["  ".into()];
    request.messages = vec![
        user(" \n"),
        user("Hello."),
        ModelMessage::Assistant(vec![
            AssistantPart::Reasoning(Reasoning {
                text: "of another model".into(),
                proof: Some(json!({"maker": "messages elsewhere.example other", "value": {"type": "thinking"}})),
            }),
            AssistantPart::Reasoning(Reasoning {
                text: "without proof".into(),
                proof: None,
            }),
            text(""),
            call("c1", "{\"path\": "),
            call("c2", ""),
        ]),
        ModelMessage::ToolResults(vec![outcome("c1", "")]),
        ModelMessage::ToolResults(vec![outcome("c2", "ok")]),
        user("And?"),
        ModelMessage::Assistant(vec![text(" ")]),
        user("Well?"),
    ];
    for api in Api::ALL {
        let asked = arrives(api, &request).await;
        let read = |id: &str, input: Value| ConversationPart::Call {
            id: id.into(),
            name: "read".into(),
            input,
        };
        let result = |call: &str, text: &str| ConversationPart::Result {
            call: call.into(),
            text: text.into(),
        };
        let expected = [
            ConversationPart::User("Hello.".into()),
            read("c1", json!({"malformed_input": "{\"path\": "})),
            read("c2", json!({})),
            result("c1", ""),
            result("c2", "ok"),
            ConversationPart::User("And?".into()),
            ConversationPart::User("Well?".into()),
        ];
        if api == Api::Chat {
            // Roles alternate.
            assert_eq!(asked.said()[..5], expected[..5]);
            assert_eq!(asked.said()[5..], [ConversationPart::User("And?\n\nWell?".into())]);
        } else {
            assert_eq!(asked.said(), expected, "{api:?}");
        }
        assert_eq!(asked.system(), "");
        assert!(!asked.body.to_string().contains("another model"));
        if api == Api::Messages {
            // All results precede the user's text.
            let roles: Vec<&Value> = asked.body["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|message| &message["role"])
                .collect();
            assert_eq!(roles[..3], ["user", "assistant", "user"]);
            let kinds = asked.body.pointer("/messages/2/content").unwrap().as_array().unwrap();
            let kinds: Vec<&Value> = kinds.iter().map(|block| &block["type"]).collect();
            assert_eq!(kinds[..3], ["tool_result", "tool_result", "text"]);
        }
    }
}

#[tokio::test]
async fn reasoning_is_sent_back_only_to_its_origin() {
    for api in Api::ALL {
        let server = ModelServer::start(Script::by(|_| Reply::new().reasoning("Hm.").call("read", json!({})))).await;
        let client = client(api, &server);
        let mut request = ask("Go.");
        let parts = AnswerContent::of(&drain(client.stream(&request, None).await.unwrap()).await.0).parts;
        request.messages.push(ModelMessage::Assistant(parts));
        request
            .messages
            .push(ModelMessage::ToolResults(vec![outcome("call_0_0", "ok")]));
        client.stream(&request, None).await.unwrap();
        request.model = "another".into();
        client.stream(&request, None).await.unwrap();
        let [_, same, other] = server.requests().try_into().unwrap();
        assert!(
            same.said().contains(&ConversationPart::Thought("Hm.".into())),
            "{api:?}"
        );
        assert!(
            !other.said().contains(&ConversationPart::Thought("Hm.".into())),
            "{api:?}"
        );
        match api {
            Api::Chat => {}
            Api::Responses => assert_eq!(
                same.body.pointer("/input/1/encrypted_content"),
                Some(&json!("sealed 0.0"))
            ),
            Api::Messages => {
                assert_eq!(
                    same.body.pointer("/messages/1/content/0/signature"),
                    Some(&json!("signed 0.0"))
                );
            }
        }
    }
}

#[tokio::test]
async fn chat_merges_adjacent_messages_of_one_role() {
    let mut request = ask("");
    request.messages = vec![
        user("One."),
        user("Two."),
        ModelMessage::User(vec![UserPart::Image(image()), UserPart::Text("Three.".into())]),
        ModelMessage::Assistant(vec![text("I see.")]),
        ModelMessage::Assistant(vec![text("I look."), call("c1", "{}")]),
        ModelMessage::ToolResults(vec![ToolOutcome {
            images: vec![image()],
            ..outcome("c1", "an image")
        }]),
        user("Well?"),
    ];
    let asked = arrives(Api::Chat, &request).await;
    let messages = asked.body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    assert_eq!(messages[0].pointer("/content/0/text"), Some(&json!("One.\n\nTwo.")));
    assert_eq!(messages[0].pointer("/content/1/type"), Some(&json!("image_url")));
    assert_eq!(messages[1]["content"], "I see.\n\nI look.");
    assert_eq!(messages[1]["tool_calls"][0]["id"], "c1");
    assert_eq!(messages[3].pointer("/content/2/text"), Some(&json!("Well?")));
}

#[tokio::test]
async fn encrypted_reasoning_is_sent_back_only_with_the_same_key() {
    let script = Script::by(|_| Reply::new().reasoning("Hm.").call("read", json!({})));
    let server = ModelServer::start(script).await;
    let client = client(Api::Responses, &server);
    let [ada, bob] = ["key-of-ada", "key-of-bob"].map(Secret::new);
    let mut request = ask("Go.");
    let parts = AnswerContent::of(&drain(client.stream(&request, Some(&ada)).await.unwrap()).await.0).parts;
    request.messages.push(ModelMessage::Assistant(parts));
    let results = vec![outcome("call_0_0", "ok")];
    request.messages.push(ModelMessage::ToolResults(results));
    client.stream(&request, Some(&ada)).await.unwrap();
    client.stream(&request, Some(&bob)).await.unwrap();
    let [_, same, other] = server.requests().try_into().unwrap();
    assert!(same.said().contains(&ConversationPart::Thought("Hm.".into())));
    assert!(!other.said().contains(&ConversationPart::Thought("Hm.".into())));
}

#[tokio::test]
async fn rejected_encrypted_reasoning_is_not_sent_again() {
    let script = Script::by(
        |asked| match asked.said().contains(&ConversationPart::Thought("Hm.".into())) {
            true => Reply::new().refuse(
                400,
                "invalid_encrypted_content",
                "The encrypted content could not be verified",
            ),
            false => Reply::new().reasoning("Hm.").call("read", json!({})),
        },
    );
    let server = ModelServer::start(script).await;
    let client = client(Api::Responses, &server);
    let mut request = ask("Go.");
    let parts = AnswerContent::of(&drain(client.stream(&request, None).await.unwrap()).await.0).parts;
    request.messages.push(ModelMessage::Assistant(parts));
    let results = vec![outcome("call_0_0", "ok")];
    request.messages.push(ModelMessage::ToolResults(results));
    client.stream(&request, None).await.expect("an answer without it");
}

#[tokio::test]
async fn call_ids_are_shortened_for_servers_that_require_it() {
    let script = Script::by(|asked| {
        let ids = asked.said().into_iter().filter_map(|said| match said {
            ConversationPart::Call { id, .. } | ConversationPart::Result { call: id, .. } => Some(id),
            _ => None,
        });
        let ids: Vec<String> = ids.collect();
        let is_short = |id: &String| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match ids.iter().all(is_short) && ids[0] == ids[2] && ids[1] == "a1b2c3d4e" && ids[1] == ids[3] {
            true => Reply::words("Yes."),
            false => Reply::new().refuse(
                400,
                "invalid_request_error",
                "Tool call id was call-12-3 but must be a-z, A-Z, 0-9, with a length of 9.",
            ),
        }
    });
    let server = ModelServer::start(script).await;
    let mut request = ask("Go.");
    let calls = vec![call("call-12-3", "{}"), call("a1b2c3d4e", "{}")];
    request.messages.push(ModelMessage::Assistant(calls));
    let results = vec![outcome("call-12-3", "ok"), outcome("a1b2c3d4e", "ok")];
    request.messages.push(ModelMessage::ToolResults(results));
    let client = client(Api::Chat, &server);
    client.stream(&request, None).await.expect("short ids");
    client.stream(&request, None).await.expect("it is remembered");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn trailing_reasoning_is_not_sent() {
    for api in [Api::Responses, Api::Messages] {
        let server = ModelServer::start(Script::by(|_| Reply::new().reasoning("Hm."))).await;
        let client = client(api, &server);
        let mut request = ask("Go.");
        let parts = AnswerContent::of(&drain(client.stream(&request, None).await.unwrap()).await.0).parts;
        assert_eq!(parts.len(), 1, "only thinking");
        request.messages.push(ModelMessage::Assistant(parts));
        request.messages.push(user("Well?"));
        client.stream(&request, None).await.unwrap();
        let said = server.requests()[1].said();
        assert_eq!(
            said,
            [
                ConversationPart::User("Go.".into()),
                ConversationPart::User("Well?".into())
            ],
            "{api:?}"
        );
    }
}

#[tokio::test]
async fn responses_are_not_stored_by_the_provider() {
    let mut request = ask("Go.");
    request.effort = Some(Effort::High);
    request.max_output_tokens = Some(500);
    let body = arrives(Api::Responses, &request).await.body;
    assert_eq!(body["store"], json!(false));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["reasoning"], json!({"effort": "high", "summary": "auto"}));
    assert_eq!(body["max_output_tokens"], json!(500));
}

#[tokio::test]
async fn messages_set_cache_breakpoints() {
    let mut request = ask("First.");
    request.system = vec!["a".into(), "b".into()];
    request.tools = vec![tool("read"), tool("list")];
    for turn in 0..5 {
        request.messages.push(ModelMessage::Assistant(vec![text("Hm.")]));
        request.messages.push(user(&format!("Turn {turn}.")));
    }
    let body = arrives(Api::Messages, &request).await.body;
    let marked = |pointer: &str| body.pointer(pointer).unwrap().get("cache_control").is_some();
    assert!(marked("/system/1") && marked("/tools/1"));
    assert!(marked("/messages/10/content/0") && marked("/messages/8/content/0"));
    assert_eq!(
        body.to_string().matches("cache_control").count(),
        4,
        "the API takes no more"
    );
}

#[tokio::test]
async fn messages_enable_thinking_within_a_budget_and_only_if_allowed() {
    let mut request = ask("Go.");
    let body = arrives(Api::Messages, &request).await.body;
    assert_eq!(body.get("thinking"), None);
    assert_eq!(body["max_tokens"], json!(32_000), "the API wants a bound");
    request.effort = Some(Effort::Medium);
    let body = arrives(Api::Messages, &request).await.body;
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 8192}));
    request.max_output_tokens = Some(4000);
    let body = arrives(Api::Messages, &request).await.body;
    assert_eq!(body["thinking"]["budget_tokens"], json!(4000 - 2048));
    request.max_output_tokens = Some(2500);
    assert_eq!(arrives(Api::Messages, &request).await.body.get("thinking"), None);

    // Within a turn whose reasoning is missing, thinking stays disabled.
    request.max_output_tokens = None;
    request.messages.push(ModelMessage::Assistant(vec![call("c1", "{}")]));
    request
        .messages
        .push(ModelMessage::ToolResults(vec![outcome("c1", "ok")]));
    assert_eq!(arrives(Api::Messages, &request).await.body.get("thinking"), None);
    // The next turn may enable thinking again.
    request.messages.push(ModelMessage::Assistant(vec![text("Done.")]));
    request.messages.push(user("Next."));
    assert!(arrives(Api::Messages, &request).await.body.get("thinking").is_some());
}

#[tokio::test]
async fn chat_uses_the_token_limit_field_of_the_server() {
    let mut request = ask("Go.");
    request.max_output_tokens = Some(500);
    request.effort = Some(Effort::Low);
    let server = ModelServer::start(Script::by(|_| Reply::words("Yes."))).await;
    for (field, name) in [
        (None, "max_tokens"),
        (Some(TokenField::MaxTokens), "max_tokens"),
        (Some(TokenField::MaxCompletionTokens), "max_completion_tokens"),
    ] {
        let mut endpoint = endpoint(Api::Chat, &server);
        endpoint.token_field = field;
        ModelClient::new(endpoint)
            .unwrap()
            .stream(&request, None)
            .await
            .unwrap();
        let body = server.requests().pop().unwrap().body;
        assert_eq!(body[name], json!(500));
        assert_eq!(body["reasoning_effort"], json!("low"));
        assert_eq!(body["stream_options"], json!({"include_usage": true}));
    }
}

/// A server that rejects requests with a certain field.
async fn picky(field: &'static str, sentence: &'static str) -> ModelServer {
    ModelServer::start(Script::by(move |asked| {
        let has = asked.body.pointer(field).is_some();
        if has {
            Reply::new().refuse(400, "invalid_request_error", sentence)
        } else {
            Reply::words("Yes.")
        }
    }))
    .await
}

#[tokio::test]
async fn rejected_parameters_are_changed_and_remembered() {
    let rows = [
        (
            Api::Chat,
            "/max_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "/max_completion_tokens",
        ),
        (
            Api::Chat,
            "/stream_options",
            "Unrecognized request argument supplied: stream_options",
            "/max_tokens",
        ),
        (
            Api::Chat,
            "/reasoning_effort",
            "Unknown parameter: 'reasoning_effort'",
            "/max_tokens",
        ),
        (
            Api::Responses,
            "/include",
            "Encrypted content is not supported with this model.",
            "/reasoning",
        ),
        (
            Api::Responses,
            "/reasoning/summary",
            "Your organization must be verified to generate reasoning summaries.",
            "/reasoning/effort",
        ),
        (
            Api::Responses,
            "/reasoning",
            "Unsupported parameter: 'reasoning.effort'",
            "/include",
        ),
        (
            Api::Messages,
            "/thinking/budget_tokens",
            "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\".",
            "/output_config/effort",
        ),
        (
            Api::Messages,
            "/thinking",
            "thinking is not supported by this model",
            "/max_tokens",
        ),
    ];
    for (api, field, sentence, instead) in rows {
        let server = picky(field, sentence).await;
        let client = client(api, &server);
        let mut request = ask("Go.");
        request.max_output_tokens = Some(9000);
        request.effort = Some(Effort::High);
        client.stream(&request, None).await.unwrap();
        let last = server.requests().pop().unwrap().body;
        assert!(last.pointer(instead).is_some(), "{field}: {last}");
        let so_far = server.requests().len();
        client.stream(&request, None).await.unwrap();
        assert_eq!(server.requests().len(), so_far + 1, "{field} is remembered");
    }
}

#[tokio::test]
async fn a_token_limit_that_is_too_high_is_lowered() {
    let server = ModelServer::start(Script::by(|asked| {
        if asked.body["max_tokens"].as_u64() > Some(8192) {
            let sentence =
                "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for scripted";
            return Reply::new().refuse(400, "invalid_request_error", sentence);
        }
        Reply::words("Yes.")
    }))
    .await;
    client(Api::Messages, &server).stream(&ask("Go."), None).await.unwrap();
    assert_eq!(server.requests().pop().unwrap().body["max_tokens"], json!(8192));
}

#[tokio::test]
async fn an_unknown_rejection_is_final() {
    let server = ModelServer::start(Script::by(|_| {
        Reply::new().refuse(400, "invalid_request_error", "max_tokens is odd")
    }))
    .await;
    let mut request = ask("Go.");
    request.max_output_tokens = Some(5);
    client(Api::Chat, &server).stream(&request, None).await.unwrap_err();
    assert_eq!(server.requests().len(), 2, "once with either name, and no more");
}
