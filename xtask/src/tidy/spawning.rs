//! Where the host may start tasks, so that every task is known and shut down.

use super::Finding;
use crate::source::{Source, find_word, line_at};

const RULE: &str = "spawning";
const FOLDER: &str = "crates/innkeeper-host/src";

/// The files of the host, relative to its sources, that may start tasks. `*` stands for one name.
const SPAWNING_FILES: &[&str] = &[
    "host/*.rs",
    "main_loop/*.rs",
    "agent/runtime/driver.rs",
    "agent/runtime/driver/*.rs",
    "net/connection.rs",
    "net/http.rs",
    "net/transport/*.rs",
    "services/*/effects.rs",
    "services/mcp/app_requests.rs",
    "services/mcp/resource_requests.rs",
];

const SPAWNS: &[&str] = &["spawn(", "spawn_blocking(", "spawn_local(", "spawn_on("];

/// Checks one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_under(FOLDER) || may_spawn(&source.path[FOLDER.len() + 1..]) {
        return Vec::new();
    }
    let code = &source.product_code;
    let calls = SPAWNS.iter().flat_map(|spawn| find_word(code, spawn));
    calls
        .filter(|position| !code[..*position].ends_with("fn "))
        .map(|position| Finding {
            path: source.path.clone(),
            line: line_at(code, position),
            rule: RULE,
            what: "this file must not start tasks".into(),
            remedy: format!(
                "start the task in one of {}, where shutdown knows of it; a new owner of tasks is added to \
                 SPAWNING_FILES in xtask/src/tidy/spawning.rs",
                SPAWNING_FILES.join(", ")
            ),
        })
        .collect()
}

fn may_spawn(path: &str) -> bool {
    SPAWNING_FILES.iter().any(|allowed| match allowed.split_once('*') {
        Some((folder, extension)) => path
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_suffix(extension))
            .is_some_and(|name| !name.contains('/')),
        None => path == *allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    const SPAWN: &str = "fn a() { tokio::spawn(run()); tracker.spawn(run()); }";

    #[test]
    fn owners_of_tasks_may_spawn() {
        assert_eq!(findings("crates/innkeeper-host/src/main_loop/task.rs", SPAWN), 0);
        assert_eq!(findings("crates/innkeeper-host/src/net/transport/unix.rs", SPAWN), 0);
        assert_eq!(findings("crates/innkeeper/src/main.rs", SPAWN), 0);
    }

    #[test]
    fn others_may_not() {
        assert_eq!(findings("crates/innkeeper-host/src/net/outbox.rs", SPAWN), 2);
        assert_eq!(findings("crates/innkeeper-host/src/net/transport/a/b.rs", SPAWN), 2);
        assert_eq!(findings("crates/innkeeper-host/src/a.rs", "spawn_blocking(work)"), 1);
    }

    #[test]
    fn definitions_and_tests_are_no_calls() {
        let text =
            "fn spawn(&self) {}\nfn a() { spawn_writer(); }\n#[cfg(test)]\nmod tests { fn a() { tokio::spawn(b()); } }";
        assert_eq!(findings("crates/innkeeper-host/src/net/outbox.rs", text), 0);
    }
}
