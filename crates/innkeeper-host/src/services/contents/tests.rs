use futures_util::FutureExt as _;

use super::*;

const SESSION: &str = "ahp-session:/s";

fn memory() -> Arc<MemoryContents> {
    Arc::new(MemoryContents::new(ContentLimits {
        session_bytes: 1 << 10,
        total_bytes: 1 << 10,
    }))
}

#[tokio::test]
async fn res03_blobs_of_an_earlier_session_with_the_name_are_removed_first() {
    let contents = memory();
    let order = Arc::new(RwLock::new(()));
    contents.close(SESSION);
    let leaving = Arc::clone(&order).write_owned().await;
    let again = SessionContents::new(contents.clone(), SESSION.into(), 100, order);
    let mut keeping = std::pin::pin!(again.keep(b"new".to_vec(), None));
    assert!(keeping.as_mut().now_or_never().is_none(), "it waits");
    contents.forget(SESSION).await;
    drop(leaving);
    keeping.await.expect("kept");
    let name = content_name(b"new", None);
    let found = contents.read(SESSION, &name).await.expect("readable");
    assert_eq!(found.expect("it is still there").bytes, b"new");
}

#[tokio::test]
async fn an_imported_blob_gets_an_allowed_media_type() {
    let contents = memory();
    let import = |content_type: &str, kept_ms| {
        let keep = ImportBlob {
            session: SESSION.to_owned(),
            name: content_name(b"x", Some(content_type)),
            content_type: Some(content_type.to_owned()),
            kept_ms,
            data: b"x".to_vec(),
        };
        let contents = contents.clone();
        async move { import(&*contents, keep, 100).await }
    };
    let long = "a".repeat(MAX_TYPE_BYTES + 1);
    for odd in ["text/plain\nx: y", long.as_str()] {
        let refused = import(odd, 0).await.expect_err("refused");
        assert!(matches!(refused, ResourceError::Conflict(why) if why.contains("media type")));
    }
    for kept_ms in [i64::MIN, 0, i64::MAX] {
        assert!(import("text/plain", kept_ms).await.expect("kept"));
    }
}
