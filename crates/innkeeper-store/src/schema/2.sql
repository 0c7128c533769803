-- Version 2 adds sessions whose deletion can be undone: what lists showed of them, with the checksum that it had there,
-- and when they were deleted.
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
