//! Tokens of clients are only in the memory of the host. A separate process logs everything, persists its sessions in a
//! file, and is killed (AUTH-12).
//!
//! The program has no agent that needs a key on every machine, so the process is this test executable with its own
//! agent.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ahp_types::state::{ResponsePart, Turn};
use innkeeper_host::agent::ProtectedResource;
use innkeeper_host::{
    Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, TurnInput, async_trait, http,
};
use innkeeper_store::{Options, SqliteJournal};
use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::raw::{Address, RawClient};
use serde_json::{Value, json};

const API: &str = "https://api.example.com/v1";
const TOKEN: &str = "sk-0123456789-never-to-be-seen";
/// The data directory of the process; set for that process alone.
const DATA: &str = "INNKEEPER_TEST_KEYED_HOST";

/// Says whether it got the token.
struct Keyed;

#[async_trait]
impl Agent for Keyed {
    fn info(&self) -> AgentInfo {
        let api = ProtectedResource::new(API).name("Example API");
        AgentInfo::new("keyed", "Keyed", "Needs a key.")
            .with_resume()
            .with_protected_resource(api)
    }

    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        tracing::trace!(?cx, "opens a chat");
        Ok(Box::new(Self))
    }
}

#[async_trait]
impl AgentChat for Keyed {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        tracing::trace!(?turn, "runs a turn");
        let token = turn.token(API);
        let is_there = token.is_some_and(|token| token.reveal() == TOKEN);
        events.text(if is_there { "it is there" } else { "it is not" }).await
    }
}

/// The host that the test below starts and kills. By itself it does nothing.
#[tokio::test]
async fn host_process() {
    let Some(data) = std::env::var_os(DATA) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(std::io::stderr)
        .init();
    let file = Path::new(&data).join(innkeeper_store::FILE_NAME);
    let journal = SqliteJournal::new(&file, Options::default());
    let host = Host::builder().agent(Keyed).journal(journal).start().await;
    let host = host.expect("the host starts");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let bound = listener.local_addr().expect("an address");
    let _server = http::serve_tcp(host.handle(), listener, Access::new(bound));
    println!("ws://{bound}");
    host.handle().ended().await;
}

/// A process with a host in it, which is killed at the end.
struct HostProcess {
    child: Child,
    address: Address,
    log: PathBuf,
}

impl HostProcess {
    fn start(data: &Path, life: &str) -> Self {
        let log = data.join(format!("{life}.log"));
        let this_test = std::env::current_exe().expect("a program");
        let mut child = Command::new(this_test)
            .args(["--exact", "keys::host_process", "--nocapture"])
            .env(DATA, data)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("the process starts");
        let output = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(output).lines();
        let address = lines.find_map(|line| {
            let line = line.expect("text");
            let at = line.find("ws://")?;
            Some(line[at..].to_owned())
        });
        let url = address.expect("the host listens");
        Self {
            child,
            address: Address { url, token: None },
            log,
        }
    }

    /// Kills it, and returns its log.
    fn kill(mut self) -> String {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        std::fs::read_to_string(&self.log).expect("a log")
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn error_type(turn: &Turn) -> Option<&str> {
    match turn.response_parts.last() {
        Some(ResponsePart::Error(part)) => Some(&part.error.error_type),
        _ => None,
    }
}

#[tokio::test]
async fn auth12_a_token_is_neither_logged_nor_stored_and_a_kill_forgets_it() {
    let data = tempfile::tempdir().expect("a directory");
    let host = HostProcess::start(data.path(), "first");
    let mut client = OfficialClient::connect(&host.address, "first").await;
    let params = json!({ "channel": "ahp-root://", "resource": API, "token": TOKEN, "expiresIn": 3600 });
    let _: Value = client.request("authenticate", params.clone()).await.expect("taken");
    let uris = client.create_session("one").await;
    let turn = client.run_turn(&uris.chat, "t1", "is it there?").await;
    assert_eq!(markdown(&turn.response_parts), "it is there");
    // Also not what was sent wrongly.
    let mut raw = RawClient::initialized(&host.address, "careless").await;
    for wrong in [
        json!({ "channel": "ahp-root://", "resource": TOKEN, "token": TOKEN }),
        json!({ "channel": "ahp-root://", "resource": API, "token": [TOKEN] }),
        json!({ "channel": "ahp-root://", "resource": API, "token": format!("{TOKEN}\n") }),
        json!({ "channel": "ahp-root://", "resource": API, "token": TOKEN, "expiresIn": 0 }),
    ] {
        let answer = raw.call("authenticate", wrong).await;
        let error = answer.expect_err("refused");
        assert!(!format!("{error:?}").contains(TOKEN), "{error:?}");
    }
    let malformed = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"authenticate","params":{{"token":"{TOKEN}",}}"#);
    raw.send(malformed).await;
    let answer = format!("{:?}", raw.receive().await);
    assert!(!answer.contains(TOKEN), "{answer}");
    let log = host.kill();
    assert!(log.contains("runs a turn"), "the log is there: {log}");
    assert!(!log.contains(TOKEN), "a token was logged");

    let host = HostProcess::start(data.path(), "second");
    client.cut().await;
    client.move_to(&host.address);
    client.reconnect().await.expect("known across restarts");
    let turn = client.run_turn(&uris.chat, "t2", "is it there?").await;
    assert_eq!(error_type(&turn), Some("authRequired"));
    let _: Value = client.request("authenticate", params).await.expect("taken");
    let turn = client.run_turn(&uris.chat, "t3", "is it there?").await;
    assert_eq!(markdown(&turn.response_parts), "it is there");
    client.assert_converged().await;
    assert!(!host.kill().contains(TOKEN), "a token was logged");
    let files: Vec<PathBuf> = std::fs::read_dir(data.path())
        .expect("a directory")
        .map(|entry| entry.expect("a file").path())
        .collect();
    assert!(files.iter().any(|file| file.ends_with(innkeeper_store::FILE_NAME)));
    for file in files {
        let bytes = std::fs::read(&file).expect("read");
        let found = bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
        assert!(!found, "a token is in {}", file.display());
    }
}
