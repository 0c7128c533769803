//! `innkeeper agents add`: a section of the configuration file.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal::note;

use super::known;
use crate::cli::AgentsAddArgs;
use crate::config::{AgentSection, ConfigFile, default_path};

/// Appends a section to the configuration file, which is created if it does not exist.
pub(super) fn add(args: &AgentsAddArgs) -> Result<(), Failure> {
    let config = match &args.common.config {
        // A file that is named and does not exist yet is created.
        Some(path) if !path.exists() => ConfigFile::default(),
        _ => ConfigFile::load(&args.common)?,
    };
    let file = args.common.config.clone().or_else(default_path);
    let file = file.ok_or_else(|| {
        Failure::new(Kind::Config, "there is no place for a configuration file").hint("name one with --config FILE")
    })?;
    if config.agents.contains_key(&args.name) {
        let problem = format!("{} has a section `agents.{}` already", file.display(), args.name);
        return Err(Failure::new(Kind::Rejected, problem).hint("change it there, or choose another name"));
    }
    let mut words = args.command.iter();
    let section = AgentSection {
        r#type: Some("acp".to_owned()),
        command: words.next().cloned(),
        args: (args.command.len() > 1).then(|| words.cloned().collect()),
        ..AgentSection::default()
    };
    section.check(&args.name).map_err(|problem| {
        Failure::new(Kind::Usage, format!("the agent {:?} {problem}", args.name)).hint(
            "write the program and its arguments behind `--`, as in `innkeeper agents add mine -- my-agent --acp`",
        )
    })?;
    append(&file, &text(&args.name, &section))
        .map_err(|error| Failure::new(Kind::Config, format!("{} cannot be written ({error})", file.display())))?;
    note(&format!(
        "{} now has the agent {:?}. Try it with `innkeeper agents check {}`, and start the host again.",
        file.display(),
        args.name,
        args.name
    ));
    if let Some(agent) = known(&args.name).filter(|_| section.command.is_none()) {
        note(&format!(
            "It starts `{}`. To install it: {}",
            agent.program, agent.install
        ));
    }
    Ok(())
}

fn text(name: &str, section: &AgentSection) -> String {
    let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
    let mut text = format!("\n[agents.{name}]\ntype = \"acp\"\n");
    if let Some(command) = &section.command {
        text.push_str(&format!("command = {}\n", quoted(command)));
    }
    if let Some(arguments) = &section.args {
        let arguments: Vec<String> = arguments.iter().map(quoted).collect();
        text.push_str(&format!("args = [{}]\n", arguments.join(", ")));
    }
    text
}

fn append(file: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    // The last line may have no end.
    let needs_end = fs::read(file).is_ok_and(|bytes| bytes.last().is_some_and(|byte| *byte != b'\n'));
    let mut file = fs::File::options().create(true).append(true).open(file)?;
    file.write_all(format!("{}{text}", if needs_end { "\n" } else { "" }).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_appended_and_can_be_read() {
        let section = AgentSection {
            command: Some("/opt/my \"agent\"".to_owned()),
            args: Some(vec!["--acp".to_owned(), "a\\b".to_owned()]),
            ..AgentSection::default()
        };
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("new/innkeeper.toml");
        fs::create_dir(directory.path().join("new")).expect("a directory");
        fs::write(&file, "log = \"info\"").expect("a file");
        append(&file, &text("mine", &section)).expect("written");
        let read: toml::Table = toml::from_str(&fs::read_to_string(&file).expect("a file")).expect("TOML");
        assert_eq!(read["agents"]["mine"]["command"].as_str(), Some("/opt/my \"agent\""));
        assert_eq!(read["agents"]["mine"]["args"][1].as_str(), Some("a\\b"));
        assert_eq!(read["log"].as_str(), Some("info"));
    }
}
