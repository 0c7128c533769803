//! Reads what a customization says, on the way on which it was found: through an opened directory
//! that no link leads out of.

use std::path::{Path, PathBuf};

use crate::directory::Scope;
use crate::frontmatter::split_frontmatter;
use crate::place::{Links, Refusal, Root, label};
use crate::text::{Encoding, decode};

/// Reads files of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The directory that is not left.
    base: PathBuf,
    /// From there to the container.
    path: PathBuf,
    links: Links,
}

impl Reader {
    /// Reads what is in a plugin, by its absolute path. Its links stay in it.
    pub fn of_plugin(path: impl Into<PathBuf>) -> Self {
        Self {
            base: path.into(),
            path: PathBuf::new(),
            links: Links::Confined,
        }
    }

    /// Reads what a workspace or a home has in a directory of its own.
    pub fn within(base: impl Into<PathBuf>, path: impl Into<PathBuf>, scope: Scope) -> Self {
        Self {
            base: base.into(),
            path: path.into(),
            links: scope.links(),
        }
    }

    /// The container itself, as a path of this machine.
    pub fn root(&self) -> PathBuf {
        self.base.components().chain(self.path.components()).collect()
    }

    /// What a Markdown file of the container says, without its frontmatter.
    ///
    /// # Errors
    ///
    /// In a sentence for people that names the file, when it is gone, is longer than `most` bytes, or
    /// cannot be read.
    pub fn body(&self, relative: &Path, most: usize) -> Result<String, String> {
        let name = label(relative);
        let told = |refusal: &Refusal| format!("{name} {}", refusal.explain());
        let root = Root::open_within(&self.base, &self.path, self.links)
            .map_err(|error| format!("{name} cannot be read, because its directory cannot ({})", error.kind()))?;
        let contents = root.read(relative, most).map_err(|refusal| told(&refusal))?;
        if contents.is_cut_off() {
            return Err(format!(
                "{name} is longer than {most} bytes, so it is not read: shorten it"
            ));
        }
        match decode(&contents.bytes, false) {
            (_, Encoding::Utf16) => Err(format!("{name} is UTF-16, which is not read: save it as UTF-8")),
            (text, _) => Ok(split_frontmatter(&text).body.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_without_frontmatter_and_trouble_comes_in_sentences() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join(".claude/skills/x");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("SKILL.md"), "---\nname: x\n---\nDo it.\n").unwrap();
        let reader = Reader::within(temp.path(), ".claude/skills", Scope::Workspace);
        assert_eq!(reader.body(Path::new("x/SKILL.md"), 1024).unwrap(), "Do it.\n");
        let told = reader.body(Path::new("x/SKILL.md"), 8).unwrap_err();
        assert!(told.contains("x/SKILL.md is longer than 8 bytes"), "{told}");
        let told = reader.body(Path::new("y/SKILL.md"), 8).unwrap_err();
        assert!(told.contains("y/SKILL.md does not exist"), "{told}");
        assert_eq!(reader.root(), temp.path().join(".claude/skills"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_since_the_scan_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let secret = temp.path().join("secret");
        std::fs::write(&secret, "nobody's business").unwrap();
        let plugin = temp.path().join("plugin");
        std::fs::create_dir(&plugin).unwrap();
        std::os::unix::fs::symlink(&secret, plugin.join("rule.md")).unwrap();
        let told = Reader::of_plugin(&plugin).body(Path::new("rule.md"), 1024).unwrap_err();
        assert!(told.contains("leads out"), "{told}");
    }
}
