//! `innkeeper mcp call`: calls a tool as an agent would, with the same approval, in a temporary session.

use std::collections::HashSet;
use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::time::Duration;

use ahp_types::actions::StateAction;
use ahp_types::state::{
    SessionInputRequest, SessionState, ToolCallConfirmationState, ToolCallResult, ToolResultContent,
};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::args::McpCallArgs;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::StopSignals;
use crate::terminal::{Output, note, one_line};

use super::full_result;
use super::server::{SessionLifetime, find, listed, no_server};
use super::session::{Session, SessionTarget};
use super::turn::{self, Turn};
use crate::connection::{Connection, request_failure};
use crate::pending::{MAX_LINE, PendingInput, decision};
use crate::terminal::NextCommand;

/// Timeout until a server has started. Some are downloaded first.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Calls a tool, or lists the tools.
pub(super) async fn run(dir: &DataDir, args: McpCallArgs) -> Result<(), Failure> {
    let arguments = arguments(&args.arguments)?;
    let mut connection = Connection::open(dir, &args.session.connect).await?;
    let mut signals = StopSignals::listen()?;
    let place = SessionTarget::find(&connection, &args.session).await?;
    let mut session = Session::open(&connection, place.directories).await?;
    let outcome = tokio::select! {
        outcome = work(&mut connection, &mut session, &args, &arguments) => outcome,
        _ = signals.next() => Err(turn::stopped()),
    };
    session.leave(&connection).await;
    connection.close().await;
    outcome
}

/// Returns the arguments of the command line as one line of JSON.
fn arguments(text: &str) -> Result<String, Failure> {
    let mut read = String::new();
    let text = match text {
        "-" => {
            let outcome = std::io::stdin().read_to_string(&mut read);
            outcome.map_err(|error| {
                Failure::new(
                    Kind::Usage,
                    format!("the arguments cannot be read from standard input ({error})"),
                )
            })?;
            &read
        }
        text => text,
    };
    serde_json::from_str::<Map<String, Value>>(text).map_err(|error| {
        Failure::new(Kind::Usage, format!("the arguments are not a JSON object ({error})"))
            .hint("write them like '{\"text\": \"hello\"}'")
    })?;
    Ok(without_white_space(text))
}

/// Removes the white space between JSON tokens. Numbers keep the digits that the user wrote.
fn without_white_space(json: &str) -> String {
    let (mut is_in_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_in_string => is_escaped = true,
            '"' => is_in_string = !is_in_string,
            ' ' | '\t' | '\r' | '\n' if !is_in_string => return false,
            _ => {}
        }
        true
    };
    json.chars().filter(is_kept).collect()
}

async fn work(
    connection: &mut Connection,
    session: &mut Session,
    args: &McpCallArgs,
    arguments: &str,
) -> Result<(), Failure> {
    // A turn begins after discovery and the start of servers.
    let tools = turn::say(connection, session, "/mcp").await?;
    let name = ready(connection, session, &args.name).await?;
    let Some(tool) = &args.tool else {
        return Output::stdout().show(&tools);
    };
    let command = format!("/mcp {} {} {}", word(&name), word(tool), arguments);
    let turn = Turn::start(connection, session, &command).await?;
    let mut call = Call {
        yes: args.yes,
        id: None,
        seen: HashSet::new(),
        result: None,
        is_denied: false,
        turn,
    };
    call.follow(connection, session).await?;
    if let Some(result) = &mut call.result {
        full_result::fetch(connection, result).await;
    }
    call.show(args)
}

/// Waits until the server is ready, and returns its name for the command.
async fn ready(connection: &mut Connection, session: &mut Session, wanted: &str) -> Result<String, Failure> {
    let Some(id) = find(&session.state, wanted)?.map(|server| server.server.id.clone()) else {
        return Err(no_server(&session.state, wanted));
    };
    let has_settled = |state: &SessionState| !find(state, &id).ok().flatten().is_some_and(|found| found.is_starting());
    session
        .until(connection, Instant::now() + START_TIMEOUT, has_settled)
        .await?;
    let Some(server) = find(&session.state, &id)? else {
        return Err(no_server(&session.state, wanted));
    };
    if let Some(failure) = server.failure_in(SessionLifetime::Temporary, &NextCommand::plain()) {
        return Err(failure);
    }
    let name = &server.server.name;
    let servers = listed(&session.state);
    let namesakes = servers.iter().filter(|other| other.server.name == *name).count();
    Ok(if namesakes == 1 { name.clone() } else { id })
}

