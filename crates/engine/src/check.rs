//! What of a rule cannot be run, said before it is stored.

mod commands;
mod tried;

use entrepot_nouns::event::{ExpectedFact, FileFact};
use entrepot_nouns::rule::{
    ExecSpec, ExecStdout, FetchSpec, Following, GzipSpec, JoinSpec, StepSpec, TarSpec, Triggers,
    WaitSpec, When, ZipSpec, ZstdSpec,
};
use entrepot_nouns::rule_report::{RuleTestResult, TestOutcome};
use entrepot_nouns::watch::WatchChange;
use entrepot_nouns::web_hook::WebHook;
use entrepot_nouns::{
    CommandFact, CommandProtocol, Digests, Env, Event, Fact, FieldError, Protocol, Rule, SessionId,
    SiteId, StepAddress, Timestamp, TransferId,
};
use uuid::Uuid;

use crate::condition::{Condition, ConditionError};
use crate::exec::{self, Setting};
use crate::expecting;
use crate::http_request;
use crate::noted::{FileValue, Noted, Turn};
use crate::pattern::{self, PatternError, Values};
use crate::schedule;
use crate::step;
use tried::Tried;

/// Looks at the schedule, compiles the condition, expands the paths of a rule for an example, and
/// looks its commands up in the tables of their protocols.
///
/// # Errors
/// The field that cannot be used, and why.
pub fn check_rule(rule: &Rule) -> Result<(), FieldError> {
    for (at, when) in rule.when.all().iter().enumerate() {
        let checked = match when {
            When::Cron(cron) => schedule::check(cron, Env::real().now()),
            When::Expect(expect) => expecting::check(expect),
            _ => Ok(()),
        };
        let placed =
            |error: FieldError| FieldError::new(rule.when.place(at, &error.field), error.problem);
        checked.map_err(placed)?;
    }
    check_conditions(rule)?;
    commands::check(rule)?;
    for when in rule.when.all() {
        let event = example_on(rule, when);
        if let Some(order) = &rule.order {
            let by = pattern::expand(&order.by, &event).map(drop);
            by.map_err(|error| FieldError::new("order", error.to_string()))?;
        }
        check_placeholders(rule, &event)?;
    }
    tried::check(rule, |kind| example_of(rule, kind))
}

/// Tries the tests of a rule, each whatever came of those before it. Blocks for milliseconds.
pub fn test_rule(rule: &Rule) -> Vec<RuleTestResult> {
    let results = (0u32..).zip(&rule.tests).map(|(place, test)| {
        let (outcome, why) = match tried::tried(rule, test, |kind| example_of(rule, kind)) {
            Tried::As(why) => (TestOutcome::Passed, why),
            Tried::Otherwise(why) => (TestOutcome::Failed, why),
            Tried::NoEvent(why) => (TestOutcome::Failed, format!("'event' is none: {why}")),
        };
        RuleTestResult { place, outcome, why }
    });
    results.collect()
}

/// Compiles the conditions of a rule and of its steps, and checks them against what the rule starts
/// on.
fn check_conditions(rule: &Rule) -> Result<(), FieldError> {
    let wrong = |field: String| {
        move |error: ConditionError| FieldError::new(field.clone(), error.to_string())
    };
    if let Some(condition) = &rule.condition {
        let compiled =
            Condition::compile(condition).and_then(|compiled| compiled.check(&rule.when));
        compiled.map_err(wrong("if".to_owned()))?;
    }
    let names = Noted::names(rule);
    let in_turns = names.clone().in_turn(Turn::default());
    for place in rule.all_places() {
        if let StepSpec::Wait(WaitSpec { event: Some(awaited), .. }) = &place.step.spec
            && !Fact::KINDS.contains(&awaited.kind.as_str())
        {
            let (field, kind) = (format!("{}.wait.event.kind", place.field), &awaited.kind);
            return Err(FieldError::new(field, format!("there is no event '{kind}'")));
        }
        let names = if place.in_turns { &in_turns } else { &names };
        for expression in place.step.expressions() {
            let awaited = |kind: &str| Triggers::from(When::Event(kind.to_owned()));
            let awaited = expression.event.map(awaited);
            let when = awaited.as_ref().unwrap_or(&rule.when);
            Condition::compile(expression.text)
                .and_then(|compiled| compiled.check_in_step(when, names, expression.gives))
                .map_err(wrong(format!("{}.{}", place.field, expression.field)))?;
        }
    }
    Ok(())
}

