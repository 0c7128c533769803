//! The manifest of a plugin (P3, P4) and the locations it declares (P5).

use jsonc_parser::ast::{ObjectProp, Value as Node};

use crate::formats::detect::{Format, SCHEMA_PREFIX, SCHEMA_VERSIONS};
use crate::limits::{MAX_DESCRIPTION_CHARS, MAX_LIST_ITEMS, MAX_NAME_CHARS};
use crate::note::{Code, Notes};
use crate::read::json::Document;
use crate::read::text::{printable, readable};

/// The fields of a manifest.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) name: Option<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) logo: Option<String>,
    pub(crate) declared: Declarations,
}

/// The locations of components that a manifest declares.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Declarations {
    pub(crate) skills: Declared,
    pub(crate) commands: Declared,
    pub(crate) agents: Declared,
    pub(crate) rules: Declared,
    pub(crate) hooks: Declared,
    pub(crate) mcp_servers: Declared,
}

/// The locations of one kind of component.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) is_present: bool,
    pub(crate) paths: Vec<String>,
    /// Whether the default location is left out.
    pub(crate) exclusive: bool,
    /// Whether the manifest contains the components themselves.
    pub(crate) is_inline: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Inline {
    Possible,
    Meaningless,
}

impl Manifest {
    /// Reads a manifest. `None` if it cannot be used at all; the notes say why.
    pub(crate) fn read(document: &Document<'_>, format: Format, path: &str, notes: &mut Notes) -> Option<Self> {
        if document.is_jsonc {
            notes.info(
                Code::ManifestIsJsonc,
                path,
                "has comments or trailing commas, which other hosts may refuse",
            );
        }
        if format == Format::AgentPlugin {
            return strict(document, path, notes);
        }
        let mut manifest = Self {
            display_name: text(document, "displayName").or_else(|| {
                let interface = document.object().get_object("interface")?;
                let name = interface.get_string("displayName")?;
                Some(printable(&name.value, MAX_NAME_CHARS))
            }),
            logo: text(document, "logo"),
            declared: declarations(document, path, notes),
            ..Self::default()
        };
        manifest.name = text(document, "name");
        match &manifest.name {
            None => notes.warn(
                Code::ManifestNameMissing,
                path,
                "has no `name`, so the directory's is used: add one",
            ),
            Some(name) if !follows_grammar(name) => notes.info(
                Code::ManifestNameCharset,
                path,
                "has a name that other hosts may refuse: use lower case letters, digits, `-` and `.`",
            ),
            Some(_) => {}
        }
        manifest.version = checked_text(document, "version", path, notes);
        manifest.description = checked_text(document, "description", path, notes);
        Some(manifest)
    }
}

/// Reads the locations that a manifest, or the entry of a marketplace, declares.
pub(crate) fn declarations(document: &Document<'_>, path: &str, notes: &mut Notes) -> Declarations {
    let mut read = |field: &str, inline: Inline| match document.object().get(field) {
        Some(property) => declared(property, inline, path, notes),
        None => Declared::default(),
    };
    Declarations {
        skills: read("skills", Inline::Meaningless),
        commands: read("commands", Inline::Meaningless),
        agents: read("agents", Inline::Meaningless),
        rules: read("rules", Inline::Meaningless),
        hooks: read("hooks", Inline::Possible),
        mcp_servers: read("mcpServers", Inline::Possible),
    }
}

fn declared(property: &ObjectProp<'_>, inline: Inline, path: &str, notes: &mut Notes) -> Declared {
    let field = property.name.as_str();
    let mut declared = Declared {
        is_present: true,
        ..Declared::default()
    };
    let mut odd = |what: &str| {
        notes.warn(
            Code::ManifestFieldType,
            path,
            format!("`{field}` {what}: give a path, a list of paths, or `{{\"paths\": […]}}`"),
        );
    };
    let mut take = |node: &Node<'_>, declared: &mut Declared| match node {
        Node::StringLit(text) => declared.paths.push(text.value.to_string()),
        Node::Array(array) => {
            for element in array.elements.iter().take(MAX_LIST_ITEMS) {
                match element {
                    Node::StringLit(text) => declared.paths.push(text.value.to_string()),
                    _ => odd("has an item that is not a path"),
                }
            }
        }
        _ => odd("is neither a path nor a list of paths"),
    };
    match &property.value {
        Node::Object(object) => match object.get("paths").map(|paths| &paths.value) {
            Some(paths @ (Node::StringLit(_) | Node::Array(_))) => {
                declared.exclusive = object.get_boolean("exclusive").is_some_and(|flag| flag.value);
                take(paths, &mut declared);
            }
            _ if inline == Inline::Possible => declared.is_inline = true,
            _ => odd("is an object without `paths`"),
        },
        Node::NullKeyword(_) => declared.is_present = false,
        other => take(other, &mut declared),
    }
    declared
}

fn text(document: &Document<'_>, field: &str) -> Option<String> {
    let text = document.object().get_string(field)?;
    let text = printable(&text.value, MAX_NAME_CHARS);
    (!text.is_empty()).then_some(text)
}

