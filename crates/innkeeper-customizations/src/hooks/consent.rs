//! Asks whether the hooks of a workspace or of a client's plugin may run: once, and again after a change (P12).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_host::EventSink;
use innkeeper_host::agent::{AnswerValue, Choice, Form, Response};
use innkeeper_plugins::{CommandLine, Hook, HookAction};
use serde_json::json;

use super::SourcedHooks;
use super::scripts::ScriptDigests;
use crate::canonical::canonical_json;
use crate::trust::{Contents, MAX_PIECES, Subject, TrustFile, TrustKind, TrustStatus, Verdict};

/// Maximum bytes of the line for one hook, and of all lines together: a user does not read more, and cannot agree to
/// what they did not read.
const MAX_LINE: usize = 4 << 10;
const MAX_SHOWN: usize = 32 << 10;
/// Maximum number of lines about removed pieces, which do not run.
const MAX_GONE: usize = 20;
/// Interval of checks for an answer in another session or process.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The subject of the question; `None` if the hooks are the user's own.
pub(super) fn subject(hooks: &SourcedHooks) -> Option<Subject> {
    hooks.origin.subject(TrustKind::Hooks)
}

/// Everything that the hooks of one subject would run.
///
/// # Errors
///
/// If it exceeds the limits of what is shown or read. It is not trusted then.
pub(super) fn contents<'a>(files: impl Iterator<Item = &'a SourcedHooks>) -> Result<Contents, String> {
    let mut contents = Contents::default();
    let mut looked = ScriptDigests::default();
    let mut roots = BTreeSet::new();
    for file in files {
        for hook in &file.file.hooks {
            if let HookAction::Command(command) = &hook.action {
                let what = format!("{} ({})", in_a_line(hook, command), visible(&file.label));
                if what.len() > MAX_LINE {
                    let length = what.len();
                    return Err(format!(
                        "one of their commands has {length} bytes, too many to be shown"
                    ));
                }
                contents.add(what, canonical(file, hook, command).as_bytes());
                for (shown, digest) in looked.scripts(file, command)? {
                    contents.add_digest(format!("file {shown}"), &digest);
                }
            }
        }
        // The publisher also wrote the files that its scripts load, so all files count.
        let is_published = file.origin.is_of_client();
        if let Some(root) = file.root.as_deref().filter(|_| is_published)
            && roots.insert(root)
        {
            let (count, digest) = looked.everything(root)?;
            contents.add_digest(format!("all files of the plugin ({count})"), &digest);
        }
    }
    let (pieces, bytes) = (contents.pieces().len(), contents.pieces().iter());
    let bytes: usize = bytes.map(|piece| piece.what.len()).sum();
    if pieces > MAX_PIECES || bytes > MAX_SHOWN {
        return Err(format!("they are {pieces} commands and files, too many to be shown"));
    }
    Ok(contents)
}

/// A hook in one line for users: everything that decides what it does.
pub(super) fn in_a_line(hook: &Hook, command: &CommandLine) -> String {
    let matcher = hook.matcher.as_deref().filter(|matcher| !matcher.is_empty());
    let matcher = matcher
        .map(|matcher| format!(" on {}", visible(matcher)))
        .unwrap_or_default();
    let line = command.here().unwrap_or_default();
    let args = command.args.as_deref().unwrap_or_default();
    let line = std::iter::once(line)
        .chain(args.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ");
    let mut shown = format!("{}{matcher}: {}", hook.event.as_str(), visible(&line));
    if let Some(cwd) = &command.cwd {
        shown.push_str(&format!(" [in {}]", visible(cwd)));
    }
    for (name, value) in &command.env {
        shown.push_str(&format!(" [with {}={}]", visible(name), visible(value)));
    }
    shown
}

/// Everything that decides what a hook does. Not the path of its plugin: a client's plugin is copied for every
/// revision, and its files count by themselves.
fn canonical(file: &SourcedHooks, hook: &Hook, command: &CommandLine) -> String {
    let all = json!({
        "origin": format!("{:?}", file.file.origin),
        "event": hook.event.as_str(),
        "matcher": hook.matcher,
        "command": command.here(),
        "args": command.args,
        "cwd": command.cwd,
        "env": command.env,
    });
    canonical_json(all)
}

/// The result of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Consent {
    Given,
    Refused,
    /// The user has not decided, so nothing runs for now.
    Open,
}

/// Asks the user, unless they have decided. Returns `None` if no user can be asked.
pub(super) async fn ask(
    trust: &Arc<TrustFile>,
    subject: &Subject,
    files: &[SourcedHooks],
    events: Option<&EventSink>,
) -> Result<Consent, String> {
    let contents = look(files).await?;
    let status = status(trust, subject, &contents).await?;
    let form = match (&status, events) {
        (TrustStatus::Trusted, _) => return Ok(Consent::Given),
        (TrustStatus::Refused, _) => return Ok(Consent::Refused),
        (_, None) => return Ok(Consent::Open),
        (TrustStatus::Unknown | TrustStatus::Changed { .. }, Some(_)) => form(subject, files, &contents, &status),
    };
    let Some(events) = events else {
        return Ok(Consent::Open);
    };
    decide(trust, subject, &contents, Verdict::Asked).await?;
    let answered = tokio::select! {
        answer = events.ask(form) => answer,
        // In another session, or with `innkeeper trust`.
        verdict = answered_elsewhere(trust, subject, files, &contents) => return verdict,
    };
    let Ok(answer) = answered else {
        return Ok(Consent::Open);
    };
    let verdict = match (answer.response, answer.values.get(QUESTION)) {
        (Response::Accept, Some(AnswerValue::Selected { ids, .. })) if ids.iter().any(|id| id == YES) => {
            Verdict::Trusted
        }
        (Response::Accept, Some(AnswerValue::Selected { ids, .. })) if ids.iter().any(|id| id == NO) => {
            Verdict::Refused
        }
        _ => return Ok(Consent::Open),
    };
    decide(trust, subject, &contents, verdict).await?;
    if verdict == Verdict::Refused {
        return Ok(Consent::Refused);
    }
    unchanged(files, &contents).await
}

