//! Finds unknown keys of the configuration file, and suggests the key that was meant.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor, value::Error};
use toml::de::DeTable;

use super::mcp::servers::{ServerSection, sections};
use super::{
    AGENTS, AgentSection, CUSTOMIZATIONS, ConfigFile, CustomizationsSection, FixedLimits, LIMITS, LimitsSection, MCP,
    MODELS, McpSection, ModelConfig, Models, ProviderConfig, RESOURCES, RETENTION, ResourcesSection, Retention,
    TELEMETRY, TERMINALS, TelemetrySection, TerminalsSection,
};
use innkeeper_cli::terminal::one_line;

/// An unknown key.
#[derive(Debug)]
pub(super) struct UnknownKey {
    /// Byte offset of the key in the file.
    pub(super) position: usize,
    prefix: String,
    name: String,
    known: &'static [&'static str],
    /// Whether earlier versions had this key.
    was_setting: bool,
}

impl UnknownKey {
    /// Describes the key and suggests another.
    pub(super) fn describe(&self) -> String {
        if self.was_setting {
            return format!("{}{} is no longer a setting; remove it", self.prefix, self.name);
        }
        let nearest = self
            .known
            .iter()
            .map(|known| (edit_distance(&self.name, known), *known))
            .min();
        let name = format!("{}{}", self.prefix, self.name);
        match nearest {
            // Beyond a third of the letters a suggestion is noise.
            Some((distance, known)) if distance <= known.len().max(3) / 3 => {
                format!("unknown key `{name}` is ignored; did you mean `{known}`?")
            }
            _ => format!(
                "unknown key `{name}` is ignored; the keys here are {}",
                list(self.known)
            ),
        }
    }
}

/// Returns the unknown keys of a parsed file, in its order.
pub(super) fn find(root: &DeTable<'_>) -> Vec<UnknownKey> {
    let mut unknown = Vec::new();
    collect::<ConfigFile>(root, "", &mut unknown);
    if let Some(limits) = section(root, LIMITS) {
        collect::<LimitsSection>(limits, "limits.", &mut unknown);
        let removed = field_names::<FixedLimits>();
        for key in unknown.iter_mut().filter(|key| key.prefix == "limits.") {
            key.was_setting = removed.contains(&key.name.as_str());
        }
    }
    if let Some(retention) = section(root, RETENTION) {
        collect::<Retention>(retention, "retention.", &mut unknown);
    }
    if let Some(resources) = section(root, RESOURCES) {
        collect::<ResourcesSection>(resources, "resources.", &mut unknown);
    }
    if let Some(customizations) = section(root, CUSTOMIZATIONS) {
        collect::<CustomizationsSection>(customizations, "customizations.", &mut unknown);
    }
    if let Some(mcp) = section(root, MCP) {
        collect::<McpSection>(mcp, "mcp.", &mut unknown);
        for (name, _, server) in sections(root) {
            collect::<ServerSection>(server, &format!("mcp.servers.{}.", one_line(name, 80)), &mut unknown);
        }
    }
    for (name, agent) in section(root, AGENTS).into_iter().flatten() {
        if let Some(agent) = agent.get_ref().as_table() {
            let prefix = format!("agents.{}.", one_line(name.get_ref(), 80));
            collect::<AgentSection>(agent, &prefix, &mut unknown);
        }
    }
    if let Some(terminals) = section(root, TERMINALS) {
        collect::<TerminalsSection>(terminals, "terminals.", &mut unknown);
    }
    if let Some(telemetry) = section(root, TELEMETRY) {
        collect::<TelemetrySection>(telemetry, "telemetry.", &mut unknown);
    }
    if let Some(models) = section(root, MODELS) {
        collect::<Models>(models, "models.", &mut unknown);
        for provider in tables(models, "providers") {
            collect::<ProviderConfig>(provider, "models.providers.", &mut unknown);
            for model in tables(provider, "models") {
                collect::<ModelConfig>(model, "models.providers.models.", &mut unknown);
            }
        }
    }
    unknown.sort_by_key(|key| key.position);
    unknown
}

/// Returns the position of a key of a section, or the start of the file if the key is written in another form.
pub(super) fn position(root: &DeTable<'_>, section_name: &str, key: &str) -> usize {
    section(root, section_name)
        .and_then(|table| table.keys().find(|found| *found.get_ref() == key))
        .map_or(0, |found| found.span().start)
}

fn section<'a, 'i>(root: &'a DeTable<'i>, name: &str) -> Option<&'a DeTable<'i>> {
    root.get(name)?.get_ref().as_table()
}

/// Returns the tables of an array of tables.
fn tables<'a, 'i>(table: &'a DeTable<'i>, name: &str) -> impl Iterator<Item = &'a DeTable<'i>> {
    let list = table.get(name).and_then(|value| value.get_ref().as_array());
    list.into_iter()
        .flatten()
        .filter_map(|entry| entry.get_ref().as_table())
}

fn collect<'de, Section: Deserialize<'de>>(table: &DeTable<'_>, prefix: &str, unknown: &mut Vec<UnknownKey>) {
    let known = field_names::<Section>();
    for key in table.keys() {
        let name: &str = key.get_ref();
        if !known.contains(&name) {
            unknown.push(UnknownKey {
                position: key.span().start,
                prefix: prefix.to_owned(),
                name: name.to_owned(),
                known,
                was_setting: false,
            });
        }
    }
}

/// Returns every key that the file may have, sections included.
#[cfg(test)]
pub(super) fn all_keys() -> impl Iterator<Item = &'static str> {
    let sections = [
        field_names::<ConfigFile>(),
        field_names::<AgentSection>(),
        field_names::<LimitsSection>(),
        field_names::<Retention>(),
        field_names::<Models>(),
        field_names::<ResourcesSection>(),
        field_names::<CustomizationsSection>(),
        field_names::<McpSection>(),
        field_names::<ServerSection>(),
        field_names::<TelemetrySection>(),
        field_names::<TerminalsSection>(),
        field_names::<ProviderConfig>(),
    ];
    sections.into_iter().flatten().copied()
}

/// Returns the field names of a struct from its own deserializer, so that there is no second list.
pub(super) fn field_names<'de, Section: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The probe stops with an error after it has seen the names.
    let _ = Section::deserialize(FieldNameProbe(&mut names)).is_err();
    names
}

struct FieldNameProbe<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNameProbe<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only the field names are wanted"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn list(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Counts the single-character edits between two words.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        for (from, to, distance) in [
            ("", "", 0),
            ("listen", "listen", 0),
            ("lisen", "listen", 1),
            ("token-file", "token_file", 1),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
        ] {
            assert_eq!(edit_distance(from, to), distance, "{from} {to}");
        }
    }

    #[test]
    fn probe_sees_the_field_names() {
        assert!(field_names::<ConfigFile>().contains(&"allow_origin"));
    }
}
