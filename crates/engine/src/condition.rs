//! The `if` of a rule: one CEL expression, compiled once, evaluated under limits.
//!
//! The language has no loops but its macros over lists and maps, and its standard functions have
//! no side effects. What one evaluation can cost is estimated from the tree before it is ever
//! run, from the largest inputs there can be; too dear a condition is refused as a whole, so no
//! event can make a cheap rule expensive.

mod checker;
mod constraints;
mod error;
mod functions;
mod text;
mod trace;
mod tree;
mod types;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use cel::{Context, Program, Value};
use entrepot_nouns::explanation::TracedExpression;
use entrepot_nouns::rule::{ExpressionValue, Triggers};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Event, Fact};

use crate::calendars::{Calendars, RuleSite};
use crate::limits::{
    CONDITION_BYTES, CONDITION_COST, CONDITION_DEPTH, CONDITION_INPUT_BYTES,
    CONDITION_INPUT_ENTRIES, CONDITION_REGEX_COST, CONDITION_STACK_BYTES, FORMAT_SIZE,
};
use crate::noted::{Noted, Turn};
use crate::pattern;

pub(crate) use constraints::{Constraint, Must};
pub(crate) use error::ConditionError;
use error::short;
pub(crate) use functions::IN_CALENDAR;
use functions::{add_calendars, environment};
use tree::children;
use types::Scope;

/// A compiled condition.
pub(crate) struct Condition {
    program: Program,
}

impl Condition {
    /// Compiles `source` and refuses what could be too dear. Blocks for milliseconds.
    pub(crate) fn compile(source: &str) -> Result<Condition, ConditionError> {
        if source.len() > CONDITION_BYTES {
            return Err(ConditionError::TooLong);
        }
        if bracket_depth(source) > CONDITION_DEPTH {
            return Err(ConditionError::TooDeep);
        }
        // The parser and the tree it makes recurse as deep as the source is long, so both live on a
        // stack of their own until the depth is known; whatever it does must stay an error.
        let source = source.to_owned();
        let parser = std::thread::Builder::new().name("condition".to_owned());
        let parsed = parser.stack_size(CONDITION_STACK_BYTES).spawn(move || parse(&source));
        let parsed = parsed.map(|thread| thread.join());
        match parsed {
            Ok(Ok(program)) => Ok(Condition { program: program? }),
            _ => Err(ConditionError::Syntax("the parser gave up".to_owned())),
        }
    }

    /// Says what would fail on everything that a rule with these triggers starts on.
    pub(crate) fn check(&self, when: &Triggers) -> Result<(), ConditionError> {
        checker::check(&self.program, &Scope::rule(when), ExpressionValue::Flag)
    }

    /// Says what would fail wherever a step with it runs, of a rule with these triggers.
    pub(crate) fn check_in_step(
        &self,
        when: &Triggers,
        names: &Noted,
        gives: ExpressionValue,
    ) -> Result<(), ConditionError> {
        checker::check(&self.program, &Scope::step(when, names), gives)
    }

    /// Whether it holds for `subject`.
    pub(crate) fn holds(&self, subject: &Subject) -> Result<bool, ConditionError> {
        match self.evaluate(subject)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(ConditionError::NotBool(other.type_of().to_string())),
        }
    }

    /// What it gives for `subject`, as JSON.
    pub(crate) fn value(&self, subject: &Subject) -> Result<serde_json::Value, ConditionError> {
        json(&self.evaluate(subject)?)
    }

    fn evaluate(&self, subject: &Subject) -> Result<Value, ConditionError> {
        let context = subject.context();
        let run = AssertUnwindSafe(|| self.program.execute(&context));
        match catch_unwind(run) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ConditionError::Fails(short(&error.to_string()))),
            Err(_) => Err(ConditionError::Fails("the evaluator gave up".to_owned())),
        }
    }

    /// What must be so for it to hold, as far as its form shows it.
    pub(crate) fn constraints(&self) -> Vec<Constraint> {
        constraints::of(&self.program)
    }

    /// Whether nothing of the event, or of what steps left, has a part in it.
    pub(crate) fn is_constant(&self) -> bool {
        constraints::is_constant(self.program.expression(), &VARIABLES)
    }

    /// The value of each of its parts for `subject`, and which of them decided.
    pub(crate) fn trace(&self, subject: &Subject) -> TracedExpression {
        trace::trace(&self.program, &subject.context())
    }
}

