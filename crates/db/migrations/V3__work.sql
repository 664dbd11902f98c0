-- Transfers: projected from events. fact_id is the event of the present state.
CREATE TABLE transfers (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL,
    direction TEXT NOT NULL,
    state TEXT NOT NULL,
    protocol TEXT NOT NULL,
    account TEXT NOT NULL,
    path TEXT NOT NULL,
    endpoint TEXT,
    session UUID,
    job UUID,
    size BIGINT NOT NULL,
    blake3 TEXT,
    sha256 TEXT,
    started_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    fact_id UUID NOT NULL,
    error TEXT
);
CREATE INDEX transfers_by_change ON transfers (site, changed_at);
CREATE INDEX transfers_by_account ON transfers (site, account, changed_at);
-- Jobs: claim_at is when a worker may next take the job: due_at of a ready one, the end of the
-- lease of a running one, nothing of an ended one. The last lease was given to a process (node_id,
-- incarnation) in an era of the database. A repeated job was made or worked on before the database
-- fell back.
CREATE TABLE jobs (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL,
    rule TEXT NOT NULL,
    event_id UUID NOT NULL,
    event TEXT NOT NULL,
    state TEXT NOT NULL,
    step BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    node TEXT,
    node_id UUID,
    incarnation BIGINT,
    era TEXT,
    repeated BOOLEAN NOT NULL,
    leased_until BIGINT,
    claim_at BIGINT,
    due_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    error TEXT
);
CREATE INDEX jobs_to_claim ON jobs (claim_at) WHERE claim_at IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (state, due_at);
CREATE INDEX jobs_by_site ON jobs (site, created_at);
