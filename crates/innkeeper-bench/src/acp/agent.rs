//! The agent that is measured: as little of ACP as an agent can be; and a reader of its pipe.

use std::io::{BufRead as _, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::client::websocket::unix_nanos;
use crate::model::Turn;
use crate::model::provider::{stamp, stamps_in};

/// Bytes of chunks that come as fast as they can in one write, as a busy agent buffers them.
const BATCH: usize = 16 << 10;
/// The longest pause in an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Serves on standard input and output until the input ends.
pub(crate) fn run() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let Some(id) = request.get("id").filter(|_| request.get("method").is_some()) else {
            continue;
        };
        let outcome = answer(&request, &mut out)?;
        let response = match outcome {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "unknown" } }),
        };
        writeln!(out, "{response}")?;
        out.flush()?;
    }
    Ok(())
}

/// Answers a request; `None` for an unknown one.
fn answer(request: &Value, out: &mut impl Write) -> Result<Option<Value>> {
    Ok(match request.get("method").and_then(Value::as_str) {
        Some("initialize") => Some(json!({ "protocolVersion": 1, "agentCapabilities": {} })),
        Some("session/new") => Some(json!({ "sessionId": "s" })),
        Some("session/prompt") => {
            let blocks = request.pointer("/params/prompt").and_then(Value::as_array);
            // The message may stand among other texts.
            let Some((chunks, pace)) = blocks.into_iter().flatten().find_map(plan) else {
                return Ok(Some(json!({ "stopReason": "refusal" })));
            };
            stream(out, chunks, Duration::from_micros(pace))?;
            Some(json!({ "stopReason": "end_turn" }))
        }
        _ => None,
    })
}

/// Reads the chunks of an answer, and the microseconds between them, from a block of a prompt.
fn plan(block: &Value) -> Option<(u64, u64)> {
    let (chunks, pace) = block.get("text")?.as_str()?.split_once(' ')?;
    Some((chunks.parse().ok()?, pace.parse().ok()?))
}

/// Writes stamped chunks.
fn stream(out: &mut impl Write, chunks: u64, pace: Duration) -> Result<()> {
    let mut batch = String::new();
    for _ in 0..chunks {
        batch.push_str(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":\
             {{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"{}\"}}}}}}}}\n",
            stamp()
        ));
        if !pace.is_zero() || batch.len() > BATCH {
            out.write_all(batch.as_bytes())?;
            out.flush()?;
            batch.clear();
        }
        if !pace.is_zero() {
            std::thread::sleep(pace);
        }
    }
    out.write_all(batch.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// The agent without a host.
pub(super) struct DirectAgent {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
    unread: Vec<u8>,
    next_id: u64,
}

impl DirectAgent {
    /// Starts the agent and a session of it.
    pub(super) async fn start() -> Result<Self> {
        let this = std::env::current_exe().context("cannot find this program's own file")?;
        let mut process = Command::new(this)
            .arg("acp-agent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the agent does not start")?;
        let input = process.stdin.take().context("the agent has no input")?;
        let output = process.stdout.take().context("the agent has no output")?;
        let mut agent = Self {
            process,
            input,
            output,
            unread: Vec::new(),
            next_id: 0,
        };
        let initialize = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        agent.request("initialize", initialize, 0).await?;
        let new = json!({ "cwd": "/", "mcpServers": [] });
        agent.request("session/new", new, 0).await?;
        Ok(agent)
    }

    /// Has the agent answer a message, and reads its chunks.
    pub(super) async fn turn(&mut self, text: &str, chunks: u64) -> Result<Turn> {
        let prompt = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": text }] });
        let started = Instant::now();
        let latencies = self.request("session/prompt", prompt, chunks).await?;
        Ok(Turn {
            latencies,
            time: started.elapsed(),
            cpu: Duration::ZERO,
        })
    }

    /// Ends the agent.
    pub(super) async fn stop(self) -> Result<()> {
        let Self { mut process, input, .. } = self;
        drop(input);
        timeout(TIMEOUT, process.wait())
            .await
            .context("the agent does not end")??;
        Ok(())
    }

    /// Sends a request and reads to its response. Returns the latencies of the chunks before it.
    async fn request(&mut self, method: &str, params: Value, chunks: u64) -> Result<Vec<u64>> {
        self.next_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params });
        self.input.write_all(format!("{request}\n").as_bytes()).await?;
        let mut latencies = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = timeout(TIMEOUT, self.output.read(&mut buffer))
                .await
                .context("the agent does not answer in time")??;
            ensure!(read > 0, "the agent ended");
            let now = unix_nanos();
            self.unread.extend_from_slice(&buffer[..read]);
            // Whole lines only: a stamp may be cut in two.
            let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else {
                continue;
            };
            latencies.extend(stamps_in(&self.unread[..end]).map(|stamp| now.saturating_sub(stamp)));
            let is_over = self.unread[..end].split(|byte| *byte == b'\n').any(is_response);
            self.unread.drain(..=end);
            if is_over {
                break;
            }
        }
        ensure!(
            latencies.len() as u64 == chunks,
            "{} of {chunks} chunks were read",
            latencies.len()
        );
        Ok(latencies)
    }
}

/// Returns true for the response to a request; chunks have no id.
fn is_response(line: &[u8]) -> bool {
    const ID: &[u8] = b"\"id\":";
    line.windows(ID.len()).any(|part| part == ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_chunks_that_the_message_asks_for() {
        let prompt = json!({ "method": "session/prompt", "params": { "prompt": [{ "type": "text", "text": "3 0" }] } });
        let mut out = Vec::new();
        let result = answer(&prompt, &mut out).unwrap().unwrap();
        assert_eq!(result["stopReason"], "end_turn");
        assert_eq!(stamps_in(&out).count(), 3);
        let lines: Vec<&[u8]> = out
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .collect();
        assert_eq!(lines.len(), 3);
        assert!(!lines.iter().any(|line| is_response(line)));
        let chunk: Value = serde_json::from_slice(lines[0]).unwrap();
        assert_eq!(chunk["params"]["update"]["sessionUpdate"], "agent_message_chunk");
        assert!(is_response(
            json!({ "jsonrpc": "2.0", "id": 1, "result": result })
                .to_string()
                .as_bytes()
        ));
    }
}
