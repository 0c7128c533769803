//! Saving customizations through the host, into writable directories (CUS-23).

use std::fs;

use innkeeper_testkit::official::{OfficialClient, markdown};
use serde_json::json;

use crate::customizations::support::{
    Workspace, ask, entry, names, refused, session_in, skill, told, until_entry, until_names, uri_of,
};
use crate::start_with_client;

#[tokio::test]
async fn d69_cus23_the_first_skill_is_saved_into_a_new_directory() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let uris = session_in(&client, "saves", &workspace).await;
    let directory = entry(&client, &uris.session, ".github/skills");
    assert_eq!(directory["writable"], true);
    assert!(!workspace.path(".github").exists());
    let before = told(&client, &uris.session).len();
    let file = format!("{}/new-skill/SKILL.md", directory["uri"].as_str().expect("a URI"));
    let write = json!({ "uri": file, "data": skill("new-skill", "Is new."), "encoding": "utf-8", "createOnly": true });
    ask(&client, "resourceWrite", write.clone()).await;
    until_names(&client, &uris.session, ".github/skills", &["new-skill"]).await;
    client.caught_up().await;
    assert_eq!(told(&client, &uris.session)[before..], ["session/customizationUpdated"]);
    assert_eq!(refused(&client, "resourceWrite", write).await.0, -32010, "createOnly");
    // Invalid files are shown with their error (D71).
    let broken = json!({ "uri": file, "data": "no frontmatter", "encoding": "utf-8" });
    ask(&client, "resourceWrite", broken).await;
    until_entry(
        &client,
        &uris.session,
        ".github/skills",
        "says what is wrong",
        |entry| {
            entry["load"]["kind"] == "degraded"
                && entry["load"]["message"]
                    .as_str()
                    .is_some_and(|message| message.contains("new-skill/SKILL.md"))
                && names(entry) == ["new-skill"]
        },
    )
    .await;
    ask(&client, "resourceDelete", json!({ "uri": file })).await;
    until_names(&client, &uris.session, ".github/skills", &[]).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn d69_a_skill_that_was_saved_is_known_to_the_next_message() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let uris = session_in(&client, "saved", &workspace).await;
    let directory = entry(&client, &uris.session, ".github/skills");
    let directory = directory["uri"].as_str().expect("a URI");
    for number in 0..5 {
        let name = format!("saved-{number}");
        let file = format!("{directory}/{name}/SKILL.md");
        let write = json!({ "uri": file, "data": skill(&name, "Is new."), "encoding": "utf-8" });
        ask(&client, "resourceWrite", write).await;
        let turn = client
            .run_turn(&uris.chat, &format!("t{number}"), &format!("/{name}"))
            .await;
        let said = markdown(&turn.response_parts);
        assert!(said.contains(&format!("You called `{name}`")), "{said}");
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn cus23_skills_of_the_user_can_be_saved_and_hooks_and_settings_cannot() {
    let (host, client) = start_with_client().await;
    let workspace = Workspace::new();
    let uris = session_in(&client, "user", &workspace).await;
    let skills = entry(&client, &uris.session, "~/.claude/skills");
    let hooks = entry(&client, &uris.session, "~/.copilot/hooks");
    assert_eq!((&skills["writable"], &hooks["writable"]), (&json!(true), &json!(false)));
    let save = |uri: String| json!({ "uri": uri, "data": skill("mine", "Mine."), "encoding": "utf-8" });
    let file = format!("{}/mine/SKILL.md", skills["uri"].as_str().expect("a URI"));
    ask(&client, "resourceWrite", save(file)).await;
    until_names(&client, &uris.session, "~/.claude/skills", &["mine"]).await;
    // Another session, elsewhere, has it as well.
    let elsewhere = session_in(&client, "elsewhere", &Workspace::new()).await;
    assert_eq!(names(&entry(&client, &elsewhere.session, "~/.claude/skills")), ["mine"]);
    for refused_at in [
        format!("{}/evil.json", hooks["uri"].as_str().expect("a URI")),
        uri_of(&host.path(".claude/settings.json")),
        uri_of(&host.path(".agents/plugins/evil/.plugin/plugin.json")),
        format!("{}/../settings.json", skills["uri"].as_str().expect("a URI")),
        format!("{}/%2e%2e/settings.json", skills["uri"].as_str().expect("a URI")),
    ] {
        let (code, why) = refused(&client, "resourceWrite", save(refused_at.clone())).await;
        assert!(code == -32009 || code == -32602, "{refused_at}: {code} {why}");
    }
    assert!(!host.path(".claude/settings.json").exists());
    // A link is no way out (D70).
    fs::create_dir_all(host.path(".claude")).expect("there");
    std::os::unix::fs::symlink(host.path(".claude"), host.path(".claude/skills/out")).expect("linked");
    let out = format!("{}/out/settings.json", skills["uri"].as_str().expect("a URI"));
    assert_eq!(refused(&client, "resourceWrite", save(out)).await.0, -32009);
    client.assert_converged().await;
}

#[tokio::test]
async fn cus23_scope_view_saves_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let options = crate::options().setting(&format!(
        "view_token_file = {:?}",
        home.path().join("view").display().to_string()
    ));
    let host = innkeeper_testkit::process::HostProcess::start(options).await;
    let mut address = host.address().clone();
    let token = fs::read_to_string(home.path().join("view")).expect("a token");
    address.token = Some(token.trim().to_owned());
    let viewer = OfficialClient::connect(&address, "viewer").await;
    let file = uri_of(&host.path(".claude/skills/x/SKILL.md"));
    let write = json!({ "uri": file, "data": "x", "encoding": "utf-8" });
    assert_eq!(refused(&viewer, "resourceWrite", write).await.0, -32009);
}
