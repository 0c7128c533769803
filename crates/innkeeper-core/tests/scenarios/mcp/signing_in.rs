//! Servers that need users to sign in (MCP-07 to MCP-11, AUTH).

use innkeeper_core::AgentEvent;
use innkeeper_core::agent::{AuthReason, AuthRequirement, Contributor, Reply, Secret, ToolReply, ToolStart, ToolStep};
use innkeeper_core::mcp::{ServerToken, TokenChange};
use innkeeper_core::request::Authenticate;

use super::*;
use crate::harness::working_agent::{harmless, host_tool};

pub const RESOURCE: &str = "https://mcp.example.com/";
pub const TOKEN: &str = "secret-token";

pub fn sign_in(scopes: &[&str]) -> ServerStatus {
    ServerStatus::AuthRequired(Box::new(requirement(scopes)))
}

fn requirement(scopes: &[&str]) -> AuthRequirement {
    AuthRequirement {
        reason: AuthReason::InsufficientScope,
        resource: RESOURCE.to_owned(),
        authorization_servers: vec!["https://login.example.com".to_owned()],
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        oauth_client_id: Some("registered".to_owned()),
        metadata: Some(json!({ "resource": "https://other.example", "scopes_supported": ["read", "write"] })),
        ..AuthRequirement::default()
    }
}

impl Stage {
    pub fn signs_in_to(&mut self, conn: ConnId, resource: &str, token: &str, scopes: Option<&[&str]>) -> Value {
        self.signs_in_for(conn, resource, token, scopes, None)
    }

    pub fn signs_in_for(
        &mut self,
        conn: ConnId,
        resource: &str,
        token: &str,
        scopes: Option<&[&str]>,
        expires_in: Option<u64>,
    ) -> Value {
        let authenticate = Authenticate {
            resource: resource.to_owned(),
            token: Secret::new(token),
            expires_in,
            scopes: scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect()),
            refresh: None,
        };
        self.request(conn, Command::Authenticate(Box::new(authenticate)))
    }

    /// The tokens that were handed on or taken away, oldest first.
    pub fn tokens(&self) -> Vec<(&str, Option<&ServerToken>)> {
        let tokens = self.agent.iter().filter_map(|effect| match effect {
            Effect::Mcp(McpCommand::SetToken { resource, change, .. }) => Some((
                resource.as_str(),
                match change {
                    TokenChange::Given(token) => Some(&**token),
                    TokenChange::TakenBack | TokenChange::Expired => None,
                },
            )),
            _ => None,
        });
        tokens.collect()
    }

    /// The latest change of a token.
    pub fn last_change(&self) -> Option<&TokenChange> {
        self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Mcp(McpCommand::SetToken { change, .. }) => Some(change),
            _ => None,
        })
    }
}

#[test]
fn mcp07_mcp08_mcp21_the_state_names_the_resource_and_no_secret() {
    let (mut stage, conn, _) = Stage::serving(json!([server("top")]));
    stage.does("top", sign_in(&["write"]));
    assert_eq!(
        stage.state_of("top"),
        json!({
            "kind": "authRequired", "reason": "insufficientScope",
            "oauthClient": { "clientId": "registered" },
            "resource": {
                "resource": RESOURCE, "authorization_servers": ["https://login.example.com"],
                "scopes_supported": ["read", "write"],
            },
            "requiredScopes": ["write"],
        })
    );
    let notes = stage.notifications(conn);
    assert!(
        !notes.iter().any(|note| note["method"] == "auth/required"),
        "MCP-07: {notes:?}"
    );
}

#[test]
fn mcp11_auth12_a_token_goes_to_the_servers_and_nowhere_else() {
    let (mut stage, conn, _) = Stage::serving(json!([server("top")]));
    let answer = stage.signs_in_to(conn, RESOURCE, TOKEN, None);
    assert_eq!(error(&answer).0, -32602, "AUTH-04: no server asks for it yet");
    stage.does("top", sign_in(&[]));
    let answer = stage.signs_in_for(conn, RESOURCE, TOKEN, Some(&["read"]), Some(60));
    assert_eq!(answer["result"], json!({}), "{answer}");
    let given = ServerToken {
        number: 1,
        secret: Secret::new(TOKEN),
        scopes: Some(vec!["read".to_owned()]),
        expires_in: Some(60),
        given_by: "c".to_owned(),
        authorization_servers: vec!["https://login.example.com".to_owned()],
        refresh: None,
    };
    assert_eq!(stage.tokens(), [(RESOURCE, Some(&given))]);
    assert!(!format!("{:?}", stage.agent).contains(TOKEN));
    stage.does("top", ready());
    assert!(!stage.state(SESSION).to_string().contains(TOKEN));
    assert_eq!(stage.state_of("top"), json!({ "kind": "ready" }), "AUTH-10");
}

