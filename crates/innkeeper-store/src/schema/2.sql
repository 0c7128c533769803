-- Version 2 adds deleted sessions that can be restored: their summary with its checksum, and the time of the deletion.
CREATE TABLE deleted (
    session        INTEGER PRIMARY KEY REFERENCES channel (id),
    uri            TEXT NOT NULL,
    created_ms     INTEGER NOT NULL,
    modified_ms    INTEGER NOT NULL,
    is_archived    INTEGER NOT NULL,
    row_check      INTEGER NOT NULL,
    body           BLOB NOT NULL,
    deleted_ms     INTEGER NOT NULL,
    deleted_check  INTEGER NOT NULL
) STRICT;
