-- Version 1. Every table except `unsettled` and `garbage` has row checksums.
--
-- SQLite stores the text of a statement with its comments: do not edit comments inside statements.

-- The host: one row, updated by every transaction.
CREATE TABLE host (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    reserved    INTEGER NOT NULL,  -- no number above this was ever given out
    kept        INTEGER NOT NULL,  -- nothing is missing up to this number
    sessions    INTEGER NOT NULL,  -- how many lists show: a start counts nothing
    log_bytes   INTEGER NOT NULL,  -- the sum over all channels
    touches     INTEGER NOT NULL,  -- counts changes of clients, for their order
    ended_well  INTEGER NOT NULL,  -- whether the last host that wrote here closed the file
    syncs       INTEGER NOT NULL,  -- counts, so that a commit that only has to reach the disk writes something
    row_check   INTEGER NOT NULL
) STRICT;

-- Channels with a log: the root (kind 0), sessions (1), chats (2), sessions that only a chat refers to (3), drafts in
-- which no user has written yet (4), and since version 2 deleted sessions that can be restored (5).
CREATE TABLE channel (
    id         INTEGER PRIMARY KEY,
    uri        TEXT NOT NULL UNIQUE,
    uri_hash   INTEGER NOT NULL,
    kind       INTEGER NOT NULL,
    session    INTEGER NOT NULL REFERENCES channel (id),  -- the session it belongs to; itself, if it is none of a session
    tail       INTEGER NOT NULL,  -- the last number of its log, so that a lost end is noticed
    log_bytes  INTEGER NOT NULL,  -- how much log there is
    parts      INTEGER NOT NULL,  -- how many completed turns a chat has, or chats a session, so that a lost one is noticed
    row_check  INTEGER NOT NULL
) STRICT;
CREATE INDEX channel_by_session ON channel (session, id);
-- A second index of URIs. A URI that only the first index lacks is damaged and must not be created again.
CREATE INDEX channel_by_hash ON channel (uri_hash);

-- The state of a channel at `seq`.
CREATE TABLE document (
    channel    INTEGER PRIMARY KEY REFERENCES channel (id),
    seq        INTEGER NOT NULL,
    row_check  INTEGER NOT NULL,
    body       BLOB NOT NULL
) STRICT;

-- The summary of a session for lists. Drafts have no row.
CREATE TABLE summary (
    session      INTEGER PRIMARY KEY REFERENCES channel (id),
    uri          TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,
    modified_ms  INTEGER NOT NULL,
    is_archived  INTEGER NOT NULL,
    row_check    INTEGER NOT NULL,
    body         BLOB NOT NULL
) STRICT;
CREATE INDEX summary_by_time ON summary (modified_ms DESC, uri DESC);

-- The sessions to recover when a host starts.
CREATE TABLE unsettled (
    session  INTEGER PRIMARY KEY REFERENCES channel (id)
) STRICT;

-- Actions in the order in which they were accepted. Adjacent ones may be merged into `first`..`seq`.
CREATE TABLE log (
    id         INTEGER PRIMARY KEY,
    channel    INTEGER NOT NULL REFERENCES channel (id),
    seq        INTEGER NOT NULL,
    first      INTEGER NOT NULL,
    previous   INTEGER NOT NULL,  -- the number of the row before in the same channel, so that a hole is noticed
    since      INTEGER NOT NULL,
    at_ms      INTEGER NOT NULL,
    row_check  INTEGER NOT NULL,
    body       BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_by_channel ON log (channel, seq);

-- The bodies of completed turns, apart from their index. Forked chats share them.
CREATE TABLE body (
    id    INTEGER PRIMARY KEY,
    body  BLOB NOT NULL
) STRICT;

CREATE TABLE turn (
    chat        INTEGER NOT NULL REFERENCES channel (id),
    position    INTEGER NOT NULL,
    id          TEXT NOT NULL,
    body        INTEGER NOT NULL REFERENCES body (id),
    bytes       INTEGER NOT NULL,
    body_check  INTEGER NOT NULL,
    row_check   INTEGER NOT NULL,
    PRIMARY KEY (chat, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_by_id ON turn (chat, id);
CREATE INDEX turn_by_body ON turn (body);

-- Bodies that may have no reference left. Compaction removes them in small steps.
CREATE TABLE garbage (
    body  INTEGER PRIMARY KEY
) STRICT;

-- The persisted clients, for `reconnect`.
CREATE TABLE client (
    id         TEXT PRIMARY KEY,
    touched    INTEGER NOT NULL UNIQUE,
    row_check  INTEGER NOT NULL,
    body       BLOB NOT NULL
) STRICT, WITHOUT ROWID;
