//! Asks whether the servers of a workspace or of a client's plugin may start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use innkeeper_host::mcp::{StartPermission, Trust, TrustDecision, TrustQuestion};
use innkeeper_plugins::{Child, McpServer, Transport as McpTransport};
use innkeeper_std::sync::{Mutex, MutexGuard};
use serde_json::json;

use super::question::{self, without_secrets};
use crate::canonical::canonical_json;
use crate::discovered::DiscoveredContainer;
use crate::hooks::{ScriptDigests, Words, visible};
use crate::trust::{Contents, MAX_PIECES, Subject, TrustFile, TrustStatus, Verdict};

/// Maximum bytes of the line for one server: a user does not read more, and cannot agree to what they did not read.
const MAX_LINE: usize = 4 << 10;
/// Maximum bytes of all lines that a session shows together.
const MAX_SHOWN: usize = 32 << 10;
/// Interval of checks for a decision.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Asks about all servers of one origin at once.
#[derive(Clone)]
pub(super) struct OriginPermission(Arc<OriginServers>);

struct OriginServers {
    subject: Subject,
    servers: Vec<Foreign>,
    trust: Arc<TrustFile>,
    /// The state of the trust file when the last check refused. Several servers and sessions share the answer: after a
    /// refusal they check again as soon as the file changed.
    refused: Mutex<Option<Stamp>>,
}

/// The modification time and length of a file.
type Stamp = Option<(SystemTime, u64)>;

/// A server that needs the user's permission.
pub(super) struct Foreign {
    name: String,
    /// The file that declares it.
    label: String,
    server: McpServer,
    bases: Vec<PathBuf>,
    /// The plugin, if a client published or saved it.
    published: Option<PathBuf>,
    /// Retains the copy of a client's plugin while the server may run.
    _part: DiscoveredContainer,
}

impl Foreign {
    pub(super) fn new(part: &DiscoveredContainer, child: &Child, server: &McpServer) -> Self {
        let workspace = part.origin().workspace().map(Path::to_owned);
        Self {
            name: child.name.clone(),
            label: child.path.clone(),
            server: server.clone(),
            bases: [part.root()].into_iter().chain(workspace).collect(),
            published: part.origin().is_of_client().then(|| part.root()),
            _part: part.clone(),
        }
    }

    /// Adds everything that decides what the server does, as far as its origin controls it.
    ///
    /// # Errors
    ///
    /// If it exceeds the limits of what is shown or read.
    fn add_to(&self, found: &mut OriginContents, digests: &mut ScriptDigests) -> Result<(), String> {
        let name = visible(&self.name);
        let mut words = Words::default();
        let reach = match &self.server.transport {
            McpTransport::Stdio {
                command,
                args,
                env,
                env_file,
                cwd,
            } => {
                let line: Vec<&str> = std::iter::once(command).chain(args).map(String::as_str).collect();
                let here = |text: &str| text.replace("${workspaceFolder}", ".");
                // A directory comes before its files.
                cwd.iter().for_each(|cwd| words.surrounding(&here(cwd)));
                let program: Vec<String> = line.iter().map(|word| here(word)).collect();
                words.program(program.iter().map(String::as_str));
                let around = env_file.iter().chain(env.values().flatten());
                around.for_each(|text| words.surrounding(&here(text)));
                let line = line.join(" ");
                let mut shown = format!("runs {}", visible(&line));
                if let Some(cwd) = cwd {
                    shown.push_str(&format!(" [in {}]", visible(cwd)));
                }
                for (name, value) in env {
                    let value = value.as_deref().unwrap_or_default();
                    shown.push_str(&format!(" [with {}={}]", visible(name), visible(value)));
                }
                shown
            }
            McpTransport::Http(remote) | McpTransport::Sse(remote) => {
                let address = visible(&without_secrets(&remote.url));
                format!("reaches {address}")
            }
        };
        let what = format!("MCP server {name} {reach} ({})", visible(&self.label));
        if what.len() > MAX_LINE {
            return Err(format!(
                "how the server {:.80} is started has {} bytes, too many to be shown",
                name,
                what.len()
            ));
        }
        let all = json!({ "name": self.name, "file": self.label, "entry": self.server.raw });
        let line = question::line(&self.name, &self.server.transport, &self.label);
        found.lines.insert(what.clone(), line);
        found.contents.add(what, canonical_json(all).as_bytes());
        let bases: Vec<&Path> = self.bases.iter().map(PathBuf::as_path).collect();
        for (shown, digest) in digests.named(&bases, &words)? {
            found.contents.add_digest(format!("file {shown}"), &digest);
        }
        Ok(())
    }
}

