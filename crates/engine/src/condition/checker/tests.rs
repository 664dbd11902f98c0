//! Tables of what is taken and what is refused, and expressions that dice made.

use std::panic::{AssertUnwindSafe, catch_unwind};

use entrepot_nouns::rule::When;

use super::*;
use crate::condition::{Condition, Subject};
use crate::fixture::{main_site, uploaded};

fn check_upload(condition: &Condition) -> Result<(), ConditionError> {
    condition.check(&When::Event("file.uploaded".to_owned()).into())
}

fn problem(source: &str) -> Option<ConditionError> {
    check_upload(&Condition::compile(source).unwrap_or_else(|error| panic!("{source}: {error}")))
        .err()
}

/// Conditions that are right.
const RIGHT: [&str; 66] = [
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
    "file.dir == '/in' && file.stem == 'a' && file.extension == 'csv'",
    "file.digest != '' && size(file.digest) == 64",
    "event.size > 1024 * 1024 || event.depth > 0",
    "event.path.contains('/out/') == false",
    "!(account in ['a', 'b'])",
    "event.account == account",
    "string(event.size).size() <= 3",
    "file.name.size() > 0 ? file.size > 0 : false",
    "file.name.startsWith(account + '-')",
    "[file.name, file.stem].exists_one(it, it == 'a')",
    "[file.size, 3].filter(it, it > 2).size() > 0",
    "{'csv': 1, 'xml': 2}[file.extension] == 1",
    "file.extension in {'csv': 1}",
    "file.name.split('.').size() == 2",
    "file.name.split('.')[1].size() == 3",
    "duration('90s') < duration('2m')",
    "timestamp(event.at) - duration('1h') < timestamp(event.at)",
    "timestamp(event.at).getDayOfWeek('Europe/Berlin') in [0, 6]",
    "timestamp(event.at).getFullYear() == 2026",
    "1.5 < double(file.size) || uint(3) == 3u",
    "bool('true') && int('3') == 3",
    "type(file.name) == string",
    "type(file.name) in [string, int] && type(int) == type(type(3))",
    "bytes('a') == b'a'",
    "dyn(file.size) == 3",
    "has(event.session) ? event.session == 'x' : true",
    "event.session == null || event.session != ''",
    "file.name.upperAscii() == 'A' && file.name.lastIndexOf('.') > 0",
    "file.name.charAt(0) == 'a'",
    "file.path.matches('^/in/[0-9]{8}/')",
    "(file.size + 1) % 7 != 0 && -(file.size) < 0",
    "[[1, 2], [3]].map(inner, inner.size()).size() == 2",
    "site == 'main' && command.code >= 200 && command.bytes < 10",
    "event.protocol in ['sftp', 'https'] && command.listener != ''",
    "string(event.replaced ? file.size : file.name) == 'a'",
    "[1, 'a', true].exists(it, it == 'a')",
    "[file.size, 3].map(it, it * 2)[0] > 3",
    "['a', file.name].filter(part, part != '')[0].startsWith('a')",
    "{'a': 1, 'b': 'c'}.exists(key, key.startsWith('a'))",
];

