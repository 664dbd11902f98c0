-- What a trace begins with: the last component of a transfer's path, in small letters, and its
-- digest. Transfers of programs that knew no names have none.
ALTER TABLE transfers ADD COLUMN name TEXT;
CREATE INDEX transfers_by_name ON transfers (site, name, changed_at) WHERE name IS NOT NULL;
CREATE INDEX transfers_by_blake3 ON transfers (site, blake3) WHERE blake3 IS NOT NULL;
CREATE INDEX transfers_by_sha256 ON transfers (site, sha256) WHERE sha256 IS NOT NULL;
