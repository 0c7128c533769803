//! The input side of a terminal.
//!
//! Typed text reaches a program in order and waits while the program does not read. Two things must not wait behind it:
//! a new size, and a key that interrupts the program (Ctrl-C).

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use innkeeper_host::terminals::TerminalSize;
use pty_process::OwnedWritePty;
use rustix::fs::{Mode, OFlags};
use rustix::io;
use rustix::process::{Signal, kill_process_group};
use rustix::pty::ptsname;
use rustix::termios::{
    LocalModes, QueueSelector, SpecialCodeIndex, Winsize, tcflush, tcgetattr, tcgetpgrp, tcsetwinsize,
};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, watch};

/// Bytes of input that wait for a program that does not read.
const MAX_TYPED: usize = 4 << 20;
/// Further bytes that only keys may fill, so that a large paste does not keep out the key that interrupts it.
const MAX_KEYS: usize = 4 << 10;
/// Bytes of one key.
const MAX_KEY: usize = 16;
/// Pieces of input that wait for a program that does not read.
const MAX_PIECES: usize = 1024;
/// The mark of a key without a function. It is another byte on some systems, which no key sends.
const NO_KEY: u8 = 0;

/// Counts the bytes of input that wait for the program.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedBytes(Arc<AtomicUsize>);

impl TypedBytes {
    /// Returns false if too much waits already.
    pub(crate) fn add(&self, bytes: usize) -> bool {
        let limit = match bytes {
            0..=MAX_KEY => MAX_TYPED + MAX_KEYS,
            _ => MAX_TYPED,
        };
        let added = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            let sum = waiting.saturating_add(bytes);
            (sum <= limit).then_some(sum)
        });
        added.is_ok()
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The host's side of a pseudo-terminal, apart from what is read and written.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    pub(crate) fn new(pty: OwnedFd) -> Self {
        Self(pty)
    }

    fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.0, size)
    }

    /// Returns the signal that a key sends, and whether waiting input goes with it. There is none if the program takes
    /// the key as text.
    fn signal_of(&self, key: u8) -> Option<(Signal, Unread)> {
        if key == NO_KEY {
            return None;
        }
        let modes = tcgetattr(&self.0).ok()?;
        if !modes.local_modes.contains(LocalModes::ISIG) {
            return None;
        }
        let keys = [
            (SpecialCodeIndex::VINTR, Signal::INT),
            (SpecialCodeIndex::VQUIT, Signal::QUIT),
            (SpecialCodeIndex::VSUSP, Signal::TSTP),
        ];
        let unread = match modes.local_modes.contains(LocalModes::NOFLSH) {
            true => Unread::Stays,
            false => Unread::Goes,
        };
        let (_, signal) = keys.into_iter().find(|(index, _)| modes.special_codes[*index] == key)?;
        Some((signal, unread))
    }

    /// Signals the job in the foreground, as the terminal does for a key.
    fn signal(&self, signal: Signal) {
        let sent = tcgetpgrp(&self.0).and_then(|group| kill_process_group(group, signal));
        if let Err(error) = sent {
            tracing::debug!(%error, "no program takes a signal of a key");
        }
    }

    /// Discards written input that the program has not read.
    fn discard_unread(&self) {
        let discard = || {
            let name = ptsname(&self.0, Vec::new())?;
            // The host must not get it as its own terminal.
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let terminal = File::from(rustix::fs::open(name.as_c_str(), flags, Mode::empty())?);
            tcflush(&terminal, QueueSelector::IFlush)
        };
        if let Err(error) = discard() {
            tracing::debug!(%error, "unread input stays");
        }
    }
}

/// The fate of unread input when a key interrupts the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Stays,
    Goes,
}

/// Typed text on its way to the program.
#[derive(Debug)]
struct Piece {
    text: String,
    /// The number of the latest interrupt when it was typed.
    interrupt: u64,
}

/// A key that interrupted the program while input waited.
#[derive(Debug, Clone, Copy)]
struct Interrupt {
    number: u64,
    signal: Signal,
}

/// The input side of a terminal.
#[derive(Debug)]
pub(crate) struct Input {
    control: Arc<Control>,
    typed: TypedBytes,
    pieces: mpsc::Sender<Piece>,
    interrupts: watch::Sender<Interrupt>,
}

impl Input {
    /// Creates the input side of a terminal, and the task that writes.
    pub(crate) fn new(
        pty: OwnedWritePty,
        control: Control,
        typed: TypedBytes,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let control = Arc::new(control);
        let (pieces, typed_pieces) = mpsc::channel(MAX_PIECES);
        let none = Interrupt {
            number: 0,
            signal: Signal::INT,
        };
        let (interrupts, interrupted) = watch::channel(none);
        let writer = Writer {
            pty,
            control: Arc::clone(&control),
            typed: typed.clone(),
            interrupts: interrupted,
        };
        let input = Self {
            control,
            typed,
            pieces,
            interrupts,
        };
        (input, writer.run(typed_pieces))
    }

    /// Hands text to the program. Its bytes are counted already.
    pub(crate) fn write(&self, text: String) {
        if let [key] = text.as_bytes()
            && self.typed.get() > text.len()
            && let Some((signal, unread)) = self.control.signal_of(*key)
        {
            self.typed.remove(text.len());
            return match unread {
                Unread::Stays => self.control.signal(signal),
                Unread::Goes => self.interrupts.send_modify(|last| {
                    *last = Interrupt {
                        number: last.number + 1,
                        signal,
                    };
                }),
            };
        }
        let interrupt = self.interrupts.borrow().number;
        if let Err(unsent) = self.pieces.try_send(Piece { text, interrupt }) {
            self.typed.remove(unsent.into_inner().text.len());
            tracing::debug!("a program does not read its input; some of it is dropped");
        }
    }

    pub(crate) fn resize(&self, size: TerminalSize) {
        if let Err(error) = self.control.resize(size) {
            tracing::debug!(%error, "a terminal takes no size");
        }
    }
}

/// Writes input, apart from reading output: a program may wait for one of them.
struct Writer {
    pty: OwnedWritePty,
    control: Arc<Control>,
    typed: TypedBytes,
    interrupts: watch::Receiver<Interrupt>,
}

impl Writer {
    /// Writes pieces until the terminal's task ends.
    async fn run(self, mut pieces: mpsc::Receiver<Piece>) {
        let Self {
            mut pty,
            control,
            typed,
            mut interrupts,
        } = self;
        let mut signalled = 0;
        while let Some(Piece { text, interrupt }) = pieces.recv().await {
            tokio::select! {
                biased;
                last = next_interrupt(&mut interrupts, interrupt) => {
                    // The terminal's task has ended.
                    let Some(last) = last else { return };
                    control.discard_unread();
                    if last.number > signalled {
                        signalled = last.number;
                        control.signal(last.signal);
                    }
                }
                written = pty.write_all(text.as_bytes()) => {
                    if let Err(error) = written {
                        tracing::debug!(%error, "a terminal takes no input");
                    }
                }
            }
            typed.remove(text.len());
        }
    }
}

/// Waits for an interrupt after the one with a number.
async fn next_interrupt(interrupts: &mut watch::Receiver<Interrupt>, after: u64) -> Option<Interrupt> {
    let next = interrupts.wait_for(|last| last.number > after).await;
    next.ok().map(|next| *next)
}
