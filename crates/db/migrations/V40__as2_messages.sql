-- Messages of AS2 by the ids that their senders gave them, unique over all nodes. node and start: which
-- start of which node publishes the message, or did; event_id: the event that says so, once it is among
-- the events.
CREATE TABLE as2_messages (
    site UUID NOT NULL,
    sender TEXT NOT NULL,
    receiver TEXT NOT NULL,
    message_id TEXT NOT NULL,
    node UUID NOT NULL,
    start_id UUID NOT NULL,
    claimed_at BIGINT NOT NULL,
    event_id UUID,
    PRIMARY KEY (site, sender, receiver, message_id)
);
CREATE INDEX as2_messages_open ON as2_messages (node) WHERE event_id IS NULL;
CREATE INDEX as2_messages_age ON as2_messages (claimed_at);
