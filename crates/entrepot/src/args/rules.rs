//! Arguments of what is asked about rules.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args};
use entrepot_admin::RuleSubject;
use entrepot_nouns::explanation::EventName;
use entrepot_nouns::trace::TraceSubject;
use entrepot_nouns::{Name, ReplayId, Timestamp};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The id of an event, or its number as `event list` shows it; or a path as accounts see it:
    /// then the newest events about it are explained in short.
    #[arg(value_name = "EVENT|PATH", value_parser = subject)]
    pub(crate) about: RuleSubject,
    /// Only this rule.
    #[arg(long)]
    pub(crate) rule: Option<Name>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Its name, as `list` shows it.
    pub(crate) name: Name,
    /// A value of one of its parameters; may be given several times.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = given)]
    pub(crate) parameters: Vec<GivenParameter>,
    /// Return when its job has ended; exit code 1 if it failed or was cancelled.
    #[arg(long)]
    pub(crate) wait: bool,
}

/// The value of a parameter on the command line.
#[derive(Clone, Debug)]
pub(crate) struct GivenParameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

fn given(text: &str) -> Result<GivenParameter, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(GivenParameter { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err(format!("'{text}' is no parameter such as day=2026-01-31")),
    }
}

#[derive(Debug, Args)]
pub(crate) struct RuleDryRunArgs {
    /// The rule; with `--file` only needed if the documents have several.
    #[arg(required_unless_present = "file")]
    pub(crate) rule: Option<Name>,
    /// The event that it is tried with, by its id or its number.
    #[arg(long, conflicts_with = "path")]
    pub(crate) event: Option<EventName>,
    /// The path of a file as accounts see it: the newest event about it that the rule starts on is
    /// taken, or one is made up.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// The account of an event that is made up; unset: that of the rule's `as`.
    #[arg(long = "as", value_name = "ACCOUNT")]
    pub(crate) account: Option<Name>,
    /// Documents with the rule, which is not stored; `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RuleSourceArgs {
    /// Only this rule.
    pub(crate) rule: Option<Name>,
    /// Documents with rules that are not stored; `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RuleDiffArgs {
    /// Only this rule.
    pub(crate) rule: Option<Name>,
    /// Documents with rules; `-` is standard input.
    #[arg(long, short, value_name = "FILE", required = true)]
    pub(crate) file: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("of").required(true).args(["event", "since"])))]
pub(crate) struct ReplayArgs {
    /// The rule, as it is stored.
    pub(crate) rule: Name,
    /// Of this event, by its id or its number.
    #[arg(long)]
    pub(crate) event: Option<EventName>,
    /// Of the events from this time on, RFC 3339.
    #[arg(long)]
    pub(crate) since: Option<Timestamp>,
    /// Before this time, RFC 3339; unset: now.
    #[arg(long, requires = "since")]
    pub(crate) until: Option<Timestamp>,
    /// Also of events of which the rule has a job that ended.
    #[arg(long)]
    pub(crate) again: bool,
    /// Make the jobs, in the replay of this id, which the command without it shows.
    #[arg(long, value_name = "ID")]
    pub(crate) replay: Option<ReplayId>,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A path as accounts see it; the name of a file, in whatever folder; the id of an event, a
    /// transfer or a job; or the number of an event.
    #[arg(value_name = "PATH|NAME|TRANSFER|EVENT|JOB")]
    pub(crate) subject: TraceSubject,
}

fn subject(text: &str) -> Result<RuleSubject, String> {
    if text.starts_with('/') {
        return Ok(RuleSubject::Path(text.to_owned()));
    }
    let event = FromStr::from_str(text).map(RuleSubject::Event);
    event.map_err(|problem: String| format!("{problem}, and a path begins with '/'"))
}
