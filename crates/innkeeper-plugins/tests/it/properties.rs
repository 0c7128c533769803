//! For any bytes, a scan ends, does not panic, and gives the same result twice.

use std::path::Path;

use innkeeper_plugins::limits::{MAX_NAME_CHARS, MAX_NOTES};
use innkeeper_plugins::{PluginSource, Sources, changes, load_plugin, scan, split_frontmatter};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::write;

/// Bytes that are likely to be almost right.
fn nearly(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        6 => proptest::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        2 => vec(any::<u8>(), 0..8),
        1 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
    ];
    vec(word, 0..40).prop_map(|words| words.concat())
}

fn heads() -> impl Strategy<Value = Vec<u8>> {
    nearly(&[
        "---\n",
        "---\r\n",
        "\n",
        "name: ",
        "description: ",
        "globs: ",
        "tools: ",
        "model: ",
        "alwaysApply: ",
        "a: ",
        "[",
        "]",
        "{",
        "}",
        "*",
        "&x ",
        "*x",
        "- ",
        "  ",
        "\"",
        "'",
        ": ",
        "#",
        ">\n",
        "|\n",
        "true",
        "\u{feff}",
        ",",
    ])
}

fn manifests() -> impl Strategy<Value = Vec<u8>> {
    nearly(&[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"name\"",
        "\"skills\"",
        "\"hooks\"",
        "\"mcpServers\"",
        "\"paths\"",
        "\"exclusive\"",
        "\"./skills\"",
        "\"../..\"",
        "\"/\"",
        "\"x\"",
        "true",
        "null",
        "1e999",
        "\"command\"",
        "\"url\"",
        "\"type\"",
        "\"Stop\"",
        "\"plugins\"",
        "\"source\"",
        "// c\n",
        "\"\\u0000\"",
        "\"$schema\"",
        "{\"name\": \"n\"}",
        "\"\\ud800\"",
    ])
}

fn check(root: &Path) {
    let plugin = load_plugin(&PluginSource::new(root));
    assert_eq!(
        load_plugin(&PluginSource::new(root)),
        plugin,
        "the same files are the same plugin"
    );
    let children = plugin.children.as_ref().expect("it was read");
    assert!(plugin.notes.len() <= MAX_NOTES + 1);
    let mut ids: Vec<&str> = children.iter().map(|child| child.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), children.len(), "ids are unique");
    for child in children {
        assert!(!child.name.is_empty() && child.name.chars().count() <= MAX_NAME_CHARS + 1);
        assert!(!child.name.contains(char::is_control));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_head_is_read_or_refused(head in heads()) {
        let temp = tempfile::tempdir().unwrap();
        for path in ["skills/s/SKILL.md", "agents/a.md", "rules/r.mdc", "commands/p.prompt.md", "commands/c.md"] {
            write(temp.path(), path, &head);
        }
        write(temp.path(), "skills/s/agents/openai.yaml", &head);
        check(temp.path());
    }

    #[test]
    fn any_head_in_its_lines_is_read_or_refused(head in heads()) {
        let temp = tempfile::tempdir().unwrap();
        let text = [b"---\n".as_slice(), &head, b"\n---\n"].concat();
        for path in ["skills/s/SKILL.md", "agents/a.md", "rules/r.mdc"] {
            write(temp.path(), path, &text);
        }
        check(temp.path());
    }

    #[test]
    fn any_manifest_is_read_or_refused(manifest in manifests()) {
        let temp = tempfile::tempdir().unwrap();
        write(temp.path(), "skills/s/SKILL.md", "---\ndescription: d\n---\n");
        for path in ["plugin.json", "hooks.json", ".mcp.json"] {
            write(temp.path(), path, &manifest);
        }
        check(temp.path());
        write(temp.path(), "marketplace.json", &manifest);
        for source in innkeeper_plugins::find_plugins(temp.path()).sources {
            prop_assert!(source.path().starts_with(temp.path()));
        }
    }

    #[test]
    fn declared_paths_never_lead_outside(paths in vec("[./~a-cA-C:\\\\]{0,12}", 0..6)) {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("a/b");
        for outside in ["SKILL.md", "a/SKILL.md", "a/c/SKILL.md", "b/SKILL.md"] {
            write(temp.path(), outside, "---\nname: outside\n---\n");
        }
        let manifest = serde_json::json!({"name": "n", "skills": paths, "agents": paths, "mcpServers": paths});
        write(&root, ".plugin/plugin.json", manifest.to_string());
        let plugin = load_plugin(&PluginSource::new(&root));
        prop_assert!(plugin.children.unwrap().iter().all(|child| child.name != "outside"));
    }

    #[test]
    fn a_split_loses_nothing(text in "(---\n|a: b\n|---\r\n|\r|x|\u{feff}){0,12}") {
        let split = split_frontmatter(&text);
        prop_assert!(text.ends_with(split.body));
        if let Some(head) = split.head {
            prop_assert!(text.contains(head));
        }
    }

    #[test]
    fn the_order_in_which_files_were_made_does_not_matter(order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle()) {
        let files = [
            ("skills/a/SKILL.md", "---\nname: same\ndescription: 1\n---\n"),
            ("skills/b/SKILL.md", "---\nname: same\ndescription: 2\n---\n"),
            ("skills/c/SKILL.md", "no head"),
            ("commands/a.md", ""), ("commands/b.prompt.md", ""), ("agents/z.md", ""), ("agents/y.md", ""),
            ("rules/r.md", ""), ("rules/q.mdc", ""), ("hooks.json", "{\"Stop\": [{\"command\": \"x\"}]}"),
            (".mcp.json", "{\"b\": {\"command\": \"x\"}, \"a\": {\"command\": \"x\"}}"), ("mcp.json", "{}"),
        ];
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("p");
        let sources = Sources { plugins: vec![PluginSource::new(&root)], ..Sources::default() };
        for (path, text) in files {
            write(&root, path, text);
        }
        let before = scan(&sources);
        std::fs::remove_dir_all(&root).unwrap();
        for index in order {
            write(&root, files[index].0, files[index].1);
        }
        let after = scan(&sources);
        prop_assert_eq!(&before, &after);
        prop_assert!(changes(&before, &after).is_empty());
    }
}
