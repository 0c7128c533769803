//! The built-in coding agents: one for every discovered or configured model provider.

use std::time::Duration;

use innkeeper_agents::model::client::{Api, Endpoint};
use innkeeper_agents::model::{Key, Model, ModelAgent, ModelAgentSettings};
use innkeeper_agents::tools::{EnvironmentRules, FetchSettings, ToolSettings, standard_tools};
use innkeeper_host::HostHandle;
use innkeeper_host::agent::Secret;

use crate::config::{ApiName, ModelConfig, Models, ProviderConfig};
use innkeeper_cli::failure::{Failure, Kind};

/// Timeout of listing models.
const LIST_TIME: Duration = Duration::from_secs(20);

/// A well-known provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WellKnown {
    id: &'static str,
    name: &'static str,
    api: Api,
    /// The API of servers that replace it.
    api_elsewhere: Api,
    base_url: &'static str,
    /// The environment variable with another address.
    base_url_env: &'static str,
    pub(crate) key_env: &'static str,
    models: &'static [&'static str],
}

/// The providers that are offered without configuration.
const WELL_KNOWN: [WellKnown; 2] = [
    WellKnown {
        id: "anthropic",
        name: "Anthropic",
        api: Api::Messages,
        api_elsewhere: Api::Messages,
        base_url: "https://api.anthropic.com/v1",
        base_url_env: "ANTHROPIC_BASE_URL",
        key_env: "ANTHROPIC_API_KEY",
        models: &["claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5"],
    },
    WellKnown {
        id: "openai",
        name: "OpenAI",
        api: Api::Responses,
        api_elsewhere: Api::ChatCompletions,
        base_url: "https://api.openai.com/v1",
        base_url_env: "OPENAI_BASE_URL",
        key_env: "OPENAI_API_KEY",
        models: &["gpt-5.2", "gpt-5.2-codex", "gpt-5-mini"],
    },
];

/// Returns a well-known provider.
pub(crate) fn well_known(id: &str) -> Option<WellKnown> {
    WELL_KNOWN.into_iter().find(|known| known.id == id)
}

/// Looks up an environment variable.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the environment of the process; empty values count as absent.
pub(crate) fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// An agent, and its report for `doctor`.
pub(crate) struct Found {
    pub(crate) id: String,
    /// The source of its key, for display.
    pub(crate) key: String,
    pub(crate) is_ready: bool,
    /// The problem that prevents its use, for display.
    pub(crate) trouble: Option<String>,
    /// Whether its address is valid. Requests never go to another address instead.
    has_address: bool,
    settings: ModelAgentSettings,
}

/// Returns the agents: those of the file, then well-known ones that it does not name.
pub(crate) fn find(models: &Models, environment: Environment<'_>) -> Vec<Found> {
    find_with(models, environment, None)
}

/// Returns the agents, with the umask for files that their tools create.
pub(crate) fn find_with(models: &Models, environment: Environment<'_>, umask: Option<u32>) -> Vec<Found> {
    let mut named: Vec<ProviderConfig> = models.providers.clone();
    if models.discover {
        for known in WELL_KNOWN {
            if !named.iter().any(|provider| provider.id == known.id) {
                named.push(ProviderConfig {
                    id: known.id.to_owned(),
                    name: None,
                    api: None,
                    base_url: None,
                    key_env: None,
                    key_file: None,
                    keyless: false,
                    headers: std::collections::BTreeMap::new(),
                    models: Vec::new(),
                });
            }
        }
    }
    let tools = standard_tools(tool_settings(models, umask));
    let mut found: Vec<Found> = named
        .iter()
        .filter_map(|provider| {
            let mut found = one(provider, environment)?;
            found.settings.tools.clone_from(&tools);
            found.settings.generate_titles = models.titles;
            found.settings.max_rounds = models.rounds_per_turn;
            found.settings.prompt = models.prompt.clone().into_iter().collect();
            Some(found)
        })
        .collect();
    // The default agent should be usable at once.
    found.sort_by_key(|found| !found.is_ready);
    found
}

