//! Builds the configuration of a declared server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_host::mcp::{Permission, Remote as DeclaredRemote, ServerDeclaration, Transport as Declared};
use tokio::sync::Semaphore;
use url::Url;

use super::RunnerSettings;
use crate::engine::ask::Root;
use crate::engine::auth::Renew;
use crate::engine::config::{Limits, Placeholders, Remote, ServerConfig, Stdio, Syntax, Transport, expand};
use crate::engine::pool::Sharing;
use crate::engine::server::{Offer, Permit, ServerEnv};

/// The largest environment file that is read.
const MAX_ENV_FILE: u64 = 1 << 20;
const ROOT: &str = "PLUGIN_ROOT";
const CLAUDE_ROOT: &str = "CLAUDE_PLUGIN_ROOT";
const DATA: &str = "PLUGIN_DATA";

/// Returns the configuration with all variables expanded. Errors are shown to users.
pub(super) async fn prepare(
    settings: RunnerSettings,
    declaration: Arc<ServerDeclaration>,
    roots: Vec<String>,
) -> Result<ServerConfig, String> {
    let preparing = tokio::task::spawn_blocking(move || config(&settings, &declaration, &roots));
    let failed = |_| "the host failed to prepare its start; its log says more".to_owned();
    preparing.await.unwrap_or_else(|error| Err(failed(error)))
}

fn config(
    settings: &RunnerSettings,
    declaration: &ServerDeclaration,
    roots: &[String],
) -> Result<ServerConfig, String> {
    let placeholders = placeholders(settings, declaration);
    let (transport, env_file) = transport(&declaration.transport);
    let limits = Limits {
        // The host shortens what is shown and keeps the whole, so nothing is left out here.
        shown_bytes: settings.limits.message_bytes,
        blob_bytes: settings.limits.message_bytes,
        ..settings.limits.clone()
    };
    let config = ServerConfig {
        limits,
        restart: settings.restart.clone(),
        ..ServerConfig::new(&declaration.about.name, transport)
    };
    let (mut config, missing) = expand(&config, &placeholders);
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(String::as_str).collect();
        tracing::info!(
            server = config.name,
            variables = names.join(", "),
            "variables of an MCP server stand for nothing"
        );
    }
    if let Transport::Stdio(stdio) = &mut config.transport {
        stdio.cwd = match (stdio.cwd.take(), first_of(roots)) {
            (Some(cwd), Some(first)) => Some(first.join(cwd)),
            (cwd, first) => cwd.or(first),
        };
        if env_file.is_some() {
            // The file was the last argument while variables were expanded.
            let file = stdio.args.pop().map(PathBuf::from).unwrap_or_default();
            let file = stdio.cwd.as_ref().map_or_else(|| file.clone(), |cwd| cwd.join(&file));
            for (name, value) in read_env_file(&file)? {
                stdio.env.entry(name).or_insert(Some(value));
            }
        }
        if let Some(data) = &placeholders.plugin_data {
            let problem = |error| format!("the directory for the data of its plugin cannot be made ({error})");
            std::fs::create_dir_all(data).map_err(problem)?;
        }
    }
    Ok(config)
}

fn placeholders(settings: &RunnerSettings, declaration: &ServerDeclaration) -> Placeholders {
    let mut variables = match declaration.is_trusted {
        true => settings.variables.clone(),
        // An untrusted declaration reads nothing of the host (T15).
        false => BTreeMap::new(),
    };
    variables.extend(declaration.variables.clone());
    let plugin_root = variables.remove(ROOT);
    let is_common = variables.remove(CLAUDE_ROOT).is_some() || plugin_root.is_none();
    Placeholders {
        // Only Agent Plugins lack the other name.
        syntax: if is_common { Syntax::Common } else { Syntax::AgentPlugin },
        plugin_root,
        plugin_data: variables.remove(DATA),
        variables,
    }
}

fn transport(declared: &Declared) -> (Transport, Option<&Path>) {
    let remote = |remote: &DeclaredRemote| Remote {
        url: remote.url.clone(),
        headers: remote.headers.clone(),
        oauth_client_id: remote.oauth_client_id.clone(),
    };
    match declared {
        Declared::Stdio {
            command,
            args,
            env,
            env_file,
            cwd,
        } => {
            let file = env_file.as_deref();
            let last = file.map(|file| file.to_string_lossy().into_owned());
            let stdio = Stdio {
                command: command.clone(),
                args: args.iter().cloned().chain(last).collect(),
                cwd: cwd.clone(),
                env: env.clone(),
            };
            (Transport::Stdio(stdio), file)
        }
        Declared::Http(address) => (Transport::Http(remote(address)), None),
        Declared::Sse(address) => (Transport::Sse(remote(address)), None),
    }
}

/// Reads lines of `NAME=value`, with or without quotes. Comments begin with `#`.
fn read_env_file(path: &Path) -> Result<Vec<(String, String)>, String> {
    let problem = |error: std::io::Error| {
        // Every subscriber reads the problem; the path is for the log.
        tracing::warn!(file = %path.display(), %error, "the environment file of an MCP server cannot be read");
        let name = path.file_name().unwrap_or_default().display();
        format!("the file with its environment, {name}, cannot be read ({error}): correct `envFile`")
    };
    let mut text = String::new();
    let file = File::open(path).map_err(problem)?;
    file.take(MAX_ENV_FILE).read_to_string(&mut text).map_err(problem)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| {
        let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
        let value = value.trim();
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            let inside = value.strip_prefix(quote)?;
            inside.strip_suffix(quote)
        });
        Some((name.trim().to_owned(), quoted.unwrap_or(value).to_owned()))
    });
    Ok(pairs.filter(|(name, _)| !name.is_empty()).collect())
}

