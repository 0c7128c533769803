//! The part of YAML that frontmatter needs: fields with their scalars as they were written.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle};

use crate::limits::{MAX_YAML_DEPTH, MAX_YAML_NODES};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Yaml {
    /// Text without quotes, which may stand for a number, a boolean or nothing.
    Plain(String),
    /// Text in quotes or in a block.
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// The fields of a mapping, in the order of the text; of a duplicate key the first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) fields: Vec<(String, Yaml)>,
    pub(crate) has_duplicates: bool,
}

/// Reads a mapping. Errors are for users.
pub(crate) fn read_mapping(text: &str) -> Result<Fields, String> {
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_YAML_DEPTH,
        block_nesting_limit: MAX_YAML_DEPTH,
        disallow_directives: true,
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, _) = event.map_err(|error| format!("line {}", error.marker().line()))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        builder.take(event)?;
    }
    match builder.done {
        Some(Yaml::Map(pairs)) => Ok(first_of_each(pairs)),
        None => Ok(Fields::default()),
        Some(Yaml::Plain(text)) if is_nothing(&text) => Ok(Fields::default()),
        Some(_) => Err("it is not a list of fields".to_owned()),
    }
}

/// Whether plain text means null.
pub(crate) fn is_nothing(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

pub(crate) fn first_of_each(pairs: Vec<(String, Yaml)>) -> Fields {
    let mut seen = HashSet::new();
    let count = pairs.len();
    let first = pairs.into_iter().filter(|(key, _)| seen.insert(key.clone()));
    let fields: Vec<(String, Yaml)> = first.collect();
    Fields {
        has_duplicates: fields.len() < count,
        fields,
    }
}

#[derive(Debug, Default)]
struct Builder {
    open: Vec<Open>,
    /// The values of aliases, with their number of nodes.
    anchors: HashMap<usize, (Yaml, usize)>,
    nodes: usize,
    done: Option<Yaml>,
}

#[derive(Debug)]
struct Open {
    anchor: usize,
    nodes_before: usize,
    collection: Collection,
}

#[derive(Debug)]
enum Collection {
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>, Option<String>),
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = match style {
                    ScalarStyle::Plain => Yaml::Plain(text.into_owned()),
                    _ => Yaml::Text(text.into_owned()),
                };
                self.count(1)?;
                self.keep(anchor, &value, 1);
                self.add(value);
            }
            Event::Alias(anchor) => {
                let (value, nodes) = self.anchors.get(&anchor).ok_or("it has an alias of itself")?.clone();
                // Counted before the copy, which stops a bomb of aliases.
                self.count(nodes)?;
                self.add(value);
            }
            Event::SequenceStart(_, anchor, _) => self.open(anchor, Collection::List(Vec::new()))?,
            Event::MappingStart(_, anchor, _) => self.open(anchor, Collection::Map(Vec::new(), None))?,
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let value = match open.collection {
                    Collection::List(items) => Yaml::List(items),
                    Collection::Map(pairs, _) => Yaml::Map(pairs),
                };
                self.keep(open.anchor, &value, self.nodes - open.nodes_before);
                self.add(value);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, anchor: usize, collection: Collection) -> Result<(), String> {
        let nodes_before = self.nodes;
        self.count(1)?;
        self.open.push(Open {
            anchor,
            nodes_before,
            collection,
        });
        Ok(())
    }

    fn count(&mut self, nodes: usize) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_YAML_NODES {
            return Err("it is too large".to_owned());
        }
        Ok(())
    }

    fn keep(&mut self, anchor: usize, value: &Yaml, nodes: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), nodes));
        }
    }

    fn add(&mut self, value: Yaml) {
        match self.open.last_mut().map(|open| &mut open.collection) {
            None => self.done = Some(value),
            Some(Collection::List(items)) => items.push(value),
            Some(Collection::Map(pairs, key)) => match key.take() {
                Some(name) => pairs.push((name, value)),
                None => {
                    *key = Some(match value {
                        Yaml::Plain(text) | Yaml::Text(text) => text,
                        // A key that is no text names no field that is read.
                        Yaml::List(_) | Yaml::Map(_) => String::new(),
                    });
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Yaml {
        Yaml::Plain(text.to_owned())
    }

    #[test]
    fn scalars_stay_as_written() {
        let fields = read_mapping("a: 012\nb: yes\nc: \"x\"\nd: 1.0 # comment\n")
            .unwrap()
            .fields;
        let values: Vec<_> = fields.into_iter().map(|(_, value)| value).collect();
        assert_eq!(
            values,
            [plain("012"), plain("yes"), Yaml::Text("x".to_owned()), plain("1.0")]
        );
    }

    #[test]
    fn a_list_may_be_closed_at_the_first_column() {
        let fields = read_mapping("tools: [\n  a,\n  b\n]\n").unwrap().fields;
        assert_eq!(fields, [("tools".to_owned(), Yaml::List(vec![plain("a"), plain("b")]))]);
    }

    #[test]
    fn the_first_of_two_keys_counts() {
        let read = read_mapping("a: 1\na: 2\n").unwrap();
        assert!(read.has_duplicates);
        assert_eq!(read.fields, [("a".to_owned(), plain("1"))]);
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let below = level - 1;
            let aliases = vec![format!("*a{below}"); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(read_mapping(&bomb).is_err());
        assert!(read_mapping(&format!("a: {}", "[".repeat(20_000))).is_err());
        assert!(read_mapping("a: &a [*a]").is_err());
    }
}
