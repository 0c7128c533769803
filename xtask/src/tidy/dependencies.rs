//! The direction of dependencies: which crate may name which.

use super::{Finding, Manifest};
use crate::source::line_naming;
use crate::workspace::{Dependency, Package};

const RULE: &str = "dependency-direction";

/// Where a crate stands; what it may use of the workspace follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Additions to the standard library: uses nothing of the workspace. Every layer but the core may build on it.
    Base,
    /// The translation between protocol versions: uses nothing of the workspace.
    Dialects,
    /// The pure state machine: speaks the newest version, and knows the names of the others.
    Core,
    /// The embeddable host, on top of the core.
    Host,
    /// Knows nothing of the host; siblings may build on it.
    Library,
    /// A back-end or service of the host. Siblings never use one another.
    Sibling,
    /// The client commands: AHP clients that reach the host only through the protocol.
    Client,
    /// A client with a surface of its own, the full screen or an editor, which shares its connection and texts with the
    /// client commands. It reaches the host only through the protocol, too: neither it nor what it builds on may use a
    /// crate of the host.
    Screen,
    /// The program, which wires everything together.
    Program,
    /// Benchmarks: they drive the program from outside, and measure the core and the store from inside.
    Bench,
    /// Test support, which only tests may use.
    Testkit,
    /// Every published client: they reach the host only through the protocol, and judge its translation. Nothing uses
    /// them.
    Compat,
    /// Chores of the repository: use nothing of the workspace.
    Chores,
}

impl Layer {
    fn may_use(self, other: Self) -> bool {
        match self {
            Self::Base | Self::Dialects | Self::Chores => false,
            Self::Core | Self::Compat => other == Self::Dialects,
            Self::Library | Self::Client => other == Self::Base,
            Self::Screen => matches!(other, Self::Base | Self::Client),
            Self::Host => matches!(other, Self::Base | Self::Dialects | Self::Core),
            Self::Sibling => matches!(
                other,
                Self::Base | Self::Dialects | Self::Core | Self::Host | Self::Library
            ),
            Self::Testkit => matches!(other, Self::Base | Self::Dialects | Self::Core | Self::Host),
            Self::Program => matches!(
                other,
                Self::Base
                    | Self::Dialects
                    | Self::Core
                    | Self::Host
                    | Self::Library
                    | Self::Sibling
                    | Self::Client
                    | Self::Screen
            ),
            Self::Bench => matches!(
                other,
                Self::Base | Self::Dialects | Self::Core | Self::Host | Self::Library | Self::Sibling
            ),
        }
    }
}

/// Which crates from outside the workspace a crate may use in its product code.
#[derive(Clone, Copy, Debug)]
enum Outside {
    /// These and no others.
    Only(&'static [&'static str]),
    /// All but these.
    AllBut(&'static [&'static str]),
}

struct Row {
    name: &'static str,
    layer: Layer,
    outside: Outside,
}

