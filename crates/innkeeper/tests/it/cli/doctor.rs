//! `innkeeper doctor` on healthy and on broken directories.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::support::{Ended, Home};

/// A home whose host has come and gone.
fn furnished() -> Home {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "hello"]).code(0);
    host.stop().code(0);
    home
}

/// A configuration whose port is free whatever else runs on the machine.
fn on_a_free_port(home: &Home) -> String {
    let config = home.write("free.toml", "listen = \":0\"\n");
    config.to_str().unwrap().to_owned()
}

fn doctor(home: &Home, flags: &[&str]) -> Ended {
    let config = on_a_free_port(home);
    let args = [&["doctor", "--json", "--config", &config][..], flags].concat();
    home.run(&args)
}

#[track_caller]
fn has(findings: &[Value], level: &str, subject: &str, text: &str) {
    let is_it = |finding: &Value| {
        finding["level"] == level
            && finding["subject"] == subject
            && finding["finding"].as_str().unwrap().contains(text)
            && (level == "ok" || finding["advice"].is_string())
    };
    assert!(
        findings.iter().any(is_it),
        "{level} {subject} {text:?} is missing in {findings:#?}"
    );
}

#[test]
fn a_fresh_home_is_well() {
    let home = Home::new();
    let found = doctor(&home, &[]).code(0).json_lines();
    has(&found, "ok", "data directory", "does not exist yet");
    has(&found, "ok", "configuration", "is in order");
    has(&found, "ok", "protocol", "1.0.0: native");
    has(
        &found,
        "ok",
        "protocol",
        "0.2.0: translated, with one channel for session and chat",
    );
    has(
        &found,
        "ok",
        "protocol",
        "0.9.0: translated, with replays on reconnect; spoken by Rust SDK",
    );
    has(&found, "ok", "protocol", "Swift example app");
    assert!(!home.path("data").exists(), "the doctor leaves no trace");
    let words = home.run(&["doctor", "--config", &on_a_free_port(&home)]).code(0);
    assert!(words.stdout.lines().all(|line| line.starts_with("ok")), "{words:?}");
}

#[test]
fn a_healthy_directory_is_well_with_and_without_its_host() {
    let home = furnished();
    let found = doctor(&home, &[]).code(0).json_lines();
    has(&found, "ok", "sessions", "1 sessions in");
    has(&found, "ok", "host", "no host runs");
    let host = home.host(&[]);
    let found = doctor(&home, &[]).code(0).json_lines();
    has(&found, "ok", "host", &format!("process {}", host.ready["pid"]));
    has(&found, "ok", "address", "the host answers at");
    has(&found, "ok", "address", "takes work");
    let token = fs::read_to_string(home.data("token")).unwrap();
    assert!(!format!("{found:?}").contains(token.trim()), "a token was printed");
}

