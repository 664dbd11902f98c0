-- Accounts by the persons that they are at providers of OpenID Connect, written with the accounts.
CREATE TABLE oidc_identities (
    site UUID NOT NULL,
    provider TEXT NOT NULL,
    subject TEXT NOT NULL,
    account TEXT NOT NULL,
    PRIMARY KEY (site, provider, subject)
);
CREATE INDEX oidc_identities_by_account ON oidc_identities (site, account);
