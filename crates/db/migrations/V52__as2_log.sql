-- Messages of AS2, both ways: what lists of them show, and where their events are.
-- id: of the transfer; of a message that was refused, of the event. event_id: what says so; unset
-- while the message is on its way.
CREATE TABLE as2_log (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL,
    at BIGINT NOT NULL,
    direction TEXT NOT NULL,
    state TEXT NOT NULL,
    partner TEXT,
    sender TEXT NOT NULL,
    receiver TEXT NOT NULL,
    message_id TEXT,
    about TEXT,
    event_id UUID,
    job UUID
);
CREATE INDEX as2_log_site ON as2_log (site, at, id);
CREATE INDEX as2_log_partner ON as2_log (site, partner, at, id);
CREATE INDEX as2_log_event ON as2_log (event_id);
CREATE INDEX as2_log_message ON as2_log (site, message_id);
