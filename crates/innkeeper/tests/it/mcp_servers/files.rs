//! The files that declare servers, each with a real server.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::mcp_servers::support::{Inn, TestDirectory, options};

/// Files of a workspace: their servers run after a trust decision.
const WORKSPACE: [(&str, &str); 7] = [
    ("mcp", ".mcp.json"),
    ("cursor", ".cursor/mcp.json"),
    ("github", ".github/mcp.json"),
    ("claude", ".claude/settings.json"),
    ("claude-local", ".claude/settings.local.json"),
    ("copilot", ".github/copilot/settings.json"),
    ("copilot-local", ".github/copilot/settings.local.json"),
];
/// Files of the home directory belong to the user.
const HOME: [(&str, &str); 3] = [
    ("home-copilot", ".copilot/mcp-config.json"),
    ("home-cursor", ".cursor/mcp.json"),
    ("home-claude", ".claude/settings.json"),
];
#[tokio::test]
async fn cus01_every_file_that_is_said_to_be_read_runs_its_servers() {
    let place = TestDirectory::new();
    for (name, file) in WORKSPACE {
        place.declare(file, &json!({ name: place.odd("plain") }));
    }
    let inn = Inn::started(place, options()).await;
    let write = |path: PathBuf, text: String| {
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    };
    let odd = inn.place.odd("plain");
    for (name, file) in HOME {
        write(inn.host.path(file), json!({ "mcpServers": { name: odd } }).to_string());
    }
    // Files of other programs that are not read, see `docs/mcp.md`.
    let servers = json!({ "servers": { "unread": odd } }).to_string();
    write(inn.place.workspace().join(".vscode/mcp.json"), servers);
    let settings = json!({ "mcpServers": { "unread": odd } }).to_string();
    write(inn.host.path(".gemini/settings.json"), settings);
    let section = inn.place.configured("unread", "plain");
    let section = section.replace("[mcp.servers.", "[mcp_servers.");
    write(inn.host.path(".codex/config.toml"), section);

    let room = inn.room("one").await;
    for (name, file) in HOME {
        let server = room.server_is(name, "ready").await;
        let uri = server["uri"].as_str().unwrap_or_default();
        assert!(uri.ends_with(file), "{file}: {server}");
    }
    for (name, file) in WORKSPACE {
        let server = room.server_is(name, "error").await;
        assert_eq!(server["uri"], format!("{}/{file}", inn.place.uri()));
        assert_eq!(server["state"]["error"]["errorType"], "notTrusted", "P12: {file}");
    }
    assert_eq!(inn.place.pids().len(), HOME.len(), "nothing else ran");
    inn.allow();
    for (name, _) in WORKSPACE {
        room.server_is(name, "ready").await;
    }
    for (name, _) in WORKSPACE.into_iter().chain(HOME) {
        let (words, call) = room
            .call(name, &format!(r#"{name} echo {{"text": "hello from {name}"}}"#))
            .await;
        assert!(words.contains(&format!("hello from {name}")), "{words}");
        assert_eq!(call["contributor"]["customizationId"], room.server(name)["id"]);
    }
    assert!(room.server("unread").is_null(), "what is not read is not there");
    assert_eq!(inn.place.living(), WORKSPACE.len() + HOME.len());
    inn.client.assert_converged().await;
}
