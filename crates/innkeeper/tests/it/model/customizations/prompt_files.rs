//! The agent, model and tools of a prompt file apply only to the turn that calls it.

use innkeeper_testkit::model_server::{Api, ModelServer, Reply, Script};
use innkeeper_testkit::official::OfficialClient;

use crate::model::support::{Setup, Stage, create_session};

const FILES: &[(&str, &str)] = &[
    (
        ".claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Finds faults.\nmodel: scripted\ntools: Read, Grep\n---\nYou find faults.\n",
    ),
    (
        ".github/prompts/role.prompt.md",
        "---\ndescription: In a role.\nagent: reviewer\n---\nLook around.\n",
    ),
    (
        ".github/prompts/whole.prompt.md",
        "---\ndescription: With everything.\nagent: reviewer\nmodel: other\ntools: ['edit']\n---\nChange it.\n",
    ),
    (
        ".github/prompts/lost.prompt.md",
        "---\ndescription: Wants what there is not.\nagent: unknown\nmodel: nothing\n---\nGo on.\n",
    ),
];

async fn stage() -> Stage {
    let server = ModelServer::start(Script::by(|_| Reply::words("Done."))).await;
    let models = "keyless = true\nmodels = [{ id = \"scripted\" }, { id = \"other\" }]";
    let host = Setup::new(Api::Chat).provider(models).host(&server).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in FILES {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("in a directory")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let uris = create_session(&client, "work", directory.path()).await;
    Stage {
        server,
        host,
        client,
        directory,
        uris,
    }
}

#[tokio::test]
async fn a_prompt_file_has_its_agent_its_model_and_its_tools_in_its_turn_only() {
    let stage = stage().await;
    let has = |tools: &[String], name: &str| tools.iter().any(|tool| tool == name);

    stage.run_turn("t1", "/role").await;
    let asked = stage.last_asked();
    assert!(asked.system().contains("You find faults."), "{}", asked.system());
    assert_eq!(asked.model(), "scripted");
    let tools = asked.tools();
    assert!(
        has(&tools, "read_file") && has(&tools, "search"),
        "those of the agent: {tools:?}"
    );
    assert!(!has(&tools, "edit_file") && !has(&tools, "run_command"), "{tools:?}");

    // The prompt overrides its agent.
    stage.run_turn("t2", "/whole").await;
    let asked = stage.last_asked();
    assert!(asked.system().contains("You find faults."), "{}", asked.system());
    assert_eq!(asked.model(), "other");
    let tools = asked.tools();
    assert!(has(&tools, "edit_file") && !has(&tools, "read_file"), "{tools:?}");

    stage.run_turn("t3", "Thank you.").await;
    let asked = stage.last_asked();
    assert!(!asked.system().contains("You find faults."), "{}", asked.system());
    assert_eq!(asked.model(), "scripted");
    assert!(has(&asked.tools(), "run_command"));
    stage.assert_in_order().await;
}

#[tokio::test]
async fn a_prompt_file_with_missing_tools_runs_with_a_notice() {
    let stage = stage().await;
    let turn = stage.run_turn("t1", "/lost").await;
    let shown = serde_json::to_string(&turn).expect("JSON");
    assert!(
        shown.contains("asks for the agent unknown, which does not exist"),
        "{shown}"
    );
    assert!(
        shown.contains("requested model \\\"nothing\\\" is not offered by"),
        "{shown}"
    );
    assert_eq!(stage.last_asked().model(), "scripted");
    stage.assert_in_order().await;
}
