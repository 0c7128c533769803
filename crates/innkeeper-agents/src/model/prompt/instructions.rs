//! The instructions of the working directories: the discovered rules, or `AGENTS.md` if no rules were discovered.

use std::path::PathBuf;

use super::file_path;
use crate::model::customizations::{AlwaysRules, TurnContext};
use crate::tools::read_prefix;

/// Name of the file.
const NAME: &str = "AGENTS.md";
/// Maximum bytes of a file that the prompt includes.
const MAX_BYTES: usize = 32 << 10;

/// Loads the instructions of all directories. `AGENTS.md` is one of the discovered rules, so it is read directly only
/// if nothing was discovered.
pub(in crate::model) async fn load(directories: &[String], turn_context: &TurnContext, window: u32) -> AlwaysRules {
    if turn_context.customizations.is_known() {
        return AlwaysRules::load(turn_context, window).await;
    }
    AlwaysRules {
        text: read_agents_files(directories).await,
        ..AlwaysRules::default()
    }
}

/// Reads `AGENTS.md` of each directory. It is read for every turn, so that edits take effect.
async fn read_agents_files(directories: &[String]) -> String {
    let directories = directories.to_vec();
    // Read on a blocking thread: a slow disk must not block the runtime.
    let reading = tokio::task::spawn_blocking(move || {
        let sections = directories.iter().filter_map(|directory| file_section(directory));
        sections.collect::<Vec<_>>().join("\n\n")
    });
    reading.await.unwrap_or_default()
}

fn file_section(directory: &str) -> Option<String> {
    let path: PathBuf = file_path(directory)?.join(NAME);
    // A missing file adds nothing.
    std::fs::symlink_metadata(&path).ok()?;
    let text = match read_prefix(directory, NAME, MAX_BYTES) {
        Ok((text, _)) if text.trim().is_empty() => return None,
        Ok((text, true)) => text,
        Ok((text, false)) => format!("{text}\n(The rest was left out because it is too long. Read the file.)"),
        Err(problem) => format!("(It cannot be read: {problem}.)"),
    };
    Some(format!("From {}:\n\n{text}", path.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn uri(path: &Path) -> String {
        format!("file://{}", path.display())
    }

    #[tokio::test]
    async fn agents_md_may_be_a_symlink_and_is_truncated() {
        let root = tempfile::tempdir().unwrap();
        let linked = root.path().join("linked");
        let long = root.path().join("long");
        let empty = root.path().join("empty");
        for directory in [&linked, &long, &empty] {
            std::fs::create_dir(directory).unwrap();
        }
        std::fs::write(linked.join("CLAUDE.md"), "Use tabs.").unwrap();
        symlink("CLAUDE.md", linked.join(NAME)).unwrap();
        std::fs::write(long.join(NAME), format!("Be brief.{}", "ä".repeat(MAX_BYTES))).unwrap();
        let sections = read_agents_files(&[uri(&linked), uri(&long), uri(&empty)]).await;
        assert!(sections.contains("Use tabs."), "{sections}");
        assert!(sections.contains("Be brief.") && sections.contains("The rest was left out"));
        assert!(sections.len() < MAX_BYTES + 1000, "{}", sections.len());
        assert!(!sections.contains("empty"), "{sections}");
    }

    #[tokio::test]
    async fn agents_md_outside_or_not_a_file_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        let pipe = root.path().join("pipe");
        for directory in [&outside, &pipe] {
            std::fs::create_dir(directory).unwrap();
        }
        std::fs::write(root.path().join("secret"), "hush").unwrap();
        symlink("../secret", outside.join(NAME)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(pipe.join(NAME)).status();
        assert!(made.unwrap().success());
        let sections = read_agents_files(&[uri(&outside), uri(&pipe)]).await;
        assert!(!sections.contains("hush"), "{sections}");
        assert_eq!(sections.matches("It cannot be read").count(), 2, "{sections}");
    }
}
