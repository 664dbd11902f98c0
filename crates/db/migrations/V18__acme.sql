-- What is known of the certificate that each listener has from an authority (ACME), and which node
-- asks for the next one.
CREATE TABLE acme_orders (
    site UUID NOT NULL,
    listener TEXT NOT NULL,
    -- What the certificate that is kept was asked for with, as JSON; NULL: none has come.
    subject TEXT,
    not_before BIGINT,
    not_after BIGINT,
    -- The settings of the last try, as JSON: others are tried at once.
    settings TEXT,
    -- Failures in a row, and the last of them.
    failures BIGINT NOT NULL,
    code TEXT,
    problem TEXT,
    retry_at BIGINT NOT NULL,
    -- An administrator wants it renewed now.
    asked BOOLEAN NOT NULL,
    node UUID,
    leased_until BIGINT NOT NULL,
    PRIMARY KEY (site, listener)
);
-- The account of a listener at an authority, sealed.
CREATE TABLE acme_accounts (
    site UUID NOT NULL,
    listener TEXT NOT NULL,
    directory TEXT NOT NULL,
    account_sealed TEXT NOT NULL,
    PRIMARY KEY (site, listener, directory)
);
-- What is answered to an authority that checks a name, on whichever node it asks.
CREATE TABLE acme_challenges (
    token TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    key_authorization TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX acme_challenges_by_name ON acme_challenges (name);