/// Quotes a word of a command of the tour agent.
fn word(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.starts_with('"') && !text.contains(char::is_whitespace);
    if is_plain {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// A running call.
struct Call {
    /// Whether `--yes` approved this call.
    yes: bool,
    turn: Turn,
    /// Its id, once the agent has started it.
    id: Option<String>,
    /// The pending inputs that were shown.
    seen: HashSet<String>,
    result: Option<ToolCallResult>,
    is_denied: bool,
}

impl Call {
    /// Follows the call to its end, and asks the user for approval.
    async fn follow(&mut self, connection: &mut Connection, session: &mut Session) -> Result<(), Failure> {
        let (say, mut answers) = mpsc::channel::<(PendingInput, bool)>(1);
        loop {
            for request in session.state.input_needed.clone().unwrap_or_default() {
                let wait = PendingInput::new(&session.state, session.uri.clone(), request);
                if self.seen.insert(wait.id().to_owned()) {
                    self.meet(connection, wait, &say).await?;
                }
            }
            let envelope = tokio::select! {
                envelope = session.next(connection) => envelope?,
                Some((wait, is_allowed)) = answers.recv() => {
                    decide(connection, wait, is_allowed).await?;
                    self.is_denied |= !is_allowed;
                    continue;
                }
            };
            self.note(&envelope.action);
            if let Some(ended) = self.turn.follow(&envelope) {
                return ended;
            }
        }
    }

    /// Applies an action.
    fn note(&mut self, action: &StateAction) {
        match action {
            StateAction::ChatToolCallStart(call) if call.turn_id == self.turn.id => {
                self.id.get_or_insert_with(|| call.tool_call_id.clone());
            }
            StateAction::ChatToolCallComplete(call) if Some(&call.tool_call_id) == self.id.as_ref() => {
                self.result = Some(call.result.clone());
            }
            StateAction::ChatToolCallConfirmed(call) if Some(&call.tool_call_id) == self.id.as_ref() => {
                self.is_denied |= !call.approved;
            }
            _ => {}
        }
    }

    /// Handles a pending input: asks for the approval of this call here, and names the command for any other.
    async fn meet(
        &self,
        connection: &Connection,
        wait: PendingInput,
        say: &mpsc::Sender<(PendingInput, bool)>,
    ) -> Result<(), Failure> {
        if !self.is_approval(&wait.request) {
            tell(&wait);
            return Ok(());
        }
        if self.yes {
            return decide(connection, wait, true).await;
        }
        show(&wait);
        if !std::io::stdin().is_terminal() {
            return Err(
                Failure::new(Kind::Usage, "nothing was called: approval needs a terminal")
                    .hint("use --yes to approve this call"),
            );
        }
        note("Call it? [y/N]");
        let say = say.clone();
        // On its own thread: if another client answers first, the command does not wait for it.
        std::thread::spawn(move || {
            let mut answer = String::new();
            // A closed terminal means no.
            let _ = std::io::stdin().lock().read_line(&mut answer);
            let is_allowed = matches!(answer.trim(), "y" | "Y" | "yes");
            let _ = say.blocking_send((wait, is_allowed));
        });
        Ok(())
    }

    fn is_approval(&self, request: &SessionInputRequest) -> bool {
        let SessionInputRequest::ToolConfirmation(request) = request else {
            return false;
        };
        match &request.tool_call {
            ToolCallConfirmationState::PendingConfirmation(call) => {
                let is_it = self.id.as_ref().is_none_or(|id| *id == call.tool_call_id);
                is_it && request.chat == self.turn.chat && request.turn_id == self.turn.id
            }
            _ => false,
        }
    }

    /// Shows the result.
    fn show(self, args: &McpCallArgs) -> Result<(), Failure> {
        let Some(result) = self.result else {
            return Err(match self.is_denied {
                true => Failure::new(Kind::Usage, "nothing was called"),
                false => {
                    let tool = one_line(args.tool.as_deref().unwrap_or_default(), 100);
                    let name = one_line(&args.name, 100);
                    Failure::new(Kind::Unexpected, format!("{name} has no tool {tool}"))
                        .hint(format!("`innkeeper mcp call {name}` lists its tools"))
                }
            });
        };
        let mut output = Output::stdout();
        if args.json {
            let json = serde_json::to_string(&result).map_err(|error| {
                Failure::new(
                    Kind::Unexpected,
                    format!("the result cannot be written as JSON ({error})"),
                )
            })?;
            output.show(&format!("{json}\n"))?;
        } else {
            output.show(&in_words(&result))?;
        }
        if result.success {
            return Ok(());
        }
        let message = result.error.as_ref().and_then(|error| error.get("message"));
        let message = message.and_then(Value::as_str).unwrap_or("it does not say why");
        Err(Failure::new(
            Kind::Unexpected,
            format!("the tool failed: {}", one_line(message, 1000)),
        ))
    }
}

/// Returns a tool result as text. Other contents are named.
fn in_words(result: &ToolCallResult) -> String {
    let mut text = String::new();
    for piece in result.content.iter().flatten() {
        let line = match piece {
            // Report errors as such.
            ToolResultContent::Text(_) if !result.success => continue,
            ToolResultContent::Text(piece) => piece.text.clone(),
            ToolResultContent::EmbeddedResource(piece) => format!("({}, which --json prints)", piece.content_type),
            ToolResultContent::Resource(piece) => piece.uri.clone(),
            _ => "(something that --json prints)".to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    match &result.structured_content {
        Some(structured) if text.is_empty() => format!("{}\n", Value::Object(structured.clone())),
        _ => text,
    }
}

fn show(wait: &PendingInput) {
    note(&one_line(&wait.describe(), MAX_LINE));
    for line in wait.details() {
        note(&line);
    }
}

/// Names another pending input, and the command that answers it.
fn tell(wait: &PendingInput) {
    show(wait);
    if let Some(command) = wait.sign_in_command() {
        note(&format!(
            "[sign in with `{}` in another terminal; then the call continues]",
            one_line(&command, 500)
        ));
        return;
    }
    for hint in wait.hints() {
        note(&one_line(&hint, MAX_LINE));
    }
    let id = one_line(wait.id(), 500);
    note(&match &wait.request {
        SessionInputRequest::ChatInput(_) => {
            format!("[answer with `innkeeper answer --id {id} question=answer` in another terminal]")
        }
        _ => format!("[`innkeeper approve {id}` or `innkeeper deny {id}` in another terminal]"),
    });
}

/// Approves or denies the call. If another client decided first, that is no failure.
async fn decide(connection: &Connection, wait: PendingInput, is_allowed: bool) -> Result<(), Failure> {
    let (chat, action) = decision(wait.request, is_allowed, None, None, None)?;
    let outcome = connection.client.dispatch(chat, action).await;
    outcome
        .map(drop)
        .map_err(|error| request_failure("dispatchAction", error))
}
