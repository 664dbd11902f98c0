-- Answers to requests that their sender may repeat under the same key: the repetition is given the
-- answer again and changes nothing. request: a keyed hash of what was asked. Kept for a day.
CREATE TABLE request_answers (
    site UUID NOT NULL,
    actor TEXT NOT NULL,
    request_key TEXT NOT NULL,
    request TEXT NOT NULL,
    answer TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (site, actor, request_key)
);
CREATE INDEX request_answers_by_time ON request_answers (at);
