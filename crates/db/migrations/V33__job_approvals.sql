-- What steps of jobs ask people. life: the epoch of the job before its first lease since it was
-- made or retried by hand, so that a retry asks anew. approvers: names, as JSON. yes: how many
-- people approved. decided_at: nothing is left to answer since then.
CREATE TABLE job_approvals (
    job UUID NOT NULL,
    address TEXT NOT NULL,
    life BIGINT NOT NULL,
    site UUID NOT NULL,
    rule TEXT NOT NULL,
    question TEXT NOT NULL,
    approvers TEXT NOT NULL,
    need BIGINT NOT NULL,
    yes BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    decided_at BIGINT,
    PRIMARY KEY (job, address, life)
);
CREATE INDEX job_approvals_open ON job_approvals (site, asked_at) WHERE decided_at IS NULL;
-- Their answers. verdict: approved or refused.
CREATE TABLE job_approval_answers (
    job UUID NOT NULL,
    address TEXT NOT NULL,
    life BIGINT NOT NULL,
    account TEXT NOT NULL,
    verdict TEXT NOT NULL,
    why TEXT,
    answered_at BIGINT NOT NULL,
    PRIMARY KEY (job, address, life, account)
);
