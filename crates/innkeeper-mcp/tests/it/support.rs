//! Shared parts of the scenarios.

use std::time::Duration;

use innkeeper_mcp::{
    BaseEnvironment, Call, Event, Events, Limits, Remote, RestartPolicy, Server, ServerConfig, ServerEnv, ServerState,
    Start, Stdio, Transport,
};
use innkeeper_testkit::misbehaving_http_server::MisbehavingHttpServer;
use serde_json::{Map, Value};

/// A scenario that waits for this long has failed.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a configuration of the misbehaving server.
pub fn odd(kind: &str) -> ServerConfig {
    let this_test = std::env::current_exe().unwrap();
    let mut stdio = Stdio::new(this_test.to_str().unwrap(), ["--exact", "odd_server", "--nocapture"]);
    stdio
        .env
        .insert(innkeeper_testkit::misbehaving_server::KIND.into(), Some(kind.into()));
    stdio.env.insert("ODD_SECRET".into(), Some("s3cr3t-value".into()));
    let mut config = ServerConfig::new("odd", Transport::Stdio(stdio));
    config.limits = limits();
    config.restart = RestartPolicy {
        delay: Duration::from_millis(50),
        delay_max: Duration::from_millis(100),
        ..RestartPolicy::default()
    };
    config
}

/// Configurations for a server behind HTTP.
pub trait HttpConfig {
    /// The configuration for streamable HTTP.
    fn config(&self) -> ServerConfig;
    /// The configuration for the older transport.
    fn old_config(&self) -> ServerConfig;
}

impl HttpConfig for MisbehavingHttpServer {
    fn config(&self) -> ServerConfig {
        let mut config = ServerConfig::new("far", Transport::Http(Remote::new(self.url())));
        config.limits = limits();
        config
    }

    fn old_config(&self) -> ServerConfig {
        let mut config = ServerConfig::new("old", Transport::Sse(Remote::new(self.old_url())));
        config.limits = limits();
        config
    }
}

/// Limits for scenarios: none of them waits long for nothing.
pub fn limits() -> Limits {
    Limits {
        change_rest: Duration::from_millis(50),
        stop_time: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// Adds a variable to the environment of a server.
pub fn with_env(mut config: ServerConfig, name: &str, value: &str) -> ServerConfig {
    let Transport::Stdio(stdio) = &mut config.transport else {
        panic!()
    };
    stdio.env.insert(name.into(), Some(value.into()));
    config
}

pub fn server_env() -> ServerEnv {
    ServerEnv {
        environment: BaseEnvironment::of_process(),
        ..ServerEnv::default()
    }
}

/// Returns a server that was started.
pub fn started(config: ServerConfig) -> Server {
    started_in(config, server_env())
}

pub fn started_in(config: ServerConfig, server_env: ServerEnv) -> Server {
    let server = Server::new(config, server_env).unwrap();
    server.start(Start::Blocking);
    server
}

/// Returns a server that is ready.
pub async fn ready(config: ServerConfig) -> Server {
    let server = started(config);
    until_ready(&server).await;
    server
}

pub async fn until_ready(server: &Server) {
    let state = settled(server).await;
    assert_eq!(state, ServerState::Ready);
}

/// Waits for the result of a start.
pub async fn settled(server: &Server) -> ServerState {
    until(server, |state| {
        !matches!(state, ServerState::Starting { .. } | ServerState::Stopped)
    })
    .await
}

pub async fn until(server: &Server, condition: impl FnMut(&ServerState) -> bool) -> ServerState {
    let waiting = tokio::time::timeout(TIMEOUT, server.wait_for(condition));
    match waiting.await {
        Ok(state) => state,
        Err(_) => panic!("the server is {:?}", server.state()),
    }
}

/// Waits for an event.
pub async fn event<T>(events: &mut Events, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let waiting = tokio::time::timeout(TIMEOUT, async {
        loop {
            if let Some(found) = wanted(events.next().await.expect("the server is there")) {
                return found;
            }
        }
    });
    waiting.await.expect("the event comes")
}

pub fn call(tool: &str, arguments: Value) -> Call {
    let Value::Object(arguments) = arguments else { panic!() };
    Call::new(tool, arguments)
}

pub fn no_arguments() -> Map<String, Value> {
    Map::new()
}

/// Polls a condition that has no event.
pub async fn eventually(condition: impl FnMut() -> bool) {
    eventually_within(TIMEOUT, condition).await;
}

/// The same with another timeout.
pub async fn eventually_within(time: Duration, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(time, waiting).await.expect("it happens");
}

/// Returns the highest number of servers that started at the same time, according to the file of `ODD_BUSY`.
pub fn max_at_once(noted: &str, counts: impl Fn(&str) -> bool) -> usize {
    let (mut at_once, mut most) = (0_usize, 0);
    for line in noted.lines() {
        let (sign, name) = line.split_at(1);
        match sign {
            _ if !counts(name) => {}
            "+" => at_once += 1,
            _ => at_once -= 1,
        }
        most = most.max(at_once);
    }
    most
}

/// Waits until a number does not grow any more, and returns it.
pub async fn settles(mut count: impl FnMut() -> usize) -> usize {
    let waiting = async {
        let mut last = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(700)).await;
            let now = count();
            if now == last && now > 0 {
                return now;
            }
            last = now;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.expect("it has an end")
}

/// Returns true if a process lives. A zombie does not.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
