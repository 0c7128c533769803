//! Changed files and annotations, followed by every version.

use innkeeper_compat::words::merge;
use serde_json::{Value, json};

use super::Gallery;
use crate::scenarios::changes::{Repository, shows};

#[tokio::test]
async fn every_version_follows_changed_files_and_annotations() {
    let repository = Repository::new();
    let restored = std::fs::read_to_string(repository.root.join("lines.txt")).expect("a file");
    repository.write("lines.txt", "changed\n");
    let mut all = Gallery::new(json!({ "workingDirectories": [repository.uri] })).await;
    let view = format!("{}/changeset/uncommitted", all.uris.session);
    let annotations = format!("{}/annotations", all.uris.session);
    for reader in all.watchers.iter().chain([&all.newest]) {
        if reader.version.has_channels() {
            reader.subscribe(&view).await;
        }
        if reader.version.has_chats() {
            reader.subscribe(&annotations).await;
        }
    }
    shows(&all.newest, &view, &["lines.txt"]).await;
    all.check("the first content").await;
    let id = all.newest.state(&view)["files"][0]["id"].clone();
    let review = |reviewed: bool| json!({ "type": "changeset/filesReviewChanged", "files": [id, "file:///unknown"], "reviewed": reviewed });
    for reviewed in [true, false, true] {
        all.dispatch(&view, review(reviewed)).await;
        all.check(&format!("reviewed: {reviewed}")).await;
    }
    repository.write("lines.txt", "changed again\n");
    repository.write("new.txt", "x\n");
    shows(&all.newest, &view, &["lines.txt", "new.txt"]).await;
    all.check("two files").await;
    // The repository cannot be read while more files come than are sent one by one.
    let head = std::fs::read_to_string(repository.root.join(".git/HEAD")).expect("a file");
    repository.write(".git/HEAD", "garbage");
    all.newest
        .until("the view has an error", |seen| seen.states[&view]["status"] == "error")
        .await;
    all.check("an error").await;
    let many: Vec<String> = (0..40).map(|number| format!("{number}.txt")).collect();
    many.iter().for_each(|name| repository.write(name, "x\n"));
    repository.write(".git/HEAD", &head);
    let names: Vec<&str> = many.iter().map(String::as_str).collect();
    shows(&all.newest, &view, &[&names[..], &["lines.txt", "new.txt"]].concat()).await;
    all.check("many files after an error").await;
    let commit = json!({ "channel": view, "operationId": "commit", "_meta": { "message": "All" } });
    let committed = all.newest.try_request("invokeChangesetOperation", commit).await;
    all.check(&format!("a commit: {committed:?}")).await;
    repository.write("lines.txt", &restored);
    all.check("the former lines").await;

    let origin = json!({ "session": all.uris.session, "chat": all.uris.chat, "turnId": "t" });
    let annotation = json!({ "id": "a", "origin": origin, "resource": id, "resolved": false,
        "entries": [{ "id": "e1", "text": "Why?" }] });
    let about = |kind: &str, more: Value| {
        let mut action = json!({ "type": format!("annotations/{kind}"), "annotationId": "a" });
        merge(&mut action, more);
        action
    };
    let mut second = annotation.clone();
    second["id"] = "b".into();
    second["origin"] = json!({ "session": all.uris.session });
    for action in [
        json!({ "type": "annotations/set", "annotation": annotation }),
        json!({ "type": "annotations/set", "annotation": second }),
        about(
            "entrySet",
            json!({ "entry": { "id": "e2", "text": { "markdown": "*Because.*" } } }),
        ),
        about("entrySet", json!({ "entry": { "id": "e1", "text": "Why not?" } })),
        about("entryRemoved", json!({ "entryId": "e1" })),
        about("updated", json!({ "resolved": true })),
        about("updated", json!({ "origin": { "session": all.uris.session } })),
        about("updated", json!({ "origin": origin, "resource": "file:///other" })),
        about("removed", json!({})),
    ] {
        all.dispatch(&annotations, action.clone()).await;
        all.check(&action.to_string()).await;
    }
    all.end(18);
}
