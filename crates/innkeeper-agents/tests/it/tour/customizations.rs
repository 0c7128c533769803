//! Customizations of a session, as agents get them and as users call them.

use std::sync::Arc;

use innkeeper_agents::tour::TourAgent;
use innkeeper_host::customizations::{
    About, CustomAgent, CustomizationSet, CustomizationSources, Customizations, CustomizationsSink, Following,
    PromptFile, Rule, Skill, Texts,
};
use innkeeper_host::{Host, async_trait};
use innkeeper_testkit::embedded::SessionFixture;
use innkeeper_testkit::official::{View, markdown, turn_started};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Discovers the same customizations for every session, after a delay.
struct Shelf(Arc<CustomizationSet>);

impl Customizations for Shelf {
    fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
        let set = Arc::clone(&self.0);
        let reporting = tokio::spawn(async move {
            tokio::task::yield_now().await;
            sink.report(set).await
        });
        Following::new(reporting)
    }
}

/// Every file contains its own description.
struct Spoken;

#[async_trait]
impl Texts for Spoken {
    async fn read(&self, about: &About) -> Result<String, String> {
        match about.name.as_str() {
            "gone" => Err(format!("{} is not there any more", about.uri)),
            "greet" => Ok("Greet $ARGUMENTS in ${workspaceFolder}.\n".to_owned()),
            name => Ok(format!("The text of {name}.\n")),
        }
    }
}

fn about(name: &str) -> About {
    About {
        id: format!("id-{name}"),
        container: "shelf".to_owned(),
        plugin: None,
        uri: format!("file:///shelf/{name}.md"),
        name: name.to_owned(),
        description: Some(format!("What {name} is for.")),
        ..About::default()
    }
}

fn shelf() -> Shelf {
    let skill = |name: &str, for_users| Skill {
        about: about(name),
        for_models: true,
        for_users,
        ..Skill::default()
    };
    let agent = |name: &str, for_users| CustomAgent {
        about: about(name),
        for_models: true,
        for_users,
        ..CustomAgent::default()
    };
    Shelf(Arc::new(CustomizationSet {
        skills: vec![
            skill("greet", true),
            skill("secret", false),
            skill("gone", true),
            skill("usage", true),
        ],
        prompts: vec![PromptFile {
            about: about("release"),
            ..PromptFile::default()
        }],
        agents: vec![agent("reviewer", true), agent("mole", false)],
        rules: vec![Rule {
            about: about("tabs"),
            globs: vec!["*.rs".to_owned()],
            ..Rule::default()
        }],
        texts: Arc::new(Spoken),
        ..CustomizationSet::default()
    }))
}

async fn fixture() -> SessionFixture {
    SessionFixture::with(Host::builder().agent(TourAgent::new()).customizations(shelf())).await
}

async fn answer(fixture: &SessionFixture, id: &str, text: &str) -> (String, Option<String>) {
    let turn = fixture.client.run_turn(&fixture.uris.chat, id, text).await;
    assert_eq!(turn.message.text, text, "a user's words stay what they are");
    let parts = serde_json::to_value(&turn.response_parts).expect("JSON");
    let error = parts.as_array().and_then(|parts| parts.last()).and_then(|part| {
        let message = part["error"]["message"].as_str();
        message.map(str::to_owned)
    });
    (markdown(&turn.response_parts), error)
}

/// Reports that it is still reading, and returns the customizations when it is told to.
struct SlowShelf(Arc<CustomizationSet>, Arc<Notify>);

impl Customizations for SlowShelf {
    fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
        let (set, read) = (Arc::clone(&self.0), Arc::clone(&self.1));
        let reporting = tokio::spawn(async move {
            let loading = json!({
                "type": "directory", "id": "shelf", "uri": "file:///shelf", "name": "shelf",
                "contents": "skill", "enabled": true, "writable": false, "load": { "kind": "loading" },
            });
            let entry = serde_json::from_value(loading).expect("an entry");
            let preview = CustomizationSet {
                entries: vec![Arc::new(entry)],
                is_preview: true,
                ..CustomizationSet::default()
            };
            sink.report(Arc::new(preview)).await;
            read.notified().await;
            sink.report(set).await
        });
        Following::new(reporting)
    }
}

