//! Checks and chores of this repository: `cargo xtask tidy`, `cargo xtask ci` and more.

mod agents;
mod ci;
mod compatibility;
mod conformance;
mod editors;
mod faults;
mod nightly;
mod process;
mod source;
mod tidy;
mod vscode;
mod web;
mod workspace;

use std::process::ExitCode;

use crate::tidy::Counts;
use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  agents                 install real agents from npm and play a scenario with each of them, against a scripted model
  tidy [--lower]         check the rules of this repository that the compiler cannot check; --lower also lowers
                         the counts in xtask/ratchet.tsv to those of today
  ci                     run everything that must be green before a commit, stopping at the first failure
  compatibility          write docs/compatibility.md from the scenarios of the published clients
  conformance [--check]  write docs/conformance.md from the tests, or only check that it is up to date
  editors                install real ACP clients from npm and PyPI and play a scenario with each of them
  faults                 kill, cut the power and flip bits as often as we promise: 2,000 kills, 500 power cuts
  nightly                run what takes too long for every commit: benchmarks, a soak, 100,000 seeds, all faults
  vscode [--only WINDOW] play a day's work in VS Code against the host; WINDOW is editor or agents
  web                    check the web app: types, unit tests, the committed build, and scenarios in Chromium
  help                   print this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["tidy"] => Workspace::locate().and_then(|workspace| tidy::run(&workspace, Counts::Check)),
        ["tidy", "--lower"] => Workspace::locate().and_then(|workspace| tidy::run(&workspace, Counts::Lower)),
        ["agents"] => Workspace::locate().and_then(|workspace| agents::run(&workspace)),
        ["editors"] => Workspace::locate().and_then(|workspace| editors::run(&workspace)),
        ["ci"] => Workspace::locate().and_then(|workspace| ci::run(&workspace)),
        ["nightly"] => Workspace::locate().and_then(|workspace| nightly::run(&workspace)),
        ["vscode", more @ ..] => Workspace::locate().and_then(|workspace| vscode::run(&workspace, more)),
        ["web"] => Workspace::locate().and_then(|workspace| web::run(&workspace)),
        ["faults"] => Workspace::locate().and_then(|workspace| faults::run(&workspace)),
        ["compatibility"] => Workspace::locate().and_then(|workspace| compatibility::write(&workspace)),
        ["conformance"] => Workspace::locate().and_then(|workspace| conformance::write(&workspace)),
        ["conformance", "--check"] => Workspace::locate().and_then(|workspace| conformance::run_check(&workspace)),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
