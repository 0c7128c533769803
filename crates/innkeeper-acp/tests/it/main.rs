//! Real processes that speak ACP behind a host, through the published client: agents that behave, and agents that do not.

mod customizations;
mod differences;
mod mapping;
mod options;
mod process;
mod support;
mod tools;

/// Not a scenario: the scripted agent itself, when this program is started as one.
#[test]
fn acp_agent() {
    innkeeper_testkit::scripted_acp_agent::serve_if_asked();
}