/// The user agreed to the contents that were shown, and not to the contents of now.
async fn unchanged(files: &[SourcedHooks], shown: &Contents) -> Result<Consent, String> {
    if look(files).await?.digest() != shown.digest() {
        return Err("the commands changed while the question was open, so they are not run".to_owned());
    }
    Ok(Consent::Given)
}

const QUESTION: &str = "trust";
const YES: &str = "trust";
const NO: &str = "refuse";

pub(super) async fn answered_elsewhere(
    trust: &Arc<TrustFile>,
    subject: &Subject,
    files: &[SourcedHooks],
    contents: &Contents,
) -> Result<Consent, String> {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match status(trust, subject, contents).await {
            Ok(TrustStatus::Trusted) => return unchanged(files, contents).await,
            Ok(TrustStatus::Refused) => return Ok(Consent::Refused),
            Ok(TrustStatus::Unknown | TrustStatus::Changed { .. }) | Err(_) => {}
        }
    }
}

fn form(subject: &Subject, files: &[SourcedHooks], contents: &Contents, status: &TrustStatus) -> Form {
    let who = match files.first() {
        Some(file) if file.origin.is_of_client() => {
            let name = file.plugin.as_deref().unwrap_or("of a client");
            format!("The plugin {} ({})", visible(name), visible(&subject.place))
        }
        _ => format!("The workspace {}", visible(&subject.place)),
    };
    let mut message = format!(
        "{who} has hooks: commands that run by themselves at certain moments, with all your rights and without asking \
         again. Let them run only if you know where they come from.\n"
    );
    if let TrustStatus::Changed { now, before } = status {
        message.push_str("\nThey have changed since your decision. New or different:\n");
        list(&mut message, now.iter().map(String::as_str), usize::MAX);
        message.push_str("\nGone, or different before:\n");
        list(&mut message, before.iter().map(String::as_str), MAX_GONE);
    }
    message.push_str("\nThey would run:\n");
    let pieces = contents.pieces().iter();
    list(&mut message, pieces.map(|piece| piece.what.as_str()), usize::MAX);
    Form::new(message)
        .one(
            QUESTION,
            "May these hooks run?",
            [
                Choice::new(YES, "Run them, now and in future, until they change"),
                Choice::new(NO, "Do not run them, until they change"),
            ],
        )
        .required()
}

fn list<'a>(message: &mut String, lines: impl Iterator<Item = &'a str>, most: usize) {
    let lines: Vec<&str> = lines.collect();
    for line in lines.iter().take(most) {
        message.push_str("- ");
        message.push_str(line);
        message.push('\n');
    }
    if let Some(more) = lines.len().checked_sub(most).filter(|more| *more > 0) {
        message.push_str(&format!("- and {more} more\n"));
    }
    if lines.is_empty() {
        message.push_str("- nothing\n");
    }
}

/// Untrusted text in one line, without invisible characters: blanks do not push the rest out of sight, and line ends,
/// which end a comment, are visible.
pub(crate) fn visible(text: &str) -> String {
    let mut line = String::new();
    for c in text.trim().chars() {
        match c {
            '\n' => line.push('⏎'),
            c if c.is_whitespace() => {
                if !line.ends_with(' ') {
                    line.push(' ');
                }
            }
            // A character that could hide or reverse the rest is shown as its code point.
            c if c.is_control()
                || matches!(c, '\u{ad}' | '\u{115f}' | '\u{1160}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}') =>
            {
                line.extend(c.escape_unicode());
            }
            c => line.push(c),
        }
    }
    line
}

async fn look(files: &[SourcedHooks]) -> Result<Contents, String> {
    let files = files.to_vec();
    apart(move || Ok(contents(files.iter()))).await?
}

async fn status(trust: &Arc<TrustFile>, subject: &Subject, contents: &Contents) -> Result<TrustStatus, String> {
    let (trust, subject, contents) = (Arc::clone(trust), subject.clone(), contents.clone());
    apart(move || trust.status(&subject, &contents)).await
}

async fn decide(
    trust: &Arc<TrustFile>,
    subject: &Subject,
    contents: &Contents,
    verdict: Verdict,
) -> Result<(), String> {
    let (trust, subject, contents) = (Arc::clone(trust), subject.clone(), contents.clone());
    apart(move || trust.decide(&subject, &contents, verdict)).await
}

/// Runs blocking file access on another thread.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("the host failed to look at the hooks; its log says more".to_owned()),
    }
}
