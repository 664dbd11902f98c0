//! The value of each part of a condition, and which part decided.
//!
//! Every part is evaluated by the evaluator of the language itself, in the context of the whole:
//! nothing here computes a value. Only `&&`, `||` and `?:` are followed, to tell what was not
//! evaluated and what decided; a macro is one value.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators as op};
use cel::objects::Key;
use cel::{Context, Program, Value};
use entrepot_nouns::explanation::TracedExpression;

use super::error::short;
use super::text;
use super::tree::children;
use crate::limits::TRACED_CHARACTERS;

/// `program` with the values of its parts in `context`.
pub(super) fn trace(program: &Program, context: &Context) -> TracedExpression {
    let tracer = Tracer { program, context };
    let root = program.expression();
    let mut traced = tracer.part(root, Evaluated::Yes);
    mark(root, &mut traced);
    traced
}

struct Tracer<'p> {
    program: &'p Program,
    context: &'p Context<'p, 'p>,
}

/// Whether the evaluation of the whole comes to a part.
#[derive(Clone, Copy, PartialEq)]
enum Evaluated {
    Yes,
    No,
}

impl Tracer<'_> {
    fn part(&self, expr: &IdedExpr, evaluated: Evaluated) -> TracedExpression {
        let text = text::of(self.program, expr);
        let mut traced =
            TracedExpression { text, value: None, error: None, deciding: false, parts: Vec::new() };
        if evaluated == Evaluated::No {
            return traced;
        }
        match self.value(expr) {
            Ok(value) => traced.value = Some(shown(&value)),
            Err(error) => traced.error = Some(error),
        }
        traced.parts = match logical(expr) {
            Some(Logical::Chain { operator, operands }) => self.chain(operator, &operands),
            Some(Logical::Choice { asked, then, otherwise }) => {
                let is = |flag| self.is(asked, &Value::Bool(flag));
                let [of_then, of_otherwise] = [is(true), is(false)];
                vec![
                    self.part(asked, Evaluated::Yes),
                    self.part(then, of_then),
                    self.part(otherwise, of_otherwise),
                ]
            }
            None => {
                let parts = shown_parts(expr, traced.error.as_deref()).into_iter();
                parts.map(|part| self.part(part, Evaluated::Yes)).collect()
            }
        };
        traced
    }

    /// The operands of one `&&` or `||`, up to the first that settles it.
    fn chain(&self, operator: &str, operands: &[&IdedExpr]) -> Vec<TracedExpression> {
        let settles = Value::Bool(operator == op::LOGICAL_OR);
        let mut evaluated = Evaluated::Yes;
        let mut parts = Vec::with_capacity(operands.len());
        for operand in operands {
            parts.push(self.part(operand, evaluated));
            if evaluated == Evaluated::Yes && self.is(operand, &settles) == Evaluated::Yes {
                evaluated = Evaluated::No;
            }
        }
        parts
    }

    /// Whether the value of `expr` is `wanted`.
    fn is(&self, expr: &IdedExpr, wanted: &Value) -> Evaluated {
        match self.value(expr) {
            Ok(value) if value == *wanted => Evaluated::Yes,
            _ => Evaluated::No,
        }
    }

    fn value(&self, expr: &IdedExpr) -> Result<Value, String> {
        let run = AssertUnwindSafe(|| Value::resolve(expr, self.context));
        match catch_unwind(run) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(short(&error.to_string())),
            Err(_) => Err("the evaluator gave up".to_owned()),
        }
    }
}

/// An expression whose operands are not all evaluated.
enum Logical<'e> {
    /// Operands of one operator, however they are grouped.
    Chain { operator: &'e str, operands: Vec<&'e IdedExpr> },
    /// `asked ? then : otherwise`.
    Choice { asked: &'e IdedExpr, then: &'e IdedExpr, otherwise: &'e IdedExpr },
}

fn logical(expr: &IdedExpr) -> Option<Logical<'_>> {
    let Expr::Call(call) = &expr.expr else { return None };
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operator @ (op::LOGICAL_AND | op::LOGICAL_OR), [_, _]) => {
            let mut operands = Vec::new();
            flatten(expr, operator, &mut operands);
            Some(Logical::Chain { operator, operands })
        }
        (op::CONDITIONAL, [asked, then, otherwise]) => {
            Some(Logical::Choice { asked, then, otherwise })
        }
        _ => None,
    }
}

