-- One table a noun. The body is the noun's document as JSON; what is searched stands beside it.
-- UUID is a type of PostgreSQL; SQLite keeps the same 16 bytes as a blob under that name.
-- A site belongs to the site main, main to itself. Column owner: the account of a key or mount.
CREATE TABLE sites (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
CREATE TABLE policies (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
CREATE TABLE keys (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    owner TEXT,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
CREATE INDEX keys_by_owner ON keys (site, owner);
CREATE TABLE endpoints (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
CREATE TABLE accounts (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
CREATE TABLE mounts (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    owner TEXT,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
CREATE INDEX mounts_by_owner ON mounts (site, owner);
CREATE TABLE rules (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
CREATE TABLE listeners (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
-- Which noun names which, in the same site: written with each noun. The index holds the order in
-- which users are asked for: SQLite would else read all references of the site in that order.
CREATE TABLE noun_references (
    site UUID NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    to_kind TEXT NOT NULL,
    to_name TEXT NOT NULL,
    PRIMARY KEY (site, kind, name, to_kind, to_name)
);
CREATE INDEX noun_references_by_target ON noun_references (site, to_kind, to_name, kind, name);
-- One row: one more at each committed change of any noun.
CREATE TABLE config_revision (
    only_row BIGINT NOT NULL PRIMARY KEY CHECK (only_row = 1),
    revision BIGINT NOT NULL
);
INSERT INTO config_revision (only_row, revision) VALUES (1, 0);
