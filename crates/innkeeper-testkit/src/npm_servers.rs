//! Real MCP servers from the npm registry: installed once below `target/`, from a lock file.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::process::{Child, Command};

/// Longer than anything takes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How the kernel writes that a socket listens.
const LISTENS: &str = "0A";

/// The folder with the servers; nothing without node.
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
    Some(path.to_str().expect("a path in UTF-8").to_owned())
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
    let folder = temporary_directory().join("mcp-servers");
    let lock = std::fs::read(source.join("package-lock.json")).expect("a lock file");
    // One at a time: other tests may be other processes.
    std::fs::create_dir_all(&folder).expect("a directory");
    let lock_file = std::fs::File::create(folder.with_extension("lock")).expect("a file");
    lock_file.lock().expect("a lock");
    renew(&source.join("modern.mjs"), &folder.join("modern.mjs"));
    // Written last.
    let done = folder.join("done");
    if std::fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Some(folder);
    }
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(source.join(file), folder.join(file)).expect("a copy");
    }
    let npm = std::process::Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"])
        .arg("--fetch-timeout=60000")
        .current_dir(&folder)
        .output()
        .expect("npm starts");
    assert!(npm.status.success(), "npm ci: {}", String::from_utf8_lossy(&npm.stderr));
    std::fs::write(done, lock).expect("a file");
    Some(folder)
}

/// Returns `target/tmp`, which is two folders above the test executable.
fn temporary_directory() -> PathBuf {
    let executable = std::env::current_exe().expect("the path of the test executable");
    let target = executable.ancestors().nth(3).expect("an executable below target");
    target.join("tmp")
}

/// Replaces a file in one step: servers of other tests may be reading it.
fn renew(source: &Path, file: &Path) {
    let new = std::fs::read(source).expect("a server");
    if std::fs::read(file).is_ok_and(|old| old == new) {
        return;
    }
    let temporary = file.with_extension("new");
    std::fs::write(&temporary, new).expect("a file");
    std::fs::rename(temporary, file).expect("a rename");
}

/// An HTTP server that runs as a process of its own, on a free port.
#[derive(Debug)]
pub struct NpmServer {
    child: Child,
    port: u16,
}

impl NpmServer {
    /// Starts it on a free port, and waits until it listens.
    pub async fn start(program: &str, mode: Option<&str>) -> Self {
        Self::start_at(0, program, mode).await
    }

    /// Starts it on a given port, which another process may have for a moment; 0 is any.
    async fn start_at(port: u16, program: &str, mode: Option<&str>) -> Self {
        let waiting = async {
            loop {
                if let Some(server) = Self::try_start_at(port, program, mode).await {
                    return server;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let started = tokio::time::timeout(TIMEOUT, waiting).await;
        started.expect("the server listens")
    }

    /// Returns nothing if it ends without listening.
    async fn try_start_at(port: u16, program: &str, mode: Option<&str>) -> Option<Self> {
        let mut child = Command::new("node")
            .arg(program)
            .args(mode)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("node starts");
        let pid = child.id().expect("a running process");
        while child.try_wait().expect("a child").is_none() {
            if let Some(port) = port_of(pid) {
                return Some(Self { child, port });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    /// Restarts it at the same address.
    pub async fn again(mut self, program: &str, mode: Option<&str>) -> Self {
        self.leave().await;
        Self::start_at(self.port, program, mode).await
    }

    /// Ends it, unless it has ended.
    pub async fn leave(&mut self) {
        if self.child.id().is_some() {
            self.child.kill().await.expect("a child");
        }
    }

    /// Returns an address of it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Returns the port that a process listens on, according to the system: some servers claim to listen where they could
/// not, and another process listens there.
fn port_of(pid: u32) -> Option<u16> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let own = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let own: Vec<String> = own.map(|file| file.to_string_lossy().into_owned()).collect();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let is_own = own.contains(&format!("socket:[{inode}]"));
        let (_, port) = address.rsplit_once(':')?;
        (is_own && *state == LISTENS).then(|| u16::from_str_radix(port, 16).ok())?
    })
}