/// `a && b && c` is a tree of pairs; what counts is the order of its operands.
pub(super) fn flatten<'e>(expr: &'e IdedExpr, operator: &str, operands: &mut Vec<&'e IdedExpr>) {
    match &expr.expr {
        Expr::Call(CallExpr { func_name, args, .. }) if func_name == operator => {
            args.iter().for_each(|arg| flatten(arg, operator, operands));
        }
        _ => operands.push(expr),
    }
}

/// The parts of what is evaluated whole: those of which the value is not seen already. The variable
/// before a field is shown where the field cannot be had.
fn shown_parts<'e>(expr: &'e IdedExpr, error: Option<&str>) -> Vec<&'e IdedExpr> {
    let failed = error.is_some();
    let is_shown = |part: &&IdedExpr| !matches!(part.expr, Expr::Literal(_));
    match &expr.expr {
        Expr::Call(call) => {
            let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
            parts.filter(is_shown).collect()
        }
        Expr::Select(select) if failed => vec![&*select.operand],
        Expr::Select(select) => {
            let is_plain = matches!(select.operand.expr, Expr::Ident(_) | Expr::Select(_));
            if is_plain { Vec::new() } else { vec![&*select.operand] }
        }
        Expr::List(_) | Expr::Map(_) if failed => {
            children(expr).into_iter().filter(is_shown).collect()
        }
        _ => Vec::new(),
    }
}

/// Marks the parts from which the value of `traced` comes.
fn mark(expr: &IdedExpr, traced: &mut TracedExpression) {
    let parts = &mut traced.parts;
    match logical(expr) {
        Some(Logical::Chain { operator, operands }) => {
            let settled = if operator == op::LOGICAL_OR { "true" } else { "false" };
            let pairs = || operands.iter().copied();
            let is_settled = |part: &TracedExpression| part.value.as_deref() == Some(settled);
            if let Some(at) = parts.iter().position(is_settled) {
                mark_at(pairs(), parts, |here, _| here == at);
            } else if let Some(at) = parts.iter().rposition(|part| part.error.is_some()) {
                mark_at(pairs(), parts, |here, _| here == at);
            } else if traced.error.is_some() {
                let is_flag =
                    |it: &TracedExpression| matches!(it.value.as_deref(), Some("true" | "false"));
                mark_at(pairs(), parts, |_, part| !is_flag(part));
            } else {
                mark_at(pairs(), parts, |_, _| true);
            }
        }
        Some(Logical::Choice { asked, then, otherwise }) => {
            let branches = [then, otherwise];
            let is_made = |part: &TracedExpression| part.value.is_some() || part.error.is_some();
            let taken = parts.iter().skip(1).position(is_made);
            let settles = |at: usize| {
                let is_literal = |it: &&IdedExpr| matches!(it.expr, Expr::Literal(_));
                branches.get(at).is_some_and(is_literal)
            };
            let at = match taken {
                Some(at) if !settles(at) => at + 1,
                _ => 0,
            };
            mark_at([asked, then, otherwise].into_iter(), parts, |here, _| here == at);
        }
        None => {
            let shown = shown_parts(expr, traced.error.as_deref());
            let is_negation = matches!(&expr.expr, Expr::Call(call)
                if call.func_name == op::LOGICAL_NOT);
            let failed = parts.iter().position(|part| part.error.is_some());
            let below = failed.or(if is_negation && !parts.is_empty() { Some(0) } else { None });
            match below {
                Some(at) => mark_at(shown.into_iter(), parts, |here, _| here == at),
                None => traced.deciding = true,
            }
        }
    }
}

/// Goes on with those parts that `decides` names.
fn mark_at<'e>(
    exprs: impl Iterator<Item = &'e IdedExpr>,
    parts: &mut [TracedExpression],
    decides: impl Fn(usize, &TracedExpression) -> bool,
) {
    for (at, (expr, part)) in exprs.zip(parts).enumerate() {
        if decides(at, part) {
            mark(expr, part);
        }
    }
}

/// A value as the language writes it, cut where it is long.
fn shown(value: &Value) -> String {
    let whole = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => format!("{number}u"),
        Value::Float(number) => format!("{number:?}"),
        Value::String(text) => text::quoted(text),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::List(items) => {
            let items = items.iter().take(TRACED_CHARACTERS).map(shown);
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let mut fields: Vec<String> = map
                .map
                .iter()
                .map(|(key, field)| format!("{}: {}", shown_key(key), shown(field)))
                .collect();
            fields.sort();
            format!("{{{}}}", fields.join(", "))
        }
        other => format!("{other:?}"),
    };
    if whole.chars().count() <= TRACED_CHARACTERS {
        return whole;
    }
    let cut: String = whole.chars().take(TRACED_CHARACTERS).collect();
    format!("{cut}…")
}

