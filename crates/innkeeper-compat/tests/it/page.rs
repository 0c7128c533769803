//! `docs/compatibility.md`, made from the table of scenarios. It cannot claim more or less than the tests do.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use innkeeper_compat::version::Version;
use innkeeper_dialects::KNOWN_CLIENTS;

use crate::SPOKEN;
use crate::scenarios::ALL;

const PAGE: &str = "docs/compatibility.md";

/// Set to write the page.
const WRITE: &str = "INNKEEPER_WRITE_PAGES";

/// A row of the table of limits.
struct Limit {
    feature: &'static str,
    versions: &'static str,
    behaviour: &'static str,
    /// The tests that prove it.
    tests: &'static [&'static str],
}

const LIMITS: &[Limit] = &[
    Limit {
        feature: "several chats in a session",
        versions: "0.3 and older",
        behaviour: "the default chat is shown; subagents are opened by their URI",
        tests: &["the_catalogue_of_chats_does_not_exist", "follows_a_subagent"],
    },
    Limit {
        feature: "title of a subagent that is renamed",
        versions: "0.3 and older",
        behaviour: "shown after the next subscription",
        tests: &["the_catalogue_of_chats_does_not_exist"],
    },
    Limit {
        feature: "several active clients",
        versions: "0.4 and older",
        behaviour: "the client sees its own entry, else the latest",
        tests: &["the_own_entry_is_shown_or_the_latest"],
    },
    Limit {
        feature: "sign-in of a tool call",
        versions: "0.5.2 and older",
        behaviour: "the call is shown as running; `auth/required` asks for the token",
        tests: &[
            "a_call_that_waits_for_a_sign_in_runs",
            "a_required_sign_in_names_its_resource",
        ],
    },
    Limit {
        feature: "resume a failed turn",
        versions: "0.8 and older",
        behaviour: "shown when another client does it: removed and started again",
        tests: &["sees_a_resumed_turn", "a_resumed_turn_is_taken_back_and_started_again"],
    },
    Limit {
        feature: "chat of a claimed terminal",
        versions: "0.8 and older",
        behaviour: "a terminal that is claimed for a session belongs to its default chat",
        tests: &["uses_a_terminal"],
    },
    Limit {
        feature: "chat of an annotation",
        versions: "0.8 and older",
        behaviour: "an annotation of a turn belongs to the chat in which the turn ran",
        tests: &[
            "annotates",
            "ann04_an_annotation_of_0_8_belongs_to_the_chat_of_its_turn",
        ],
    },
    Limit {
        feature: "annotation without a turn",
        versions: "0.8 and older",
        behaviour: "shown with an empty turn",
        tests: &["annotates", "an_annotation_belongs_to_a_turn"],
    },
    Limit {
        feature: "annotations",
        versions: "0.3 and older",
        behaviour: "not shown",
        tests: &["annotations_do_not_exist"],
    },
    Limit {
        feature: "changed files",
        versions: "0.1",
        behaviour: "not shown",
        tests: &["changed_files_do_not_exist"],
    },
    Limit {
        feature: "all files of a view at once",
        versions: "0.3 and older",
        behaviour: "sent file by file",
        tests: &[
            "the_content_of_a_changeset_is_sent_file_by_file",
            "follows_changed_files",
        ],
    },
    Limit {
        feature: "discard part of a line",
        versions: "0.3 and older",
        behaviour: "ranges are of whole lines, counted from 0 and without the last",
        tests: &["a_range_of_lines_is_one_of_positions_above", "follows_changed_files"],
    },
    Limit {
        feature: "review of files",
        versions: "0.5.1 and older",
        behaviour: "not shown",
        tests: &[
            "reviews_do_not_exist",
            "every_version_follows_changed_files_and_annotations",
        ],
    },
    Limit {
        feature: "model and agent of a message",
        versions: "0.4 and older",
        behaviour: "the session has them; 0.4 can create a chat with its own",
        tests: &[
            "chooses_a_model",
            "a_chat_that_0_4_creates_with_a_model_keeps_it_for_its_messages",
        ],
    },
    Limit {
        feature: "result of a command in a terminal",
        versions: "0.5.1 and older",
        behaviour: "not shown",
        tests: &["results_of_commands_are_not_shown"],
    },
    Limit {
        feature: "result of a command without a terminal, by a tool of the client",
        versions: "0.5.2 and 0.6",
        behaviour: "shown to all as text, without its directory",
        tests: &["the_result_of_a_command_without_a_terminal_is_text"],
    },
    Limit {
        feature: "several working directories",
        versions: "0.6 and older",
        behaviour: "the first is shown",
        tests: &["the_first_working_directory_is_shown"],
    },
    Limit {
        feature: "change of the first working directory",
        versions: "0.6 and older",
        behaviour: "shown after the next subscription",
        tests: &["every_version_follows_clients_directories_and_customizations"],
    },
    Limit {
        feature: "scopes of enablement",
        versions: "0.7 and older",
        behaviour: "the effective value is shown; a switch counts for the session",
        tests: &["a_toggle_shows_the_effective_value_and_counts_for_the_session"],
    },
    Limit {
        feature: "replay after a lost connection",
        versions: "0.8 and older",
        behaviour: "fresh snapshots",
        tests: &["rec05_clients_before_0_9_always_come_back_with_snapshots", "reconnects"],
    },
    Limit {
        feature: "answered questions in a turn",
        versions: "0.5.1 and older",
        behaviour: "not shown",
        tests: &["answered_questions_are_not_shown"],
    },
    Limit {
        feature: "order of an answered question",
        versions: "0.5.2",
        behaviour: "a fold has it where it was answered, a snapshot where it was asked",
        tests: &["answers_every_kind"],
    },
    Limit {
        feature: "requests of the host",
        versions: "0.5.1 and older",
        behaviour: "the published clients answer none: the host waits three seconds; 0.1 gets none",
        tests: &[
            "requests_of_the_host_do_not_reach_0_1",
            "a_client_of_0_1_that_opts_in_to_prompt_transforms_stalls_no_turn",
            "lesson_18_clients_of_older_versions_are_waited_for_a_short_time",
        ],
    },
    Limit {
        feature: "watches of files",
        versions: "0.2 and 0.3",
        behaviour: "the published clients cannot read the snapshot; 0.1 has none",
        tests: &["only_clients_from_0_4_on_read_a_watch"],
    },
    Limit {
        feature: "read and archived flags of a chat",
        versions: "0.9 and older",
        behaviour: "shown in the session's list of chats",
        tests: &[
            "a_chat_shows_its_activity_and_no_flags",
            "every_version_follows_the_session_and_its_chats",
        ],
    },
    Limit {
        feature: "order of chats",
        versions: "0.9 and older",
        behaviour: "moved chats are removed and added",
        tests: &["reordered_chats_are_removed_and_added_from_the_first_difference"],
    },
    Limit {
        feature: "canvases",
        versions: "0.9 and older",
        behaviour: "not shown",
        tests: &["canvases_are_withheld"],
    },
    Limit {
        feature: "background work, changed files of a chat",
        versions: "0.8 and older",
        behaviour: "not shown",
        tests: &["fields_that_0_8_lacks_are_not_sent"],
    },
];

