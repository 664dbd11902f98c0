-- Versions of files that were replaced lie beside what was removed: a projection of the events
-- file.versioned, file.restored and file.purged. version_of: the path at the endpoint of the file
-- that was replaced; of what was removed it is unset. size: bytes, unset where nobody has counted
-- them. most_kept, most_bytes: what the mount kept at most when the row was made.
ALTER TABLE trash ADD COLUMN version_of TEXT;
ALTER TABLE trash ADD COLUMN size BIGINT;
ALTER TABLE trash ADD COLUMN most_kept BIGINT;
ALTER TABLE trash ADD COLUMN most_bytes BIGINT;
CREATE INDEX trash_by_file ON trash (site, endpoint, version_of, id) WHERE version_of IS NOT NULL;
CREATE INDEX trash_by_limit ON trash (site, endpoint, prefix) WHERE most_bytes IS NOT NULL;
CREATE INDEX trash_uncounted ON trash (site, endpoint, prefix, id) WHERE size IS NULL;
