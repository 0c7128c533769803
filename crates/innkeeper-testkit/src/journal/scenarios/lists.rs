//! Lists of sessions.

use innkeeper_core::records::{ListPage, Record, StoredSummary};

use crate::journal::Storage;
use crate::journal::host_run::{HostRun, summary};

/// URIs in an order that is neither that of their creation nor that of any language.
const URIS: [&str; 7] = ["s:/b", "s:/B", "s:/a", "s:/a/b", "s:/é", "s:/~", "s:/%2F"];

/// Latest first, then by the bytes of the URI, backwards.
pub async fn the_latest_session_is_first_and_of_equals_the_larger_uri(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    assert!(host.list().await.is_empty(), "an empty journal lists nothing");
    let expected = create_many(&host).await;
    assert_eq!(marks(&host.list().await), expected);
    let host = host.again(&*storage).await;
    assert_eq!(marks(&host.list().await), expected);
    assert_eq!(host.lease.sessions, expected.len());
}

/// The pages contain every session exactly once.
pub async fn pages_have_neither_gaps_nor_repeats(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    let expected = create_many(&host).await;
    for limit in [1, 2, 3, 5, 34, 35, 36] {
        let mut met = Vec::new();
        loop {
            let page = ListPage {
                after: met.last().cloned(),
                limit,
            };
            let lines = host.journal.list(page).await.expect("sessions can be listed");
            assert!(lines.len() <= limit, "{} lines instead of {limit}", lines.len());
            if lines.is_empty() {
                break;
            }
            met.extend(marks(&lines));
            assert!(met.len() <= expected.len(), "pages of {limit} do not end");
        }
        assert_eq!(met, expected, "in pages of {limit}");
    }
}

/// A mark is a place in the order, whatever became of the session that left it.
pub async fn a_page_continues_where_its_mark_was(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    let expected = create_many(&host).await;
    let (mark, rest) = (&expected[10], &expected[11..]);
    let page = ListPage {
        after: Some(mark.clone()),
        limit: 100,
    };
    host.keep(vec![Record::Summary(Box::new(summary(&mark.1, 99_000, "newer")))])
        .await;
    let lines = host.journal.list(page.clone()).await.expect("sessions can be listed");
    assert_eq!(marks(&lines), rest, "after the session got newer");
    host.keep(vec![Record::SessionRemoved {
        uri: mark.1.as_str().into(),
    }])
    .await;
    let lines = host.journal.list(page).await.expect("sessions can be listed");
    assert_eq!(marks(&lines), rest, "after the session was removed");
}

/// Both records that carry a summary change what lists show.
pub async fn summaries_are_kept_up_to_date(storage: Box<dyn Storage>) {
    let host = HostRun::begin(&*storage).await;
    for uri in URIS {
        host.keep(vec![host.new_session(uri)]).await;
    }
    let archived = |archived: bool| {
        let mut record = summary(URIS[0], 2_000, "renamed");
        record.is_archived = archived;
        Record::Summary(Box::new(record))
    };
    host.keep(vec![archived(true)]).await;
    expect_first(&host, URIS[0], 2_000, "renamed").await;
    let changed = host.session_with(URIS[1], |session| {
        session.summary = summary(URIS[1], 3_000, "with a document")
    });
    host.keep(vec![changed]).await;
    expect_first(&host, URIS[1], 3_000, "with a document").await;
    // Time may go back (P15), and so does the session.
    let records = vec![Record::Summary(Box::new(summary(URIS[1], 1_500, "earlier")))];
    host.keep(records).await;
    let host = host.again(&*storage).await;
    expect_first(&host, URIS[0], 2_000, "renamed").await;
    host.keep(vec![archived(false)]).await;
    assert_eq!(host.list().await.len(), URIS.len());
    // A summary does not touch the rest.
    let session = host.load(URIS[0]).await;
    assert!(session.document.starts_with(URIS[0].as_bytes()));
}

async fn expect_first(host: &HostRun, uri: &str, modified_ms: i64, shown: &str) {
    let lines = host.list().await;
    let line = lines.first().expect("there are sessions");
    assert_eq!((line.uri.as_str(), line.modified_ms), (uri, modified_ms));
    assert_eq!(line.summary, shown.as_bytes());
}

/// Creates sessions at five moments, seven at each, and tells their order.
async fn create_many(host: &HostRun) -> Vec<(i64, String)> {
    let mut created = Vec::new();
    for at in [3_000, 1_000, 5_000, 2_000, 4_000] {
        for uri in URIS {
            let uri = format!("{uri}/{}", at % 3);
            let is_new = !created.iter().any(|(_, known)| *known == uri);
            created.retain(|(_, known)| *known != uri);
            let record = host.session_with(&uri, |session| {
                session.is_new = is_new;
                session.summary = summary(&uri, at, &uri);
            });
            host.keep(vec![record]).await;
            created.push((at, uri));
        }
    }
    for number in 0..14 {
        let uri = format!("s:/tie/{number}");
        let record = host.session_with(&uri, |session| session.summary = summary(&uri, 4_000, &uri));
        host.keep(vec![record]).await;
        created.push((4_000, uri));
    }
    created.sort_by(|a, b| b.cmp(a));
    created
}

fn marks(lines: &[StoredSummary]) -> Vec<(i64, String)> {
    lines.iter().map(|line| (line.modified_ms, line.uri.clone())).collect()
}
