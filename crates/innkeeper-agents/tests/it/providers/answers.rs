//! The same conversation through every API.

use innkeeper_agents::model::api::{
    AssistantPart, ModelMessage, StopReason, TokenUsage, ToolOutcome, ToolSpec, ToolUse,
};
use innkeeper_agents::model::retry::{RetryPolicy, jitter};
use innkeeper_testkit::model_server::{Api, Chunking, ConversationPart, Ending, ModelServer, Reply, transcript};
use serde_json::json;

use crate::providers::support::{AnswerContent, KEY, ask, client, drain, key};

fn a_full_reply() -> Reply {
    Reply::new()
        .reasoning("First I look. Später 😀 denke ich.")
        .text("I will read ")
        .text("two files.")
        .call("read", json!({"path": "a/ä.txt"}))
        .call("search", json!({"pattern": "x\"y", "deep": {"list": [1, 2, 3]}}))
        .usage(1000, 77, 900)
}

fn texts(answer: &AnswerContent) -> (String, String) {
    let mut thought = String::new();
    let mut said = String::new();
    for part in &answer.parts {
        match part {
            AssistantPart::Text(text) => said.push_str(text),
            AssistantPart::Reasoning(reasoning) => thought.push_str(&reasoning.text),
            AssistantPart::Call(_) => {}
        }
    }
    (thought, said)
}

