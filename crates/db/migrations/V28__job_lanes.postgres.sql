-- lane: where the step runs that the job does or waits for: pool/site/endpoint/priority/rule, with
-- nothing for the endpoint of a step that waits for none; '' for the jobs of programs before this
-- step, whose lane is found out when they are claimed. handed_over: leases that ended because the
-- next step runs in another lane.
ALTER TABLE jobs ADD COLUMN lane TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN handed_over BIGINT NOT NULL DEFAULT 0;
-- How many places the pools of a node have, where an operator said so.
ALTER TABLE nodes ADD COLUMN instance_places BIGINT;
ALTER TABLE nodes ADD COLUMN source_places BIGINT;
ALTER TABLE nodes ADD COLUMN target_places BIGINT;
CREATE INDEX jobs_by_lane ON jobs (lane, claim_at) WHERE claim_at IS NOT NULL;
CREATE INDEX jobs_running ON jobs (lane) WHERE state = 'running';
-- How many jobs are in a state, kept by whoever changes one: the sum over the rows of a lane and a
-- state. Each statement adds rows and changes none, so that nobody waits for another; rows of one
-- lane and state are made one now and then.
CREATE TABLE job_counts (
    lane TEXT COLLATE "C" NOT NULL,
    state TEXT NOT NULL,
    jobs BIGINT NOT NULL
);
INSERT INTO job_counts (lane, state, jobs)
    SELECT lane, state, COUNT(*) FROM jobs GROUP BY lane, state;
CREATE FUNCTION count_made_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_counts (lane, state, jobs)
        SELECT lane, state, COUNT(*) FROM after_change GROUP BY lane, state;
    RETURN NULL;
END $$;
CREATE FUNCTION count_moved_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_counts (lane, state, jobs)
        SELECT lane, state, SUM(jobs) FROM (
            SELECT lane, state, 1 AS jobs FROM after_change
            UNION ALL SELECT lane, state, -1 FROM before_change
        ) AS moved GROUP BY lane, state HAVING SUM(jobs) <> 0;
    RETURN NULL;
END $$;
CREATE FUNCTION count_deleted_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_counts (lane, state, jobs)
        SELECT lane, state, -COUNT(*) FROM before_change GROUP BY lane, state;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_made AFTER INSERT ON jobs REFERENCING NEW TABLE AS after_change
    FOR EACH STATEMENT EXECUTE FUNCTION count_made_jobs();
CREATE TRIGGER jobs_moved AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS before_change NEW TABLE AS after_change
    FOR EACH STATEMENT EXECUTE FUNCTION count_moved_jobs();
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs REFERENCING OLD TABLE AS before_change
    FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_jobs();
