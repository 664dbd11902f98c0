-- lane: where the step runs that the job does or waits for: pool/site/endpoint/priority/rule, with
-- nothing for the endpoint of a step that waits for none; '' for the jobs of programs before this
-- step, whose lane is found out when they are claimed. handed_over: leases that ended because the
-- next step runs in another lane.
ALTER TABLE jobs ADD COLUMN lane TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN handed_over BIGINT NOT NULL DEFAULT 0;
-- How many places the pools of a node have, where an operator said so.
ALTER TABLE nodes ADD COLUMN instance_places BIGINT;
ALTER TABLE nodes ADD COLUMN source_places BIGINT;
ALTER TABLE nodes ADD COLUMN target_places BIGINT;
CREATE INDEX jobs_by_lane ON jobs (lane, claim_at) WHERE claim_at IS NOT NULL;
CREATE INDEX jobs_running ON jobs (lane) WHERE state = 'running';
-- How many jobs are in a state, kept by whoever changes one: the sum over the rows of a lane and a
-- state. SQLite has one row for each.
CREATE TABLE job_counts (
    lane TEXT NOT NULL,
    state TEXT NOT NULL,
    jobs BIGINT NOT NULL,
    PRIMARY KEY (lane, state)
) WITHOUT ROWID;
INSERT INTO job_counts (lane, state, jobs)
    SELECT lane, state, COUNT(*) FROM jobs GROUP BY lane, state;
CREATE TRIGGER jobs_made AFTER INSERT ON jobs BEGIN
    INSERT INTO job_counts (lane, state, jobs) VALUES (NEW.lane, NEW.state, 1)
        ON CONFLICT (lane, state) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER jobs_moved AFTER UPDATE OF lane, state ON jobs
    WHEN OLD.lane <> NEW.lane OR OLD.state <> NEW.state BEGIN
    UPDATE job_counts SET jobs = jobs - 1 WHERE lane = OLD.lane AND state = OLD.state;
    INSERT INTO job_counts (lane, state, jobs) VALUES (NEW.lane, NEW.state, 1)
        ON CONFLICT (lane, state) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    UPDATE job_counts SET jobs = jobs - 1 WHERE lane = OLD.lane AND state = OLD.state;
END;