/// The names of all variables.
const VARIABLES: [&str; 11] = [
    "event", "file", "account", "command", "site", "params", "hook", "vars", "steps", "item",
    "index",
];

fn parse(source: &str) -> Result<Program, ConditionError> {
    let program = Program::compile(source)
        .map_err(|errors| ConditionError::Syntax(short(&errors.to_string())))?;
    if depth(program.expression(), 0) > CONDITION_DEPTH {
        return Err(ConditionError::TooDeep);
    }
    if cost(program.expression(), &HashMap::new()).work > CONDITION_COST {
        return Err(ConditionError::TooDear);
    }
    Ok(program)
}

/// What conditions may look at, made once for an event: `event` (its flat JSON, with `replaced`
/// where a file may have lost its name), `file` (`path`, `dir`, `name` and its parts, `size`,
/// `digest`; null without one), `command` (null without one), `account` (null without one), `site`,
/// `params` (of a rule that was started by hand; null without), `hook` (`body` and `headers` of a
/// web hook; null without).
#[derive(Clone)]
pub(crate) struct Subject {
    variables: Vec<(&'static str, Value)>,
    calendars: Arc<Calendars>,
}

impl Subject {
    /// For `event` of `site`.
    pub(crate) fn new(event: &Event, site: &RuleSite) -> Subject {
        let mut json = serde_json::to_value(event).unwrap_or_default();
        if let (Some(fields), Some(replaced)) = (json.as_object_mut(), event.fact.replaced()) {
            fields.insert("replaced".to_owned(), replaced.into());
        }
        let account = event.account.as_ref().map_or(Value::Null, |name| name.as_str().into());
        Subject {
            variables: vec![
                ("event", value(&json)),
                ("file", file(event)),
                ("account", account),
                ("command", command(event)),
                ("site", site.name.as_str().into()),
                ("params", parameters(event)),
                ("hook", hook(event)),
            ],
            calendars: site.calendars.clone(),
        }
    }

    /// With what steps of a job of `event` left: `vars`, `steps`, and the file that they work on;
    /// and in a turn of an `each` what it is about.
    pub(crate) fn with_noted(mut self, event: &Event, noted: &Noted) -> Subject {
        if let Some(made) = &noted.file {
            let path = pattern::event_path(event).unwrap_or_default();
            let made = file_fields(path, &made.name, made.size, made.digest.clone());
            self.variables.retain(|(name, _)| *name != "file");
            self.variables.push(("file", made));
        }
        for (name, fields) in [("vars", &noted.vars), ("steps", &noted.steps)] {
            let fields = fields.iter().map(|(key, field)| (key.clone(), value(field)));
            self.variables.push((name, fields.collect::<HashMap<String, Value>>().into()));
        }
        if let Some(Turn { item, index }) = &noted.turn {
            let index = Value::Int(i64::try_from(*index).unwrap_or(i64::MAX));
            self.variables
                .extend([("item", item.as_ref().map_or(Value::Null, value)), ("index", index)]);
        }
        self
    }