fn shown_key(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => format!("{number}u"),
        Key::Bool(flag) => flag.to_string(),
        Key::String(text) => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Condition, ConditionError, Subject};
    use crate::fixture::{main_site, uploaded};

    /// Conditions, and the parts of each that decide about an upload of `/in/orders/a.xml` with
    /// 3 bytes.
    const TABLE: &[(&str, &[&str])] = &[
        ("true", &["true"]),
        ("false", &["false"]),
        ("!true", &["!true"]),
        ("!(file.size > 2)", &["file.size > 2"]),
        ("!!(file.size > 2)", &["file.size > 2"]),
        ("file.size > 2", &["file.size > 2"]),
        ("file.size > 2 && file.size > 3", &["file.size > 3"]),
        ("file.size > 3 && file.size > 2", &["file.size > 3"]),
        ("file.size > 2 && file.size > 1", &["file.size > 2", "file.size > 1"]),
        ("file.size > 3 || file.size > 2", &["file.size > 2"]),
        ("file.size > 2 || file.size > 3", &["file.size > 2"]),
        ("file.size > 3 || file.size > 4", &["file.size > 3", "file.size > 4"]),
        ("true && true && false && true", &["false"]),
        ("false || false || true || false", &["true"]),
        ("(file.size > 2 && account == 'x') || site == 'y'", &["account == 'x'", "site == 'y'"]),
        ("(file.size > 2 || account == 'x') && site == 'y'", &["site == 'y'"]),
        (
            "file.size > 2 && (account == 'x' || site == 'main')",
            &["file.size > 2", "site == 'main'"],
        ),
        ("file.size > 2 && !(account == 'acme')", &["account == 'acme'"]),
        ("file.size > 2 ? account == 'x' : true", &["account == 'x'"]),
        ("file.size > 3 ? true : account == 'x'", &["account == 'x'"]),
        ("file.size > 3 ? true : false", &["file.size > 3"]),
        ("event.depth == 0 ? true : false", &["event.depth == 0"]),
        ("(file.size > 3 ? 'a' : 'b') == 'a'", &["(file.size > 3 ? 'a' : 'b') == 'a'"]),
        ("file.name.endsWith('.csv')", &["file.name.endsWith('.csv')"]),
        (
            "file.name.startsWith('a') && file.name.endsWith('.csv')",
            &["file.name.endsWith('.csv')"],
        ),
        ("file.path == '/in/orders/a.xml'", &["file.path == '/in/orders/a.xml'"]),
        ("event.path.startsWith('/out/')", &["event.path.startsWith('/out/')"]),
        ("has(event.session)", &["has(event.session)"]),
        ("has(event.session) && event.session == 'x'", &["has(event.session)"]),
        ("!has(event.session)", &["has(event.session)"]),
        ("account in ['x', 'y']", &["account in ['x', 'y']"]),
        ("'acme' in [account, site]", &["'acme' in [account, site]"]),
        (
            "['.xml'].exists(end, file.name.endsWith(end))",
            &["['.xml'].exists(end, file.name.endsWith(end))"],
        ),
        (
            "['.csv'].exists(e, file.name.endsWith(e)) && true",
            &["['.csv'].exists(e, file.name.endsWith(e))"],
        ),
        ("[1, 2, 3].all(n, n <= file.size)", &["[1, 2, 3].all(n, n <= file.size)"]),
        (
            "[1, 2].filter(n, n > 1).map(n, n * 2) == [4]",
            &["[1, 2].filter(n, n > 1).map(n, n * 2) == [4]"],
        ),
        ("['a'].map(x, x + ')')[0] == 'a)'", &["['a'].map(x, x + ')')[0] == 'a)'"]),
        ("size(file.name) < 4", &["size(file.name) < 4"]),
        ("file.name.matches('^[a-z]+\\\\.xml$')", &["file.name.matches('^[a-z]+\\\\.xml$')"]),
        ("command == null", &["command == null"]),
        ("command.verb == 'STOR'", &["command.verb"]),
        ("command != null && command.verb == 'STOR'", &["command != null"]),
        ("command.verb == 'STOR' && site == 'x'", &["site == 'x'"]),
        ("command.verb == 'STOR' && site == 'main'", &["command.verb"]),
        ("site == 'main' && command.verb == 'STOR'", &["command.verb"]),
        ("command.verb == 'STOR' || site == 'main'", &["site == 'main'"]),
        ("command.verb == 'STOR' || site == 'x'", &["command.verb"]),
        ("command.verb == 'a' ? true : false", &["command.verb"]),
        ("!(command.verb == 'a')", &["command.verb"]),
        ("event.colour == 'red'", &["event.colour"]),
        ("1 / (file.size - 3) == 1", &["1 / (file.size - 3)"]),
        ("file.size - (2 - 1) == 2", &["file.size - (2 - 1) == 2"]),
        ("(file.size + 1) * 2 == 8", &["(file.size + 1) * 2 == 8"]),
        ("file.size % 2 == 0", &["file.size % 2 == 0"]),
        ("-file.size < 0", &["-file.size < 0"]),
        ("int('x') > 3", &["int('x')"]),
        ("{'a': file.size}['a'] == 3", &["{'a': file.size}['a'] == 3"]),
        ("{'a': {'b': 1}}.a.b == 2", &["{'a': {'b': 1}}.a.b == 2"]),
        ("timestamp(event.at).getHours() < 25", &["timestamp(event.at).getHours() < 25"]),
        ("b'x' == b'y' || 1u == 2u || 1.5 > 2.0", &["b'x' == b'y'", "1u == 2u", "1.5 > 2.0"]),
        ("file.name", &["file.name"]),
        ("file.name && true", &["file.name"]),
        ("true && file.size", &["file.size"]),
        ("file.name + 'é' == 'a.xmlé'", &["file.name + 'é' == 'a.xmlé'"]),
    ];

    fn deciding(traced: &TracedExpression) -> Vec<String> {
        let own = traced.deciding.then(|| traced.text.clone());
        own.into_iter().chain(traced.parts.iter().flat_map(deciding)).collect()
    }

    #[test]
    fn the_value_is_that_of_the_evaluation_and_the_deciding_part_is_marked() {
        assert!(TABLE.len() >= 60);
        let event = uploaded("/in/orders/a.xml");
        let subject = Subject::new(&event, &main_site());
        let mut wrong = Vec::new();
        for (source, decides) in TABLE {
            let condition = Condition::compile(source).unwrap();
            let traced = condition.trace(&subject);
            match condition.holds(&subject) {
                Ok(holds) => {
                    assert_eq!(traced.value, Some(holds.to_string()), "{source}");
                    assert_eq!(traced.error, None, "{source}");
                }
                Err(ConditionError::NotBool(_)) => assert!(traced.value.is_some(), "{source}"),
                Err(ConditionError::Fails(error)) => {
                    assert_eq!(traced.error, Some(error), "{source}");
                }
                Err(other) => panic!("{source}: {other}"),
            }
            let found = deciding(&traced);
            if found != *decides {
                wrong.push(format!("{source}: {found:?}, not {decides:?}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// A part as it is written is the same expression again.
    fn written_again(traced: &TracedExpression, subject: &Subject, source: &str) {
        let again = Condition::compile(&traced.text)
            .unwrap_or_else(|error| panic!("{source}: '{}': {error}", traced.text));
        let second = again.trace(subject);
        let first = (&traced.value, &traced.error);
        if first != (&None, &None) {
            assert_eq!((&second.value, &second.error), first, "{source}: '{}'", traced.text);
        }
        assert_eq!(second.text, traced.text, "{source}");
        traced.parts.iter().for_each(|part| written_again(part, subject, source));
    }

    #[test]
    fn the_text_of_every_part_is_an_expression_of_the_same_value() {
        let event = uploaded("/in/orders/a.xml");
        let subject = Subject::new(&event, &main_site());
        for (source, _) in TABLE {
            let condition = Condition::compile(source).unwrap();
            written_again(&condition.trace(&subject), &subject, source);
        }
    }

    #[test]
    fn what_is_not_evaluated_has_no_value_and_long_values_are_cut() {
        let event = uploaded("/in/orders/a.xml");
        let subject = Subject::new(&event, &main_site());
        let traced = |source: &str| Condition::compile(source).unwrap().trace(&subject);
        let parts = traced("site == 'x' && account == 'acme' && file.nothing == 1").parts;
        let [first, second, third] = &parts[..] else { panic!("{parts:?}") };
        assert_eq!(first.value.as_deref(), Some("false"));
        assert_eq!((&second.value, &second.error, second.parts.len()), (&None, &None, 0));
        assert_eq!((&third.value, &third.error), (&None, &None));
        let long = traced("event == null");
        let value = long.parts[0].value.as_ref().unwrap();
        assert!(value.starts_with('{') && value.ends_with('…'), "{value}");
        assert_eq!(value.chars().count(), TRACED_CHARACTERS + 1);
    }
}
