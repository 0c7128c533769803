//! Discovered containers as types of the protocol.
//!
//! Entries have no enablement: the core adds the users' decisions. Commands and settings of hooks and MCP servers are
//! left out, because they can contain secrets (CUS-26, CUS-27).

use ahp_types::state::{
    AgentCustomization, ChildCustomization, Customization, CustomizationDegradedState, CustomizationErrorState,
    CustomizationLoadState, CustomizationLoadedState, CustomizationLoadingState, CustomizationType,
    DirectoryCustomization, HookCustomization, McpServerCustomization, McpServerState, McpServerStoppedState,
    PluginCustomization, PromptCustomization, RuleCustomization, SkillCustomization,
};
use innkeeper_host::contents::content;
use innkeeper_host::customizations::{OFF_AT_FIRST, PLUGIN_NAME};
use innkeeper_plugins::{Child, Component, Container, Directory, HookFile, Icon, Kind, LoadState, Plugin, TextRange};
use serde_json::{Map, Value, json};

/// In `_meta`: the description of a plugin or a server, for which the protocol has no field.
pub const DESCRIPTION: &str = "innkeeper.description";
/// In `_meta`: when the hooks of a file run.
pub const HOOKS: &str = "innkeeper.hooks";

/// Maximum number of hooks of a file that are shown.
const MAX_HOOKS: usize = 64;

type Meta = Map<String, Value>;

/// A top-level entry.
pub(crate) fn entry(entry: &Container) -> Customization {
    match entry {
        Container::Plugin(plugin) => Customization::Plugin(self::plugin(plugin)),
        Container::Directory(directory) => Customization::Directory(self::directory(directory)),
        Container::McpServer(server) => Customization::McpServer(Box::new(mcp_server(server))),
    }
}

/// Returns an entry without its children, as agents list it (CUS-21).
pub(crate) fn without_children(entry: &Customization) -> Customization {
    match entry {
        Customization::Plugin(plugin) => Customization::Plugin(PluginCustomization {
            children: None,
            ..plugin.clone()
        }),
        Customization::Directory(directory) => Customization::Directory(DirectoryCustomization {
            children: None,
            ..directory.clone()
        }),
        other => other.clone(),
    }
}

fn plugin(plugin: &Plugin) -> PluginCustomization {
    let mut meta = Meta::new();
    if plugin.display_name.is_some() {
        meta.insert(PLUGIN_NAME.to_owned(), json!(plugin.name));
    }
    if let Some(description) = &plugin.description {
        meta.insert(DESCRIPTION.to_owned(), json!(description));
    }
    PluginCustomization {
        id: plugin.id.clone(),
        uri: plugin.uri.clone(),
        name: plugin.display_name.clone().unwrap_or_else(|| plugin.name.clone()),
        icons: icons(&plugin.icons),
        range: None,
        meta: some(meta),
        client_id: plugin.client_id.clone(),
        load: Some(load(&plugin.load)),
        children: plugin.children.as_deref().map(children),
        enablement: None,
        version: plugin.version.clone(),
    }
}

fn directory(directory: &Directory) -> DirectoryCustomization {
    DirectoryCustomization {
        id: directory.id.clone(),
        uri: directory.uri.clone(),
        name: directory.name.clone(),
        icons: None,
        range: None,
        meta: None,
        client_id: None,
        load: Some(load(&directory.load)),
        children: directory.children.as_deref().map(children),
        enabled: true,
        contents: kind(directory.contents),
        // A saved hook would run a command, which takes more rights than a client has (CUS-28).
        writable: directory.writable && directory.contents != Kind::Hook,
    }
}

fn children(children: &[Child]) -> Vec<ChildCustomization> {
    children.iter().map(child).collect()
}

