//! Says before a condition is stored what would fail whenever it is evaluated: names, fields and
//! functions that are not there, and values that do not go together.
//!
//! The language has no checker of its own. This one walks the tree from the leaves up. What a
//! function or operator takes and gives is not listed here: it is tried with a value of each type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, SelectExpr, operators as op};
use cel::common::ast::{EntryExpr, LiteralValue};
use cel::{Context, ExecutionError, Program, Value};
use entrepot_nouns::rule::ExpressionValue;

use super::error::ConditionError;
use super::functions::{OF_STRINGS, OURS, add_calendars, environment, flaw};
use super::types::{Scope, Type};
use crate::calendars::Calendars;

/// The functions of the standard.
const FUNCTIONS: &[&str] = &[
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Names that stand for types.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// The macros, which the parser has replaced already where they were written rightly.
const MACROS: &[&str] = &["all", "exists", "exists_one", "filter", "has", "map"];

/// Checks `program` as an expression that must give this.
///
/// # Errors
/// What is wrong, and where.
pub(super) fn check(
    program: &Program,
    scope: &Scope,
    gives: ExpressionValue,
) -> Result<(), ConditionError> {
    let given = Checker { program }.infer(program.expression(), &scope.0)?;
    match gives {
        ExpressionValue::Flag if !given.may_be_flag() => {
            Err(ConditionError::NotBool(given.to_string()))
        }
        ExpressionValue::Instant if !given.may_be_instant() => {
            Err(ConditionError::NotInstant(given.to_string()))
        }
        ExpressionValue::List if !given.may_be_list() => {
            Err(ConditionError::NotList(given.to_string()))
        }
        _ => Ok(()),
    }
}

type Names = BTreeMap<String, Type>;

struct Checker<'p> {
    program: &'p Program,
}

