//! `innkeeper terminals`: lists, opens, shows and ends the terminals of a host.

mod attach;
mod own_screen;
mod raw_mode;

use ahp_types::common::ROOT_RESOURCE_URI;
use ahp_types::state::{RootState, TerminalClaim, TerminalInfo, TerminalLifecycleState};
use serde_json::{Value, json};

use crate::args::{ConnectArgs, ListTerminalsArgs, NewTerminalArgs, TerminalArgs, TerminalsArgs, TerminalsCommand};
use crate::connection::Connection;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, note, one_line};

/// Prefix of the client ids that terminals of this command are claimed with. A terminal's claim lasts longer than one
/// run of the command, so each terminal has a client of its own.
const CLIENTS: &str = "innkeeper-terminal-";

/// Lists, opens, shows or ends terminals.
pub(super) async fn run(dir: &DataDir, args: TerminalsArgs) -> Result<(), Failure> {
    match args.command {
        None => list(dir, args.list).await,
        Some(TerminalsCommand::List(args)) => list(dir, args).await,
        Some(TerminalsCommand::Attach(args)) => attach(dir, args).await,
        Some(TerminalsCommand::New(args)) => create(dir, args).await,
        Some(TerminalsCommand::Kill(args)) => kill(dir, args).await,
    }
}

async fn list(dir: &DataDir, args: ListTerminalsArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let terminals = all(&connection).await?;
    connection.close().await;
    let mut output = Output::stdout();
    if args.json {
        return output.show(&format!("{}\n", json!(terminals)));
    }
    for info in &terminals {
        output.show(&format!("{}\n", describe(info)))?;
    }
    if terminals.is_empty() {
        note("There are no terminals. `innkeeper terminals new` starts one.");
    }
    Ok(())
}

async fn attach(dir: &DataDir, args: TerminalArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let info = choose(all(&connection).await?, args.terminal.as_deref())?;
    let connection = match &info.claim {
        // It was started here, so it is this command's to type into.
        TerminalClaim::Client(claim) if claim.client_id.starts_with(CLIENTS) => {
            let client_id = claim.client_id.clone();
            connection.close().await;
            Connection::open_as(dir, &args.connect, client_id).await?
        }
        TerminalClaim::Client(_) | TerminalClaim::Session(_) => connection,
    };
    attach::run(connection, &info.resource).await
}

async fn create(dir: &DataDir, args: NewTerminalArgs) -> Result<(), Failure> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let (uri, client_id) = (format!("ahp-terminal:/{id}"), format!("{CLIENTS}{id}"));
    let connection = Connection::open_as(dir, &args.connect, client_id.clone()).await?;
    let directory = args.directory.as_deref().map(directory_uri).transpose()?;
    let size = raw_mode::size();
    let mut params = json!({ "channel": uri, "claim": { "kind": "client", "clientId": client_id } });
    let optional = [
        ("name", json!(args.name)),
        ("cwd", json!(directory)),
        ("cols", json!(size.map(|size| size.0))),
        ("rows", json!(size.map(|size| size.1))),
    ];
    for (field, value) in optional {
        if !value.is_null() {
            params[field] = value;
        }
    }
    let _: Value = connection.request("createTerminal", params).await?;
    if args.detached {
        connection.close().await;
        return Output::stdout().show(&format!("{uri}\n"));
    }
    attach::run(connection, &uri).await
}

async fn kill(dir: &DataDir, args: TerminalArgs) -> Result<(), Failure> {
    let connection = open_and_choose(dir, &args.connect, args.terminal.as_deref()).await?;
    let (connection, info) = connection;
    let _: Value = connection
        .request("disposeTerminal", json!({ "channel": info.resource }))
        .await?;
    connection.close().await;
    note(&format!("{} has ended.", one_line(&info.resource, 120)));
    Ok(())
}

