//! The same commands and events as lines of standard input and output, for a client in a process of its own.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Runs `run` between standard input and standard output until the input ends.
pub async fn serve<F: Future<Output = ()>>(run: impl FnOnce(UnboundedReceiver<Value>, UnboundedSender<Value>) -> F) {
    let (commands, to_perform) = unbounded_channel();
    let (events, mut to_print) = unbounded_channel::<Value>();
    let reading = async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let command = serde_json::from_str(&line).expect("commands are JSON");
            if commands.send(command).is_err() {
                break;
            }
        }
    };
    let printing = async move {
        let mut output = tokio::io::stdout();
        while let Some(event) = to_print.recv().await {
            let line = format!("{event}\n");
            if output.write_all(line.as_bytes()).await.is_err() || output.flush().await.is_err() {
                break;
            }
        }
    };
    tokio::join!(reading, printing, run(to_perform, events));
}
