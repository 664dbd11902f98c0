-- Receipts of AS2 that partners want sent to an address of theirs, until that was done or given up.
-- receipt: the Message-ID of the receipt; due_at: when the next attempt may begin, which one that is
-- under way moves on.
CREATE TABLE as2_receipts (
    receipt TEXT NOT NULL PRIMARY KEY,
    site UUID NOT NULL,
    partner TEXT NOT NULL,
    sender TEXT NOT NULL,
    receiver TEXT NOT NULL,
    message_id TEXT NOT NULL,
    url TEXT NOT NULL,
    content_type TEXT NOT NULL,
    body TEXT NOT NULL,
    since BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    due_at BIGINT NOT NULL
);
CREATE INDEX as2_receipts_due ON as2_receipts (due_at);
CREATE INDEX as2_receipts_partner ON as2_receipts (site, partner);

-- Messages of ours for which a partner sends a receipt to an address of ours: which job waits for it.
CREATE TABLE as2_sent (
    site UUID NOT NULL,
    partner TEXT NOT NULL,
    message_id TEXT NOT NULL,
    job UUID NOT NULL,
    sent_at BIGINT NOT NULL,
    PRIMARY KEY (site, partner, message_id)
);
CREATE INDEX as2_sent_age ON as2_sent (sent_at);