/// Conditions that are wrong: where, as the text that begins there, and what is said.
const WRONG: [(&str, &str, &str); 83] = [
    (
        "file.path.startsWit('/x')",
        "startsWit",
        "no function 'startsWit'; did you mean 'startsWith'?",
    ),
    ("file.name.endsWiht('.csv')", "endsWiht", "did you mean 'endsWith'?"),
    ("file.name.matchs('a')", "matchs", "did you mean 'matches'?"),
    ("file.name.repalce('a', 'b') == 'c'", "repalce", "did you mean 'replace'?"),
    ("file.name.splitt('_')[0] == 'a'", "splitt", "did you mean 'split'?"),
    ("file.name.substrin(1) == 'a'", "substrin", "did you mean 'substring'?"),
    ("file.name.lowerAsci() == 'a'", "lowerAsci", "did you mean 'lowerAscii'?"),
    (
        "timestmp(event.at) > timestamp('2026-01-01T00:00:00Z')",
        "timestmp",
        "did you mean 'timestamp'?",
    ),
    ("timestamp(event.at).getHour() < 6", "getHour", "did you mean 'getHours'?"),
    ("timestamp(event.at).getDayOfWek() == 1", "getDayOfWek", "did you mean 'getDayOfWeek'?"),
    ("iNetwork(command.ip, '10.0.0.0/8')", "iNetwork", "did you mean 'inNetwork'?"),
    ("inCalender(timestamp(event.at), 'bank')", "inCalender", "did you mean 'inCalendar'?"),
    ("formt(timestamp(event.at), '%Y', 'UTC') == '2026'", "formt", "did you mean 'format'?"),
    ("true && globb(file.name, '*')", "globb", "did you mean 'glob'?"),
    ("siz(file.name) > 3", "siz", "did you mean 'size'?"),
    ("strng(file.size) == '3'", "strng", "did you mean 'string'?"),
    ("[1, 2].exist(x, x > 1)", "exist", "did you mean 'exists'?"),
    ("fil.path == '/x'", "fil", "no variable 'fil'; did you mean 'file'?"),
    ("file.size > 3 && evnt.kind == 'x'", "evnt", "did you mean 'event'?"),
    ("comand.verb == 'STOR'", "comand", "did you mean 'command'?"),
    ("acount == 'x'", "acount", "did you mean 'account'?"),
    ("sitee == 'main'", "sitee", "did you mean 'site'?"),
    ("has(evnt.session)", "evnt", "did you mean 'event'?"),
    ("[1, 2].map(x, y + 1).size() == 2", "y +", "no variable 'y'; did you mean 'x'?"),
    ("'é' == file.name && nobody", "nobody", "no variable 'nobody'"),
    ("true && file.sizee > 3", "sizee", "no field 'sizee' in file; did you mean 'size'?"),
    ("has(file.sizee)", "sizee", "did you mean 'size'?"),
    ("file.digst == 'a'", "digst", "did you mean 'digest'?"),
    ("file.stm == 'a'", "stm", "did you mean 'stem'?"),
    ("file.dirr == '/in'", "dirr", "did you mean 'dir'?"),
    ("event.acount == 'a'", "acount", "did you mean 'account'?"),
    ("event.protocl == 'sftp'", "protocl", "did you mean 'protocol'?"),
    ("event.colour == 1", "colour", "no field 'colour' in event of kind file.uploaded"),
    ("file.replaced", "replaced", "no field 'replaced' in file"),
    ("file.name.name == 'a'", "name ==", "no field 'name' in a value of type string"),
    ("file.size > 'a'", ">", "'>' does not work with int and string"),
    ("file.size < file.name", "<", "'<' does not work with int and string"),
    ("['a'].exists(x, x > 3)", "> 3", "'>' does not work with string and int"),
    ("'a' < 3", "<", "'<' does not work with string and int"),
    ("file.name + 3 == 'a'", "+", "'+' does not work with string and int"),
    ("file.size - 'a' > 0", "-", "'-' does not work with int and string"),
    ("file.name * 2 == 'aa'", "*", "'*' does not work with string and int"),
    ("-file.name == 'a'", "-", "'-' does not work with string"),
    ("file.name in 3", "in", "'in' does not work with string and int"),
    ("string(type(file.name)) == 'a'", "string", "'string' does not work with type"),
    ("type(3) < int", "<", "'<' does not work with type and type"),
    ("file.size == '3'", "==", "int and string are never equal"),
    ("file.name.size() == 'a'", "==", "int and string are never equal"),
    ("file.name.split('.')[0] == 3", "==", "string and int are never equal"),
    ("format(timestamp(event.at), '%Y', 'UTC') == 2026", "==", "string and int are never equal"),
    (
        "file.path.startsWith()",
        "startsWith",
        "'startsWith' does not work on string without arguments",
    ),
    ("file.path.startsWith(3)", "startsWith", "'startsWith' does not work on string with int"),
    ("file.name.startsWith('a', 'b')", "startsWith", "does not work on string with string, string"),
    ("file.size.contains('3')", "contains", "'contains' does not work on int with string"),
    ("file.size.trim() == 'a'", "trim", "'trim' does not work on int without arguments"),
    ("size() == 1", "size", "'size' does not work without arguments"),
    ("glob(file.name)", "glob", "'glob' does not work with string"),
    (
        "format(event.at, '%Y', 'UTC') == ''",
        "format",
        "'format' does not work with string and string",
    ),
    (
        "inCalendar(event.at, 'bank')",
        "inCalendar",
        "'inCalendar' does not work with string and string",
    ),
    ("inCalendar(timestamp(event.at))", "inCalendar", "'inCalendar' does not work with timestamp"),
    ("inCalendar(timestamp(event.at), 'bank') > 1", "> 1", "'>' does not work with bool and int"),
    (
        "inNetwork(file.size, '10.0.0.0/8')",
        "inNetwork",
        "'inNetwork' does not work with int and string",
    ),
    ("inNetwork(command.ip, '10.0.0.0/33')", "'10.0.0.0/33'", "'10.0.0.0/33' is no network"),
    ("inNetwork('10.0.0', '10.0.0.0/8')", "'10.0.0'", "'10.0.0' is no address"),
    (
        "format(timestamp(event.at), '%Y', 'Berlin') == ''",
        "'Berlin'",
        "did you mean 'Europe/Berlin'",
    ),
    ("format(timestamp(event.at), '%!', 'UTC') == ''", "'%!'", "is no form of a time"),
    ("inCalendar(timestamp(event.at), 'no name')", "'no name'", "'no name' is no name of a policy"),
    ("inCalendar(timestamp(event.at), 'a', 'Berlin')", "'Berlin'", "did you mean 'Europe/Berlin'"),
    ("file.name && true", "file.name", "string where true or false is needed"),
    ("file.size > 3 || file.name", "file.name", "string where true or false is needed"),
    ("!file.size", "file.size", "int where true or false is needed"),
    ("(true ? file.size : true) && true", "file.size", "int where true or false is needed"),
    ("file.size ? true : false", "file.size", "int where true or false is needed"),
    ("file.name.all(c, c == 'a')", "file.name", "string where a list is needed"),
    ("Point{x: 1}.x == 1", "{x", "there is no type 'Point' here"),
    (
        "(event.replaced ? file.name : file.size).startsWith('a')",
        "startsWith",
        "'startsWith' does not work on int with string",
    ),
    ("(event.replaced ? 'a' : b'a') + 'b' == 'ab'", "+", "'+' does not work with bytes and string"),
    ("[true, 1][0] && true", "[true", "int where true or false is needed"),
    ("[1, 'a'].all(it, it > 0)", "> 0", "'>' does not work with string and int"),
    ("[file.name].map(it, it.size())[0] == 'a'", "==", "int and string are never equal"),
    ("{'a': 1, 'b': 'c'}['a'] > 0", "> 0", "'>' does not work with string and int"),
    ("{1: 'a'}.exists(key, key.startsWith('a'))", "startsWith", "does not work on int with string"),
    (
        "dyn(event.colours).startsWith('a', 'b', 'c')",
        "colours",
        "no field 'colours' in event of kind file.uploaded",
    ),
];

