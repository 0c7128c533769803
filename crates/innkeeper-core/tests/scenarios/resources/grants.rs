//! Requests for access: what a client has already, and what becomes of the requests of others.

use innkeeper_core::request::CreateSession;
use innkeeper_core::resources::GrantCommand;
use innkeeper_core::{Command, ConnId, CoreConfig, Principal, Scope};
use serde_json::Value;

use crate::harness::{SESSION, Stage, error, new_session};

fn stage() -> Stage {
    Stage::with(CoreConfig {
        serves_resources: true,
        ..CoreConfig::default()
    })
}

fn client_as(stage: &mut Stage, name: &str, scope: Scope) -> ConnId {
    let principal = Principal::new(&format!("token:{scope}"), scope);
    let conn = stage.connect_as(principal);
    stage.initialize(conn, name, &["1.0.0"], &[]);
    conn
}

fn ask(stage: &mut Stage, conn: ConnId, uri: &str, write: bool) -> Value {
    let uri = uri.to_owned();
    stage.request(conn, Command::RequestResource { uri, write })
}

fn requested(stage: &mut Stage, admin: ConnId) -> Vec<String> {
    let listed = stage.request(admin, Command::Grants(Box::new(GrantCommand::List)));
    let requested = listed["result"]["requested"].as_array().expect("a list");
    requested
        .iter()
        .filter_map(|asked| asked["clientId"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn res14_a_path_in_a_clients_own_session_is_granted_already() {
    let mut stage = stage();
    let conn = client_as(&mut stage, "c", Scope::Drive);
    let create = CreateSession {
        working_directories: vec!["file:///srv/my%20work".to_owned()],
        ..new_session(SESSION)
    };
    stage.request(conn, Command::CreateSession(Box::new(create)));
    stage.opened(Ok(()));
    stage.subscribe(conn, SESSION);
    for uri in [
        "file:///srv/my%20work",
        "file:///srv/my%20work/",
        "file:///srv/my work/real.txt",
    ] {
        for write in [false, true] {
            let answer = ask(&mut stage, conn, uri, write);
            assert!(answer.get("error").is_none(), "{uri}: {answer}");
        }
    }
    let viewer = client_as(&mut stage, "v", Scope::View);
    stage.subscribe(viewer, SESSION);
    assert!(
        ask(&mut stage, viewer, "file:///srv/my%20work/a", false)
            .get("error")
            .is_none()
    );
    let admin = client_as(&mut stage, "admin", Scope::Admin);
    assert!(requested(&mut stage, admin).is_empty(), "no client is asked");
    // A path that is refused elsewhere can be requested as it was named.
    let answer = ask(&mut stage, conn, "file:///tmp/a b", false);
    assert_eq!(error(&answer).0, -32009);
    let request = &answer["error"]["data"]["request"];
    assert_eq!(request["uri"], "file:///tmp/a b");
    let long = format!("file:///{}", "a".repeat(9000));
    assert_eq!(error(&ask(&mut stage, conn, &long, false)).0, -32602);
}

#[test]
fn res14_sec04_a_client_cannot_evict_grants_of_others() {
    let mut stage = stage();
    let admin = client_as(&mut stage, "admin", Scope::Admin);
    let honest = client_as(&mut stage, "honest", Scope::Drive);
    let neighbour = client_as(&mut stage, "neighbour", Scope::View);
    ask(&mut stage, honest, "file:///srv/wanted", false);
    ask(&mut stage, neighbour, "file:///srv/wanted", false);
    let flood = client_as(&mut stage, "flood", Scope::View);
    for index in 0..300 {
        ask(&mut stage, flood, &format!("file:///x{index}"), false);
    }
    let requested = requested(&mut stage, admin);
    for name in ["honest", "neighbour"] {
        assert!(requested.iter().any(|asked| asked == name), "{name}");
    }
    assert_eq!(requested.iter().filter(|asked| *asked == "flood").count(), 63);
}
