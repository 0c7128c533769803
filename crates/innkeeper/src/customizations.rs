//! `innkeeper customizations`: the customizations that a session in a directory would get, with or without a host.

mod decisions;
mod explain;
mod tree;

use std::path::{Path, PathBuf};

use ahp_types::state::Customization;
use innkeeper_customizations::Discovered;

use crate::cli::CustomizationsArgs;
use crate::config::ConfigFile;
use crate::full_path::full_path;
use crate::logging;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::enablement::EnablementReport;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal::{Output, note};

/// Prints the customizations.
pub(crate) fn run(args: &CustomizationsArgs) -> Result<(), Failure> {
    let config = ConfigFile::load(&args.common)?;
    logging::start(args.common.log.as_deref().unwrap_or("off"))?;
    let workspace = workspace(args.path.as_deref())?;
    let Some(directories) = config.sources() else {
        note("Customizations are off: the configuration has `enabled = false` in [customizations].");
        return match args.json {
            true => Output::stdout().show("[]\n"),
            false => Ok(()),
        };
    };
    let discovered = directories.look(std::slice::from_ref(&workspace));
    let set = discovered.set();
    let mut entries: Vec<_> = set.entries.iter().map(|entry| Customization::clone(entry)).collect();
    let uri = uri(&workspace)?;
    let store = decisions::stored(&config, &args.common)?;
    let known = store.clone().unwrap_or_default();
    known.show(&uri, &mut entries, &set.shadows);
    let mut output = Output::stdout();
    if args.json {
        return output.show(&format!("{}\n", json(&entries)?));
    }
    if !args.explain {
        return output.show(&tree::in_words(&discovered));
    }
    let decided = store.map(|store| decisions::decided(&store, &uri, &discovered));
    let dir = DataDir::existing(config.data_dir(&args.common)?);
    let enablement = EnablementReport::of_workspace(&dir, &uri, decided);
    output.show(&explain::in_words(&discovered, &set.shadows, &enablement))
}

fn json(entries: &[Customization]) -> Result<String, Failure> {
    serde_json::to_string_pretty(entries).map_err(|error| {
        Failure::new(
            Kind::Unexpected,
            format!("the customizations cannot be written as JSON ({error})"),
        )
    })
}

fn workspace(path: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = path.unwrap_or_else(|| Path::new("."));
    let unusable = |problem: &str| {
        Failure::new(
            Kind::Usage,
            format!("{} cannot be a workspace, because {problem}", path.display()),
        )
        .hint("name the directory that a session works in")
    };
    let full = full_path(path).map_err(|error| unusable(&error.to_string()))?;
    match std::fs::metadata(&full) {
        Ok(found) if found.is_dir() => Ok(full),
        Ok(_) => Err(unusable("it is not a directory")),
        Err(error) => Err(unusable(&error.to_string())),
    }
}

fn uri(workspace: &Path) -> Result<String, Failure> {
    let uri = url::Url::from_file_path(workspace);
    uri.map(String::from)
        .map_err(|()| Failure::new(Kind::Unexpected, "the workspace has no URI"))
}

/// Returns the names and problems of broken or incomplete parts, for the doctor.
pub(crate) fn troubles(discovered: &Discovered) -> Vec<(String, String)> {
    let parts = discovered
        .containers
        .iter()
        .map(innkeeper_customizations::DiscoveredContainer::entry);
    parts.filter_map(tree::trouble).collect()
}
