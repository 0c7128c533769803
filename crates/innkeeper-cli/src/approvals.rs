//! `innkeeper approvals`: the rules that allow tool calls without asking, in a session, in a workspace or everywhere.

use ahp_types::common::ROOT_RESOURCE_URI;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::args::{
    AllowApprovalArgs, ApprovalScopeArgs, ApprovalsArgs, ApprovalsCommand, ListApprovalsArgs, RevokeApprovalArgs,
};
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, note, one_line};

use crate::connection::Connection;
use crate::sessions::find_named;

/// Longest printed rule, in characters.
const MAX_RULE: usize = 1024;

/// The result of `innkeeper/listApprovals`.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Approvals {
    everywhere: Vec<String>,
    workspaces: Vec<Workspace>,
    sessions: Vec<Session>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Workspace {
    directory: String,
    rules: Vec<String>,
    /// Approvals of an earlier version that no longer apply.
    dropped: Vec<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    session: String,
    title: String,
    allows_everything: bool,
    rules: Vec<String>,
    dropped: Vec<String>,
}

/// Lists, adds or removes rules.
pub(super) async fn run(dir: &DataDir, args: ApprovalsArgs) -> Result<(), Failure> {
    match args.command {
        None => list(dir, args.list).await,
        Some(ApprovalsCommand::List(args)) => list(dir, args).await,
        Some(ApprovalsCommand::Allow(args)) => allow(dir, args).await,
        Some(ApprovalsCommand::Revoke(args)) => revoke(dir, args).await,
    }
}

async fn list(dir: &DataDir, args: ListApprovalsArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let mut params = json!({ "channel": ROOT_RESOURCE_URI });
    if let (Some(session), Some(fields)) = (args.session, params.as_object_mut()) {
        let session = find_named(&connection, &session).await?;
        fields.insert("session".to_owned(), session.into());
    }
    let approvals: Approvals = connection.request("innkeeper/listApprovals", params).await?;
    connection.close().await;
    let mut output = Output::stdout();
    if args.json {
        return output.show(&format!("{}\n", json!(approvals)));
    }
    let text = described(&approvals);
    match text.is_empty() {
        true => note("Nothing runs without asking."),
        false => output.show(&text)?,
    }
    Ok(())
}

/// Formats the rules, and those of an earlier version that no longer apply.
fn described(approvals: &Approvals) -> String {
    let mut text = String::new();
    let mut section = |place: String, rules: &[String], dropped: &[String]| {
        if rules.is_empty() && dropped.is_empty() {
            return;
        }
        text.push_str(&format!("{place}\n"));
        for rule in rules {
            text.push_str(&format!("  {}\n", one_line(rule, MAX_RULE)));
        }
        for name in dropped {
            let name = one_line(name, MAX_RULE);
            text.push_str(&format!(
                "  ({name} holds no longer: an earlier version allowed every call by this name)\n"
            ));
        }
    };
    section("everywhere".to_owned(), &approvals.everywhere, &[]);
    for workspace in &approvals.workspaces {
        let place = format!("in {}", one_line(&workspace.directory, 500));
        section(place, &workspace.rules, &workspace.dropped);
    }
    for session in &approvals.sessions {
        let place = format!(
            "in session {} ({})",
            one_line(&session.session, 300),
            one_line(&session.title, 100)
        );
        let everything = ["(every call: its approval mode allows everything)".to_owned()];
        let rules = [
            if session.allows_everything {
                &everything[..]
            } else {
                &[]
            },
            &session.rules,
        ]
        .concat();
        section(place, &rules, &session.dropped);
    }
    text
}

async fn allow(dir: &DataDir, args: AllowApprovalArgs) -> Result<(), Failure> {
    let (mut params, place) = target(&args.scope)?;
    params.insert("rule".to_owned(), args.rule.clone().into());
    let connection = Connection::open(dir, &args.connect).await?;
    name_session(&connection, &mut params).await?;
    let _: Value = connection
        .request("innkeeper/allowApproval", Value::Object(params))
        .await?;
    connection.close().await;
    note(&format!(
        "{} runs without asking {place} from now on.",
        one_line(&args.rule, MAX_RULE)
    ));
    Ok(())
}

