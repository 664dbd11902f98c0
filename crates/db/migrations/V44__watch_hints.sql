-- hints: how often somebody said that there is something new in the folder.
ALTER TABLE watches ADD COLUMN hints BIGINT NOT NULL DEFAULT 0;
