-- How often each share link was used, by the id of its account: counted at the use itself, so that
-- all nodes together let no more through than the link allows.
CREATE TABLE link_uses (
    account_id UUID NOT NULL PRIMARY KEY,
    site UUID NOT NULL,
    downloads BIGINT NOT NULL,
    uploads BIGINT NOT NULL,
    upload_bytes BIGINT NOT NULL,
    used_at BIGINT NOT NULL
);
CREATE INDEX link_uses_by_site ON link_uses (site);
