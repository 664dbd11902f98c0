-- Passkeys by what authenticators know them by, written with the keys of that type; and the
-- counter of signatures and the last use of each, which are no part of the configuration.
CREATE TABLE passkeys (
    site UUID NOT NULL,
    credential TEXT NOT NULL,
    name TEXT NOT NULL,
    account TEXT NOT NULL,
    signatures BIGINT NOT NULL DEFAULT 0,
    used_at BIGINT,
    used_from TEXT,
    PRIMARY KEY (site, credential)
);
CREATE UNIQUE INDEX passkeys_by_name ON passkeys (site, name);
-- What browsers were asked and have answered, by its hash: nothing is answered twice, on whichever
-- node. Kept until it would be too late anyway.
CREATE TABLE answered_challenges (
    hash TEXT NOT NULL PRIMARY KEY,
    ends_at BIGINT NOT NULL
);
