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
        match gives {
            ExpressionValue::Flag if !given.may_be_flag() => {
                return Err(ConditionError::NotBool(given.to_string()));
            }
            ExpressionValue::Instant if !given.may_be_instant() => {
                return Err(ConditionError::NotInstant(given.to_string()));
            }
            ExpressionValue::List if !given.may_be_list() => {
                return Err(ConditionError::NotList(given.to_string()));
            }
            _ => {}
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
                let mut inner = list.elements.iter().map(|element| self.infer(element, scope));
                let first = inner.next().unwrap_or(Ok(Type::Any))?;
                let mut is_same = true;
                for other in inner {
                    is_same &= first.is_like(&other?);
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

    fn select(&self, select: &SelectExpr, scope: &Names) -> Result<Type, ConditionError> {
        let found = match self.infer(&select.operand, scope)? {
            Type::Any => Type::Any,
            Type::Map(inner) => *inner,
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
                Ok(if then.is_like(otherwise) { then.clone() } else { Type::Any })
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

    fn flag(&self, expr: &IdedExpr, scope: &Names) -> Result<(), ConditionError> {
        for outcome in outcomes(expr) {
            let of = self.infer(outcome, scope)?;
            if !of.may_be_flag() {
                let problem = format!("{of} where true or false is needed");
                return Err(self.wrong_from(self.start(outcome), problem));
            }
        }
        Ok(())
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
        // With one variable a list gives its values, and a map its keys.
        let (key, value, single) = match self.infer(&over.iter_range, scope)? {
            Type::Any => (Type::Any, Type::Any, Type::Any),
            Type::List(inner) => (Type::int(), (*inner).clone(), *inner),
            Type::Map(inner) => (Type::text(), *inner, Type::text()),
            Type::Record(_) => (Type::text(), Type::Any, Type::text()),
            other => {
                let problem = format!("{other} where a list is needed");
                return Err(self.wrong_from(self.start(&over.iter_range), problem));
            }
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
    let is_number =
        |of: &Type| matches!(of, Type::Plain(Value::Int(_) | Value::UInt(_) | Value::Float(_)));
    let is_map = |of: &Type| matches!(of, Type::Map(_) | Type::Record(_));
    let is_open = |of: &Type| matches!(of, Type::Any | Type::Name | Type::Plain(Value::Null));
    let lists = matches!((left, right), (Type::List(_), Type::List(_)));
    is_open(left)
        || is_open(right)
        || left.is_like(right)
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
mod tests;