/// Returns the settings of the agents' tools. Keys of providers belong to the host: no command sees them, and no model
/// reads their files without approval.
fn tool_settings(models: &Models, umask: Option<u32>) -> ToolSettings {
    let providers = || models.providers.iter();
    let known = WELL_KNOWN.iter().map(|known| known.key_env.to_owned());
    ToolSettings {
        environment: EnvironmentRules {
            pass: models.pass_env.clone(),
            hide: providers()
                .filter_map(|provider| provider.key_env.clone())
                .chain(known)
                .collect(),
        },
        secret_files: providers().filter_map(|provider| provider.key_file.clone()).collect(),
        umask,
        fetch: models.fetch.then(FetchSettings::default),
        ..ToolSettings::default()
    }
}

fn one(provider: &ProviderConfig, environment: Environment<'_>) -> Option<Found> {
    let known = well_known(&provider.id);
    let official = known.and_then(|known| url::Url::parse(known.base_url).ok());
    let mut no_address = None;
    let base_url = match (&provider.base_url, known) {
        (Some(url), _) => url.clone(),
        (None, Some(known)) => match environment(known.base_url_env).map(|text| address(known, &text)) {
            Some(Ok(elsewhere)) => elsewhere,
            Some(Err(problem)) => {
                no_address = Some(problem);
                official.clone()?
            }
            None => official.clone()?,
        },
        (None, None) => return None,
    };
    let is_official = official.is_some_and(|official| official.host() == base_url.host());
    let api = match (provider.api, known) {
        (Some(ApiName::ChatCompletions), _) | (None, None) => Api::ChatCompletions,
        (Some(ApiName::Responses), _) => Api::Responses,
        (Some(ApiName::Messages), _) => Api::Messages,
        (None, Some(known)) if is_official => known.api,
        (None, Some(known)) => known.api_elsewhere,
    };
    let name = provider.name.clone();
    let name = name.unwrap_or_else(|| known.map_or(provider.id.as_str(), |known| known.name).to_owned());
    let (key, mut told) = key_of(provider, known, environment);
    let no_key = provider.key_file.as_deref().and_then(key_file_problem);
    if let Some(problem) = &no_key {
        told.clone_from(problem);
    }
    let mut endpoint = Endpoint::new(api, base_url);
    endpoint.headers = provider.headers.clone().into_iter().collect();
    let has_address = no_address.is_none();
    let trouble = no_address.or(no_key);
    let is_ready = trouble.is_none() && !matches!(key, Key::Missing { .. });
    let mut settings = ModelAgentSettings::new(&provider.id, &name, endpoint, key);
    settings.models = match (provider.models.as_slice(), known) {
        // A server that replaces a provider has its own models, and lists them.
        ([], Some(known)) if api == known.api => known.models.iter().map(|id| thinking(id)).collect(),
        (models, _) => models.iter().map(model).collect(),
    };
    Some(Found {
        id: provider.id.clone(),
        key: told,
        is_ready,
        trouble,
        has_address,
        settings,
    })
}

/// Reads an address from the environment. `localhost:8080/v1` would parse with the scheme `localhost`. An invalid
/// address must not fall back to the official one, because the key would go there.
fn address(known: WellKnown, text: &str) -> Result<url::Url, String> {
    let variable = known.base_url_env;
    let url = url::Url::parse(text.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    let mut url = url.ok_or_else(|| {
        format!("${variable} is not an address that begins with http:// or https://; correct it or unset it")
    })?;
    // Anthropic's own tools add the version themselves, so add it here too.
    let has_version = url.path().trim_end_matches('/').ends_with("/v1");
    if known.api == Api::Messages
        && !has_version
        && let Ok(mut path) = url.path_segments_mut()
    {
        path.pop_if_empty().push("v1");
    }
    Ok(url)
}

/// Returns the problem of a key file. It may be created later, because it is read for every turn.
fn key_file_problem(path: &std::path::Path) -> Option<String> {
    let what = match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() > 0 => return None,
        Ok(meta) if meta.is_file() => "is empty".to_owned(),
        Ok(_) => "is not a file".to_owned(),
        Err(error) => format!("cannot be read ({error})"),
    };
    Some(format!(
        "the key file {} {what}; put the key alone into it",
        path.display()
    ))
}

