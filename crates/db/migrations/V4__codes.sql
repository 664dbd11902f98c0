-- The last step of an account's code generator that was taken (RFC 6238 §5.2): none is taken
-- twice, on whichever node.
CREATE TABLE codes (
    site UUID NOT NULL,
    account TEXT NOT NULL,
    step BIGINT NOT NULL,
    PRIMARY KEY (site, account)
);
