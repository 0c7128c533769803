//! Options of benchmarks that start a host: its binary and its data directory.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::server::process::default_host_binary;

/// Flags of every benchmark whose host persists its data.
#[derive(clap::Args)]
pub(crate) struct HostOptions {
    /// Where the data goes [default: a temporary directory].
    #[arg(long)]
    directory: Option<PathBuf>,
    /// The host to measure [default: the one next to this program].
    #[arg(long)]
    host_binary: Option<PathBuf>,
}

impl HostOptions {
    /// The host.
    pub(crate) fn host_binary(&self) -> Result<PathBuf> {
        self.host_binary.clone().map_or_else(default_host_binary, Ok)
    }

    /// A directory of its own, which is gone afterwards.
    pub(crate) fn directory(&self) -> Result<TempDir> {
        match &self.directory {
            Some(directory) => TempDir::new_in(directory),
            None => TempDir::new(),
        }
        .context("cannot create a directory for the data")
    }
}

/// Runs a benchmark whose load needs no more than one thread.
pub(crate) fn on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