impl Checker<'_> {
    fn infer(&self, expr: &IdedExpr, scope: &Names) -> Result<Type, ConditionError> {
        match &expr.expr {
            Expr::Ident(name) => self.variable(expr, name, scope),
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Select(select) => self.select(expr, select, scope),
            Expr::Call(call) => self.call(expr, call, scope),
            Expr::Comprehension(over) => self.comprehension(expr, over, scope),
            Expr::List(list) => {
                let mut inner = list.elements.iter().map(|element| self.infer(element, scope));
                let first = inner.next().unwrap_or(Ok(Type::Any))?;
                let mut is_same = true;
                for other in inner {
                    is_same &= same(&first, &other?);
                }
                Ok(Type::List(Box::new(if is_same { first } else { Type::Any })))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(pair) = &entry.expr {
                        self.infer(&pair.key, scope)?;
                        self.infer(&pair.value, scope)?;
                    }
                }
                Ok(Type::Map(Box::new(Type::Any)))
            }
            Expr::Struct(fields) => {
                Err(self.wrong(expr, format!("there is no type '{}' here", fields.type_name)))
            }
            Expr::Unspecified => Ok(Type::Any),
        }
    }

    fn variable(&self, expr: &IdedExpr, name: &str, scope: &Names) -> Result<Type, ConditionError> {
        if let Some(found) = scope.get(name) {
            return Ok(found.clone());
        }
        if TYPES.contains(&name) {
            return Ok(Type::Name);
        }
        let seen = scope.keys().map(String::as_str).filter(|name| !name.starts_with('@'));
        let hint = hint(name, seen.clone());
        let known = seen.collect::<Vec<_>>().join(", ");
        Err(self.wrong(expr, format!("no variable '{name}'{hint}; there are {known}")))
    }

    fn select(
        &self,
        expr: &IdedExpr,
        select: &SelectExpr,
        scope: &Names,
    ) -> Result<Type, ConditionError> {
        let found = match self.infer(&select.operand, scope)? {
            Type::Any => Type::Any,
            Type::Map(inner) => *inner,
            Type::Record(record) => {
                let field = &select.field;
                let Some(found) = record.fields.get(field) else {
                    let hint = hint(field, record.fields.keys().map(String::as_str));
                    let what = &record.what;
                    return Err(self.wrong(expr, format!("no field '{field}' in {what}{hint}")));
                };
                found.clone()
            }
            other => {
                let problem = format!("no field '{}' in a value of type {other}", select.field);
                return Err(self.wrong(expr, problem));
            }
        };
        Ok(if select.test { Type::flag() } else { found })
    }

    fn call(
        &self,
        expr: &IdedExpr,
        call: &CallExpr,
        scope: &Names,
    ) -> Result<Type, ConditionError> {
        let name = call.func_name.as_str();
        let is_operator = !name.starts_with(|it: char| it.is_ascii_alphabetic());
        let functions = || [FUNCTIONS, OF_STRINGS, OURS].into_iter().flatten().copied();
        if !is_operator && !functions().any(|known| known == name) {
            // `optional.of(…)` and its like are functions of a library with a name of its own.
            let of_library = matches!(call.target.as_deref(), Some(IdedExpr {
                expr: Expr::Ident(library), ..
            }) if library == "optional" && !scope.contains_key("optional"));
            if !of_library {
                let hint = hint(name, functions().chain(MACROS.iter().copied()));
                return Err(self.wrong(expr, format!("no function '{name}'{hint}")));
            }
            return Ok(Type::Any);
        }
        let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        let parts = parts.collect::<Vec<_>>();
        let given = parts.iter().map(|part| self.infer(part, scope));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        for (at, part) in parts.iter().enumerate() {
            if let Expr::Literal(LiteralValue::String(text)) = &part.expr
                && let Some(problem) = flaw(name, at, text.inner())
            {
                return Err(self.wrong(part, problem));
            }
        }
        match (name, given.as_slice()) {
            (op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT, _) => {
                for (part, of) in parts.iter().zip(&given) {
                    self.flag(part, of)?;
                }
                Ok(Type::flag())
            }
            (op::NOT_STRICTLY_FALSE, _) => Ok(Type::flag()),
            (op::CONDITIONAL, [asked, then, otherwise]) => {
                self.flag(parts.first().copied().unwrap_or(expr), asked)?;
                Ok(if same(then, otherwise) { then.clone() } else { Type::Any })
            }
            (op::EQUALS | op::NOT_EQUALS, [left, right]) => {
                if !comparable(left, right) {
                    let problem = format!("{left} and {right} are never equal");
                    return Err(self.wrong(expr, problem));
                }
                Ok(Type::flag())
            }
            (op::OPT_INDEX | op::OPT_SELECT, _) => Ok(Type::Any),
            (op::INDEX, [Type::Any, _]) => Ok(Type::Any),
            (op::INDEX, [Type::List(inner) | Type::Map(inner), _]) => Ok((**inner).clone()),
            (op::INDEX, [Type::Record(_), Type::Any | Type::Plain(Value::String(_))]) => {
                Ok(Type::Any)
            }
            _ => self.tried(expr, call, &given),
        }
    }

    fn flag(&self, expr: &IdedExpr, of: &Type) -> Result<(), ConditionError> {
        if of.may_be_flag() {
            return Ok(());
        }
        Err(self.wrong(expr, format!("{of} where true or false is needed")))
    }

    /// What a function or operator gives for values of these types, found by calling it.
    fn tried(
        &self,
        expr: &IdedExpr,
        call: &CallExpr,
        given: &[Type],
    ) -> Result<Type, ConditionError> {
        if given.iter().any(|of| matches!(of, Type::Any | Type::Name)) || given.len() > 3 {
            return Ok(Type::Any);
        }
        let mut may_work = false;
        for values in combinations(given) {
            match evaluated(call, values) {
                Ok(value) => return Ok(Type::of(value)),
                Err(error) => may_work |= !is_of_types(&error),
            }
        }
        if may_work {
            return Ok(Type::Any);
        }
        let name = call.func_name.trim_matches('_').trim_start_matches('@');
        let types = |of: &[Type]| of.iter().map(ToString::to_string).collect::<Vec<_>>();
        let problem = match (call.target.is_some(), given) {
            (true, [on]) => format!("'{name}' does not work on {on} without arguments"),
            (true, [on, with @ ..]) => {
                format!("'{name}' does not work on {on} with {}", types(with).join(", "))
            }
            _ => format!("'{name}' does not work with {}", types(given).join(" and ")),
        };
        Err(self.wrong(expr, problem))
    }

    fn comprehension(
        &self,
        expr: &IdedExpr,
        over: &ComprehensionExpr,
        scope: &Names,
    ) -> Result<Type, ConditionError> {
        // With one variable a list gives its values, and a map its keys.
        let (key, value, single) = match self.infer(&over.iter_range, scope)? {
            Type::Any => (Type::Any, Type::Any, Type::Any),
            Type::List(inner) => (Type::int(), (*inner).clone(), *inner),
            Type::Map(inner) => (Type::text(), *inner, Type::text()),
            Type::Record(_) => (Type::text(), Type::Any, Type::text()),
            other => return Err(self.wrong(expr, format!("{other} where a list is needed"))),
        };
        let mut inside = scope.clone();
        match &over.iter_var2 {
            Some(second) => {
                inside.insert(over.iter_var.clone(), key);
                inside.insert(second.clone(), value);
            }
            None => {
                inside.insert(over.iter_var.clone(), single);
            }
        }
        let begun = match self.infer(&over.accu_init, scope)? {
            Type::List(_) | Type::Map(_) => Type::Any,
            plain => plain,
        };
        let is_list = begun == Type::Any;
        inside.insert(over.accu_var.clone(), begun);
        self.infer(&over.loop_cond, &inside)?;
        self.infer(&over.loop_step, &inside)?;
        let given = self.infer(&over.result, &inside)?;
        Ok(if is_list { Type::List(Box::new(Type::Any)) } else { given })
    }

    /// The problem, with its place in the condition.
    fn wrong(&self, expr: &IdedExpr, problem: String) -> ConditionError {
        let info = self.program.source_info();
        let start = info.offset_for(expr.id).and_then(|(start, _)| usize::try_from(start).ok());
        let before = start.and_then(|start| info.source.get(..start)).unwrap_or_default();
        ConditionError::Wrong { column: before.chars().count() + 1, problem }
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::flag(),
        LiteralValue::Int(_) => Type::int(),
        LiteralValue::String(_) => Type::text(),
        LiteralValue::Null => Type::Plain(Value::Null),
        LiteralValue::Double(_) => Type::Plain(Value::Float(1.0)),
        LiteralValue::UInt(_) => Type::Plain(Value::UInt(1)),
        LiteralValue::Bytes(_) => Type::Plain(Value::Bytes(Vec::new().into())),
    }
}

