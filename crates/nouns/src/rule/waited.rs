//! Rules that clients wait for: which steps they may have.
//!
//! Such a rule runs at once and once, without a job: what it does is not remembered and not tried
//! again. So it has steps that ask, compute or decide, and none that changes a file.

use super::{ExecSpec, FileThere, HttpBody, NO_REFUSAL, ReplyTime, Rule, Step, StepFlaw, StepSpec};

impl Rule {
    /// Whether a client waits for its steps: they run at once, in order, once; else they are a
    /// durable job.
    pub fn is_waited_for(&self) -> bool {
        self.when.before().is_some() || (self.when.after().is_some() && any_waits(&self.steps))
    }

    /// Whether a step, with these behind it in its list, can be one of this rule, for which a
    /// client waits.
    pub(super) fn check_waited(
        &self,
        step: &Step,
        spec: &StepSpec,
        following: &[Step],
    ) -> Result<(), StepFlaw> {
        let is_before = self.when.before().is_some();
        if !is_before && spec.reply() == Some(ReplyTime::Leave) {
            let text = "in one rule the reply waits for all steps or for none";
            return Err((spec.reply_field(), text));
        }
        match spec {
            // Asked about a command it has the file that the command names, if there is one.
            StepSpec::Exec(exec) => exec.check(self, FileThere::Yes),
            StepSpec::Refuse(_) if !is_before => Err(("refuse", NO_REFUSAL)),
            // Where its condition is false others follow.
            StepSpec::Refuse(refuse) if step.condition.is_some() => refuse.check(&[]),
            StepSpec::Refuse(refuse) => refuse.check(following),
            StepSpec::Scan(_) if is_before && !self.asks_about_reads() => Err((
                "scan",
                "before such a command there is no file yet: scan before 'ftp RETR', 'sftp open' \
                 or 'http read', after a command with 'reply: wait', or let the mount hold uploads",
            )),
            StepSpec::Http(http) if http.body == HttpBody::File => {
                Err(("http.body", "a client waits for this rule: the file is not sent"))
            }
            StepSpec::Http(_) | StepSpec::Scan(_) | StepSpec::If(_) | StepSpec::Set(_) => Ok(()),
            _ => Err((
                "",
                "a client waits: only 'exec', 'http', 'if', 'refuse', 'scan' and 'set' are \
                 possible",
            )),
        }
    }

    /// Whether each command that the rule looks at reads a file.
    fn asks_about_reads(&self) -> bool {
        let reads =
            |verb: &str| ["RETR", "OPEN", "READ"].iter().any(|it| it.eq_ignore_ascii_case(verb));
        self.when.commands().iter().all(|command| command.verb().is_some_and(reads))
    }
}

fn any_waits(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.spec {
        StepSpec::If(branch) => any_waits(&branch.then) || any_waits(&branch.otherwise),
        spec => spec.waits(),
    })
}

impl StepSpec {
    /// When the reply of a command leaves that the rule is after; `None`: it never waits for such
    /// a step.
    fn reply(&self) -> Option<ReplyTime> {
        match self {
            StepSpec::Exec(ExecSpec { reply, .. }) => Some(*reply),
            StepSpec::Scan(scan) => Some(scan.reply),
            StepSpec::Http(http) => Some(http.reply),
            _ => None,
        }
    }

    /// Whether the reply of a command waits for it.
    pub(super) fn waits(&self) -> bool {
        self.reply() == Some(ReplyTime::Wait)
    }

    /// What to say to a time limit where a client waits for it; `None`: it can have one.
    pub(super) fn own_limit(&self) -> Option<&'static str> {
        match self {
            StepSpec::Scan(_) => None,
            StepSpec::Http(_) => Some("a client waits for this rule: use 'http.timeout_seconds'"),
            _ => Some("a client waits for this rule: use 'exec.timeout_seconds'"),
        }
    }

    /// Where that is said.
    pub(super) fn reply_field(&self) -> &'static str {
        match self {
            StepSpec::Scan(_) => "scan.reply",
            StepSpec::Http(_) => "http.reply",
            _ => "exec.reply",
        }
    }
}