/// Returns the working directory that a process starts in or below; nothing for an address. (Absolute paths are so rare
/// that their servers may be restarted without need.)
pub(super) fn runs_at(declaration: &ServerDeclaration, roots: &[String]) -> Option<PathBuf> {
    match declaration.transport {
        Declared::Stdio { .. } => first_of(roots),
        Declared::Http(_) | Declared::Sse(_) => None,
    }
}

fn first_of(roots: &[String]) -> Option<PathBuf> {
    roots.iter().find_map(|root| path_of(root))
}

/// Returns the sessions that share a server: those with the same working directories, unless it is isolated.
pub(super) fn sharing(
    settings: &RunnerSettings,
    declaration: &ServerDeclaration,
    session: &str,
    roots: &[String],
) -> Sharing {
    Sharing {
        // The host has one user: every client that may use a session acts for them.
        identity: String::new(),
        isolation: match declaration.is_isolated || settings.isolate {
            true => session.to_owned(),
            false => roots.join("\n"),
        },
    }
}

pub(super) fn server_env(
    settings: &RunnerSettings,
    roots: &[String],
    permission: &Permission,
    renew: Renew,
    starting: Arc<Semaphore>,
) -> ServerEnv {
    ServerEnv {
        environment: settings.environment.clone(),
        offer: Offer {
            // Users are asked first. Servers are told if the agent has no model.
            sampling: true,
            elicitation: true,
            apps: true,
        },
        asks: None,
        // Also when it is restarted after a crash: its files may have changed by then (P12).
        permit: permission
            .0
            .clone()
            .map(|permission| Permit::new(move || permission.check())),
        starting: Some(starting),
        renew: Some(renew),
        roots: self::roots(roots),
        after: Vec::new(),
    }
}

/// Converts the working directories of a session to roots.
pub(super) fn roots(uris: &[String]) -> Vec<Root> {
    let name = |uri: &str| {
        path_of(uri)?
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let root = |uri: &String| Root {
        uri: uri.clone(),
        name: name(uri),
    };
    uris.iter().map(root).collect()
}

fn path_of(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok()?.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use innkeeper_host::customizations::About;

    use super::*;

    fn declared(transport: Declared, variables: &[(&str, &str)], is_trusted: bool) -> ServerDeclaration {
        ServerDeclaration {
            about: About {
                name: "inn".to_owned(),
                ..About::default()
            },
            transport,
            variables: pairs(variables),
            is_trusted,
            ..ServerDeclaration::default()
        }
    }

    fn pairs(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn stdio(args: &[&str], env_file: Option<&str>) -> Declared {
        Declared::Stdio {
            command: "serve".to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::from_iter([("MINE".to_owned(), Some("1".to_owned()))]),
            env_file: env_file.map(PathBuf::from),
            cwd: None,
        }
    }

    fn started(settings: &RunnerSettings, declaration: &ServerDeclaration, roots: &[String]) -> Stdio {
        match config(settings, declaration, roots).expect("can be started").transport {
            Transport::Stdio(stdio) => stdio,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn t15_only_trusted_declarations_read_the_environment_of_the_host() {
        let settings = RunnerSettings {
            variables: pairs(&[("API_KEY", "secret")]),
            ..RunnerSettings::default()
        };
        let args = |is_trusted| {
            let declaration = declared(stdio(&["${API_KEY}"], None), &[], is_trusted);
            started(&settings, &declaration, &[]).args
        };
        assert_eq!(args(true), ["secret"]);
        assert_eq!(args(false), ["${API_KEY}"]);
    }

    #[test]
    fn environment_files_and_the_working_directory_are_applied() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = "# remark\nexport A=\"x y\"\nMINE=2\n\nB='z'\nodd line\n";
        std::fs::write(directory.path().join("my.env"), text).expect("written");
        let roots = [Url::from_file_path(directory.path()).expect("a path").to_string()];
        let declaration = declared(stdio(&["one"], Some("${NAME}.env")), &[("NAME", "my")], false);
        let stdio = started(&RunnerSettings::default(), &declaration, &roots);
        assert_eq!(stdio.args, ["one"]);
        assert_eq!(stdio.cwd.as_deref(), Some(directory.path()));
        let env: Vec<_> = stdio
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect();
        assert_eq!(env, [("A", Some("x y")), ("B", Some("z")), ("MINE", Some("1"))]);
        let gone = declared(self::stdio(&[], Some("gone.env")), &[], false);
        let problem = config(&RunnerSettings::default(), &gone, &roots).expect_err("no file");
        assert!(problem.contains("gone.env"), "{problem}");
    }

    #[test]
    fn agent_plugins_are_recognised_by_their_variables() {
        let data = tempfile::tempdir().expect("a directory");
        let data = data.path().join("data").display().to_string();
        let args = ["${PLUGIN_ROOT}", "${CLAUDE_PLUGIN_ROOT}", "${PLUGIN_DATA}"];
        let own = declared(stdio(&args, None), &[(ROOT, "/p"), (DATA, &data)], false);
        let others = declared(
            stdio(&args, None),
            &[(ROOT, "/p"), (CLAUDE_ROOT, "/p"), (DATA, &data)],
            false,
        );
        let settings = RunnerSettings::default();
        assert_eq!(
            started(&settings, &own, &[]).args,
            ["/p", "${CLAUDE_PLUGIN_ROOT}", &data]
        );
        assert_eq!(started(&settings, &others, &[]).args, ["/p", "/p", &data]);
        assert!(Path::new(&data).is_dir());
    }
}
