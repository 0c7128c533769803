//! Shows a terminal of the host in the user's own one, and passes on what the user types.

use std::io::Read as _;

use ahp::SubscriptionEvent;
use ahp_types::actions::{StateAction, TerminalInputAction, TerminalResizedAction};
use ahp_types::state::{TerminalContentPart, TerminalLifecycleState, TerminalState};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::own_screen::OwnScreen;
use super::raw_mode::{RawMode, size};
use crate::connection::{Connection, connection_lost, request_failure};
use crate::failure::{Failure, Kind};
use crate::terminal::{note, one_line};

/// Ctrl-], which detaches.
const DETACH: u8 = 0x1d;
/// Keys that wait for the host.
const MAX_KEYS: usize = 1024;

/// Shows a terminal until the user detaches or the process ends.
pub(super) async fn run(mut connection: Connection, uri: &str) -> Result<(), Failure> {
    let (state, seen): (TerminalState, i64) = connection.subscribe_to_state(uri).await?;
    let raw_mode = RawMode::enter();
    if raw_mode.is_on() {
        note("Attached. Ctrl-] detaches.\r");
    }
    // Dropped with the raw mode, before a message to the user.
    let mut screen = OwnScreen::new(raw_mode.is_on());
    for part in &state.content {
        match part {
            TerminalContentPart::Unclassified(part) => screen.write(&part.value)?,
            TerminalContentPart::Command(part) => screen.write(&part.output)?,
            TerminalContentPart::Unknown(_) => {}
        }
    }
    if let TerminalLifecycleState::Exited(exited) = &state.lifecycle {
        drop((screen, raw_mode));
        report_exit(exited.exit_code);
        connection.close().await;
        return Ok(());
    }
    resize(&connection, uri).await?;
    let mut keys = read_keys();
    let mut resized = signal(SignalKind::window_change()).map_err(|error| {
        Failure::new(
            Kind::Unexpected,
            format!("the program cannot follow the window's size ({error})"),
        )
    })?;
    let mut is_typing = true;
    loop {
        tokio::select! {
            event = connection.events.recv() => {
                let event = event.ok_or_else(connection_lost)?;
                if event.channel != uri {
                    continue;
                }
                let SubscriptionEvent::Action(envelope) = event.event else { continue };
                if i64::try_from(envelope.server_seq).is_ok_and(|seq| seq <= seen) {
                    continue;
                }
                if let Some(reason) = &envelope.rejection_reason {
                    // The size is that of the client that holds the terminal. Others can watch.
                    if let StateAction::TerminalResized(_) = envelope.action {
                        continue;
                    }
                    let text = one_line(reason, 160);
                    drop((screen, raw_mode));
                    connection.close().await;
                    return Err(Failure::new(Kind::Rejected, text));
                }
                match envelope.action {
                    StateAction::TerminalData(output) => screen.write(&output.data)?,
                    StateAction::TerminalCleared(_) => screen.write("\x1b[H\x1b[2J\x1b[3J")?,
                    StateAction::TerminalExited(exited) => {
                        drop((screen, raw_mode));
                        report_exit(exited.exit_code);
                        connection.close().await;
                        return Ok(());
                    }
                    _ => {}
                }
            }
            typed = keys.recv(), if is_typing => match typed {
                Some(typed) => {
                    let detach = typed.bytes().position(|byte| byte == DETACH).filter(|_| raw_mode.is_on());
                    let data = &typed[..detach.unwrap_or(typed.len())];
                    if !data.is_empty() {
                        let input = TerminalInputAction { data: data.to_owned() };
                        dispatch(&connection, uri, StateAction::TerminalInput(input)).await?;
                    }
                    if detach.is_some() {
                        drop((screen, raw_mode));
                        connection.close().await;
                        note("\nDetached. The terminal goes on.");
                        return Ok(());
                    }
                }
                // A script has no more input, and still wants the output.
                None => is_typing = false,
            },
            _ = resized.recv() => resize(&connection, uri).await?,
        }
    }
}

/// Gives the terminal of the host the size of the user's own.
async fn resize(connection: &Connection, uri: &str) -> Result<(), Failure> {
    let Some((cols, rows)) = size() else {
        return Ok(());
    };
    let resized = TerminalResizedAction {
        cols: cols.into(),
        rows: rows.into(),
    };
    dispatch(connection, uri, StateAction::TerminalResized(resized)).await
}

async fn dispatch(connection: &Connection, uri: &str, action: StateAction) -> Result<(), Failure> {
    let sent = connection.client.dispatch(uri.to_owned(), action).await;
    sent.map(|_| ())
        .map_err(|error| request_failure("dispatchAction", error))
}

/// Reads what the user types, in a thread: reading blocks, and the program ends without waiting for it.
fn read_keys() -> mpsc::Receiver<String> {
    let (keys, typed) = mpsc::channel(MAX_KEYS);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut rest: Vec<u8> = Vec::new();
        let mut stdin = std::io::stdin().lock();
        while let Ok(length @ 1..) = stdin.read(&mut buffer) {
            rest.extend_from_slice(buffer.get(..length).unwrap_or_default());
            // A character may arrive in two pieces.
            let complete = match std::str::from_utf8(&rest) {
                Ok(_) => rest.len(),
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Err(_) => rest.len(),
            };
            let after = rest.split_off(complete);
            let text = String::from_utf8_lossy(&rest).into_owned();
            rest = after;
            if !text.is_empty() && keys.blocking_send(text).is_err() {
                return;
            }
        }
    });
    typed
}

fn report_exit(exit_code: Option<i64>) {
    match exit_code {
        Some(code) => note(&format!("\nThe terminal's process exited with {code}.")),
        None => note("\nThe terminal's process has ended."),
    }
}
