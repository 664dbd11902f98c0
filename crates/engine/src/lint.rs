//! What of rules is allowed and probably not meant. Rules are looked at, not run: what is found is
//! so by their form, and nothing is said where their conditions may tell them apart.

use entrepot_nouns::mount::Right;
use entrepot_nouns::rule::{
    DeliverSpec, ExecSpec, Existing, ExpressionValue, Step, StepSpec, When,
};
use entrepot_nouns::rule_report::{LintFinding, RuleFlaw};
use entrepot_nouns::watch::{FilePattern, Watch, WatchChange};
use entrepot_nouns::{CommandPattern, Mount, Rule};

use crate::condition::{Condition, Constraint, Must};
use crate::pattern;

/// Says what is probably not meant, rule by rule, beside the mounts that accounts write to. Blocks
/// for milliseconds a rule.
pub fn lint(rules: &[Rule], mounts: &[Mount]) -> Vec<LintFinding> {
    let looked: Vec<Looked> = rules.iter().map(Looked::of).collect();
    let mut findings = Vec::new();
    for (at, looked_at) in looked.iter().enumerate() {
        let mut finder = Finder { rule: looked_at.rule, findings: &mut findings };
        finder.constants();
        finder.steps(&looked_at.rule.steps, "do", looked_at);
        finder.steps(&looked_at.rule.otherwise, "else", looked_at);
        finder.starts_itself(looked_at);
        finder.delivers_to_its_watch(looked_at);
        finder.own_folder(mounts);
        finder.shadowed(looked_at, &looked);
        for other in looked.get(at + 1..).unwrap_or_default() {
            finder.same_file(looked_at, other);
        }
    }
    findings
}

/// A rule, and what its condition asks for.
struct Looked<'r> {
    rule: &'r Rule,
    constraints: Vec<Constraint>,
    /// It holds for every event.
    is_always: bool,
}

impl Looked<'_> {
    fn of(rule: &Rule) -> Looked<'_> {
        let condition = rule.condition.as_deref().map(Condition::compile);
        let compiled = condition.as_ref().and_then(|compiled| compiled.as_ref().ok());
        let constraints = compiled.map(Condition::constraints).unwrap_or_default();
        let is_always = rule.condition.as_deref().is_none_or(|text| text.trim() == "true");
        Looked { rule, constraints, is_always }
    }

    fn must_be(&self, of: &str) -> impl Iterator<Item = &Must> {
        self.constraints.iter().filter(move |found| found.of == of).map(|found| &found.must)
    }

    /// Whether no event starts both, by what their conditions ask for.
    fn is_apart_from(&self, other: &Looked<'_>) -> bool {
        let excluded =
            |mine: &Constraint| other.must_be(&mine.of).any(|theirs| mine.must.excludes(theirs));
        self.constraints.iter().any(excluded)
    }

    fn mentions(&self, word: &str) -> bool {
        self.rule.condition.as_deref().is_some_and(|text| text.contains(word))
    }
}

struct Finder<'f> {
    rule: &'f Rule,
    findings: &'f mut Vec<LintFinding>,
}

