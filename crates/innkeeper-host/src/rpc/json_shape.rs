//! Bounds on the shape of JSON, checked before anything is built from it.

/// How deep and how wide inbound JSON may be.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Deepest nesting.
    pub depth: usize,
    /// Most members of one object or array.
    pub members: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            depth: 64,
            members: 100_000,
        }
    }
}

/// Walks valid JSON once and says what is too deep or too wide.
pub(super) fn check(text: &str, shape: Shape) -> Result<(), String> {
    let mut members: Vec<usize> = Vec::with_capacity(8);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => {
                if members.len() >= shape.depth {
                    return Err(format!("the JSON is nested more than {} levels deep", shape.depth));
                }
                members.push(1);
            }
            b'}' | b']' => {
                members.pop();
            }
            b',' => {
                if let Some(count) = members.last_mut() {
                    *count += 1;
                    if *count > shape.members {
                        return Err(format!("an object or array has more than {} members", shape.members));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn skip_string(bytes: &mut impl Iterator<Item = u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_inside_strings_do_not_count() {
        let shape = Shape { depth: 2, members: 2 };
        assert_eq!(check(r#"{"a":"[[[[\"{{{,,,,"}"#, shape), Ok(()));
        assert!(check("[[[1]]]", shape).is_err());
        assert!(check("[1,2,3]", shape).is_err());
        assert_eq!(check("[[1,2],[3,4]]", shape), Ok(()));
    }
}
