//! Contents of files that changes refer to, fetched when they are first shown.

use std::collections::{HashMap, HashSet};

use ahp_types::commands::{ContentEncoding, ResourceReadResult};
use ahp_types::state::FileEditSide;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Contents that are remembered.
const MAX_CONTENTS: usize = 200;
/// Contents longer than this are not shown.
const MAX_BYTES: usize = 512 << 10;

/// Contents by their URI; those without text are not available, or not text.
#[derive(Debug, Default)]
pub struct Contents {
    known: HashMap<String, Option<String>>,
    wanted: Vec<String>,
    requested: HashSet<String>,
}

impl Contents {
    /// Returns the text of one side of a change, if it is known; a missing side is an empty text. `None` means that it
    /// is on its way, and `Some(None)` that it cannot be shown.
    pub fn text(&mut self, side: Option<&FileEditSide>) -> Option<Option<String>> {
        let Some(side) = side else {
            return Some(Some(String::new()));
        };
        let uri = &side.content.uri;
        if let Some(data) = uri.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            return Some(decoded(data.1));
        }
        if let Some(known) = self.known.get(uri) {
            return Some(known.clone());
        }
        if self.requested.insert(uri.clone()) {
            self.wanted.push(uri.clone());
        }
        None
    }

    /// Returns the URIs that texts were asked of for the first time, for `resourceRead`.
    pub fn take_wanted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.wanted)
    }

    /// Takes the response to a request.
    pub fn take(&mut self, uri: String, response: Option<Value>) {
        // Those on their way belong to what is shown now.
        if self.known.len() >= MAX_CONTENTS && self.known.len() == self.requested.len() {
            self.known.clear();
            self.requested.clear();
        }
        let read = response.and_then(|response| serde_json::from_value::<ResourceReadResult>(response).ok());
        let text = read.and_then(|read| match read.encoding {
            ContentEncoding::Base64 => decoded(&read.data),
            _ => Some(read.data),
        });
        self.known.insert(uri, text.filter(|text| text.len() <= MAX_BYTES));
    }

    /// Requests again what was on its way, after the connection broke.
    pub fn forget_requests(&mut self) {
        let known = &self.known;
        self.requested.retain(|uri| known.contains_key(uri));
    }

    /// Returns a number that changes when contents arrive, so that texts made of them are renewed.
    pub fn revision(&self) -> usize {
        self.known.len()
    }
}

fn decoded(data: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(data).ok()?).ok()
}
