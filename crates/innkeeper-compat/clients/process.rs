//! The same commands and events as lines of standard input and output, for a client in a process of its own.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};
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

/// Serves mirrors until the input ends. Each line has the number of a mirror, which begins to exist with its first line,
/// and is answered by a line with `ok` or `error`.
pub fn serve_mirrors<M>(new: fn() -> M, perform: fn(&mut M, &str, &Value) -> Result<Value, String>) {
    let mut mirrors: BTreeMap<u64, M> = BTreeMap::new();
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line.expect("text")).expect("commands are JSON");
        let number = line["mirror"].as_u64().expect("the number of a mirror");
        let answer = match line["do"].as_str().unwrap_or_default() {
            "drop" => json!({ "ok": mirrors.remove(&number).is_some() }),
            command => match perform(mirrors.entry(number).or_insert_with(new), command, &line["with"]) {
                Ok(result) => json!({ "ok": result }),
                Err(error) => json!({ "error": error }),
            },
        };
        writeln!(output, "{answer}").expect("written");
        output.flush().expect("written");
    }
}
