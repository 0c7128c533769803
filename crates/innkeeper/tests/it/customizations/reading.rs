//! Reading the files that a session refers to (RES-03), also by clients without other access.

use std::fs;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::Address;
use serde_json::{Value, json};

use crate::customizations::clients::{NAME, Served, URI, is_loaded, published};
use crate::customizations::support::{
    Workspace, ask, entries, entry, refused, session_in, skill, until_entry, uri_of, write,
};
use crate::options;

/// A host whose home and whose configuration have something of everything.
async fn furnished(beside: &Workspace) -> HostProcess {
    beside.write(
        "tools/.plugin/plugin.json",
        r#"{ "name": "tools", "logo": "logo.svg" }"#,
    );
    beside.write("tools/logo.svg", "<svg/>");
    beside.write("tools/skills/mend/SKILL.md", &skill("mend", "Mends."));
    beside.write("tools/skills/mend/more/hints.md", "Gently.");
    beside.write(
        "tools/agents/smith.md",
        "---\nname: smith\ndescription: Forges.\n---\nForge.\n",
    );
    beside.write("tools/notes.txt", "not shown");
    let server = json!({ "mcpServers": { "anvil": { "command": "anvil", "env": { "KEY": "hush" } } } });
    beside.write("tools/.mcp.json", &server.to_string());
    let setting = format!(
        "[customizations]\nplugins = [{:?}]",
        beside.path("tools").display().to_string()
    );
    // Without browsing, only the customizations of the session can be read.
    let closed = "[resources]\nbrowse = \"deny\"";
    let options = options().setting("view_token_file = \"view\"").setting(&setting);
    let host = HostProcess::start(options.setting(closed)).await;
    let hooks = json!({ "version": 1, "hooks": { "preToolUse": [{ "type": "command", "bash": "true" }] } });
    for (file, text) in [
        (".agents/plugins/mine/skills/a/SKILL.md", skill("a", "One.")),
        (
            ".copilot/installed-plugins/theirs/skills/b/SKILL.md",
            skill("b", "Two."),
        ),
        (".copilot/hooks/look.json", hooks.to_string()),
        (".claude/CLAUDE.md", "Be kind.".to_owned()),
        (".claude/skills/own/SKILL.md", skill("own", "Three.")),
    ] {
        write(&host.path(file), &text);
    }
    host
}

