//! The configuration file `innkeeper.toml`. Defaults lose against the file, and the file against flags.

mod unknown_keys;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use serde::Deserialize;

use crate::address::ListenAddress;
use crate::cli::CommonArgs;
use crate::failure::{Failure, Kind};
use crate::text;

/// What `innkeeper.toml` can say. Relative paths in it start from the file's own directory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigFile {
    /// Address to listen on, like `--listen`.
    pub(crate) listen: Option<ListenAddress>,
    /// Unix socket to listen on, like `--unix`.
    pub(crate) unix: Option<PathBuf>,
    /// Data directory, like `--data`.
    pub(crate) data: Option<PathBuf>,
    /// Token file, like `--token-file`.
    pub(crate) token_file: Option<PathBuf>,
    /// Origins of browser clients, like `--allow-origin`; flags add to them.
    pub(crate) allow_origin: Vec<String>,
    /// What to log, like `--log`.
    pub(crate) log: Option<String>,
}

impl ConfigFile {
    /// Reads the file named by `--config`, or the platform's default one if it exists, and warns about unknown keys.
    pub(crate) fn load(args: &CommonArgs) -> Result<Self, Failure> {
        let (path, text) = match &args.config {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
                (path.clone(), text)
            }
            None => {
                let Some(path) = default_path() else {
                    return Ok(Self::default());
                };
                match fs::read_to_string(&path) {
                    Ok(text) => (path, text),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Ok(Self::default());
                    }
                    Err(error) => return Err(unreadable(&path, &error)),
                }
            }
        };
        let (config, warnings) = Self::parse(&path, &text)?;
        for warning in warnings {
            text::warn(&warning);
        }
        Ok(config)
    }

    fn parse(path: &Path, text: &str) -> Result<(Self, Vec<String>), Failure> {
        let broken = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            // The library's message can span lines; ours is one sentence.
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            Failure::new(Kind::Config, format!("{}:{line}: {message}", path.display()))
                .hint("correct that line, or start with another file by --config FILE")
        };
        let table = toml::de::DeTable::parse(text).map_err(broken)?;
        let warnings = unknown_keys::find(table.get_ref())
            .into_iter()
            .map(|unknown| {
                let line = line_of(text, unknown.position);
                format!("{}:{line}: {}", path.display(), unknown.describe())
            })
            .collect();
        let mut config: Self = toml::from_str(text).map_err(broken)?;
        config.resolve_paths(path);
        Ok((config, warnings))
    }

    fn resolve_paths(&mut self, file: &Path) {
        let base = file.parent().unwrap_or_else(|| Path::new(""));
        for path in [&mut self.unix, &mut self.data, &mut self.token_file]
            .into_iter()
            .flatten()
        {
            *path = base.join(&*path);
        }
    }
}

fn default_path() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.config_dir().join("innkeeper").join("innkeeper.toml"))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Kind::Config,
        format!("the configuration file {} cannot be read ({error})", path.display()),
    )
    .hint("correct its path or permissions, or leave --config out")
}

fn line_of(text: &str, position: usize) -> usize {
    let before = text.as_bytes().iter().take(position);
    1 + before.filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(ConfigFile, Vec<String>), Failure> {
        ConfigFile::parse(Path::new("/etc/innkeeper.toml"), text)
    }

    #[test]
    fn reads_every_key() {
        let (config, warnings) = parse(
            "listen = \":0\"\nunix = \"s/sock\"\ndata = \"/data\"\ntoken_file = \"token\"\n\
             allow_origin = [\"https://a.test\"]\nlog = \"debug\"\n",
        )
        .unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(config.listen, ":0".parse().ok());
        assert_eq!(config.unix, Some(PathBuf::from("/etc/s/sock")));
        assert_eq!(config.data, Some(PathBuf::from("/data")));
        assert_eq!(config.token_file, Some(PathBuf::from("/etc/token")));
        assert_eq!(config.allow_origin, ["https://a.test"]);
        assert_eq!(config.log.as_deref(), Some("debug"));
    }

    #[test]
    fn broken_syntax_names_file_and_line() {
        let failure = parse("log = \"info\"\nlisten = = 3\n").unwrap_err();
        assert_eq!(failure.kind(), Kind::Config);
        let told = failure.to_string();
        assert!(told.starts_with("/etc/innkeeper.toml:2: "), "{told}");
        assert!(!told.contains('\n'), "{told}");
    }

    #[test]
    fn wrong_value_names_file_and_line() {
        let told = parse("\n\nlisten = \"nonsense\"\n").unwrap_err().to_string();
        assert!(told.starts_with("/etc/innkeeper.toml:3: "), "{told}");
        assert!(told.contains("127.0.0.1:4747"), "{told}");
    }

    #[test]
    fn unknown_keys_are_warned_about_with_a_suggestion() {
        let (_, warnings) = parse("lisen = \":0\"\n\n[zebra]\nx = 1\n").unwrap();
        assert_eq!(
            warnings,
            [
                "/etc/innkeeper.toml:1: unknown key `lisen` is ignored; did you mean `listen`?",
                "/etc/innkeeper.toml:3: unknown key `zebra` is ignored; the keys here are listen, unix, data, \
                 token_file, allow_origin and log",
            ]
        );
    }
}
