//! Lists the tools of an MCP server, and calls one.
//!
//! ```sh
//! cargo run -p innkeeper-mcp --example call -- npx -y @modelcontextprotocol/server-everything
//! cargo run -p innkeeper-mcp --example call -- --tool echo '{"message":"hello"}' https://example.test/mcp
//! ```

use std::error::Error;

use innkeeper_mcp::{
    BaseEnvironment, Call, Content, Remote, Server, ServerConfig, ServerEnv, ServerState, Start, Stdio, Transport,
    unique_names,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let call = match args.first().map(String::as_str) {
        Some("--tool") if args.len() >= 4 => {
            let arguments = serde_json::from_str(&args[2])?;
            let call = Call::new(args[1].as_str(), arguments);
            args.drain(..3);
            Some(call)
        }
        _ => None,
    };
    let [place, rest @ ..] = args.as_slice() else {
        return Err("usage: call [--tool NAME ARGUMENTS] (URL | COMMAND [ARGUMENT...])".into());
    };
    let transport = if place.starts_with("http") {
        Transport::Http(Remote::new(place))
    } else {
        Transport::Stdio(Stdio::new(place, rest))
    };
    let server_env = ServerEnv {
        environment: BaseEnvironment::of_process(),
        ..ServerEnv::default()
    };
    let server = Server::new(ServerConfig::new("server", transport), server_env)?;
    server.start(Start::Blocking);
    let is_settled = |state: &ServerState| !matches!(state, ServerState::Starting { .. } | ServerState::Stopped);
    match server.wait_for(is_settled).await {
        ServerState::Ready => {}
        ServerState::Error { message, .. } => return Err(message.into()),
        other => return Err(format!("the server is not ready: {other:?}").into()),
    }
    if let Some(call) = call {
        let outcome = server.call(call).await?;
        for content in &outcome.content {
            match content {
                Content::Text(text) => println!("{text}"),
                other => println!("{other:?}"),
            }
        }
    } else {
        let tools = server.tools();
        let names = unique_names(tools.iter().map(|tool| ("server", tool.name.as_str())));
        for (tool, name) in tools.iter().zip(names) {
            println!("{name}: {}", tool.description.as_deref().unwrap_or_default());
        }
    }
    server.stop().await;
    Ok(())
}
