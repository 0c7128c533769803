//! Customization files that are added, edited, renamed, deleted and broken, in every session of the workspace.

use std::fs;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::customizations::support::{
    Workspace, child, entries, entry, listed, names, session_in, skill, toggle, told, until_entries, until_entry,
    until_listed, until_names,
};
use crate::{options, start_with_client};

const SKILLS: &str = ".claude/skills";

#[tokio::test]
async fn cus06_cus23_a_new_skill_appears_in_every_workspace_session() {
    let (host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let one = session_in(&client, "one", &workspace).await;
    let second = OfficialClient::connect(host.address(), "second").await;
    let two = session_in(&second, "two", &workspace).await;
    let absent = entry(&client, &one.session, SKILLS);
    assert_eq!(absent["children"], json!([]), "it is known to be empty: {absent}");
    assert_eq!(
        (&absent["writable"], &absent["contents"]),
        (&json!(true), &json!("skill"))
    );
    let before = told(&client, &one.session).len();
    workspace.write(
        ".claude/skills/greet/SKILL.md",
        "---\ndescription: Greets guests.\nuser-invocable: false\n---\nHello.\n",
    );
    for (client, session) in [(&client, &one.session), (&second, &two.session)] {
        until_names(client, session, SKILLS, &["greet"]).await;
        let greet = child(client, session, SKILLS, "greet");
        assert_eq!(greet["description"], "Greets guests.");
        assert_eq!(greet["disableUserInvocation"], true);
        assert_eq!(greet.get("disableModelInvocation"), None);
        client.caught_up().await;
        client.assert_converged().await;
    }
    assert_eq!(told(&client, &one.session)[before..], ["session/customizationUpdated"]);
    let [one, two] = [
        child(&client, &one.session, SKILLS, "greet"),
        child(&second, &two.session, SKILLS, "greet"),
    ];
    assert_eq!(one["id"], two["id"], "P18: the same everywhere");
}

#[tokio::test]
async fn d56_d57_d72_all_changes_but_identical_rewrites_are_seen() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    workspace.skill("one");
    let uris = session_in(&client, "edits", &workspace).await;
    let id = child(&client, &uris.session, SKILLS, "one")["id"].clone();
    workspace.write(".claude/skills/one/SKILL.md", &skill("one", "Does it better."));
    until_entry(&client, &uris.session, SKILLS, "is edited", |entry| {
        entry["children"][0]["description"] == "Does it better."
    })
    .await;
    assert_eq!(child(&client, &uris.session, SKILLS, "one")["id"], id, "P18");
    // The same bytes again, and a second change that shows that the first was looked at.
    let before = told(&client, &uris.session).len();
    workspace.write(".claude/skills/one/SKILL.md", &skill("one", "Does it better."));
    workspace.write(".claude/skills/.one.swp", "an editor's own");
    workspace.write(".github/skills/other/SKILL.md", &skill("other", "Else."));
    until_names(&client, &uris.session, ".github/skills", &["other"]).await;
    client.caught_up().await;
    assert_eq!(told(&client, &uris.session)[before..], ["session/customizationUpdated"]);
    // Another file is another customization.
    fs::rename(
        workspace.path(".claude/skills/one"),
        workspace.path(".claude/skills/two"),
    )
    .expect("renamed");
    until_entry(&client, &uris.session, SKILLS, "is renamed", |entry| {
        entry["children"][0]["uri"]
            .as_str()
            .is_some_and(|uri| uri.ends_with("/two/SKILL.md"))
    })
    .await;
    assert_ne!(child(&client, &uris.session, SKILLS, "one")["id"], id);
    fs::remove_dir_all(workspace.path(".claude")).expect("deleted");
    until_names(&client, &uris.session, SKILLS, &[]).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn d65_a_repaired_plugin_keeps_its_disabled_children() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let manifest = ".agents/plugins/tools/.plugin/plugin.json";
    let good = r#"{ "name": "tools", "version": "1.2.0" }"#;
    workspace.write(manifest, good);
    workspace.write(".agents/plugins/tools/skills/a/SKILL.md", &skill("a", "A."));
    workspace.write(".agents/plugins/tools/skills/b/SKILL.md", &skill("b", "B."));
    let uris = session_in(&client, "broken", &workspace).await;
    let plugin = entry(&client, &uris.session, "tools");
    assert_eq!(
        (&plugin["type"], &plugin["version"]),
        (&json!("plugin"), &json!("1.2.0"))
    );
    let a = child(&client, &uris.session, "tools", "a")["id"].clone();
    toggle(
        &client,
        &uris.session,
        &a,
        json!([{ "kind": "session", "enabled": false }]),
    )
    .await;
    until_entry(&client, &uris.session, "tools", "has a child that is off", |entry| {
        entry["children"][0]["enabled"] == false
    })
    .await;
    workspace.write(manifest, "{ broken");
    until_entry(&client, &uris.session, "tools", "is broken", |entry| {
        entry["load"]["kind"] == "error" && names(entry).is_empty()
    })
    .await;
    let message = entry(&client, &uris.session, "tools")["load"]["message"].to_string();
    assert!(message.contains(".plugin/plugin.json"), "it names the file: {message}");
    workspace.write(manifest, good);
    until_names(&client, &uris.session, "tools", &["a", "b"]).await;
    let plugin = entry(&client, &uris.session, "tools");
    assert_eq!(plugin["children"][0]["enabled"], false, "{plugin:#}");
    assert_ne!(plugin["children"][1]["enabled"], false, "{plugin:#}");
    client.assert_converged().await;
}

