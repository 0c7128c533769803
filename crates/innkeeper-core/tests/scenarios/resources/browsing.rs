//! Looking for a directory to work in: where clients start, and what they see without asking first.

use innkeeper_core::resources::{AllowedRoot, BrowsePolicy, ResourceOp, WatchCommand, WatchSpec};
use innkeeper_core::{Command, ConnId, CoreConfig, Effect, Input, Principal, RequestId, ResourceCommand, Scope};
use serde_json::Value;

use crate::harness::Stage;

const HOME: &str = "file:///home/me";

fn stage(browsing: BrowsePolicy) -> Stage {
    Stage::with(CoreConfig {
        serves_resources: true,
        resource_browsing: browsing,
        default_directory: Some(HOME.to_owned()),
        ..CoreConfig::default()
    })
}

/// Connects, and returns what `initialize` answered.
fn client(stage: &mut Stage, scope: Scope) -> (ConnId, Value) {
    let principal = Principal::new(&format!("token:{scope}"), scope);
    let conn = stage.connect_as(principal);
    let answer = stage.initialize(conn, &scope.to_string(), &["0.9.0"], &[]);
    (conn, answer["result"].clone())
}

/// The roots that the resource service is confined to.
fn reaches(stage: &mut Stage, conn: ConnId, command: Command) -> Vec<AllowedRoot> {
    let id = RequestId::number(700);
    stage.handle(Input::Request { conn, id, command });
    match stage.agent.pop() {
        Some(
            Effect::Resources(ResourceCommand::Perform { reaches, .. })
            | Effect::Resources(ResourceCommand::OpenWatch { reaches, .. }),
        ) => reaches,
        other => panic!("no client was asked: {other:?}"),
    }
}

fn op(op: ResourceOp) -> Command {
    Command::Resource(Box::new(op))
}

/// The commands that show directories, and no content of any file.
fn looks() -> [Command; 3] {
    let uri = HOME.to_owned();
    [
        op(ResourceOp::List { uri: uri.clone() }),
        op(ResourceOp::Resolve {
            uri: uri.clone(),
            follow: true,
        }),
        Command::from(WatchCommand::Create(Box::new(WatchSpec {
            uri,
            recursive: false,
            includes: None,
            excludes: None,
        }))),
    ]
}

#[test]
fn res01_an_admin_looks_everywhere_and_reads_nothing_without_asking() {
    let mut stage = stage(BrowsePolicy::Admin);
    let (conn, told) = client(&mut stage, Scope::Admin);
    assert_eq!(told["defaultDirectory"], HOME);
    for command in looks() {
        let reaches = reaches(&mut stage, conn, command);
        let everything = AllowedRoot {
            uri: "file:///".to_owned(),
            write: false,
            exact: false,
        };
        assert_eq!(reaches, [everything]);
    }
    let uri = format!("{HOME}/a.txt");
    for command in [
        op(ResourceOp::Read {
            uri: uri.clone(),
            encoding: None,
        }),
        op(ResourceOp::Mkdir { uri: uri.clone() }),
        op(ResourceOp::Delete { uri, recursive: false }),
    ] {
        assert_eq!(reaches(&mut stage, conn, command), []);
    }
}

#[test]
fn res01_browsing_without_admin_scope_is_denied() {
    for (browsing, scope, is_told) in [
        (BrowsePolicy::Admin, Scope::Drive, true),
        (BrowsePolicy::Admin, Scope::View, false),
        (BrowsePolicy::Deny, Scope::Admin, true),
    ] {
        let mut stage = stage(browsing);
        let (conn, told) = client(&mut stage, scope);
        assert_eq!(told.get("defaultDirectory").is_some(), is_told, "{scope}");
        for command in looks() {
            assert_eq!(reaches(&mut stage, conn, command), [], "{scope}");
        }
    }
}
