//! The bounds of a scan.
//!
//! Scanned files come from repositories that were not reviewed. A scan must end soon and with
//! bounded memory for every input. A container that reaches a limit is degraded, and a note says so.

/// How deep a directory of rules or hooks is searched.
pub const MAX_DEPTH: usize = 6;

/// How many directories of one root are listed. A skill's directory is not listed to read its
/// `SKILL.md`, so this does not bound the number of skills.
pub const MAX_DIRECTORIES: usize = 2_000;

/// Maximum number of directory entries of one root.
pub const MAX_ENTRIES: usize = 20_000;

/// How many bytes of one root are read, all its files together.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// How many bytes of a Markdown file are read: its frontmatter must be within them.
pub const MAX_FRONTMATTER_BYTES: usize = 64 * 1024;

/// How large a Markdown file may be before it is pointed out. Its metadata is read all the same.
pub const LARGE_FILE_BYTES: u64 = 1024 * 1024;

/// How large a manifest, a file of hooks or a file of MCP servers may be.
pub const MAX_JSON_BYTES: usize = 1024 * 1024;

/// Maximum bytes of the index of a marketplace; the largest public ones list hundreds of plugins.
pub const MAX_INDEX_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of characters of a name.
pub const MAX_NAME_CHARS: usize = 256;

/// Maximum number of characters of a description.
pub const MAX_DESCRIPTION_CHARS: usize = 4_096;

/// Maximum number of items of a list in a frontmatter (tools, globs).
pub const MAX_LIST_ITEMS: usize = 1_024;

/// How many nodes the YAML of one frontmatter may grow to once its aliases are expanded.
pub const MAX_YAML_NODES: usize = 20_000;

/// How deep the YAML of a frontmatter may be nested.
pub const MAX_YAML_DEPTH: usize = 64;

/// Maximum number of hooks of one file.
pub const MAX_HOOKS: usize = 1_000;

/// Maximum number of MCP servers of one file.
pub const MAX_SERVERS: usize = 1_000;

/// Maximum number of notes of one container; the rest are counted.
pub const MAX_NOTES: usize = 200;

/// Maximum number of plugins of one marketplace or one directory of plugins.
pub const MAX_PLUGINS: usize = 2_000;