#[test]
fn auth05_auth06_a_token_is_taken_back_and_expires() {
    let (mut stage, conn, _) = Stage::serving(json!([server("top")]));
    stage.does("top", sign_in(&[]));
    stage.signs_in_for(conn, RESOURCE, TOKEN, None, Some(60));
    stage.does("top", ready());
    let answer = stage.signs_in_for(conn, RESOURCE, "another", None, Some(60));
    assert_eq!(
        answer["result"],
        json!({}),
        "it is replaced before it expires: {answer}"
    );
    stage.pass(59_999);
    assert_eq!(stage.tokens().len(), 2);
    stage.pass(1);
    assert_eq!(stage.tokens()[2..], [(RESOURCE, None)]);
    assert_eq!(stage.last_change(), Some(&TokenChange::Expired));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(conn, RESOURCE, TOKEN, None);
    stage.does("top", ready());
    let answer = stage.signs_in_to(conn, RESOURCE, "", None);
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(stage.tokens()[4..], [(RESOURCE, None)]);
    assert_eq!(stage.last_change(), Some(&TokenChange::TakenBack));
    let answer = stage.signs_in_to(conn, RESOURCE, TOKEN, None);
    assert_eq!(error(&answer).0, -32602, "no server asks for it, and none has a token");
}

#[test]
fn auth11_a_token_without_required_scopes_is_rejected_by_name() {
    let (mut stage, conn, _) = Stage::serving(json!([server("top")]));
    stage.does("top", sign_in(&["write"]));
    let answer = stage.signs_in_to(conn, RESOURCE, TOKEN, Some(&["read"]));
    let (code, message) = error(&answer);
    assert_eq!(code, -32007);
    assert!(message.contains("write"), "{message}");
    assert_eq!(answer["error"]["data"]["resources"][0]["resource"], RESOURCE);
    assert_eq!(stage.tokens(), []);
    let answer = stage.signs_in_to(conn, RESOURCE, TOKEN, Some(&["read", "write"]));
    assert_eq!(answer["result"], json!({}), "{answer}");
}

#[test]
fn auth04_a_viewer_gives_no_tokens() {
    let (mut stage, _, _) = Stage::serving(json!([server("top")]));
    stage.does("top", sign_in(&[]));
    let viewer = stage.connect_as(innkeeper_core::Principal::new("v", innkeeper_core::Scope::View));
    stage.initialize(viewer, "v", &["1.0.0"], &[]);
    let answer = stage.signs_in_to(viewer, RESOURCE, TOKEN, None);
    assert_eq!(error(&answer).0, -32009);
}

/// A client with the scope drive.
pub fn driver(stage: &mut Stage, name: &str) -> ConnId {
    let conn = stage.connect_as(innkeeper_core::Principal::new(name, innkeeper_core::Scope::Drive));
    stage.initialize(conn, name, &["1.0.0"], &[]);
    conn
}

#[test]
fn auth12_a_user_cannot_replace_or_revoke_another_users_token() {
    let (mut stage, admin, _) = Stage::serving(json!([server("top")]));
    let (ann, bob) = (driver(&mut stage, "ann"), driver(&mut stage, "bob"));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(ann, RESOURCE, TOKEN, None);
    for token in ["", "bobs"] {
        let answer = stage.signs_in_to(bob, RESOURCE, token, None);
        let (code, message) = error(&answer);
        assert_eq!(code, -32009, "{answer}");
        assert!(message.contains("another client has signed in"), "{message}");
    }
    assert_eq!(stage.tokens().len(), 1);
    assert!(stage.signs_in_to(ann, RESOURCE, "newer", None).get("error").is_none());
    assert!(
        stage
            .signs_in_to(admin, RESOURCE, "admins", None)
            .get("error")
            .is_none()
    );
    assert_eq!(error(&stage.signs_in_to(ann, RESOURCE, "", None)).0, -32009);
    assert!(stage.signs_in_to(admin, RESOURCE, "", None).get("error").is_none());
    assert_eq!(stage.tokens()[3..], [(RESOURCE, None)]);
}

