//! Agents that need a token: who is asked for one, and whose they get (AUTH).

use ahp_types::commands::{ChatSource, ForkChatSource};
use ahp_types::state::ProtectedResourceMetadata;
use innkeeper_core::agent::{AuthRequirement, Contributor, Secret, ToolReply, ToolStart, ToolStep};
use innkeeper_core::request::{Authenticate, CreateChat};
use innkeeper_core::{
    AgentCommand, AgentEvent, AgentProfile, Command, ConnId, CoreConfig, Effect, Failure, Input, Reply, Seq, TurnEnd,
    TurnStart,
};
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

const API: &str = "https://api.example.com/v1";

/// An agent that cannot work without a token for [`API`].
fn keyed() -> AgentProfile {
    let metadata = json!({ "resource": API, "resource_name": "Example API", "scopes_supported": ["chat"] });
    let metadata: ProtectedResourceMetadata = serde_json::from_value(metadata).expect("metadata");
    let mut agent = able("keyed");
    agent.info.protected_resources = Some(vec![metadata]);
    agent
}

fn stage() -> Stage {
    Stage::with_agents(CoreConfig::default(), vec![keyed(), able("other")], Seq(1))
}

fn token(resource: &str, token: &str) -> Authenticate {
    Authenticate {
        resource: resource.to_owned(),
        token: Secret::new(token),
        expires_in: None,
        scopes: None,
        refresh: None,
    }
}

impl Stage {
    fn authenticate(&mut self, conn: ConnId, authenticate: Authenticate) -> Value {
        self.request(conn, Command::Authenticate(Box::new(authenticate)))
    }

    fn signs_in(&mut self, conn: ConnId, secret: &str) {
        let answer = self.authenticate(conn, token(API, secret));
        assert_eq!(answer["result"], json!({}), "{answer}");
    }

    /// A client that signed in and has a session; it listens to everything.
    fn owner(&mut self, name: &str, secret: &str) -> (ConnId, String) {
        let conn = self.client(name, &[ROOT]);
        self.signs_in(conn, secret);
        let chat = self.session(conn, SESSION);
        self.subscribe(conn, SESSION);
        self.subscribe(conn, &chat);
        self.inbox(conn);
        (conn, chat)
    }

    /// The turns that agents were handed, oldest first.
    fn started(&self) -> Vec<&TurnStart> {
        let started = self.agent.iter().filter_map(|effect| match effect {
            Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(&**start),
            _ => None,
        });
        started.collect()
    }

    /// The token that the latest turn got.
    fn used(&self) -> Option<&str> {
        let started = self.started();
        let credential = started.last()?.credentials.first()?;
        assert_eq!(credential.resource, API);
        Some(credential.token.reveal())
    }

    /// The notifications about tokens since the last call: channel and reason.
    fn asked(&mut self, conn: ConnId) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let notes = self.notifications(conn).into_iter();
        let notes = notes.filter(|note| note["method"] == "auth/required");
        notes
            .map(|note| {
                let params = &note["params"];
                assert_eq!(
                    params["resource"]["resource_name"], "Example API",
                    "full metadata (AUTH-09)"
                );
                (text(&params["channel"]), text(&params["reason"]))
            })
            .collect()
    }

    /// The error of the latest turn of a chat.
    fn error_of(&self, chat: &str) -> Value {
        let state = self.state(chat);
        let turns = state["turns"].as_array().expect("turns");
        let parts = turns.last().expect("a turn")["responseParts"]
            .as_array()
            .expect("parts");
        parts.last().expect("an error part").clone()
    }
}

fn said(channel: &str, reason: &str) -> (String, String) {
    (channel.to_owned(), reason.to_owned())
}

fn resume(turn: &str) -> Value {
    json!({ "type": "chat/turnResume", "turnId": turn })
}

