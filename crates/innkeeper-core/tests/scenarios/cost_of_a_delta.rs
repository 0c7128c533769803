//! The cost of one delta, counted in allocations: a clock would only show the machine.

use ahp::reducers::apply_action_to_chat;
use ahp_types::actions::StateAction;
use ahp_types::state::ChatState;
use allocation_counter::measure;
use innkeeper_core::request::{CreateSession, Initialize};
use innkeeper_core::{
    AgentCommand, AgentEvent, ClientId, Command, ConnId, CoreConfig, Dispatch, Effect, HostCore, Input, Now, Principal,
    RequestId, Seq, decode::decode_action, uri,
};
use serde_json::{Value, json};

const NOW: Now = Now {
    mono_ms: 1,
    wall: jiff::Timestamp::UNIX_EPOCH,
};

fn started() -> Value {
    json!({"type": "chat/turnStarted", "turnId": "t", "startedAt": "1970-01-01T00:00:00.000Z",
        "message": {"text": "go", "origin": {"kind": "user"}}})
}

/// Allocations of one delta through the core into the last of so many parts.
fn core_allocations(parts: usize) -> u64 {
    let agent = serde_json::from_value(json!({"provider": "p", "displayName": "", "description": "", "models": []}));
    let profile = agent
        .into_iter()
        .map(|agent: ahp_types::state::AgentInfo| agent.into())
        .collect();
    let mut core = HostCore::new(CoreConfig::default(), profile, Seq(1));
    let conn = ConnId { slot: 0, generation: 0 };
    let mut effects = Vec::new();
    let request = |command| Input::Request {
        conn,
        id: RequestId::number(1),
        command,
    };
    core.handle(
        NOW,
        Input::Connected {
            conn,
            principal: Principal::stdio(),
        },
        &mut effects,
    );
    let initialize = Initialize {
        offer: innkeeper_core::request::Offer::List(vec!["1.0.0".into()]),
        client_id: ClientId::new("c"),
        initial_subscriptions: Vec::new(),
        client_name: None,
        mcp_apps: false,
        locale: None,
    };
    core.handle(NOW, request(Command::Initialize(Box::new(initialize))), &mut effects);
    let create = CreateSession {
        channel: "ahp-session:/s".into(),
        provider: None,
        working_directories: Vec::new(),
        active_client: None,
        ..CreateSession::default()
    };
    core.handle(NOW, request(Command::CreateSession(Box::new(create))), &mut effects);
    let opened = effects.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.chat),
        _ => None,
    });
    let chat = opened.expect("a session is opened");
    core.handle(NOW, Input::ChatOpened { chat, outcome: Ok(()) }, &mut effects);
    let raw = serde_json::value::to_raw_value(&started()).expect("JSON");
    let dispatch = Dispatch {
        channel: uri::default_chat("ahp-session:/s"),
        client_seq: 1,
        action: decode_action(&raw),
        raw,
        choice: None,
    };
    core.handle(
        NOW,
        Input::Dispatch {
            conn,
            dispatch: Box::new(dispatch),
        },
        &mut effects,
    );
    let turn = effects.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { turn, .. }) => Some(*turn),
        _ => None,
    });
    let turn = turn.expect("the turn starts");
    let mut says = |event, effects: &mut Vec<Effect>| core.handle(NOW, Input::Agent { chat, turn, event }, effects);
    for _ in 0..parts {
        says(AgentEvent::EndPart, &mut effects);
        says(AgentEvent::Text("part".into()), &mut effects);
    }
    // Capacity for the text and the effects, so that only the delta is counted.
    effects = Vec::with_capacity(16);
    says(AgentEvent::Text("x".repeat(4096)), &mut effects);
    let event = AgentEvent::Text("x".into());
    measure(|| says(event, &mut effects)).count_total
}

/// Allocations of the published reducer for the same.
fn upstream_allocations(parts: usize) -> u64 {
    let mut state: ChatState = serde_json::from_value(json!({"resource": "ahp-chat:/a", "title": "", "status": 1,
        "modifiedAt": "1970-01-01T00:00:00.000Z", "turns": []}))
    .expect("a chat");
    let action = |value: Value| serde_json::from_value::<StateAction>(value).expect("an action");
    apply_action_to_chat(&mut state, &action(started()));
    for part in 0..parts {
        let part = json!({"kind": "markdown", "id": format!("p{part}"), "content": ""});
        apply_action_to_chat(
            &mut state,
            &action(json!({"type": "chat/responsePart", "turnId": "t", "part": part})),
        );
    }
    let last = format!("p{}", parts - 1);
    let delta = action(json!({"type": "chat/delta", "turnId": "t", "partId": last, "content": "x"}));
    measure(|| {
        apply_action_to_chat(&mut state, &delta);
    })
    .count_total
}

/// (lesson 36)
#[test]
fn trap_13_a_delta_costs_the_same_in_the_first_part_and_in_the_thousandth() {
    let (few, many) = (core_allocations(1), core_allocations(1000));
    assert!(few.max(many) <= 8, "{few} and {many} allocations");
    assert!(many <= few + 2, "{few} allocations became {many}");
}

#[test]
fn trap_13_upstream_still_clones_the_id_of_every_part_on_the_way() {
    assert!(
        upstream_allocations(1000) >= 1000,
        "the published reducer no longer walks every part: the index of ours may go"
    );
}