/// Everything that the servers of one origin would run.
#[derive(Default)]
struct OriginContents {
    contents: Contents,
    /// The pieces that are servers, with the line that a session shows for each.
    lines: BTreeMap<String, String>,
}

impl OriginPermission {
    pub(super) fn new(subject: Subject, servers: Vec<Foreign>, trust: Arc<TrustFile>) -> Self {
        Self(Arc::new(OriginServers {
            subject,
            servers,
            trust,
            refused: Mutex::default(),
        }))
    }

    /// Runs blocking file access on another thread.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&OriginServers) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let place = Arc::clone(&self.0);
        match tokio::task::spawn_blocking(move || work(&place)).await {
            Ok(done) => done,
            Err(_) => Err("the host failed to look at the servers; its log says more".to_owned()),
        }
    }
}

impl OriginServers {
    fn stamp(&self) -> Stamp {
        let metadata = std::fs::metadata(self.trust.path()).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    fn refused(&self) -> MutexGuard<'_, Option<Stamp>> {
        self.refused.lock()
    }

    fn contents(&self) -> Result<OriginContents, String> {
        let (mut found, mut digests) = (OriginContents::default(), ScriptDigests::default());
        for server in &self.servers {
            server.add_to(&mut found, &mut digests)?;
        }
        // The publisher also wrote the files that its programs load, so all files count.
        for root in self
            .servers
            .iter()
            .filter_map(|server| server.published.as_deref())
            .collect::<BTreeSet<_>>()
        {
            let (count, digest) = digests.everything(root)?;
            found
                .contents
                .add_digest(format!("all files of the plugin ({count})"), &digest);
        }
        Ok(found)
    }

    /// Reads the contents, and the user's decision about them.
    fn status(&self) -> Result<(OriginContents, TrustStatus), String> {
        // Before the read, so that a decision made meanwhile is noticed.
        let stamp = self.stamp();
        let status = self.contents().and_then(|found| {
            let status = self.trust.status(&self.subject, &found.contents);
            Ok((found, status.map_err(|error| error.to_string())?))
        });
        let is_allowed = matches!(&status, Ok((_, TrustStatus::Trusted)));
        *self.refused() = (!is_allowed).then_some(stamp);
        status
    }

    fn check(&self) -> Result<(), String> {
        let place = visible(&self.subject.place);
        let (found, status) = self.status()?;
        let what = match status {
            TrustStatus::Trusted => return Ok(()),
            TrustStatus::Refused => {
                return Err(format!(
                    "the user did not allow the MCP servers of {place}; `innkeeper trust allow` with that path allows them"
                ));
            }
            TrustStatus::Unknown => "no user has allowed the MCP servers of",
            TrustStatus::Changed { .. } => "the MCP servers changed since they were allowed in",
        };
        self.note(&found.contents).map_err(|error| error.to_string())?;
        Err(format!(
            "{what} {place}: answer when the session asks, or use `innkeeper trust`, which shows what they would run, and \
             `innkeeper trust allow '{place}'`"
        ))
    }

