//! What must be so for a condition to hold, as far as its form shows it.

use cel::Program;
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators as op};

use super::text;
use super::trace::flatten;
use super::tree::children;

/// One thing that must be so: the value of a variable or field, compared with a literal text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Constraint {
    /// Such as `file.path`.
    pub(crate) of: String,
    pub(crate) must: Must,
}

/// How a text must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Must {
    Equal(String),
    StartWith(String),
    EndWith(String),
}

impl Must {
    /// Whether a text is so.
    pub(crate) fn fits(&self, text: &str) -> bool {
        match self {
            Must::Equal(whole) => text == whole,
            Must::StartWith(start) => text.starts_with(start.as_str()),
            Must::EndWith(end) => text.ends_with(end.as_str()),
        }
    }

    /// Whether no text can be both.
    pub(crate) fn excludes(&self, other: &Must) -> bool {
        use Must::{EndWith, Equal, StartWith};
        match (self, other) {
            (Equal(one), Equal(two)) => one != two,
            (Equal(whole), StartWith(start)) | (StartWith(start), Equal(whole)) => {
                !whole.starts_with(start)
            }
            (Equal(whole), EndWith(end)) | (EndWith(end), Equal(whole)) => !whole.ends_with(end),
            (StartWith(one), StartWith(two)) => !one.starts_with(two) && !two.starts_with(one),
            (EndWith(one), EndWith(two)) => !one.ends_with(two) && !two.ends_with(one),
            (StartWith(_), EndWith(_)) | (EndWith(_), StartWith(_)) => false,
        }
    }
}

/// Of the operands that must all hold, those that compare a text.
pub(super) fn of(program: &Program) -> Vec<Constraint> {
    let mut operands = Vec::new();
    flatten(program.expression(), op::LOGICAL_AND, &mut operands);
    operands.into_iter().filter_map(|operand| constraint(program, operand)).collect()
}

fn constraint(program: &Program, expr: &IdedExpr) -> Option<Constraint> {
    let Expr::Call(CallExpr { func_name, target, args, .. }) = &expr.expr else { return None };
    let (of, must) = match (func_name.as_str(), target.as_deref(), args.as_slice()) {
        ("startsWith", Some(of), [start]) => (of, Must::StartWith(literal(start)?)),
        ("endsWith", Some(of), [end]) => (of, Must::EndWith(literal(end)?)),
        (op::EQUALS, _, [of, whole]) if literal(whole).is_some() => {
            (of, Must::Equal(literal(whole)?))
        }
        (op::EQUALS, _, [whole, of]) => (of, Must::Equal(literal(whole)?)),
        _ => return None,
    };
    Some(Constraint { of: text::of(program, of), must })
}

fn literal(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_owned()),
        _ => None,
    }
}

/// Whether no variable of the event has a part in it.
pub(super) fn is_constant(expr: &IdedExpr, variables: &[&str]) -> bool {
    match &expr.expr {
        Expr::Ident(name) => !variables.contains(&name.as_str()),
        _ => children(expr).into_iter().all(|child| is_constant(child, variables)),
    }
}