    fn context(&self) -> Context<'static, 'static> {
        let mut context = Context::with_env(environment());
        for (name, value) in &self.variables {
            context.add_variable_from_value(*name, value.clone());
        }
        add_calendars(&mut context, self.calendars.clone());
        context
    }
}

fn parameters(event: &Event) -> Value {
    let Some(parameters) = event.fact.parameters() else { return Value::Null };
    let fields = parameters.iter().map(|(name, given)| (name.clone(), value(given)));
    fields.collect::<HashMap<String, Value>>().into()
}

fn hook(event: &Event) -> Value {
    let Some((body, headers)) = event.fact.hook() else { return Value::Null };
    let headers = headers.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str())));
    let headers = headers.collect::<HashMap<String, Value>>();
    let fields = [("body".to_owned(), value(body)), ("headers".to_owned(), headers.into())];
    HashMap::from(fields).into()
}

fn file(event: &Event) -> Value {
    let Some(path) = pattern::event_path(event) else { return Value::Null };
    let fact = event.fact.file();
    let size = match (&event.fact, fact) {
        (Fact::FileRenamed { size, .. } | Fact::WatchFound { size, .. }, _) => *size,
        (_, fact) => fact.map_or(0, |file| file.size),
    };
    let digest = fact.and_then(|file| file.digests.blake3).map(|bytes| hex(&bytes));
    let name = pattern::file_name(event).unwrap_or_default();
    file_fields(path, name, size, digest.unwrap_or_default())
}

fn file_fields(path: &str, name: &str, size: u64, digest: String) -> Value {
    let fields: HashMap<String, Value> = HashMap::from([
        ("path".to_owned(), path.into()),
        ("dir".to_owned(), pattern::folder(path).into()),
        ("name".to_owned(), name.into()),
        ("stem".to_owned(), pattern::split_name(name).0.into()),
        ("extension".to_owned(), pattern::split_name(name).1.into()),
        ("size".to_owned(), Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
        ("digest".to_owned(), digest.into()),
    ]);
    fields.into()
}

/// What every command has, also where it is not known yet: `code`, `bytes` and `duration` are 0
/// before its end.
fn command(event: &Event) -> Value {
    let Some(command) = event.fact.command() else { return Value::Null };
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let account = event.account.as_ref().map_or("", |name| name.as_str());
    let digest = command.digests.blake3.map(|bytes| hex(&bytes)).unwrap_or_default();
    let fields: [(&str, Value); 12] = [
        ("protocol", command.protocol.as_str().into()),
        ("verb", command.verb.as_str().into()),
        ("argument", command.argument.as_str().into()),
        ("path", command.path.as_deref().unwrap_or_default().into()),
        ("writes", Value::Bool(command.writes)),
        ("account", account.into()),
        ("ip", command.address.as_str().into()),
        ("listener", command.listener.as_str().into()),
        ("code", number(command.code.map_or(0, u64::from))),
        ("bytes", number(command.bytes.unwrap_or_default())),
        ("digest", digest.into()),
        ("duration", number(command.duration_ms.unwrap_or_default())),
    ];
    fields.into_iter().map(|(key, field)| (key.to_owned(), field)).collect::<HashMap<_, _>>().into()
}

/// JSON as CEL: whole numbers are `int`, so that they compare with literals.
fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, Some(float)) => Value::Float(float),
            (None, None) => Value::Null,
        },
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => items.iter().map(value).collect::<Vec<_>>().into(),
        serde_json::Value::Object(fields) => {
            let entries = fields.iter().map(|(key, field)| (key.clone(), value(field)));
            entries.collect::<HashMap<String, Value>>().into()
        }
    }
}

/// CEL as JSON; a time is text as RFC 3339 has it.
fn json(value: &Value) -> Result<serde_json::Value, ConditionError> {
    Ok(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => text.as_str().into(),
        Value::Timestamp(at) => at.to_rfc3339().into(),
        Value::List(items) => items.iter().map(json).collect::<Result<_, _>>()?,
        Value::Map(map) => {
            let entries = map.map.iter().map(|(key, field)| Ok((key.to_string(), json(field)?)));
            entries.collect::<Result<serde_json::Map<_, _>, _>>()?.into()
        }
        other => {
            let text = format!("a value of type {} cannot be kept", other.type_of());
            return Err(ConditionError::Fails(text));
        }
    })
}