/// Expands the placeholders of each step for an example of what starts the rule. What steps leave
/// in `steps` is known when they have run; that there are steps of such names is known before.
fn check_placeholders(rule: &Rule, event: &Event) -> Result<(), FieldError> {
    let mut known = Following::new(Noted::names(rule));
    for place in rule.all_places() {
        let noted = known.at(&place);
        noted.turn = place.in_turns.then(Turn::default);
        let values = Values { event, noted: Some(noted) };
        check_step(rule, &place.step.spec, values).map_err(|(field, error)| {
            FieldError::new(format!("{}.{field}", place.field), error.to_string())
        })?;
        if place.step.spec.makes_file() {
            noted.file = Some(FileValue::example(place.address));
        }
    }
    Ok(())
}

/// A field of a step, and why its placeholders cannot be expanded.
type PatternFlaw = (&'static str, PatternError);

fn check_step(rule: &Rule, step: &StepSpec, values: Values<'_>) -> Result<(), PatternFlaw> {
    match step {
        StepSpec::Deliver(deliver) => {
            pattern::store_path(&deliver.path, values).map(drop).map_err(|e| ("deliver.path", e))
        }
        StepSpec::Fetch(fetch) => check_fetch(fetch, values),
        StepSpec::Copy(copy) => {
            pattern::virtual_path(&copy.to, values).map(drop).map_err(|e| ("copy.to", e))
        }
        StepSpec::Mkdir(mkdir) if mkdir.endpoint.is_some() => {
            pattern::store_path(&mkdir.path, values).map(drop).map_err(|e| ("mkdir.path", e))
        }
        StepSpec::Mkdir(mkdir) => {
            let path = pattern::virtual_path(&mkdir.path, values);
            path.map(drop).map_err(|e| ("mkdir.path", e))
        }
        StepSpec::Move(rename) => {
            pattern::virtual_path(&rename.to, values).map(drop).map_err(|e| ("move.to", e))
        }
        StepSpec::Exec(exec) => check_exec(rule, exec, values),
        StepSpec::Check(check) => check_text("check.message", &check.message, values),
        StepSpec::Stop(stop) => check_text("stop.message", &stop.message, values),
        StepSpec::Approve(approve) => check_text("approve.text", &approve.text, values),
        StepSpec::Http(http) => {
            http_request::Draft::of(http, values).map(drop).map_err(|error| ("http", error))
        }
        StepSpec::Mail(it) => step::mail::Letter::of(it, values).map(drop).map_err(|e| ("mail", e)),
        StepSpec::As2(it) => step::as2::As2Draft::of(it, values).map(drop).map_err(|e| ("as2", e)),
        StepSpec::Procedure(it) => step::procedure::check(it, values),
        StepSpec::Gzip(GzipSpec { name, .. }) => check_name("gzip.name", name, values),
        StepSpec::Zstd(ZstdSpec { name, .. }) => check_name("zstd.name", name, values),
        StepSpec::Zip(ZipSpec { name, entry }) => {
            check_name("zip.name", name, values)?;
            check_name("zip.entry", entry, values)
        }
        StepSpec::Tar(TarSpec { name, entry, .. }) => {
            check_name("tar.name", name, values)?;
            check_name("tar.entry", entry, values)
        }
        StepSpec::Encrypt(encrypt) => check_name("encrypt.name", &encrypt.name, values),
        StepSpec::Decrypt(decrypt) => check_name("decrypt.name", &decrypt.name, values),
        StepSpec::Sign(sign) => check_name("sign.name", &sign.name, values),
        StepSpec::Transcode(it) => check_name("transcode.name", &it.name, values),
        StepSpec::Split(it) => step::split::check(it, values).map_err(|error| ("split.to", error)),
        StepSpec::Join(it) => check_join(it, values),
        StepSpec::Extract(it) => check_path("extract.to", it.to.as_deref(), values),
        StepSpec::Verify(it) => check_path("verify.signature", it.signature.as_deref(), values),
        StepSpec::Checksum(it) => check_path("checksum.verify", it.verify.as_deref(), values),
        StepSpec::Each(it) => check_path("each.find.path", it.folder(), values),
        StepSpec::Quarantine(it) => check_text("quarantine.reason", &it.reason, values),
        StepSpec::Delete(_)
        | StepSpec::Release(_)
        | StepSpec::Refuse(_)
        | StepSpec::If(_)
        | StepSpec::Parallel(_)
        | StepSpec::Set(_)
        | StepSpec::Wait(_)
        | StepSpec::Call(_)
        | StepSpec::Scan(_)
        | StepSpec::Webhook(_) => Ok(()),
    }
}

fn check_exec(rule: &Rule, exec: &ExecSpec, values: Values<'_>) -> Result<(), PatternFlaw> {
    let setting = Setting {
        rule: &rule.name,
        event: values.event,
        noted: values.noted,
        file: Some("/folder/name.txt".to_owned()),
        ip: Some("192.0.2.1".to_owned()),
    };
    exec::program(exec, &setting).map(drop).map_err(|error| ("exec", error))?;
    if exec.stdout != ExecStdout::File {
        return Ok(());
    }
    check_text("exec.name", exec.name.as_deref().unwrap_or("{name}"), values)
}

fn check_join(join: &JoinSpec, values: Values<'_>) -> Result<(), PatternFlaw> {
    pattern::part_names(&join.from, values).map_err(|error| ("join.from", error))?;
    check_name("join.name", &join.name, values)
}

fn check_text(field: &'static str, text: &str, values: Values<'_>) -> Result<(), PatternFlaw> {
    pattern::expand(text, values).map(drop).map_err(|error| (field, error))
}

fn check_name(
    field: &'static str,
    pattern: &Option<String>,
    values: Values<'_>,
) -> Result<(), PatternFlaw> {
    let expanded = pattern.iter().try_for_each(|name| pattern::expand(name, values).map(drop));
    expanded.map_err(|error| (field, error))
}

fn check_path(
    field: &'static str,
    pattern: Option<&str>,
    values: Values<'_>,
) -> Result<(), PatternFlaw> {
    let expanded = pattern.map(|it| pattern::virtual_path(it, values)).transpose();
    expanded.map(drop).map_err(|error| (field, error))
}

fn check_fetch(fetch: &FetchSpec, values: Values<'_>) -> Result<(), PatternFlaw> {
    if fetch.endpoint.is_none() && values.event.fact.endpoint().is_none() {
        let kind = values.event.fact.kind().to_owned();
        return Err(("fetch.endpoint", PatternError::NoEndpoint(kind)));
    }
    pattern::store_path(&fetch.path, values).map_err(|error| ("fetch.path", error))?;
    if let Some(to) = &fetch.to {
        let noted = values.noted.cloned().unwrap_or_default();
        let noted = noted.with_file(FileValue::example(StepAddress("do.0".to_owned())));
        let values = Values { noted: Some(&noted), ..values };
        pattern::store_path(to, values).map_err(|error| ("fetch.to", error))?;
    }
    Ok(())
}

/// A command like any other, for rules on commands: an upload, in the words of the first protocol
/// that the rule names.
fn command(rule: &Rule) -> Fact {
    let named = rule.when.commands().iter().find_map(|pattern| pattern.protocol());
    let (protocol, verb, argument, code) = match named {
        Some(CommandProtocol::Http) => {
            (CommandProtocol::Http, "write", "PUT /folder/name.txt", 201)
        }
        Some(CommandProtocol::As2) => (CommandProtocol::As2, "write", "/folder/name.txt", 200),
        // A rule of SFTP says in its tests which request it is.
        Some(CommandProtocol::Ftp | CommandProtocol::Sftp) | None => {
            (CommandProtocol::Ftp, "STOR", "name.txt", 226)
        }
    };
    Fact::CommandDone {
        command: CommandFact {
            protocol,
            verb: verb.to_owned(),
            argument: argument.to_owned(),
            path: Some("/folder/name.txt".to_owned()),
            writes: true,
            address: "192.0.2.1".to_owned(),
            listener: rule.name.clone(),
            code: Some(code),
            bytes: Some(1),
            transfer: Some(TransferId(Uuid::from_u128(1))),
            digests: Digests { blake3: Some([0; 32]), sha256: None },
            duration_ms: Some(1),
        },
    }
}

/// An instant of the rule's schedule.
fn due(rule: &Rule) -> Fact {
    Fact::ScheduleDue { rule: rule.name.clone(), planned: Timestamp::default() }
}

/// A file that the rule expects has not come, or came otherwise.
fn expected(rule: &Rule, kind: &str) -> Fact {
    let count = rule.when.expected().map_or(1, |expect| u64::from(expect.count));
    let seen = match kind {
        "expected.late" => count,
        "expected.extra" => count.saturating_add(1),
        _ => 0,
    };
    let (begins, deadline) = (Timestamp::default(), Timestamp::from_seconds(18 * 3600));
    let window = ExpectedFact { rule: rule.name.clone(), begins, deadline, seen, count };
    match kind {
        "expected.soon" => Fact::ExpectedSoon { window },
        "expected.late" => Fact::ExpectedLate { window },
        "expected.extra" => Fact::ExpectedExtra { window },
        _ => Fact::ExpectedMissed { window },
    }
}

/// A start of the rule by hand.
fn called(rule: &Rule) -> Fact {
    let parameters = rule.when.call().into_iter().flat_map(|call| &call.parameters);
    let parameters = parameters.map(|(name, parameter)| (name.clone(), parameter.example()));
    let parameters = parameters.collect();
    Fact::RuleCalled { rule: rule.name.clone(), parameters, by: "cli:root".to_owned() }
}

/// A web hook like any other. What is in its body is known when it comes.
fn hook(rule: &Rule) -> Fact {
    let kept = rule.when.hook().map(WebHook::kept_headers).unwrap_or_default();
    Fact::HookReceived {
        rule: rule.name.clone(),
        address: "192.0.2.1".to_owned(),
        headers: kept.into_iter().map(|name| (name, "value".to_owned())).collect(),
        body: serde_json::Value::Null,
    }
}

/// A file like any other in the watched folder.
fn found(rule: &Rule) -> Fact {
    let (endpoint, folder) = match rule.when.watch() {
        Some(watch) => (watch.endpoint.clone(), watch.path.as_str()),
        None => (rule.name.clone(), "/folder"),
    };
    Fact::WatchFound {
        rule: rule.name.clone(),
        endpoint,
        path: format!("{}/name.txt", folder.trim_end_matches('/')),
        size: 1,
        modified: Timestamp::default(),
        change: WatchChange::New,
    }
}

/// A file like any other that came.
fn upload() -> Fact {
    Fact::FileUploaded {
        file: FileFact {
            transfer: TransferId(Uuid::from_u128(1)),
            path: "/folder/name.txt".to_owned(),
            size: 1,
            digests: Digests { blake3: Some([0; 32]), sha256: None },
            protocol: Protocol::Sftp,
            started_at: Timestamp::default(),
            identity: None,
            displaced: None,
            temporary: false,
            as2: None,
        },
    }
}

/// An event of this kind like any other.
fn example_of(rule: &Rule, kind: &str) -> Event {
    let fact = match kind {
        "schedule.due" => due(rule),
        "rule.called" => called(rule),
        "watch.found" => found(rule),
        "hook.received" => hook(rule),
        kind if kind.starts_with("command.") => command(rule),
        kind if kind.starts_with("expected.") => expected(rule, kind),
        _ => upload(),
    };
    Event { fact, ..example(rule) }
}

/// What starts the rule first of all: an upload like any other, or the command of one.
pub(crate) fn example(rule: &Rule) -> Event {
    // The invariant: a rule that is stored has a trigger.
    let upload = When::Event("file.uploaded".to_owned());
    example_on(rule, rule.when.all().first().unwrap_or(&upload))
}

/// An event like any other of those that this trigger of the rule starts on.
fn example_on(rule: &Rule, when: &When) -> Event {
    let account = rule.run_as.clone().unwrap_or_else(|| rule.name.clone());
    Event {
        id: Uuid::from_u128(1).into(),
        at: Timestamp::default(),
        clock: None,
        site: SiteId::MAIN,
        node: rule.name.clone(),
        account: Some(account),
        session: Some(SessionId(Uuid::from_u128(1))),
        job: None,
        cause: None,
        depth: 0,
        fact: match when {
            When::Event(kind) if !kind.starts_with("command.") => upload(),
            When::Cron(_) => due(rule),
            When::Call(_) => called(rule),
            When::Watch(_) => found(rule),
            When::Hook(_) => hook(rule),
            When::Expect(_) => expected(rule, "expected.missed"),
            _ => command(rule),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_on_several_things_can_use_what_each_of_them_has() {
        let rule = |condition: &str, steps: serde_json::Value| -> Rule {
            serde_json::from_value(serde_json::json!({
                "name": "r", "if": condition, "do": steps, "when": [
                    {"event": "file.uploaded"}, {"cron": "0 3 * * *"},
                    {"call": {"parameters": {"day": {}}}},
                ],
            }))
            .unwrap()
        };
        let run = |word: &str| serde_json::json!([{"exec": {"argv": ["/bin/true", word]}}]);
        for good in [
            "event.kind == 'schedule.due' || file.size > 0",
            "params == null || params.day == 'today'",
            "event.kind == 'file.uploaded' && event.path.startsWith('/in/')",
            "event.depth == 0 && site == 'main'",
        ] {
            assert_eq!(check_rule(&rule(good, run("{date}"))), Ok(()), "{good}");
        }
        for (bad, said) in [
            ("event.pathh == ''", "did you mean 'path'"),
            ("fil.size > 0", "did you mean 'file'"),
            ("event.depth == 'a'", "never equal"),
        ] {
            let error = check_rule(&rule(bad, run("{date}"))).unwrap_err();
            assert!(error.field == "if" && error.problem.contains(said), "{bad}: {error}");
        }
        // Each of what starts it must have what stands for a placeholder.
        let error = check_rule(&rule("true", run("{planned}"))).unwrap_err();
        assert_eq!(error.field, "do.0.exec");
        let mut late = rule("true", run("{date}"));
        late.when = serde_json::from_value(serde_json::json!(
            [{"event": "file.uploaded"}, {"cron": "0 30 30 2 *"}]
        ))
        .unwrap();
        assert_eq!(check_rule(&late).unwrap_err().field, "when.1.cron.expression");
    }

    #[test]
    fn what_cannot_run_is_named_by_its_field() {
        let rule = |condition: &str, path: &str, to: &str| -> Rule {
            serde_json::from_value(serde_json::json!({
                "name": "r", "when": {"event": "file.uploaded"}, "if": condition,
                "do": [{"deliver": {"endpoint": "e", "path": path}}, {"move": {"to": to}}],
            }))
            .unwrap()
        };
        assert_eq!(check_rule(&rule("file.size > 0", "{date}/{name}", "/sent/{name}")), Ok(()));
        let stepped = |condition: &str| {
            let mut rule = rule("true", "{name}", "/sent/{name}");
            rule.steps[1].condition = Some(condition.to_owned());
            rule
        };
        assert_eq!(check_rule(&stepped("file.size > 0")), Ok(()));
        let wrong = check_rule(&stepped("file.sise > 0")).unwrap_err();
        assert!(wrong.field == "do.1.if" && wrong.to_string().contains("size"), "{wrong}");
        for (bad, field) in [
            (rule("file.", "{name}", "/a"), "if"),
            (rule("true", "{nme}", "/a"), "do.0.deliver.path"),
            (rule("true", "../{name}", "/a"), "do.0.deliver.path"),
            (rule("true", "{name}", "a"), "do.1.move.to"),
        ] {
            assert_eq!(check_rule(&bad).unwrap_err().field, field, "{bad:?}");
        }
    }

    #[test]
    fn of_a_web_hook_headers_are_known_and_the_body_is_not() {
        let rule = |condition: &str, argument: &str| -> Rule {
            let hook = serde_json::json!({"keys": ["shop"], "headers": ["X-Topic"]});
            serde_json::from_value(serde_json::json!({
                "name": "r", "when": {"hook": hook}, "if": condition,
                "do": [{"exec": {"argv": ["/bin/true", argument]}}],
                "tests": [
                    {"event": {"body": {"id": 7}}, "runs": true},
                    {"event": {"body": {"id": 8}}, "runs": false},
                    {"event": {"body": {"id": 7}, "rule": "other"}, "runs": false},
                ],
            }))
            .unwrap()
        };
        let good = "hook.body.id == 7 && hook.headers['content-type'] != ''";
        for argument in ["{hook.body.order.lines.0.sku}", "{hook.headers.x-topic}"] {
            assert_eq!(check_rule(&rule(good, argument)), Ok(()), "{argument}");
        }
        for (condition, argument, field) in [
            ("hook.bdy.id == 7", "a", "if"),
            ("hook.headers['a'] > 1", "a", "if"),
            ("hook.body.id == 8", "a", "tests.0.runs"),
            (good, "{hook.headers.cookie}", "do.0.exec"),
            (good, "{hook.name}", "do.0.exec"),
        ] {
            let error = check_rule(&rule(condition, argument)).unwrap_err();
            assert_eq!(error.field, field, "{condition} {argument}: {error}");
        }
        let event: Rule = serde_json::from_value(serde_json::json!({
            "name": "r", "when": {"event": "file.uploaded"}, "if": "hook.body.id == 7",
            "do": [{"delete": {}}],
        }))
        .unwrap();
        assert_eq!(check_rule(&event).unwrap_err().field, "if");
    }

    #[test]
    fn of_files_that_are_expected_the_numbers_are_known_and_no_file() {
        let rule = |expect: serde_json::Value, condition: &str, argument: &str| -> Rule {
            let mut fields = serde_json::json!({"match": ["/in/PAY*.csv"], "by": "18:00"});
            fields.as_object_mut().unwrap().extend(expect.as_object().unwrap().clone());
            serde_json::from_value(serde_json::json!({
                "name": "r", "when": {"expect": fields}, "if": condition,
                "do": [{"exec": {"argv": ["/bin/true", argument]}}],
                "tests": [
                    {"event": {"seen": 0}, "runs": true},
                    {"event": {"kind": "expected.late"}, "runs": false},
                    {"event": {"rule": "other"}, "runs": false},
                ],
            }))
            .unwrap()
        };
        let plain = || serde_json::json!({});
        let good = "event.kind == 'expected.missed' && event.seen < event.count";
        for argument in ["{seen} of {count}", "{begins} {deadline}", "{time}"] {
            assert_eq!(check_rule(&rule(plain(), good, argument)), Ok(()), "{argument}");
        }
        let zone = serde_json::json!({"zone": "Mars/Olympus"});
        for (expect, condition, argument, field) in [
            (plain(), "event.sen == 0", "a", "if"),
            (plain(), "event.seen == 'a'", "a", "if"),
            (plain(), "event.planned != ''", "a", "if"),
            (plain(), "event.seen > 0", "a", "tests.0.runs"),
            (plain(), good, "{path}", "do.0.exec"),
            (plain(), good, "{planned}", "do.0.exec"),
            (zone, good, "a", "when.expect.zone"),
        ] {
            let error = check_rule(&rule(expect, condition, argument)).unwrap_err();
            assert_eq!(error.field, field, "{condition} {argument}: {error}");
        }
        let event: Rule = serde_json::from_value(serde_json::json!({
            "name": "r", "when": {"event": "file.uploaded"},
            "do": [{"exec": {"argv": ["/bin/true", "{seen}"]}}],
        }))
        .unwrap();
        assert_eq!(check_rule(&event).unwrap_err().field, "do.0.exec");
    }

    #[test]
    fn parameters_are_known_by_name_and_type() {
        let rule = |condition: &str, argument: &str| -> Rule {
            let parameters = serde_json::json!({
                "day": {"pattern": r"\d+"}, "copies": {"type": "int", "default": 1},
            });
            serde_json::from_value(serde_json::json!({
                "name": "r", "when": {"call": {"parameters": parameters}}, "if": condition,
                "do": [{"exec": {"argv": ["/bin/true", argument]}}],
            }))
            .unwrap()
        };
        let good = rule("params.copies > 1 && params.day.startsWith('2')", "{params.day}");
        assert_eq!(check_rule(&good), Ok(()));
        for (condition, argument, field, said) in [
            ("params.copeis > 1", "x", "if", "did you mean 'copies'?"),
            ("params.day > 1", "x", "if", "string and int"),
            ("true", "{params.dya}", "do.0.exec", "no parameter 'dya'"),
            ("true", "{name}", "do.0.exec", "rule.called"),
        ] {
            let error = check_rule(&rule(condition, argument)).unwrap_err();
            assert!(error.field == field && error.to_string().contains(said), "{error}");
        }
        let mut other = rule("true", "{params.day}");
        other.when = When::Event("file.uploaded".to_owned()).into();
        assert_eq!(check_rule(&other).unwrap_err().field, "do.0.exec");
    }

    #[test]
    fn a_command_that_nobody_can_send_is_no_start_of_a_rule() {
        let rule = |when: serde_json::Value| -> Rule {
            let refuse = serde_json::json!([{"refuse": {"text": "No."}}]);
            let rule = serde_json::json!({"name": "r", "when": when, "do": refuse});
            serde_json::from_value(rule).unwrap()
        };
        for known in ["ftp dele", "ftp SITE CHMOD", "ftp XMKD", "sftp posix-rename", "* *"] {
            assert_eq!(
                check_rule(&rule(serde_json::json!({"before": [known]}))),
                Ok(()),
                "{known}"
            );
        }
        assert_eq!(check_rule(&rule(serde_json::json!({"before": ["* MKDIR"]}))), Ok(()));
        for unknown in ["ftp DELEE", "ftp remove", "ftp SITE FORMAT", "sftp DELE", "sftp read"] {
            let bad = rule(serde_json::json!({"before": ["ftp RMD", unknown]}));
            assert_eq!(check_rule(&bad).unwrap_err().field, "when.before.1", "{unknown}");
        }
    }
}