/// Whether both have one type.
fn same(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Plain(left), Type::Plain(right)) => {
            std::mem::discriminant(left) == std::mem::discriminant(right)
        }
        _ => left == right,
    }
}

/// Whether values of both types can be equal: all numbers are compared by value, and anything may
/// be missing.
fn comparable(left: &Type, right: &Type) -> bool {
    let is_number =
        |of: &Type| matches!(of, Type::Plain(Value::Int(_) | Value::UInt(_) | Value::Float(_)));
    let is_map = |of: &Type| matches!(of, Type::Map(_) | Type::Record(_));
    let is_open = |of: &Type| matches!(of, Type::Any | Type::Name | Type::Plain(Value::Null));
    let lists = matches!((left, right), (Type::List(_), Type::List(_)));
    is_open(left)
        || is_open(right)
        || same(left, right)
        || lists
        || (is_number(left) && is_number(right))
        || (is_map(left) && is_map(right))
}

/// Every choice of one sample for each type.
fn combinations(given: &[Type]) -> Vec<Vec<Value>> {
    given.iter().fold(vec![Vec::new()], |begun, of| {
        let samples = of.samples();
        let longer = |begun: &Vec<Value>| {
            let begun = begun.clone();
            samples.clone().into_iter().map(move |sample| [begun.clone(), vec![sample]].concat())
        };
        begun.iter().flat_map(longer).collect()
    })
}