/// How deep brackets nest; those inside strings count too, which only errs to the safe side.
fn bracket_depth(source: &str) -> usize {
    let mut depth = 0usize;
    let mut deepest = 0;
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// How deep the tree is; stops counting one past the limit, so its own recursion is bounded.
fn depth(expr: &IdedExpr, above: usize) -> usize {
    if above > CONDITION_DEPTH {
        return above;
    }
    children(expr).into_iter().map(|child| depth(child, above + 1)).max().unwrap_or(above + 1)
}

/// Upper bounds for one node.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Bytes looked at or made to get the value.
    work: u64,
    /// Bytes of the value.
    size: u64,
    /// Entries of the value, if it is a list or map.
    entries: u64,
}

fn cost<'e>(expr: &'e IdedExpr, bound: &HashMap<&'e str, Cost>) -> Cost {
    match &expr.expr {
        Expr::Ident(name) => bound.get(name.as_str()).copied().unwrap_or(Cost {
            work: 1,
            size: CONDITION_INPUT_BYTES,
            entries: CONDITION_INPUT_ENTRIES,
        }),
        Expr::Literal(literal) => {
            let size = match literal {
                LiteralValue::String(text) => text.inner().len() as u64,
                _ => 8,
            };
            Cost { work: 1, size, entries: 0 }
        }
        Expr::Comprehension(over) => {
            let range = cost(&over.iter_range, bound);
            let element = Cost { work: 1, ..range };
            let mut inside = bound.clone();
            inside.insert(&over.iter_var, element);
            if let Some(second) = &over.iter_var2 {
                inside.insert(second, element);
            }
            // What a turn adds to the accumulator is seen with the accumulator empty.
            inside.insert(&over.accu_var, Cost { work: 1, size: 8, entries: 0 });
            let parts = [&over.accu_init, &over.loop_cond, &over.loop_step, &over.result];
            let turn = sum(parts.into_iter().map(|part| cost(part, &inside)));
            let turns = match &over.iter_range.expr {
                // Whatever its elements hold.
                Expr::List(list) => list.elements.len() as u64,
                _ => range.entries,
            };
            let turns = turns.saturating_add(1);
            Cost {
                work: range.work.saturating_add(turn.work.saturating_mul(turns)),
                size: turn.size.saturating_mul(turns),
                entries: turns,
            }
        }
        Expr::List(list) => {
            let all = sum(list.elements.iter().map(|element| cost(element, bound)));
            Cost { entries: all.entries.max(list.elements.len() as u64), ..all }
        }
        Expr::Call(call) => {
            let parts: Vec<Cost> =
                children(expr).into_iter().map(|child| cost(child, bound)).collect();
            let all = sum(parts.iter().copied());
            let made = made(call, &parts, all);
            let extra = match call.func_name.as_str() {
                "matches" | "glob" => CONDITION_REGEX_COST,
                _ => 1,
            };
            let work = all.work.saturating_add(all.size).saturating_add(made.size);
            Cost { work: work.saturating_add(extra), ..made }
        }
        _ => sum(children(expr).into_iter().map(|child| cost(child, bound))),
    }
}

/// What a call makes of these parts, which are `all` together; the first is what it is called on.
fn made(call: &CallExpr, parts: &[Cost], all: Cost) -> Cost {
    match (call.func_name.as_str(), call.target.is_some(), parts) {
        // Any number of letters may stand in for any one.
        ("replace", true, [on, _, with, ..]) => {
            Cost { size: on.size.saturating_add(1).saturating_mul(with.size), ..all }
        }
        ("join", true, [on, with]) => {
            Cost { size: on.size.saturating_add(on.entries.saturating_mul(with.size)), ..all }
        }
        ("split", true, [on, ..]) => Cost { entries: on.size.saturating_add(1), ..all },
        // A width or a precision makes any size of a few letters.
        ("format", true, _) => Cost { size: u64::MAX, ..all },
        ("format", false, _) => Cost { size: FORMAT_SIZE, ..all },
        _ => all,
    }
}

