//! The statements of an endpoint, and the ones that are built around its list.

use entrepot_nouns::endpoint::SqlTarget;

/// The endpoint's statements; `page` and `one` are queries around its list.
pub(super) struct Statements {
    /// The files after the name `$1`, ordered by name, at most `$2`.
    pub(super) page: Option<String>,
    /// The file `$1`.
    pub(super) one: Option<String>,
    pub(super) read: Option<String>,
    pub(super) write: Option<String>,
    pub(super) delete: Option<String>,
}

impl Statements {
    pub(super) fn of(target: &SqlTarget) -> Self {
        let sqlite = target.url.starts_with("sqlite:");
        // Names are compared byte by byte, whatever the column says.
        let (order, columns) = if sqlite {
            let time = "CASE typeof(modified) WHEN 'text' THEN unixepoch(modified) \
                        ELSE CAST(modified AS INTEGER) END";
            ("name COLLATE BINARY", format!("name, CAST(size AS INTEGER), {time}"))
        } else {
            ("name::text COLLATE \"C\"", "name::text, size::bigint, modified".to_owned())
        };
        // A comment at the end of theirs ends with the line.
        let from = |list: &String| format!("SELECT {columns} FROM (\n{}\n) AS files", bare(list));
        let page = |list| format!("{} WHERE {order} > $1 ORDER BY {order} LIMIT $2", from(list));
        // The column's own comparison finds the row by its index, ours takes no other.
        let name = if sqlite { "name" } else { "name::text" };
        let one = |list| format!("{} WHERE {name} = $1 AND {order} = $1", from(list));
        let theirs = |statement: &Option<String>| statement.as_deref().map(bare);
        Statements {
            page: target.list.as_ref().map(page),
            one: target.list.as_ref().map(one),
            read: theirs(&target.read),
            write: theirs(&target.write),
            delete: theirs(&target.delete),
        }
    }
}

/// Without the semicolon at its end.
pub(super) fn bare(statement: &str) -> String {
    statement.trim_end_matches([';', ' ', '\t', '\r', '\n']).to_owned()
}

/// What an endpoint without the statement answers to a change.
pub(super) const NO_WRITE: &str = "the endpoint has no statement 'write'";
pub(super) const NO_DELETE: &str = "the endpoint has no statement 'delete'";
