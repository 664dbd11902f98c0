-- What was removed, is kept by its mount and can be put back: a projection of the events file.trashed,
-- file.restored and file.purged. body: the event that it was removed by.
CREATE TABLE trash (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL,
    endpoint TEXT NOT NULL,
    prefix TEXT NOT NULL,
    kept_until BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX trash_by_prefix ON trash (site, endpoint, prefix, id);
CREATE INDEX trash_by_end ON trash (kept_until);