fn calls(answer: &AnswerContent) -> Vec<ToolUse> {
    let calls = answer.parts.iter().filter_map(|part| match part {
        AssistantPart::Call(call) => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

#[tokio::test]
async fn every_api_yields_the_same_answer_streamed_or_not() {
    let manners: [fn(Reply) -> Reply; 7] = [
        |reply| reply,
        |reply| reply.chunked(Chunking::Whole),
        |reply| reply.chunked(Chunking::EveryByte).deltas([1, 2, 3]),
        |reply| reply.chunked(Chunking::At(vec![1, 50, 51, 300, 777])).crlf(),
        |reply| reply.interleaved().deltas([1]),
        |reply| reply.in_one_piece(),
        |reply| reply.drip(100, std::time::Duration::from_micros(50)),
    ];
    for (number, manner) in manners.iter().enumerate() {
        for api in Api::ALL {
            let server = ModelServer::start([manner(a_full_reply())]).await;
            let stream = client(api, &server)
                .stream(&ask("Read it."), Some(&key()))
                .await
                .unwrap();
            let (events, error) = drain(stream).await;
            assert_eq!(error, None);
            let answer = AnswerContent::of(&events);
            let (thought, said) = texts(&answer);
            assert_eq!(
                thought, "First I look. Später 😀 denke ich.",
                "{api:?}, manner {number}"
            );
            assert_eq!(said, "I will read two files.");
            let calls = calls(&answer);
            assert_eq!([&calls[0].name, &calls[1].name], ["read", "search"]);
            assert_eq!([&calls[0].id, &calls[1].id], ["call_0_0", "call_0_1"]);
            let input = |call: &ToolUse| serde_json::from_str::<serde_json::Value>(&call.input).unwrap();
            assert_eq!(input(&calls[0]), json!({"path": "a/ä.txt"}));
            assert_eq!(
                input(&calls[1]),
                json!({"pattern": "x\"y", "deep": {"list": [1, 2, 3]}})
            );
            assert_eq!(answer.stop, Some(StopReason::ToolCalls));
            let usage = TokenUsage {
                input: Some(1000),
                output: Some(77),
                cache_read: Some(900),
            };
            assert_eq!(answer.usage, Some(usage));
        }
    }
}

#[tokio::test]
async fn a_conversation_is_sent_back_unchanged() {
    for api in Api::ALL {
        let server = ModelServer::start([a_full_reply(), Reply::words("Done.")]).await;
        let client = client(api, &server);
        let mut request = ask("Read it.");
        request.system = vec!["You are careful.".into(), "It is Monday.".into()];
        request.tools = vec![ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }];
        let (events, _) = drain(client.stream(&request, Some(&key())).await.unwrap()).await;
        let parts = AnswerContent::of(&events).parts;
        request.messages.push(ModelMessage::Assistant(parts));
        request.messages.push(ModelMessage::ToolResults(vec![
            ToolOutcome {
                call: "call_0_0".into(),
                text: "contents".into(),
                ..ToolOutcome::default()
            },
            ToolOutcome {
                call: "call_0_1".into(),
                text: "no such thing".into(),
                is_error: true,
                ..ToolOutcome::default()
            },
        ]));
        let (events, error) = drain(client.stream(&request, Some(&key())).await.unwrap()).await;
        assert_eq!(error, None);
        assert_eq!(AnswerContent::of(&events).stop, Some(StopReason::Done));

        let asked = server.requests().pop().unwrap();
        assert_eq!(asked.model(), "scripted");
        assert_eq!(asked.system(), "You are careful.\n\nIt is Monday.");
        assert_eq!(asked.tools(), ["read"]);
        let said: Vec<ConversationPart> = asked.said();
        let expected = [
            ConversationPart::User("Read it.".into()),
            ConversationPart::Thought("First I look. Später 😀 denke ich.".into()),
            ConversationPart::Assistant("I will read two files.".into()),
            ConversationPart::Call {
                id: "call_0_0".into(),
                name: "read".into(),
                input: json!({"path": "a/ä.txt"}),
            },
            ConversationPart::Call {
                id: "call_0_1".into(),
                name: "search".into(),
                input: json!({"pattern": "x\"y", "deep": {"list": [1, 2, 3]}}),
            },
            ConversationPart::Result {
                call: "call_0_0".into(),
                text: "contents".into(),
            },
            ConversationPart::Result {
                call: "call_0_1".into(),
                text: "no such thing".into(),
            },
        ];
        assert_eq!(said, expected, "{api:?}");
        assert_eq!(asked.last_results(), ["contents", "no such thing"]);
        let shown = match api {
            Api::Messages => asked.headers["x-api-key"].clone(),
            Api::Chat | Api::Responses => asked.headers["authorization"].replace("Bearer ", ""),
        };
        assert_eq!(shown, KEY);
    }
}

#[tokio::test]
async fn every_stop_reason_is_decoded() {
    let endings = [
        (Ending::Natural, StopReason::Done),
        (Ending::Length, StopReason::Length),
        (Ending::Refused(None), StopReason::Refused(None)),
        (
            Ending::Refused(Some("Not this.".into())),
            StopReason::Refused(Some("Not this.".into())),
        ),
    ];
    for (ending, stop) in endings {
        for api in Api::ALL {
            for in_one_piece in [false, true] {
                let reply = Reply::words("So far").ending(ending.clone());
                let reply = if in_one_piece { reply.in_one_piece() } else { reply };
                let server = ModelServer::start([reply]).await;
                let stream = client(api, &server).stream(&ask("Go."), None).await.unwrap();
                let (events, error) = drain(stream).await;
                assert_eq!(error, None);
                assert_eq!(AnswerContent::of(&events).stop, Some(stop.clone()), "{api:?}");
            }
        }
    }
    let server = ModelServer::start([Reply::words("So far").ending(Ending::Paused)]).await;
    let stream = client(Api::Messages, &server).stream(&ask("Go."), None).await.unwrap();
    assert_eq!(AnswerContent::of(&drain(stream).await.0).stop, Some(StopReason::Paused));
}

#[tokio::test]
async fn a_call_without_input_gets_an_empty_object() {
    for api in Api::ALL {
        let server = ModelServer::start([Reply::new().call_with_text("now", "")]).await;
        let stream = client(api, &server).stream(&ask("When?"), None).await.unwrap();
        let answer = AnswerContent::of(&drain(stream).await.0);
        assert_eq!(calls(&answer)[0].input, "{}", "{api:?}");
    }
}

#[tokio::test]
async fn a_call_cut_off_before_its_input_gets_no_input() {
    for api in Api::ALL {
        for in_one_piece in [false, true] {
            let reply = Reply::new().call_with_text("now", "").call_with_text("run", "");
            let reply = reply.ending(Ending::Length);
            let reply = if in_one_piece { reply.in_one_piece() } else { reply };
            let server = ModelServer::start([reply]).await;
            let stream = client(api, &server).stream(&ask("When?"), None).await.unwrap();
            let answer = AnswerContent::of(&drain(stream).await.0);
            assert_eq!(answer.stop, Some(StopReason::Length));
            let inputs: Vec<String> = calls(&answer).into_iter().map(|call| call.input).collect();
            // Messages always sends an input in a JSON document.
            if !in_one_piece {
                assert_eq!(inputs, ["{}", ""], "{api:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_with_a_stop_reason_is_complete_however_the_connection_ends() {
    for api in [Api::Chat, Api::Messages] {
        let reply = Reply::words("Here.").call("read", json!({"path": "a"}));
        let events = transcript(api, &reply);
        let events = String::from_utf8(events).unwrap().matches("\n\n").count();
        let server = ModelServer::start([reply.cut_after(events - 1)]).await;
        let stream = client(api, &server).stream(&ask("Go."), None).await.unwrap();
        let (events, error) = drain(stream).await;
        assert_eq!(error, None, "{api:?}");
        let answer = AnswerContent::of(&events);
        assert_eq!(
            (answer.stop, answer.parts.len()),
            (Some(StopReason::ToolCalls), 2),
            "{api:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_can_be_read_in_another_task() {
    let server = ModelServer::start([Reply::words("Elsewhere.")]).await;
    let client = client(Api::Responses, &server);
    let task = tokio::spawn(async move {
        let (request, policy) = (ask("Go."), RetryPolicy::default());
        let stream = client
            .stream_with_retries(&request, Some(&key()), &policy, jitter, |_| {})
            .await;
        drain(stream.unwrap()).await
    });
    let (events, error) = task.await.unwrap();
    assert_eq!(error, None);
    assert_eq!(
        AnswerContent::of(&events).parts,
        [AssistantPart::Text("Elsewhere.".into())]
    );
}

#[tokio::test]
async fn models_are_listed_if_the_server_has_a_list() {
    for api in Api::ALL {
        let server = ModelServer::start([]).await;
        let client = client(api, &server);
        let ids = |models: Vec<innkeeper_agents::model::api::ModelEntry>| -> Vec<String> {
            models.into_iter().map(|model| model.id).collect()
        };
        assert_eq!(
            ids(client.models(Some(&key())).await.unwrap()),
            ["scripted", "scripted-2"]
        );
        server.list_models(None);
        assert_eq!(ids(client.models(Some(&key())).await.unwrap()), Vec::<String>::new());
    }
}