/// Files without a container are reported in the session, because users do not read the log (CUS-05).
#[tokio::test]
async fn cus05_a_broken_file_of_mcp_servers_is_named_until_it_is_repaired() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let good = json!({ "mcpServers": { "db": { "command": "/bin/false" } } }).to_string();
    workspace.write(".mcp.json", &good);
    let uris = session_in(&client, "servers", &workspace).await;
    let of_servers = |entries: &[Value]| {
        let found = entries.iter().find(|entry| entry["contents"] == "mcpServer");
        found.map(|entry| entry["load"].clone())
    };
    assert_eq!(of_servers(&entries(&client, &uris.session)), None, "nothing is wrong");
    workspace.write(".mcp.json", "{ broken");
    until_entries(&client, &uris.session, "name the file", |entries| {
        let message = of_servers(entries).map(|load| load["message"].to_string());
        message.is_some_and(|message| message.contains(".mcp.json"))
    })
    .await;
    let all = entries(&client, &uris.session);
    assert_eq!(of_servers(&all).expect("shown")["kind"], "degraded");
    assert!(all.iter().all(|entry| entry["name"] != "db"), "{all:#?}");
    workspace.write(".mcp.json", &good);
    until_entries(&client, &uris.session, "have the server", |entries| {
        of_servers(entries).is_none() && entries.iter().any(|entry| entry["name"] == "db")
    })
    .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn cus05_a_marketplace_with_a_broken_index_shows_the_reason() {
    let market = Workspace::new();
    market.write("marketplace.json", "{ broken");
    market.write("greeter/skills/hello/SKILL.md", &skill("hello", "Says hello."));
    let section = format!(
        "customizations.collections = [{:?}]",
        market.path("").display().to_string()
    );
    let host = HostProcess::start(options().setting(&section)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = session_in(&client, "market", &Workspace::new()).await;
    let of_market = |entries: &[Value]| {
        let found = entries.iter().find(|entry| entry["uri"] == market.uri());
        found.map(|entry| entry["load"].clone())
    };
    let load = of_market(&entries(&client, &uris.session)).expect("it is shown");
    assert_eq!(load["kind"], "error");
    assert!(load["message"].to_string().contains("marketplace.json"), "{load}");
    let good = r#"{ "name": "market", "plugins": [{ "name": "greeter", "source": "./greeter" }] }"#;
    market.write("marketplace.json", good);
    until_names(&client, &uris.session, "greeter", &["hello"]).await;
    assert_eq!(
        of_market(&entries(&client, &uris.session)),
        None,
        "there is nothing to say"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn d58_a_burst_of_three_thousand_files_ends_in_the_right_state() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let uris = session_in(&client, "burst", &workspace).await;
    for number in 0..3_000 {
        workspace.write(&format!(".claude/rules/r{number:04}.md"), "A rule.\n");
    }
    until_entry(&client, &uris.session, ".claude/rules", "has all", |entry| {
        entry["children"]
            .as_array()
            .is_some_and(|children| children.len() == 3_000)
    })
    .await;
    let rules = entry(&client, &uris.session, ".claude/rules");
    assert_eq!(rules["load"]["kind"], "loaded", "{}", rules["load"]);
    assert_eq!(rules["children"][2_999]["name"], "r2999");
    assert_eq!(rules["children"][0]["alwaysApply"], true);
    fs::remove_dir_all(workspace.path(".claude/rules")).expect("deleted");
    until_names(&client, &uris.session, ".claude/rules", &[]).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn d79_five_thousand_children_are_shown_and_one_more_is_one_action() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    for number in 0..5_000 {
        workspace.write(&format!(".claude/rules/r{number:04}.md"), "A rule.\n");
    }
    let uris = session_in(&client, "many", &workspace).await;
    assert_eq!(names(&entry(&client, &uris.session, ".claude/rules")).len(), 5_000);
    let before = told(&client, &uris.session).len();
    workspace.skill("one-more");
    until_names(&client, &uris.session, SKILLS, &["one-more"]).await;
    client.caught_up().await;
    assert_eq!(told(&client, &uris.session)[before..], ["session/customizationUpdated"]);
    let actions = client.view().actions_on(&uris.session);
    let of_it = actions
        .iter()
        .rfind(|action| action["type"] == "session/customizationUpdated");
    let size = of_it.expect("it was told").to_string().len();
    assert!(
        size < 4_096,
        "it tells of one container and not of the others: {size} bytes"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn d47_cus26_cus27_hooks_and_servers_show_their_position_and_no_command() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let ran = workspace.path("ran");
    let run = format!("touch {}", ran.display());
    let hooks = json!({ "hooks": { "PreToolUse": [
        { "matcher": "Bash", "hooks": [{ "type": "command", "command": run }] }
    ] } });
    workspace.write(".claude/settings.json", &hooks.to_string());
    let servers = json!({ "mcpServers": { "db": {
        "command": "/bin/sh", "args": ["-c", run], "env": { "SECRET": "hunter2" }
    } } });
    workspace.write(".mcp.json", &servers.to_string());
    workspace.write("AGENTS.md", "Be kind.\n");
    let uris = session_in(&client, "secrets", &workspace).await;
    let server = entry(&client, &uris.session, "db");
    assert_eq!(server["type"], "mcpServer");
    assert_ne!(server["state"]["kind"], "ready", "it is not trusted");
    assert_eq!(server["uri"], json!(format!("{}/.mcp.json", workspace.uri())), "CUS-03");
    assert_eq!(server["range"]["start"]["line"], 0, "{server:#}");
    let all = entries(&client, &uris.session);
    let hook = all
        .iter()
        .find(|entry| entry["contents"] == "hook" && !names(entry).is_empty());
    let hook = hook.unwrap_or_else(|| panic!("{all:#?}"));
    assert_eq!(
        hook["children"][0]["_meta"],
        json!({ "innkeeper.hooks": [{ "event": "PreToolUse", "matcher": "Bash" }] })
    );
    assert_eq!(hook["writable"], false, "CUS-28");
    let text = json!(all).to_string();
    assert!(!text.contains("hunter2") && !text.contains("touch"), "{text}");
    assert!(!ran.exists(), "nothing is run by being found");
    client.assert_converged().await;
}

#[tokio::test]
async fn cus21_agents_list_and_follow_global_customizations() {
    let plugins = Workspace::new();
    plugins.write(
        "greeter/.plugin/plugin.json",
        r#"{ "name": "greeter", "description": "Greets." }"#,
    );
    plugins.write("greeter/skills/hello/SKILL.md", &skill("hello", "Says hello."));
    let section = format!(
        "customizations.plugins = [{:?}]",
        plugins.path("greeter").display().to_string()
    );
    let host = HostProcess::start(options().setting(&section)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    client.subscribe("ahp-root://").await;
    until_listed(&client, "the plugin and the home", |listed| {
        let has = |name: &str| listed.iter().any(|entry| entry["name"] == name);
        has("greeter") && has("~/.claude/skills")
    })
    .await;
    let first = listed(&client.view());
    assert_eq!(first[0]["name"], "greeter", "{first:#?}");
    assert_eq!(first[0].get("children"), None, "what is in it belongs to sessions");
    assert!(
        first
            .iter()
            .any(|entry| entry["name"] == "~/.claude/skills" && entry["writable"] == true)
    );
    // A session has the same, with what is in it.
    let workspace = Workspace::new();
    let uris = session_in(&client, "gets", &workspace).await;
    let plugin = entry(&client, &uris.session, "greeter");
    assert_eq!(
        (&plugin["id"], names(&plugin)),
        (&first[0]["id"], vec!["hello".to_owned()])
    );
    plugins.write(
        "greeter/.plugin/plugin.json",
        r#"{ "name": "greeter", "version": "2.0.0" }"#,
    );
    until_listed(&client, "the new version", |listed| {
        listed.first().is_some_and(|plugin| plugin["version"] == "2.0.0")
    })
    .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn d66_two_containers_that_change_at_once_are_one_action_each() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let uris = session_in(&client, "at-once", &workspace).await;
    let before = told(&client, &uris.session).len();
    workspace.skill("a");
    workspace.write(".github/skills/b/SKILL.md", &skill("b", "B."));
    until_names(&client, &uris.session, SKILLS, &["a"]).await;
    until_names(&client, &uris.session, ".github/skills", &["b"]).await;
    client.caught_up().await;
    let told = told(&client, &uris.session);
    assert_eq!(told[before..], ["session/customizationUpdated"; 2]);
    client.assert_converged().await;
}
