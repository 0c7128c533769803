//! Every case of the loader, by name: a plugin goes in, what must be found comes out.

use std::collections::BTreeMap;

use innkeeper_plugins::{Child, Component, LoadState, Plugin, PluginSource, find_plugins, load_plugin};
use serde_json::Value;

fn children(plugin: &Plugin) -> &[Child] {
    plugin
        .children
        .as_deref()
        .expect("a plugin that was read has children, if only none")
}

/// `kind:name`, sorted, as the cases have it.
fn names(plugin: &Plugin) -> Vec<String> {
    let names = children(plugin)
        .iter()
        .map(|child| format!("{}:{}", child.kind().as_str(), child.name));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn load_word(load: &LoadState) -> &'static str {
    match load {
        LoadState::Loading => "loading",
        LoadState::Loaded => "loaded",
        LoadState::Degraded { .. } => "degraded",
        LoadState::Error { .. } => "error",
    }
}

fn by_name(plugin: &Plugin, value: impl Fn(&Child) -> Option<Value>) -> BTreeMap<String, Value> {
    let found = children(plugin)
        .iter()
        .filter_map(|child| Some((child.name.clone(), value(child)?)));
    found.collect()
}

fn tools(child: &Child) -> Option<Value> {
    match &child.component {
        Component::Agent(agent) if !agent.tools.is_empty() => Some(agent.tools.clone().into()),
        _ => None,
    }
}

fn globs(child: &Child) -> Option<Value> {
    match &child.component {
        Component::Rule(rule) if !rule.globs.is_empty() => Some(rule.globs.clone().into()),
        _ => None,
    }
}

fn flags(child: &Child) -> Option<Value> {
    let (model, user) = match &child.component {
        Component::Agent(agent) => (agent.disable_model_invocation, agent.disable_user_invocation),
        Component::Skill(skill) => (skill.disable_model_invocation, skill.disable_user_invocation),
        _ => (false, false),
    };
    let mut flags = Vec::new();
    flags.extend(model.then_some("disableModelInvocation"));
    flags.extend(user.then_some("disableUserInvocation"));
    (!flags.is_empty()).then(|| flags.into())
}

fn range(child: &Child) -> Option<Value> {
    let range = child.range?;
    let position = |position: innkeeper_plugins::TextPosition| serde_json::json!([position.line, position.character]);
    Some(serde_json::json!([position(range.start), position(range.end)]))
}

/// Everything a case expects that is not so.
fn differences(case: &Value, plugin: &Plugin, plugins: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |key: &str, found: Value, expected: &Value| {
        if found != *expected {
            wrong.push(format!("{key}: expected {expected}, found {found}"));
        }
    };
    for (key, expected) in case["expect"].as_object().unwrap() {
        match key.as_str() {
            "fmt" => check(key, plugin.format.map(|format| format.as_str()).into(), expected),
            "load" => check(key, load_word(&plugin.load).into(), expected),
            "name" => check(key, plugin.name.clone().into(), expected),
            "version" => check(key, plugin.version.clone().into(), expected),
            "count" => check(key, children(plugin).len().into(), expected),
            "plugins" => check(key, plugins.into(), expected),
            "names" if expected.is_null() => {}
            "names" => {
                let mut expected: Vec<&str> = expected
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|n| n.as_str().unwrap())
                    .collect();
                expected.sort_unstable();
                check(key, names(plugin).into(), &expected.into());
            }
            "notes" => {
                for code in expected.as_array().unwrap() {
                    let is_there = plugin.notes.iter().any(|note| note.code.as_str() == code);
                    check(key, if is_there { code.clone() } else { Value::Null }, code);
                }
            }
            "unreached" => {
                let nested = plugin.notes.iter().filter(|note| note.code.as_str() == "skill-nested");
                check(key, nested.count().into(), expected);
            }
            "desc" | "globs" | "tools" | "flags" | "rng" => {
                let found = match key.as_str() {
                    "desc" => by_name(plugin, |child| child.description.clone().map(Value::from)),
                    "globs" => by_name(plugin, globs),
                    "tools" => by_name(plugin, tools),
                    "flags" => by_name(plugin, flags),
                    _ => by_name(plugin, range),
                };
                for (name, value) in expected.as_object().unwrap() {
                    let found = found.get(name).cloned().unwrap_or(Value::Null);
                    check(&format!("{key} of {name}"), found, value);
                }
            }
            other => panic!("the cases expect `{other}`, which no check covers"),
        }
    }
    wrong
}

