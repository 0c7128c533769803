//! The parts of a result that a turn gets, and those that are stored.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::shortened::{MAX_EMBEDDED_BYTES, MAX_PIECES, MAX_TEXT_BYTES};
use super::*;
use crate::services::contents::{self, ContentLimits, Contents as _, MemoryContents};
use crate::services::resources::{Content, ResourceError};

fn tool() -> McpTool {
    McpTool {
        tool: "read".to_owned(),
        server_name: "files".to_owned(),
        ..McpTool::default()
    }
}

/// Reads for a client that sees the session.
async fn read(store: &MemoryContents, uri: &str) -> Result<Content, ResourceError> {
    let seen = innkeeper_core::resources::AllowedRoot {
        uri: "ahp-session:/s".to_owned(),
        write: false,
        exact: true,
    };
    let stored = contents::StoredContents {
        contents: store,
        changes: &crate::services::changes::NoChanges,
    };
    contents::read(stored, uri, &[seen], usize::MAX).await
}

fn contents(most: usize) -> (Arc<MemoryContents>, SessionContents) {
    let contents = Arc::new(MemoryContents::new(ContentLimits {
        session_bytes: 20 << 20,
        total_bytes: 20 << 20,
    }));
    let of_session = SessionContents::new(contents.clone(), "ahp-session:/s".into(), most, Arc::default());
    (contents, of_session)
}

/// Returns the result of a call in a turn of its own.
async fn shortened(outcome: CallOutcome, contents: Option<&SessionContents>) -> ToolResult {
    let embedded = AtomicUsize::new(0);
    let place = ResultTarget {
        contents,
        listed: HashMap::new(),
        embedded: &embedded,
    };
    result_of(&tool(), outcome, place).await
}

fn image(base64: usize) -> ToolContent {
    ToolContent::Embedded {
        data: "A".repeat(base64),
        content_type: "image/png".to_owned(),
    }
}