fn sum(parts: impl Iterator<Item = Cost>) -> Cost {
    parts.fold(Cost { work: 1, size: 8, entries: 0 }, |all, part| Cost {
        work: all.work.saturating_add(part.work),
        size: all.size.saturating_add(part.size),
        entries: all.entries.saturating_add(part.entries),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{main_site, uploaded};

    fn ask(source: &str) -> Result<bool, ConditionError> {
        let event = uploaded("/in/orders/a.xml");
        Condition::compile(source)?.holds(&Subject::new(&event, &main_site()))
    }

    #[test]
    fn a_table_of_conditions() {
        for (source, wanted) in [
            ("true", true),
            ("file.name.endsWith('.xml')", true),
            ("file.name.endsWith('.csv')", false),
            ("file.size > 2 && file.size <= 3", true),
            ("file.path == '/in/orders/a.xml'", true),
            ("event.path.startsWith('/in/')", true),
            ("event.kind == 'file.uploaded' && event.protocol == 'sftp'", true),
            ("event.size == 3 && !event.replaced && !has(event.displaced)", true),
            (
                "file.digest == '07070707070707070707070707070707' + '0707070707070707' + \
              '0707070707070707'",
                true,
            ),
            ("account == 'acme' && site == 'main'", true),
            ("account in ['x', 'y']", false),
            ("file.name.matches('^[a-z]+\\\\.xml$')", true),
            ("has(event.session)", false),
            ("['.xml', '.csv'].exists(end, file.name.endsWith(end))", true),
            ("[1, 2, 3].all(n, n <= file.size)", true),
            ("event.depth == 0 ? true : false", true),
            ("glob(file.path, '/in/*.xml')", false),
            ("glob(file.path, '/in/**.xml') && glob(file.name, '?.xml')", true),
            ("inNetwork('::ffff:10.1.2.3', '10.0.0.0/8')", true),
            ("inNetwork('10.1.2.3', '10.1.2.4') || inNetwork('2001:db8::1', '10.0.0.0/8')", false),
            (
                "format(timestamp('2026-12-31T23:30:00Z'), '%Y-%m-%d %a', 'Europe/Berlin') == \
                 '2027-01-01 Fri'",
                true,
            ),
            (
                "file.name.split('.')[1].upperAscii() == 'XML' && 'aXa'.replace('X', '') == 'aa'",
                true,
            ),
            ("'ORD_17_x'.substring(4, 6) == '17' && ['a', 'b'].join('-') == 'a-b'", true),
        ] {
            assert_eq!(ask(source), Ok(wanted), "{source}");
        }
    }

    #[test]
    fn what_goes_wrong_is_said() {
        use ConditionError::{Fails, NotBool, Syntax, TooDear, TooDeep, TooLong};
        type Check = fn(&ConditionError) -> bool;
        let long = format!("'{}' == file.name", "x".repeat(CONDITION_BYTES));
        let nested = format!("{}true{}", "(".repeat(60), ")".repeat(60));
        let chain = format!("1{} > 0", "+1".repeat(900));
        let nots = format!("{}true", "!".repeat(1001));
        let doubled = format!("['a']{}.size() > 0", ".map(x, x + x)".repeat(40));
        let squared = "[1,2,3,4,5,6,7,8].map(a, [1,2,3,4,5,6,7,8].map(b, [1,2,3,4,5,6,7,8].map(c, \
                       [1,2,3,4,5,6,7,8].map(d, event.path + event.path)))).size() > 0";
        let table: &[(&str, Check)] = &[
            ("", |e| matches!(e, Syntax(_))),
            ("file.name ==", |e| matches!(e, Syntax(_))),
            ("file.name = 'x'", |e| matches!(e, Syntax(_))),
            ("file.colour == 'red'", |e| matches!(e, Fails(_))),
            ("nobody == 1", |e| matches!(e, Fails(_))),
            ("system('id') == ''", |e| matches!(e, Fails(_))),
            ("1 / 0 == 1", |e| matches!(e, Fails(_))),
            ("file.name > 3", |e| matches!(e, Fails(_))),
            ("9223372036854775807 + 1 > 0", |e| matches!(e, Fails(_))),
            ("file.name", |e| matches!(e, NotBool(_))),
            ("file.size", |e| matches!(e, NotBool(_))),
            (&long, |e| matches!(e, TooLong)),
            (&nested, |e| matches!(e, TooDeep)),
            (&chain, |e| matches!(e, TooDeep | Syntax(_))),
            (&nots, |e| !matches!(e, NotBool(_))),
            (&doubled, |e| matches!(e, TooDear | TooDeep)),
            (squared, |e| matches!(e, TooDear)),
        ];
        for (source, right) in table {
            match ask(source) {
                Err(error) => assert!(right(&error), "{source}: {error:?}"),
                // An odd number of `!` may also just be simplified by the parser.
                Ok(_) => assert!(source.starts_with("!!"), "{source} was taken"),
            }
        }
    }

    #[test]
    fn whether_a_file_lost_its_name_can_be_asked_also_where_nobody_knows_which() {
        for identity in [None, Some("7:1".to_owned())] {
            let mut event = uploaded("/in/a");
            event.fact.set_displaced(Some(entrepot_nouns::Displaced { identity }));
            let subject = Subject::new(&event, &main_site());
            assert_eq!(Condition::compile("event.replaced").unwrap().holds(&subject), Ok(true));
        }
        let mut event = uploaded("/in/a");
        event.fact = entrepot_nouns::Fact::NodeStopped {};
        let subject = Subject::new(&event, &main_site());
        assert_eq!(Condition::compile("has(event.replaced)").unwrap().holds(&subject), Ok(false));
    }

    #[test]
    fn conditions_over_events_without_a_file_fail_closed() {
        let mut event = uploaded("/in/a");
        event.fact = entrepot_nouns::Fact::NodeStopped {};
        event.account = None;
        let subject = Subject::new(&event, &main_site());
        let holds = |source: &str| Condition::compile(source).unwrap().holds(&subject);
        assert!(matches!(holds("file.size > 0"), Err(ConditionError::Fails(_))));
        assert_eq!(holds("file == null && account == null"), Ok(true));
    }

    #[test]
    fn no_short_source_runs_long_or_overflows_the_stack() {
        // Everything that fits the limits must end quickly on the stack of a worker thread.
        let sources = [
            "-".repeat(2000) + "1 > 0",
            format!("true{}", " ? true : true".repeat(140)),
            format!("event{}", ".a".repeat(1000)),
            format!("event{}", "[0]".repeat(600)),
            format!("true{}", " && true".repeat(250)),
            format!("true{}", " || true".repeat(250)),
            "{".repeat(47) + &"}".repeat(47),
            "[".repeat(47) + &"]".repeat(47),
            "'a'.matches('(a{1000}){1000}')".to_owned(),
            format!("'a'{} == ''", ".replace('', 'aaaaaaaaaaaaaaaa')".repeat(20)),
            "'%1000000000d'.format([1]) == ''".to_owned(),
            format!("glob(file.path, '{}')", "*a".repeat(120)),
            "format(timestamp(event.at), '%255Y%255Y%255Y', 'UTC') == ''".to_owned(),
            "file.path.matches('(.*)*(.*)*(.*)*x')".to_owned(),
        ];
        let worker = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
        let run = worker.spawn(move || sources.map(|source| ask(&source).is_ok())).unwrap();
        assert!(run.join().is_ok());
    }
}
