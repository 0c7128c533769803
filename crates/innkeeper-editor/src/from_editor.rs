//! The mapping from ACP to AHP: the blocks of a prompt as a message, paths as URIs, and the abilities of an editor.
//!
//! Nothing here waits or has a state.

use ahp_types::state::{
    Message, MessageAttachment, MessageEmbeddedResourceAttachment, MessageKind, MessageOrigin,
    MessageResourceAttachment, ModelSelection,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The abilities that an editor declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// It shows options that are on or off.
    pub(crate) booleans: bool,
    /// It asks its user with forms.
    pub(crate) forms: bool,
    /// It asks its user to open an address.
    pub(crate) urls: bool,
    /// It draws the output of terminals that others run.
    pub(crate) terminals: bool,
}

impl Abilities {
    /// Reads the parameters of `initialize`.
    pub(crate) fn read(params: &Value) -> Self {
        let client = &params["clientCapabilities"];
        Self {
            booleans: client["session"]["configOptions"]["boolean"].is_object(),
            forms: client["elicitation"]["form"].is_object(),
            urls: client["elicitation"]["url"].is_object(),
            terminals: client["_meta"]["terminal_output"] == true,
        }
    }
}

/// Returns the directories of a session: the editor's working directory first.
///
/// # Errors
///
/// With the reason, if one is no absolute path.
pub(crate) fn directories(params: &Value) -> Result<Vec<String>, String> {
    let cwd = params["cwd"].as_str().ok_or("`cwd` is missing")?;
    let more = params["additionalDirectories"].as_array().into_iter().flatten();
    let more = more.map(|path| {
        path.as_str()
            .ok_or("`additionalDirectories` has an entry that is no path")
    });
    let paths: Result<Vec<&str>, &str> = std::iter::once(Ok(cwd)).chain(more).collect();
    paths?.into_iter().map(directory).collect()
}

/// Returns a directory as a URI.
///
/// # Errors
///
/// With the reason, if it is no absolute path.
pub(crate) fn directory(path: &str) -> Result<String, String> {
    let trimmed = match path.trim_end_matches('/') {
        "" => path,
        trimmed => trimmed,
    };
    url::Url::from_file_path(trimmed)
        .map(String::from)
        .map_err(|()| format!("`{path}` is no absolute path"))
}

/// Returns the message of a prompt. Its text names the attachments, where the user put them.
pub(crate) fn message(prompt: &Value, model: Option<&str>) -> Message {
    let mut text = String::new();
    let mut attachments = Vec::new();
    for block in prompt.as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("text") => text.push_str(block["text"].as_str().unwrap_or_default()),
            _ => {
                let Some((attachment, mention)) = attachment(block) else {
                    continue;
                };
                text.push_str(&mention);
                attachments.push(attachment);
            }
        }
    }
    Message {
        text,
        origin: MessageOrigin {
            kind: MessageKind::User,
        },
        attachments: (!attachments.is_empty()).then_some(attachments),
        model: model.map(|id| ModelSelection {
            id: id.to_owned(),
            config: None,
        }),
        agent: None,
        meta: None,
    }
}

/// Returns what a block attaches, and how the text mentions it.
fn attachment(block: &Value) -> Option<(MessageAttachment, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match block["type"].as_str()? {
        "resource_link" => {
            let uri = block["uri"].as_str()?;
            let label = text(&block["name"]).unwrap_or_else(|| label_of(uri));
            let mention = format!("@{label}");
            // Editors put the lines of a selection behind the address.
            let uri = uri.split('#').next().unwrap_or(uri).to_owned();
            let attachment = MessageResourceAttachment {
                label,
                range: None,
                display_kind: Some("document".to_owned()),
                meta: None,
                uri,
                size_hint: None,
                content_type: text(&block["mimeType"]),
                nonce: None,
                selection: None,
            };
            Some((MessageAttachment::Resource(attachment), mention))
        }
        "resource" => {
            let resource = &block["resource"];
            let label = label_of(resource["uri"].as_str().unwrap_or("file"));
            let (data, otherwise) = match resource["text"].as_str() {
                Some(text) => (STANDARD.encode(text), "text/plain"),
                None => (text(&resource["blob"])?, "application/octet-stream"),
            };
            let content_type = text(&resource["mimeType"]).unwrap_or_else(|| otherwise.to_owned());
            let mention = format!("@{label}");
            Some((embedded(label, data, content_type), mention))
        }
        kind @ ("image" | "audio") => {
            let label = block["uri"].as_str().map_or_else(|| kind.to_owned(), label_of);
            let content_type = text(&block["mimeType"])?;
            Some((embedded(label, text(&block["data"])?, content_type), String::new()))
        }
        _ => None,
    }
}

fn embedded(label: String, data: String, content_type: String) -> MessageAttachment {
    let kind = match content_type.starts_with("image/") {
        true => "image",
        false => "document",
    };
    MessageAttachment::EmbeddedResource(MessageEmbeddedResourceAttachment {
        label,
        range: None,
        display_kind: Some(kind.to_owned()),
        meta: None,
        data,
        content_type,
        selection: None,
    })
}

fn label_of(uri: &str) -> String {
    uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_of_a_prompt_become_text_and_attachments() {
        let prompt = json!([
            { "type": "text", "text": "Compare " },
            { "type": "resource_link", "uri": "file:///inn/a.rs#L3:7", "name": "a.rs" },
            { "type": "text", "text": " with " },
            { "type": "resource", "resource": { "uri": "file:///inn/b.rs", "text": "fn b() {}" } },
            { "type": "image", "data": "AAEC", "mimeType": "image/png" },
            { "type": "hologram" },
        ]);
        let message = message(&prompt, Some("fast"));
        assert_eq!(message.text, "Compare @a.rs with @b.rs");
        assert_eq!(message.model.map(|model| model.id).as_deref(), Some("fast"));
        let attachments = message.attachments.expect("attachments");
        let [
            MessageAttachment::Resource(link),
            MessageAttachment::EmbeddedResource(file),
            MessageAttachment::EmbeddedResource(image),
        ] = &attachments[..]
        else {
            panic!("{attachments:?}");
        };
        assert_eq!(link.uri, "file:///inn/a.rs");
        assert_eq!((&*file.label, &*file.content_type), ("b.rs", "text/plain"));
        assert_eq!(STANDARD.decode(&file.data).expect("base64"), b"fn b() {}");
        assert_eq!(image.display_kind.as_deref(), Some("image"));
    }

    #[test]
    fn directories_have_to_be_absolute() {
        let params = json!({ "cwd": "/inn/keeper/", "additionalDirectories": ["/tmp"] });
        let expected = ["file:///inn/keeper", "file:///tmp"].map(str::to_owned);
        assert_eq!(directories(&params), Ok(expected.to_vec()));
        assert_eq!(directories(&json!({ "cwd": "/" })), Ok(vec!["file:///".to_owned()]));
        for wrong in [
            json!({}),
            json!({ "cwd": "inn" }),
            json!({ "cwd": "/", "additionalDirectories": [1] }),
        ] {
            assert!(directories(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn abilities_are_those_that_are_declared() {
        assert_eq!(Abilities::read(&json!({})), Abilities::default());
        let zed = json!({ "clientCapabilities": { "fs": {}, "terminal": true, "_meta": { "terminal_output": true } } });
        let expected = Abilities {
            terminals: true,
            ..Abilities::default()
        };
        assert_eq!(Abilities::read(&zed), expected);
    }
}
