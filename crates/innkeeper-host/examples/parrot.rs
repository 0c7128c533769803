//! A complete host with an agent of its own.
//!
//! Run it with `cargo run -p innkeeper-host --example parrot`, then talk to it:
//! `innkeeper send --url ws://127.0.0.1:4748 "hello there"`.

use std::time::Duration;

use innkeeper_host::{
    Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, TurnInput, async_trait, http,
};

struct Parrot;

#[async_trait]
impl Agent for Parrot {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("parrot", "Parrot", "Repeats what you say, word by word.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(Self))
    }
}

#[async_trait]
impl AgentChat for Parrot {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        for word in turn.text.split_inclusive(' ') {
            events.text(word).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder()
        .agent(Parrot)
        .server_info("parrot", "1.0.0")
        .start()
        .await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:4748").await?;
    let access = Access::new(listener.local_addr()?);
    let server = http::serve_tcp(host.handle(), listener, access);
    eprintln!("The parrot listens on ws://127.0.0.1:4748. Press Enter to stop it.");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    server.stop().await;
    host.shutdown(Duration::from_secs(10)).await;
    Ok(())
}