/// What `call` gives for these values in place of its parts.
fn evaluated(call: &CallExpr, values: Vec<Value>) -> Result<Value, ExecutionError> {
    let mut context = Context::with_env(environment());
    add_calendars(&mut context, Arc::new(Calendars::Tested(BTreeSet::new())));
    let mut names = Vec::new();
    for (at, value) in values.into_iter().enumerate() {
        context.add_variable_from_value(format!("v{at}"), value);
        names.push(IdedExpr { id: 0, expr: Expr::Ident(format!("v{at}")) });
    }
    let mut names = names.into_iter();
    let target = call.target.is_some().then(|| names.next()).flatten().map(Box::new);
    let call = CallExpr { func_name: call.func_name.clone(), target, args: names.collect() };
    Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &context)
}

/// Whether it would have failed with any other values of these types too.
fn is_of_types(error: &ExecutionError) -> bool {
    !matches!(
        error,
        ExecutionError::FunctionError { .. }
            | ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
            | ExecutionError::IndexOutOfBounds(_)
            | ExecutionError::NoSuchKey(_)
    )
}

/// `; did you mean 'startsWith'?`, if one of `known` is close to `given`.
fn hint<'k>(given: &str, known: impl Iterator<Item = &'k str>) -> String {
    let far = |word: &str| strsim::osa_distance(&given.to_lowercase(), &word.to_lowercase());
    let best = known.map(|word| (far(word), word)).min();
    match best {
        Some((distance, word)) if distance <= 2 => format!("; did you mean '{word}'?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entrepot_nouns::rule::When;

    use crate::condition::Condition;

    fn problem(source: &str) -> Option<String> {
        let condition = Condition::compile(source).unwrap();
        condition
            .check(&When::Event("file.uploaded".to_owned()).into())
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn what_works_is_taken() {
        for source in [
            "true",
            "file.name.endsWith('.xml') && file.size > 0",
            "file.path == '/in/a' || event.path.startsWith('/in/')",
            "event.kind == 'file.uploaded' && event.protocol == 'sftp' && !event.replaced",
            "account in ['x', 'y'] && site != 'main'",
            "account == null || file == null",
            "has(event.session) && event.session != ''",
            "['.xml', '.csv'].exists(end, file.name.endsWith(end))",
            "[1, 2, 3].all(n, n <= file.size)",
            "['a', 'b'].map(x, x + '1').size() == 2",
            "event.depth == 0 ? true : false",
            "file.name.matches('^[a-z]+$') && size(file.name) < 10",
            "timestamp(event.at) > timestamp('2026-01-01T00:00:00Z')",
            "timestamp(event.at).getHours() < 6",
            "int(file.name) > 3 && double(file.size) / 2.0 > 1.5",
            "string(file.size) == '3' && type(file.size) == int",
            "file.size % 2 == 0 && file.size * 1024 - 1 > 0 && -file.size < 0",
            "command.verb == 'STOR' || command.writes",
            "{'a': 1}['a'] == 1 && [1][0] == 1 && 'a' in {'a': 1}",
            "glob(file.path, '/in/*.csv') || glob(file.name, 'PAY??.*')",
            "inNetwork(command.ip, '10.0.0.0/8') || inNetwork(command.ip, '2001:db8::/32')",
            "format(timestamp(event.at), '%Y%m%d', 'Europe/Berlin') == '20260101'",
            "inCalendar(timestamp(event.at), 'bank') || file.size > 3",
            "inCalendar(timestamp(event.at), 'a', 'UTC')",
            "file.name.lowerAscii().endsWith('.csv') && file.name.split('_')[0] == 'PAY'",
            "file.name.substring(0, 3) == 'PAY' && file.name.replace('a', 'b').trim() != ''",
            "['a', file.name].join('-').indexOf('-') > 0",
        ] {
            assert_eq!(problem(source), None, "{source}");
        }
    }

    #[test]
    fn what_cannot_work_is_said_with_its_place() {
        for (source, said) in [
            ("file.path.startsWit('/x')", "no function 'startsWit'; did you mean 'startsWith'?"),
            ("fil.path == '/x'", "column 1: no variable 'fil'; did you mean 'file'?"),
            ("true && file.sizee > 3", "no field 'sizee' in file; did you mean 'size'?"),
            ("event.colour == 1", "no field 'colour' in event of kind file.uploaded"),
            ("file.size > 'a'", "'>' does not work with int and string"),
            ("file.size == '3'", "int and string are never equal"),
            ("file.path.startsWith()", "'startsWith' does not work on string without"),
            ("file.path.startsWith(3)", "'startsWith' does not work on string with int"),
            ("file.size.contains('3')", "'contains' does not work on int with string"),
            ("file.name + 3 == 'a'", "'+' does not work with string and int"),
            ("file.name && true", "column 5: string where true or false is needed"),
            ("!file.size", "int where true or false is needed"),
            ("file.name", "the condition gives a string, make it a comparison"),
            ("file.name.size.x == 1", "no field 'size' in a value of type string"),
            ("file.name.all(c, c == 'a')", "string where a list is needed"),
            ("['a'].exists(x, x > 3)", "'>' does not work with string and int"),
            ("'é' == file.name && nobody", "no variable 'nobody'"),
            ("glob(file.name)", "'glob' does not work with string"),
            ("globb(file.name, '*')", "no function 'globb'; did you mean 'glob'?"),
            ("inNetwork(command.ip, '10.0.0.0/33')", "column 23: '10.0.0.0/33' is no network"),
            ("inNetwork('10.0.0', '10.0.0.0/8')", "'10.0.0' is no address"),
            ("inNetwork(file.size, '10.0.0.0/8')", "'inNetwork' does not work with int and"),
            ("format(event.at, '%Y', 'UTC') == ''", "'format' does not work with string"),
            ("format(timestamp(event.at), '%Y', 'Berlin') == ''", "did you mean 'Europe/Berlin'"),
            ("format(timestamp(event.at), '%!', 'UTC') == ''", "is no form of a time"),
            ("format(timestamp(event.at), '%Y', 'UTC') == 2026", "never equal"),
            ("inCalendar(event.at, 'bank')", "'inCalendar' does not work with string and string"),
            ("inCalendar(timestamp(event.at))", "'inCalendar' does not work with"),
            ("inCalendar(timestamp(event.at), 'no name')", "'no name' is no name of a policy"),
            ("inCalendar(timestamp(event.at), 'a', 'Berlin')", "did you mean 'Europe/Berlin'"),
            ("inCalendar(timestamp(event.at), 'bank') > 1", "'>' does not work with bool and int"),
            ("file.name.lowerAsci() == 'a'", "did you mean 'lowerAscii'?"),
            ("file.size.trim() == 'a'", "'trim' does not work on int"),
            ("Point{x: 1}.x == 1", "there is no type 'Point' here"),
        ] {
            let found = problem(source).unwrap_or_else(|| panic!("{source} was taken"));
            assert!(found.contains(said), "{source}: {found}");
        }
        let place = problem("'é' == file.name && nobody").unwrap();
        assert!(place.contains("column 21"), "{place}");
    }

    #[test]
    fn fields_of_every_kind_of_event_are_known() {
        for kind in entrepot_nouns::Fact::KINDS {
            let Some(Type::Record(event)) =
                Scope::rule(&When::Event((*kind).to_owned()).into()).0.remove("event")
            else {
                panic!("{kind} has no fields");
            };
            assert!(event.fields.len() > 5, "{kind}: {event:?}");
        }
        let of_none = Scope::rule(&When::Before(Vec::new()).into()).0.remove("event");
        assert!(matches!(of_none, Some(Type::Record(_))));
        assert_eq!(
            Scope::rule(&When::Event("made.later".to_owned()).into()).0.remove("event"),
            Some(Type::Any)
        );
    }

    #[test]
    fn every_function_of_the_list_is_one() {
        let is_known = |name: &str, target: Option<Type>| {
            let place = || Box::new(IdedExpr { id: 0, expr: Expr::Unspecified });
            let (func_name, target_place) = (name.to_owned(), target.as_ref().map(|_| place()));
            let call = CallExpr { func_name, target: target_place, args: Vec::new() };
            let values = target.into_iter().flat_map(|of| of.samples()).take(1).collect();
            !matches!(evaluated(&call, values), Err(ExecutionError::UndeclaredReference(_)))
        };
        for name in FUNCTIONS.iter().chain(OF_STRINGS).chain(OURS) {
            assert!(is_known(name, None) || is_known(name, Some(Type::text())), "{name}");
        }
        assert!(!is_known("startsWit", None) && !is_known("startsWit", Some(Type::text())));
    }
}
