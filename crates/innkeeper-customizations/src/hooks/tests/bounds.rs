//! Bounds on what a hostile workspace makes users and the host read.

use super::*;

#[tokio::test]
async fn p12_the_question_shows_everything_that_would_run() {
    let hook = |command: &str| json!({ "command": command, "cwd": "sub", "env": { "LD_PRELOAD": "evil.so" } });
    let settings = |hooks: Vec<Value>| json!({ "hooks": { "Stop": [{ "hooks": hooks }] } }).to_string();
    let workshop = Workshop::new(&[]);
    let shown = |hooks: Vec<Value>| {
        workshop.write(".claude/settings.json", &settings(hooks));
        consent::contents(workshop.hooks_of(&workshop.workspace()).files.iter())
    };
    let padded = format!("true #{}\nevil", " ".repeat(3000));
    let contents = shown(vec![hook(&padded)]).unwrap();
    assert_eq!(
        contents.pieces()[0].what,
        "Stop: true # ⏎evil [in sub] [with LD_PRELOAD=evil.so] (.claude/settings.json)"
    );
    let why = shown(vec![hook(&format!("true {} evil", "x".repeat(5000)))]).unwrap_err();
    assert!(why.contains("too many to be shown"), "{why}");
    let many = (0..201).map(|number| hook(&format!("true {number}"))).collect();
    let why = shown(many).unwrap_err();
    assert!(why.contains("too many to be shown"), "{why}");
    // And they are told why nothing runs.
    let call = workshop.call(HookEvent::Stop, "", json!({}));
    let outcome = workshop
        .hooks_of(&workshop.workspace())
        .run(call, &nothing(), None)
        .await;
    assert!(outcome.notices[0].contains("too many to be shown"), "{outcome:?}");
    let mut forged = workshop.hooks_of(&workshop.workspace()).files;
    forged[0].label = "a\n- b".to_owned();
    forged[0].file.hooks.truncate(1);
    let contents = consent::contents(forged.iter()).unwrap();
    assert!(contents.pieces()[0].what.ends_with("(a⏎- b)"), "{contents:?}");
}

#[tokio::test]
async fn p12_a_session_has_a_limit_of_hooks_and_the_users_come_first() {
    let many: Vec<Value> = (0..300)
        .map(|number| json!({ "command": format!("true {number}") }))
        .collect();
    let settings = json!({ "hooks": { "Stop": [{ "hooks": many }] } });
    let strange = Workshop::new(&[(".claude/settings.json", &settings.to_string())]);
    let workshop = Workshop::claude("Stop", "", "echo ran > ran.txt");
    let mut files = strange.hooks_of(&strange.workspace()).files;
    let again = files[0].file.hooks.clone();
    files[0].file.hooks.extend(again);
    files.extend(workshop.own().files);
    let hooks = workshop.with(files);
    let outcome = hooks
        .run(workshop.call(HookEvent::Stop, "", json!({})), &nothing(), None)
        .await;
    assert_eq!(workshop.file("ran.txt").as_deref(), Some("ran\n"));
    assert!(outcome.notices[0].contains("hooks never run"), "{outcome:?}");
    assert_eq!(hooks.hooks(&nothing()).count(), MAX_HOOKS);
}

#[test]
fn p12_matchers_with_the_same_text_are_one() {
    let hooks = json!({ "hooks": { "Stop": vec![json!({ "matcher": "a.*", "hooks": [{ "command": "true" }, { "command": "false" }] }); 2] } });
    let workshop = Workshop::new(&[(".claude/settings.json", &hooks.to_string())]);
    let hooks = workshop.own();
    let matchers: Vec<&Arc<LazyMatcher>> = hooks.matchers.iter().flatten().collect();
    assert_eq!(matchers.len(), 4);
    assert!(matchers.iter().all(|matcher| Arc::ptr_eq(matcher, matchers[0])));
}

#[test]
fn p12_a_script_behind_too_many_words_is_not_overlooked() {
    let shown = |words: usize| {
        let command = format!("{} run.sh", "x ".repeat(words));
        let args = json!({ "hooks": { "Stop": vec![json!({ "command": command }); 100] } });
        let workshop = Workshop::new(&[(".claude/settings.json", &args.to_string()), ("run.sh", "")]);
        consent::contents(workshop.hooks_of(&workshop.workspace()).files.iter())
    };
    let contents = shown(10).unwrap();
    assert!(
        contents.pieces().iter().any(|piece| piece.what == "file run.sh"),
        "{contents:?}"
    );
    let why = shown(500).unwrap_err();
    assert!(why.contains("too many words"), "{why}");
}