/// A client that meets a refusal here shows nothing at all; an error in the chat says what to do.
#[test]
fn ses05_auth09_without_a_token_a_session_is_created_and_its_turns_fail() {
    let mut stage = stage();
    let conn = stage.client("c", &[ROOT]);
    let answer = stage.create(conn, SESSION);
    assert_eq!(answer["result"], Value::Null, "{answer}");
    assert_eq!(stage.state(SESSION)["lifecycle"], "ready");
    assert!(stage.agent.is_empty(), "no agent is opened that could not work");
    assert_eq!(stage.asked(conn), [said(ROOT, "required")], "it may have one to give");
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t1");
    let part = stage.error_of(&chat);
    assert_eq!((&part["kind"], &part["resumable"]), (&json!("error"), &json!(true)));
    assert_eq!(part["error"]["errorType"], "authRequired");
    let message = part["error"]["message"].as_str().expect("a sentence");
    assert!(
        message.contains("Example API (https://api.example.com/v1)") && message.contains("sign in"),
        "{message}"
    );
    assert!(stage.started().is_empty());

    stage.signs_in(conn, "mine");
    stage.dispatch(conn, &chat, 2, resume("t1"));
    assert_eq!(stage.last_opened().credentials[0].token.reveal(), "mine");
    assert_eq!((stage.started().len(), stage.used()), (1, Some("mine")));
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(&chat)["turns"][0]["state"], "complete");
}

#[test]
fn ses05_a_token_given_before_the_first_turn_is_used() {
    let mut stage = stage();
    let conn = stage.client("c", &[ROOT]);
    stage.create(conn, SESSION);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, &chat);
    stage.signs_in(conn, "mine");
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(stage.last_opened().credentials[0].token.reveal(), "mine");
    assert_eq!((stage.started().len(), stage.used()), (1, Some("mine")));
}

#[test]
fn ses05_further_chats_and_forks_are_created_without_a_token_too() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "mine");
    stage.turn(conn, &chat, "t1", "said");
    stage.authenticate(conn, token(API, ""));
    let opened = stage.agent.len();
    let fork = CreateChat {
        source: Some(ChatSource::Fork(ForkChatSource {
            chat: chat.clone(),
            turn_id: "t1".to_owned(),
        })),
        ..new_chat(SESSION, "ahp-chat:/fork")
    };
    for create in [new_chat(SESSION, "ahp-chat:/further"), fork] {
        let answer = stage.create_chat(conn, create);
        assert_eq!(answer["result"], Value::Null, "{answer}");
    }
    assert_eq!(stage.agent.len(), opened, "none of them is opened yet");
    stage.subscribe(conn, "ahp-chat:/fork");
    stage.start_turn(conn, "ahp-chat:/fork", "t2");
    assert_eq!(stage.error_of("ahp-chat:/fork")["error"]["errorType"], "authRequired");
    stage.signs_in(conn, "again");
    stage.dispatch(conn, "ahp-chat:/fork", 9, resume("t2"));
    let open = stage.last_opened();
    assert_eq!(open.credentials[0].token.reveal(), "again");
    assert_eq!(open.history.recent.len(), 1, "what the fork starts with");
}

#[test]
fn auth04_only_requested_tokens_are_accepted() {
    let mut stage = stage();
    let conn = stage.client("c", &[]);
    let answer = stage.authenticate(conn, token("https://elsewhere.example/", "t0ken"));
    let (code, message) = error(&answer);
    assert_eq!(code, -32602);
    assert!(message.starts_with("params.resource: "), "{message}");
    assert!(!message.contains("t0ken"), "AUTH-12");
}

