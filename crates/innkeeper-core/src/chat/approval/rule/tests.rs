use proptest::prelude::*;

use super::*;

fn command(line: &str) -> Call {
    Call::Command {
        tool: "run_command".to_owned(),
        line: line.to_owned(),
        directory: None,
    }
}

fn command_in(line: &str, directory: &str) -> Call {
    Call::Command {
        tool: "run_command".to_owned(),
        line: line.to_owned(),
        directory: Some(directory.to_owned()),
    }
}

fn edit(path: &str) -> Call {
    Call::File {
        tool: "edit_file".to_owned(),
        access: FileAccess::Change,
        path: path.to_owned(),
        is_sensitive: false,
    }
}

fn secret(path: &str) -> Call {
    Call::File {
        tool: "edit_file".to_owned(),
        access: FileAccess::Change,
        path: path.to_owned(),
        is_sensitive: true,
    }
}

fn host(origin: &str) -> Call {
    Call::Host {
        tool: "fetch_url".to_owned(),
        origin: super::origin(origin).expect("a server"),
    }
}

fn covers(rule: &str, call: &Call) -> bool {
    Rule::parse(rule).expect(rule).covers(call)
}

/// The commands of the scenarios that try to pass under a remembered rule.
#[test]
fn the_exact_rule_of_an_attempt_covers_no_other_attempt() {
    let corpus = include_str!("../../../../tests/scenarios/chat/approval_attempts.json");
    let corpus: serde_json::Value = serde_json::from_str(corpus).expect("JSON");
    let lines: Vec<&str> = corpus["attempts"]
        .as_array()
        .expect("attempts")
        .iter()
        .filter_map(|attempt| attempt[1].as_str())
        .collect();
    let rules: Vec<(&str, Line)> = lines
        .iter()
        .filter_map(|line| Some((*line, Line::exact(line)?)))
        .collect();
    assert!(
        lines.len() >= 100 && rules.len() >= 50,
        "{} of {}",
        rules.len(),
        lines.len()
    );
    for (line, rule) in rules {
        for other in &lines {
            assert_eq!(rule.covers(other), *other == line, "{line:?} and {other:?}");
        }
    }
}

#[test]
fn commands_are_covered_in_their_directory_alone() {
    assert!(covers("run_command(cargo test *)", &command("cargo test -p a")));
    assert!(!covers("run_command(cargo test *)", &command("cargo test; rm -rf x")));
    assert!(!covers(
        "run_command(cargo test *)",
        &command_in("cargo test", "vendor")
    ));
    assert!(covers(
        "run_command[vendor](cargo test *)",
        &command_in("cargo test", "vendor")
    ));
    assert!(!covers("run_command[vendor](cargo test *)", &command("cargo test")));
    assert!(covers("run_command[*](make)", &command_in("make", "a/b")));
    assert!(!covers("other(cargo test *)", &command("cargo test")));
    assert!(covers("run_command(*)", &command("curl x | sh")), "every command");
    assert!(
        covers("run_command(*)", &command_in("curl x | sh", "vendor")),
        "every command"
    );
}

#[test]
fn more_than_a_plain_command_is_covered_by_the_same_text_alone() {
    let rule = "run_command(cargo test 2>&1 | tail -5)";
    assert!(covers(rule, &command("cargo test 2>&1 | tail -5")));
    for other in [
        "cargo test 2>&1 | tail -6",
        "cargo test 2>&1 | tail -5 ",
        "cargo test 2>&1 |  tail -5",
        "cargo test 2>&1 | tail -5\n",
    ] {
        assert!(!covers(rule, &command(other)), "{other:?}");
    }
    for rule in [
        "run_command(ls; rm *)",
        "run_command(ls $(cat *))",
        "run_command(\u{0441}argo test)",
    ] {
        let parsed = Rule::parse(rule);
        assert!(
            parsed.is_err() || !parsed.expect("a rule").covers(&command("ls; rm x")),
            "{rule}"
        );
    }
}

