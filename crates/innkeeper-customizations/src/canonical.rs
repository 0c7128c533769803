//! JSON whose digest depends on its values alone.

use serde_json::Value;

/// The text of a value with the members of every object sorted by name.
///
/// The digest of such a text identifies the contents that a user allowed. It must not depend on the order of members in
/// a file, in the code, or in the maps of the JSON library.
pub(crate) fn canonical_json(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn p12_the_order_of_members_does_not_matter() {
        let one = json!({ "name": "inn", "file": ".mcp.json", "entry": { "command": "serve", "args": ["b", "a"] } });
        let moved = json!({ "entry": { "args": ["b", "a"], "command": "serve" }, "file": ".mcp.json", "name": "inn" });
        assert_eq!(canonical_json(one.clone()), canonical_json(moved));
        // The text that earlier versions made a digest of: the users' earlier permissions stay valid.
        let text = r#"{"entry":{"args":["b","a"],"command":"serve"},"file":".mcp.json","name":"inn"}"#;
        assert_eq!(canonical_json(one), text);
    }
}
