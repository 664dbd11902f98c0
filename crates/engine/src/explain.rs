//! Why an event starts each rule, or does not: by the same functions as `rules.rs`, and in the same
//! order. Nothing is read from the database, and nothing is stored: rules are taken as they are.

use entrepot_nouns::expect::PathPattern;
use entrepot_nouns::explanation::{
    ConditionExplanation, EventExplanation, ExplainedJob, ExplainedSite, RuleExplanation,
    RuleOutcome,
};
use entrepot_nouns::limits::CAUSE_DEPTH;
use entrepot_nouns::rule::{Triggers, When};
use entrepot_nouns::{Event, Fact, Rule, Stored};

use crate::calendars::RuleSite;
use crate::condition::Subject;
use crate::ids;
use crate::pattern;
use crate::rules::{self, Compiled, Misfit, Verdict};

/// Says of each event of a site what each rule makes of it. Blocks for milliseconds a rule. A job
/// is named by the id that it has, whether it exists or not.
pub fn explain(
    site: &ExplainedSite,
    rules: Vec<Stored<Rule>>,
    events: Vec<Event>,
) -> Vec<EventExplanation> {
    let site = RuleSite::from(site);
    let compiled = |rule: Stored<Rule>| {
        // Only what is evaluated is compiled.
        if events.iter().any(|event| trigger_fits(&rule, event)) {
            Compiled::of(rule)
        } else {
            Compiled::unread(rule)
        }
    };
    let rules: Vec<Compiled> = rules.into_iter().map(compiled).collect();
    let explained = events.into_iter().map(|event| {
        let asked = Asked { event: &event, site: &site };
        let mut subject = None;
        let of_rules = rules.iter().map(|compiled| asked.of(compiled, &mut subject)).collect();
        EventExplanation {
            path: pattern::event_path(&event).map(str::to_owned),
            counts_as: rules::kinds(&event.fact).map(str::to_owned).collect(),
            rules: of_rules,
            event,
        }
    });
    explained.collect()
}

/// Says of one event what one rule makes of it. Blocks for milliseconds.
pub(crate) fn explain_one(site: &RuleSite, rule: Stored<Rule>, event: &Event) -> RuleExplanation {
    Asked { event, site }.of(&Compiled::of(rule), &mut None)
}

/// The event that is asked about.
struct Asked<'e> {
    event: &'e Event,
    site: &'e RuleSite,
}

