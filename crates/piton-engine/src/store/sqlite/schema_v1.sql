-- The truth: what happened, in order, each row sealed to the one before.
CREATE TABLE event (
    seq   INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    kind  TEXT    NOT NULL,
    v     INTEGER NOT NULL,
    body  TEXT    NOT NULL, -- the event, or {"blob":"<blake3>","bytes":n} for a file in blobs/
    hash  BLOB    NOT NULL  -- blake3(hash before, seq, epoch, at_ms, v, kind, body)
) STRICT;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
BEGIN SELECT raise(ABORT, 'events are never changed'); END;
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
BEGIN SELECT raise(ABORT, 'events are never deleted'); END;

-- Who may write, and how far the journal goes.
CREATE TABLE writer (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    epoch    INTEGER NOT NULL,
    last_seq INTEGER NOT NULL
) STRICT;

-- Projections from here on: they follow from the events and can be made again.
CREATE TABLE session (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    id             TEXT    NOT NULL,
    workspace      TEXT    NOT NULL,
    version        TEXT    NOT NULL,
    title          TEXT    NOT NULL DEFAULT '',
    model          TEXT,
    created_ms     INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL,
    turns          INTEGER NOT NULL DEFAULT 0,
    steps          INTEGER NOT NULL DEFAULT 0,
    cost_micros    INTEGER,
    status         TEXT    NOT NULL DEFAULT 'idle' CHECK (status IN ('idle', 'running')),
    last_end       TEXT,
    parent_session TEXT,
    parent_seq     INTEGER
) STRICT;
CREATE TABLE message (
    seq   INTEGER PRIMARY KEY REFERENCES event (seq),
    step  INTEGER,
    role  TEXT NOT NULL,
    text  TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('finished', 'interrupted', 'abandoned'))
) STRICT;
CREATE TABLE part (
    seq      INTEGER NOT NULL REFERENCES message (seq),
    position INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    call     TEXT,
    tool     TEXT,
    data     TEXT,    -- null where it is too large to be kept twice: the event has it
    status   TEXT,    -- of a call: requested, awaiting_approval, running, or how it ended
    settled  INTEGER, -- of a call: the event with its outcome
    PRIMARY KEY (seq, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX part_by_call ON part (call) WHERE call IS NOT NULL;
CREATE TABLE todo (
    position INTEGER PRIMARY KEY,
    content  TEXT NOT NULL,
    status   TEXT NOT NULL
) STRICT;
CREATE TABLE usage (
    seq         INTEGER PRIMARY KEY REFERENCES event (seq),
    step        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    model       TEXT,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning   INTEGER NOT NULL,
    cost_micros INTEGER
) STRICT;
