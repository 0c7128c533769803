//! `innkeeper grants`: the files that clients were granted besides those of their sessions, and open requests (RES-14).

use ahp_types::common::ROOT_RESOURCE_URI;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::{AllowArgs, GrantsArgs, GrantsCommand, ListGrantsArgs, RevokeArgs};
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, note, one_line};

use crate::connection::Connection;

/// The result of `innkeeper/listResourceGrants`.
#[derive(Debug, Deserialize, Serialize)]
struct Grants {
    granted: Vec<Grant>,
    requested: Vec<Grant>,
}

/// A grant, or an open request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Grant {
    client_id: String,
    uri: String,
    #[serde(default)]
    read: bool,
    #[serde(default)]
    write: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requested_at: Option<String>,
}

/// Lists, adds or revokes grants.
pub(super) async fn run(dir: &DataDir, args: GrantsArgs) -> Result<(), Failure> {
    match args.command {
        None => list(dir, args.list).await,
        Some(GrantsCommand::List(args)) => list(dir, args).await,
        Some(GrantsCommand::Allow(args)) => allow(dir, args).await,
        Some(GrantsCommand::Revoke(args)) => revoke(dir, args).await,
    }
}

async fn list(dir: &DataDir, args: ListGrantsArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let grants = all(&connection).await?;
    connection.close().await;
    let mut output = Output::stdout();
    if args.json {
        return output.show(&format!("{}\n", json!(grants)));
    }
    for grant in &grants.granted {
        let until = grant.expires_at.as_deref().unwrap_or("it is taken back");
        output.show(&format!("{}, until {}\n", grant.describe("may"), one_line(until, 40)))?;
    }
    for grant in &grants.requested {
        output.show(&format!("{}\n", grant.describe("asks to")))?;
    }
    if grants.granted.is_empty() && grants.requested.is_empty() {
        note("There are no grants and no requests.");
    } else if !grants.requested.is_empty() {
        note("`innkeeper grants allow CLIENT PLACE` grants a request.");
    }
    Ok(())
}

async fn allow(dir: &DataDir, args: AllowArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let (client, uri, write) = match (args.client, args.place) {
        (Some(client), Some(place)) => (client, uri_of(&place)?, args.write),
        (client, _) => {
            let asked = only_request(all(&connection).await?.requested, client.as_deref())?;
            (asked.client_id, asked.uri, asked.write)
        }
    };
    let params = json!({ "channel": ROOT_RESOURCE_URI, "clientId": client, "uri": uri, "write": write });
    let _: Value = connection.request("innkeeper/allowResource", params).await?;
    connection.close().await;
    let what = if write { "read and write" } else { "read" };
    note(&format!(
        "{} may {what} {} from now on.",
        one_line(&client, 200),
        one_line(&uri, 500)
    ));
    Ok(())
}

async fn revoke(dir: &DataDir, args: RevokeArgs) -> Result<(), Failure> {
    let place = args.place.as_deref().map(uri_of).transpose()?;
    let connection = Connection::open(dir, &args.connect).await?;
    let grants = all(&connection).await?;
    let is_meant =
        |grant: &&Grant| grant.client_id == args.client && place.as_ref().is_none_or(|place| *place == grant.uri);
    if !grants
        .granted
        .iter()
        .chain(&grants.requested)
        .any(|grant| is_meant(&grant))
    {
        return Err(Failure::new(
            Kind::Rejected,
            format!("no such grant of {}", one_line(&args.client, 200)),
        )
        .hint("`innkeeper grants` lists the grants"));
    }
    let mut params = json!({ "channel": ROOT_RESOURCE_URI, "clientId": args.client });
    if let (Some(place), Some(fields)) = (place, params.as_object_mut()) {
        fields.insert("uri".to_owned(), place.into());
    }
    let _: Value = connection.request("innkeeper/revokeResource", params).await?;
    connection.close().await;
    Ok(())
}

async fn all(connection: &Connection) -> Result<Grants, Failure> {
    let params = json!({ "channel": ROOT_RESOURCE_URI });
    connection.request("innkeeper/listResourceGrants", params).await
}

/// Returns the only open request.
fn only_request(requested: Vec<Grant>, client: Option<&str>) -> Result<Grant, Failure> {
    let mut fitting: Vec<Grant> = requested
        .into_iter()
        .filter(|grant| client.is_none_or(|client| grant.client_id == client))
        .collect();
    let problem = match (fitting.len(), fitting.pop()) {
        (1, Some(only)) => return Ok(only),
        (0, _) => "no client like that asks for anything",
        _ => "several requests are open, and the command does not say which one to answer",
    };
    Err(Failure::new(Kind::Rejected, problem)
        .hint("`innkeeper grants` lists the requests; name the client and the path"))
}

/// Returns the URI of an argument: a URI, or a path of this machine.
fn uri_of(place: &str) -> Result<String, Failure> {
    if place.starts_with("file:") {
        return Ok(place.to_owned());
    }
    let uri = std::path::absolute(place)
        .ok()
        .and_then(|path| url::Url::from_file_path(path).ok());
    uri.map(String::from).ok_or_else(|| {
        Failure::new(
            Kind::Usage,
            format!("{} is neither a path nor a file: URI", one_line(place, 200)),
        )
    })
}

impl Grant {
    fn describe(&self, word: &str) -> String {
        let what = if self.write { "read and write" } else { "read" };
        let (client, uri) = (one_line(&self.client_id, 200), one_line(&self.uri, 500));
        format!("{client} {word} {what} {uri}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(client: &str, uri: &str) -> Grant {
        Grant {
            client_id: client.to_owned(),
            uri: uri.to_owned(),
            read: true,
            write: false,
            expires_at: None,
            requested_at: None,
        }
    }

    #[test]
    fn grant_defaults_to_the_only_request() {
        let both = || vec![request("a", "file:///x"), request("b", "file:///y")];
        assert!(only_request(Vec::new(), None).is_err());
        assert!(only_request(both(), None).is_err());
        assert!(only_request(both(), Some("c")).is_err());
        assert_eq!(only_request(both(), Some("b")).unwrap().uri, "file:///y");
    }

    #[test]
    fn grant_arguments_are_paths_or_uris() {
        assert_eq!(uri_of("file:///a%20b").unwrap(), "file:///a%20b");
        #[cfg(unix)]
        assert_eq!(uri_of("/a b").unwrap(), "file:///a%20b");
        assert!(uri_of("x").unwrap().starts_with("file:///"));
        assert!(uri_of("").is_err());
    }
}
