//! Reads the text of a customization through the confined root of its container.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::containers::directory::Scope;
use crate::read::frontmatter::split_frontmatter;
use crate::read::scan_root::{Links, ReadError, ScanRoot, label};
use crate::read::text::{Encoding, decode};

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
    /// Reads files of a plugin, by its absolute path. Symlinks must stay in it.
    pub fn of_plugin(path: impl Into<PathBuf>) -> Self {
        Self {
            base: path.into(),
            path: PathBuf::new(),
            links: Links::Confined,
        }
    }

    /// Reads files of a directory in a workspace or a home.
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

    /// Whether the container is the whole workspace or home: then it only represents loose files.
    pub fn is_base(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// The path of a file of the container without symlinks, for showing the file to clients.
    ///
    /// Symlinks of a user may lead anywhere, but to a file of the same name: one to a `CLAUDE.md` elsewhere is allowed;
    /// one to a key, which may be in a copied directory, is not.
    ///
    /// # Errors
    ///
    /// If it does not exist, or if a symlink leads outside.
    pub fn real_path(&self, relative: &Path) -> io::Result<PathBuf> {
        let shown = join(&self.root(), relative);
        let real = fs::canonicalize(&shown)?;
        let is_near = match self.links {
            Links::Confined => real.starts_with(fs::canonicalize(&self.base)?),
            Links::Followed => {
                real.starts_with(fs::canonicalize(self.root())?) || real.file_name() == shown.file_name()
            }
        };
        if is_near { Ok(real) } else { Err(leads_away()) }
    }

    /// The path of a file in a directory of the container, such as that of a skill. No symlink may lead out of the
    /// directory.
    ///
    /// # Errors
    ///
    /// As [`Self::real_path`].
    pub fn real_path_in(&self, directory: &Path, relative: &Path) -> io::Result<PathBuf> {
        let directory = join(&self.root(), directory);
        let real = fs::canonicalize(join(&directory, relative))?;
        let is_confined = match self.links {
            Links::Confined => real.starts_with(fs::canonicalize(&self.base)?),
            Links::Followed => true,
        };
        let is_near = is_confined && real.starts_with(fs::canonicalize(&directory)?);
        if is_near { Ok(real) } else { Err(leads_away()) }
    }

    /// Reads a Markdown file of the container without its frontmatter.
    ///
    /// # Errors
    ///
    /// A sentence for users that names the file, if it does not exist, is longer than `most` bytes, or cannot be read.
    pub fn body(&self, relative: &Path, most: usize) -> Result<String, String> {
        let name = label(relative);
        let told = |refusal: &ReadError| format!("{name} {}", refusal.explain());
        let root = ScanRoot::open_within(&self.base, &self.path, self.links)
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

/// A path below a directory; an empty one is the directory itself.
fn join(directory: &Path, relative: &Path) -> PathBuf {
    directory.components().chain(relative.components()).collect()
}

fn leads_away() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "a link leads away from where it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_without_frontmatter_and_trouble_comes_in_sentences() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join(".claude/skills/x");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("SKILL.md"), "---\nname: x\n---\nDo it.\n").unwrap();
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
    fn res03_links_of_a_user_lead_to_the_same_name_and_out_of_no_skill() {
        use std::os::unix::fs::symlink;
        let temp = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(temp.path()).unwrap();
        for (file, text) in [
            ("dev/x/SKILL.md", "x"),
            ("dev/x/more.md", "more"),
            ("keys/id", "hush"),
            (".claude/skills/own/SKILL.md", "own"),
        ] {
            let file = home.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let skills = home.join(".claude/skills");
        symlink(home.join("dev/x"), skills.join("x")).unwrap();
        symlink(home.join("keys"), skills.join("own/keys")).unwrap();
        fs::create_dir(skills.join("evil")).unwrap();
        symlink(home.join("keys/id"), skills.join("evil/SKILL.md")).unwrap();
        let reader = Reader::within(&home, ".claude/skills", Scope::User);
        let real = |path: &str| reader.real_path(Path::new(path)).ok();
        let beside = |skill: &str, path: &str| reader.real_path_in(Path::new(skill), Path::new(path)).ok();
        assert_eq!(real(""), Some(skills.clone()));
        assert_eq!(real("own/SKILL.md"), Some(skills.join("own/SKILL.md")));
        assert_eq!(real("x/SKILL.md"), Some(home.join("dev/x/SKILL.md")));
        assert_eq!(beside("x", "more.md"), Some(home.join("dev/x/more.md")));
        assert_eq!(beside("x", ""), Some(home.join("dev/x")));
        assert_eq!(real("evil/SKILL.md"), None);
        assert_eq!(beside("own", "keys/id"), None);
        let confined = Reader::within(&skills, "", Scope::Workspace);
        assert_eq!(confined.real_path(Path::new("x/SKILL.md")).ok(), None);
        assert_eq!(confined.real_path_in(Path::new("x"), Path::new("more.md")).ok(), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_since_the_scan_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let secret = temp.path().join("secret");
        fs::write(&secret, "a secret").unwrap();
        let plugin = temp.path().join("plugin");
        fs::create_dir(&plugin).unwrap();
        std::os::unix::fs::symlink(&secret, plugin.join("rule.md")).unwrap();
        let told = Reader::of_plugin(&plugin).body(Path::new("rule.md"), 1024).unwrap_err();
        assert!(told.contains("leads out"), "{told}");
    }
}