impl Asked<'_> {
    fn of(&self, compiled: &Compiled, subject: &mut Option<Subject>) -> RuleExplanation {
        let (rule, event) = (&compiled.rule, self.event);
        let misfit = rules::fit(rule, event).err();
        let trigger_fits = trigger_fits(rule, event);
        let verdict = trigger_fits.then(|| compiled.judged(event, || self.subject(), subject));
        let outcome = match (misfit, &verdict) {
            (Some(misfit), _) => outcome_of(misfit),
            (None, Some(Verdict::ConditionFalse)) => RuleOutcome::ConditionFalse,
            (None, Some(Verdict::ConditionFails(_)) | None) => RuleOutcome::ConditionFails,
            (None, Some(Verdict::TooDeep)) => RuleOutcome::TooDeep,
            (None, Some(Verdict::Starts)) => RuleOutcome::Starts,
        };
        let condition =
            verdict.as_ref().and_then(|verdict| self.condition(compiled, verdict, subject));
        let id = ids::job(event.id, rule.id);
        RuleExplanation {
            rule: rule.noun.name.clone(),
            outcome,
            why: self.why(rule, outcome, condition.as_ref()),
            trigger: trigger(&rule.noun),
            trigger_fits,
            enabled: rule.noun.enabled,
            condition,
            depth: event.depth,
            depth_limit: CAUSE_DEPTH,
            changed_at: Some(rule.changed_at).filter(|changed| *changed > event.at),
            job: Some(ExplainedJob { id, state: None, error: None }),
        }
    }

    fn subject(&self) -> Subject {
        Subject::new(self.event, self.site)
    }

    fn condition(
        &self,
        compiled: &Compiled,
        verdict: &Verdict,
        subject: &mut Option<Subject>,
    ) -> Option<ConditionExplanation> {
        let source = compiled.rule.noun.condition.clone()?;
        let (holds, error) = match verdict {
            Verdict::ConditionFalse => (Some(false), None),
            Verdict::TooDeep | Verdict::Starts => (Some(true), None),
            Verdict::ConditionFails(error) => (None, Some(error.to_string())),
        };
        let subject = subject.get_or_insert_with(|| self.subject());
        let trace = match &compiled.condition {
            Some(Ok(condition)) => Some(condition.trace(subject)),
            Some(Err(_)) | None => None,
        };
        Some(ConditionExplanation { source, holds, error, trace })
    }

    /// Why the event is none that starts a rule on these.
    fn other_kinds(&self, triggers: &Triggers) -> String {
        let each = triggers.all().iter().map(|when| self.other_kind(when));
        each.collect::<Vec<_>>().join("; ")
    }

    /// Why the event is none that starts a rule on this.
    fn other_kind(&self, when: &When) -> String {
        let kind = self.event.fact.kind();
        match (when, &self.event.fact) {
            (When::Event(wanted), Fact::FileInterrupted { .. }) if wanted == "file.uploaded" => {
                format!("the upload was interrupted: the event is '{kind}', not '{wanted}'")
            }
            (When::Event(wanted), _) => format!("the event is '{kind}', not '{wanted}'"),
            (When::Cron(_), Fact::ScheduleDue { rule: due, .. }) => {
                format!("it is an instant of the schedule of rule '{due}'")
            }
            (When::Cron(_), _) => {
                format!("the event is '{kind}', not an instant of the rule's schedule")
            }
            (When::Call(_), Fact::RuleCalled { rule: called, .. }) => {
                format!("it is a start of rule '{called}' by hand")
            }
            (When::Call(_), _) => {
                format!("the event is '{kind}', not a start of the rule by hand")
            }
            (When::Watch(_), Fact::WatchFound { rule: finder, .. }) => {
                format!("the file was found by rule '{finder}'")
            }
            (When::Watch(_), _) => {
                format!("the event is '{kind}', not a file that the rule found")
            }
            (When::Hook(_), Fact::HookReceived { rule: named, .. }) => {
                format!("it is a web hook of rule '{named}'")
            }
            (When::Hook(_), _) => {
                format!("the event is '{kind}', not a web hook of the rule")
            }
            (When::Expect(_), fact) if fact.expected().is_some() => {
                let rule = fact.expected().map_or("", |window| window.rule.as_str());
                format!("it is about files that rule '{rule}' expects")
            }
            (When::Expect(_), _) => {
                format!("the event is '{kind}', and says nothing of files that the rule expects")
            }
            _ => format!("the event is '{kind}', not a command that ended"),
        }
    }

    fn why(
        &self,
        rule: &Stored<Rule>,
        outcome: RuleOutcome,
        condition: Option<&ConditionExplanation>,
    ) -> String {
        let depth = self.event.depth;
        match outcome {
            RuleOutcome::OtherSite => {
                format!("the event belongs to the site '{}', the rule to another", self.site.name)
            }
            RuleOutcome::Waited => {
                let moment = match rule.noun.when.before() {
                    Some(_) => "before the command",
                    None => "before its reply",
                };
                format!("a client waits for it {moment}, so it makes no jobs")
            }
            RuleOutcome::TemporaryName => {
                "the file had a temporary name; its rename to the final one starts the rule"
                    .to_owned()
            }
            RuleOutcome::OtherKind => self.other_kinds(&rule.noun.when),
            RuleOutcome::OtherCommand => {
                let command = self.event.fact.command();
                let said = command.map_or_else(String::new, |command| {
                    format!("{} {}", command.protocol.as_str(), command.verb)
                });
                format!("the command '{said}' is none of those that it starts on")
            }
            RuleOutcome::Disabled => "the rule is disabled".to_owned(),
            RuleOutcome::ConditionFalse => "the condition is false".to_owned(),
            RuleOutcome::ConditionFails => {
                let error = condition.and_then(|condition| condition.error.clone());
                error.unwrap_or_else(|| "the condition cannot be evaluated".to_owned())
            }
            RuleOutcome::TooDeep => format!(
                "{depth} events caused each other, and from {CAUSE_DEPTH} on no rule starts: see \
                 that rules do not start each other"
            ),
            RuleOutcome::Starts => "it starts".to_owned(),
        }
    }
}

/// Whether the event, or its command, is what the rule starts on or is asked about.
pub(crate) fn trigger_fits(rule: &Stored<Rule>, event: &Event) -> bool {
    match rules::fit(rule, event) {
        Ok(()) | Err(Misfit::Disabled) => true,
        Err(Misfit::Waited) => event.fact.command().is_some() && rules::rule_is_for(rule, event),
        Err(Misfit::Site | Misfit::Temporary | Misfit::Kind | Misfit::Command) => false,
    }
}