/// All models of the well-known providers reason and have large context windows.
fn thinking(id: &str) -> Model {
    Model {
        context_window: 200_000,
        accepts_effort: true,
        ..Model::new(id)
    }
}

fn model(config: &ModelConfig) -> Model {
    let unknown = Model::new(&config.id);
    Model {
        name: config.name.clone().unwrap_or_else(|| config.id.clone()),
        context_window: config.context_window.unwrap_or(unknown.context_window),
        max_output_tokens: config.max_output_tokens,
        accepts_images: config.vision.unwrap_or(unknown.accepts_images),
        accepts_effort: config.effort,
        ..unknown
    }
}

fn key_of(provider: &ProviderConfig, known: Option<WellKnown>, environment: Environment<'_>) -> (Key, String) {
    if let Some(path) = &provider.key_file {
        return (Key::File(path.clone()), format!("the key is in {}", path.display()));
    }
    let variable = provider.key_env.as_deref().or_else(|| known.map(|known| known.key_env));
    if let Some((variable, key)) = variable.and_then(|name| Some((name, environment(name)?))) {
        return (
            Key::Known(Secret::new(key.trim())),
            format!("the key is in ${variable}"),
        );
    }
    if provider.keyless {
        return (Key::NotNeeded, "it needs no key".to_owned());
    }
    let how = match variable {
        Some(variable) => format!("set {variable} and start the host again, or sign in with a key from your client"),
        None => "name `key_env` or `key_file` in the configuration, or sign in with a key from your client".to_owned(),
    };
    (Key::Missing { how: how.clone() }, format!("there is no key yet: {how}"))
}

/// Creates the agents.
pub(crate) fn agents(found: Vec<Found>) -> Result<Vec<ModelAgent>, Failure> {
    let agent = |found: Found| {
        let id = found.id;
        ModelAgent::new(found.settings).map_err(|error| {
            Failure::new(
                Kind::Config,
                format!("the model provider `{id}` cannot be used: {error}"),
            )
        })
    };
    let usable = found.into_iter().filter(|found| {
        if let Some(trouble) = &found.trouble {
            tracing::warn!("the model provider `{}` is not ready: {trouble}", found.id);
        }
        found.has_address
    });
    usable.map(agent).collect()
}

