-- Which jobs an event made: asked by whoever traces a file, and before an event is replayed.
CREATE INDEX jobs_by_event ON jobs (event_id);
