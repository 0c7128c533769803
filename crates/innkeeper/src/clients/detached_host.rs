//! Starts a host that outlives the client that needs one.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::connection::link::StartHost;
use innkeeper_cli::discovery::{DataDir, Endpoint};
use innkeeper_cli::failure::{Failure, Kind};
use tokio::time::Instant;

/// The log of a host that the client started, in the data directory.
const LOG_FILE: &str = "host.log";
/// How long a host may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks whether it listens.
const LOOK: Duration = Duration::from_millis(20);

/// Returns the way to start a host on a data directory.
pub(super) fn start_host(dir: &DataDir, common: &CommonArgs) -> StartHost {
    let (dir, common) = (dir.clone(), common.clone());
    Box::new(move || {
        let host = DetachedHost {
            dir: dir.clone(),
            common: common.clone(),
        };
        Box::pin(async move { host.start().await })
    })
}

/// A host that outlives this process.
struct DetachedHost {
    dir: DataDir,
    common: CommonArgs,
}

impl DetachedHost {
    async fn start(&self) -> Result<(), Failure> {
        match self.try_start(&[]).await {
            // Another program has the usual port. Clients of this data directory find any other one as well.
            Err(failure) if failure.kind() == Kind::InUse => self.try_start(&["--listen", "127.0.0.1:0"]).await,
            result => result,
        }
    }

    /// Starts a host and waits until clients find it.
    async fn try_start(&self, flags: &[&str]) -> Result<(), Failure> {
        let path = self.dir.path().join(LOG_FILE);
        let cannot = |error: std::io::Error| {
            Failure::new(Kind::Unexpected, format!("a host cannot be started ({error})"))
                .hint("start one with `innkeeper`, which says more")
        };
        std::fs::create_dir_all(self.dir.path()).map_err(cannot)?;
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let program = std::env::current_exe().map_err(cannot)?;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg("--data")
            .arg(self.dir.path())
            .args(flags)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.map_err(cannot)?);
        // A group of its own: Ctrl-C and the end of the terminal are not for the host.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        if let Some(config) = &self.common.config {
            command
                .arg("--config")
                .arg(std::path::absolute(config).map_err(cannot)?);
        }
        let mut child = command.spawn().map_err(cannot)?;
        let give_up_at = Instant::now() + START_TIMEOUT;
        loop {
            if Endpoint::find(&self.dir).is_some() {
                return Ok(());
            }
            if let Some(status) = child.try_wait().map_err(cannot)? {
                return Err(self.ended_early(status.code(), path));
            }
            if Instant::now() > give_up_at {
                return Err(
                    Failure::new(Kind::Unreachable, "the host does not listen after 30 seconds")
                        .hint(format!("read {}", path.display())),
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn ended_early(&self, code: Option<i32>, log: PathBuf) -> Failure {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        let reason = last.unwrap_or("it said nothing").to_owned();
        let kind = match code {
            Some(code) if code == i32::from(Kind::InUse.exit_code()) => Kind::InUse,
            _ => Kind::Unexpected,
        };
        Failure::new(kind, format!("the host ended at once: {reason}"))
    }
}