#[test]
fn mcp11_any_permitted_user_replaces_another_users_rejected_token() {
    for reason in [AuthReason::Required, AuthReason::Expired] {
        let (mut stage, _, _) = Stage::serving(json!([server("top")]));
        let (ann, bob) = (driver(&mut stage, "ann"), driver(&mut stage, "bob"));
        stage.does("top", sign_in(&[]));
        stage.signs_in_to(ann, RESOURCE, TOKEN, None);
        stage.does("top", ready());
        assert_eq!(error(&stage.signs_in_to(bob, RESOURCE, "bobs", None)).0, -32009);
        let refused = AuthRequirement {
            reason,
            ..requirement(&[])
        };
        stage.does("top", ServerStatus::AuthRequired(Box::new(refused)));
        let answer = stage.signs_in_to(bob, RESOURCE, "", None);
        assert_eq!(error(&answer).0, -32009, "it is not bob's to take back: {answer}");
        let answer = stage.signs_in_to(bob, RESOURCE, "bobs", None);
        assert_eq!(answer["result"], json!({}), "{answer}");
        stage.does("top", ready());
        assert_eq!(
            error(&stage.signs_in_to(ann, RESOURCE, TOKEN, None)).0,
            -32009,
            "it is his now"
        );
    }
}

#[test]
fn mcp09_mcp11_any_permitted_user_replaces_a_rejected_token_of_a_call() {
    let (mut stage, _, chat) = Stage::serving(json!([server("top")]));
    let (ann, bob) = (driver(&mut stage, "ann"), driver(&mut stage, "bob"));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(ann, RESOURCE, TOKEN, None);
    stage.does("top", ready());
    stage.start_turn(ann, &chat, "t");
    waits(
        &mut stage,
        AuthRequirement {
            reason: AuthReason::Expired,
            ..requirement(&[])
        },
    );
    let answer = stage.signs_in_to(bob, RESOURCE, "bobs", None);
    assert_eq!(answer["result"], json!({}), "{answer}");
    let is_served = |reply: &ToolReply| matches!(reply, ToolReply::Authenticated { .. });
    assert!(heard(&stage).iter().any(is_served), "{:?}", heard(&stage));
}

#[test]
fn auth12_a_user_cannot_sign_in_for_a_call_of_another_user() {
    let (mut stage, _, _) = waiting_call();
    let (ann, bob) = (driver(&mut stage, "ann"), driver(&mut stage, "bob"));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(ann, RESOURCE, TOKEN, Some(&["read"]));
    let answer = stage.signs_in_to(bob, RESOURCE, "bobs", Some(&["write"]));
    assert_eq!(error(&answer).0, -32009, "{answer}");
    assert_eq!(stage.tokens().len(), 1);
    let is_served = |reply: &ToolReply| matches!(reply, ToolReply::Authenticated { .. });
    assert!(!heard(&stage).iter().any(is_served), "{:?}", heard(&stage));
}

#[test]
fn mcp11_another_user_may_sign_in_for_a_call_that_needs_more_scopes() {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    let (ann, bob) = (driver(&mut stage, "ann"), driver(&mut stage, "bob"));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(ann, RESOURCE, TOKEN, Some(&["read"]));
    stage.does("top", ready());
    stage.start_turn(conn, &chat, "t");
    waits(&mut stage, requirement(&["read", "write"]));
    stage.subscribe(bob, SESSION);
    for (token, scopes) in [("", None), ("narrow", Some(&["read"][..]))] {
        let answer = stage.signs_in_to(bob, RESOURCE, token, scopes);
        assert_eq!(error(&answer).0, -32009, "it helps no server: {answer}");
    }
    let answer = stage.signs_in_to(bob, RESOURCE, "bobs", Some(&["read", "write"]));
    assert_eq!(answer["result"], json!({}), "{answer}");
    let is_served = |reply: &ToolReply| matches!(reply, ToolReply::Authenticated { .. });
    assert!(heard(&stage).iter().any(is_served), "{:?}", heard(&stage));
}

#[test]
fn auth11_a_token_need_not_repeat_the_scopes_of_the_last_one() {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(conn, RESOURCE, TOKEN, Some(&["read", "list"]));
    stage.does("top", ready());
    stage.start_turn(conn, &chat, "t");
    // The error names all scopes to ask for.
    waits(&mut stage, requirement(&["read", "list", "write"]));
    let is_served = |stage: &Stage| {
        let mut heard = heard(stage).into_iter();
        heard.any(|reply| matches!(reply, ToolReply::Authenticated { .. }))
    };
    stage.signs_in_to(conn, RESOURCE, "same", Some(&["read", "list"]));
    assert!(!is_served(&stage));
    let answer = stage.signs_in_to(conn, RESOURCE, "other", Some(&["write"]));
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert!(is_served(&stage));
}