fn check(name: &str) {
    let cases = crate::support::cases();
    let case = cases
        .iter()
        .find(|case| case["case"] == name)
        .expect("the case is in the fixtures");
    let temp = tempfile::tempdir().unwrap();
    let root = crate::support::make(temp.path(), case);
    let plugin = load_plugin(&PluginSource::new(&root));
    let plugins = find_plugins(&root).sources.len();
    let wrong = differences(case, &plugin, plugins);
    assert!(wrong.is_empty(), "{wrong:#?}\n{:?} {:#?}", plugin.load, plugin.notes);
    assert_eq!(
        load_plugin(&PluginSource::new(&root)),
        plugin,
        "a rescan finds the same"
    );
    for note in &plugin.notes {
        assert!(
            !note.path.starts_with('/'),
            "notes name files relative to the plugin: {note}"
        );
    }
}

macro_rules! cases {
    ($($test:ident => $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        #[test]
        fn no_case_is_forgotten() {
            let listed = [$($name),*];
            let cases = crate::support::cases();
            assert_eq!(cases.len(), listed.len());
            for case in &cases {
                assert!(listed.contains(&case["case"].as_str().unwrap()), "{}", case["case"]);
            }
        }
    };
}

cases! {
    open_plugin_minimal => "open-plugin-minimal",
    manifest_precedence => "manifest-precedence",
    agent_plugin_first => "agent-plugin-first",
    claude_manifest => "claude-manifest",
    root_plugin_json_is_copilot => "root-plugin-json-is-copilot",
    manifest_not_json => "manifest-not-json",
    manifest_is_array => "manifest-is-array",
    manifest_empty_file => "manifest-empty-file",
    manifest_bom => "manifest-bom",
    manifest_jsonc => "manifest-jsonc",
    manifest_without_name => "manifest-without-name",
    manifest_name_with_spaces => "manifest-name-with-spaces",
    manifest_author_string => "manifest-author-string",
    manifest_version_number => "manifest-version-number",
    manifest_only => "manifest-only",
    metadata_dir_is_not_a_root => "metadata-dir-is-not-a-root",
    ap_unknown_field => "ap-unknown-field",
    ap_bad_version => "ap-bad-version",
    ap_bad_name => "ap-bad-name",
    ap_author_extra => "ap-author-extra",
    ap_extensions_array => "ap-extensions-array",
    ap_skill_nonconforming_skipped => "ap-skill-nonconforming-skipped",
    ap_skills_is_a_file => "ap-skills-is-a-file",
    ap_mcp_entries => "ap-mcp-entries",
    ap_mcp_schema_missing => "ap-mcp-schema-missing",
    paths_supplement => "paths-supplement",
    paths_exclusive => "paths-exclusive",
    paths_single_skill_and_file => "paths-single-skill-and-file",
    paths_same_place_twice => "paths-same-place-twice",
    paths_traversal => "paths-traversal",
    paths_missing => "paths-missing",
    symlink_escape => "symlink-escape",
    symlink_inside => "symlink-inside",
    symlink_loop => "symlink-loop",
    dangling_symlink => "dangling-symlink",
    fm_crlf_bom => "fm-crlf-bom",
    fm_globs_star => "fm-globs-star",
    fm_colon_in_value => "fm-colon-in-value",
    fm_unclosed => "fm-unclosed",
    fm_dashes_in_body => "fm-dashes-in-body",
    fm_types => "fm-types",
    fm_duplicate_key => "fm-duplicate-key",
    not_utf8 => "not-utf8",
    nul_and_utf16 => "nul-and-utf16",
    duplicate_names => "duplicate-names",
    unicode_names => "unicode-names",
    case_and_readme => "case-and-readme",
    nested_skill_not_found => "nested-skill-not-found",
    root_skill => "root-skill",
    no_manifest => "no-manifest",
    prompt_in_commands => "prompt-in-commands",
    empty_files => "empty-files",
    hooks_inline_and_file => "hooks-inline-and-file",
    hooks_bad_json => "hooks-bad-json",
    mcp_flat_and_bad => "mcp-flat-and-bad",
    mcp_inline_range => "mcp-inline-range",
    mcp_inline_wrapped => "mcp-inline-wrapped",
    mcp_same_name_two_files => "mcp-same-name-two-files",
    permission_denied => "permission-denied",
    many_skills => "many-skills",
    huge_skill => "huge-skill",
}
