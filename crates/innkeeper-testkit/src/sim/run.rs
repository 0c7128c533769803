//! One whole run, from bytes to a verdict.

use innkeeper_core::{ConnId, CoreConfig, Input, ReplayLimits};

use crate::mutation::{JournalBug, Mutation};
use crate::sim::checks::DEBOUNCE_MS;
use crate::sim::{Choices, NewOlderMirror, Sim, Tally, TranslationBug, Violation};

/// Which connections merge adjacent appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coalescing {
    /// Every second one.
    #[default]
    EverySecond,
    /// All.
    Always,
    /// None.
    Never,
}

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions {
    /// The bug to seed into the host, if any.
    pub mutation: Option<Mutation>,
    /// Which connections merge.
    pub coalescing: Coalescing,
    /// Whether sessions are persisted, evicted and loaded, and the host restarts.
    pub restarts: bool,
    /// The bug to seed into the journal, if any.
    pub journal_bug: Option<JournalBug>,
    /// Whether the wall clock is set again and again (F8).
    pub jumps: bool,
    /// Whether clients look at changesets and annotations.
    pub changes: bool,
    /// The versions of older clients, two of which take part in a run; empty means none.
    pub older: &'static [NewOlderMirror],
    /// The bug to seed into the translation for older clients, if any.
    pub translation_bug: Option<TranslationBug>,
    /// Whether there are terminals.
    pub terminals: bool,
}

impl RunOptions {
    /// A run without bugs, restarts and older clients.
    pub const PLAIN: Self = Self {
        mutation: None,
        coalescing: Coalescing::EverySecond,
        restarts: false,
        journal_bug: None,
        jumps: false,
        changes: false,
        older: &[],
        translation_bug: None,
        terminals: false,
    };
}

/// Clients of older versions in a run that has some.
const OLDER_CLIENTS: usize = 2;

/// A run without violations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The number of operations.
    pub operations: usize,
    /// The mirrors of all connections at the end.
    pub fingerprint: Vec<String>,
    /// How often each operation happened.
    pub tally: Tally,
}

/// How many of the latest operations a report shows.
const SHOWN_OPERATIONS: usize = 60;

/// Runs a host and its clients as the bytes decide, and checks everything that must hold.
pub fn run(bytes: &[u8], options: RunOptions) -> Result<Outcome, Violation> {
    let (mut sim, mut choices) = set_up(bytes, options);
    match play(&mut sim, &mut choices, options) {
        Ok(outcome) => Ok(outcome),
        // A run depends on its bytes alone, so it can be repeated with a trace.
        Err(_) => {
            let (mut sim, mut choices) = set_up(bytes, options);
            sim.keep_trace();
            let outcome = play(&mut sim, &mut choices, options);
            outcome.map_err(|violation| {
                let trace = sim.trace();
                let shown = trace[trace.len().saturating_sub(SHOWN_OPERATIONS)..].join("\n  ");
                Violation::new(format!("{violation}\nafter:\n  {shown}"))
            })
        }
    }
}

fn set_up(bytes: &[u8], options: RunOptions) -> (Sim, Choices<'_>) {
    let mut choices = Choices::new(bytes);
    let clients = 2 + choices.below(4);
    let mut config = config(&mut choices);
    config.serves_changes = options.changes;
    if options.restarts {
        if choices.one_in(2) {
            config.idle_session_ms = 300;
        }
        config.history_turns = [1, 2, config.history_turns][choices.below(3)];
    }
    config.serves_terminals = options.terminals;
    let mut sim = Sim::new(config, clients, options.coalescing, options.mutation);
    if options.terminals {
        sim.serve_terminals();
    }
    if options.restarts {
        sim.keep_sessions(choices.one_in(2), options.journal_bug);
    }
    if !options.older.is_empty() {
        for _ in 0..OLDER_CLIENTS {
            let version = choices.below(options.older.len());
            sim.add_older(options.older[version], options.translation_bug);
        }
    }
    (sim, choices)
}

fn play(sim: &mut Sim, choices: &mut Choices<'_>, options: RunOptions) -> Result<Outcome, Violation> {
    let goes_down = choices.one_in(4);
    if !choices.one_in(4) {
        sim.bootstrap(choices)?;
    }
    sim.connect_older()?;
    let mut operations = 0;
    while !choices.is_exhausted() {
        if options.jumps && choices.one_in(8) {
            sim.set_clock(choices);
        }
        if !options.older.is_empty() && choices.one_in(3) {
            sim.operate_older(choices)?;
        }
        if options.terminals && choices.one_in(2) {
            sim.operate_terminals(choices)?;
        }
        if options.changes && choices.one_in(2) {
            sim.operate_changes(choices)?;
        }
        sim.operate(choices)?;
        operations += 1;
    }
    if sim.store.is_some() {
        sim.crash(choices)?;
    }
    // Clients without a transport reconnect, so that the last cuts are tried too.
    for client in 0..sim.clients.len() {
        sim.come_back_as(client)?;
    }
    sim.quiet()?;
    let fingerprint = sim.fingerprint();
    sim.dismiss_older()?;
    if goes_down {
        sim.note(|| "the host goes down".to_owned());
        sim.handle(Input::ShutDown)?;
        sim.quiet()?;
        if let Some((chat, turn)) = sim.agent.running(|_| 0) {
            return Err(Violation::new(format!(
                "{turn:?} runs on in {chat:?} after the host went down"
            )));
        }
    }
    // All clients leave for good.
    let all: Vec<ConnId> = sim.conns.keys().copied().collect();
    for conn in all {
        sim.cut(conn)?;
    }
    sim.advance(sim.grace_ms)?;
    sim.check_members()?;
    sim.check_nothing_followed()?;
    let seqs = sim.core.seq().0;
    sim.tally.insert("sequence numbers", seqs);
    Ok(Outcome {
        operations,
        fingerprint,
        tally: std::mem::take(&mut sim.tally),
    })
}

/// Small limits in many runs, so that every bound is met.
fn config(choices: &mut Choices<'_>) -> CoreConfig {
    let mut config = CoreConfig {
        grace_ms: 1000,
        summary_debounce_ms: DEBOUNCE_MS,
        max_queued_messages: 2,
        turns_per_page: 2,
        max_subagent_depth: 2,
        max_chats: 6,
        serves_customizations: true,
        serves_mcp: true,
        mcp_blocking_ms: [0, 60][choices.below(2)],
        ..CoreConfig::default()
    };
    match choices.below(8) {
        0 => {
            config.replay = ReplayLimits {
                answer_actions: 4,
                ..ReplayLimits::default()
            };
        }
        1 => {
            config.replay = ReplayLimits {
                channel_bytes: 2000,
                total_bytes: 5000,
                ..ReplayLimits::default()
            };
        }
        2 => {
            config.replay = ReplayLimits {
                max_age_ms: 200,
                ..ReplayLimits::default()
            };
            config.max_absent_clients = 1;
        }
        3 => config.max_parts_per_turn = 6,
        4 => config.max_turn_bytes = 1500,
        _ => {}
    }
    // Agents that say nothing, with and without a word about it before it is too late.
    match choices.below(4) {
        0 => config.silence_notice_ms = 0,
        1 => config.silence_notice_ms = 300,
        _ => return config,
    }
    config.silence_limit_ms = 900;
    config
}
