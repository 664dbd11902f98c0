-- The events that steps of jobs wait for. life: as in job_approvals. after_sequence: the step has
-- looked at the events up to here. told: how many times events of the kind came since it began, for
-- who lets the job rest to see that one came meanwhile.
CREATE TABLE job_waits (
    job UUID NOT NULL,
    address TEXT NOT NULL,
    life BIGINT NOT NULL,
    site UUID NOT NULL,
    kind TEXT NOT NULL,
    after_sequence BIGINT NOT NULL,
    told BIGINT NOT NULL,
    PRIMARY KEY (job, address, life)
);
CREATE INDEX job_waits_by_kind ON job_waits (site, kind);
