-- Which document of its rule a job runs, and which of its steps are behind it. rule_version: BLAKE3
-- of the document, in hexadecimal; unset for the jobs of programs before this step, which take the
-- rule as it is. address: the step that the job goes on with. jobs.step, a number of steps, is still
-- written for such programs.
ALTER TABLE jobs ADD COLUMN rule_version TEXT;
ALTER TABLE jobs ADD COLUMN address TEXT;
-- The documents that jobs run; used_at: when a job was last made of one, to the hour.
CREATE TABLE rule_versions (
    site UUID NOT NULL,
    version TEXT NOT NULL,
    rule TEXT NOT NULL,
    document TEXT NOT NULL,
    used_at BIGINT NOT NULL,
    PRIMARY KEY (site, version)
);
-- One row for each lease of a job and each step that it went past or failed at.
CREATE TABLE job_steps (
    job UUID NOT NULL,
    address TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    state TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    result TEXT,
    error TEXT,
    PRIMARY KEY (job, address, epoch)
);