/// One row per crate of the workspace. A new crate gets its row here first.
const TABLE: &[Row] = &[
    Row {
        name: "innkeeper-dialects",
        layer: Layer::Dialects,
        outside: Outside::Only(&["jiff", "serde_json"]),
    },
    Row {
        name: "innkeeper-core",
        layer: Layer::Core,
        outside: Outside::Only(&[
            "ahp",
            "ahp-types",
            "base64",
            "bytes",
            "jiff",
            "serde",
            "serde_json",
            "serde_path_to_error",
        ]),
    },
    Row {
        name: "innkeeper-host",
        layer: Layer::Host,
        outside: Outside::AllBut(HEAVY_FOR_A_LIBRARY),
    },
    Row {
        name: "innkeeper-workspace",
        layer: Layer::Sibling,
        outside: Outside::AllBut(HEAVY_FOR_A_LIBRARY),
    },
    Row {
        name: "innkeeper-acp",
        layer: Layer::Sibling,
        outside: Outside::AllBut(HEAVY_FOR_A_LIBRARY),
    },
    Row {
        name: "innkeeper-acp-wire",
        layer: Layer::Base,
        outside: Outside::Only(&["serde_json", "thiserror", "tokio", "tracing"]),
    },
    Row {
        name: "innkeeper-agents",
        layer: Layer::Sibling,
        outside: Outside::AllBut(&["anyhow", "clap"]),
    },
    Row {
        name: "innkeeper-mcp",
        layer: Layer::Sibling,
        outside: Outside::AllBut(&["anyhow", "clap"]),
    },
    Row {
        name: "innkeeper-customizations",
        layer: Layer::Sibling,
        outside: Outside::AllBut(HEAVY_FOR_A_LIBRARY),
    },
    Row {
        name: "innkeeper-terminals",
        layer: Layer::Sibling,
        outside: Outside::AllBut(HEAVY_FOR_A_LIBRARY),
    },
    Row {
        name: "innkeeper-plugins",
        layer: Layer::Library,
        outside: Outside::AllBut(HEAVY_FOR_A_LIBRARY),
    },
    Row {
        name: "innkeeper-std",
        layer: Layer::Base,
        outside: Outside::AllBut(HEAVY_FOR_A_LIBRARY),
    },
    Row {
        name: "innkeeper-web",
        layer: Layer::Library,
        outside: Outside::Only(&["flate2"]),
    },
    Row {
        name: "innkeeper-store",
        layer: Layer::Sibling,
        outside: Outside::AllBut(&["anyhow", "clap"]),
    },
    Row {
        name: "innkeeper-faults",
        layer: Layer::Testkit,
        outside: Outside::Only(&["libsqlite3-sys"]),
    },
    Row {
        name: "innkeeper-testkit",
        layer: Layer::Testkit,
        outside: Outside::AllBut(&["anyhow"]),
    },
    Row {
        name: "innkeeper-bench",
        layer: Layer::Bench,
        outside: Outside::AllBut(&[]),
    },
    Row {
        name: "innkeeper-compat",
        layer: Layer::Compat,
        outside: Outside::AllBut(&["anyhow"]),
    },
    Row {
        name: "innkeeper-cli",
        layer: Layer::Client,
        outside: Outside::AllBut(&["anyhow"]),
    },
    Row {
        name: "innkeeper-tui",
        layer: Layer::Screen,
        outside: Outside::AllBut(&["anyhow"]),
    },
    Row {
        name: "innkeeper-editor",
        layer: Layer::Screen,
        outside: Outside::AllBut(&["anyhow"]),
    },
    Row {
        name: "innkeeper",
        layer: Layer::Program,
        outside: Outside::AllBut(&[]),
    },
    Row {
        name: "xtask",
        layer: Layer::Chores,
        outside: Outside::AllBut(&[]),
    },
];

/// Crates that an embedder of the host must not have to compile: databases, agents' protocols, terminals,
/// command lines, and whatever looks for a configuration on its own.
const HEAVY_FOR_A_LIBRARY: &[&str] = &[
    "anyhow",
    "clap",
    "config",
    "directories",
    "dirs",
    "etcetera",
    "git2",
    "gix",
    "home",
    "libsqlite3-sys",
    "portable-pty",
    "ratatui",
    "reqwest",
    "rmcp",
    "rusqlite",
    "sqlx",
    "toml",
    "tracing-subscriber",
];

/// Checks the dependencies of one crate against the table.
pub(super) fn check(package: &Package, manifest: &Manifest) -> Vec<Finding> {
    check_against(TABLE, package, manifest)
}