impl Finder<'_> {
    fn add(&mut self, flaw: RuleFlaw, field: impl Into<String>, text: impl Into<String>) {
        let (rule, field, text) = (self.rule.name.clone(), field.into(), text.into());
        self.findings.push(LintFinding { rule, flaw, field, text });
    }

    fn constants(&mut self) {
        let own = self.rule.condition.as_deref().map(|text| ("if".to_owned(), text));
        let mut all: Vec<(String, &str)> = own.into_iter().collect();
        for place in self.rule.all_places() {
            if matches!(place.step.spec, StepSpec::Set(_)) {
                continue;
            }
            for found in place.step.expressions() {
                // A list that is the same for all events is a list.
                if found.gives == ExpressionValue::List {
                    continue;
                }
                all.push((format!("{}.{}", place.field, found.field), found.text));
            }
        }
        for (field, text) in all {
            if Condition::compile(text).is_ok_and(|compiled| compiled.is_constant()) {
                let text = format!("'{text}' is the same for every event: leave it out, or ask");
                self.add(RuleFlaw::ConstantCondition, field, text);
            }
        }
    }

    /// One list of steps, and those inside them.
    fn steps(&mut self, steps: &[Step], prefix: &str, looked: &Looked<'_>) {
        let mut removed: Option<String> = None;
        for (at, step) in steps.iter().enumerate() {
            let field = format!("{prefix}.{at}");
            if let Some(removed) = &removed
                && let Some(needs) = first_that_needs_the_file(step, &field)
            {
                let text = format!("the file is gone: '{removed}' has removed it");
                self.add(RuleFlaw::ReadAfterDelete, needs, text);
            }
            match &step.spec {
                StepSpec::Delete(delete) if delete.path.is_none() && step.condition.is_none() => {
                    removed = Some(field.clone());
                }
                // What follows works on what it brings.
                StepSpec::Fetch(_) | StepSpec::Join(_) => removed = None,
                StepSpec::Deliver(deliver) => self.fixed_target(deliver, &field, looked),
                StepSpec::Exec(exec) => self.plain_secret(exec, &field),
                _ => {}
            }
            for (key, inside) in step.branches() {
                self.steps(inside, &format!("{field}.{}.{key}", step.spec.word()), looked);
            }
        }
    }

    fn fixed_target(&mut self, deliver: &DeliverSpec, field: &str, looked: &Looked<'_>) {
        let is_one_file = ["file.path", "file.name", "event.path"]
            .iter()
            .any(|of| looked.must_be(of).any(|must| matches!(must, Must::Equal(_))));
        let varies = pattern::words(&deliver.path).any(tells_files_apart);
        if deliver.existing == Existing::Replace && !varies && !is_one_file {
            let text = format!(
                "all files are delivered to '{}', each in place of the one before: put '{{name}}' \
                 or '{{transfer}}' into it, or set 'existing: refuse'",
                deliver.path
            );
            self.add(RuleFlaw::FixedTarget, format!("{field}.deliver.path"), text);
        }
    }

    fn plain_secret(&mut self, exec: &ExecSpec, field: &str) {
        let text = "looks like a secret, which whoever may see rules can read: have the program \
                    read it from a file";
        for (name, value) in &exec.env {
            if names_a_secret(name) && is_plain(value) {
                self.add(RuleFlaw::PlainSecret, format!("{field}.exec.env.{name}"), text);
            }
        }
        let mut before = "";
        for (at, word) in exec.argv.iter().enumerate() {
            let (option, value) = word.split_once('=').unwrap_or((before, word));
            if option.starts_with('-') && names_a_secret(option) && is_plain(value) {
                self.add(RuleFlaw::PlainSecret, format!("{field}.exec.argv.{at}"), text);
            }
            before = if word.contains('=') { "" } else { word };
        }
    }

    /// Whether an event that the rule brings about starts it again.
    fn starts_itself(&mut self, looked: &Looked<'_>) {
        let triggers = &self.rule.when;
        for (at, when) in triggers.all().iter().enumerate() {
            if let Some(kind) = when.event() {
                self.starts_itself_on(kind, triggers.place(at, "when.event"), looked);
            }
        }
    }

    fn starts_itself_on(&mut self, kind: &str, field: String, looked: &Looked<'_>) {
        if looked.mentions("depth") || looked.mentions("event.rule") {
            return;
        }
        for place in self.rule.all_places() {
            let again = match (&place.step.spec, kind) {
                (StepSpec::Move(rename), "file.renamed") => {
                    !leaves(&rename.to, looked) && place.step.condition.is_none()
                }
                (StepSpec::Delete(_), "file.removed" | "file.trashed") => looked.is_always,
                (StepSpec::Deliver(_), "file.delivered") => looked.is_always,
                (StepSpec::Exec(_), "program.ended") => looked.is_always,
                _ => false,
            };
            if again {
                let text = format!(
                    "it brings about '{kind}', which starts the rule again, until events have \
                     caused each other too often: have its 'if' ask for 'event.depth == 0'"
                );
                self.add(RuleFlaw::StartsItself, place.field, text);
            }
        }
        if matches!(kind, "job.done" | "job.failed" | "job.retrying") && looked.is_always {
            let name = &self.rule.name;
            let text = format!(
                "its own jobs start it again: have its 'if' ask for \"event.rule != '{name}'\""
            );
            self.add(RuleFlaw::StartsItself, field, text);
        }
    }

    /// What a rule delivers into the folder that it watches is found there like any other file.
    fn delivers_to_its_watch(&mut self, looked: &Looked<'_>) {
        let Some(watch) = self.rule.when.watch() else { return };
        if !looked.is_always {
            return;
        }
        let places = self.rule.all_places();
        // Steps before it may have given the file a name that no pattern of the watch fits.
        let keeps_names = places.iter().all(|it| matches!(it.step.spec, StepSpec::Deliver(_)));
        if !watch.matching.is_empty() && !keeps_names {
            return;
        }
        for place in places {
            let StepSpec::Deliver(deliver) = &place.step.spec else { continue };
            if place.step.condition.is_none() && is_found(watch, deliver) {
                let text = "what it delivers lies in the folder that it watches, and starts it \
                            again: deliver elsewhere, or have the watch leave that folder out by \
                            'ignore'";
                self.add(RuleFlaw::StartsItself, place.field, text);
            }
        }
    }

    /// A watched folder is one that a mount lets accounts write to: they tell of files themselves.
    fn own_folder(&mut self, mounts: &[Mount]) {
        let Some(watch) = self.rule.when.watch() else { return };
        let folder = watch.path.as_str().trim_matches('/');
        let mount = mounts.iter().find(|mount| {
            // Of a prefix with a placeholder the part before it is known.
            let known = mount.prefix.split('{').next().unwrap_or_default().trim_matches('/');
            let is_there = is_in(folder, known) || (watch.recursive && is_in(known, folder));
            mount.endpoint == watch.endpoint
                && mount.rights.iter().any(|right| right == Right::Write)
                && is_there
        });
        if let Some(mount) = mount {
            let text = format!(
                "accounts write to this folder by mount '{}', and an upload there starts a rule \
                 at once: use 'event: file.uploaded'",
                mount.name
            );
            self.add(RuleFlaw::OwnFolder, "when.watch.path", text);
        }
    }

    /// A rule before commands refuses each of those that start this one.
    fn shadowed(&mut self, looked: &Looked<'_>, all: &[Looked<'_>]) {
        let Some(commands) = looked.rule.when.after() else { return };
        let refused = |command: &CommandPattern| {
            let by = all.iter().find(|other| {
                let refuses = |step: &Step| matches!(step.spec, StepSpec::Refuse(_));
                let patterns = other.rule.when.before().unwrap_or_default();
                let before = patterns.iter().any(|it| covers(it, command));
                let is_first = other.rule.steps.first().is_some_and(refuses);
                other.rule.enabled && other.is_always && before && is_first
            });
            by.map(|by| by.rule.name.clone())
        };
        let by: Option<Vec<_>> = commands.iter().map(refused).collect();
        if let Some(by) = by.and_then(|by| by.into_iter().next()) {
            let text = format!("never starts: rule '{by}' refuses each of these commands before");
            self.add(RuleFlaw::Shadowed, "when.after", text);
        }
    }

    /// Two rules that move or remove the file of the same event.
    fn same_file(&mut self, one: &Looked<'_>, other: &Looked<'_>) {
        let is_shared = |when: &When| {
            matches!(when, When::Event(_) | When::After(_)) && other.rule.when.all().contains(when)
        };
        let same_event = one.rule.when.all().iter().any(is_shared);
        let both = one.rule.enabled && other.rule.enabled;
        if !same_event || !both || one.is_apart_from(other) {
            return;
        }
        if let (Some(field), Some(theirs)) = (takes_file(one.rule), takes_file(other.rule)) {
            let text = format!(
                "rule '{}' ('{theirs}') takes the file of the same events too, and one of the two \
                 finds it gone: tell them apart by 'if', or make them one rule",
                other.rule.name
            );
            self.add(RuleFlaw::SameFile, field, text);
        }
    }
}