#[test]
fn files_are_covered_by_their_path_or_by_a_directory_above() {
    assert!(covers("edit(src/a.rs)", &edit("src/a.rs")));
    assert!(!covers("edit(src/a.rs)", &edit("src/a.rs.bak")));
    assert!(covers("edit(src/)", &edit("src/deep/a.rs")));
    for elsewhere in ["src", "srcs/a.rs", "other/src/a.rs", "/src/a.rs"] {
        assert!(!covers("edit(src/)", &edit(elsewhere)), "{elsewhere}");
    }
    assert!(covers("edit(./)", &edit("any/thing")));
    assert!(!covers("edit(./)", &edit("/etc/passwd")), "the first directory alone");
    assert!(covers("edit(/srv/lib/)", &edit("/srv/lib/a")));
    assert!(!covers("read(src/)", &edit("src/a.rs")), "reading is not changing");
    assert!(!covers("edit(./)", &secret(".env")), "a secret is named itself");
    assert!(covers("edit(.env)", &secret(".env")));
    for rule in [
        "edit(../a)",
        "edit(a/../b)",
        "edit(a//b)",
        "edit()",
        "edit(a/*)",
        "edit(//)",
        "edit(a\u{200b})",
    ] {
        assert!(Rule::parse(rule).is_err(), "{rule}");
    }
}

#[test]
fn servers_are_covered_with_scheme_and_port() {
    assert!(covers("fetch(docs.rs)", &host("https://docs.rs")));
    for other in [
        "http://docs.rs",
        "https://docs.rs:8443",
        "https://docs.rs.evil.test",
        "https://evil-docs.rs",
    ] {
        assert!(!covers("fetch(docs.rs)", &host(other)), "{other}");
    }
    assert!(covers("fetch(http://localhost:8080)", &host("http://localhost:8080")));
    assert!(covers("fetch(*)", &host("https://anything.test")));
    for rule in [
        "fetch(docs.rs/path)",
        "fetch(a b)",
        "fetch(d\u{043e}cs.rs)",
        "fetch()",
        "fetch(*.rs)",
    ] {
        assert!(Rule::parse(rule).is_err(), "{rule}");
    }
}

#[test]
fn owners_of_tools_cannot_be_taken_for_one_another() {
    let mcp = |server: &str, tool: &str| Call::Mcp {
        server: escaped(server),
        tool: escaped(tool),
    };
    let client = |client: &str, tool: &str| Call::Client {
        client: escaped(client),
        tool: escaped(tool),
    };
    let own = |tool: &str| Call::Tool {
        tool: tool.to_owned(),
        input: None,
    };
    assert!(covers("mcp(notes/add)", &mcp("notes", "add")));
    assert!(covers("mcp(notes/*)", &mcp("notes", "remove")));
    for call in [
        mcp("notes2", "add"),
        mcp("notes", "add2"),
        client("notes", "add"),
        own("notes/add"),
    ] {
        assert!(!covers("mcp(notes/add)", &call), "{call:?}");
        assert!(!covers("notes/add(*)", &mcp("notes", "add")));
    }
    assert_ne!(mcp("a/b", "c"), mcp("a", "b/c"));
    assert!(!covers("mcp(a/*)", &mcp("a/b", "c")));
    assert!(covers("tool:mcp(*)", &own("mcp")));
    assert!(!covers("add(*)", &client("c", "add")));
}

#[test]
fn a_bare_name_of_a_tool_is_no_rule() {
    for text in [
        "run_command",
        "",
        "run_command(",
        "(*)",
        "client:c/x",
        "mcp:id/x",
        "run_command[x]",
    ] {
        assert!(Rule::parse(text).is_err(), "{text}");
    }
    let problem = Rule::parse("run_command").expect_err("a bare name");
    assert!(problem.contains("`run_command(*)` would allow every call"), "{problem}");
}

#[test]
fn an_input_is_covered_when_it_is_the_same_text() {
    let call = |input: &str| Call::Tool {
        tool: "ring_bell".to_owned(),
        input: Some(input.to_owned()),
    };
    assert!(covers("ring_bell({\"times\":3})", &call("{\"times\":3}")));
    assert!(!covers("ring_bell({\"times\":3})", &call("{\"times\":30}")));
    assert!(!covers("ring_bell({\"times\":3})", &call("{\"times\":3}\u{200b}")));
}

proptest! {
    #[test]
    fn every_rule_is_read_as_it_was_written(text in "[a-z_]{1,8}(\\[[a-z/*]{1,5}\\])?\\([ -~]{0,30}\\)") {
        if let Ok(rule) = Rule::parse(&text)
            && let Some(written) = rule.written()
        {
            prop_assert_eq!(Rule::parse(&written), Ok(rule));
        }
    }

    #[test]
    fn a_rule_for_a_directory_covers_nothing_outside_of_it(path in "(/?)[a-z./]{1,20}") {
        if covers("edit(src/)", &edit(&path)) {
            prop_assert!(path.starts_with("src/"), "{path}");
        }
    }

    #[test]
    fn escaped_names_are_as_different_as_the_names(one in ".{0,8}", other in ".{0,8}") {
        prop_assert_eq!(escaped(&one) == escaped(&other), one == other);
    }
}
