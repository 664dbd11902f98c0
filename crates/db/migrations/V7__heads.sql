-- Signed heads of the journals: what a node said its journal was, when it was so long.
CREATE TABLE heads (
    node UUID NOT NULL,
    size BIGINT NOT NULL,
    at BIGINT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (node, size)
);
-- The key by which a node signs its heads: public as signed notes name it, private sealed. It is no
-- noun, so that no document and no prune can take it away.
CREATE TABLE node_keys (
    node UUID NOT NULL PRIMARY KEY,
    public TEXT NOT NULL,
    private_sealed TEXT NOT NULL
);
-- The events of a node in the order of its journal, to compare them with it.
CREATE INDEX events_by_node ON events (node, node_sequence) WHERE node_sequence IS NOT NULL;
