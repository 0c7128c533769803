//! A collection as large as the public ones: three thousand files in five hundred plugins.

use std::time::Instant;

use innkeeper_plugins::{Container, LoadState, PluginSource, Sources, changes, find_plugins, load_plugin, scan};

use crate::support::write;

#[test]
fn three_thousand_files_in_five_hundred_plugins_are_all_found() {
    let temp = tempfile::tempdir().unwrap();
    let mut index = Vec::new();
    for number in 0..500 {
        let plugin = format!("plugins/p{number:03}");
        let manifest = [".plugin", ".claude-plugin", ".codex-plugin", ".cursor-plugin"][number % 4];
        write(
            temp.path(),
            &format!("{plugin}/{manifest}/plugin.json"),
            format!(r#"{{"name": "p{number}"}}"#),
        );
        for skill in 0..3 {
            let text = format!("---\nname: s{skill}\ndescription: Use when: {number}.\n---\nBody {number}.\n");
            write(temp.path(), &format!("{plugin}/skills/s{skill}/SKILL.md"), text);
        }
        write(
            temp.path(),
            &format!("{plugin}/agents/a.md"),
            "\u{feff}---\r\ndescription: d\r\n---\r\n",
        );
        write(
            temp.path(),
            &format!("{plugin}/rules/r.mdc"),
            "---\nglobs: **/*.ts, *.{a,b}\n---\n",
        );
        index.push(format!(r#"{{"name": "p{number}", "source": "./p{number:03}"}}"#));
    }
    let index = format!(
        r#"{{"metadata": {{"pluginRoot": "./plugins"}}, "plugins": [{}]}}"#,
        index.join(",")
    );
    write(temp.path(), "marketplace.json", index);

    let start = Instant::now();
    let sources = Sources {
        plugins: find_plugins(temp.path()).sources,
        ..Sources::default()
    };
    let tree = scan(&sources);
    println!("a scan of 3,000 files took {:?}", start.elapsed());
    assert_eq!(tree.entries.len(), 500);
    for entry in &tree.entries {
        let Container::Plugin(plugin) = &**entry else { panic!() };
        assert_eq!(plugin.load, LoadState::Loaded, "{:?}", plugin.notes);
        let names: Vec<&str> = entry.children().iter().map(|child| child.name.as_str()).collect();
        assert_eq!(names, ["a", "s0", "s1", "s2", "r"]);
    }
    write(
        temp.path(),
        "plugins/p007/agents/a.md",
        "---\ndescription: other\n---\n",
    );
    let start = Instant::now();
    let after = scan(&sources);
    assert_eq!(changes(&tree, &after).len(), 1);
    println!("a second scan and the comparison took {:?}", start.elapsed());
}

#[test]
fn three_thousand_skills_in_one_directory_are_all_found() {
    let temp = tempfile::tempdir().unwrap();
    for number in 0..3_000 {
        write(
            temp.path(),
            &format!("skills/s{number}/SKILL.md"),
            "---\ndescription: d\n---\n",
        );
    }
    let start = Instant::now();
    let plugin = load_plugin(&PluginSource::new(temp.path()));
    println!("3,000 skills took {:?}", start.elapsed());
    assert_eq!(plugin.load, LoadState::Loaded);
    let children = plugin.children.unwrap();
    assert_eq!(children.len(), 3_000);
    assert!(children.is_sorted_by(|a, b| a.path < b.path));
}

/// A marketplace with mistakes: most of it is valid, and each invalid entry costs itself
/// and nothing else.
#[test]
fn a_marketplace_with_hundreds_of_flawed_plugins_loads_the_valid_ones() {
    const PLUGINS: usize = 300;
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    let good = "---\nname: good\ndescription: d\n---\nBody.\n";
    let mut index = Vec::new();
    for number in 0..PLUGINS {
        let name = format!("p{number:03}");
        let mut entry = serde_json::json!({ "name": name, "source": format!("./{name}") });
        let plugin = root.join(&name);
        let (manifest, odd): (&str, &[u8]) = match number % 10 {
            1 => (
                "\u{feff}{\r\n  // mine\r\n  \"name\": \"n\",\r\n}",
                "\u{feff}---\r\nname: odd\r\n---\r\n".as_bytes(),
            ),
            2 => ("{\"name\": \"n\"}", b"\xff\xfe-\x00-\x00-\x00"),
            3 => ("{\"name\": \"n\"}", b"---\nname: odd\ndescription: caf\xe9\n---\n"),
            4 => ("{\"name\": ", b"---\nname: odd\n---\n"),
            5 => ("{\"name\": \"n\"}", b"---\nname: odd\ndescription: no end\n"),
            6 => ("{\"name\": \"n\"}", b""),
            7 => {
                index.push(entry);
                continue;
            }
            8 => {
                entry["source"] = serde_json::json!({ "source": "github", "repo": "owner/something" });
                index.push(entry);
                continue;
            }
            9 => {
                entry["strict"] = false.into();
                entry["skills"] = serde_json::json!(["./skills/good"]);
                ("", b"---\nname: not listed\n---\n")
            }
            _ => (
                "{\"name\": \"n\"}",
                b"---\nname: odd\ndescription: Use when: always.\n---\n",
            ),
        };
        if !manifest.is_empty() {
            write(&plugin, ".claude-plugin/plugin.json", manifest);
        }
        write(&plugin, "skills/good/SKILL.md", good);
        write(&plugin, "skills/odd/SKILL.md", odd);
        index.push(entry);
    }
    // And some entries that are nothing at all.
    index.extend([
        serde_json::json!(7),
        serde_json::json!({}),
        serde_json::json!({"name": "x", "source": "../.."}),
    ]);
    let index = serde_json::json!({ "name": "m", "plugins": index });
    write(root, ".claude-plugin/marketplace.json", index.to_string());
    let sources = Sources {
        collections: vec![root.to_owned()],
        ..Sources::default()
    };
    let tree = scan(&sources);
    let (of_market, plugins): (Vec<&Container>, Vec<&Container>) = tree
        .entries
        .iter()
        .map(|entry| &**entry)
        .partition(|entry| entry.id().starts_with("marketplace-"));
    let [Container::Plugin(market)] = of_market.as_slice() else {
        panic!("the marketplace says what is missing: {of_market:?}")
    };
    assert!(matches!(market.load, LoadState::Degraded { .. }), "{:?}", market.load);
    assert_eq!(plugins.len(), PLUGINS / 10 * 8, "all but those that are not there");
    for entry in plugins {
        let Container::Plugin(plugin) = entry else { panic!() };
        let number: usize = plugin.uri.rsplit("/p").next().unwrap().parse().unwrap();
        let names: Vec<&str> = entry.children().iter().map(|child| child.name.as_str()).collect();
        let expected: &[&str] = match number % 10 {
            4 => &[],
            9 => &["good"],
            _ => &["good", "odd"],
        };
        assert_eq!(names, expected, "{number}: {:?}", plugin.notes);
        let is_as_expected = match number % 10 {
            0 | 9 => plugin.load == LoadState::Loaded,
            4 => matches!(plugin.load, LoadState::Error { .. }),
            _ => matches!(plugin.load, LoadState::Degraded { .. }),
        };
        assert!(is_as_expected, "{number}: {:?}", plugin.load);
    }
    assert!(market.notes.len() <= innkeeper_plugins::limits::MAX_NOTES + 1);
    assert_eq!(changes(&tree, &scan(&sources)), []);
}
