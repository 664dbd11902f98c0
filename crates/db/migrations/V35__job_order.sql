-- order_key: jobs that have the same run one after the other, in the order of ordered_at, the time of
-- their events. admitted: none of the others may begin before this one has ended.
ALTER TABLE jobs ADD COLUMN order_key TEXT;
ALTER TABLE jobs ADD COLUMN ordered_at BIGINT;
ALTER TABLE jobs ADD COLUMN admitted BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX jobs_in_order ON jobs (order_key, ordered_at, event_id)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'running', 'failed');
CREATE INDEX jobs_admitted ON jobs (order_key)
    WHERE admitted AND state IN ('ready', 'running', 'failed');
