-- Nodes: a node is the journal with its id; its name is bound to that. The incarnation counts the
-- starts of its process, the slot is the smallest number that no other node has. heartbeat_at is by
-- the clock of the database, clock_ahead_us how far the node's clock is ahead of it; beats counts
-- heartbeats, so that a node sees in it that the database fell back. projected_up_to is the last
-- record of its journal that is in this database, unprojected counts those behind it; while a node
-- is rebuilding it brings back what the database lost.
CREATE TABLE nodes (
    id UUID NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    slot BIGINT UNIQUE,
    incarnation BIGINT NOT NULL,
    program TEXT NOT NULL,
    drained BOOLEAN NOT NULL,
    stopped BOOLEAN NOT NULL,
    rebuilding BOOLEAN NOT NULL,
    heartbeat_at BIGINT NOT NULL,
    beats BIGINT NOT NULL,
    clock_ahead_us BIGINT NOT NULL,
    round_trip_us BIGINT NOT NULL,
    unprojected BIGINT NOT NULL,
    projected_up_to BIGINT NOT NULL
);
-- The oldest program that may still serve on these tables, by the newest migration it knows. Each
-- migration sets it.
CREATE TABLE schema_compatibility (
    only_row BIGINT NOT NULL PRIMARY KEY CHECK (only_row = 1),
    oldest_program BIGINT NOT NULL
);
INSERT INTO schema_compatibility (only_row, oldest_program) VALUES (1, 5);
-- One row, made with the database: what it is called in eras. An era ends when the database may
-- have lost commits; PostgreSQL adds the history that its server is on.
CREATE TABLE eras (
    only_row BIGINT NOT NULL PRIMARY KEY CHECK (only_row = 1),
    era TEXT NOT NULL
);
INSERT INTO eras (only_row, era) VALUES (1, left(md5(random()::TEXT || clock_timestamp()::TEXT), 16));