#[tokio::test]
async fn cus05_cus24_the_first_turn_waits_for_loading_customizations() {
    let read = Arc::new(Notify::new());
    let shelf = SlowShelf(shelf().0, Arc::clone(&read));
    let fixture = SessionFixture::with(Host::builder().agent(TourAgent::new()).customizations(shelf)).await;
    let (client, uris) = (&fixture.client, &fixture.uris);
    let is_loading = |view: &View| {
        let shown = view.session(&uris.session).map(|session| &session.customizations);
        let shown = serde_json::to_value(shown).expect("JSON");
        shown[0]["load"]["kind"] == "loading"
    };
    client.until("a directory that is read", is_loading).await;
    client.start_turn(&uris.chat, "t1", "/customizations").await;
    client
        .until("the turn", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.active_turn.is_some())
        })
        .await;
    read.notify_one();
    let turn = client.turn_end(&uris.chat, "t1").await;
    let given = markdown(&turn.response_parts);
    assert!(given.contains("`greet`") && given.contains("`tabs`"), "{given}");
}

#[tokio::test]
async fn cus24_the_first_turn_has_the_customizations_and_invokes_one_by_name() {
    let fixture = fixture().await;
    let (given, _) = answer(&fixture, "t1", "/customizations").await;
    for part in [
        "`greet`",
        "`secret`, for models only",
        "`release`",
        "`tabs`, for `*.rs`",
        "`mole`",
    ] {
        assert!(given.contains(part), "{part} in {given}");
    }
    let (called, _) = answer(&fixture, "t2", "/greet the\nguests").await;
    assert!(called.contains("Greet the\nguests in"), "{called}");
    let (called, _) = answer(&fixture, "t3", "/release now").await;
    assert!(called.contains("The text of release.\n\nArguments: now"), "{called}");
    // A skill for models only is rejected and does not reach the agent as text.
    let (said, error) = answer(&fixture, "closed", "/secret").await;
    assert!(
        error.is_some_and(|error| error.contains("/secret cannot be called")),
        "{said}"
    );
    // An unknown name is passed to the agent, and a command of the agent takes precedence.
    let (said, _) = answer(&fixture, "unknown", "/nothing").await;
    assert!(said.contains("I do not know the command"), "{said}");
    let (own, _) = answer(&fixture, "t4", "/usage").await;
    assert!(own.contains("1200 tokens"), "{own}");
    let (_, error) = answer(&fixture, "t5", "/gone").await;
    assert!(error.is_some_and(|error| error.contains("is not there any more")));
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn cus24_completions_show_user_invocable_customizations() {
    let fixture = fixture().await;
    let labels = async |text: &str| -> Vec<String> {
        let params = json!({
            "channel": fixture.uris.chat, "kind": "userMessage", "text": text, "offset": text.len(),
        });
        let found: Value = fixture.client.request("completions", params).await.expect("found");
        let items = found["items"].as_array().expect("items").iter();
        items
            .filter_map(|item| item["attachment"]["label"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(labels("/gre").await, ["/greet"]);
    assert_eq!(labels("/rel").await, ["/release"]);
    assert_eq!(labels("/usage").await, ["/usage"], "the agent's own, once");
    assert!(labels("/secret").await.is_empty());
}

#[tokio::test]
async fn cus02_a_message_chooses_an_agent_by_its_uri() {
    let fixture = fixture().await;
    let choose = async |id: &str, uri: &str| {
        let mut action = turn_started(id, "Hello");
        action["message"]["agent"] = json!({ "uri": uri });
        fixture.client.dispatch(&fixture.uris.chat, action).await;
        let turn = fixture.client.turn_end(&fixture.uris.chat, id).await;
        serde_json::to_string(&turn.response_parts).expect("JSON")
    };
    let chosen = choose("t1", "file:///shelf/reviewer.md").await;
    assert!(
        chosen.contains("A model would be told: The text of reviewer."),
        "{chosen}"
    );
    let hidden = choose("t2", "file:///shelf/mole.md").await;
    assert!(hidden.contains("cannot be chosen by users"), "{hidden}");
    let unknown = choose("t3", "file:///shelf/unknown.md").await;
    assert!(
        unknown.contains("The agent file:///shelf/unknown.md no longer exists"),
        "{unknown}"
    );
}
