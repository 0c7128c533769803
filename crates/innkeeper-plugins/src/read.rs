//! Reading files: confined to a root, decoded, and parsed as JSON, YAML or Markdown with frontmatter.

pub(crate) mod frontmatter;
pub(crate) mod json;
pub(crate) mod private;
pub(crate) mod reader;
pub(crate) mod scan_root;
pub(crate) mod text;
pub(crate) mod uri;
pub(crate) mod yaml;
