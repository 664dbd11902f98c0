//! A part of a condition as text, written from its tree: the tree has the place of each operator,
//! not where an expression begins and ends.

use cel::Program;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators as op};

/// How tightly an expression holds together, for brackets.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Choice,
    Or,
    And,
    Relation,
    Sum,
    Product,
    Sign,
    Member,
}

/// The text of `expr`, which belongs to `program`.
pub(super) fn of(program: &Program, expr: &IdedExpr) -> String {
    Writer { program }.text(expr, Binding::Choice)
}

/// A string as the language writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for letter in text.chars() {
        match letter {
            '\\' | '\'' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('\'');
    quoted
}

struct Writer<'p> {
    program: &'p Program,
}

impl Writer<'_> {
    /// In brackets where what is around it holds more tightly.
    fn text(&self, expr: &IdedExpr, around: Binding) -> String {
        let bare = match &expr.expr {
            Expr::Ident(name) => name.clone(),
            Expr::Literal(literal) => literal_text(literal),
            Expr::Select(select) => {
                let operand = self.text(&select.operand, Binding::Member);
                let field = format!("{operand}.{}", select.field);
                if select.test { format!("has({field})") } else { field }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(over) => self.macro_text(expr, &over.iter_range),
            Expr::List(list) => format!("[{}]", self.list(list.elements.iter())),
            Expr::Map(map) => {
                let entries = map.entries.iter().map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(pair) => {
                        let [key, value] = [&pair.key, &pair.value];
                        let text = |it| self.text(it, Binding::Choice);
                        format!("{}: {}", text(key), text(value))
                    }
                    EntryExpr::StructField(field) => field.field.clone(),
                });
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            Expr::Struct(fields) => format!("{}{{…}}", fields.type_name),
            Expr::Unspecified => "…".to_owned(),
        };
        if binding(expr) < around { format!("({bare})") } else { bare }
    }

    fn list<'e>(&self, parts: impl Iterator<Item = &'e IdedExpr>) -> String {
        parts.map(|part| self.text(part, Binding::Choice)).collect::<Vec<_>>().join(", ")
    }

    fn call(&self, call: &CallExpr) -> String {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (op::CONDITIONAL, [asked, then, otherwise]) => {
                let [asked, then] = [asked, then].map(|it| self.text(it, Binding::Or));
                format!("{asked} ? {then} : {}", self.text(otherwise, Binding::Choice))
            }
            (op::INDEX, [of, at]) => {
                let of = self.text(of, Binding::Member);
                format!("{of}[{}]", self.text(at, Binding::Choice))
            }
            (op::LOGICAL_NOT, [of]) => format!("!{}", self.text(of, Binding::Sign)),
            (op::NEGATE, [of]) => format!("-{}", self.text(of, Binding::Sign)),
            (operator, [left, right]) if infix(operator).is_some() => {
                let (word, holds) = infix(operator).unwrap_or(("?", Binding::Choice));
                let left = self.text(left, holds);
                // Brackets on the right of `a - (b - c)`; a chain of `&&` or `||` needs none.
                let is_logical = matches!(holds, Binding::And | Binding::Or);
                let is_same = binding(right) == holds && !is_logical;
                let right = self.text(right, if is_same { Binding::Member } else { holds });
                format!("{left} {word} {right}")
            }
            (_, args) => {
                let args = self.list(args.iter());
                match &call.target {
                    Some(target) => {
                        format!("{}.{name}({args})", self.text(target, Binding::Member))
                    }
                    None => format!("{name}({args})"),
                }
            }
        }
    }

    /// A macro as it was written: its own tree is what the parser made of it.
    fn macro_text(&self, expr: &IdedExpr, range: &IdedExpr) -> String {
        let info = self.program.source_info();
        let opened = info.offset_for(expr.id).and_then(|(at, _)| usize::try_from(at).ok());
        let written = opened.and_then(|opened| {
            let before = info.source.get(..opened)?;
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let name = before.trim_end().trim_end_matches(is_word).len();
            let rest = info.source.get(name..)?.trim_start();
            rest.get(..end_of_call(rest)?)
        });
        format!("{}.{}", self.text(range, Binding::Member), written.unwrap_or("…"))
    }
}

/// Where the brackets of the call at the beginning of `text` end.
fn end_of_call(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + letter.len_utf8());
                }
            }
            (None, _) => {}
        }
    }
    None
}

fn binding(expr: &IdedExpr) -> Binding {
    let Expr::Call(call) = &expr.expr else { return Binding::Member };
    match (call.func_name.as_str(), call.args.len()) {
        (op::CONDITIONAL, 3) => Binding::Choice,
        (op::LOGICAL_NOT | op::NEGATE, 1) => Binding::Sign,
        (operator, 2) => infix(operator).map_or(Binding::Member, |(_, holds)| holds),
        _ => Binding::Member,
    }
}

fn infix(operator: &str) -> Option<(&'static str, Binding)> {
    Some(match operator {
        op::LOGICAL_OR => ("||", Binding::Or),
        op::LOGICAL_AND => ("&&", Binding::And),
        op::EQUALS => ("==", Binding::Relation),
        op::NOT_EQUALS => ("!=", Binding::Relation),
        op::LESS => ("<", Binding::Relation),
        op::LESS_EQUALS => ("<=", Binding::Relation),
        op::GREATER => (">", Binding::Relation),
        op::GREATER_EQUALS => (">=", Binding::Relation),
        op::IN => ("in", Binding::Relation),
        op::ADD => ("+", Binding::Sum),
        op::SUBSTRACT => ("-", Binding::Sum),
        op::MULTIPLY => ("*", Binding::Product),
        op::DIVIDE => ("/", Binding::Product),
        op::MODULO => ("%", Binding::Product),
        _ => return None,
    })
}

fn literal_text(literal: &LiteralValue) -> String {
    match literal {
        LiteralValue::Boolean(flag) => flag.inner().to_string(),
        LiteralValue::Int(number) => number.inner().to_string(),
        LiteralValue::UInt(number) => format!("{}u", number.inner()),
        LiteralValue::Double(number) => format!("{:?}", number.inner()),
        LiteralValue::String(text) => quoted(text.inner()),
        LiteralValue::Bytes(bytes) => {
            format!("b{}", quoted(&String::from_utf8_lossy(bytes.inner())))
        }
        LiteralValue::Null => "null".to_owned(),
    }
}
