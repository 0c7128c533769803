//! `docs/compatibility.md`, made from the table of scenarios. It cannot claim more or less than the tests do.

use std::fmt::Write as _;
use std::path::Path;

use innkeeper_compat::version::Version;
use innkeeper_dialects::KNOWN_CLIENTS;

use crate::SPOKEN;
use crate::scenarios::ALL;

const PAGE: &str = "docs/compatibility.md";

/// Set to write the page.
const WRITE: &str = "INNKEEPER_WRITE_PAGES";

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
         | Feature of the host | Versions without it | Behaviour |\n|---|---|---|\n\
         | several chats in a session | 0.3 and older | the default chat is shown; subagents are opened by their URI |\n\
         | title of a subagent that is renamed | 0.3 and older | shown after the next subscription |\n\
         | several active clients | 0.4 and older | the client sees its own entry, else the latest |\n\
         | sign-in of a tool call | 0.5.2 and older | the call is shown as running; `auth/required` asks for the token |\n\
         | resume a failed turn | 0.8 and older | shown when another client does it: removed and started again |\n\
         | chat of a claimed terminal | 0.8 and older | a terminal that is claimed for a session belongs to its default chat |\n\
         | annotation without a turn | 0.8 and older | shown with an empty turn |\n\
         | model and agent of a message | 0.4 and older | the session has them; 0.4 can create a chat with its own |\n\
         | result of a command in a terminal | 0.5.1 and older | not shown |\n\
         | several working directories | 0.6 and older | the first is shown |\n\
         | change of the first working directory | 0.6 and older | shown after the next subscription |\n\
         | scopes of enablement | 0.7 and older | the effective value is shown; a switch counts for the session |\n\
         | replay after a lost connection | 0.8 and older | fresh snapshots |\n\
         | answered questions in a turn | 0.5.1 and older | not shown |\n\
         | order of an answered question | 0.5.2 | a fold has it where it was answered, a snapshot where it was asked |\n\
         | requests of the host | 0.5.1 and older | the published clients answer none: the host waits three seconds; 0.1 gets none |\n\
         | read and archived flags of a chat | 0.9 and older | shown in the session's list of chats |\n\
         | canvases, order of chats | 0.9 and older | canvases are not shown; moved chats are removed and added |\n\n\
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
