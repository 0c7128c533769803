//! Persisting, reading and evicting blobs.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const NAMES: [&str; 4] = ["aa", "bb", "cc", "dd"];

fn kept(directory: &Path, session_bytes: u64, total_bytes: u64) -> BlobStore {
    let limits = ContentLimits {
        session_bytes,
        total_bytes,
    };
    BlobStore::new(directory.join("contents"), limits)
}

fn content(text: &str) -> Content {
    Content {
        bytes: text.as_bytes().to_vec(),
        content_type: Some("text/plain".to_owned()),
    }
}

async fn there(contents: &BlobStore, session: &str) -> Vec<&'static str> {
    let mut there = Vec::new();
    for name in NAMES {
        if contents.read(session, name).await.unwrap().is_some() {
            there.push(name);
        }
    }
    there
}

#[tokio::test]
async fn res03_blobs_outlive_a_restart_and_belong_to_their_session() {
    let directory = tempfile::tempdir().unwrap();
    let contents = kept(directory.path(), 1000, 1000);
    contents.keep("s", "aa", content("one\ntwo")).await.unwrap();
    // A life that ended in the middle leaves nothing that counts.
    let place = directory.path().join("contents").join(key_of("s"));
    fs::write(place.join("bb.new"), "x").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place), mode(&place.join("aa"))), (0o700, 0o600));
    let later = kept(directory.path(), 1000, 1000);
    assert_eq!(later.read("s", "aa").await, Ok(Some(content("one\ntwo"))));
    assert_eq!(later.read("other", "aa").await, Ok(None));
    assert_eq!(later.read("s", "../../secret").await, Ok(None));
    later.keep("s", "cc", content("x")).await.unwrap();
    assert!(!place.join("bb.new").exists());
    later.forget("s").await;
    assert!(there(&later, "s").await.is_empty() && !place.exists());
}

#[tokio::test]
async fn p2_leftovers_of_a_disposal_are_swept() {
    let directory = tempfile::tempdir().unwrap();
    let contents = kept(directory.path(), 1000, 1000);
    for session in ["s", "t"] {
        contents.keep(session, "aa", content("one")).await.unwrap();
    }
    let later = kept(directory.path(), 1000, 1000);
    later.sweep(|| None).await;
    assert_eq!(there(&later, "t").await, ["aa"], "the sessions are unknown");
    later.sweep(|| Some(vec!["s".to_owned()])).await;
    assert_eq!((there(&later, "s").await.len(), there(&later, "t").await.len()), (1, 0));
}

#[tokio::test]
async fn p2_blobs_of_a_disposed_session_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let contents = kept(directory.path(), 1000, 1000);
    contents.open("s");
    contents.keep("s", "aa", content("one")).await.unwrap();
    contents.close("s");
    contents.forget("s").await;
    let refused = contents.keep("s", "bb", content("late")).await.unwrap_err();
    assert!(refused.contains("its session is gone"), "{refused}");
    assert!(!directory.path().join("contents").join(key_of("s")).exists());
    // A session of the same URI begins anew.
    contents.open("s");
    contents.keep("s", "cc", content("new")).await.unwrap();
    assert_eq!(there(&contents, "s").await, ["cc"]);
}

#[tokio::test]
async fn f17_beyond_the_bounds_the_oldest_goes() {
    let directory = tempfile::tempdir().unwrap();
    let contents = kept(directory.path(), 50, 70);
    for name in ["aa", "bb", "cc"] {
        contents.keep("s", name, content("0123456789")).await.unwrap();
    }
    assert_eq!(there(&contents, "s").await, ["bb", "cc"]);
    // Another session counts for itself, but not for all of them together.
    contents.keep("t", "dd", content("0123456789")).await.unwrap();
    assert_eq!(there(&contents, "t").await, ["dd"]);
    contents.keep("t", "aa", content("0123456789")).await.unwrap();
    assert_eq!(there(&contents, "s").await, ["cc"]);
    let too_much = contents.keep("s", "dd", content(&"x".repeat(60))).await;
    assert!(too_much.unwrap_err().contains("50 bytes"));
}

#[tokio::test]
async fn res03_shared_blobs_stay_until_the_last_session_is_disposed() {
    let directory = tempfile::tempdir().unwrap();
    let contents = kept(directory.path(), 1000, 1000);
    for name in ["aa", "bb"] {
        contents.keep("s", name, content(name)).await.unwrap();
    }
    let named = vec!["bb".to_owned(), "dd".to_owned(), "../s".to_owned()];
    contents.share("s", named, "t").await.unwrap();
    assert_eq!(there(&contents, "t").await, ["bb"], "what was not named stays behind");
    contents.close("s");
    contents.forget("s").await;
    assert_eq!(contents.read("t", "bb").await, Ok(Some(content("bb"))));
    let later = kept(directory.path(), 1000, 1000);
    later.share("t", vec!["bb".to_owned()], "u").await.unwrap();
    assert_eq!(there(&later, "u").await, ["bb"], "it moves on, in a later life too");
    // A session that is gone takes nothing in.
    later.close("u");
    later.forget("u").await;
    assert!(later.share("t", vec!["bb".to_owned()], "u").await.is_err());
    assert!(there(&later, "u").await.is_empty());
}

#[tokio::test]
async fn f17_shared_and_restored_blobs_keep_their_age_until_eviction() {
    let directory = tempfile::tempdir().unwrap();
    let contents = kept(directory.path(), 50, 1000);
    let ago = |seconds| SystemTime::now() - std::time::Duration::from_secs(seconds);
    // The latest first, as an export has them.
    for (name, seconds, fits) in [("aa", 10, true), ("bb", 20, true), ("cc", 30, false)] {
        let restored = contents.restore("s", name, content("0123456789"), ago(seconds));
        assert_eq!(restored.await, Ok(fits), "{name}");
    }
    assert_eq!(there(&contents, "s").await, ["aa", "bb"]);
    let names = |listed: Vec<(String, SystemTime)>| listed.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let place = directory.path().join("contents");
    assert_eq!(names(BlobStore::list(&place, "s").unwrap()), ["aa", "bb"]);
    assert_eq!(BlobStore::look(&place, "s", "bb").unwrap(), Some(content("0123456789")));
    assert_eq!(BlobStore::look(&place, "s", "../t").unwrap(), None);
    assert_eq!(names(BlobStore::list(&place, "unknown").unwrap()), [""; 0]);
    // The other session's blob is newer than one of these and older than the other.
    contents
        .restore("t", "dd", content("0123456789"), ago(15))
        .await
        .unwrap();
    contents.share("t", vec!["dd".to_owned()], "s").await.unwrap();
    assert_eq!(there(&contents, "s").await, ["aa", "dd"]);
    contents.keep("s", "cc", content("0123456789")).await.unwrap();
    assert_eq!(
        there(&contents, "s").await,
        ["aa", "cc"],
        "also in the order of the next life"
    );
    let large = contents.restore("s", "bb", content(&"x".repeat(60)), ago(0)).await;
    assert_eq!(large, Ok(false));
}
