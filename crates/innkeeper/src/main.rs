//! The standalone host for the Agent Host Protocol, and small clients to try it and to look after it with.

mod address;
mod banner;
mod cli;
mod client;
mod config;
mod confirm;
mod customizations;
mod data_dir;
mod doctor;
mod endpoint;
mod failure;
mod full_path;
mod kept_tokens;
mod logging;
mod models;
mod origin;
mod retention;
mod serve;
mod settings;
mod signals;
mod text;
mod token;
mod trust;
mod unix_socket;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    match run(Cli::parse()) {
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
        Command::Send(args) => client::send(args)?,
        Command::Watch(args) => client::watch(args)?,
        Command::Sessions(args) => client::sessions(args)?,
        Command::Doctor(args) => doctor::run(&args)?,
        Command::Customizations(args) => customizations::run(&args)?,
        Command::Trust(args) => trust::run(args)?,
        Command::Mcp(args) => client::mcp(args)?,
        Command::Pending(args) => client::pending(args)?,
        Command::Approve(args) => client::approve(args)?,
        Command::Deny(args) => client::deny(args)?,
        Command::Answer(args) => client::answer(args)?,
        Command::Grants(args) => client::grants(args)?,
        Command::Approvals(args) => client::approvals(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
