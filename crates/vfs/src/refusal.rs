//! How rules refuse a command, in terms of no protocol. Each adapter chooses the number that its
//! clients get in its `status.rs`.

use entrepot_nouns::Name;

/// Why a command is refused, which is also whether the same command may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalClass {
    /// A rule forbids the command: the client should not send it again.
    Denied,
    /// A rule refuses the command for the moment: the client may try again later.
    NotNow,
    /// The rules gave no answer: a condition or program failed, the answer took too long, or the
    /// engine could not be asked. The client may try again later.
    RuleFailed,
}

/// A refusal that the client gets instead of the command, or in place of its reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CommandRefusal {
    /// Why; the number of the answer follows from it.
    pub class: RefusalClass,
    /// One sentence for the client.
    pub text: String,
    /// The rule that refused; `None`: no rule could be asked.
    pub rule: Option<Name>,
    /// The exact reply of FTP that the author of the rule names (`refuse.code`,
    /// `exec.failure_code`). Only the FTP adapter reads it.
    pub ftp_code: Option<u16>,
}

impl CommandRefusal {
    /// Refuses for the moment, because the rules gave no answer; no rule is to blame.
    pub fn unanswered(text: &str) -> CommandRefusal {
        let class = RefusalClass::RuleFailed;
        CommandRefusal { class, text: text.to_owned(), rule: None, ftp_code: None }
    }

    /// True if the client should not try again: what it began is not kept for it.
    pub fn is_permanent(&self) -> bool {
        match self.class {
            RefusalClass::Denied => true,
            RefusalClass::NotNow | RefusalClass::RuleFailed => false,
        }
    }
}
