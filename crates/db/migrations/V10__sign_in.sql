-- API tokens by the hash of what clients show, written with the keys of that type; and when each
-- was used last, which is no part of the configuration.
CREATE TABLE api_tokens (
    site UUID NOT NULL,
    hash TEXT NOT NULL,
    name TEXT NOT NULL,
    account TEXT NOT NULL,
    used_at BIGINT,
    used_from TEXT,
    PRIMARY KEY (site, hash)
);
CREATE UNIQUE INDEX api_tokens_by_name ON api_tokens (site, name);
-- Browsers that are signed in, by the hash of their cookie: every node knows them.
CREATE TABLE sign_ins (
    id UUID NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    site UUID NOT NULL,
    account TEXT NOT NULL,
    account_id UUID NOT NULL,
    opened_at BIGINT NOT NULL,
    -- Within a minute.
    seen_at BIGINT NOT NULL,
    proved_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    -- Signed out when it was not seen for so long, microseconds.
    idle_us BIGINT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    proof TEXT NOT NULL,
    -- What proved the login, as JSON: it ends when that would no longer count.
    credentials TEXT NOT NULL
);
CREATE INDEX sign_ins_by_account ON sign_ins (site, account);
-- Recovery codes that were not used yet, by the id of their account and the hash of the code.
CREATE TABLE recovery_codes (
    account_id UUID NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (account_id, hash)
);
-- The token by which the first administrator is made, by its hash: one, or none.
CREATE TABLE set_up_tokens (
    hash TEXT NOT NULL PRIMARY KEY,
    ends_at BIGINT NOT NULL
);
