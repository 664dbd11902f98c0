-- The audit log. It outlives what it speaks of: no foreign keys. The columns repeat what searches
-- need of the body; node_sequence is the place in the journal of its node, sealed says that it
-- stands in that chain. SQLite and PostgreSQL count the sequence each in its own way.
CREATE TABLE events (
    sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id UUID NOT NULL UNIQUE,
    at BIGINT NOT NULL,
    site UUID NOT NULL,
    node TEXT NOT NULL,
    node_sequence BIGINT,
    kind TEXT NOT NULL,
    account TEXT,
    session UUID,
    transfer UUID,
    job UUID,
    path TEXT,
    body TEXT NOT NULL,
    sealed BOOLEAN NOT NULL
);
CREATE INDEX events_by_site ON events (site, sequence);
CREATE INDEX events_by_kind ON events (site, kind, sequence);
CREATE INDEX events_by_account ON events (site, account, sequence) WHERE account IS NOT NULL;
CREATE INDEX events_by_session ON events (session, sequence) WHERE session IS NOT NULL;
CREATE INDEX events_by_transfer ON events (transfer, sequence) WHERE transfer IS NOT NULL;
CREATE INDEX events_by_job ON events (job, sequence) WHERE job IS NOT NULL;
CREATE INDEX events_unsealed ON events (node, sequence) WHERE NOT sealed;
