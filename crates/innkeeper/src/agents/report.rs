//! `innkeeper agents list` and `innkeeper agents check`.

use std::fmt::Write as _;

use innkeeper_acp::{AcpAgent, CATALOGUE, Learned, SessionOption};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal::{Output, note, one_line};
use serde_json::json;

use super::candidates;
use crate::cli::{AgentsCheckArgs, AgentsListArgs};
use crate::config::ConfigFile;

/// Prints the agents that are offered, and how to install the others.
pub(super) fn list(args: &AgentsListArgs) -> Result<(), Failure> {
    let config = ConfigFile::load(&args.common)?;
    let found = candidates(&config, &config.data_dir(&args.common)?, None);
    let mut output = Output::stdout();
    for candidate in &found {
        let settings = &candidate.settings;
        let program = settings.command.find();
        let learned = AcpAgent::new(settings.clone()).learned();
        let version = learned.version.as_deref().map(|version| one_line(version, 40));
        if args.json {
            let line = json!({
                "id": settings.id, "name": settings.name, "configured": candidate.is_configured,
                "program": program, "version": version,
                // Nothing is known of an agent that never ran.
                "abilities": version.as_ref().map(|_| learned.abilities),
            });
            output.show(&format!("{line}\n"))?;
            continue;
        }
        let source = if candidate.is_configured {
            "configured"
        } else {
            "installed"
        };
        let version = version.map(|version| format!(" {version}")).unwrap_or_default();
        let program = match program {
            Some(program) => program.display().to_string(),
            None => format!("not found: {}", settings.command.program.display()),
        };
        output.show(&format!(
            "{:<10} {}{version} ({source}, {program})\n",
            settings.id, settings.name
        ))?;
    }
    let missing = CATALOGUE
        .iter()
        .filter(|agent| !found.iter().any(|found| found.settings.id == agent.id));
    for agent in missing {
        if args.json {
            let line = json!({ "id": agent.id, "name": agent.name, "configured": false, "program": null, "install": agent.install });
            output.show(&format!("{line}\n"))?;
        } else {
            let text = format!("{:<10} {} (not installed: {})\n", agent.id, agent.name, agent.install);
            output.show(&text)?;
        }
    }
    if !args.json {
        note("`innkeeper agents check NAME` starts one and says what it can do; `innkeeper agents add` adds another.");
    }
    Ok(())
}

/// Starts an agent, and prints what it told about itself.
pub(super) fn check(args: &AgentsCheckArgs) -> Result<(), Failure> {
    let config = ConfigFile::load(&args.common)?;
    let found = candidates(&config, &config.data_dir(&args.common)?, None);
    let Some(candidate) = found.into_iter().find(|found| found.settings.id == args.name) else {
        return Err(unknown(&args.name));
    };
    let directory = std::env::current_dir()
        .map_err(|error| Failure::new(Kind::Unexpected, format!("the current directory is unknown ({error})")))?;
    let agent = AcpAgent::new(candidate.settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Kind::Unexpected, format!("no event loop ({error})")))?;
    let report = runtime.block_on(innkeeper_acp::check(&agent, directory));
    let report = report.map_err(|problem| Failure::new(Kind::Unhealthy, problem))?;
    Output::stdout().show(&in_words(&args.name, &report.learned))
}

fn unknown(name: &str) -> Failure {
    let problem = format!("there is no agent {name:?}");
    match CATALOGUE.iter().find(|agent| agent.id == name) {
        Some(agent) => Failure::new(Kind::Rejected, format!("{} is not installed", agent.name))
            .hint(format!("install it with `{}`", agent.install)),
        None => Failure::new(Kind::Rejected, problem).hint("`innkeeper agents` lists the agents"),
    }
}

fn in_words(name: &str, learned: &Learned) -> String {
    let shown = |text: &Option<String>| text.as_deref().map(|text| one_line(text, 80)).unwrap_or_default();
    let mut text = format!("{name} works: {} {}\n", shown(&learned.name), shown(&learned.version));
    let abilities = learned.abilities;
    let all = [
        ("restores sessions (load)", abilities.load),
        ("restores sessions (resume)", abilities.resume),
        ("lists sessions", abilities.list),
        ("forks sessions", abilities.fork),
        ("images", abilities.images),
        ("embedded files", abilities.embedded),
        ("MCP over HTTP", abilities.mcp_http),
        ("several directories", abilities.directories),
    ];
    let has: Vec<&str> = all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    let _ = writeln!(text, "  abilities: {}", has.join(", "));
    for option in &learned.options {
        let _ = writeln!(text, "  {}: {}", one_line(&option.name, 40), values(option));
    }
    let commands: Vec<String> = learned
        .commands
        .iter()
        .map(|command| format!("/{}", one_line(&command.name, 40)))
        .collect();
    if !commands.is_empty() {
        let _ = writeln!(text, "  commands: {}", commands.join(", "));
    }
    text
}

fn values(option: &SessionOption) -> String {
    let Some(choices) = &option.choices else {
        return match &option.default {
            serde_json::Value::Bool(usual) => format!("yes or no (usually {})", if *usual { "yes" } else { "no" }),
            _ => "yes or no".to_owned(),
        };
    };
    let ids: Vec<String> = choices.iter().take(20).map(|choice| one_line(&choice.id, 60)).collect();
    let more = choices.len().saturating_sub(ids.len());
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{more}", ids.join(", "))
}