/// The folders with the tests that the limits name.
const TESTED: [&str; 4] = [
    "innkeeper-compat/tests/it",
    "innkeeper-core/tests/scenarios",
    "innkeeper-dialects/src",
    "innkeeper-host/tests/embedded",
];

fn page() -> String {
    let mut page = String::from(
        "# Compatibility\n\n\
         Innkeeper answers clients of every published version of the Agent Host Protocol, each in its own protocol.\n\
         Clients of different versions share sessions: all see the same conversation, and any of them approves, answers, \
         steers or cancels.\n\n\
         This page is written by the tests of `innkeeper-compat` (`cargo xtask compatibility`), and a test fails when it \
         is out of date.\n\
         In those tests, the published client and reducers of each version drive the real program over a WebSocket.\n\
         After each step, the state that the client has folded from actions equals a fresh snapshot.\n\n\
         ## Versions and capabilities\n\n\
         ● is tested with the published client of that version; – does not exist in that version.\n\n",
    );
    let versions: Vec<Version> = SPOKEN.iter().rev().copied().collect();
    page.push_str("| Capability |");
    for version in &versions {
        let _ = write!(
            page,
            " {} |",
            version.number().strip_suffix(".0").unwrap_or_else(|| version.number())
        );
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(versions.len()));
    page.push('\n');
    for scenario in ALL {
        let _ = write!(page, "| {} |", scenario.capability);
        for version in &versions {
            page.push_str(if (scenario.applies)(*version) {
                " ● |"
            } else {
                " – |"
            });
        }
        page.push('\n');
    }
    page.push_str(
        "\nA client offers a list of versions, and the highest one that the host speaks is confirmed; 0.1 offers an \
         integer.\nAn unpublished patch of a version is served as the newest published one of that minor version.\n\
         An offer without a common version is refused with the error -32005, which lists all versions.\n\n\
         ## Limits of older versions\n\n\
         Each row is proved by tests, which the source of this page names.\n\n\
         | Feature of the host | Versions | Behaviour |\n|---|---|---|\n",
    );
    for limit in LIMITS {
        let _ = writeln!(page, "| {} | {} | {} |", limit.feature, limit.versions, limit.behaviour);
    }
    page.push_str(
        "\n\
         0.9 clients get seven actions that the published SDK 0.9.0 does not know, because clients that were built from \
         later sources of 0.9 do ([ADR 0038](adr/0038-every-published-version.md)). SDK 0.9.0 ignores them.\n\n\
         ## Known clients\n\n\
         | Client | Offers |\n|---|---|\n",
    );
    for client in KNOWN_CLIENTS {
        let offers: Vec<&str> = client.versions.iter().map(|version| version.as_str()).collect();
        let offers = match (client.offers_all, client.versions.len()) {
            (true, _) | (false, 1) => offers.join(", "),
            (false, _) => format!("one of {}", offers.join(", ")),
        };
        let _ = writeln!(page, "| {} | {offers} |", client.name);
    }
    page.push_str("\nThe SDKs for Kotlin and .NET offer what their app passes.\n");
    page
}

#[test]
fn the_compatibility_page_matches_the_tests() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let expected = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == expected,
        "{PAGE} is out of date: run `cargo xtask compatibility` and commit it"
    );
}

/// The names of all functions below a folder.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of this repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).expect("a source file");
            let declared = source.split("fn ").skip(1);
            names.extend(declared.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
        }
    }
}

#[test]
fn every_limit_names_the_tests_that_prove_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    for folder in TESTED {
        functions(&crates.join(folder), &mut names);
    }
    for limit in LIMITS {
        assert!(!limit.tests.is_empty(), "{} has no test", limit.feature);
        for test in limit.tests {
            assert!(names.contains(*test), "{}: there is no test {test}", limit.feature);
        }
    }
}
