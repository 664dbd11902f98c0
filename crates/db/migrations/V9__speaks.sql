-- The newest level of formats (journal, events, notes, rows) that the program of a node reads and
-- writes. Nodes of several versions write at the least of their levels.
ALTER TABLE nodes ADD COLUMN speaks BIGINT NOT NULL DEFAULT 1;
