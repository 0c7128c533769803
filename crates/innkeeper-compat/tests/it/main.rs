//! Scenarios of every published version against the real program.
//!
//! `scenarios` holds the scenarios that each version plays in its own words; the tests below run them in four groups
//! per version. All other files are about several versions at once.

mod company;
mod everything;
mod limits;
mod load;
mod negotiation;
mod page;
mod property;
mod published;
mod scenarios;
mod seeds;
mod simulator;

use innkeeper_compat::program;
use innkeeper_compat::version::Version;
use innkeeper_testkit::process::{HostOptions, HostProcess};

use crate::scenarios::Group;

/// The versions whose scenarios are run.
const SPOKEN: &[Version] = &Version::ALL;

/// Not a scenario: the MCP server of a scenario, when this program is started as one.
#[test]
fn odd_server() {
    innkeeper_testkit::misbehaving_server::serve_if_asked();
}

fn options() -> HostOptions {
    // Before anything connects: a build takes longer than the host waits for a silent client.
    program::build_published_clients();
    HostOptions::new(program::host())
}

async fn start() -> HostProcess {
    HostProcess::start(options()).await
}

macro_rules! versions {
    ($($module:ident: $version:ident),* $(,)?) => {
        $(
            mod $module {
                use super::{Group, Version, scenarios};

                #[tokio::test]
                async fn works_with_the_host_and_its_sessions() {
                    scenarios::run(Version::$version, Group::Host).await;
                }

                #[tokio::test]
                async fn works_with_turns() {
                    scenarios::run(Version::$version, Group::Turns).await;
                }

                #[tokio::test]
                async fn works_with_approvals_and_questions() {
                    scenarios::run(Version::$version, Group::Waits).await;
                }

                #[tokio::test]
                async fn works_with_clients_and_connections() {
                    scenarios::run(Version::$version, Group::Connections).await;
                }
            }
        )*
    };
}

versions! {
    v0_1: V0_1,
    v0_2: V0_2,
    v0_3: V0_3,
    v0_4: V0_4,
    v0_5_0: V0_5_0,
    v0_5_1: V0_5_1,
    v0_5_2: V0_5_2,
    v0_6: V0_6,
    v0_7: V0_7,
    v0_8: V0_8,
    v0_9: V0_9,
    v1_0: V1_0,
}

#[test]
fn every_spoken_version_is_published() {
    assert!(SPOKEN.iter().all(|version| Version::ALL.contains(version)));
}
