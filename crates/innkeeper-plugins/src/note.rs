//! Notes of a scan, and the load state that follows from them.

use std::fmt;

use crate::limits::MAX_NOTES;

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    Info,
    /// Something was left out or guessed: the container is degraded.
    Warn,
    /// The container could not be loaded at all.
    Error,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident => $text:literal,)*) => {
        /// The subject of a note, for programs and tests.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Code {
            /// The code as text, in kebab case.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The root of the container cannot be opened.
    RootUnreadable => "root-unreadable",
    /// The manifest cannot be read.
    ManifestUnreadable => "manifest-unreadable",
    /// The manifest is not JSON, or not an object.
    ManifestInvalid => "manifest-invalid",
    /// The manifest has comments or trailing commas.
    ManifestIsJsonc => "manifest-is-jsonc",
    /// The manifest has no name.
    ManifestNameMissing => "manifest-name-missing",
    /// The name does not follow the grammar of its format.
    ManifestNameCharset => "manifest-name-charset",
    /// A field that the format does not know.
    ManifestUnknownField => "manifest-unknown-field",
    /// A field of the wrong type.
    ManifestFieldType => "manifest-field-type",
    /// A version of the format that this host does not know.
    ManifestVersion => "manifest-version",
    /// A location in the manifest that does not exist.
    ManifestPathMissing => "manifest-path-missing",
    /// A location that does not begin with `./`.
    ManifestPathStyle => "manifest-path-style",
    /// Another manifest that is not used.
    ManifestOther => "manifest-other",
    /// A path or symlink that leads out of the container.
    PathEscape => "path-escape",
    /// A file where a directory belongs, or the other way round.
    WrongKind => "wrong-kind",
    /// Something that exists but cannot be read.
    Unreadable => "unreadable",
    /// A file that is not UTF-8.
    NotUtf8 => "not-utf8",
    /// A file too large to be read whole.
    Large => "large-file",
    /// A bound of the scan was reached.
    Limit => "limit-reached",
    /// The frontmatter has no closing line.
    FrontmatterUnclosed => "frontmatter-unclosed",
    /// The frontmatter is not YAML and was read line by line.
    FrontmatterLenient => "frontmatter-lenient",
    /// A component without the frontmatter it needs.
    FrontmatterMissing => "frontmatter-missing",
    /// A duplicate key.
    FrontmatterDuplicateKey => "frontmatter-duplicate-key",
    /// A field of the wrong type.
    FrontmatterFieldType => "frontmatter-field-type",
    /// A component without a description.
    DescriptionMissing => "description-missing",
    /// A name that was shortened or cleaned.
    NameCleaned => "name-cleaned",
    /// A name that another component of the same type has already.
    DuplicateName => "duplicate-name",
    /// A skill that does not follow the rules of its format.
    SkillSkipped => "skill-skipped",
    /// A skill whose file is not called exactly `SKILL.md`.
    SkillFileCase => "skill-file-case",
    /// A skill one directory too deep.
    SkillNested => "skill-nested",
    /// A skill whose name is not that of its directory.
    SkillNameMismatch => "skill-name-mismatch",
    /// Hooks that are not JSON, or of no known shape.
    HooksInvalid => "hooks-invalid-json",
    /// An unknown event; its hooks never run.
    HookEventUnknown => "hook-event-unknown",
    /// One hook that cannot be read.
    HookInvalid => "hook-entry-invalid",
    /// A file of MCP servers that cannot be used.
    McpConfigInvalid => "mcp-config-invalid",
    /// One MCP server that cannot be used.
    McpEntryInvalid => "mcp-entry-invalid",
    /// A marketplace index that cannot be used.
    MarketplaceInvalid => "marketplace-invalid",
    /// One entry of a marketplace that cannot be used.
    MarketplaceEntryInvalid => "marketplace-entry-invalid",
    /// A plugin that is not on this machine.
    MarketplaceExternal => "marketplace-external",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One remark about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// Its subject.
    pub code: Code,
    /// The file, relative to the root of its container; `.` for the root itself.
    pub path: String,
    /// The problem and the remedy, for users. Never has contents of files other than names.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Whether a container could be loaded (CUS-05).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LoadState {
    /// It is being read; its children are not known yet.
    Loading,
    /// It was read without losses.
    #[default]
    Loaded,
    /// Some of it was left out or guessed.
    Degraded {
        /// The problem and the remedy.
        message: String,
    },
    /// It could not be read.
    Error {
        /// The reason and the remedy.
        message: String,
    },
}

