//! The tree of a condition, as all who walk it see it.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// The children of a node, the parts of a macro included.
pub(super) fn children(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).collect(),
        Expr::Comprehension(over) => {
            vec![&over.iter_range, &over.accu_init, &over.loop_cond, &over.loop_step, &over.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(entry).collect(),
        Expr::Struct(fields) => fields.entries.iter().flat_map(entry).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::MapEntry(pair) => vec![&pair.key, &pair.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}
