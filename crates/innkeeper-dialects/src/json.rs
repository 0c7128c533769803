//! Small operations on JSON objects that keep the order of members.

use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Renames a member without moving it; a member of the new name is replaced.
pub(crate) fn rename(object: &mut Object, from: &str, to: &str) {
    replace(object, from, to, Some);
}

/// Replaces a member by one of another name and value at the same position; `None` removes it.
pub(crate) fn replace(object: &mut Object, from: &str, to: &str, with: impl FnOnce(Value) -> Option<Value>) {
    let Some(position) = object.keys().position(|key| key == from) else {
        return;
    };
    let Some(value) = object.shift_remove(from).and_then(with) else {
        return;
    };
    object.shift_remove(to);
    let position = position.min(object.len());
    object.shift_insert(position, to.to_owned(), value);
}

/// Inserts a member right behind another, or at the end if that is missing; an existing member is replaced in place.
pub(crate) fn insert_after(object: &mut Object, behind: &str, key: &str, value: Value) {
    if let Some(known) = object.get_mut(key) {
        *known = value;
        return;
    }
    let position = object.keys().position(|known| known == behind);
    let position = position.map_or(object.len(), |position| position + 1);
    object.shift_insert(position, key.to_owned(), value);
}

/// The text of a member.
pub(crate) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// The object in a member.
pub(crate) fn object<'a>(object: &'a Object, key: &str) -> Option<&'a Object> {
    object.get(key).and_then(Value::as_object)
}

/// The object in a member.
pub(crate) fn object_mut<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    object.get_mut(key).and_then(Value::as_object_mut)
}

/// The list in a member.
pub(crate) fn list<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The list in a member.
pub(crate) fn list_mut<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Vec<Value>> {
    object.get_mut(key).and_then(Value::as_array_mut)
}

/// The objects of the list in a member.
pub(crate) fn objects<'a>(object: &'a Object, key: &str) -> impl DoubleEndedIterator<Item = &'a Object> + use<'a> {
    list(object, key).iter().filter_map(Value::as_object)
}

/// The objects of the list in a member.
pub(crate) fn objects_mut<'a>(object: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> + use<'a> {
    let list = list_mut(object, key).map_or(&mut [][..], Vec::as_mut_slice);
    list.iter_mut().filter_map(Value::as_object_mut)
}

/// Whether a member is this text.
pub(crate) fn is(object: &Object, key: &str, wanted: &str) -> bool {
    text(object, key) == Some(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(object: &Value) -> Vec<&str> {
        object.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn a_renamed_member_keeps_its_position() {
        let mut value = json!({ "a": 1, "b": 2, "c": 3 });
        rename(value.as_object_mut().unwrap(), "b", "x");
        assert_eq!(keys(&value), ["a", "x", "c"]);
        assert_eq!(value, json!({ "a": 1, "x": 2, "c": 3 }));
    }

    #[test]
    fn renaming_replaces_a_member_of_the_new_name() {
        let mut value = json!({ "a": 1, "b": 2, "c": 3 });
        rename(value.as_object_mut().unwrap(), "c", "a");
        assert_eq!(value, json!({ "b": 2, "a": 3 }));
        rename(value.as_object_mut().unwrap(), "missing", "a");
        assert_eq!(value, json!({ "b": 2, "a": 3 }));
    }

    #[test]
    fn a_member_is_inserted_behind_another() {
        let mut value = json!({ "type": "t", "z": 0 });
        let object = value.as_object_mut().unwrap();
        insert_after(object, "type", "session", json!("s"));
        insert_after(object, "missing", "last", json!(1));
        insert_after(object, "type", "z", json!(2));
        assert_eq!(keys(&value), ["type", "session", "z", "last"]);
        assert_eq!(value["z"], 2);
    }
}