/// The notes of a scan while it runs.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    kept: Vec<Note>,
    dropped: usize,
    dropped_warnings: usize,
}

impl Notes {
    pub(crate) fn info(&mut self, code: Code, path: &str, message: impl Into<String>) {
        self.push(Severity::Info, code, path, message.into());
    }

    pub(crate) fn warn(&mut self, code: Code, path: &str, message: impl Into<String>) {
        self.push(Severity::Warn, code, path, message.into());
    }

    pub(crate) fn error(&mut self, code: Code, path: &str, message: impl Into<String>) {
        self.push(Severity::Error, code, path, message.into());
    }

    fn push(&mut self, severity: Severity, code: Code, path: &str, message: String) {
        if self.kept.len() >= MAX_NOTES && severity != Severity::Error {
            self.dropped += 1;
            self.dropped_warnings += usize::from(severity == Severity::Warn);
            return;
        }
        let path = if path.is_empty() { "." } else { path };
        let note = Note {
            severity,
            code,
            path: crate::read::text::printable(path, 512),
            message,
        };
        if !self.kept.contains(&note) {
            self.kept.push(note);
        }
    }

    /// The notes in the order in which they were made, and the state they amount to (P14).
    pub(crate) fn finish(mut self) -> (Vec<Note>, LoadState) {
        let state = self.state();
        if self.dropped > 0 {
            self.kept.push(Note {
                severity: Severity::Info,
                code: Code::Limit,
                path: ".".to_owned(),
                message: format!("{} more notes are not listed", self.dropped),
            });
        }
        (self.kept, state)
    }

    fn state(&self) -> LoadState {
        let of = |severity: Severity| self.kept.iter().filter(move |note| note.severity == severity);
        if let Some(note) = of(Severity::Error).next() {
            return LoadState::Error {
                message: note.to_string(),
            };
        }
        let count = of(Severity::Warn).count() + self.dropped_warnings;
        if count == 0 {
            return LoadState::Loaded;
        }
        let shown: Vec<String> = of(Severity::Warn).take(SHOWN).map(Note::to_string).collect();
        let mut message = shown.join("; ");
        if count == 1 {
            message = format!("1 problem: {message}");
        } else if count <= SHOWN {
            message = format!("{count} problems: {message}");
        } else {
            message = format!("{count} problems: {message}; and {} more", count - SHOWN);
        }
        LoadState::Degraded { message }
    }
}

/// How many problems the message of a degraded container names.
const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_counts_everything_and_names_the_first() {
        let mut notes = Notes::default();
        for number in 0..5 {
            notes.warn(Code::WrongKind, &format!("f{number}"), "is a file");
        }
        notes.info(Code::Large, "g", "is large");
        let (_, state) = notes.finish();
        let LoadState::Degraded { message } = state else {
            panic!("{state:?}")
        };
        assert_eq!(
            message,
            "5 problems: f0: is a file; f1: is a file; f2: is a file; and 2 more"
        );
    }

    #[test]
    fn infos_alone_do_not_degrade() {
        let mut notes = Notes::default();
        notes.info(Code::Large, "g", "is large");
        assert_eq!(notes.finish().1, LoadState::Loaded);
    }

    #[test]
    fn notes_are_bounded_and_warnings_still_count() {
        let mut notes = Notes::default();
        for number in 0..MAX_NOTES {
            notes.info(Code::Large, &format!("f{number}"), "is large");
        }
        notes.warn(Code::WrongKind, "last", "is a file");
        let (kept, state) = notes.finish();
        assert_eq!(kept.len(), MAX_NOTES + 1);
        assert!(matches!(state, LoadState::Degraded { .. }));
    }
}