#[test]
fn auth07_a_turn_uses_the_token_of_its_author_then_creator_then_members() {
    let mut stage = stage();
    let (owner, chat) = stage.owner("owner", "owners");
    let guest = stage.client("guest", &[ROOT, SESSION, &chat]);
    let member = stage.client("member", &[ROOT, SESSION, &chat]);
    let stranger = stage.client("stranger", &[ROOT, SESSION, &chat]);
    stage.signs_in(stranger, "strangers");
    stage.dispatch(member, SESSION, 1, announce("member"));
    let mut turn = 0;
    let mut runs = |stage: &mut Stage, conn: ConnId| {
        turn += 1;
        stage.turn(conn, &chat, &format!("t{turn}"), "ok");
        stage.used().expect("a token").to_owned()
    };
    assert_eq!(runs(&mut stage, guest), "owners", "the creator's");
    stage.signs_in(guest, "guests");
    assert_eq!(runs(&mut stage, guest), "guests", "one's own first");
    assert_eq!(runs(&mut stage, owner), "owners", "each their own");
    stage.authenticate(owner, token(API, ""));
    stage.signs_in(member, "members");
    assert_eq!(runs(&mut stage, owner), "members", "of one who takes part");
    stage.authenticate(member, token(API, ""));
    // The guest is signed in, listens, and does not take part; the stranger likewise.
    stage.start_turn(owner, &chat, "last");
    assert_eq!(stage.error_of(&chat)["error"]["errorType"], "authRequired");
}

#[test]
fn auth05_auth09_a_turn_after_a_revocation_fails_and_resumes_as_new() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "mine");
    let reader = stage.client("reader", &[ROOT]);
    stage.authenticate(conn, token(API, ""));
    stage.start_turn(conn, &chat, "t1");
    let part = stage.error_of(&chat);
    assert_eq!((&part["kind"], &part["resumable"]), (&json!("error"), &json!(true)));
    let message = part["error"]["message"].as_str().expect("a sentence");
    assert!(
        message.contains("Example API") && message.contains("sign in"),
        "{message}"
    );
    assert!(stage.started().is_empty(), "no agent heard of it");
    assert_eq!(stage.asked(conn), [said(SESSION, "expired")], "where it listens, once");
    assert_eq!(stage.asked(reader), [], "others' sessions are not their business");
    // Still no token: it can be tried again.
    stage.dispatch(conn, &chat, 2, resume("t1"));
    assert_eq!(stage.error_of(&chat)["resumable"], true);
    stage.signs_in(conn, "new");
    stage.dispatch(conn, &chat, 3, resume("t1"));
    let started = stage.started();
    assert_eq!(
        (started.len(), started[0].info.resume, &*started[0].info.text),
        (1, false, "hi")
    );
    assert_eq!(stage.used(), Some("new"));
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(&chat)["turns"][0]["state"], "complete");
}

#[test]
fn auth09_a_turn_started_by_an_agent_resumes_as_such() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "mine");
    stage.start_turn(conn, &chat, "t1");
    stage.says(AgentEvent::Text("half".to_owned()));
    stage.ends(TurnEnd::Failed {
        failure: Failure::new("network", "gone"),
        resumable: true,
    });
    stage.authenticate(conn, token(API, ""));
    stage.dispatch(conn, &chat, 2, resume("t1"));
    assert_eq!(stage.error_of(&chat)["error"]["errorType"], "authRequired");
    stage.signs_in(conn, "new");
    let opened = stage
        .agent
        .iter()
        .filter(|effect| matches!(effect, Effect::Agent(AgentCommand::OpenChat(_))));
    assert_eq!(opened.count(), 1);
    stage.dispatch(conn, &chat, 3, resume("t1"));
    assert!(stage.started().last().expect("resumed").info.resume);
}

#[test]
fn auth09_an_unread_message_is_in_the_history_of_the_reopened_agent() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "mine");
    stage.turn(conn, &chat, "t1", "ok");
    stage.authenticate(conn, token(API, ""));
    stage.start_turn(conn, &chat, "t2");
    stage.signs_in(conn, "new");
    stage.start_turn(conn, &chat, "t3");
    let open = stage.last_opened();
    assert_eq!(open.credentials[0].token.reveal(), "new");
    assert_eq!(open.history.recent.len(), 2, "t1 and t2");
    stage.ends(TurnEnd::Complete);
    let opened = stage.agent.len();
    stage.turn(conn, &chat, "t4", "ok");
    let again = stage.agent[opened..].iter();
    assert!(
        !again
            .into_iter()
            .any(|effect| matches!(effect, Effect::Agent(AgentCommand::OpenChat(_)))),
        "once is enough"
    );
}

