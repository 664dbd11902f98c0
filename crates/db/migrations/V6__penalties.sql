-- Wrong passwords and what follows from them: each node adds what it sees and reads what the
-- others have added, in the order of revisions; a node that starts reads all that still counts.
CREATE TABLE penalties (
    -- Of the transaction that added it, and the place therein.
    revision BIGINT NOT NULL,
    number BIGINT NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    site UUID,
    account TEXT,
    address TEXT,
    -- Failures of the same kind and subject that are worth remembering.
    most BIGINT NOT NULL,
    at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (revision, number)
);
CREATE INDEX penalties_by_address ON penalties (address);
CREATE INDEX penalties_by_account ON penalties (site, account);
CREATE INDEX penalties_by_expiry ON penalties (expires_at);
-- One row. Who adds penalties changes it first, so that revisions are committed in their order.
CREATE TABLE penalty_revision (
    revision BIGINT NOT NULL
);
INSERT INTO penalty_revision (revision) VALUES (0);
