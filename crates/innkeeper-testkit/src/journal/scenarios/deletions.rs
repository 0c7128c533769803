//! Deletions that can be undone until a purge.

use innkeeper_core::records::Record;

use super::{CHAT, OTHER_CHAT, OTHER_SESSION, SESSION};
use crate::journal::Storage;
use crate::journal::host_run::{HostRun, turns_record};
use crate::journal::logs::describe;

/// A third session, which is never deleted.
const THIRD_SESSION: &str = "ahp-session:/three";
const THIRD_CHAT: &str = "ahp-chat:/three/first";

fn deleted(uri: &str, at_ms: i64) -> Record {
    Record::SessionDeleted { uri: uri.into(), at_ms }
}

/// The deleted sessions with the moments of their deletion, in the order of the journal.
async fn deletions(host: &HostRun) -> Vec<(String, i64)> {
    let deleted = host.journal.deleted().await.expect("deleted sessions can be listed");
    let pairs = deleted.into_iter().map(|session| (session.uri, session.deleted_ms));
    pairs.collect()
}

async fn purge(host: &HostRun, before_ms: i64) -> Vec<String> {
    let purged = host.journal.purge_deleted(before_ms).await;
    let mut purged = purged.expect("deleted sessions can be purged");
    purged.sort();
    purged
}

fn pair(uri: &str, at_ms: i64) -> (String, i64) {
    (uri.to_owned(), at_ms)
}

/// Between its deletion and its restoration a session is not there (SES-37).
pub async fn ses37_a_deleted_session_is_hidden_and_restored_whole(storage: Box<dyn Storage>) {
    let mut host = HostRun::begin(&*storage).await;
    host.create(SESSION, CHAT).await;
    host.create(OTHER_SESSION, OTHER_CHAT).await;
    let records = vec![
        turns_record(CHAT, 0, &["t1", "t2"]),
        host.delta(CHAT, "p", "some text"),
        host.title(SESSION, "a title"),
    ];
    host.keep(records).await;
    let whole = describe(&host.load(SESSION).await);
    host.keep(vec![deleted(SESSION, 5_000)]).await;
    for life in 0..2 {
        for channel in [SESSION, CHAT] {
            let hidden = host.load(channel).await;
            assert!(hidden.is_deleted, "{channel} is there after {life} restarts");
            assert!(
                hidden.document.is_empty() && hidden.chats.is_empty(),
                "{channel} can be read"
            );
        }
        let listed: Vec<_> = host.list().await.into_iter().map(|line| line.uri).collect();
        assert_eq!(listed, [OTHER_SESSION], "listed after {life} restarts");
        assert_eq!(deletions(&host).await, [pair(SESSION, 5_000)]);
        host = host.again(&*storage).await;
        assert_eq!((host.lease.sessions, host.lease.unsettled.len()), (1, 0));
    }
    let restored = host.journal.undo_deletion(SESSION).await.expect("restored");
    assert_eq!((restored.uri.as_str(), restored.chats, restored.turns), (SESSION, 1, 2));
    assert!(deletions(&host).await.is_empty());
    let twice = host.journal.undo_deletion(SESSION).await;
    assert!(twice.is_err(), "restored twice: {twice:?}");
    for _ in 0..2 {
        assert_eq!(describe(&host.load(CHAT).await), whole);
        assert_eq!(host.turns().position(CHAT, "t2"), Ok(Some(1)));
        host = host.again(&*storage).await;
        assert_eq!(host.lease.sessions, 2);
    }
}

/// A purge removes the sessions that were deleted before its moment, all of each of them, and nothing else (SES-38).
pub async fn ses38_a_purge_removes_only_earlier_deletions(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    for (session, chat) in [
        (SESSION, CHAT),
        (OTHER_SESSION, OTHER_CHAT),
        (THIRD_SESSION, THIRD_CHAT),
    ] {
        host.create(session, chat).await;
        host.keep(vec![turns_record(chat, 0, &["t1"])]).await;
    }
    host.keep(vec![deleted(SESSION, 5_000), deleted(OTHER_SESSION, 6_000)])
        .await;
    let both = [pair(OTHER_SESSION, 6_000), pair(SESSION, 5_000)];
    assert_eq!(deletions(&host).await, both, "the latest deletion is first");
    assert_eq!(purge(&host, 5_000).await, Vec::<String>::new(), "not before its moment");
    assert_eq!(deletions(&host).await, both);
    assert_eq!(purge(&host, 5_001).await, [SESSION]);
    assert_eq!(purge(&host, 5_001).await, Vec::<String>::new(), "once");
    let host = host.again(&*storage).await;
    assert_eq!(deletions(&host).await, [pair(OTHER_SESSION, 6_000)]);
    let restored = host.journal.undo_deletion(SESSION).await;
    assert!(restored.is_err(), "restored after its purge: {restored:?}");
    // Its names are free again, and nothing of it is left for a session that takes them.
    host.create(SESSION, CHAT).await;
    let anew = host.load(SESSION).await;
    assert_eq!(anew.chats.iter().map(|chat| chat.turns.len()).sum::<usize>(), 0);
    assert_eq!(host.turns().position(CHAT, "t1"), Ok(None));
    // Sessions that are not deleted stay, however late the moment.
    assert_eq!(purge(&host, i64::MAX).await, [OTHER_SESSION]);
    let host = host.again(&*storage).await;
    assert_eq!(host.lease.sessions, 2);
    assert_eq!(host.turns().position(THIRD_CHAT, "t1"), Ok(Some(0)));
    assert!(host.has(SESSION).await && !host.has(OTHER_SESSION).await);
}
