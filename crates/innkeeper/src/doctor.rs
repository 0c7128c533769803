//! `innkeeper doctor`: checks everything that the host needs, and says what to do.

mod data;
mod mcp_tokens;
mod move_aside;
mod network;
mod report;
mod servers;
mod store;

use innkeeper_customizations::DiscoveredContainer;
use innkeeper_plugins::Container;

use crate::cli::DoctorArgs;
use crate::config::{ConfigFile, Examined};
use crate::{customizations, models};
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::failure::{Failure, Kind};

use report::Report;

/// Runs all checks, prints the report, and fails if a check failed.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    crate::logging::start(args.common.log.as_deref().unwrap_or("off"))?;
    let mut report = Report::default();
    let config = configuration(args, &mut report);
    let dir = DataDir::existing(config.data_dir(&args.common)?);
    let moved = match args.move_aside {
        true => move_aside::move_aside(&dir, args.yes)?,
        false => None,
    };
    data::check(&dir, &config, &mut report);
    store::check(&dir, moved, &mut report);
    mcp_tokens::check(&dir, &config, &mut report);
    network::check(&dir, &config, &mut report);
    versions(&mut report);
    surroundings(&config, &mut report);
    common_customizations(&config, &mut report);
    servers::check(&config, &mut report);
    report.print(args.json)?;
    match report.failures() {
        0 => Ok(()),
        1 => Err(Failure::new(Kind::Unhealthy, "one check failed")),
        several => Err(Failure::new(Kind::Unhealthy, format!("{several} checks failed"))),
    }
}

fn configuration(args: &DoctorArgs, report: &mut Report) -> ConfigFile {
    const SUBJECT: &str = "configuration";
    let Examined { config, path, warnings } = match ConfigFile::examine(&args.common) {
        Ok(examined) => examined,
        Err(failure) => {
            report.fail(SUBJECT, failure.message(), failure.advice());
            return ConfigFile::default();
        }
    };
    for warning in &warnings {
        report.warn(SUBJECT, warning, "correct the key, or remove it");
    }
    if config.retention.enabled && !config.retention.has_limits() {
        report.warn(
            SUBJECT,
            "[retention] is enabled but sets no limit, so no session ever goes",
            "set max_age_days or max_total_bytes, or remove the section",
        );
    }
    match path {
        Some(path) if warnings.is_empty() => report.ok(SUBJECT, format!("{} is in order", path.display())),
        Some(_) => {}
        None => report.ok(SUBJECT, "there is no configuration file; the defaults apply"),
    }
    config
}

/// Checks the customizations of every session. The doctor knows no workspace.
fn common_customizations(config: &ConfigFile, report: &mut Report) {
    const SUBJECT: &str = "customizations";
    let Some(directories) = config.sources() else {
        return report.ok(SUBJECT, "switched off by the configuration");
    };
    let discovered = directories.look(&[]);
    let troubles = customizations::troubles(&discovered);
    for (name, problem) in &troubles {
        report.warn(
            SUBJECT,
            format!("{name}: {problem}"),
            "`innkeeper customizations --explain` names every file",
        );
    }
    if troubles.is_empty() {
        let is_plugin = |part: &&DiscoveredContainer| matches!(part.entry(), Container::Plugin(_));
        let plugins = discovered.containers.iter().filter(is_plugin).count();
        let found: usize = discovered
            .containers
            .iter()
            .map(|part| part.entry().children().len())
            .sum();
        report.ok(
            SUBJECT,
            format!("{plugins} plugins for every session, and {found} customizations in them and the home directory"),
        );
    }
}

/// Lists the versions of the protocol and the clients that speak them.
fn versions(report: &mut Report) {
    const SUBJECT: &str = "protocol";
    report.ok(
        SUBJECT,
        format!("clients may speak AHP {}", innkeeper_dialects::supported().join(", ")),
    );
    for version in innkeeper_dialects::Version::ALL {
        let served = match (version.is_translated(), version.session_is_chat(), version.replays()) {
            (false, ..) => "native",
            (true, _, true) => "translated, with replays on reconnect",
            (true, false, false) => "translated, with snapshots on reconnect",
            (true, true, false) => "translated, with one channel for session and chat, and snapshots on reconnect",
        };
        let clients: Vec<&str> = innkeeper_dialects::clients_of(version).collect();
        report.ok(
            SUBJECT,
            format!("{version}: {served}; spoken by {}", clients.join(", ")),
        );
    }
}

/// Checks the agents and the limit of open files.
fn surroundings(config: &ConfigFile, report: &mut Report) {
    report.ok("agents", "tour (built in)");
    for agent in models::find(&config.models, &models::process_environment) {
        match agent.trouble {
            Some(trouble) => report.warn(
                "agents",
                format!("{}: {trouble}", agent.id),
                "until then every turn with this agent fails, or it is not offered",
            ),
            // A key that is missing is no problem: users need no key for every agent.
            None => report.ok("agents", format!("{}: {}", agent.id, agent.key)),
        }
    }
    // The host raises its own limit up to the hard one.
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let needed = u64::try_from(config.limits().connections)
        .unwrap_or(u64::MAX)
        .saturating_add(64);
    match files {
        Some(files) if files < needed => report.warn(
            "open files",
            format!("this user may open {files} files, and the configured connections need {needed}"),
            "raise the limit (ulimit -Hn), or lower `connections` in [limits]",
        ),
        Some(files) => report.ok("open files", format!("{files} allowed, at most {needed} needed")),
        None => report.ok("open files", "as many as wanted"),
    }
}