#[test]
fn what_works_is_taken() {
    for source in RIGHT {
        assert_eq!(problem(source), None, "{source}");
    }
}

#[test]
fn what_cannot_work_is_said_with_its_place() {
    for (source, place, said) in WRONG {
        let found = problem(source).unwrap_or_else(|| panic!("{source} was taken"));
        let ConditionError::Wrong { column, problem } = found else { panic!("{source}: {found}") };
        assert!(problem.contains(said), "{source}: {problem}");
        let (before, _) = source.split_once(place).unwrap();
        assert_eq!(column, before.chars().count() + 1, "{source}: {problem}");
    }
    for source in ["file.name", "true ? file.size : false", "true ? true : (true ? 1 : true)"] {
        assert!(matches!(problem(source), Some(ConditionError::NotBool(_))), "{source}");
    }
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

/// Makes expressions that are mostly right, and now and then put one type in the place of another.
struct Dice(u64);

#[derive(Clone, Copy)]
enum Of {
    Flag,
    Int,
    Text,
}

/// What an expression of a type can look like: `F`, `I` and `T` stand for others.
fn forms(of: Of) -> &'static [&'static str] {
    match of {
        Of::Flag => &[
            "(F && F)",
            "(F || F)",
            "!F",
            "(I < I)",
            "(I >= I)",
            "(T == T)",
            "(I != I)",
            "(T < T)",
            "T.startsWith(T)",
            "T.contains(T)",
            "T.matches('[a-z]+')",
            "glob(T, '*.xml')",
            "(T in [T, T])",
            "[T, T].exists(x, x == T)",
            "[I, I].all(x, x < I)",
            "(F ? F : F)",
            "((F ? I : T) == T)",
            "[F, F].exists_one(x, x)",
            "{T: F}[T]",
            "{T: I, T: T}.all(k, k == T)",
            "(T in {T: I})",
            "[I, T].exists(x, x == I)",
        ],
        Of::Int => &[
            "(I + I)",
            "(I - I)",
            "(I * I)",
            "(I / I)",
            "(I % I)",
            "-(I)",
            "size(T)",
            "T.size()",
            "T.indexOf(T)",
            "int(T)",
            "[I, I][I]",
            "[T].filter(x, x != T).size()",
            "timestamp(event.at).getHours()",
            "(F ? I : I)",
            "[I, I].map(x, x + I)[I]",
            "{T: I}[T]",
            "size([I, T])",
            "([I] + [I])[0]",
        ],
        Of::Text => &[
            "(T + T)",
            "string(I)",
            "T.lowerAscii()",
            "T.trim()",
            "T.replace(T, T)",
            "T.substring(0, I)",
            "T.split(T)[0]",
            "[T, T].join(T)",
            "format(timestamp(event.at), '%Y', 'UTC')",
            "(F ? T : T)",
            "string(F ? I : T)",
            "[T, T].map(x, x + T)[0]",
            "[T].filter(x, x != T).join(T)",
            "{T: T}[T]",
        ],
    }
}