#[test]
fn auth06_a_token_is_dropped_when_it_expires_and_its_client_is_told() {
    let mut stage = stage();
    let conn = stage.client("c", &[ROOT]);
    let deaf = stage.client("c", &[]);
    let other = stage.client("other", &[ROOT]);
    let expiring = |secret: &str, seconds: u64| Authenticate {
        expires_in: Some(seconds),
        ..token(API, secret)
    };
    stage.authenticate(conn, expiring("short", 60));
    stage.authenticate(other, expiring("long", 3600));
    stage.pass(59_999);
    let chat = stage.session(conn, SESSION);
    assert_eq!(stage.asked(conn), []);
    stage.pass(1);
    assert_eq!(stage.asked(conn), [said(ROOT, "expired")]);
    assert_eq!(
        (stage.asked(deaf), stage.asked(other)),
        (vec![], vec![]),
        "no other client"
    );
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(stage.error_of(&chat)["error"]["errorType"], "authRequired");
    assert_eq!(
        stage.asked(conn),
        [said(ROOT, "expired")],
        "it listens to the root alone"
    );
    // A renewal counts from when it was given, and the old deadline means nothing.
    stage.authenticate(conn, expiring("next", 60));
    stage.pass(30_000);
    stage.authenticate(conn, expiring("renewed", 60));
    stage.pass(59_999);
    assert_eq!(stage.asked(conn), []);
    stage.turn(conn, &chat, "t2", "ok");
    assert_eq!(stage.used(), Some("renewed"));
    // One without an end has none.
    stage.signs_in(conn, "endless");
    stage.pass(10_000_000);
    assert_eq!(stage.asked(conn), []);
    stage.turn(conn, &chat, "t3", "ok");
    assert_eq!(stage.used(), Some("endless"));
}

#[test]
fn auth07_tokens_stay_through_a_grace_and_go_with_it() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "mine");
    let grace = CoreConfig::default().grace_ms;
    stage.disconnect(conn);
    stage.pass(grace - 1);
    let conn = stage.client("c", &[ROOT, SESSION, &chat]);
    stage.turn(conn, &chat, "t1", "ok");
    assert_eq!(stage.used(), Some("mine"));
    stage.disconnect(conn);
    stage.pass(grace);
    let conn = stage.client("c", &[ROOT, SESSION, &chat]);
    stage.inbox(conn);
    stage.start_turn(conn, &chat, "t2");
    assert_eq!(stage.error_of(&chat)["error"]["errorType"], "authRequired");
    assert_eq!(
        stage.asked(conn),
        [said(SESSION, "required")],
        "as if it had never had one"
    );
}

#[test]
fn auth09_a_queued_message_needs_a_token_when_it_starts() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "mine");
    stage.start_turn(conn, &chat, "t1");
    for (seq, id) in [(2, "q1"), (3, "q2")] {
        let set = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message("later") });
        stage.dispatch(conn, &chat, seq, set);
    }
    stage.authenticate(conn, token(API, ""));
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.error_of(&chat)["error"]["errorType"], "authRequired");
    let queue = &stage.state(&chat)["queuedMessages"];
    assert_eq!(queue.as_array().map(Vec::len), Some(1), "E-63: the rest waits");
    assert_eq!(stage.started().len(), 1);
}

