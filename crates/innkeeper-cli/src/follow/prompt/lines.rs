//! Lines of the user, one at a time, and texts from the user's editor.

use std::io::{self, BufRead as _, Write as _};
use std::process::Command;

use tokio::sync::{mpsc, oneshot};

/// Reads a line only when one is wanted: in between, standard input belongs to the editor.
#[derive(Debug, Default)]
pub(super) struct Lines {
    reader: Option<Reader>,
    /// True while the reader waits for the end of a line.
    is_reading: bool,
    editing: Option<oneshot::Receiver<Option<String>>>,
}

#[derive(Debug)]
struct Reader {
    wanted: std::sync::mpsc::Sender<()>,
    lines: mpsc::UnboundedReceiver<Option<String>>,
}

impl Lines {
    /// Waits for the next line; `None` at the end of the input. It may be dropped and called again.
    pub(super) async fn next(&mut self) -> Option<String> {
        let reader = self.reader.get_or_insert_with(start);
        if !self.is_reading {
            self.is_reading = reader.wanted.send(()).is_ok();
        }
        let line = reader.lines.recv().await.flatten();
        self.is_reading = false;
        line
    }

    /// Discards everything that was typed so far.
    pub(super) fn discard(&mut self) {
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        if let Some(reader) = &mut self.reader {
            while reader.lines.try_recv().is_ok() {
                self.is_reading = false;
            }
        }
    }

    /// Opens a text in the user's editor.
    pub(super) fn edit(&mut self, text: &str) -> Result<(), String> {
        let editor = ["VISUAL", "EDITOR"].into_iter().find_map(std::env::var_os);
        let editor = editor.filter(|editor| !editor.is_empty());
        let editor = editor.ok_or("name your editor in the variable EDITOR to edit the input")?;
        let (edited, editing) = oneshot::channel();
        let text = text.to_owned();
        std::thread::spawn(move || {
            let result = run_editor(&editor, &text);
            // The receiver is gone if the question was withdrawn.
            let _ = edited.send(result.ok());
        });
        self.editing = Some(editing);
        Ok(())
    }

    /// Waits for the edited text; `None` if the editor failed.
    pub(super) async fn next_edit(&mut self) -> Option<String> {
        match &mut self.editing {
            Some(editing) => editing.await.ok().flatten(),
            None => None,
        }
    }
}

fn start() -> Reader {
    let (wanted, requests) = std::sync::mpsc::channel();
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while requests.recv().is_ok() {
            let mut line = String::new();
            let line = match io::stdin().lock().read_line(&mut line) {
                Ok(0) | Err(_) => None,
                Ok(_) => Some(line),
            };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Reader { wanted, lines }
}

/// Runs the editor on a file with the text and returns the text afterwards.
fn run_editor(editor: &std::ffi::OsStr, text: &str) -> io::Result<String> {
    let mut path = std::env::temp_dir();
    path.push(format!("innkeeper-input-{}.json", uuid::Uuid::new_v4()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&path)?.write_all(text.as_bytes())?;
    // Editors are often named with arguments, such as `code --wait`.
    let mut command = Command::new("sh");
    command.arg("-c").arg("$0 \"$1\"").arg(editor).arg(&path);
    let status = command.status();
    let edited = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    match status?.success() {
        true => Ok(edited?.trim_end_matches('\n').to_owned()),
        false => Err(io::Error::other("the editor failed")),
    }
}
