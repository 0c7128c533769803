//! Lists in pages, with a bound on all of them.

use serde_json::{Map, Value};

/// Collects the pages of one list.
#[derive(Debug)]
pub(crate) struct Pages {
    field: &'static str,
    entries: Vec<Value>,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
    seen: Vec<String>,
    /// True if something was left out.
    pub(crate) is_cut: bool,
}

impl Pages {
    pub(crate) fn new(field: &'static str, max_entries: usize, max_bytes: usize) -> Self {
        Self {
            field,
            entries: Vec::new(),
            bytes: 0,
            max_entries,
            max_bytes,
            seen: Vec::new(),
            is_cut: false,
        }
    }

    /// Takes a page, and returns the parameters of the next one, if there is one to fetch.
    pub(crate) fn take(&mut self, page: &str) -> Result<Option<Map<String, Value>>, serde_json::Error> {
        self.bytes = self.bytes.saturating_add(page.len());
        if self.bytes > self.max_bytes {
            self.is_cut = true;
            return Ok(None);
        }
        let mut page: Value = serde_json::from_str(page)?;
        if let Some(Value::Array(entries)) = page.get_mut(self.field).map(Value::take) {
            self.entries.extend(entries);
        }
        let Some(Value::String(cursor)) = page.get_mut("nextCursor").map(Value::take) else {
            return self.finish();
        };
        // A cursor that repeats would go on for ever.
        if self.entries.len() >= self.max_entries || self.seen.contains(&cursor) || self.seen.len() >= self.max_entries
        {
            self.is_cut = true;
            return self.finish();
        }
        self.seen.push(cursor.clone());
        let mut next = Map::new();
        next.insert("cursor".to_owned(), Value::String(cursor));
        Ok(Some(next))
    }

    fn finish(&mut self) -> Result<Option<Map<String, Value>>, serde_json::Error> {
        self.is_cut |= self.entries.len() > self.max_entries;
        self.entries.truncate(self.max_entries);
        Ok(None)
    }

    pub(crate) fn into_entries(self) -> Vec<Value> {
        self.entries
    }
}

/// Returns a string member of an entry.
pub(crate) fn text(entry: &Value, field: &str) -> Option<String> {
    entry.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_joined() {
        let mut pages = Pages::new("tools", 10, 1000);
        let next = pages.take(r#"{"tools":[1,2],"nextCursor":"a"}"#).unwrap().unwrap();
        assert_eq!(next["cursor"], "a");
        assert!(pages.take(r#"{"tools":[3]}"#).unwrap().is_none());
        assert!(!pages.is_cut);
        assert_eq!(pages.into_entries(), [1, 2, 3]);
    }

    #[test]
    fn an_endless_list_is_cut() {
        let mut pages = Pages::new("tools", 3, 1000);
        assert!(pages.take(r#"{"tools":[],"nextCursor":"a"}"#).unwrap().is_some());
        assert!(pages.take(r#"{"tools":[],"nextCursor":"a"}"#).unwrap().is_none());
        assert!(pages.is_cut);
        let mut pages = Pages::new("tools", 3, 1000);
        assert!(pages.take(r#"{"tools":[1,2,3,4],"nextCursor":"a"}"#).unwrap().is_none());
        assert_eq!(pages.into_entries().len(), 3);
        let mut pages = Pages::new("tools", 3, 10);
        assert!(pages.take(r#"{"tools":[1],"nextCursor":"a"}"#).unwrap().is_none());
        assert!(pages.is_cut);
    }
}
