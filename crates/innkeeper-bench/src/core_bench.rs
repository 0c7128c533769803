//! Actions per second through the core alone, for short and long turns and histories.
//!
//! The point is the shape: what one delta costs must not grow with the parts of the active turn
//! nor with the turns before it.

use std::hint::black_box;
use std::time::Instant;

use innkeeper_core::request::{CreateSession, Initialize, Subscribe};
use innkeeper_core::{
    AgentCommand, AgentEvent, ChannelId, ClientId, Command, ConnId, CoreConfig, Dispatch, Effect, HostCore, Input, Now,
    Principal, RequestId, Seq, TurnEnd, TurnKey, decode::decode_action,
};
use serde::Serialize;
use serde_json::json;
use serde_json::value::to_raw_value;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Deltas per measurement.
    #[arg(long, default_value_t = 300_000)]
    deltas: u64,
    /// Bytes of the replay window per channel [default: the host's own].
    #[arg(long)]
    replay_bytes: Option<usize>,
    /// Measures only a little, to see that everything works.
    #[arg(long)]
    smoke: bool,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    deltas: u64,
    /// By the number of parts of the active turn.
    by_parts: Vec<Row>,
    /// By the number of completed turns.
    by_history: Vec<Row>,
    /// The cost of a delta in the longest turn, divided by the cost in the shortest.
    parts_growth: f64,
    /// The same for histories.
    history_growth: f64,
}

/// One measurement.
#[derive(Serialize)]
struct Row {
    size: usize,
    nanoseconds_per_delta: f64,
    deltas_per_second: f64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<Report> {
    let deltas = if args.smoke { 20_000 } else { args.deltas };
    let sizes = [1, 100, 10_000];
    let by_parts: Vec<Row> = sizes
        .iter()
        .map(|parts| measure(*parts, 0, deltas, args.replay_bytes))
        .collect();
    let by_history: Vec<Row> = sizes
        .iter()
        .map(|turns| measure(1, *turns, deltas, args.replay_bytes))
        .collect();
    Ok(Report {
        benchmark: "core",
        deltas,
        parts_growth: growth(&by_parts),
        history_growth: growth(&by_history),
        by_parts,
        by_history,
    })
}

fn growth(rows: &[Row]) -> f64 {
    match (rows.first(), rows.last()) {
        (Some(small), Some(large)) => large.nanoseconds_per_delta / small.nanoseconds_per_delta,
        _ => 1.0,
    }
}

/// The median of five measurements of streaming into a turn of so many parts after so many turns.
fn measure(parts: usize, history: usize, deltas: u64, replay_bytes: Option<usize>) -> Row {
    let mut host = BenchHost::new(parts, replay_bytes);
    for turn in 0..history {
        host.start(&format!("h{turn}"));
        host.text("an answer");
        host.finish();
    }
    host.start("measured");
    for _ in 0..parts {
        host.agent(AgentEvent::EndPart);
        host.text("part");
    }
    let rounds = 5;
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..deltas / rounds {
                host.text("forty bytes of text, as a model would say");
            }
            started.elapsed().as_nanos() as f64 / (deltas / rounds) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let nanoseconds_per_delta = times[times.len() / 2];
    Row {
        size: parts.max(history),
        nanoseconds_per_delta,
        deltas_per_second: 1e9 / nanoseconds_per_delta,
    }
}

/// A core with one subscriber and one running turn, driven by hand.
struct BenchHost {
    core: HostCore,
    effects: Vec<Effect>,
    conn: ConnId,
    chat_uri: String,
    chat: ChannelId,
    turn: TurnKey,
}

impl BenchHost {
    fn new(parts: usize, replay_bytes: Option<usize>) -> Self {
        let mut config = CoreConfig {
            max_parts_per_turn: parts + 10,
            max_turn_bytes: usize::MAX,
            ..CoreConfig::default()
        };
        if let Some(bytes) = replay_bytes {
            config.replay.channel_bytes = bytes;
        }
        let agent =
            serde_json::from_value(json!({ "provider": "bench", "displayName": "", "description": "", "models": [] }));
        let profile = agent
            .into_iter()
            .map(|agent: ahp_types::state::AgentInfo| agent.into())
            .collect();
        let core = HostCore::new(config, profile, Seq(1));
        let conn = ConnId { slot: 0, generation: 0 };
        let uri = "ahp-session:/bench";
        let mut host = Self {
            core,
            effects: Vec::new(),
            conn,
            chat_uri: innkeeper_core::uri::default_chat(uri),
            chat: ChannelId(0),
            turn: TurnKey(0),
        };
        host.handle(Input::Connected {
            conn,
            principal: Principal::stdio(),
        });
        host.request(Command::Initialize(Box::new(Initialize {
            offer: innkeeper_core::request::Offer::List(vec!["1.0.0".into()]),
            client_id: ClientId::new("bench"),
            initial_subscriptions: Vec::new(),
            client_name: None,
            mcp_apps: false,
            locale: None,
        })));
        host.request(Command::CreateSession(Box::new(CreateSession {
            channel: uri.into(),
            provider: None,
            working_directories: Vec::new(),
            active_client: None,
            ..CreateSession::default()
        })));
        let opened = host.effects.iter().find_map(|effect| match effect {
            Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.chat),
            _ => None,
        });
        let chat = opened.expect("invariant: a created session is opened");
        host.chat = chat;
        host.handle(Input::ChatOpened { chat, outcome: Ok(()) });
        let channel = host.chat_uri.clone();
        host.request(Command::Subscribe(Box::new(Subscribe {
            channel,
            max_latency_ms: Some(0),
            turns: None,
        })));
        host
    }

    fn handle(&mut self, input: Input) {
        // A constant clock: the core only compares times, and reading one would be measured too.
        let now = Now {
            mono_ms: 1,
            wall: jiff::Timestamp::UNIX_EPOCH,
        };
        black_box(&self.effects);
        self.effects.clear();
        self.core.handle(now, input, &mut self.effects);
    }

    fn request(&mut self, command: Command) {
        self.handle(Input::Request {
            conn: self.conn,
            id: RequestId::number(1),
            command,
        });
    }

    fn start(&mut self, turn_id: &str) {
        let action = json!({ "type": "chat/turnStarted", "turnId": turn_id, "startedAt": "1970-01-01T00:00:00.000Z",
            "message": { "text": "go", "origin": { "kind": "user" } } });
        let raw = to_raw_value(&action).expect("invariant: JSON is JSON");
        let dispatch = Dispatch {
            channel: self.chat_uri.clone(),
            client_seq: 1,
            action: decode_action(&raw),
            raw,
            choice: None,
        };
        self.handle(Input::Dispatch {
            conn: self.conn,
            dispatch: Box::new(dispatch),
        });
        let started = self.effects.iter().find_map(|effect| match effect {
            Effect::Agent(AgentCommand::StartTurn { turn, .. }) => Some(*turn),
            _ => None,
        });
        self.turn = started.expect("invariant: a valid turn starts");
    }

    fn text(&mut self, text: &str) {
        self.agent(AgentEvent::Text(text.to_owned()));
    }

    fn agent(&mut self, event: AgentEvent) {
        self.handle(Input::Agent {
            chat: self.chat,
            turn: self.turn,
            event,
        });
    }

    fn finish(&mut self) {
        self.handle(Input::TurnEnded {
            chat: self.chat,
            turn: self.turn,
            end: TurnEnd::Complete,
        });
    }
}
