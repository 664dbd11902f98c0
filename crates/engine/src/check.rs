//! What of a rule cannot be run, said before it is stored.

mod tried;

use entrepot_ftp_proto::table as ftp;
use entrepot_nouns::event::FileFact;
use entrepot_nouns::rule::{StepSpec, When};
use entrepot_nouns::{
    CommandFact, CommandPattern, Digests, Env, Event, Fact, FieldError, Protocol, Rule, SessionId,
    SiteId, Timestamp, TransferId,
};
use entrepot_sftp_proto::table as sftp;
use uuid::Uuid;

use crate::condition::Condition;
use crate::exec::{self, Setting};
use crate::pattern;
use crate::rules::SCHEDULE_DUE;
use crate::schedule;

/// Looks at the schedule, compiles the condition, expands the paths of a rule for an example, and
/// looks its commands up in the tables of their protocols: a rule before a command
/// that nobody can send protects nothing.
///
/// # Errors
/// The field that cannot be used, and why.
pub fn check_rule(rule: &Rule) -> Result<(), FieldError> {
    if let When::Cron(cron) = &rule.when {
        schedule::check(cron, Env::real().now())?;
    }
    check_conditions(rule)?;
    for (at, command) in rule.when.commands().iter().enumerate() {
        if !is_known(command) {
            let moment = if matches!(rule.when, When::Before(_)) { "before" } else { "after" };
            let text = format!(
                "'{command}' is no command that clients of this server can send: see the verbs in \
                 docs/protocols"
            );
            return Err(FieldError::new(format!("when.{moment}.{at}"), text));
        }
    }
    let event = example(rule);
    for (list, steps) in [("do", &rule.steps), ("else", &rule.otherwise)] {
        for (at, step) in steps.iter().enumerate() {
            let checked = match &step.spec {
                StepSpec::Deliver(deliver) => pattern::store_path(&deliver.path, &event)
                    .map(drop)
                    .map_err(|e| ("deliver.path", e)),
                StepSpec::Move(rename) => {
                    pattern::virtual_path(&rename.to, &event).map(drop).map_err(|e| ("move.to", e))
                }
                StepSpec::Delete(_) | StepSpec::Exec(_) | StepSpec::Refuse(_) => Ok(()),
            };
            checked.map_err(|(field, error)| {
                FieldError::new(format!("{list}.{at}.{field}"), error.to_string())
            })?;
        }
    }
    let setting = Setting {
        rule: &rule.name,
        event: &event,
        file: Some("/folder/name.txt".to_owned()),
        ip: Some("192.0.2.1".to_owned()),
    };
    exec::check("do", &rule.steps, &setting)?;
    exec::check("else", &rule.otherwise, &setting)?;
    tried::check(rule, |kind| Event {
        fact: match kind {
            SCHEDULE_DUE => due(rule),
            kind if kind.starts_with("command.") => command(rule),
            _ => upload(),
        },
        ..example(rule)
    })
}

/// Compiles the conditions of a rule and of its steps, and checks them against what the rule starts
/// on.
fn check_conditions(rule: &Rule) -> Result<(), FieldError> {
    let kind = match &rule.when {
        When::Event(kind) => Some(kind.as_str()),
        When::Cron(_) => Some(SCHEDULE_DUE),
        When::Before(_) | When::After(_) => None,
    };
    let mut conditions: Vec<(String, &String)> = Vec::new();
    conditions.extend(rule.condition.iter().map(|condition| ("if".to_owned(), condition)));
    for (list, steps) in [("do", &rule.steps), ("else", &rule.otherwise)] {
        for (at, step) in steps.iter().enumerate() {
            let condition = step.condition.iter();
            conditions.extend(condition.map(|condition| (format!("{list}.{at}.if"), condition)));
        }
    }
    for (field, condition) in conditions {
        Condition::compile(condition)
            .and_then(|compiled| compiled.check(kind))
            .map_err(|error| FieldError::new(field, error.to_string()))?;
    }
    Ok(())
}

/// Whether any protocol that a pattern may be of has the command that it names.
fn is_known(pattern: &CommandPattern) -> bool {
    let Some(verb) = pattern.verb() else { return true };
    let in_ftp = || match pattern.word() {
        Some(word) => ftp::site_verb(word).is_some(),
        None => ftp::verb(verb.as_bytes()).is_some(),
    };
    let in_sftp = || pattern.word().is_none() && sftp::is_asked_about(verb);
    match pattern.protocol() {
        Some(Protocol::Ftp) => in_ftp(),
        Some(Protocol::Sftp) => in_sftp(),
        Some(_) | None => in_ftp() || in_sftp(),
    }
}

/// A command like any other, for rules on commands.
fn command(rule: &Rule) -> Fact {
    Fact::CommandDone {
        command: CommandFact {
            protocol: Protocol::Ftp,
            verb: "STOR".to_owned(),
            argument: "name.txt".to_owned(),
            path: Some("/folder/name.txt".to_owned()),
            writes: true,
            address: "192.0.2.1".to_owned(),
            listener: rule.name.clone(),
            code: Some(226),
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
        },
    }
}

/// An upload like any other, or the command of one.
fn example(rule: &Rule) -> Event {
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
        fact: match &rule.when {
            When::Event(kind) if !kind.starts_with("command.") => upload(),
            When::Cron(_) => due(rule),
            _ => command(rule),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
