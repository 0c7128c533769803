//! `innkeeper approvals`, and rules that an approval at a terminal adds.

use super::support::{Home, named_session};

#[test]
fn approvals_are_listed_allowed_and_revoked() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["approvals"]).code(0).says("Nothing runs without asking.");
    home.run(&["approvals", "allow", "ring_bell"])
        .code(5)
        .says("is not a rule");
    home.run(&["approvals", "allow", "run_command(sudo *)"])
        .code(5)
        .says("cannot be left open");
    home.run(&["approvals", "allow", "ring_bell(*)"])
        .code(0)
        .says("without asking");
    home.run(&["approvals", "allow", "fetch(docs.rs)", "--everywhere"])
        .code(0);
    let listed = home.run(&["approvals"]).code(0).stdout;
    assert!(
        listed.starts_with("everywhere\n  fetch(docs.rs)\nin file:///"),
        "{listed}"
    );
    assert!(listed.contains("\n  ring_bell(*)\n"), "{listed}");
    // It holds in the workspace of the current directory, and the call says by which rule it ran.
    let ended = home.run(&["send", "/confirm"]).code(0);
    assert!(ended.stdout.contains("I rang the bell 3 times"), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("[allowed in this workspace by ring_bell(*): Rings the bell]\n| times: 3\n"),
        "{ended:?}"
    );
    let session = named_session(&ended.stderr);
    home.run(&["approvals", "allow", "edit(src/)", "--session", &session])
        .code(0);
    let listed = home.run(&["approvals", "--session", &session]).code(0).stdout;
    assert!(
        listed.contains(&format!("in session ahp-session:/{session}")),
        "{listed}"
    );
    assert!(listed.contains("\n  edit(src/)\n"), "{listed}");
    let json = home.run(&["approvals", "list", "--json"]).code(0).json_lines();
    assert_eq!(json[0]["everywhere"][0], "fetch(docs.rs)");
    home.run(&["approvals", "revoke", "ring_bell(*)"])
        .code(0)
        .says("1 approval was taken back");
    home.run(&["approvals", "revoke", "ring_bell(*)"])
        .code(5)
        .says("nothing like that is allowed");
    home.run(&["approvals", "revoke", "--all", "--everywhere"]).code(0);
    home.run(&["approvals", "revoke", "--all", "--session", &session])
        .code(0);
    home.run(&["approvals"]).code(0).says("Nothing runs without asking.");
}

#[test]
fn importing_a_session_says_which_approvals_it_resets() {
    let home = Home::new();
    let mut host = Some(home.host(&[]));
    let ended = home.run(&["send", "hello"]).code(0);
    let session = named_session(&ended.stderr);
    home.run(&["approvals", "allow", "ring_bell(*)", "--session", &session])
        .code(0);
    let exported = home.run(&["sessions", "export", &session]).code(0).stdout;
    assert!(exported.contains("ring_bell(*)"), "the file has it");
    let file = home.write("export.jsonl", &exported);
    for name in ["ahp-session:/running", "ahp-session:/stopped"] {
        if name.ends_with("stopped") {
            host.take().expect("it runs").stop();
        }
        let imported = home
            .run(&["sessions", "import", file.to_str().unwrap(), "--as", name])
            .code(0);
        assert!(imported.stderr.contains("Its approvals were reset"), "{imported:?}");
        assert!(imported.stderr.contains("  ring_bell(*)\n"), "{imported:?}");
    }
    let _host = home.host(&[]);
    for name in ["ahp-session:/running", "ahp-session:/stopped"] {
        let listed = home
            .run(&["approvals", "list", "--json", "--session", name])
            .code(0)
            .json_lines();
        assert_eq!(listed[0]["sessions"][0]["rules"], serde_json::json!([]), "{listed:?}");
    }
    let listed = home
        .run(&["approvals", "list", "--json", "--session", &session])
        .code(0)
        .json_lines();
    assert_eq!(listed[0]["sessions"][0]["rules"], serde_json::json!(["ring_bell(*)"]));
}
