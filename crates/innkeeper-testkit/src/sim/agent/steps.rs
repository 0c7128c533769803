//! The next step of an agent: mostly a valid one, sometimes an invalid one.

use innkeeper_core::agent::{
    ApprovalSubject, AuthRequirement, Choice, ConfirmOption, Confirmation, Contributor, FileChange, FileSide, Offer,
    Permission, Question, QuestionKind, Questions, Risk, ToolContent, ToolKind, ToolReady, ToolResult, ToolStart,
    ToolStep,
};
use innkeeper_core::{AgentEvent, ClientId, Usage};

use super::{Agent, Call, Phase, Run};
use crate::sim::Choices;

/// The tools that agents run themselves. Few, so that approvals meet.
const TOOLS: [&str; 2] = ["read", "run"];
/// Resources that calls need a token for.
pub const RESOURCES: [&str; 2] = ["https://mcp.example/a", "https://mcp.example/b"];

impl Agent {
    /// The next thing a run does.
    pub fn next_event(&mut self, chat: innkeeper_core::ChannelId, choices: &mut Choices<'_>) -> AgentEvent {
        let fresh = self.fresh_id("n");
        match self.run(chat) {
            Some(run) => next_of(run, fresh, choices),
            None => any_event(choices),
        }
    }
}

/// Something that needs no context.
pub fn any_event(choices: &mut Choices<'_>) -> AgentEvent {
    match choices.below(13) {
        0..=4 => AgentEvent::Text(["a", "\"b\"\n", "\u{1F600}", ""][choices.below(4)].to_owned()),
        5..=6 => AgentEvent::Reasoning("hm ".to_owned()),
        7 => AgentEvent::EndPart,
        8 => AgentEvent::Usage(Box::new(Usage {
            output_tokens: Some(choices.below(256) as u32),
            ..Usage::default()
        })),
        9 => AgentEvent::Activity((choices.below(2) == 0).then(|| "thinking".to_owned())),
        10 => match choices.below(3) {
            0 => AgentEvent::Notice("a remark".to_owned()),
            1 => AgentEvent::Alive,
            _ => AgentEvent::Resource {
                uri: "file:///image.png".to_owned(),
                content_type: Some("image/png".to_owned()),
                size: None,
            },
        },
        11 => AgentEvent::Title(format!("title {}", choices.below(4))),
        _ => {
            let call = Call {
                tool: TOOLS[0].to_owned(),
                owner: None,
                is_mcp: true,
                phase: Phase::Running,
                input: None,
                resource: None,
                own_offer: false,
                starts: false,
            };
            tool("unknown", wrong_step(&call, choices))
        }
    }
}

fn next_of(run: &Run, fresh: String, choices: &mut Choices<'_>) -> AgentEvent {
    let open: Vec<&String> = run
        .calls
        .iter()
        .filter(|(_, call)| call.phase != Phase::Over)
        .map(|(id, _)| id)
        .collect();
    match choices.below(23) {
        20..=22 => match super::subagents::spawn(run, choices) {
            Some(spawn) => spawn,
            None => start(run, fresh, choices),
        },
        0..=2 => any_event(choices),
        3..=5 => start(run, fresh, choices),
        6..=15 => match choices.pick(&open).and_then(|id| Some((*id, run.calls.get(*id)?))) {
            Some((id, call)) => sensible(id, call, choices),
            None => start(run, fresh, choices),
        },
        16 => {
            let ids: Vec<&String> = run.calls.keys().collect();
            match choices.pick(&ids).and_then(|id| Some((*id, run.calls.get(*id)?))) {
                Some((id, call)) => tool(id, wrong_step(call, choices)),
                None => any_event(choices),
            }
        }
        17 => AgentEvent::TakeSteering,
        // Asking again replaces the question (INP-01).
        18 if choices.one_in(4) && !run.questions.is_empty() => {
            let asked: Vec<&String> = run.questions.iter().collect();
            let id = choices.pick(&asked).map(|id| (*id).clone()).unwrap_or(fresh);
            ask(id, choices)
        }
        _ => ask(fresh, choices),
    }
}

