//! Real servers, from the npm registry: installed once below `target/`, from a lock file.
//!
//! Whoever runs them through the host includes this file as well.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::process::{Child, Command};

/// The folder with the servers; nothing where there is no node to run them.
pub fn servers() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(install).as_deref()
}

/// The program of a server.
pub fn package(name: &str) -> Option<String> {
    let path = servers()?
        .join("node_modules/@modelcontextprotocol")
        .join(name)
        .join("dist/index.js");
    Some(path.to_str().unwrap().to_owned())
}

fn install() -> Option<PathBuf> {
    for program in ["node", "npm"] {
        let found = std::process::Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if found.is_err() {
            eprintln!("skipped: `{program}` is not installed, so no real MCP servers can be run");
            return None;
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../innkeeper-mcp/tests/servers");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-servers");
    let lock = std::fs::read(source.join("package-lock.json")).unwrap();
    // One at a time: other tests may be processes of their own.
    let turn = std::fs::File::create(folder.with_extension("lock")).unwrap();
    turn.lock().unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(source.join("modern.mjs"), folder.join("modern.mjs")).unwrap();
    // Written when everything else is there.
    let done = folder.join("done");
    if std::fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Some(folder);
    }
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    let npm = std::process::Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"])
        .arg("--fetch-timeout=60000")
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(npm.status.success(), "npm ci: {}", String::from_utf8_lossy(&npm.stderr));
    std::fs::write(done, lock).unwrap();
    Some(folder)
}

/// A server that runs beside the test on a port of its own.
pub struct Beside {
    child: Child,
    port: u16,
}

impl Beside {
    /// Starts it, and waits until it listens.
    pub async fn start(program: &str, mode: Option<&str>) -> Self {
        // Free a moment ago; nobody else on this machine looks for ports in the same moment.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        Self::start_at(port, program, mode).await
    }

    async fn start_at(port: u16, program: &str, mode: Option<&str>) -> Self {
        let child = Command::new("node")
            .arg(program)
            .args(mode)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let waiting = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting)
            .await
            .expect("the server listens");
        Self { child, port }
    }

    /// Ends it, and starts another one at the same address.
    pub async fn again(mut self, program: &str, mode: Option<&str>) -> Self {
        self.child.kill().await.unwrap();
        Self::start_at(self.port, program, mode).await
    }

    /// An address of it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}
