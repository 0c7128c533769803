-- The first draft, which was never released. Tests create it to test migrations. It has no archiving, no index of turns
-- and no checksums.
CREATE TABLE host (
    reserved  INTEGER NOT NULL,
    kept      INTEGER NOT NULL
);
CREATE TABLE session (
    uri          TEXT PRIMARY KEY,
    created_ms   INTEGER NOT NULL,
    modified_ms  INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    summary      BLOB NOT NULL,
    document     BLOB NOT NULL
);
CREATE TABLE chat (
    uri       TEXT PRIMARY KEY,
    session   TEXT NOT NULL REFERENCES session (uri),
    seq       INTEGER NOT NULL,
    document  BLOB NOT NULL
);
CREATE TABLE turn (
    chat      TEXT NOT NULL REFERENCES chat (uri),
    position  INTEGER NOT NULL,
    id        TEXT NOT NULL,
    body      BLOB NOT NULL,
    PRIMARY KEY (chat, position)
);
CREATE TABLE log (
    seq      INTEGER PRIMARY KEY,
    channel  TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    body     BLOB NOT NULL
);
