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
use super::tree::children;
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

/// Choices of types for the parts of a call that are tried; where there are more, nothing is said.
const COMBINATIONS_MOST: usize = 256;
/// Parts of a call of which nothing is known that are tried with every type.
const UNKNOWN_MOST: usize = 3;
/// A call with more parts than this is tried with one value of each type.
const LONG: usize = 3;

/// Checks `program` as an expression that must give this.
///
/// # Errors
/// What is wrong, and where.
pub(super) fn check(
    program: &Program,
    scope: &Scope,
    gives: ExpressionValue,
) -> Result<(), ConditionError> {
    let checker = Checker { program };
    checker.infer(program.expression(), &scope.0)?;
    for outcome in outcomes(program.expression()) {
        let given = checker.infer(outcome, &scope.0)?;
        let (other, error): (_, fn(String) -> ConditionError) = match gives {
            ExpressionValue::Flag => (given.other_than_flag(), ConditionError::NotBool),
            ExpressionValue::Instant => (given.other_than_instant(), ConditionError::NotInstant),
            ExpressionValue::List => (given.other_than_list(), ConditionError::NotList),
            ExpressionValue::Any => continue,
        };
        if let Some(other) = other {
            return Err(error(other.to_string()));
        }
    }
    Ok(())
}

/// The parts of an expression of which one is its value: both sides of `? :`.
fn outcomes(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) if call.func_name == op::CONDITIONAL => {
            call.args.iter().skip(1).flat_map(outcomes).collect()
        }
        _ => vec![expr],
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
            Expr::Select(select) => self.select(select, scope),
            Expr::Call(call) => self.call(expr, call, scope),
            Expr::Comprehension(over) => self.comprehension(over, scope),
            Expr::List(list) => {
                let inner = list.elements.iter().map(|element| self.infer(element, scope));
                Ok(Type::list_of(inner.collect::<Result<Vec<_>, _>>()?))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(pair) = &entry.expr {
                        keys.push(self.key(&pair.key, scope)?);
                        values.push(self.infer(&pair.value, scope)?);
                    }
                }
                if keys.is_empty() {
                    (keys, values) = (vec![Type::Any], vec![Type::Any]);
                }
                Ok(Type::Map(Box::new(Type::one_of(keys)), Box::new(Type::one_of(values))))
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

    /// The key of an entry of a map.
    fn key(&self, expr: &IdedExpr, scope: &Names) -> Result<Type, ConditionError> {
        let of = self.infer(expr, scope)?;
        let is_key = |of: &Type| match of {
            Type::Any => true,
            Type::Plain(value) => {
                matches!(value, Value::String(_) | Value::Int(_) | Value::UInt(_) | Value::Bool(_))
            }
            _ => false,
        };
        match of.kinds().into_iter().find(|of| !is_key(of)) {
            Some(other) => {
                let problem = format!("{other} where the key of a map is needed");
                Err(self.wrong_from(self.start(expr), problem))
            }
            None => Ok(of),
        }
    }

    fn select(&self, select: &SelectExpr, scope: &Names) -> Result<Type, ConditionError> {
        let kinds = self.infer(&select.operand, scope)?.kinds().into_iter();
        let found = kinds.map(|of| self.field(select, of)).collect::<Result<Vec<_>, _>>()?;
        Ok(if select.test { Type::flag() } else { Type::one_of(found) })
    }

    /// The field of what has this one type.
    fn field(&self, select: &SelectExpr, of: Type) -> Result<Type, ConditionError> {
        Ok(match of {
            Type::Any => Type::Any,
            Type::Map(_, inner) => *inner,
            Type::Record(record) => {
                let field = &select.field;
                let Some(found) = record.fields.get(field) else {
                    let hint = hint(field, record.fields.keys().map(String::as_str));
                    let what = &record.what;
                    let problem = format!("no field '{field}' in {what}{hint}");
                    return Err(self.wrong_field(&select.operand, field, problem));
                };
                found.clone()
            }
            other => {
                let problem = format!("no field '{}' in a value of type {other}", select.field);
                return Err(self.wrong_field(&select.operand, &select.field, problem));
            }
        })
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
                let problem = format!("no function '{name}'{hint}");
                return Err(self.wrong_call(expr, name, problem));
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
                for part in &parts {
                    self.flag(part, scope)?;
                }
                Ok(Type::flag())
            }
            (op::NOT_STRICTLY_FALSE, _) => Ok(Type::flag()),
            (op::CONDITIONAL, [_, then, otherwise]) => {
                self.flag(parts.first().copied().unwrap_or(expr), scope)?;
                Ok(Type::one_of([then.clone(), otherwise.clone()]))
            }
            (op::EQUALS | op::NOT_EQUALS, [left, right]) => {
                if !comparable(left, right) {
                    let problem = format!("{left} and {right} are never equal");
                    return Err(self.wrong(expr, problem));
                }
                Ok(Type::flag())
            }
            _ => self.each_kind(expr, call, &given),
        }
    }

    fn flag(&self, expr: &IdedExpr, scope: &Names) -> Result<(), ConditionError> {
        for outcome in outcomes(expr) {
            if let Some(other) = self.infer(outcome, scope)?.other_than_flag() {
                let problem = format!("{other} where true or false is needed");
                return Err(self.wrong_from(self.start(outcome), problem));
            }
        }
        Ok(())
    }

    /// What a function or operator gives for parts that may have several types each: it must work
    /// with all of them.
    fn each_kind(
        &self,
        expr: &IdedExpr,
        call: &CallExpr,
        given: &[Type],
    ) -> Result<Type, ConditionError> {
        let kinds = given.iter().map(Type::kinds).collect::<Vec<_>>();
        if kinds.iter().map(Vec::len).product::<usize>() > COMBINATIONS_MOST {
            return Ok(Type::Any);
        }
        let gives = combinations(&kinds).into_iter().map(|given| self.kind(expr, call, &given));
        Ok(Type::one_of(gives.collect::<Result<Vec<_>, _>>()?))
    }

    /// What a function or operator gives for parts of one type each.
    fn kind(
        &self,
        expr: &IdedExpr,
        call: &CallExpr,
        given: &[Type],
    ) -> Result<Type, ConditionError> {
        match (call.func_name.as_str(), given) {
            // There is no value for a name of a type: nothing else works on one but a comparison.
            ("type", [_]) if call.target.is_none() => Ok(Type::Name),
            (op::IN, [Type::Name, _]) => Ok(Type::flag()),
            (op::OPT_INDEX | op::OPT_SELECT, _) | (op::INDEX, [Type::Any, _]) => Ok(Type::Any),
            (op::INDEX, [Type::Record(_), Type::Any | Type::Plain(Value::String(_))]) => {
                Ok(Type::Any)
            }
            (op::INDEX, [Type::List(inner) | Type::Map(_, inner), _]) => {
                self.tried(expr, call, given)?;
                Ok((**inner).clone())
            }
            (op::ADD, [Type::List(one), Type::List(other)]) => {
                let inner = Type::one_of([(**one).clone(), (**other).clone()]);
                Ok(Type::List(Box::new(inner)))
            }
            _ => self.tried(expr, call, given),
        }
    }

    /// What a function or operator gives for values of these types, found by calling it. A part of
    /// which nothing is known is tried with a value of each type.
    fn tried(
        &self,
        expr: &IdedExpr,
        call: &CallExpr,
        given: &[Type],
    ) -> Result<Type, ConditionError> {
        let unknown = given.iter().filter(|of| **of == Type::Any).count();
        if unknown > UNKNOWN_MOST {
            return Ok(Type::Any);
        }
        let mut may_work = false;
        let possible = given.iter().map(Type::possible).collect::<Vec<_>>();
        for values in combinations(&possible).iter().flat_map(|given| samples(given)) {
            match evaluated(call, values) {
                Ok(value) if unknown == 0 => return Ok(Type::of(value)),
                Ok(_) => return Ok(Type::Any),
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
            (false, []) => format!("'{name}' does not work without arguments"),
            _ => format!("'{name}' does not work with {}", types(given).join(" and ")),
        };
        if call.func_name.starts_with(|it: char| it.is_ascii_alphabetic()) {
            return Err(self.wrong_call(expr, name, problem));
        }
        Err(self.wrong(expr, problem))
    }

    fn comprehension(
        &self,
        over: &ComprehensionExpr,
        scope: &Names,
    ) -> Result<Type, ConditionError> {
        let mut over_each = Vec::new();
        for of in self.infer(&over.iter_range, scope)?.kinds() {
            over_each.push(match of {
                Type::Any => (Type::Any, Type::Any, Type::Any),
                Type::List(inner) => (Type::int(), (*inner).clone(), *inner),
                Type::Map(key, value) => ((*key).clone(), *value, *key),
                Type::Record(_) => (Type::text(), Type::Any, Type::text()),
                other => {
                    let problem = format!("{other} where a list is needed");
                    return Err(self.wrong_from(self.start(&over.iter_range), problem));
                }
            });
        }
        // With one variable a list gives its values, and a map its keys.
        let one_of = |part: fn(&(Type, Type, Type)) -> &Type| {
            Type::one_of(over_each.iter().map(|of| part(of).clone()))
        };
        let mut inside = scope.clone();
        match &over.iter_var2 {
            Some(second) => {
                inside.insert(over.iter_var.clone(), one_of(|(key, ..)| key));
                inside.insert(second.clone(), one_of(|(_, value, _)| value));
            }
            None => {
                inside.insert(over.iter_var.clone(), one_of(|(.., single)| single));
            }
        }
        let is_empty = matches!(&over.accu_init.expr, Expr::List(list) if list.elements.is_empty());
        let begun = match self.infer(&over.accu_init, scope)? {
            // What a `map` or `filter` gives has what is added to it, and nothing else.
            Type::List(_) if is_empty => Type::List(Box::new(Type::one_of([]))),
            other => other,
        };
        inside.insert(over.accu_var.clone(), begun.clone());
        self.infer(&over.loop_cond, &inside)?;
        let step = self.infer(&over.loop_step, &inside)?;
        inside.insert(over.accu_var.clone(), folded([begun, step]));
        self.infer(&over.result, &inside)
    }

    /// The problem, at the place that the parser gave the expression.
    fn wrong(&self, expr: &IdedExpr, problem: String) -> ConditionError {
        self.wrong_from(self.offset(expr), problem)
    }

    /// The problem of a call, at the name of the function: the parser gave it the place of its
    /// opening bracket.
    fn wrong_call(&self, expr: &IdedExpr, name: &str, problem: String) -> ConditionError {
        let bracket = self.offset(expr);
        let before = bracket.and_then(|bracket| self.source().get(..bracket));
        let named = before.and_then(|before| before.trim_end().strip_suffix(name));
        self.wrong_from(named.map(str::len).or(bracket), problem)
    }

    /// The problem of a field of `operand`, at the name of the field.
    fn wrong_field(&self, operand: &IdedExpr, field: &str, problem: String) -> ConditionError {
        // Behind the dot of the operand, if it has one.
        let from = self.offset(operand).map(|place| place + 1);
        let behind = from.and_then(|from| self.source().get(from..));
        let dot = behind.and_then(|behind| behind.find(&format!(".{field}")));
        let place = from.zip(dot).map(|(from, dot)| from + dot + 1);
        self.wrong_from(place.or_else(|| self.offset(operand)), problem)
    }

    /// Where an expression begins: with the first of its parts.
    fn start(&self, expr: &IdedExpr) -> Option<usize> {
        let parts = children(expr).into_iter().filter_map(|part| self.start(part));
        parts.chain(self.offset(expr)).min()
    }

    /// Where the parser says that it is, in bytes.
    fn offset(&self, expr: &IdedExpr) -> Option<usize> {
        let (start, _) = self.program.source_info().offset_for(expr.id)?;
        usize::try_from(start).ok()
    }

    fn source(&self) -> &str {
        &self.program.source_info().source
    }

    fn wrong_from(&self, start: Option<usize>, problem: String) -> ConditionError {
        let before = start.and_then(|start| self.source().get(..start)).unwrap_or_default();
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

/// Whether values of both types can be equal: all numbers are compared by value, and anything may
/// be missing.
fn comparable(left: &Type, right: &Type) -> bool {
    let (lefts, rights) = (left.kinds(), right.kinds());
    let mut pairs = lefts.iter().flat_map(|left| rights.iter().map(move |right| (left, right)));
    lefts.is_empty() || rights.is_empty() || pairs.any(|(left, right)| are_comparable(left, right))
}

fn are_comparable(left: &Type, right: &Type) -> bool {
    let is_number =
        |of: &Type| matches!(of, Type::Plain(Value::Int(_) | Value::UInt(_) | Value::Float(_)));
    let is_map = |of: &Type| matches!(of, Type::Map(..) | Type::Record(_));
    let is_open = |of: &Type| matches!(of, Type::Any | Type::Name | Type::Plain(Value::Null));
    let lists = matches!((left, right), (Type::List(_), Type::List(_)));
    is_open(left)
        || is_open(right)
        || left.is_like(right)
        || lists
        || (is_number(left) && is_number(right))
        || (is_map(left) && is_map(right))
}

/// The type of a value that has one of these types; of lists, a list of what any of them has.
fn folded(types: [Type; 2]) -> Type {
    let lists = types.iter().flat_map(Type::kinds).map(|of| match of {
        Type::List(inner) => Some(*inner),
        _ => None,
    });
    match lists.collect::<Option<Vec<_>>>() {
        Some(inner) => Type::List(Box::new(Type::one_of(inner))),
        None => Type::one_of(types),
    }
}

/// Every choice of one sample for each type.
fn samples(given: &[Type]) -> Vec<Vec<Value>> {
    let least = if given.len() > LONG { 1 } else { usize::MAX };
    let each = given.iter().map(|of| of.samples().into_iter().take(least).collect::<Vec<_>>());
    combinations(&each.collect::<Vec<_>>())
}

/// Every choice of one of each.
fn combinations<T: Clone>(of: &[Vec<T>]) -> Vec<Vec<T>> {
    of.iter().fold(vec![Vec::new()], |begun, each| {
        let longer = |begun: &Vec<T>| {
            let begun = begun.clone();
            each.iter().map(move |one| [begun.as_slice(), std::slice::from_ref(one)].concat())
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
            | ExecutionError::DuplicateKey(_)
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
mod tests;