async fn open_and_choose(
    dir: &DataDir,
    connect: &ConnectArgs,
    wanted: Option<&str>,
) -> Result<(Connection, TerminalInfo), Failure> {
    let connection = Connection::open(dir, connect).await?;
    let info = choose(all(&connection).await?, wanted)?;
    Ok((connection, info))
}

async fn all(connection: &Connection) -> Result<Vec<TerminalInfo>, Failure> {
    let (root, _): (RootState, i64) = connection.subscribe_to_state(ROOT_RESOURCE_URI).await?;
    Ok(root.terminals.unwrap_or_default())
}

/// Finds the terminal that a user means.
fn choose(terminals: Vec<TerminalInfo>, wanted: Option<&str>) -> Result<TerminalInfo, Failure> {
    let is_meant = |info: &TerminalInfo| match wanted {
        None => true,
        Some(wanted) => info.resource.ends_with(wanted) || info.title == wanted,
    };
    let mut meant = terminals.into_iter().filter(is_meant);
    let hint = "`innkeeper terminals` lists them";
    match (meant.next(), meant.next(), wanted) {
        (Some(info), None, _) => Ok(info),
        (None, _, None) => {
            Err(Failure::new(Kind::Rejected, "there are no terminals").hint("`innkeeper terminals new` starts one"))
        }
        (None, _, Some(wanted)) => {
            let text = format!("there is no terminal {:?}", one_line(wanted, 120));
            Err(Failure::new(Kind::Rejected, text).hint(hint))
        }
        (Some(_), Some(_), _) => Err(Failure::new(Kind::Usage, "there are several terminals; name one").hint(hint)),
    }
}

fn describe(info: &TerminalInfo) -> String {
    let status = match &info.lifecycle {
        TerminalLifecycleState::Running(_) => "running".to_owned(),
        TerminalLifecycleState::Exited(exited) => match exited.exit_code {
            Some(code) => format!("exited with {code}"),
            None => "exited".to_owned(),
        },
    };
    let claim = match &info.claim {
        TerminalClaim::Client(claim) if claim.client_id.starts_with(CLIENTS) => "this command".to_owned(),
        TerminalClaim::Client(claim) => format!("client {}", one_line(&claim.client_id, 60)),
        TerminalClaim::Session(claim) => format!("session {}", one_line(&claim.session, 80)),
    };
    format!(
        "{}  {}  {status}  of {claim}",
        one_line(&info.resource, 120),
        one_line(&info.title, 60)
    )
}

fn directory_uri(path: &std::path::Path) -> Result<String, Failure> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    url::Url::from_directory_path(&path)
        .map(|uri| uri.as_str().trim_end_matches('/').to_owned())
        .map_err(|()| Failure::new(Kind::Usage, format!("{} is not a directory", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(uri: &str, title: &str) -> TerminalInfo {
        let info = json!({
            "resource": uri, "title": title, "claim": { "kind": "client", "clientId": "vscode" },
            "lifecycle": { "status": "exited", "exitCode": 3 },
        });
        serde_json::from_value(info).expect("a terminal")
    }

    #[test]
    fn a_terminal_is_found_by_its_uri_its_end_or_its_title() {
        let both = || vec![info("ahp-terminal:/one", "bash"), info("ahp-terminal:/two", "build")];
        for wanted in ["ahp-terminal:/two", "two", "build"] {
            let found = choose(both(), Some(wanted)).expect("found");
            assert_eq!(found.resource, "ahp-terminal:/two");
        }
        assert!(choose(both(), None).is_err(), "there are two");
        assert!(choose(both(), Some("three")).is_err());
        assert!(choose(Vec::new(), None).is_err());
        assert_eq!(choose(both().split_off(1), None).expect("the only one").title, "build");
    }

    #[test]
    fn a_terminal_is_described_in_one_line() {
        let line = describe(&info("ahp-terminal:/one", "ba\nsh"));
        assert_eq!(line.lines().count(), 1);
        assert!(
            line.contains("exited with 3") && line.contains("client vscode"),
            "{line}"
        );
    }
}
