//! The past of a chat: windows and pages of it, and its end cut off (SUB-12, PAGE, TRC).

use ahp::reducers::apply_action_to_chat;
use ahp_types::actions::StateAction;
use ahp_types::state::ChatState;
use innkeeper_core::request::TurnsPage;
use innkeeper_core::{AgentCommand, AgentEvent, AgentProfile, ConnId, CoreConfig, Effect, Seq, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

fn stage(turns: usize) -> (Stage, ConnId, String) {
    with(CoreConfig::default(), turns)
}

/// A chat with so many completed turns, `t1` and so on, and its author, who does not subscribe.
fn with(config: CoreConfig, turns: usize) -> (Stage, ConnId, String) {
    let mut stage = Stage::able(config);
    let conn = stage.client("author", &[]);
    let chat = stage.session(conn, SESSION);
    for n in 1..=turns {
        stage.turn(conn, &chat, &format!("t{n}"), &format!("reply {n}"));
    }
    (stage, conn, chat)
}

fn paged(per_page: usize) -> CoreConfig {
    CoreConfig {
        turns_per_page: per_page,
        ..CoreConfig::default()
    }
}

/// The mirror of a client, built with the published reducer.
struct Reader {
    conn: ConnId,
    chat: String,
    state: ChatState,
    last_seen: u64,
}

impl Reader {
    fn new(stage: &mut Stage, name: &str, chat: &str, turns: usize) -> Self {
        let conn = stage.client(name, &[]);
        let answer = stage.subscribe_to_latest(conn, chat, turns);
        let snapshot = &answer["result"]["snapshot"];
        Self {
            conn,
            chat: chat.to_owned(),
            state: serde_json::from_value(snapshot["state"].clone()).expect("a chat"),
            last_seen: snapshot["fromSeq"].as_u64().expect("a number"),
        }
    }

    fn read(&mut self, stage: &mut Stage) {
        for envelope in stage.actions(self.conn) {
            self.apply(&envelope);
        }
    }

    fn apply(&mut self, envelope: &Value) {
        let seq = envelope["serverSeq"].as_u64().expect("a number");
        assert!(seq > self.last_seen, "numbers ascend");
        self.last_seen = seq;
        let action: StateAction = serde_json::from_value(envelope["action"].clone()).expect("an action");
        apply_action_to_chat(&mut self.state, &action);
    }

    fn turns(&self) -> Vec<&str> {
        self.state.turns.iter().map(|turn| turn.id.as_str()).collect()
    }

    /// Fetches with the cursor it was given, until nothing is left.
    fn fetch_all(&mut self, stage: &mut Stage) {
        for _ in 0..100 {
            let Some(cursor) = self.state.turns_next_cursor.clone() else {
                return;
            };
            let answer = stage.fetch_turns(self.conn, &self.chat, Some(&cursor));
            assert_eq!(answer["result"], json!({}), "{answer}");
            self.read(stage);
        }
        panic!("there is always a cursor");
    }

    fn reconnect(&mut self, stage: &mut Stage, name: &str) -> Value {
        stage.disconnect(self.conn);
        self.conn = stage.connect();
        stage.reconnect(self.conn, name, self.last_seen, &[&self.chat])["result"].take()
    }
}

fn truncate(stage: &mut Stage, conn: ConnId, chat: &str, turn: Option<&str>) {
    let mut action = json!({ "type": "chat/truncated" });
    if let Some(turn) = turn {
        action["turnId"] = json!(turn);
    }
    stage.dispatch(conn, chat, 1, action);
}

fn ids(state: &Value) -> Vec<&str> {
    let turns = state["turns"].as_array().expect("turns");
    turns
        .iter()
        .map(|turn| turn["id"].as_str().unwrap_or_default())
        .collect()
}

/// (SUB-13, SUB-14, SUB-15)
#[test]
fn sub12_a_snapshot_shows_the_latest_turns_and_says_where_it_starts() {
    let (mut stage, _, chat) = stage(5);
    let reader = Reader::new(&mut stage, "r", &chat, 2);
    assert_eq!(reader.turns(), ["t4", "t5"]);
    assert_eq!(reader.state.turns_next_cursor.as_deref(), Some("through:t3"));
    for enough in [5, 6, 1000] {
        let reader = Reader::new(&mut stage, "r", &chat, enough);
        assert_eq!(reader.turns().len(), 5);
        assert_eq!(reader.state.turns_next_cursor, None);
    }
    let reader = Reader::new(&mut stage, "r", &chat, 0);
    assert_eq!(
        reader.turns(),
        ["t5"],
        "the latest can be resumed, so it is always there"
    );
    let all = stage.client("all", &[]);
    let answer = stage.subscribe(all, &chat);
    assert_eq!(ids(&answer["result"]["snapshot"]["state"]).len(), 5);
}

/// (SUB-07)
#[test]
fn sub12_subscribing_again_without_a_view_brings_everything() {
    let (mut stage, conn, chat) = stage(3);
    let reader = Reader::new(&mut stage, "r", &chat, 1);
    let answer = stage.subscribe(reader.conn, &chat);
    assert_eq!(ids(&answer["result"]["snapshot"]["state"]).len(), 3);
    truncate(&mut stage, conn, &chat, Some("t1"));
    assert_eq!(
        stage.action_types(reader.conn),
        ["chat/truncated"],
        "nothing has to be loaded"
    );
    // A client that did not see that snapshot cannot continue from the smaller one.
    let mut reader = Reader::new(&mut stage, "s", &chat, 1);
    stage.turn(conn, &chat, "t4", "x");
    reader.read(&mut stage);
    let answer = stage.subscribe_to_latest(reader.conn, &chat, 1);
    assert_eq!(ids(&answer["result"]["snapshot"]["state"]), ["t4"]);
    assert_eq!(reader.reconnect(&mut stage, "s")["type"], "snapshot");
}

/// (PAGE-03, E-03)
#[test]
fn page01_a_page_goes_to_its_requester_before_the_response() {
    let (mut stage, _, chat) = with(paged(2), 6);
    let mut one = Reader::new(&mut stage, "one", &chat, 1);
    let mut two = Reader::new(&mut stage, "two", &chat, 3);
    stage.handle(innkeeper_core::Input::Request {
        conn: one.conn,
        id: innkeeper_core::RequestId::number(99),
        command: innkeeper_core::Command::FetchTurns {
            channel: chat.clone(),
            page: TurnsPage::At(Some("through:t5".to_owned())),
        },
    });
    let inbox = stage.inbox(one.conn);
    assert_eq!(inbox.len(), 2, "{inbox:?}");
    let envelope = &inbox[0]["params"];
    assert_eq!(envelope["action"]["type"], "chat/turnsLoaded");
    assert!(envelope.get("origin").is_none());
    assert_eq!(inbox[1], json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
    one.apply(envelope);
    assert_eq!(one.turns(), ["t4", "t5", "t6"], "oldest first, in front");
    assert!(stage.inbox(two.conn).is_empty(), "windows differ");
    for reader in [&mut one, &mut two] {
        reader.fetch_all(&mut stage);
        assert_eq!(reader.turns(), ["t1", "t2", "t3", "t4", "t5", "t6"]);
    }
}

#[test]
fn page02_a_strange_cursor_is_refused_and_none_means_the_next_page() {
    let (mut stage, _, chat) = with(paged(2), 6);
    let mut reader = Reader::new(&mut stage, "r", &chat, 1);
    for strange in ["", "through:", "through:none", "t5", "5"] {
        let answer = stage.fetch_turns(reader.conn, &chat, Some(strange));
        assert_eq!(error(&answer).0, -32602, "{strange}");
        assert!(error(&answer).1.starts_with("params.cursor:"), "{answer}");
    }
    stage.fetch_turns(reader.conn, &chat, None);
    reader.read(&mut stage);
    assert_eq!(reader.turns(), ["t4", "t5", "t6"]);
    // A used cursor returns nothing twice and leaves no gap.
    stage.fetch_turns(reader.conn, &chat, Some("through:t5"));
    reader.read(&mut stage);
    assert_eq!(reader.turns(), ["t4", "t5", "t6"]);
    assert_eq!(reader.state.turns_next_cursor.as_deref(), Some("through:t3"));
    // Nor does one from another client's window.
    stage.fetch_turns(reader.conn, &chat, Some("through:t1"));
    reader.read(&mut stage);
    assert_eq!(reader.turns(), ["t2", "t3", "t4", "t5", "t6"]);
}

#[test]
fn page02_without_a_subscription_there_is_nothing_to_add_to() {
    let (mut stage, conn, chat) = stage(2);
    let answer = stage.fetch_turns(conn, &chat, None);
    assert_eq!(error(&answer).0, -32602);
    assert!(error(&answer).1.contains("subscribe first"), "{answer}");
    assert_eq!(error(&stage.fetch_turns(conn, "ahp-chat:/none", None)).0, -32001);
    assert_eq!(error(&stage.fetch_turns(conn, SESSION, None)).0, -32001);
}

#[test]
fn page03_large_turns_make_small_pages() {
    let (mut stage, conn, chat) = stage(0);
    for n in 1..=4 {
        stage.turn(conn, &chat, &format!("t{n}"), &"x".repeat(3 << 20));
    }
    let mut reader = Reader::new(&mut stage, "r", &chat, 1);
    stage.fetch_turns(reader.conn, &chat, None);
    reader.read(&mut stage);
    assert_eq!(reader.turns(), ["t3", "t4"], "one at a time, but at least one");
    reader.fetch_all(&mut stage);
    assert_eq!(reader.turns().len(), 4);
}

#[test]
fn page04_when_nothing_is_left_an_empty_page_says_so() {
    let (mut stage, _, chat) = stage(2);
    let reader = Reader::new(&mut stage, "r", &chat, 5);
    let answer = stage.fetch_turns(reader.conn, &chat, None);
    assert_eq!(answer["result"], json!({}));
    let actions = stage.actions(reader.conn);
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0]["action"], json!({ "type": "chat/turnsLoaded", "turns": [] }));
}