fn outcome_of(misfit: Misfit) -> RuleOutcome {
    match misfit {
        Misfit::Site => RuleOutcome::OtherSite,
        Misfit::Waited => RuleOutcome::Waited,
        Misfit::Temporary => RuleOutcome::TemporaryName,
        Misfit::Kind => RuleOutcome::OtherKind,
        Misfit::Command => RuleOutcome::OtherCommand,
        Misfit::Disabled => RuleOutcome::Disabled,
    }
}

/// What a rule starts on, in the words of its document.
fn trigger(rule: &Rule) -> String {
    let triggers = rule.when.all().iter().map(|when| trigger_of(rule, when));
    triggers.collect::<Vec<_>>().join("; or ")
}

fn trigger_of(rule: &Rule, when: &When) -> String {
    let list = || when.commands().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match when {
        When::Event(kind) => format!("event {kind}"),
        When::Cron(cron) => format!("cron '{}' in {}", cron.expression, cron.zone),
        When::Call(call) => {
            let names = call.parameters.keys().map(String::as_str).collect::<Vec<_>>();
            if names.is_empty() {
                "call by hand".to_owned()
            } else {
                format!("call by hand with {}", names.join(", "))
            }
        }
        When::Watch(watch) => format!("files in {} at endpoint {}", watch.path, watch.endpoint),
        When::Hook(_) => format!("web hook at /hooks/{}", rule.name),
        When::Expect(expect) => {
            let files: Vec<&str> = expect.matching.iter().map(PathPattern::as_str).collect();
            format!("{} expected by {} in {}", files.join(", "), expect.by, expect.zone)
        }
        When::Before(_) => format!("before {}", list()),
        When::After(_) => format!("after {}", list()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use entrepot_nouns::event::ExpectedFact;
    use entrepot_nouns::explanation::TracedExpression;
    use entrepot_nouns::{CommandProtocol, Env, SiteId, Timestamp};
    use serde_json::{Value as Json, json};
    use uuid::Uuid;

    use super::*;
    use crate::fixture::uploaded;
    use crate::meters::Meters;
    use crate::rules::Rules;

    const NORTH: SiteId = SiteId(Uuid::from_u128(77));

    fn main_site() -> ExplainedSite {
        ExplainedSite::new("main".parse().unwrap(), [])
    }

    fn stored(number: u128, site: SiteId, fields: Json) -> Stored<Rule> {
        let mut rule = json!({"name": format!("r{number}"), "do": [{"delete": {}}]});
        for (name, value) in fields.as_object().unwrap() {
            rule[name] = value.clone();
        }
        let noun = serde_json::from_value(rule).unwrap();
        let changed_at = Timestamp::default();
        Stored { id: Uuid::from_u128(number), site, revision: 1, changed_at, noun }
    }

    fn rules() -> Vec<Stored<Rule>> {
        let whens = [
            json!({"event": "file.uploaded"}),
            json!({"event": "file.recovered"}),
            json!({"event": "file.renamed"}),
            json!({"event": "file.removed"}),
            json!({"event": "command.done"}),
            json!({"after": ["ftp STOR"]}),
            json!({"after": ["* *"]}),
            json!({"after": ["sftp read", "ftp SITE CHMOD"]}),
            json!({"before": ["ftp STOR"]}),
        ];
        let conditions = [
            None,
            Some("true"),
            Some("false"),
            Some("file.size > 2 && file.name.endsWith('.xml')"),
            Some("file.size > 2 && !file.name.endsWith('.xml')"),
            Some("account == 'acme' || site == 'north'"),
            Some("command.verb == 'STOR'"),
            Some("event.depth < 3"),
            Some("file."),
        ];
        let mut rules = Vec::new();
        for (at, when) in whens.iter().enumerate() {
            for (of, condition) in conditions.iter().enumerate() {
                for (kind, enabled) in [true, false].into_iter().enumerate() {
                    let number = (at * 100 + of * 10 + kind) as u128;
                    let fields = json!({"when": when, "if": condition, "enabled": enabled});
                    let site = if (at + of) % 5 == 4 { NORTH } else { SiteId::MAIN };
                    rules.push(stored(number, site, fields));
                }
            }
        }
        rules
    }

    fn events() -> Vec<Event> {
        let env = Env::simulated(5);
        let like = |fact: Fact| Event { id: env.new_id(), fact, ..uploaded("/in/a.xml") };
        let Fact::FileUploaded { file } = uploaded("/in/a.xml").fact else { panic!() };
        let temporary = entrepot_nouns::event::FileFact { temporary: true, ..file.clone() };
        let command = |protocol, verb: &str, argument: &str| Fact::CommandDone {
            command: entrepot_nouns::CommandFact {
                protocol,
                verb: verb.to_owned(),
                argument: argument.to_owned(),
                path: Some("/in/a.xml".to_owned()),
                writes: true,
                address: "192.0.2.1".to_owned(),
                listener: "l".parse().unwrap(),
                code: Some(226),
                bytes: None,
                transfer: None,
                digests: file.digests,
                duration_ms: None,
            },
        };
        let renamed = |arrival: bool| Fact::FileRenamed {
            from: "/in/a.part".to_owned(),
            to: "/in/a.xml".to_owned(),
            size: 3,
            arrival,
            displaced: None,
            file: None,
        };
        let facts = [
            Fact::FileUploaded { file: file.clone() },
            Fact::FileUploaded { file: temporary.clone() },
            Fact::FileRecovered { file: file.clone() },
            Fact::FileRecovered { file: temporary },
            Fact::FileInterrupted { file: file.clone(), kept: true, reason: "cut".to_owned() },
            renamed(true),
            renamed(false),
            Fact::FileRemoved { path: "/in/a.xml".to_owned() },
            command(CommandProtocol::Ftp, "STOR", "a.xml"),
            command(CommandProtocol::Ftp, "SITE", "CHMOD 600 a.xml"),
            command(CommandProtocol::Sftp, "read", ""),
            Fact::NodeStopped {},
        ];
        let mut events: Vec<Event> = facts.into_iter().map(like).collect();
        let copies = |change: fn(&mut Event), events: &[Event]| {
            let mut copies = events.to_vec();
            for copy in &mut copies {
                copy.id = env.new_id();
                change(copy);
            }
            copies
        };
        let deep = copies(|event| event.depth = CAUSE_DEPTH, &events);
        let north = copies(|event| event.site = NORTH, &events);
        let nobody = copies(|event| event.account = None, &events);
        events.extend([deep, north, nobody].concat());
        events
    }

    #[test]
    fn a_rule_that_starts_by_the_clock_says_so_of_other_events() {
        let noun = json!({"name": "nightly", "when": {"cron": "0 3 * * *"},
            "do": [{"exec": {"argv": ["/bin/true"]}}]});
        let noun: Rule = serde_json::from_value(noun).unwrap();
        let (id, site, changed_at) = (Uuid::nil(), SiteId::MAIN, Timestamp::default());
        let rule = Stored { id, site, revision: 1, changed_at, noun };
        let upload = uploaded("/in/a");
        let due = |rule: &str| {
            let (rule, planned) = (rule.parse().unwrap(), Timestamp::default());
            Event { fact: Fact::ScheduleDue { rule, planned }, ..upload.clone() }
        };
        let events = vec![upload.clone(), due("weekly"), due("nightly")];
        let explained = explain(&main_site(), vec![rule], events);
        let why: Vec<&str> = explained.iter().map(|event| &*event.rules[0].why).collect();
        let wanted = [
            "the event is 'file.uploaded', not an instant of the rule's schedule",
            "it is an instant of the schedule of rule 'weekly'",
            "it starts",
        ];
        assert_eq!(why, wanted);
    }

    #[test]
    fn a_rule_that_expects_files_starts_on_all_that_is_told_of_them() {
        let expect = json!({"match": ["/in/PAY*.csv"], "by": "18:00"});
        let noun = json!({"name": "pay", "when": {"expect": expect},
            "if": "event.kind != 'expected.soon' && event.seen < event.count",
            "do": [{"exec": {"argv": ["/bin/true"]}}]});
        let noun: Rule = serde_json::from_value(noun).unwrap();
        let (id, site, changed_at) = (Uuid::nil(), SiteId::MAIN, Timestamp::default());
        let rule = Stored { id, site, revision: 1, changed_at, noun };
        let upload = uploaded("/in/PAY1.csv");
        let window = |rule: &str, seen: u64| ExpectedFact {
            rule: rule.parse().unwrap(),
            begins: Timestamp::default(),
            deadline: Timestamp::default(),
            seen,
            count: 1,
        };
        let facts = [
            Fact::ExpectedMissed { window: window("other", 0) },
            Fact::ExpectedMissed { window: window("pay", 0) },
            Fact::ExpectedSoon { window: window("pay", 0) },
            Fact::ExpectedLate { window: window("pay", 1) },
            Fact::ExpectedExtra { window: window("pay", 0) },
        ];
        let of = |fact| Event { fact, ..upload.clone() };
        let events = facts.map(of).into_iter().chain([upload.clone()]).collect();
        let explained = explain(&main_site(), vec![rule], events);
        let why: Vec<&str> = explained.iter().map(|event| &*event.rules[0].why).collect();
        let wanted = [
            "it is about files that rule 'other' expects",
            "it starts",
            "the condition is false",
            "the condition is false",
            "it starts",
            "the event is 'file.uploaded', and says nothing of files that the rule expects",
        ];
        assert_eq!(why, wanted);
        assert_eq!(explained[0].rules[0].trigger, "/in/PAY*.csv expected by 18:00 in UTC");
    }

    #[test]
    fn what_is_explained_is_what_happens() {
        let (rules, events) = (rules(), events());
        let site = |name: &str| RuleSite { name: name.to_owned(), ..RuleSite::default() };
        let sites = HashMap::from([(SiteId::MAIN, site("main")), (NORTH, site("north"))]);
        let running = Rules::compiled(1, sites, rules.clone());
        let mut seen = HashMap::new();
        for event in &events {
            let site = if event.site == NORTH { "north" } else { "main" };
            let now = Timestamp::default();
            let matched = running.matching(event, now, &Meters::default());
            let site = ExplainedSite::new(site.parse().unwrap(), []);
            let explained = explain(&site, rules.clone(), vec![event.clone()]).remove(0);
            for explained in &explained.rules {
                let makes = matched.jobs.iter().find(|job| job.rule == explained.rule);
                let starts = explained.outcome == RuleOutcome::Starts;
                assert_eq!(makes.is_some(), starts, "{event:?}: {explained:?}");
                if let Some(job) = makes {
                    assert_eq!(explained.job.as_ref().map(|it| it.id), Some(job.id));
                }
                let said = matched.refusals.iter().any(|refusal| {
                    matches!(&refusal.fact, Fact::JobFailed { rule, .. } if *rule == explained.rule)
                });
                let is_said =
                    matches!(explained.outcome, RuleOutcome::TooDeep | RuleOutcome::ConditionFails);
                assert_eq!(said, is_said, "{event:?}: {explained:?}");
                *seen.entry(format!("{:?}", explained.outcome)).or_insert(0) += 1;
            }
            assert_eq!(
                matched.jobs.len(),
                explained.rules.iter().filter(|it| it.outcome == RuleOutcome::Starts).count()
            );
        }
        assert_eq!(seen.len(), 10, "every outcome comes up: {seen:?}");
    }

    fn deciding(traced: &TracedExpression) -> Vec<String> {
        let own = traced.deciding.then(|| traced.text.clone());
        own.into_iter().chain(traced.parts.iter().flat_map(deciding)).collect()
    }

    #[test]
    fn the_operand_that_decided_is_named_with_its_value() {
        let when = json!({"event": "file.uploaded"});
        let condition = "account == 'acme' && file.size > 100 && site == 'main'";
        let rule = stored(1, SiteId::MAIN, json!({"when": when, "if": condition}));
        let explained = explain(&main_site(), vec![rule], vec![uploaded("/in/a.xml")]).remove(0);
        let [rule] = &explained.rules[..] else { panic!("{explained:?}") };
        assert_eq!(rule.outcome, RuleOutcome::ConditionFalse);
        assert!(rule.changed_at.is_none());
        let condition = rule.condition.as_ref().unwrap();
        assert_eq!(
            (condition.holds, condition.source.as_str()),
            (Some(false), condition.source.as_str())
        );
        let trace = condition.trace.as_ref().unwrap();
        assert_eq!(deciding(trace), ["file.size > 100"]);
        let [_, size, last] = &trace.parts[..] else { panic!("{trace:?}") };
        assert_eq!(size.parts[0].value.as_deref(), Some("3"));
        assert_eq!((&last.value, &last.error), (&None, &None), "it was not evaluated");
    }
}
