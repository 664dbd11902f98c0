-- What finds a job that may run is the index of its lane. Of states only those that wait are asked
-- for: a job that is claimed, or has ended, costs no index of states.
DROP INDEX jobs_to_claim;
DROP INDEX jobs_by_state;
CREATE INDEX jobs_ready ON jobs (due_at) WHERE state = 'ready';
-- A step that a job goes past changes nothing that has an index: with room in its page it needs no
-- entry in any.
ALTER TABLE jobs SET (fillfactor = 70);
