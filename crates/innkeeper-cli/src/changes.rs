//! `innkeeper changes`: prints which files a session or one of its turns changed.

use std::time::Duration;

use ahp::SubscriptionEvent;
use ahp::reducers::apply_action_to_changeset;
use ahp_types::commands::{ContentEncoding, ResourceReadParams, ResourceReadResult};
use ahp_types::state::{ChangesetFile, ChangesetState, ChangesetStatus, ChatState, FileEditSide, SessionSummary};
use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};

use crate::args::{ChangesArgs, ChangesView};
use crate::connection::{Connection, connection_lost};
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::sessions::{all_sessions, choose_session};
use crate::terminal::{Output, one_line};

/// How long the host may compute.
const COMPUTE_TIME: Duration = Duration::from_secs(120);

/// Prints the changes.
pub(crate) async fn run(dir: &DataDir, args: ChangesArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    let session = find_session(&connection, args.session.as_deref()).await?;
    let uri = match &args.turn {
        Some(turn) => turn_uri(&connection, &session, turn).await?,
        None => format!("{}/changeset/{}", session.resource, name(args.view)),
    };
    // The contents of its files can be read by clients that see the session.
    connection.subscribe(&session.resource).await?;
    let state = computed(&mut connection, &uri).await?;
    let mut output = Output::stdout();
    if args.json {
        let json = serde_json::to_string(&state).unwrap_or_default();
        output.show(&format!("{json}\n"))?;
    } else {
        let directories = session.working_directories.clone().unwrap_or_default();
        output.show(&listed(&state, &directories))?;
        if args.diff {
            for file in &state.files {
                output.show(&changed_lines(&connection, file, &directories).await)?;
            }
        }
    }
    connection.close().await;
    Ok(())
}

fn name(view: ChangesView) -> &'static str {
    match view {
        ChangesView::Session => "session",
        ChangesView::Uncommitted => "uncommitted",
        ChangesView::Branch => "branch",
    }
}

async fn find_session(connection: &Connection, wanted: Option<&str>) -> Result<SessionSummary, Failure> {
    let sessions = all_sessions(connection).await?;
    let found = match wanted {
        Some(wanted) => {
            let uri = choose_session(wanted, sessions.iter().map(|session| session.resource.as_str()))?.to_owned();
            sessions.into_iter().find(|session| session.resource == uri)
        }
        None => sessions.into_iter().next(),
    };
    found.ok_or_else(|| Failure::new(Kind::Rejected, "this host has no sessions").hint("`innkeeper send` creates one"))
}

/// The changeset of a turn, by the turn's id or its number.
async fn turn_uri(connection: &Connection, session: &SessionSummary, wanted: &str) -> Result<String, Failure> {
    let mut id = wanted.to_owned();
    if let (Ok(number), Some(chat)) = (wanted.parse::<usize>(), &session.default_chat) {
        let (chat, _): (ChatState, i64) = connection.subscribe_to_state(chat).await?;
        let turns: Vec<&String> = chat.turns.iter().map(|turn| &turn.id).collect();
        if !turns.iter().any(|turn| *turn == wanted) {
            let turn = number.checked_sub(1).and_then(|index| turns.get(index));
            let count = turns.len();
            id = turn.map(|turn| (*turn).clone()).ok_or_else(|| {
                Failure::new(
                    Kind::Rejected,
                    format!("the session has no turn {number}; it has {count}"),
                )
            })?;
        }
    }
    let mut encoded = String::new();
    for byte in id.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(format!("{}/changeset/turn/{encoded}", session.resource))
}

/// Subscribes to a changeset and waits until it is computed.
async fn computed(connection: &mut Connection, uri: &str) -> Result<ChangesetState, Failure> {
    let (mut state, seen): (ChangesetState, i64) = connection.subscribe_to_state(uri).await?;
    let waiting = async {
        loop {
            match state.status {
                ChangesetStatus::Ready => return Ok(state),
                ChangesetStatus::Error => {
                    let message = state.error.map(|error| error.message).unwrap_or_default();
                    return Err(Failure::new(Kind::Rejected, one_line(&message, 400)));
                }
                _ => {}
            }
            let event = connection.events.recv().await.ok_or_else(connection_lost)?;
            if let SubscriptionEvent::Action(envelope) = event.event
                && event.channel == uri
                && i64::try_from(envelope.server_seq).is_ok_and(|seq| seq > seen)
            {
                apply_action_to_changeset(&mut state, &envelope.action);
            }
        }
    };
    match tokio::time::timeout(COMPUTE_TIME, waiting).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::new(
            Kind::Unexpected,
            "the host did not compute the changes within two minutes",
        )),
    }
}

/// The list of files, and the sum of their lines.
fn listed(state: &ChangesetState, directories: &[String]) -> String {
    if state.files.is_empty() {
        return "No changes.\n".to_owned();
    }
    let mut text = String::new();
    let (mut added, mut removed) = (0, 0);
    for file in &state.files {
        let lines = match &file.edit.diff {
            Some(diff) => {
                added += diff.added.unwrap_or_default();
                removed += diff.removed.unwrap_or_default();
                format!(
                    "+{} -{}",
                    diff.added.unwrap_or_default(),
                    diff.removed.unwrap_or_default()
                )
            }
            None => "not text".to_owned(),
        };
        let reviewed = if file.reviewed == Some(true) { "  reviewed" } else { "" };
        text.push_str(&format!("{}  {lines}{reviewed}\n", described(file, directories)));
    }
    let count = state.files.len();
    let files = if count == 1 { "file" } else { "files" };
    text.push_str(&format!("{count} {files}, +{added} -{removed}\n"));
    if let Some(notice) = notice(state) {
        text.push_str(&format!("{}.\n", one_line(notice, 400)));
    }
    text
}