/// Adds a rule to a session.
pub(crate) async fn allow_in_session(connection: &Connection, session: &str, rule: &str) -> Result<(), Failure> {
    let params = json!({ "channel": ROOT_RESOURCE_URI, "session": session, "rule": rule });
    let _: Value = connection.request("innkeeper/allowApproval", params).await?;
    Ok(())
}

async fn revoke(dir: &DataDir, args: RevokeApprovalArgs) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct ApprovalList {
        revoked: u64,
    }
    let (mut params, place) = target(&args.scope)?;
    if let Some(rule) = args.rule {
        params.insert("rule".to_owned(), rule.into());
    }
    let connection = Connection::open(dir, &args.connect).await?;
    name_session(&connection, &mut params).await?;
    let answer: ApprovalList = connection
        .request("innkeeper/revokeApproval", Value::Object(params))
        .await?;
    connection.close().await;
    match answer.revoked {
        0 => Err(
            Failure::new(Kind::Rejected, format!("nothing like that is allowed {place}"))
                .hint("`innkeeper approvals` lists the approvals and their sessions"),
        ),
        1 => {
            note(&format!("1 approval was taken back {place}."));
            Ok(())
        }
        count => {
            note(&format!("{count} approvals were taken back {place}."));
            Ok(())
        }
    }
}

/// Replaces the beginning of a session's name by its URI.
async fn name_session(connection: &Connection, params: &mut Map<String, Value>) -> Result<(), Failure> {
    if let Some(Value::String(session)) = params.get_mut("session") {
        *session = find_named(connection, session).await?;
    }
    Ok(())
}

/// Returns the scope of an approval as request parameters and as text.
fn target(args: &ApprovalScopeArgs) -> Result<(Map<String, Value>, String), Failure> {
    let mut params = Map::new();
    params.insert("channel".to_owned(), json!(ROOT_RESOURCE_URI));
    if args.everywhere {
        params.insert("everywhere".to_owned(), json!(true));
        return Ok((params, "everywhere".to_owned()));
    }
    if let Some(session) = &args.session {
        params.insert("session".to_owned(), json!(session));
        return Ok((params, format!("in the session {}", one_line(session, 300))));
    }
    // `innkeeper send` names the directory of a session in the same way.
    let directory = match &args.directory {
        Some(directory) => directory.canonicalize().unwrap_or_else(|_| directory.clone()),
        None => std::env::current_dir().unwrap_or_default(),
    };
    let shown = directory.to_string_lossy();
    let uri = match shown.starts_with("file:") {
        true => Some(shown.into_owned()),
        false => std::path::absolute(&directory)
            .ok()
            .and_then(|path| url::Url::from_file_path(path).ok())
            .map(String::from),
    };
    let Some(uri) = uri else {
        return Err(Failure::new(
            Kind::Usage,
            format!("{} is neither a path nor a file: URI", directory.display()),
        ));
    };
    params.insert("directory".to_owned(), json!(uri));
    Ok((params, format!("in {}", one_line(&uri, 500))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_listed_by_scope() {
        let approvals = Approvals {
            everywhere: vec!["fetch(docs.rs)".to_owned()],
            workspaces: vec![Workspace {
                directory: "file:///w".to_owned(),
                rules: vec!["run_command(cargo test *)".to_owned()],
                dropped: vec!["run_command".to_owned()],
            }],
            sessions: vec![
                Session {
                    session: "ahp-session:/a".to_owned(),
                    title: "Open".to_owned(),
                    allows_everything: true,
                    ..Session::default()
                },
                Session {
                    session: "ahp-session:/b".to_owned(),
                    ..Session::default()
                },
            ],
        };
        assert_eq!(
            described(&approvals),
            "everywhere\n  fetch(docs.rs)\nin file:///w\n  run_command(cargo test *)\n  (run_command holds no longer: \
             an earlier version allowed every call by this name)\nin session ahp-session:/a (Open)\n  (every call: its \
             approval mode allows everything)\n"
        );
    }

    #[test]
    fn approvals_default_to_the_current_directory() {
        let args = |session: Option<&str>, everywhere| ApprovalScopeArgs {
            session: session.map(str::to_owned),
            directory: None,
            everywhere,
        };
        let (params, _) = target(&args(None, false)).unwrap();
        assert!(params["directory"].as_str().unwrap().starts_with("file:///"));
        assert_eq!(target(&args(None, true)).unwrap().0["everywhere"], true);
        assert_eq!(target(&args(Some("s"), false)).unwrap().0["session"], "s");
    }
}