fn check_against(table: &[Row], package: &Package, manifest: &Manifest) -> Vec<Finding> {
    let row_of = |name: &str| table.iter().find(|row| row.name == name);
    let finding = |key: &str, what: String, remedy: String| Finding {
        path: manifest.path.clone(),
        line: line_naming(&manifest.text, key),
        rule: RULE,
        what,
        remedy,
    };
    let Some(row) = row_of(&package.name) else {
        return vec![finding(
            "name",
            format!("the crate {} is not in the table of layers", package.name),
            "add a row to TABLE in xtask/src/tidy/dependencies.rs that says what it may use".into(),
        )];
    };
    let refusal = |dependency: &Dependency| -> Option<(String, String)> {
        let name = &dependency.name;
        match row_of(name) {
            Some(other) if other.layer == Layer::Testkit && dependency.is_dev() => None,
            Some(other) if other.layer == Layer::Testkit => Some((
                format!("{} uses {name} in its product code", row.name),
                "move it to [dev-dependencies]".into(),
            )),
            Some(other) if row.layer.may_use(other.layer) => None,
            Some(other) => Some((
                format!(
                    "{} is of layer {:?} and must not use {name}, which is of layer {:?}",
                    row.name, row.layer, other.layer
                ),
                "put the shared part into a layer below both, or reach it through a trait of innkeeper-host".into(),
            )),
            None if name.starts_with("innkeeper") => Some((
                format!("{} uses {name}, which is not in the table of layers", row.name),
                "add a row for it to TABLE in xtask/src/tidy/dependencies.rs".into(),
            )),
            None if dependency.is_dev() => None,
            None => match row.outside {
                Outside::Only(names) if !names.contains(&name.as_str()) => Some((
                    format!("{} must not use {name}", row.name),
                    format!("it may use only {}; do the work in a layer above it", names.join(", ")),
                )),
                Outside::AllBut(names) if names.contains(&name.as_str()) => Some((
                    format!("{} must not use {name}", row.name),
                    "use it in the program or in a crate of its own, and hand the result in".into(),
                )),
                _ => None,
            },
        }
    };
    let refused =
        |dependency: &Dependency| refusal(dependency).map(|(what, remedy)| finding(&dependency.name, what, remedy));
    package.dependencies.iter().filter_map(refused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        Package {
            name: name.into(),
            description: None,
            manifest_path: "Cargo.toml".into(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).into(),
                    kind: kind.map(Into::into),
                })
                .collect(),
        }
    }

    fn refused(table: &[Row], package: &Package) -> Vec<String> {
        let manifest = Manifest {
            path: "Cargo.toml".into(),
            text: String::new(),
        };
        let findings = check_against(table, package, &manifest);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn the_core_uses_only_listed_crates() {
        let good = package(
            "innkeeper-core",
            &[
                ("ahp-types", None),
                ("proptest", Some("dev")),
                ("innkeeper-testkit", Some("dev")),
            ],
        );
        assert!(refused(TABLE, &good).is_empty());
        let bad = package("innkeeper-core", &[("tokio", None), ("hyper", Some("build"))]);
        assert_eq!(refused(TABLE, &bad).len(), 2);
    }

    #[test]
    fn the_host_stays_light() {
        let good = package("innkeeper-host", &[("innkeeper-core", None), ("tokio", None)]);
        assert!(refused(TABLE, &good).is_empty());
        for heavy in ["rusqlite", "rmcp", "clap", "reqwest", "toml", "etcetera"] {
            let bad = package("innkeeper-host", &[(heavy, None)]);
            assert_eq!(refused(TABLE, &bad).len(), 1, "{heavy}");
        }
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        let good = package("innkeeper", &[("innkeeper-testkit", Some("dev"))]);
        assert!(refused(TABLE, &good).is_empty());
        let bad = package("innkeeper", &[("innkeeper-testkit", None)]);
        assert_eq!(refused(TABLE, &bad).len(), 1);
    }

    #[test]
    fn the_benchmarks_do_not_link_the_program() {
        let good = package(
            "innkeeper-bench",
            &[("innkeeper-core", None), ("innkeeper-store", None)],
        );
        assert!(refused(TABLE, &good).is_empty());
        let bad = package("innkeeper-bench", &[("innkeeper", None)]);
        assert_eq!(refused(TABLE, &bad).len(), 1);
    }

    #[test]
    fn the_client_commands_have_no_private_door() {
        let good = package("innkeeper-cli", &[("ahp", None), ("innkeeper-testkit", Some("dev"))]);
        assert!(refused(TABLE, &good).is_empty());
        for inside in [
            "innkeeper-core",
            "innkeeper-host",
            "innkeeper-store",
            "innkeeper-workspace",
        ] {
            let bad = package("innkeeper-cli", &[(inside, None)]);
            assert_eq!(refused(TABLE, &bad).len(), 1, "{inside}");
            for screen in ["innkeeper-tui", "innkeeper-editor"] {
                let bad = package(screen, &[(inside, None)]);
                assert_eq!(refused(TABLE, &bad).len(), 1, "{screen} {inside}");
            }
        }
        let good = package("innkeeper-tui", &[("innkeeper-cli", None)]);
        assert!(refused(TABLE, &good).is_empty());
        let bad = package("innkeeper-cli", &[("innkeeper-tui", None)]);
        assert_eq!(refused(TABLE, &bad).len(), 1);
    }

    #[test]
    fn siblings_do_not_use_one_another() {
        let sibling = |name| Row {
            name,
            layer: Layer::Sibling,
            outside: Outside::AllBut(&[]),
        };
        let host = Row {
            name: "innkeeper-host",
            layer: Layer::Host,
            outside: Outside::AllBut(&[]),
        };
        let table = [sibling("innkeeper-a"), sibling("innkeeper-b"), host];
        let good = package("innkeeper-a", &[("innkeeper-host", None)]);
        assert!(refused(&table, &good).is_empty());
        let bad = package("innkeeper-a", &[("innkeeper-b", None)]);
        assert_eq!(refused(&table, &bad).len(), 1);
    }

    #[test]
    fn unknown_crates_need_a_row() {
        assert_eq!(refused(TABLE, &package("innkeeper-new", &[])).len(), 1);
        let bad = package("innkeeper", &[("innkeeper-new", None)]);
        assert_eq!(refused(TABLE, &bad).len(), 1);
    }
}