    fn trust(&self) -> Result<Trust, String> {
        let (found, status) = self.status()?;
        if let Some(decided) = match status {
            TrustStatus::Trusted => Some(Trust::Allowed),
            TrustStatus::Refused => Some(Trust::Refused),
            TrustStatus::Unknown | TrustStatus::Changed { .. } => None,
        } {
            return Ok(decided);
        }
        self.note(&found.contents).map_err(|error| error.to_string())?;
        let place = visible(&self.subject.place);
        let message = self.message(&found, &status);
        if message.len() > MAX_SHOWN || found.contents.pieces().len() > MAX_PIECES {
            return Err(format!(
                "those of {place} are too many to be shown here; `innkeeper trust` shows them, and `innkeeper trust allow \
                 '{place}'` allows them"
            ));
        }
        Ok(Trust::Undecided(TrustQuestion {
            place,
            digest: found.contents.digest(),
            message,
        }))
    }

    fn decide(&self, question: &TrustQuestion, decision: TrustDecision) -> Result<(), String> {
        let found = self.contents()?;
        // A user decides about the contents that the question showed, and not about those of now.
        if found.contents.digest() != question.digest {
            return Err("their commands changed while the question was open, so they were not allowed".to_owned());
        }
        let verdict = match decision {
            TrustDecision::Allow => Verdict::Trusted,
            TrustDecision::Refuse => Verdict::Refused,
        };
        let decided = self.trust.decide(&self.subject, &found.contents, verdict);
        decided.map_err(|error| error.to_string())
    }

    /// The text that a session shows.
    fn message(&self, found: &OriginContents, status: &TrustStatus) -> String {
        let place = question::code(&self.subject.place);
        let whose = match self.servers.iter().any(|server| server.published.is_some()) {
            true => format!("The plugin {place}"),
            false => format!("The workspace {place}"),
        };
        let mut message = format!(
            "{whose} declares MCP servers: programs that run on the host with all rights of its user, or addresses that \
             the host connects to. Allow them only if you know where they come from.\n"
        );
        let mut changed: &[String] = &[];
        if let TrustStatus::Changed { now, before } = status {
            let gone = before.len();
            message.push_str(&format!(
                "\nThey have changed since the decision. Entries that are gone or different: {gone}.\n"
            ));
            changed = now;
        }
        message.push_str("\nThey would be, with the files that they run:\n");
        for piece in found.contents.pieces() {
            let line = match found.lines.get(&piece.what) {
                Some(line) => line.clone(),
                None => question::code(&piece.what),
            };
            let mark = if changed.contains(&piece.what) {
                " (new or changed)"
            } else {
                ""
            };
            message.push_str(&format!("- {line}{mark}\n"));
        }
        message
    }

    /// Records the question, so that `innkeeper trust` shows it.
    fn note(&self, contents: &Contents) -> std::io::Result<()> {
        let digest = contents.digest();
        let is_noted = self.trust.decisions()?.iter().any(|decided| {
            decided.verdict == Verdict::Asked
                && decided.kind == self.subject.kind
                && decided.place == self.subject.place
                && decided.digest == digest
        });
        match is_noted {
            true => Ok(()),
            false => self.trust.decide(&self.subject, contents, Verdict::Asked),
        }
    }
}

#[async_trait]
impl StartPermission for OriginPermission {
    fn check(&self) -> Result<(), String> {
        self.0.check()
    }

