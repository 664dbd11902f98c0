-- Folders that rules watch. place: the endpoint and folder that the rows of watched_files are of.
-- anew: how often somebody had a file found anew.
-- node: the node that lists the folder, until leased_until.
CREATE TABLE watches (
    rule UUID NOT NULL PRIMARY KEY,
    place TEXT NOT NULL,
    node UUID NOT NULL,
    leased_until BIGINT NOT NULL,
    anew BIGINT NOT NULL DEFAULT 0
);
-- The files that were found there: size in bytes, and the time of the last change as the server
-- there has it; no size: it is to be found anew. round: how often the file was to be found anew. gone_at: it is not listed any more
-- since then; the row is deleted some time after.
CREATE TABLE watched_files (
    rule UUID NOT NULL,
    path TEXT NOT NULL,
    size BIGINT,
    modified BIGINT NOT NULL,
    round BIGINT NOT NULL,
    gone_at BIGINT,
    PRIMARY KEY (rule, path)
);
