//! The settings of `serve`: defaults, then the configuration file, then flags.

use std::path::PathBuf;

use innkeeper_host::access::Scope;

use crate::address::ListenAddress;
use crate::cli::ServeArgs;
use crate::config::{ConfigFile, Retention};
use crate::origin::Origin;
use innkeeper_cli::discovery;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal;

/// All settings of `serve`, checked for unsafe combinations.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Address to listen on; none with `--stdio` alone.
    pub(crate) listen: Option<ListenAddress>,
    /// Unix socket to listen on.
    pub(crate) unix: Option<PathBuf>,
    /// Whether to serve standard input and output.
    pub(crate) stdio: bool,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The data directory again, if clients need the flag.
    pub(crate) unusual_data: Option<PathBuf>,
    /// The clients that may connect to the TCP port.
    pub(crate) admission: Admission,
    /// Files with further tokens of narrower scope, created when missing.
    pub(crate) narrow_tokens: Vec<(Scope, PathBuf)>,
    /// Files with the keys of model providers.
    pub(crate) key_files: Vec<PathBuf>,
    /// Files with environments of the MCP servers of the configuration.
    pub(crate) env_files: Vec<PathBuf>,
    /// The configuration file, if there is one.
    pub(crate) config_file: Option<PathBuf>,
    /// Origins of browser clients to accept.
    pub(crate) allow_origin: Vec<Origin>,
    /// Further names under which clients reach the host.
    pub(crate) allow_host: Vec<String>,
    /// Whether to print the line of JSON.
    pub(crate) json: bool,
    /// Whether to serve persisted sessions read-only.
    pub(crate) read_only: bool,
    retention: Retention,
}

/// The clients that may connect to the TCP port.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Clients with the token in the data directory's token file.
    DefaultToken,
    /// Clients with the token in this file.
    Token(PathBuf),
    /// Every process on this machine.
    Everyone,
}

impl Settings {
    /// Combines flags and file, and rejects settings that would open the host to other machines without a token.
    pub(crate) fn resolve(args: ServeArgs, config: ConfigFile) -> Result<Self, Failure> {
        let providers = config.models.providers.iter();
        let key_files = providers.filter_map(|provider| provider.key_file.clone()).collect();
        let env_files = config.env_files();
        // A host on its own pipes listens nowhere else, unless a flag says so.
        let (listen, unix) = if args.stdio {
            (args.listen, args.unix)
        } else {
            let listen = args.listen.or(config.listen).unwrap_or(ListenAddress::DEFAULT);
            (Some(listen), args.unix.or(config.unix))
        };
        let admission = if args.no_auth {
            Admission::Everyone
        } else {
            args.token_file
                .or(config.token_file)
                .map_or(Admission::DefaultToken, Admission::Token)
        };
        if let Some(listen) = listen.filter(|listen| !listen.is_loopback()) {
            check_exposure(listen, &admission)?;
        }
        let default = discovery::default_data_dir();
        let (data, unusual_data) = match args.common.data.or(config.data) {
            Some(data) => {
                let usual = default.is_ok_and(|default| default == data);
                (data.clone(), (!usual).then_some(data))
            }
            None => (default?, None),
        };
        let narrow_tokens = [
            (Scope::Drive, config.drive_token_file),
            (Scope::View, config.view_token_file),
        ]
        .into_iter()
        .filter_map(|(scope, file)| Some((scope, file?)))
        .collect();
        let mut allow_origin = config.allow_origin;
        allow_origin.extend(args.allow_origin);
        let mut allow_host = config.allow_host;
        allow_host.extend(args.allow_host);
        Ok(Self {
            listen,
            unix,
            stdio: args.stdio,
            data,
            unusual_data,
            admission,
            narrow_tokens,
            key_files,
            env_files,
            config_file: config.file,
            allow_origin,
            allow_host,
            json: args.json,
            read_only: args.read_only,
            retention: config.retention,
        })
    }

    /// Returns the retention settings, if the host applies them by itself.
    pub(crate) fn retention(&self) -> Option<Retention> {
        let Retention { enabled, .. } = self.retention;
        (enabled && self.retention.has_limits() && !self.read_only).then_some(self.retention)
    }
}

fn check_exposure(listen: ListenAddress, admission: &Admission) -> Result<(), Failure> {
    let address = listen.socket_addr();
    if *admission == Admission::Everyone {
        return Err(Failure::new(
            Kind::AccessRefused,
            format!(
                "refusing to listen on {address} without a token, because anyone who can reach it could use this \
                 machine"
            ),
        )
        .hint("leave --no-auth out, or listen on a loopback address such as 127.0.0.1:4747"));
    }
    terminal::warn(&format!(
        "{address} can be reached from other machines and the connection is not encrypted; put a TLS proxy or an SSH \
         tunnel in front of it"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn resolve(flags: &[&str], config: ConfigFile) -> Result<Settings, Failure> {
        let line = ["innkeeper", "--data", "/d"].iter().chain(flags);
        Settings::resolve(Cli::try_parse_from(line).unwrap().serve, config)
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = || ConfigFile {
            listen: ":1".parse().ok(),
            token_file: Some(PathBuf::from("/f")),
            allow_origin: vec!["https://a.test".parse().unwrap()],
            ..ConfigFile::default()
        };
        let settings = resolve(&[], ConfigFile::default()).unwrap();
        assert_eq!(settings.listen, Some(ListenAddress::DEFAULT));
        assert_eq!(settings.admission, Admission::DefaultToken);
        let settings = resolve(&[], file()).unwrap();
        assert_eq!(settings.listen, ":1".parse().ok());
        assert_eq!(settings.admission, Admission::Token("/f".into()));
        let flags = ["--listen", ":2", "--no-auth", "--allow-origin", "https://b.test"];
        let settings = resolve(&flags, file()).unwrap();
        assert_eq!(settings.listen, ":2".parse().ok());
        assert_eq!(settings.admission, Admission::Everyone);
        let origins: Vec<&str> = settings.allow_origin.iter().map(Origin::as_str).collect();
        assert_eq!(origins, ["https://a.test", "https://b.test"]);
    }

    #[test]
    fn stdio_opens_no_port_unless_a_flag_names_one() {
        let file = || ConfigFile {
            listen: ":1".parse().ok(),
            ..ConfigFile::default()
        };
        assert_eq!(resolve(&["--stdio"], file()).unwrap().listen, None);
        let settings = resolve(&["--stdio", "--listen", ":2"], file()).unwrap();
        assert_eq!(settings.listen, ":2".parse().ok());
    }

    #[test]
    fn no_auth_is_for_loopback_only() {
        for address in ["0.0.0.0:0", "[::]:0", "192.168.0.1:0", "[::ffff:1.2.3.4]:0"] {
            let flags = ["--no-auth", "--listen", address];
            let failure = resolve(&flags, ConfigFile::default()).unwrap_err();
            assert_eq!(failure.kind(), Kind::AccessRefused, "{address}");
            assert!(resolve(&["--listen", address], ConfigFile::default()).is_ok());
        }
        for address in ["127.0.0.1:0", "[::1]:0", "127.0.0.2:0"] {
            let flags = ["--no-auth", "--listen", address];
            assert!(resolve(&flags, ConfigFile::default()).is_ok(), "{address}");
        }
    }
}
