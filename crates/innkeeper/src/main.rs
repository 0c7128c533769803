//! The standalone host for the Agent Host Protocol, and its command line.

mod address;
mod agents;
mod cli;
mod clients;
mod config;
mod customizations;
mod devices;
mod doctor;
mod full_path;
mod logging;
mod mcp_tokens;
mod models;
mod origin;
mod retention;
mod serve;
mod sessions;
mod settings;
mod trust;
mod unix_socket;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::failure::Failure;

use cli::{Cli, Command, global_flags};

fn main() -> ExitCode {
    let args = global_flags::behind_the_command(&Cli::command(), std::env::args_os());
    match run(Cli::parse_from(args)) {
        Ok(code) => code,
        Err(failure) => {
            failure.report();
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => return serve::run(args),
        Command::Chat(args) => clients::chat(args)?,
        Command::Acp(args) => clients::acp(args)?,
        Command::Sessions(args) => sessions::run(args)?,
        Command::Doctor(args) => doctor::run(&args)?,
        Command::Customizations(args) => customizations::run(&args)?,
        Command::Agents(args) => agents::run(args)?,
        Command::McpBridge(args) => agents::bridge(&args)?,
        Command::Trust(args) => trust::run(args)?,
        Command::Open(args) => devices::open(&args)?,
        Command::Pair(args) => devices::pair(&args)?,
        Command::Devices(args) => devices::devices(args)?,
        Command::Client(command) => {
            let dir = data_dir(command.common())?;
            command.run(&dir)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the configuration for a client command, starts logging and returns the data directory.
fn data_dir(args: &CommonArgs) -> Result<DataDir, Failure> {
    let config = config::ConfigFile::load(args)?;
    // Clients are quiet by default: their own output says what matters.
    logging::start(args.log.as_deref().unwrap_or("off"))?;
    Ok(DataDir::existing(config.data_dir(args)?))
}