fn start(run: &Run, id: String, choices: &mut Choices<'_>) -> AgentEvent {
    let contributor = match choices.below(6) {
        0..=1 => Contributor::Host,
        2 => Contributor::Mcp("server".to_owned()),
        // A client that has left meanwhile, or never was here.
        3 if choices.one_in(3) => Contributor::Client(ClientId::new(["client-0", "stranger"][choices.below(2)])),
        _ => match choices.pick(&run.tools) {
            Some(offered) => Contributor::Client(offered.client.clone()),
            None => Contributor::Host,
        },
    };
    let name = match &contributor {
        Contributor::Client(_) => "open".to_owned(),
        Contributor::Host | Contributor::Mcp(_) => TOOLS[choices.below(TOOLS.len())].to_owned(),
    };
    let start = ToolStart {
        display_name: name.clone(),
        kind: (name.len() % 2 == 0).then_some(ToolKind::Terminal),
        name,
        intention: choices.one_in(4).then(|| "to see".to_owned()),
        contributor,
        mcp: None,
        ui: None,
        meta: serde_json::Map::new(),
    };
    tool(&id, ToolStep::Start(start))
}

/// A step that fits how far the call is.
fn sensible(id: &str, call: &Call, choices: &mut Choices<'_>) -> AgentEvent {
    let step = match call.phase {
        Phase::Streaming => match choices.below(4) {
            0 => ToolStep::Input("{\"a\":".to_owned()),
            1 => ToolStep::Announce("Doing something".into()),
            _ => ready(choices),
        },
        Phase::Asking => match choices.below(8) {
            0..=1 => ToolStep::Risk(risk(choices)),
            2 => ready(choices),
            // It waits, as agents do.
            _ => return AgentEvent::Alive,
        },
        Phase::Running if call.owner.is_some() => match choices.below(8) {
            0 => done(false, false),
            1 => ready(choices),
            _ => return AgentEvent::Alive,
        },
        Phase::Running => match choices.below(8) {
            0..=2 => ToolStep::Content(content(choices)),
            3..=5 if call.is_mcp => auth(choices),
            3 => ready(choices),
            5 => done(true, true),
            _ => done(choices.below(4) > 0, choices.one_in(4)),
        },
        Phase::SigningIn => match choices.below(4) {
            0 => ToolStep::AuthResolved,
            1 => done(false, choices.below(2) == 0),
            _ => return AgentEvent::Alive,
        },
        Phase::Reviewing | Phase::Over => return AgentEvent::Alive,
    };
    tool(id, step)
}

/// Any step at all.
fn wrong_step(call: &Call, choices: &mut Choices<'_>) -> ToolStep {
    match choices.below(8) {
        0 => ToolStep::Input("more".to_owned()),
        1 => ready(choices),
        2 => ToolStep::Risk(risk(choices)),
        3 => ToolStep::Content(content(choices)),
        4 => auth(choices),
        5 => ToolStep::AuthResolved,
        6 => done(choices.below(2) == 0, choices.below(2) == 0),
        _ => ToolStep::Start(ToolStart {
            name: call.tool.clone(),
            display_name: "again".to_owned(),
            intention: None,
            contributor: Contributor::Host,
            kind: None,
            mcp: None,
            ui: None,
            meta: serde_json::Map::new(),
        }),
    }
}

fn tool(id: &str, step: ToolStep) -> AgentEvent {
    AgentEvent::Tool {
        call: id.to_owned(),
        step: Box::new(step),
    }
}

