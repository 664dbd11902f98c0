//! What a rule starts on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::command::CommandPattern;
use crate::cron::Cron;
use crate::expect::Expect;
use crate::noun::{FieldError, Kind, Reference};
use crate::watch::Watch;
use crate::web_hook::WebHook;

/// One thing that a rule starts on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// An event of this kind, such as `file.uploaded`.
    Event(String),
    /// One of these commands came and has not run: it may be refused.
    Before(Vec<CommandPattern>),
    /// One of these commands has run.
    After(Vec<CommandPattern>),
    /// The clock, by a schedule.
    Cron(Cron),
    /// Somebody, by hand.
    Call(Call),
    /// A file in a folder of an endpoint.
    Watch(Watch),
    /// A request that another system posts to us.
    Hook(WebHook),
    /// A file that should have come by a time of the day, and has not.
    Expect(Expect),
}

impl When {
    /// The kinds of events that it starts on, the usual one first; none of one that starts on
    /// commands.
    pub fn kinds(&self) -> impl Iterator<Item = &str> + Clone {
        let (named, own): (Option<&str>, &[&str]) = match self {
            When::Event(kind) => (Some(kind), &[]),
            When::Cron(_) => (None, &["schedule.due"]),
            When::Call(_) => (None, &["rule.called"]),
            When::Watch(_) => (None, &["watch.found"]),
            When::Hook(_) => (None, &["hook.received"]),
            When::Expect(_) => {
                (None, &["expected.missed", "expected.soon", "expected.late", "expected.extra"])
            }
            When::Before(_) | When::After(_) => (None, &[]),
        };
        named.into_iter().chain(own.iter().copied())
    }

    /// The kind of event that it names, if it names one.
    pub fn event(&self) -> Option<&str> {
        match self {
            When::Event(kind) => Some(kind),
            _ => None,
        }
    }

    /// The commands it starts on, if any.
    pub fn commands(&self) -> &[CommandPattern] {
        match self {
            When::Before(commands) | When::After(commands) => commands,
            _ => &[],
        }
    }

    /// Whether its events are for one rule alone, which they name.
    pub fn is_of_one_rule(&self) -> bool {
        !matches!(self, When::Event(_) | When::Before(_) | When::After(_))
    }

    /// The nouns that it names.
    pub(crate) fn references(&self) -> Vec<Reference> {
        match self {
            When::Watch(watch) => {
                let endpoint =
                    Reference::new("when.watch.endpoint", Kind::Endpoint, &watch.endpoint);
                let hook = watch.hook.iter();
                let keys = hook.flat_map(|hook| hook.references("when.watch.hook"));
                std::iter::once(endpoint).chain(keys).collect()
            }
            When::Hook(hook) => hook.references("when.hook"),
            When::Expect(expect) => expect.references(),
            When::Cron(cron) => {
                let calendar = cron.calendar.iter();
                let named = |name| Reference::new("when.cron.calendar", Kind::Policy, name);
                calendar.map(named).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        match self {
            When::Event(kind) => {
                if !crate::event::Fact::KINDS.contains(&kind.as_str()) {
                    let known = crate::event::Fact::KINDS.join(", ");
                    let text = format!("no such event; known: {known}");
                    return Err(FieldError::new("when.event", text));
                }
                Ok(())
            }
            When::Before(commands) | When::After(commands) => {
                if commands.is_empty() {
                    return Err(FieldError::new("when", "name at least one command"));
                }
                Ok(())
            }
            When::Cron(_) => Ok(()),
            When::Call(call) => call.check(),
            When::Watch(watch) => watch.check(),
            When::Hook(hook) => hook.check("when.hook"),
            When::Expect(expect) => expect.check(),
        }
    }
}
