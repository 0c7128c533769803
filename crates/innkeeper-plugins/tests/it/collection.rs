//! A collection as large as the public ones: three thousand files in five hundred plugins.

use std::time::Instant;

use innkeeper_plugins::{Entry, LoadState, PluginSource, Sources, changes, find_plugins, load_plugin, scan};

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
        let Entry::Plugin(plugin) = entry else { panic!() };
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
