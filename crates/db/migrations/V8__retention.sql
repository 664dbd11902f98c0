-- What retention took away, as signed notes by which the rest still verifies: of what = 'events' the
-- rows of a site that stood in the journal of a node behind record from_record and up to record
-- up_to; of what = 'archive' the segments of that journal with these records, of the site main.
-- While one is pending its event may not be recorded yet, and what it names is being deleted.
-- numbers: of an archive, which of its records are events of which site.
CREATE TABLE retention_stubs (
    node UUID NOT NULL,
    what TEXT NOT NULL,
    site UUID NOT NULL,
    up_to BIGINT NOT NULL,
    from_record BIGINT NOT NULL,
    at BIGINT NOT NULL,
    note TEXT NOT NULL,
    numbers TEXT,
    pending TEXT,
    PRIMARY KEY (node, what, site, up_to)
);
CREATE INDEX retention_stubs_pending ON retention_stubs (what, at) WHERE pending IS NOT NULL;
-- One row: the node that deletes what is old, and until when no other one does.
CREATE TABLE retention_lease (
    only_row BIGINT NOT NULL PRIMARY KEY CHECK (only_row = 1),
    node UUID,
    until BIGINT NOT NULL
);
INSERT INTO retention_lease (only_row, node, until) VALUES (1, NULL, 0);
-- How far each sink has come: the last head of the node that it has.
CREATE TABLE head_sinks (
    node UUID NOT NULL,
    sink TEXT NOT NULL,
    size BIGINT NOT NULL,
    PRIMARY KEY (node, sink)
);
-- When the events happened whose sequences lie in a stretch of the table: a search by time looks only
-- into stretches that may have what it wants. They follow each other without a gap; behind the last
-- one events may have happened at any time.
CREATE TABLE event_times (
    last_sequence BIGINT NOT NULL PRIMARY KEY,
    first_sequence BIGINT NOT NULL,
    earliest BIGINT NOT NULL,
    latest BIGINT NOT NULL
);
