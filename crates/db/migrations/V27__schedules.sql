-- How far each rule that starts by the clock has come. planned: the last instant that was decided;
-- it moves forward only. due: the last instant that was to start a job. missed: a JSON list of
-- instants that wait for their run, the oldest first; queued: the one that waits for the run before
-- it to end. telling: the event of the last decision, until it is among the events; telling_of: its
-- instant; telling_why: why the rule does not start then, unset if it does.
CREATE TABLE schedules (
    rule UUID NOT NULL PRIMARY KEY,
    expression TEXT NOT NULL,
    zone TEXT NOT NULL,
    planned BIGINT NOT NULL,
    due BIGINT,
    missed TEXT NOT NULL,
    queued BIGINT,
    telling UUID,
    telling_of BIGINT,
    telling_why TEXT,
    changed_at BIGINT NOT NULL
);
CREATE INDEX schedules_telling ON schedules (telling) WHERE telling IS NOT NULL;
