-- Models of host applications, as the nouns of V1.
CREATE TABLE models (
    id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (site, name)
);