#[test]
fn doctor_advises_on_permissions_and_keys() {
    let home = furnished();
    fs::set_permissions(home.data("token"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(home.data(""), fs::Permissions::from_mode(0o755)).unwrap();
    let config = home.write("odd.toml", "listen = \":0\"\nlisen = 1\n[retention]\nenabled = true\n");
    let config = config.to_str().unwrap();
    let found = home.run(&["doctor", "--json", "--config", config]).code(0).json_lines();
    has(&found, "warn", "token", "other users can read");
    has(&found, "warn", "data directory", "other users can look");
    has(&found, "warn", "configuration", "unknown key `lisen`");
    has(&found, "warn", "configuration", "sets no limit");
    fs::set_permissions(home.data(""), fs::Permissions::from_mode(0o777)).unwrap();
    let found = home.run(&["doctor", "--json", "--config", config]).code(6).json_lines();
    has(&found, "fail", "data directory", "other users can write");
    let broken = home.write("broken.toml", "listen = = 1\n");
    let found = home
        .run(&["doctor", "--json", "--config", broken.to_str().unwrap()])
        .code(6)
        .json_lines();
    has(&found, "fail", "configuration", "broken.toml:1");
}

#[test]
fn f17_a_foreign_file_is_named_and_moved_aside_only_on_request() {
    let home = furnished();
    fs::write(home.data("sessions.db"), "a shopping list\n").unwrap();
    let found = doctor(&home, &[]).code(6).json_lines();
    has(&found, "fail", "sessions", "sessions.db");
    doctor(&home, &["--move-aside"]).code(2).says("--yes");
    assert_eq!(
        fs::read_to_string(home.data("sessions.db")).unwrap(),
        "a shopping list\n"
    );

    doctor(&home, &["--move-aside", "--yes"]).code(0);
    assert!(!home.data("sessions.db").exists());
    let aside: Vec<_> = fs::read_dir(home.data(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.to_str().unwrap().contains("sessions.db.aside-")
                && path.extension().unwrap().to_str().unwrap().ends_with('Z')
        })
        .collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(fs::read_to_string(&aside[0]).unwrap(), "a shopping list\n");
    // The host starts afresh.
    home.host(&[]).stop().code(0);
}

#[test]
fn f18_damage_is_found_and_a_healthy_file_is_never_moved() {
    let home = furnished();
    doctor(&home, &["--move-aside", "--yes"])
        .code(0)
        .says("Nothing has to be moved aside");
    assert!(home.data("sessions.db").exists());
    let mut bytes = fs::read(home.data("sessions.db")).unwrap();
    let page = bytes.len() / 2;
    for byte in &mut bytes[page..] {
        *byte ^= 0x5a;
    }
    fs::write(home.data("sessions.db"), &bytes).unwrap();
    let found = doctor(&home, &[]).code(6).json_lines();
    has(&found, "fail", "sessions", "damaged");
    doctor(&home, &["--move-aside", "--yes"]).code(0);
    assert!(!home.data("sessions.db").exists());
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let home = furnished();
    // The version stands at a fixed place of the head of an SQLite file.
    let mut bytes = fs::read(home.data("sessions.db")).unwrap();
    bytes[60..64].copy_from_slice(&9999_i32.to_be_bytes());
    fs::write(home.data("sessions.db"), &bytes).unwrap();
    let found = doctor(&home, &[]).code(6).json_lines();
    has(&found, "fail", "sessions", "9999");
    doctor(&home, &["--move-aside", "--yes"])
        .code(6)
        .says("Nothing has to be moved aside");
    assert_eq!(fs::read(home.data("sessions.db")).unwrap(), bytes);
}

#[test]
fn doctor_does_not_move_a_store_in_use() {
    let home = Home::new();
    let host = home.host(&[]);
    home.run(&["send", "hello"]).code(0);
    let inode = |path: std::path::PathBuf| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(home.data("sessions.db"));
    // The store was replaced under the running host: damaged on disk, and still in use.
    fs::rename(home.data("sessions.db"), home.data("hidden.db")).unwrap();
    fs::write(home.data("sessions.db"), "not a database, but long enough to look at").unwrap();
    doctor(&home, &["--move-aside", "--yes"])
        .code(75)
        .says("in use by process");
    assert!(home.data("sessions.db").exists());
    assert_eq!(inode(home.data("hidden.db")), before);
    drop(host);
}

#[test]
fn a_port_in_use_is_named() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = home.write("taken.toml", &format!("listen = \"{address}\"\n"));
    let found = home
        .run(&["doctor", "--json", "--config", config.to_str().unwrap()])
        .code(6)
        .json_lines();
    has(&found, "fail", "address", &address.to_string());
}

#[test]
fn broken_plugins_are_pointed_out() {
    let home = Home::new();
    home.write("plugins/tools/.plugin/plugin.json", "{ broken");
    let config = home.write(
        "plugins.toml",
        "listen = \":0\"\n[customizations]\nplugins = [\"plugins/tools\"]\n",
    );
    let args = ["doctor", "--json", "--config", config.to_str().unwrap()];
    let found = home.run(&args).code(0).json_lines();
    has(&found, "warn", "customizations", "tools: .plugin/plugin.json");
    home.write("plugins/tools/.plugin/plugin.json", "{ \"name\": \"tools\" }");
    let found = home.run(&args).code(0).json_lines();
    has(&found, "ok", "customizations", "1 plugins for every session");
}