/// Whether a folder is another one or lies in it, as paths without slashes at their ends.
fn is_in(inner: &str, outer: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    outer.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a watch finds each file that is delivered so under the name that it has.
fn is_found(watch: &Watch, deliver: &DeliverSpec) -> bool {
    let path = deliver.path.trim_start_matches('/');
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let watched = watch.path.as_str().trim_matches('/');
    // Of a folder with a placeholder those before it are known.
    let known = match folder.split_once('{') {
        Some((start, _)) => start.rsplit_once('/').map_or("", |(known, _)| known),
        None => folder,
    };
    let is_same = folder == watched;
    let is_there = is_same || (watch.recursive && is_in(known, watched));
    if deliver.endpoint != watch.endpoint || name != "{name}" || !is_there {
        return false;
    }
    let below = known.get(watched.len()..).unwrap_or_default().trim_start_matches('/');
    // Patterns of whole paths may keep what comes apart from what is delivered.
    let is_of_path = |pattern: &FilePattern| String::from(pattern.clone()).contains('/');
    let ignores = |folder: &str| watch.ignore.iter().any(|pattern| pattern.fits(folder, folder));
    let is_left_out = below.split('/').any(ignores);
    if is_left_out || watch.matching.iter().chain(&watch.ignore).any(is_of_path) {
        return false;
    }
    // In the same folder it has the place of the file that came.
    let counts = if is_same { WatchChange::Changed } else { WatchChange::New };
    watch.on.contains(&counts) && (!is_same || deliver.existing == Existing::Replace)
}

/// The step that moves or removes the file of the event in any case.
fn takes_file(rule: &Rule) -> Option<String> {
    let takes = |step: &Step| match &step.spec {
        StepSpec::Move(_) => true,
        StepSpec::Delete(delete) => delete.path.is_none(),
        _ => false,
    };
    let at = rule.steps.iter().position(|step| step.condition.is_none() && takes(step))?;
    Some(format!("do.{at}"))
}

/// The field of the first step, of this and those inside it, that works on the file.
fn first_that_needs_the_file(step: &Step, field: &str) -> Option<String> {
    let needs = match &step.spec {
        StepSpec::Deliver(_) | StepSpec::Move(_) | StepSpec::Copy(_) => true,
        StepSpec::Exec(exec) => crate::exec::reads_file(exec),
        _ => false,
    };
    if needs {
        return Some(field.to_owned());
    }
    let inside = step.branches().into_iter().flat_map(|(key, steps)| {
        let prefix = format!("{field}.{}.{key}", step.spec.word());
        steps.iter().enumerate().map(move |(at, step)| (step, format!("{prefix}.{at}")))
    });
    inside.into_iter().find_map(|(step, field)| first_that_needs_the_file(step, &field))
}

/// Whether a file that is moved to `to` is no longer one that the rule starts on.
fn leaves(to: &str, looked: &Looked<'_>) -> bool {
    let start = to.split('{').next().unwrap_or_default();
    let there = if start.len() == to.len() {
        Must::Equal(to.to_owned())
    } else {
        Must::StartWith(start.to_owned())
    };
    let asked = ["file.path", "event.to"].into_iter().flat_map(|of| looked.must_be(of));
    asked.into_iter().any(|must| match (must, &there) {
        // Of a pattern only the start is known: a longer start that is asked for may still come.
        (Must::StartWith(_) | Must::Equal(_), _) => must.excludes(&there),
        (Must::EndWith(_), Must::Equal(_)) => must.excludes(&there),
        (Must::EndWith(_), _) => false,
    })
}

/// Whether each command that `inner` is for is one that `outer` is for.
fn covers(outer: &CommandPattern, inner: &CommandPattern) -> bool {
    let protocol = outer.protocol().is_none() || outer.protocol() == inner.protocol();
    let verb = match (outer.verb(), inner.verb()) {
        (None, _) => true,
        (Some(outer), Some(inner)) => outer.eq_ignore_ascii_case(inner),
        (Some(_), None) => false,
    };
    let word = outer.word().is_none() || outer.word() == inner.word();
    protocol && verb && word
}

/// Whether a placeholder is another for each file, or nearly.
fn tells_files_apart(word: &str) -> bool {
    const SAME: [&str; 8] =
        ["account", "session", "date", "protocol", "verb", "code", "extension", "size"];
    !SAME.contains(&word)
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    ["password", "passwd", "passphrase", "secret", "api_key", "apikey", "access_key", "token"]
        .iter()
        .any(|word| name.contains(word) && !name.ends_with("file") && !name.ends_with("path"))
}

/// Whether a value is written out, and is no path of a file with it.
fn is_plain(value: &str) -> bool {
    !value.is_empty() && !value.contains('{') && !value.starts_with(['/', '-'])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn rule(name: &str, fields: &Json) -> Rule {
        let mut rule = json!({"name": name, "when": {"event": "file.uploaded"}});
        for (key, value) in fields.as_object().unwrap() {
            rule[key] = value.clone();
        }
        serde_json::from_value(rule).unwrap()
    }

    fn found(rules: &[Rule]) -> Vec<(RuleFlaw, String)> {
        lint(rules, &[]).into_iter().map(|finding| (finding.flaw, finding.field)).collect()
    }

    type Case = (Json, Vec<(RuleFlaw, &'static str)>);

    fn send(path: &str) -> Json {
        json!({"deliver": {"endpoint": "e", "path": path}})
    }

    fn exec(more: &Json) -> Json {
        let mut exec = json!({"argv": ["/bin/scan"]});
        exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "exec": exec })
    }

    fn targets_and_conditions() -> Vec<Case> {
        use RuleFlaw::{ConstantCondition, FixedTarget};
        vec![
            (json!({"do": [send("{name}")]}), vec![]),
            (json!({"do": [send("{date}/{stem}.x")]}), vec![]),
            (json!({"do": [send("last")]}), vec![(FixedTarget, "do.0.deliver.path")]),
            (json!({"do": [send("{account}/last")]}), vec![(FixedTarget, "do.0.deliver.path")]),
            (json!({"if": "file.path == '/in/a'", "do": [send("last")]}), vec![]),
            (json!({"if": "true", "do": [send("{name}")]}), vec![(ConstantCondition, "if")]),
            (
                json!({"do": [{"if": {"when": "1 == 2", "then": [send("{name}")]}}]}),
                vec![(ConstantCondition, "do.0.if.when")],
            ),
            (json!({"if": "[1].exists(x, x == file.size)", "do": [send("{name}")]}), vec![]),
            (
                json!({"if": "[1].exists(x, x == 1)", "do": [send("{name}")]}),
                vec![(ConstantCondition, "if")],
            ),
        ]
    }

    fn files_and_programs() -> Vec<Case> {
        use RuleFlaw::{PlainSecret, ReadAfterDelete};
        vec![
            (json!({"do": [{"delete": {}}, send("{name}")]}), vec![(ReadAfterDelete, "do.1")]),
            (json!({"do": [{"delete": {}, "if": "file.size > 1"}, send("{name}")]}), vec![]),
            (json!({"do": [{"delete": {"path": "/x"}}, send("{name}")]}), vec![]),
            (
                json!({"do": [{"delete": {}}, {"if": {"when": "file.size > 1",
                    "then": [{"set": {"a": "1"}}, send("{name}")]}}]}),
                vec![(ReadAfterDelete, "do.1.if.then.1")],
            ),
            (json!({"do": [{"delete": {}}, exec(&json!({}))]}), vec![]),
            (
                json!({"do": [{"delete": {}}, exec(&json!({"stdin": "file"}))]}),
                vec![(ReadAfterDelete, "do.1")],
            ),
            (
                json!({"do": [exec(&json!({"env": {"API_TOKEN": "x7", "PASSWORD_FILE": "/p",
                    "SECRET": "{account}"}}))]}),
                vec![(PlainSecret, "do.0.exec.env.API_TOKEN")],
            ),
            (
                json!({"do": [exec(&json!({"argv": ["/bin/scan", "--password", "x", "--token=y",
                    "--token-file=z", "name"]}))]}),
                vec![(PlainSecret, "do.0.exec.argv.2"), (PlainSecret, "do.0.exec.argv.3")],
            ),
        ]
    }

    fn rules_that_start_themselves() -> Vec<Case> {
        use RuleFlaw::StartsItself;
        vec![
            (
                json!({"when": {"event": "file.renamed"}, "do": [{"move": {"to": "/a/{name}"}}]}),
                vec![(StartsItself, "do.0")],
            ),
            (
                json!({"when": {"event": "file.renamed"}, "if": "file.path.startsWith('/in/')",
                    "do": [{"move": {"to": "/a/{name}"}}]}),
                vec![],
            ),
            (
                json!({"when": {"event": "file.renamed"}, "if": "file.path.startsWith('/in/')",
                    "do": [{"move": {"to": "/in/b/{name}"}}]}),
                vec![(StartsItself, "do.0")],
            ),
            (
                json!({"when": {"event": "file.renamed"}, "if": "event.depth == 0",
                    "do": [{"move": {"to": "/a/{name}"}}]}),
                vec![],
            ),
            (
                json!({"when": {"event": "job.failed"}, "do": [exec(&json!({}))]}),
                vec![(StartsItself, "when.event")],
            ),
            (
                json!({"when": {"event": "job.failed"}, "if": "event.rule != 'r'",
                    "do": [exec(&json!({}))]}),
                vec![],
            ),
        ]
    }

    #[test]
    fn what_is_probably_not_meant_is_named_by_its_field() {
        let all = [targets_and_conditions(), files_and_programs(), rules_that_start_themselves()];
        for (fields, wanted) in all.into_iter().flatten() {
            let wanted: Vec<_> =
                wanted.into_iter().map(|(flaw, field)| (flaw, field.to_owned())).collect();
            assert_eq!(found(&[rule("r", &fields)]), wanted, "{fields}");
        }
    }

    #[test]
    fn a_watch_of_a_folder_that_accounts_write_to_is_told_of() {
        let mount = |prefix: &str, rights: &str| -> Mount {
            serde_json::from_value(json!({"name": "m", "endpoint": "e", "account": "acme",
                "path": "/", "prefix": prefix, "rights": rights.split(' ').collect::<Vec<_>>()}))
            .unwrap()
        };
        let watch = |fields: &Json| {
            let mut watch = json!({"endpoint": "e", "path": "/in/a"});
            watch.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            rule("r", &json!({"when": {"watch": watch}, "do": [send("{date}-{name}")]}))
        };
        let own = vec![(RuleFlaw::OwnFolder, "when.watch.path".to_owned())];
        let none = Vec::new();
        let deep = json!({"recursive": true});
        for (fields, prefix, rights, wanted) in [
            (json!({}), "in/a", "read write", &own),
            (json!({}), "in", "read write", &own),
            (json!({}), "", "write", &own),
            (json!({}), "in/{account}", "write", &own),
            (json!({}), "in/a", "read list", &none),
            (json!({}), "in/ab", "write", &none),
            (json!({}), "in/a/b", "write", &none),
            (deep.clone(), "in/a/b", "write", &own),
            (deep, "in/b", "write", &none),
            (json!({"endpoint": "f"}), "in/a", "write", &none),
            (json!({"path": "/"}), "in", "write", &none),
        ] {
            let found = lint(&[watch(&fields)], &[mount(prefix, rights)]);
            let found: Vec<_> = found.into_iter().map(|it| (it.flaw, it.field)).collect();
            assert_eq!(&found, wanted, "{fields} beside '{prefix}' with {rights}");
        }
    }

    #[test]
    fn a_rule_that_delivers_into_the_folder_that_it_watches_starts_itself() {
        let itself = vec![(RuleFlaw::StartsItself, "do.0".to_owned())];
        let none = Vec::new();
        for (fields, path, wanted) in [
            (json!({}), "in/{name}", &itself),
            (json!({}), "/in/{name}", &itself),
            (json!({"match": ["*.csv"]}), "in/{name}", &itself),
            (json!({"on": ["new"]}), "in/{name}", &none),
            (json!({}), "out/{name}", &none),
            (json!({}), "in/done/{name}", &none),
            (json!({}), "in/.done-{name}", &none),
            (json!({"recursive": true}), "in/done/{name}", &itself),
            (json!({"recursive": true}), "in/{date}/{name}", &itself),
            (json!({"recursive": true}), "in{date}/{name}", &none),
            (json!({"recursive": true, "ignore": ["done"]}), "in/done/{name}", &none),
            (json!({"recursive": true, "match": ["new/*"]}), "in/done/{name}", &none),
            (json!({"path": "/", "recursive": true}), "out/{name}", &itself),
            (json!({"endpoint": "f"}), "in/{name}", &none),
        ] {
            let mut watch = json!({"endpoint": "e", "path": "/in"});
            watch.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let when = json!({ "watch": watch });
            let one = rule("r", &json!({"when": when, "do": [send(path)]}));
            assert_eq!(&found(&[one]), wanted, "{fields}, to {path}");
            let some = json!({"when": when, "if": "file.size > 1", "do": [send(path)]});
            assert_eq!(found(&[rule("r", &some)]), none, "a condition may end it");
        }
        let refuse = json!({"deliver": {"endpoint": "e", "path": "in/{name}",
            "existing": "refuse"}});
        let when = json!({"watch": {"endpoint": "e", "path": "/in"}});
        assert_eq!(found(&[rule("r", &json!({"when": when, "do": [refuse]}))]), none);
    }

    #[test]
    fn two_rules_that_take_the_same_file_are_told_of_unless_conditions_keep_them_apart() {
        let takes = |name: &str, condition: &str| {
            rule(name, &json!({"if": condition, "do": [{"move": {"to": "/done/{name}"}}]}))
        };
        let removes = |condition: &str| {
            let fields = json!({"if": condition, "do": [{"set": {"a": "1"}}, {"delete": {}}]});
            rule("b", &fields)
        };
        let same = vec![(RuleFlaw::SameFile, "do.0".to_owned())];
        for (one, other, wanted) in [
            ("file.size > 1", "file.size > 2", &same),
            ("file.path.startsWith('/a/')", "file.path.startsWith('/a/b/')", &same),
            ("file.path.startsWith('/a/')", "file.name.endsWith('.x')", &same),
            ("file.path.startsWith('/a/')", "file.path.startsWith('/b/')", &vec![]),
            ("file.size > 1 && account == 'x'", "'y' == account && file.size > 1", &vec![]),
            ("file.name.endsWith('.xml')", "file.name.endsWith('.csv')", &vec![]),
            ("file.path == '/a'", "file.path.endsWith('b')", &vec![]),
            ("file.size > 1 || account == 'x'", "account == 'y'", &same),
        ] {
            assert_eq!(&found(&[takes("a", one), removes(other)]), wanted, "{one} and {other}");
        }
        let mut off = removes("file.size > 1");
        off.enabled = false;
        assert_eq!(found(&[takes("a", "file.size > 1"), off]), []);
    }

    #[test]
    fn a_rule_whose_commands_are_all_refused_never_starts() {
        let after = |commands: Json| {
            rule(
                "a",
                &json!({"when": {"after": commands},
            "do": [{"exec": {"argv": ["/bin/scan"]}}]}),
            )
        };
        let before = |commands: Json, condition: Option<&str>| {
            rule(
                "b",
                &json!({"when": {"before": commands}, "if": condition,
                "do": [{"refuse": {"text": "No."}}]}),
            )
        };
        let shadowed = vec![(RuleFlaw::Shadowed, "when.after".to_owned())];
        let all = before(json!(["ftp *"]), None);
        assert_eq!(found(&[after(json!(["ftp DELE", "ftp STOR"])), all.clone()]), shadowed);
        assert_eq!(found(&[after(json!(["ftp DELE", "sftp remove"])), all]), []);
        let some = before(json!(["ftp dele"]), Some("command.path == '/a'"));
        assert_eq!(found(&[after(json!(["ftp DELE"])), some]), []);
        let one = before(json!(["ftp dele"]), None);
        assert_eq!(found(&[after(json!(["ftp DELE"])), one.clone()]), shadowed);
        assert_eq!(found(&[after(json!(["* *"])), one]), []);
    }
}