#[test]
fn auth07_a_token_goes_when_the_grace_of_its_giver_is_over() {
    let (mut stage, _, _) = Stage::serving(json!([server("top")]));
    let (ann, bob) = (driver(&mut stage, "ann"), driver(&mut stage, "bob"));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(ann, RESOURCE, TOKEN, None);
    stage.disconnect(ann);
    let grace_ms = config().grace_ms;
    stage.pass(grace_ms - 1);
    assert_eq!(error(&stage.signs_in_to(bob, RESOURCE, "bobs", None)).0, -32009);
    assert_eq!(stage.tokens().len(), 1);
    stage.pass(1);
    assert_eq!(stage.tokens()[1..], [(RESOURCE, None)]);
    let answer = stage.signs_in_to(bob, RESOURCE, "bobs", None);
    assert_eq!(answer["result"], json!({}), "{answer}");
}

#[test]
fn f17_a_token_that_cannot_be_remembered_is_not_handed_over() {
    let (mut stage, conn, _) = Stage::serving(json!([server("top")]));
    for n in 0..=1024 {
        let resource = format!("https://mcp{n}.example.com/");
        let mut wanted = requirement(&[]);
        wanted.resource.clone_from(&resource);
        stage.does("top", ServerStatus::AuthRequired(Box::new(wanted)));
        let answer = stage.signs_in_to(conn, &resource, TOKEN, None);
        match n {
            1024 => assert!(error(&answer).1.contains("1024 resources"), "{answer}"),
            _ => assert_eq!(answer["result"], json!({}), "{answer}"),
        }
    }
    assert_eq!(stage.tokens().len(), 1024);
}

/// A turn with a call of the server that waits for a sign-in.
fn waiting_call() -> (Stage, ConnId, String) {
    let (mut stage, conn, chat) = Stage::serving(json!([server("top")]));
    stage.does("top", ready());
    stage.start_turn(conn, &chat, "t");
    waits(&mut stage, requirement(&["write"]));
    assert_eq!(stage.state(SESSION)["inputNeeded"][0]["kind"], "toolAuthentication");
    (stage, conn, chat)
}

/// A call of the server waits in the turn that runs.
fn waits(stage: &mut Stage, wanted: AuthRequirement) {
    let start = ToolStart {
        contributor: Contributor::Mcp("top".to_owned()),
        ..host_tool("read")
    };
    for step in [ToolStep::Start(start), harmless(), ToolStep::AuthRequired(wanted)] {
        let call = "call".to_owned();
        stage.says(AgentEvent::Tool {
            call,
            step: Box::new(step),
        });
    }
}

fn heard(stage: &Stage) -> Vec<ToolReply> {
    let replies = stage.agent.iter().filter_map(|effect| match effect {
        Effect::Agent(AgentCommand::Reply { reply, .. }) => match &**reply {
            Reply::Tool { reply, .. } => Some(reply.clone()),
            _ => None,
        },
        _ => None,
    });
    replies.collect()
}

#[test]
fn mcp10_auth10_a_token_for_a_call_reaches_the_server_first() {
    let (mut stage, conn, _) = waiting_call();
    assert_eq!(stage.state_of("top")["kind"], "ready", "MCP-10: they are independent");
    stage.signs_in_to(conn, RESOURCE, TOKEN, Some(&["write"]));
    let order: Vec<&str> = stage
        .agent
        .iter()
        .filter_map(|effect| match effect {
            Effect::Mcp(McpCommand::SetToken { .. }) => Some("server"),
            Effect::Agent(AgentCommand::Reply { .. }) => Some("call"),
            _ => None,
        })
        .collect();
    assert!(order.ends_with(&["server", "call"]), "{order:?}");
}

#[test]
fn mcp05_stopping_a_server_ends_its_sign_in_request() {
    for how in ["stop", "toggle"] {
        let (mut stage, conn, chat) = waiting_call();
        let action = match how {
            "stop" => stop("top"),
            _ => crate::customizations::toggle("top", json!([crate::customizations::in_session(false)])),
        };
        stage.dispatch(conn, SESSION, 9, action);
        let needed = stage.state(SESSION)["inputNeeded"].clone();
        assert!(needed.as_array().is_none_or(Vec::is_empty), "{needed}");
        let call = &stage.state(&chat)["activeTurn"]["responseParts"][0]["toolCall"];
        assert_eq!(
            (&call["status"], &call["success"]),
            (&json!("completed"), &json!(false))
        );
        assert!(heard(&stage).contains(&ToolReply::AuthRefused), "its agent hears of it");
    }
}