fn ready(choices: &mut Choices<'_>) -> ToolStep {
    let option = |id: &str, approves| ConfirmOption {
        id: id.to_owned(),
        label: id.to_owned(),
        approves,
        group: None,
    };
    let permission = match choices.below(6) {
        0 => Permission::NotNeeded,
        1 => Permission::Ask(Box::new(Confirmation {
            offer: Offer::Own(vec![option("go", true), option("stop", false)]),
            ..Confirmation::default()
        })),
        n => Permission::Ask(Box::new(Confirmation {
            title: Some("Really?".to_owned()),
            editable: n % 2 == 0,
            edits: if n == 5 { vec![change()] } else { Vec::new() },
            risk: (n == 4).then_some(Risk::Assessing),
            subject: ApprovalSubject::Call,
            offer: Offer::Standard,
        })),
    };
    // A rule for this tool names its input, so a call that asks has one.
    let has_input = choices.below(4) > 0 || !matches!(permission, Permission::NotNeeded);
    ToolStep::Ready(ToolReady {
        invocation: "Doing it".into(),
        input: has_input.then(|| format!("{{\"n\":{}}}", choices.below(3))),
        permission,
    })
}

fn risk(choices: &mut Choices<'_>) -> Risk {
    match choices.below(3) {
        0 => Risk::Assessing,
        n => Risk::Assessed {
            reason: "it looks harmless".to_owned(),
            safety: n as f64 / 4.0,
        },
    }
}

fn content(choices: &mut Choices<'_>) -> Vec<ToolContent> {
    let one = match choices.below(5) {
        0 => ToolContent::Embedded {
            data: "aGk=".to_owned(),
            content_type: "text/plain".to_owned(),
        },
        1 => ToolContent::Resource {
            uri: "file:///r".to_owned(),
            content_type: None,
            size: None,
            mention: None,
        },
        2 => ToolContent::FileEdit(change()),
        3 => ToolContent::Terminal {
            uri: "ahp-terminal:/t".to_owned(),
            title: "sh".to_owned(),
            is_pty: false,
            exit_code: (choices.below(2) == 0).then_some(0),
            preview: None,
        },
        _ => ToolContent::Text("so far".to_owned()),
    };
    vec![one]
}

fn change() -> FileChange {
    FileChange {
        before: None,
        after: Some(FileSide::new("file:///f", "file:///f.new")),
        added: 3,
        removed: 0,
    }
}

fn auth(choices: &mut Choices<'_>) -> ToolStep {
    ToolStep::AuthRequired(AuthRequirement {
        resource: RESOURCES[choices.below(RESOURCES.len())].to_owned(),
        resource_name: None,
        authorization_servers: vec!["https://login.example".to_owned()],
        scopes: Vec::new(),
        description: None,
        ..AuthRequirement::default()
    })
}

fn done(success: bool, review: bool) -> ToolStep {
    let result = match success {
        true => ToolResult::text("Did it", "output"),
        false => ToolResult::failed("Could not do it", "no"),
    };
    ToolStep::Done { result, review }
}

/// Some of the six kinds of question, each under an id that tells its kind.
fn ask(id: String, choices: &mut Choices<'_>) -> AgentEvent {
    let options = || vec![Choice::new("a", "A"), Choice::new("b", "B")];
    let kinds = [
        (
            "text",
            QuestionKind::Text {
                format: None,
                default: None,
                min: None,
                max: Some(9),
            },
        ),
        (
            "number",
            QuestionKind::Number {
                min: Some(0.5),
                max: None,
                default: None,
            },
        ),
        (
            "integer",
            QuestionKind::Integer {
                min: Some(1),
                max: None,
                default: Some(3),
            },
        ),
        ("boolean", QuestionKind::Boolean { default: None }),
        (
            "one",
            QuestionKind::One {
                options: options(),
                freeform: false,
            },
        ),
        (
            "many",
            QuestionKind::Many {
                options: options(),
                freeform: true,
                min: None,
                max: Some(2),
            },
        ),
    ];
    let (first, most) = (choices.below(6), 1 + choices.below(3));
    let questions = kinds
        .into_iter()
        .cycle()
        .skip(first)
        .take(most)
        .map(|(id, kind)| Question {
            id: id.to_owned(),
            title: None,
            message: format!("What about {id}?"),
            required: true,
            kind,
        })
        .collect();
    AgentEvent::Ask(Box::new(Questions {
        id,
        message: Some("A few things".to_owned()),
        url: choices.one_in(8).then(|| "https://example/form".to_owned()),
        questions,
    }))
}