fn checked_text(document: &Document<'_>, field: &str, path: &str, notes: &mut Notes) -> Option<String> {
    match &document.object().get(field)?.value {
        Node::StringLit(text) => {
            let text = readable(&text.value, MAX_DESCRIPTION_CHARS);
            (!text.is_empty()).then_some(text)
        }
        _ => {
            notes.info(
                Code::ManifestFieldType,
                path,
                format!("`{field}` is not a string and is left out: put it in quotes"),
            );
            None
        }
    }
}

/// The grammar of names: 1 to 64 of `a-z 0-9 - .`, letters or digits at both ends, no `--`, no `..`.
pub(crate) fn follows_grammar(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=64).contains(&name.len())
        && name.chars().all(|c| is_word(c) || c == '-' || c == '.')
        && name.starts_with(is_word)
        && name.ends_with(is_word)
        && !name.contains("--")
        && !name.contains("..")
}

/// The fields of an Agent Plugin's manifest.
const STRICT_FIELDS: &[&str] = &[
    "$schema",
    "name",
    "version",
    "description",
    "homepage",
    "repository",
    "license",
    "author",
    "keywords",
    "extensions",
];

/// Reads the manifest of an Agent Plugin, whose mistakes are fatal.
fn strict(document: &Document<'_>, path: &str, notes: &mut Notes) -> Option<Manifest> {
    match strict_fields(document) {
        Ok(manifest) => {
            for property in &document.object().properties {
                let field = property.name.as_str();
                if !STRICT_FIELDS.contains(&field) {
                    let field = printable(field, 64);
                    notes.warn(
                        Code::ManifestUnknownField,
                        path,
                        format!("`{field}` is not a field of Agent Plugins and is ignored: remove it"),
                    );
                }
            }
            check_extensions(document, path, notes);
            Some(manifest)
        }
        Err((code, message)) => {
            notes.error(code, path, message);
            None
        }
    }
}

fn strict_fields(document: &Document<'_>) -> Result<Manifest, (Code, String)> {
    let object = document.object();
    let schema = object.get_string("$schema").map_or("", |schema| schema.value.as_ref());
    let version = schema
        .strip_prefix(SCHEMA_PREFIX)
        .and_then(|rest| rest.strip_suffix("/plugin.schema.json"));
    if !version.is_some_and(|version| SCHEMA_VERSIONS.contains(&version)) {
        let versions = SCHEMA_VERSIONS.join(", ");
        return Err((
            Code::ManifestVersion,
            format!("its `$schema` is of a version that is not supported: this host reads {versions}"),
        ));
    }
    let wrong = |what: &str| Err((Code::ManifestFieldType, format!("{what}: Agent Plugins demand it")));
    for field in ["version", "description", "homepage", "repository", "license"] {
        if object.get(field).is_some() && object.get_string(field).is_none() {
            return wrong(&format!("`{field}` must be text"));
        }
    }
    if let Some(keywords) = object.get("keywords") {
        let is_list = matches!(&keywords.value, Node::Array(array)
            if array.elements.iter().all(|element| matches!(element, Node::StringLit(_))));
        if !is_list {
            return wrong("`keywords` must be a list of texts");
        }
    }
    if let Some(author) = object.get("author") {
        let is_author = matches!(&author.value, Node::Object(author)
        if author.properties.iter().all(|property| {
            ["name", "email", "url"].contains(&property.name.as_str())
                && matches!(property.value, Node::StringLit(_))
        }));
        if !is_author {
            return wrong("`author` must be an object of `name`, `email` and `url`");
        }
    }
    let name = object.get_string("name").map(|name| name.value.to_string());
    let Some(name) = name.filter(|name| follows_grammar(name)) else {
        return Err((
            Code::ManifestNameCharset,
            "`name` must be 1 to 64 lower case letters, digits, `-` and `.`: Agent Plugins demand it".to_owned(),
        ));
    };
    let text = |field: &str| {
        let text = object.get_string(field)?;
        let text = readable(&text.value, MAX_DESCRIPTION_CHARS);
        (!text.is_empty()).then_some(text)
    };
    Ok(Manifest {
        name: Some(name),
        version: text("version"),
        description: text("description"),
        ..Manifest::default()
    })
}

fn check_extensions(document: &Document<'_>, path: &str, notes: &mut Notes) {
    let Some(extensions) = document.object().get("extensions") else {
        return;
    };
    let is_right = matches!(&extensions.value, Node::Object(object)
        if object.properties.iter().all(|property| matches!(property.value, Node::Object(_))));
    if !is_right {
        notes.warn(
            Code::ManifestFieldType,
            path,
            "`extensions` is ignored: it must be an object of objects",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar_or_not() {
        for name in ["a", "a-b.c", "0", &"a".repeat(64)] {
            assert!(follows_grammar(name), "{name}");
        }
        for name in ["", "A", "a b", "-a", "a-", ".a", "a--b", "a..b", "é", &"a".repeat(65)] {
            assert!(!follows_grammar(name), "{name}");
        }
    }
}