    async fn decided(&self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = self.0.trust.changed() => {}
            }
            if *self.0.refused() != Some(self.0.stamp()) {
                return;
            }
        }
    }

    async fn trust(&self) -> Result<Trust, String> {
        self.apart(OriginServers::trust).await
    }

    async fn decide(&self, question: &TrustQuestion, decision: TrustDecision) -> Result<(), String> {
        let question = question.clone();
        self.apart(move |place| place.decide(&question, decision)).await
    }

    async fn withdrawn(&self) {
        // The first check covers decisions between the last check and now.
        let mut checked = None;
        loop {
            let stamp = self.0.stamp();
            if checked != Some(stamp) {
                checked = Some(stamp);
                let (trust, subject) = (Arc::clone(&self.0.trust), self.0.subject.clone());
                let looking = tokio::task::spawn_blocking(move || allows(&trust, &subject));
                if !looking.await.unwrap_or_default() {
                    return;
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Whether the user's last decision about an origin allows something. If the file cannot be read, nothing is allowed.
fn allows(trust: &TrustFile, subject: &Subject) -> bool {
    let decisions = trust.decisions().unwrap_or_default();
    decisions.iter().any(|decided| {
        decided.verdict == Verdict::Trusted && decided.kind == subject.kind && decided.place == subject.place
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrustKind;
    use crate::discovered::Origin;
    use crate::local::SourceDirectories;
    use crate::servers::{ServerSettings, declarations};

    /// A workspace with a server that runs a script of it, and the file of decisions.
    fn scene() -> (tempfile::TempDir, ServerSettings, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().canonicalize().unwrap().join("w");
        std::fs::create_dir_all(&workspace).unwrap();
        let servers = r#"{ "mcpServers": { "inn": { "command": "sh", "args": ["./serve.sh", "--quiet"] } } }"#;
        std::fs::write(workspace.join(".mcp.json"), servers).unwrap();
        std::fs::write(workspace.join("serve.sh"), "exit 1").unwrap();
        let settings = ServerSettings {
            trust: Arc::new(TrustFile::new(directory.path().join("trust.json"))),
            data: directory.path().join("data"),
        };
        (directory, settings, workspace)
    }

    fn check(settings: &ServerSettings, workspace: &Path) -> Result<(), String> {
        let discovered = SourceDirectories::default().look(&[workspace.to_owned()]);
        let declared = declarations(&discovered, settings);
        let [server] = declared.as_slice() else {
            panic!("{declared:?}")
        };
        assert!(!server.is_trusted);
        server.permission.0.as_ref().expect("permission is needed").check()
    }

    #[test]
    fn p12_a_workspace_server_starts_only_with_the_contents_the_user_saw() {
        let (_directory, settings, workspace) = scene();
        let place = workspace.display().to_string();
        let why = check(&settings, &workspace).unwrap_err();
        assert!(why.contains(&format!("innkeeper trust allow '{place}'")), "{why}");
        let asked = settings.trust.decisions().unwrap();
        let shown: Vec<&str> = asked[0].pieces.iter().map(|piece| piece.what.as_str()).collect();
        assert_eq!(
            shown,
            ["MCP server inn runs sh ./serve.sh --quiet (.mcp.json)", "file serve.sh"]
        );
        settings.trust.change_verdict(&place, Verdict::Trusted).unwrap();
        assert_eq!(check(&settings, &workspace), Ok(()));
        // Swapped after it was allowed.
        std::fs::write(workspace.join("serve.sh"), "rm -rf /").unwrap();
        let why = check(&settings, &workspace).unwrap_err();
        assert!(why.contains("changed"), "{why}");
        settings.trust.change_verdict(&place, Verdict::Refused).unwrap();
        assert!(check(&settings, &workspace).unwrap_err().contains("did not allow"));
    }

    #[tokio::test]
    async fn p12_a_decision_covers_exactly_the_contents_of_its_question() {
        let (_directory, settings, workspace) = scene();
        let discovered = SourceDirectories::default().look(std::slice::from_ref(&workspace));
        let declared = declarations(&discovered, &settings);
        let permission = declared[0].permission.0.clone().unwrap();
        let Ok(Trust::Undecided(shown)) = permission.trust().await else {
            panic!("the user has not decided")
        };
        for part in ["`inn` runs `sh ./serve.sh --quiet`", "`file serve.sh`"] {
            assert!(shown.message.contains(part), "{part} in {}", shown.message);
        }
        // Swapped while the question was open.
        std::fs::write(workspace.join("serve.sh"), "rm -rf /").unwrap();
        let why = permission.decide(&shown, TrustDecision::Allow).await.unwrap_err();
        assert!(why.contains("changed while the question was open"), "{why}");
        assert!(permission.check().is_err());
        let Ok(Trust::Undecided(now)) = permission.trust().await else {
            panic!("the user has not decided")
        };
        assert_ne!(now.digest, shown.digest);
        permission.decide(&now, TrustDecision::Refuse).await.unwrap();
        assert_eq!(permission.trust().await, Ok(Trust::Refused));
        permission.decide(&now, TrustDecision::Allow).await.unwrap();
        assert_eq!(permission.trust().await, Ok(Trust::Allowed));
        assert_eq!(permission.check(), Ok(()));
    }

    #[tokio::test]
    async fn p12_decisions_are_noticed() {
        let (_directory, settings, workspace) = scene();
        let discovered = SourceDirectories::default().look(std::slice::from_ref(&workspace));
        let declared = declarations(&discovered, &settings);
        let permission = declared[0].permission.0.clone().unwrap();
        // The first check stores the question to the user, which is a change itself.
        while permission.check().is_err() {
            let place = workspace.display().to_string();
            settings.trust.change_verdict(&place, Verdict::Trusted).unwrap();
            permission.decided().await;
        }
    }

    #[tokio::test]
    async fn p12_servers_of_one_subject_share_changes_of_contents() {
        let (_directory, settings, workspace) = scene();
        let servers = r#"{ "mcpServers": { "one": { "command": "sh" }, "two": { "command": "sh" } } }"#;
        std::fs::write(workspace.join(".mcp.json"), servers).unwrap();
        let discovered = SourceDirectories::default().look(std::slice::from_ref(&workspace));
        let declared = declarations(&discovered, &settings);
        let [one, two] = [0, 1].map(|index: usize| declared[index].permission.0.clone().unwrap());
        assert!(one.check().is_err() && two.check().is_err());
        let place = workspace.display().to_string();
        settings.trust.change_verdict(&place, Verdict::Trusted).unwrap();
        assert_eq!(one.check(), Ok(()));
        two.decided().await;
        assert_eq!(two.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn p12_permission_is_withdrawn_only_by_a_decision_about_the_location() {
        let (_directory, settings, workspace) = scene();
        let discovered = SourceDirectories::default().look(std::slice::from_ref(&workspace));
        let declared = declarations(&discovered, &settings);
        let permission = declared[0].permission.0.clone().unwrap();
        let place = workspace.display().to_string();
        assert!(permission.check().is_err());
        settings.trust.change_verdict(&place, Verdict::Trusted).unwrap();
        assert_eq!(permission.check(), Ok(()));
        let withdrawn = permission.withdrawn();
        tokio::pin!(withdrawn);
        // Another place is decided about, and what runs is another file by now.
        let elsewhere = Subject {
            kind: TrustKind::McpServer,
            place: "/elsewhere".to_owned(),
        };
        let (trust, some) = (&settings.trust, Contents::default());
        trust.decide(&elsewhere, &some, Verdict::Trusted).unwrap();
        std::fs::write(workspace.join("serve.sh"), "exit 2").unwrap();
        assert!(permission.check().unwrap_err().contains("changed"));
        let a_while = LOOK_AGAIN * 5;
        assert!(tokio::time::timeout(a_while, &mut withdrawn).await.is_err());
        for take_back in [
            (|trust, place| trust.revoke(place)) as fn(&TrustFile, &str) -> std::io::Result<usize>,
            |trust, place| trust.change_verdict(place, Verdict::Refused),
        ] {
            settings.trust.change_verdict(&place, Verdict::Trusted).unwrap();
            take_back(&settings.trust, &place).unwrap();
            permission.withdrawn().await;
        }
        withdrawn.await;
    }

    #[test]
    fn p12_the_users_own_servers_need_no_permission() {
        let (directory, settings, _) = scene();
        let home = directory.path().join("home");
        let plugin = home.join("plugin");
        std::fs::create_dir_all(plugin.join(".claude-plugin")).unwrap();
        let manifest = r#"{ "name": "p", "mcpServers": { "inn": { "command": "./run", "cwd": "sub" } } }"#;
        std::fs::write(plugin.join(".claude-plugin/plugin.json"), manifest).unwrap();
        let directories = SourceDirectories {
            plugins: vec![plugin.clone()],
            ..SourceDirectories::default()
        };
        let declared = declarations(&directories.look(&[]), &settings);
        let server = &declared[0];
        assert!(server.is_trusted && server.permission.0.is_none());
        assert_eq!(server.about.plugin.as_deref(), Some("p"));
        let root = plugin.display().to_string();
        assert_eq!(server.variables["PLUGIN_ROOT"], root);
        assert_eq!(server.variables["CLAUDE_PLUGIN_ROOT"], root);
        assert!(PathBuf::from(&server.variables["PLUGIN_DATA"]).starts_with(&settings.data));
        let innkeeper_host::mcp::Transport::Stdio { command, cwd, .. } = &server.transport else {
            panic!()
        };
        assert_eq!(PathBuf::from(command), plugin.join("./run"));
        assert_eq!(cwd.as_deref(), Some(plugin.join("sub").as_path()));
    }

    #[test]
    fn p12_a_trusted_server_starts_the_trusted_file_and_no_namesake() {
        let (directory, ..) = scene();
        let other = directory.path().join("other");
        std::fs::create_dir_all(&other).unwrap();
        let workspace = directory.path().canonicalize().unwrap().join("w");
        let cwd_of = |origin: Origin, root: &Path| {
            let found = McpTransport::Stdio {
                command: "sh".to_owned(),
                args: vec!["./serve.sh".to_owned()],
                env: BTreeMap::new(),
                env_file: None,
                cwd: None,
            };
            match crate::servers::transport(&found, root, &origin, false) {
                innkeeper_host::mcp::Transport::Stdio { cwd, env, .. } => (cwd, env.len()),
                _ => panic!("a process"),
            }
        };
        let of_workspace = Origin::Workspace(workspace.as_path().into());
        assert_eq!(cwd_of(of_workspace, &workspace), (Some(workspace.clone()), 0));
        let client = || Origin::Client {
            client: innkeeper_host::ClientId::new("phone"),
            uri: "virtual://phone/p".to_owned(),
        };
        assert_eq!(
            cwd_of(client(), &workspace),
            (Some(workspace.clone()), 1),
            "it has that file"
        );
        assert_eq!(
            cwd_of(client(), &other),
            (None, 1),
            "it has not, so it means the session's"
        );
        assert_eq!(cwd_of(Origin::User, &workspace), (None, 0));
    }

    #[test]
    fn a_server_of_an_agent_plugin_runs_in_its_plugin_by_default() {
        let (directory, settings, _) = scene();
        let plugin = directory.path().join("plugin");
        std::fs::create_dir_all(&plugin).unwrap();
        let schema = |name: &str| format!("https://agent-plugins.org/schemas/1.0.0/{name}.schema.json");
        let manifest = json!({ "$schema": schema("plugin"), "name": "p", "version": "1.0.0", "description": "d" });
        std::fs::write(plugin.join("plugin.json"), manifest.to_string()).unwrap();
        let server = json!({ "type": "stdio", "command": "serve" });
        let servers = json!({ "$schema": schema("mcp"), "mcpServers": { "inn": server } });
        std::fs::write(plugin.join("mcp.json"), servers.to_string()).unwrap();
        let directories = SourceDirectories {
            plugins: vec![plugin.clone()],
            ..SourceDirectories::default()
        };
        let declared = declarations(&directories.look(&[]), &settings);
        let innkeeper_host::mcp::Transport::Stdio { cwd, .. } = &declared[0].transport else {
            panic!()
        };
        assert_eq!(cwd.as_deref(), Some(plugin.as_path()));
    }
}
