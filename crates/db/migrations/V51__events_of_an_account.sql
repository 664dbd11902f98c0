-- A search among the events of one account reads only the rows that match its kind and time: what
-- it tells them by stands in the index.
DROP INDEX events_by_account;
CREATE INDEX events_by_account ON events (site, account, sequence, kind, at) WHERE account IS NOT NULL;