/// The remark of the host about the whole list, such as that it is cut.
fn notice(state: &ChangesetState) -> Option<&str> {
    state.files.first()?.meta.as_ref()?.get("innkeeper.notice")?.as_str()
}

/// The kind of change, and the file.
fn described(file: &ChangesetFile, directories: &[String]) -> String {
    let shown = |side: &FileEditSide| short(&side.uri, directories);
    match (&file.edit.before, &file.edit.after) {
        (Some(before), Some(after)) if before.uri == after.uri => format!("M {}", shown(after)),
        (Some(before), Some(after)) => format!("R {} -> {}", shown(before), shown(after)),
        (None, Some(after)) => format!("A {}", shown(after)),
        (Some(before), None) => format!("D {}", shown(before)),
        (None, None) => "?".to_owned(),
    }
}

/// The path of a file in the directories of the session.
fn short(uri: &str, directories: &[String]) -> String {
    let inside = directories.iter().find_map(|directory| {
        let rest = uri.strip_prefix(directory.trim_end_matches('/'))?;
        rest.strip_prefix('/')
    });
    let path = match inside {
        Some(inside) => inside.to_owned(),
        None => uri.strip_prefix("file://").unwrap_or(uri).to_owned(),
    };
    one_line(&percent_decoded(&path), 400)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let digits = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The changed lines of a file, with three lines around them.
async fn changed_lines(connection: &Connection, file: &ChangesetFile, directories: &[String]) -> String {
    let mut text = format!("\n{}\n", described(file, directories));
    if file.edit.diff.is_none() {
        return text + "(not text)\n";
    }
    let before = content(connection, file.edit.before.as_ref()).await;
    let after = content(connection, file.edit.after.as_ref()).await;
    match (before, after) {
        (Ok(before), Ok(after)) => text.push_str(&unified(&before, &after)),
        (Err(failure), _) | (_, Err(failure)) => text.push_str(&format!("({})\n", one_line(&failure, 400))),
    }
    text
}

async fn content(connection: &Connection, side: Option<&FileEditSide>) -> Result<String, String> {
    let Some(side) = side else {
        return Ok(String::new());
    };
    let params = ResourceReadParams {
        channel: ahp_types::ROOT_RESOURCE_URI.to_owned(),
        meta: None,
        uri: side.content.uri.clone(),
        encoding: None,
    };
    let read: Result<ResourceReadResult, Failure> = connection.request("resourceRead", params).await;
    match read {
        Ok(read) if read.encoding == ContentEncoding::Utf8 => Ok(read.data),
        Ok(_) => Err("not text".to_owned()),
        Err(failure) => Err(failure.to_string()),
    }
}

/// A unified diff, without characters that would control the terminal.
fn unified(before: &str, after: &str) -> String {
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let printer = BasicLineDiffPrinter(&input.interner);
    let text = diff
        .unified_diff(&printer, UnifiedDiffConfig::default(), &input)
        .to_string();
    let plain = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_the_changed_lines_with_lines_around_them() {
        let before = "a\nb\nc\nd\ne\nf\ng\n";
        let after = "a\nb\nc\nd\nE\nf\ng\n";
        let diff = unified(before, after);
        assert!(diff.ends_with(" b\n c\n d\n-e\n+E\n f\n g\n"), "{diff}");
        assert!(unified("", "x\n").ends_with("+x\n"));
        assert!(unified("x\n", "").ends_with("-x\n"));
        assert!(unified("", "\u{1b}[2J\n").ends_with("+\u{fffd}[2J\n"), "no escapes");
    }

    #[test]
    fn a_list_that_is_cut_says_so() {
        let file = |meta: serde_json::Value| {
            serde_json::json!({
                "id": "file:///a",
                "edit": { "after": { "uri": "file:///a", "content": { "uri": "file:///a" } }, "diff": { "added": 1 } },
                "_meta": meta,
            })
        };
        let text = |meta: serde_json::Value| {
            let state = serde_json::json!({ "status": "ready", "files": [file(meta)] });
            listed(&serde_json::from_value(state).expect("a state"), &[])
        };
        assert_eq!(text(serde_json::json!({})), "A /a  +1 -0\n1 file, +1 -0\n");
        let notice = serde_json::json!({ "innkeeper.notice": "10001 files differ; the first 10000 are shown" });
        let cut = text(notice);
        assert!(
            cut.ends_with("\n10001 files differ; the first 10000 are shown.\n"),
            "{cut}"
        );
    }

    #[test]
    fn paths_are_relative_to_the_directories_of_the_session() {
        let directories = ["file:///srv/a%20b".to_owned()];
        assert_eq!(short("file:///srv/a%20b/c%20d.txt", &directories), "c d.txt");
        assert_eq!(short("file:///srv/other.txt", &directories), "/srv/other.txt");
        assert_eq!(short("file:///srv/a%20bc.txt", &directories), "/srv/a bc.txt");
    }
}