fn texts(content: &[ToolContent]) -> String {
    let texts = content.iter().filter_map(|piece| match piece {
        ToolContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn kept(content: &[ToolContent]) -> Vec<(String, Option<String>, Option<u64>)> {
    let kept = content.iter().filter_map(|piece| match piece {
        ToolContent::Resource {
            uri,
            content_type,
            size,
            ..
        } => Some((uri.clone(), content_type.clone(), *size)),
        _ => None,
    });
    kept.collect()
}

#[tokio::test]
async fn mcp12_an_error_of_the_tool_is_told_in_its_words() {
    let outcome = CallOutcome {
        is_error: true,
        content: vec![ToolContent::Text("no such file".to_owned())],
        structured: None,
        ..CallOutcome::default()
    };
    let result = shortened(outcome, None).await;
    assert!(!result.success);
    assert_eq!(result.error.as_deref(), Some("no such file"));
    let silent = CallOutcome {
        is_error: true,
        ..CallOutcome::default()
    };
    let error = shortened(silent, None).await.error.expect("an error");
    assert_eq!(error, "read failed and did not say why");
}

#[tokio::test]
async fn res03_f17_a_long_text_is_truncated_and_stored_in_full() {
    let long = format!("begin{}ende", "ä".repeat(MAX_TEXT_BYTES));
    let image = STANDARD.encode(vec![7; MAX_EMBEDDED_BYTES]);
    let outcome = CallOutcome {
        content: vec![
            ToolContent::Text(long.clone()),
            ToolContent::Text("more".to_owned()),
            ToolContent::Embedded {
                data: image,
                content_type: "image/png".to_owned(),
            },
        ],
        structured: json(&long),
        ..CallOutcome::default()
    };
    let (store, of_session) = contents(8 << 20);
    let result = shortened(outcome, Some(&of_session)).await;
    let shown = texts(&result.content);
    assert!(shown.len() < MAX_TEXT_BYTES + 2048, "{}", shown.len());
    assert!(
        shown.starts_with("begin") && shown.contains("ende\n"),
        "both ends are shown"
    );
    assert_eq!(shown.matches("users can open").count(), 4, "{}", shown.len());
    assert_eq!(result.structured, None);
    let kept = kept(&result.content);
    let types: Vec<_> = kept
        .iter()
        .map(|(_, kind, _)| kind.as_deref().unwrap_or_default())
        .collect();
    assert_eq!(types, ["text/plain", "text/plain", "image/png", "application/json"]);
    for ((uri, _, size), expected) in kept.iter().zip([long.len(), 4, MAX_EMBEDDED_BYTES]) {
        let content = read(&store, uri).await.expect("it is kept");
        assert_eq!((content.bytes.len(), *size), (expected, u64::try_from(expected).ok()));
    }
    store.forget("ahp-session:/s").await;
    let gone = read(&store, &kept[0].0).await.expect_err("it is gone");
    assert!(gone.to_string().contains("not kept any more"), "{gone}");
}

#[tokio::test]
async fn f17_a_long_text_is_stored_in_parts_or_the_loss_is_stated() {
    let long = "ä".repeat(MAX_TEXT_BYTES);
    let outcome = || CallOutcome {
        content: vec![ToolContent::Text(long.clone())],
        ..CallOutcome::default()
    };
    let (store, of_session) = contents(MAX_TEXT_BYTES + 1);
    let result = shortened(outcome(), Some(&of_session)).await;
    let mut whole = Vec::new();
    for (uri, _, _) in kept(&result.content) {
        whole.extend(read(&store, &uri).await.expect("it is kept").bytes);
    }
    assert_eq!(whole, long.as_bytes());
    let result = shortened(outcome(), None).await;
    assert!(texts(&result.content).contains("could not be stored"));
    assert!(kept(&result.content).is_empty());
}

#[tokio::test]
async fn f17_a_text_too_large_for_the_blob_limit_is_not_stored() {
    let contents = Arc::new(MemoryContents::new(ContentLimits {
        session_bytes: 100 << 10,
        total_bytes: 20 << 20,
    }));
    let of_session = SessionContents::new(contents, "ahp-session:/s".into(), 60 << 10, Arc::default());
    let outcome = CallOutcome {
        content: vec![ToolContent::Text("x".repeat(110 << 10))],
        ..CallOutcome::default()
    };
    let content = shortened(outcome, Some(&of_session)).await.content;
    assert!(kept(&content).is_empty());
    assert!(texts(&content).contains("a session may keep 102400 bytes"));
}

#[tokio::test]
async fn res03_only_listed_resources_become_links_under_a_host_uri() {
    let link = |uri: &str| ToolContent::Resource {
        uri: uri.to_owned(),
        content_type: None,
        size: None,
        mention: Some("Rooms: what is free".to_owned()),
    };
    let outcome = CallOutcome {
        content: ["inn://rooms", "file:///etc/passwd", "HTTPS://inn.example/"]
            .map(link)
            .to_vec(),
        ..CallOutcome::default()
    };
    let listed = Listed {
        uri: "mcp-resource:/x".to_owned(),
        content_type: Some("text/plain".to_owned()),
        size: Some(9),
    };
    let place = ResultTarget {
        contents: None,
        listed: HashMap::from([("inn://rooms".to_owned(), listed)]),
        embedded: &AtomicUsize::new(0),
    };
    let content = result_of(&tool(), outcome, place).await.content;
    let served = ("mcp-resource:/x".to_owned(), Some("text/plain".to_owned()), Some(9));
    assert_eq!(kept(&content), [served]);
    // One part for each link, whichever of them can be opened.
    assert_eq!(content.len(), 3);
    assert_eq!(
        texts(&content),
        "[Rooms: what is free; something that only the server can read: file:///etc/passwd]\n\
         [Rooms: what is free; a link: HTTPS://inn.example/]"
    );
    let mentions = content.iter().filter_map(|piece| match piece {
        ToolContent::Resource { mention, .. } => mention.as_deref(),
        _ => None,
    });
    assert_eq!(
        mentions.collect::<Vec<_>>(),
        ["[Rooms: what is free; a resource of the server: inn://rooms]"]
    );
}

#[tokio::test]
async fn f17_names_of_a_server_are_truncated() {
    let long = "x".repeat(1 << 20);
    let outcome = CallOutcome {
        content: vec![
            ToolContent::Resource {
                uri: format!("inn://{long}"),
                content_type: Some(long.clone()),
                size: None,
                mention: Some(long.clone()),
            },
            ToolContent::Embedded {
                data: "AAAA".to_owned(),
                content_type: format!("image/png\n{long}"),
            },
        ],
        ..CallOutcome::default()
    };
    let content = shortened(outcome, None).await.content;
    let size = format!("{content:?}").len();
    assert!(size < 8 << 10, "{size}");
}

#[tokio::test]
async fn f17_images_beyond_the_limit_of_the_turn_are_stored_as_blobs() {
    let (_, of_session) = contents(8 << 20);
    let embedded = AtomicUsize::new(0);
    let mut shown = Vec::new();
    for _ in 0..4 {
        let place = ResultTarget {
            contents: Some(&of_session),
            listed: HashMap::new(),
            embedded: &embedded,
        };
        let outcome = CallOutcome {
            content: vec![image(4_900_000), image(1_000_000)],
            ..CallOutcome::default()
        };
        let content = result_of(&tool(), outcome, place).await.content;
        let is_shown = |piece: &&ToolContent| matches!(piece, ToolContent::Embedded { .. });
        shown.push((content.iter().filter(is_shown).count(), kept(&content).len()));
    }
    assert_eq!(
        shown,
        [(1, 1), (1, 1), (1, 1), (1, 1)],
        "the last time the small one has room"
    );
}

#[tokio::test]
async fn f17_pieces_are_counted() {
    let outcome = CallOutcome {
        content: (0..300).map(|n| ToolContent::Text(format!("piece {n}"))).collect(),
        ..CallOutcome::default()
    };
    let (store, of_session) = contents(8 << 20);
    let content = shortened(outcome, Some(&of_session)).await.content;
    assert_eq!(content.len(), MAX_PIECES + 2);
    assert!(texts(&content).contains("44 more pieces"));
    let beyond = read(&store, &kept(&content)[0].0).await.expect("it is kept");
    assert!(beyond.bytes.starts_with(b"piece 256\n"));
}

fn json(text: &str) -> Option<Map<String, Value>> {
    Some(Map::from_iter([("text".to_owned(), Value::String(text.to_owned()))]))
}
