//! Ctrl-C and termination, for the host and for client commands.

use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use crate::failure::{Failure, Kind};

/// A request to stop, from the user or from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    /// The signal of `kill`, service managers and container runtimes.
    Terminate,
}

impl StopSignal {
    /// Returns the exit code of a process that this signal ended at once.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The stream of signals. While it exists, they do not end the process by themselves.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: SignalStream,
    terminate: SignalStream,
}

impl StopSignals {
    /// Starts listening.
    pub fn listen() -> Result<Self, Failure> {
        let open = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(
                    Kind::Unexpected,
                    format!("the program cannot listen for signals ({error})"),
                )
            })
        };
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    /// Waits for the next request to stop.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}
