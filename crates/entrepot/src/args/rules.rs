//! Arguments of `rule explain` and `rule run`.

use std::str::FromStr;

use clap::Args;
use entrepot_admin::RuleSubject;
use entrepot_nouns::Name;

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

fn subject(text: &str) -> Result<RuleSubject, String> {
    if text.starts_with('/') {
        return Ok(RuleSubject::Path(text.to_owned()));
    }
    let event = FromStr::from_str(text).map(RuleSubject::Event);
    event.map_err(|problem: String| format!("{problem}, and a path begins with '/'"))
}