fn child(child: &Child) -> ChildCustomization {
    let id = child.id.clone();
    let uri = child.uri.clone();
    let name = child.name.clone();
    let icons = icons(&child.icons);
    let range = child.range.map(range);
    let description = child.description.clone();
    match &child.component {
        Component::Agent(agent) => ChildCustomization::Agent(AgentCustomization {
            id,
            uri,
            name,
            icons,
            range,
            meta: None,
            enabled: None,
            description,
            model: agent.model.clone(),
            // An empty list would mean no tools at all, so none is sent (CUS-25).
            tools: (!agent.tools.is_empty()).then(|| agent.tools.clone()),
            disable_model_invocation: agent.disable_model_invocation.then_some(true),
            disable_user_invocation: agent.disable_user_invocation.then_some(true),
        }),
        Component::Skill(skill) => ChildCustomization::Skill(SkillCustomization {
            id,
            uri,
            name,
            icons,
            range,
            meta: None,
            enabled: None,
            description,
            disable_model_invocation: skill.disable_model_invocation.then_some(true),
            disable_user_invocation: skill.disable_user_invocation.then_some(true),
        }),
        Component::Prompt(_) => ChildCustomization::Prompt(PromptCustomization {
            id,
            uri,
            name,
            icons,
            range,
            meta: None,
            enabled: None,
            description,
        }),
        Component::Rule(rule) => ChildCustomization::Rule(RuleCustomization {
            id,
            uri,
            name,
            icons,
            range,
            meta: None,
            enabled: None,
            description,
            always_apply: rule.always_apply,
            globs: (!rule.globs.is_empty()).then(|| rule.globs.clone()),
        }),
        Component::Hook(hooks) => ChildCustomization::Hook(HookCustomization {
            id,
            uri,
            name,
            icons,
            range,
            meta: some(hooks_meta(hooks)),
            enabled: None,
        }),
        Component::McpServer(_) => ChildCustomization::McpServer(Box::new(mcp_server(child))),
    }
}

/// The events of the hooks, without their commands.
fn hooks_meta(file: &HookFile) -> Meta {
    let told = file.hooks.iter().take(MAX_HOOKS).map(|hook| {
        let mut told = Meta::from_iter([("event".to_owned(), json!(hook.event.as_str()))]);
        if let Some(matcher) = &hook.matcher {
            told.insert("matcher".to_owned(), json!(matcher));
        }
        Value::Object(told)
    });
    let hooks: Vec<Value> = told.collect();
    Meta::from_iter([(HOOKS.to_owned(), Value::Array(hooks))])
}

fn mcp_server(server: &Child) -> McpServerCustomization {
    let mut meta = Meta::new();
    if let Some(description) = &server.description {
        meta.insert(DESCRIPTION.to_owned(), json!(description));
    }
    if let Component::McpServer(found) = &server.component
        && found.treatment.is_off_at_first
    {
        meta.insert(OFF_AT_FIRST.to_owned(), json!(true));
    }
    McpServerCustomization {
        id: server.id.clone(),
        uri: server.uri.clone(),
        name: server.name.clone(),
        icons: icons(&server.icons),
        range: server.range.map(range),
        meta: some(meta),
        enablement: None,
        state: McpServerState::Stopped(McpServerStoppedState {}),
        channel: None,
        mcp_app: None,
    }
}

fn load(state: &LoadState) -> CustomizationLoadState {
    match state {
        LoadState::Loading => CustomizationLoadState::Loading(CustomizationLoadingState {}),
        LoadState::Loaded => CustomizationLoadState::Loaded(CustomizationLoadedState {}),
        LoadState::Degraded { message } => {
            let message = message.clone();
            CustomizationLoadState::Degraded(CustomizationDegradedState { message })
        }
        LoadState::Error { message } => {
            let message = message.clone();
            CustomizationLoadState::Error(CustomizationErrorState { message })
        }
    }
}

fn kind(kind: Kind) -> CustomizationType {
    match kind {
        Kind::Agent => CustomizationType::Agent,
        Kind::Skill => CustomizationType::Skill,
        Kind::Prompt => CustomizationType::Prompt,
        Kind::Rule => CustomizationType::Rule,
        Kind::Hook => CustomizationType::Hook,
        Kind::McpServer => CustomizationType::McpServer,
    }
}

fn icons(icons: &[Icon]) -> Option<Vec<ahp_types::state::Icon>> {
    let shown = icons.iter().map(|icon| {
        let (src, content_type) = content::icon(&icon.src, icon.mime_type.as_deref());
        ahp_types::state::Icon {
            src,
            content_type,
            sizes: None,
            theme: None,
        }
    });
    (!icons.is_empty()).then(|| shown.collect())
}

fn range(range: TextRange) -> ahp_types::state::TextRange {
    let position = |position: innkeeper_plugins::TextPosition| ahp_types::state::TextPosition {
        line: position.line.into(),
        character: position.character.into(),
    };
    ahp_types::state::TextRange {
        start: position(range.start),
        end: position(range.end),
    }
}

fn some(meta: Meta) -> Option<Meta> {
    (!meta.is_empty()).then_some(meta)
}
