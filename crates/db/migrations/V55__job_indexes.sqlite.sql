-- What finds a job that may run is the index of its lane. Of states only those that wait are asked
-- for: a job that is claimed, or has ended, costs no index of states.
DROP INDEX jobs_to_claim;
DROP INDEX jobs_by_state;
CREATE INDEX jobs_ready ON jobs (due_at) WHERE state = 'ready';