impl Dice {
    fn roll(&mut self, bound: usize) -> usize {
        // xorshift64*, by S. Vigna.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }

    fn any(&mut self) -> Of {
        [Of::Flag, Of::Int, Of::Text][self.roll(3)]
    }

    fn atom(&mut self, of: Of) -> String {
        let texts = ["file.name", "file.path", "file.stem", "event.kind", "account", "'a'", "''"];
        let ints = ["file.size", "event.size", "event.depth", "0", "3", "-1"];
        let one = match of {
            Of::Flag => self.one(&["true", "false", "event.replaced", "has(event.session)"]),
            Of::Int => self.one(&ints),
            Of::Text => self.one(&texts),
        };
        one.to_owned()
    }

    fn expression(&mut self, of: Of, depth: usize) -> String {
        let of = if self.roll(14) == 0 { self.any() } else { of };
        if depth == 0 || self.roll(4) == 0 {
            return self.atom(of);
        }
        if self.roll(10) == 0 {
            return self.call(depth);
        }
        let mut text = String::new();
        for character in self.one(forms(of)).chars() {
            match character {
                'F' => text += &self.expression(Of::Flag, depth - 1),
                'I' => text += &self.expression(Of::Int, depth - 1),
                'T' => text += &self.expression(Of::Text, depth - 1),
                other => text.push(other),
            }
        }
        text
    }

    /// Any function, with any arguments.
    fn call(&mut self, depth: usize) -> String {
        let all = [FUNCTIONS, OF_STRINGS, OURS].concat();
        let name = self.one(&all);
        let mut parts: Vec<String> = Vec::new();
        for _ in 0..self.roll(4) {
            let of = self.any();
            parts.push(self.expression(of, depth - 1));
        }
        if self.roll(2) == 0 || parts.is_empty() {
            return format!("{name}({})", parts.join(", "));
        }
        let on = parts.remove(0);
        format!("({on}).{name}({})", parts.join(", "))
    }
}

/// `EXPRESSIONS=100000` is more of it.
#[test]
fn what_is_taken_fails_for_no_name_function_number_of_arguments_or_type() {
    let event = uploaded("/in/orders/a.xml");
    let subject = Subject::new(&event, &main_site());
    let context = subject.context();
    let count = std::env::var("EXPRESSIONS").map_or(4_000, |count| count.parse().unwrap());
    let (mut dice, mut taken, mut refused) = (Dice(0x9e37_79b9_7f4a_7c15), 0, 0);
    for _ in 0..count {
        let source = dice.expression(Of::Flag, 3);
        let Ok(condition) = Condition::compile(&source) else { continue };
        if check_upload(&condition).is_err() {
            refused += 1;
            continue;
        }
        taken += 1;
        let run = catch_unwind(AssertUnwindSafe(|| condition.program.execute(&context)));
        match run {
            Ok(Err(error)) => assert!(!is_of_types(&error), "{source}: {error}"),
            Ok(Ok(value)) => assert!(matches!(value, Value::Bool(_)), "{source} gives {value:?}"),
            Err(_) => panic!("{source} breaks the evaluator"),
        }
    }
    assert!(taken > count / 10 && refused > count / 10, "{taken} taken, {refused} refused");
}