/// A page is not replayed, so a client that did not get it gets a snapshot. (REC-03, PAGE-05)
#[test]
fn page05_a_page_that_was_lost_with_the_connection_is_made_good() {
    let (mut stage, conn, chat) = with(paged(2), 6);
    let mut reader = Reader::new(&mut stage, "r", &chat, 1);
    stage.fetch_turns(reader.conn, &chat, None);
    let lost = reader.reconnect(&mut stage, "r");
    assert_eq!(lost["type"], "snapshot", "{lost}");
    assert_eq!(ids(&lost["snapshots"][0]["state"]).len(), 6);
    // A page that was seen is no obstacle to a replay, and the window holds after it.
    let mut reader = Reader::new(&mut stage, "s", &chat, 1);
    stage.fetch_turns(reader.conn, &chat, None);
    reader.read(&mut stage);
    stage.disconnect(reader.conn);
    stage.turn(conn, &chat, "t7", "x");
    let seen = reader.reconnect(&mut stage, "s");
    assert_eq!(seen["type"], "replay", "{seen}");
    for envelope in seen["actions"].as_array().expect("actions") {
        reader.apply(envelope);
    }
    assert_eq!(reader.turns(), ["t4", "t5", "t6", "t7"]);
    reader.fetch_all(&mut stage);
    assert_eq!(reader.turns(), ["t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
}

/// (TRC-05, TRC-06, DSP-03)
#[test]
fn trc01_history_ends_with_the_named_turn_and_the_agent_restarts_there() {
    let (mut stage, conn, chat) = stage(4);
    stage.subscribe(conn, &chat);
    let modified = stage.state(&chat)["modifiedAt"].clone();
    stage.pass(1000);
    stage.inbox(conn);
    truncate(&mut stage, conn, &chat, Some("t2"));
    let echo = stage.actions(conn).pop().expect("an echo");
    assert_eq!(echo["action"], json!({ "type": "chat/truncated", "turnId": "t2" }));
    assert_eq!(echo["origin"]["clientId"], "author");
    assert_eq!(ids(&stage.state(&chat)), ["t1", "t2"]);
    assert_eq!(stage.state(&chat)["modifiedAt"], modified);
    let told: Vec<_> = stage
        .last_opened()
        .history
        .recent
        .iter()
        .map(|turn| turn.id.clone())
        .collect();
    assert_eq!(told, ["t1", "t2"]);
    // Nothing after it: the agent need not start over.
    let opened = stage.agent.len();
    truncate(&mut stage, conn, &chat, Some("t2"));
    assert_eq!(stage.agent.len(), opened);
    truncate(&mut stage, conn, &chat, None);
    assert_eq!(ids(&stage.state(&chat)), Vec::<&str>::new());
    assert!(stage.last_opened().history.recent.is_empty());
    // The ids are free again.
    stage.turn(conn, &chat, "t1", "once more");
    assert_eq!(ids(&stage.state(&chat)), ["t1"]);
}

/// (TRC-06)
#[test]
fn trc02_a_running_turn_is_dropped_with_its_subagents_and_questions() {
    let (mut stage, conn, chat) = stage(1);
    stage.start_turn(conn, &chat, "running");
    let run = stage.run();
    stage.says(AgentEvent::Activity(Some("Thinking".into())));
    stage.runs_tool(run, "call");
    let subagent = stage.spawns(run, "call", false).expect("a subagent");
    stage.asks_permission(run, "delete");
    assert_eq!(stage.state(SESSION)["inputNeeded"].as_array().map(Vec::len), Some(1));
    truncate(&mut stage, conn, &chat, Some("t1"));
    let state = stage.state(&chat);
    assert!(state.get("activeTurn").is_none());
    assert!(state.get("activity").is_none());
    assert_eq!(ids(&state), ["t1"], "what is dropped is not part of the history");
    assert_eq!(state["status"].as_u64().map(|bits| bits & 31), Some(1));
    assert_eq!(stage.state(SESSION)["inputNeeded"].as_array().map_or(0, Vec::len), 0);
    assert_eq!(stage.state(SESSION)["status"].as_u64().map(|bits| bits & 31), Some(1));
    assert_eq!(stage.cancelled(), [run, (subagent.chat, subagent.turn)]);
    assert!(
        matches!(stage.agent.last(), Some(Effect::Agent(AgentCommand::OpenChat(_)))),
        "after the old one was stopped"
    );
    stage.says_in(run, AgentEvent::Text("late".into()));
    stage.ends_in(run, TurnEnd::Complete);
    assert_eq!(ids(&stage.state(&chat)), ["t1"]);
    stage.turn(conn, &chat, "next", "x");
    assert_eq!(ids(&stage.state(&chat)), ["t1", "next"]);
}

fn refused(stage: &mut Stage, conn: ConnId) -> String {
    let envelope = stage.actions(conn).pop().expect("an envelope");
    let reason = envelope["rejectionReason"].as_str();
    reason.unwrap_or_else(|| panic!("not refused: {envelope}")).to_owned()
}

#[test]
fn trc03_an_unknown_or_running_turn_is_refused() {
    let (mut stage, conn, chat) = stage(1);
    stage.start_turn(conn, &chat, "running");
    stage.subscribe(conn, &chat);
    for turn in ["none", "running"] {
        truncate(&mut stage, conn, &chat, Some(turn));
        assert!(refused(&mut stage, conn).contains("turnId"));
    }
    assert_eq!(stage.state(&chat)["activeTurn"]["id"], "running");
}

/// (CHT-15)
#[test]
fn trc04_a_reader_is_first_sent_the_turn_that_a_truncation_names() {
    let (mut stage, conn, chat) = stage(6);
    let mut small = Reader::new(&mut stage, "small", &chat, 1);
    let mut large = Reader::new(&mut stage, "large", &chat, 4);
    let mut away = Reader::new(&mut stage, "away", &chat, 1);
    let mut fine = Reader::new(&mut stage, "fine", &chat, 4);
    stage.disconnect(away.conn);
    stage.disconnect(fine.conn);
    truncate(&mut stage, conn, &chat, Some("t3"));
    for reader in [&mut small, &mut large] {
        reader.read(&mut stage);
    }
    assert_eq!(small.turns(), ["t3"]);
    assert_eq!(large.turns(), ["t3"]);
    // A disconnected client cannot be sent it, so it gets a snapshot; one that has the turn gets a replay.
    let answer = away.reconnect(&mut stage, "away");
    assert_eq!(answer["type"], "snapshot", "{answer}");
    assert_eq!(ids(&answer["snapshots"][0]["state"]), ["t1", "t2", "t3"]);
    let answer = fine.reconnect(&mut stage, "fine");
    assert_eq!(answer["type"], "replay", "{answer}");
    for envelope in answer["actions"].as_array().expect("actions") {
        fine.apply(envelope);
    }
    for reader in [&mut small, &mut large, &mut fine] {
        assert_eq!(reader.turns(), ["t3"]);
        reader.fetch_all(&mut stage);
        assert_eq!(reader.turns(), ["t1", "t2", "t3"]);
    }
}

#[test]
fn trc04_with_everything_gone_no_reader_lacks_anything() {
    let (mut stage, conn, chat) = stage(3);
    let mut here = Reader::new(&mut stage, "here", &chat, 1);
    let mut away = Reader::new(&mut stage, "away", &chat, 1);
    stage.disconnect(away.conn);
    truncate(&mut stage, conn, &chat, None);
    stage.turn(conn, &chat, "new", "x");
    here.read(&mut stage);
    let answer = away.reconnect(&mut stage, "away");
    for envelope in answer["actions"].as_array().expect("a replay") {
        away.apply(envelope);
    }
    for reader in [&mut here, &mut away] {
        assert_eq!(reader.turns(), ["new"]);
        assert_eq!(reader.state.turns_next_cursor, None);
        stage.fetch_turns(reader.conn, &chat, None);
        reader.read(&mut stage);
        assert_eq!(reader.turns(), ["new"]);
    }
}

#[test]
fn trc05_an_agent_that_cannot_forget_is_not_made_to_diverge() {
    let rigid = AgentProfile {
        restores_history: false,
        ..able("tour")
    };
    let mut stage = Stage::with_agents(CoreConfig::default(), vec![rigid], Seq(1));
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.turn(conn, &chat, "t", "x");
    stage.subscribe(conn, &chat);
    stage.inbox(conn);
    truncate(&mut stage, conn, &chat, None);
    assert!(refused(&mut stage, conn).contains("cannot forget"));
    assert_eq!(ids(&stage.state(&chat)), ["t"]);
}

/// The published client resumes the last turn of what it has. (CHT-15, TURN-12)
#[test]
fn sub12_a_turn_can_be_resumed_however_small_the_window() {
    let (mut stage, conn, chat) = stage(2);
    stage.start_turn(conn, &chat, "t3");
    stage.ends(TurnEnd::Failed {
        failure: innkeeper_core::Failure::new("x", "y"),
        resumable: true,
    });
    let mut reader = Reader::new(&mut stage, "r", &chat, 0);
    let resume = json!({ "type": "chat/turnResume", "turnId": "t3" });
    stage.dispatch(conn, &chat, 1, resume);
    stage.ends(TurnEnd::Complete);
    reader.read(&mut stage);
    assert_eq!(reader.turns(), ["t3"]);
    reader.fetch_all(&mut stage);
    assert_eq!(reader.turns(), ["t1", "t2", "t3"]);
}