/// Every URI in something, but those of MCP servers: that is where secrets are (CUS-27).
fn uris_in(value: &Value, found: &mut Vec<String>) {
    if value["type"] == "mcpServer" {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(uri) if name == "uri" || name == "src" => found.push(uri.to_owned()),
                    _ => uris_in(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| uris_in(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn res03_res19_a_second_client_reads_every_uri_that_a_session_shows() {
    let beside = Workspace::new();
    let host = furnished(&beside).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let served = Served::with_skills(&["a", "b c"]);
    served.put("skills/a/more/hints.md", "Gently.");
    served.serve(&client);
    let workspace = Workspace::new();
    workspace.skill("here");
    let uris = session_in(&client, "shown", &workspace).await;
    client.dispatch(&uris.session, published("first", Some("1"))).await;
    until_entry(&client, &uris.session, NAME, "is loaded", is_loaded).await;
    until_entry(&client, &uris.session, "tools", "is loaded", is_loaded).await;
    for file in ["look.json", "CLAUDE.md", "installed-plugins", ".agents/plugins/mine"] {
        client
            .until(file, |view| {
                let shown = json!(view.session(&uris.session).expect("mirrored").customizations);
                shown.to_string().contains(file)
            })
            .await;
    }
    let second = OfficialClient::connect(host.address(), "second").await;
    second.join(&uris.session).await;
    let mut all = Vec::new();
    uris_in(&json!(entries(&second, &uris.session)), &mut all);
    served.times_asked();
    let (mut files, mut directories) = (Vec::new(), 0);
    for uri in &all {
        let resolved: Result<Value, _> = second
            .request("resourceResolve", json!({ "channel": "ahp-root://", "uri": uri }))
            .await;
        match resolved {
            Ok(found) if found["type"] == "directory" => {
                ask(&second, "resourceList", json!({ "uri": uri })).await;
                directories += 1;
            }
            Ok(_) => {
                let read = ask(&second, "resourceRead", json!({ "uri": uri })).await;
                assert!(read["data"].as_str().is_some_and(|data| !data.is_empty()), "{uri}");
                files.push(uri.as_str());
            }
            // Directories are shown before they exist (CUS-06).
            Err(error) => assert!(error.to_string().contains("there is no"), "{uri}: {error}"),
        }
    }
    for ending in [
        "tools/logo.svg",
        "mend/SKILL.md",
        "smith.md",
        "mine/skills/a/SKILL.md",
        "theirs/skills/b/SKILL.md",
        "look.json",
        "CLAUDE.md",
        "own/SKILL.md",
        "here/SKILL.md",
        "synced/skills/b%20c/SKILL.md",
    ] {
        assert!(
            files.iter().any(|uri| uri.ends_with(ending)),
            "{ending} is not in {files:#?}"
        );
    }
    assert!(directories >= 5, "{all:#?}");
    // The home stands for loose files in it, and says nothing of others.
    let home = entry(&second, &uris.session, "~")["uri"].clone();
    let listed = ask(&second, "resourceList", json!({ "uri": home })).await;
    assert_eq!(listed["entries"], json!([{ "name": ".claude", "type": "directory" }]));
    // So is what lies beside a skill, and the copy is what is read of a client's.
    let tools = uri_of(&beside.path("tools"));
    for hints in [
        format!("{tools}/skills/mend/more/hints.md"),
        format!("{URI}/skills/a/more/hints.md"),
    ] {
        assert_eq!(
            ask(&second, "resourceRead", json!({ "uri": hints })).await["data"],
            "Gently."
        );
    }
    let listed = ask(&second, "resourceList", json!({ "uri": format!("{URI}/skills/a") })).await;
    let expected = json!([{ "name": "SKILL.md", "type": "file" }, { "name": "more", "type": "directory" }]);
    assert_eq!(listed["entries"], expected);
    assert_eq!(served.times_asked(), 0, "the client is not asked again");
}

#[tokio::test]
async fn res03_sec03_shown_files_give_no_other_access() {
    let beside = Workspace::new();
    beside.write("tools/skills/mend/.env", "KEY=hush");
    beside.write("tools/skills/mend/mcp.json", "{}");
    let host = furnished(&beside).await;
    // The server has the name of an earlier one, so that nothing is known of it but that it was left out.
    let server = json!({ "hammer": { "command": "hammer", "env": { "KEY": "hush" } } });
    let servers = json!({ "mcpServers": server });
    let settings = json!({
        "env": { "KEY": "hush" },
        "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "true" }] }] },
        "mcpServers": server,
    });
    write(&host.path(".copilot/mcp-config.json"), &servers.to_string());
    write(&host.path(".claude/settings.json"), &settings.to_string());
    // All of this plugin is one skill.
    write(&host.path(".agents/plugins/alone/SKILL.md"), &skill("alone", "Alone."));
    write(&host.path(".agents/plugins/alone/notes.txt"), "not shown");
    let client = OfficialClient::connect(host.address(), "first").await;
    Served::with_skills(&["a"]).serve(&client);
    let uris = session_in(&client, "shown", &Workspace::new()).await;
    client.dispatch(&uris.session, published("first", Some("1"))).await;
    until_entry(&client, &uris.session, NAME, "is loaded", is_loaded).await;
    until_entry(&client, &uris.session, "tools", "is loaded", is_loaded).await;
    until_entry(&client, &uris.session, "~/.copilot/hooks", "is read", |entry| {
        entry["children"][0]["uri"].is_string()
    })
    .await;
    until_entry(&client, &uris.session, "alone", "is loaded", is_loaded).await;
    until_entry(&client, &uris.session, "~", "has hooks", |entry| {
        entry["children"][0]["name"] == "settings.json"
    })
    .await;
    let tools = uri_of(&beside.path("tools"));
    let skill_file = format!("{tools}/skills/mend/SKILL.md");
    // A client that does not see the session reads nothing of it.
    let stranger = OfficialClient::connect(host.address(), "stranger").await;
    assert_eq!(
        refused(&stranger, "resourceRead", json!({ "uri": skill_file })).await.0,
        -32009
    );
    let virtual_file = json!({ "uri": format!("{URI}/skills/a/SKILL.md") });
    assert_eq!(refused(&stranger, "resourceRead", virtual_file.clone()).await.0, -32008);
    ask(&client, "resourceRead", virtual_file).await;
    ask(&client, "resourceRead", json!({ "uri": skill_file })).await;
    // Files that nothing shows, those with servers, and those that a link or dots lead to stay where they are.
    #[cfg(unix)]
    std::os::unix::fs::symlink(beside.path("tools/notes.txt"), beside.path("tools/skills/mend/link")).expect("a link");
    for file in [
        "notes.txt",
        ".mcp.json",
        ".plugin/plugin.json",
        "skills/mend/link",
        "skills/mend/../../notes.txt",
        "skills/mend/.env",
        "skills/mend/mcp.json",
    ] {
        let denied = refused(&client, "resourceRead", json!({ "uri": format!("{tools}/{file}") })).await;
        assert_eq!(denied.0, -32009, "{file}: {denied:?}");
    }
    let home = uri_of(&host.path(".claude"));
    let alone = uri_of(&host.path(".agents/plugins/alone"));
    ask(&client, "resourceRead", json!({ "uri": format!("{alone}/SKILL.md") })).await;
    for uri in [
        format!("{home}/settings.json"),
        format!("{home}/settings%2Ejson"),
        format!("{home}/settings.json").replacen("file://", "file://localhost", 1),
        uri_of(&host.path(".copilot/mcp-config.json")),
        uri_of(&host.path("view")),
        format!("{alone}/notes.txt"),
    ] {
        let denied = refused(&client, "resourceRead", json!({ "uri": uri })).await;
        assert_eq!(denied.0, -32009, "{uri}: {denied:?}");
    }
    let listed = refused(&client, "resourceList", json!({ "uri": home })).await;
    assert_eq!(listed.0, -32009, "{listed:?}");
    for file in ["skills/a/../../../x", "skills/a/%2e%2e/x", "other", "skills/a/none"] {
        let denied = refused(&client, "resourceRead", json!({ "uri": format!("{URI}/{file}") })).await;
        assert_eq!(denied.0, -32008, "{file}: {denied:?}");
    }
    // To see is not to change.
    let change = json!({ "uri": skill_file, "data": "mine", "encoding": "utf-8" });
    assert_eq!(refused(&client, "resourceWrite", change).await.0, -32009);
    assert_eq!(
        refused(&client, "resourceDelete", json!({ "uri": skill_file })).await.0,
        -32009
    );
    // Commands are not shown to the scope view (CUS-26).
    let token = fs::read_to_string(host.path("view")).expect("a token");
    let view = Address {
        url: host.address().url.clone(),
        token: Some(token.trim().to_owned()),
    };
    let visitor = OfficialClient::connect(&view, "visitor").await;
    visitor.join(&uris.session).await;
    ask(&visitor, "resourceRead", json!({ "uri": skill_file })).await;
    let hooks = json!({ "uri": uri_of(&host.path(".copilot/hooks/look.json")) });
    assert_eq!(refused(&visitor, "resourceRead", hooks.clone()).await.0, -32009);
    ask(&client, "resourceRead", hooks).await;
}