#[test]
fn auth02_an_agent_that_can_do_without_gets_a_token_where_there_is_one() {
    let mut agent = keyed();
    let resources = agent.info.protected_resources.iter_mut().flatten();
    resources.for_each(|resource| resource.required = Some(false));
    let mut stage = Stage::with_agents(CoreConfig::default(), vec![agent], Seq(1));
    let conn = stage.client("c", &[ROOT]);
    let chat = stage.session(conn, SESSION);
    stage.turn(conn, &chat, "t1", "ok");
    assert_eq!(stage.used(), None);
    stage.signs_in(conn, "mine");
    stage.turn(conn, &chat, "t2", "ok");
    assert_eq!(stage.used(), Some("mine"));
}

#[test]
fn auth09_a_token_that_was_not_accepted_is_used_no_more() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "stale");
    stage.start_turn(conn, &chat, "t1");
    let refused = |token: &str| AgentEvent::TokenRefused {
        resource: API.to_owned(),
        token: Secret::new(token),
    };
    stage.says(refused("another"));
    assert_eq!(stage.asked(conn), [], "no client has that token");
    stage.says(refused("stale"));
    assert_eq!(stage.asked(conn), [said(SESSION, "expired")]);
    stage.says(refused("stale"));
    assert_eq!(stage.asked(conn), [], "once");
    stage.ends(TurnEnd::Complete);
    stage.start_turn(conn, &chat, "t2");
    assert_eq!(stage.error_of(&chat)["error"]["errorType"], "authRequired");
}

#[test]
fn auth10_auth11_a_token_without_the_scopes_that_a_call_needs_is_refused() {
    let mut stage = stage();
    let (conn, _) = stage.owner("c", "mine");
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.start_turn(conn, &chat, "t");
    let mcp = ToolStart {
        contributor: Contributor::Mcp("mcp-1".into()),
        ..host_tool("read")
    };
    stage.call(mcp, harmless());
    let requirement = AuthRequirement {
        resource: "https://mcp.example/".into(),
        resource_name: None,
        authorization_servers: Vec::new(),
        scopes: vec!["read".into(), "list".into()],
        description: None,
        ..AuthRequirement::default()
    };
    stage.tool(CALL, ToolStep::AuthRequired(requirement));
    stage.replies();
    let with = |scopes: &[&str]| Authenticate {
        scopes: Some(scopes.iter().map(|scope| (*scope).to_owned()).collect()),
        ..token("https://mcp.example/", "t0ken")
    };
    let answer = stage.authenticate(conn, with(&["read"]));
    let (code, message) = error(&answer);
    assert_eq!(code, -32007);
    assert!(message.contains("list, read"), "{message}");
    assert_eq!(
        answer["error"]["data"]["resources"][0]["resource"],
        "https://mcp.example/"
    );
    assert!(stage.replies().is_empty());
    let answer = stage.authenticate(conn, with(&["list", "read", "write"]));
    assert_eq!(answer["result"], json!({}));
    let replies = stage.replies();
    let [
        Reply::Tool {
            reply: ToolReply::Authenticated { .. },
            ..
        },
    ] = replies.as_slice()
    else {
        panic!("{replies:?}");
    };
}

#[test]
fn root02_agents_that_describe_themselves_anew_are_told_of_once() {
    let mut stage = stage();
    let (conn, chat) = stage.owner("c", "mine");
    stage.handle(Input::AgentsChanged(vec![keyed(), able("other")]));
    assert_eq!(stage.action_types(conn), Vec::<String>::new(), "nothing changed");
    let mut renamed = keyed();
    renamed.info.description = "no key: set one up".to_owned();
    stage.handle(Input::AgentsChanged(vec![renamed.clone(), able("other")]));
    assert_eq!(stage.action_types(conn), ["root/agentsChanged"]);
    assert_eq!(stage.state(ROOT)["agents"][0]["description"], "no key: set one up");
    // An agent that no longer needs a token has none.
    renamed.info.protected_resources = None;
    stage.handle(Input::AgentsChanged(vec![renamed, able("other")]));
    stage.handle(Input::AgentsChanged(vec![keyed(), able("other")]));
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(stage.error_of(&chat)["error"]["errorType"], "authRequired");
}