/// Lists the models of the providers and offers them. A provider that does not respond is tried again at the next
/// start.
pub(crate) async fn list(agents: Vec<ModelAgent>, host: HostHandle) {
    for agent in agents.into_iter().filter(ModelAgent::is_ready) {
        match tokio::time::timeout(LIST_TIME, agent.list_models()).await {
            Ok(Ok(_)) => host.refresh_agents().await,
            Ok(Err(error)) => tracing::info!(%error, "a provider does not list its models"),
            Err(_) => tracing::info!("a provider took too long to list its models"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn agents_without_a_key_say_how_to_set_one() {
        let found = find(&Models::default(), &nothing);
        let ids: Vec<&str> = found.iter().map(|found| found.id.as_str()).collect();
        assert_eq!(ids, ["anthropic", "openai"]);
        assert!(found.iter().all(|found| !found.is_ready));
        assert!(found[0].key.contains("ANTHROPIC_API_KEY"), "{}", found[0].key);
    }

    #[test]
    fn a_key_in_the_environment_makes_an_agent_ready_and_puts_it_first() {
        let environment = |name: &str| (name == "OPENAI_API_KEY").then(|| " sk-test \n".to_owned());
        let found = find(&Models::default(), &environment);
        assert_eq!((found[0].id.as_str(), found[0].is_ready), ("openai", true));
        assert!(!found[0].key.contains("sk-test"));
        assert!(matches!(&found[0].settings.key, Key::Known(key) if key.reveal() == "sk-test"));
    }

    #[test]
    fn api_keys_are_hidden_from_tools() {
        let models: Models = toml::from_str(
            "[[providers]]\nid = \"a\"\nbase_url = \"http://127.0.0.1:9/v1\"\nkey_env = \"GATEWAY\"\n\
             [[providers]]\nid = \"openai\"\nkey_file = \"/etc/gateway.txt\"\n",
        )
        .unwrap();
        let settings = tool_settings(&models, Some(0o022));
        assert!(settings.environment.hide.contains(&"GATEWAY".to_owned()));
        assert_eq!(settings.secret_files, [std::path::PathBuf::from("/etc/gateway.txt")]);
        assert_eq!(settings.umask, Some(0o022));
    }

    #[test]
    fn the_file_adds_and_replaces_providers() {
        let key = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(key.path(), "sk-test").unwrap();
        let models = format!(
            "discover = true\n[[providers]]\nid = \"local\"\nbase_url = \"http://127.0.0.1:9/v1\"\nkeyless = true\n\
             models = [{{ id = \"small\", context_window = 8000 }}]\n[[providers]]\nid = \"openai\"\nkey_file = {:?}\n",
            key.path()
        );
        let models: Models = toml::from_str(&models).unwrap();
        let found = find(&models, &nothing);
        let ready: Vec<(&str, bool)> = found.iter().map(|found| (found.id.as_str(), found.is_ready)).collect();
        assert_eq!(ready, [("local", true), ("openai", true), ("anthropic", false)]);
        assert_eq!(found[0].settings.models[0].context_window, 8000);
        assert_eq!(found[0].settings.endpoint.api, Api::ChatCompletions);
        assert_eq!(found[1].settings.endpoint.api, Api::Responses);
    }

    #[test]
    fn an_address_in_the_environment_is_another_server_with_models_of_its_own() {
        let with = |value: &'static str| {
            let environment = move |name: &str| match name {
                "OPENAI_BASE_URL" | "ANTHROPIC_BASE_URL" => Some(value.to_owned()),
                _ => Some("sk-test".to_owned()),
            };
            find(&Models::default(), &environment)
        };
        let found = with("http://127.0.0.1:8080/v1");
        let openai = found.iter().find(|found| found.id == "openai").unwrap();
        assert_eq!(openai.settings.endpoint.api, Api::ChatCompletions);
        assert!(openai.settings.models.is_empty() && openai.is_ready);
        let anthropic = with("https://gate.example").remove(0).settings;
        assert_eq!(anthropic.endpoint.base_url.as_str(), "https://gate.example/v1");
        assert_eq!((anthropic.endpoint.api, anthropic.models.len()), (Api::Messages, 3));
        // Without a valid address the key is not sent.
        for wrong in ["localhost:8080/v1", "not an address"] {
            let found = with(wrong);
            assert!(
                found.iter().all(|found| !found.is_ready && found.trouble.is_some()),
                "{wrong}"
            );
            assert!(agents(found).unwrap().is_empty(), "{wrong}");
        }
    }

    #[test]
    fn the_api_of_a_well_known_provider_can_be_chosen() {
        let models = "[[providers]]\nid = \"openai\"\napi = \"chat-completions\"\n";
        let found = find(&toml::from_str(models).unwrap(), &nothing);
        let openai = found.iter().find(|found| found.id == "openai").unwrap();
        assert_eq!(openai.settings.endpoint.api, Api::ChatCompletions);
    }

    #[test]
    fn a_key_file_that_is_not_there_is_no_key() {
        let home = tempfile::tempdir().unwrap();
        let models = format!(
            "[[providers]]\nid = \"openai\"\nkey_file = {:?}\n",
            home.path().join("key")
        );
        let found = find(&toml::from_str(&models).unwrap(), &nothing);
        let openai = found.iter().find(|found| found.id == "openai").unwrap();
        assert!(!openai.is_ready);
        assert!(
            openai
                .trouble
                .as_ref()
                .is_some_and(|trouble| trouble.contains("cannot be read"))
        );
        // The key may be added later, so the agent exists.
        assert_eq!(agents(found).unwrap().len(), 2);
    }
}
