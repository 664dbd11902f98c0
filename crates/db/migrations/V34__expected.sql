-- Rules that expect files. terms: names what counts and when; other terms begin anew. Windows that
-- began before since are not judged.
CREATE TABLE expectations (
    rule UUID NOT NULL PRIMARY KEY,
    terms UUID NOT NULL,
    since BIGINT NOT NULL
);
-- Their windows. seen: files that came in it; late: after it and before the next one. touched: these
-- have grown since somebody looked. decided: a JSON list of what is decided about it: soon, met,
-- missed, late, extra. telling: those of them whose events may not be among the events yet, with
-- their numbers; decided_at: when the last was decided.
CREATE TABLE expected_windows (
    rule UUID NOT NULL,
    terms UUID NOT NULL,
    begins BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    late BIGINT NOT NULL,
    touched BOOLEAN NOT NULL,
    decided TEXT NOT NULL,
    telling TEXT,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (rule, terms, begins)
);
CREATE INDEX expected_windows_touched ON expected_windows (rule) WHERE touched;
CREATE INDEX expected_windows_telling ON expected_windows (rule) WHERE telling IS NOT NULL;
-- All events of the node's journal up to this time, by the clock of the node, are in the database.
ALTER TABLE nodes ADD COLUMN projected_until BIGINT NOT NULL DEFAULT 0;
