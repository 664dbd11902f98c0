//! Arguments of `rule explain`.

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

fn subject(text: &str) -> Result<RuleSubject, String> {
    if text.starts_with('/') {
        return Ok(RuleSubject::Path(text.to_owned()));
    }
    let event = FromStr::from_str(text).map(RuleSubject::Event);
    event.map_err(|problem: String| format!("{problem}, and a path begins with '/'"))
}
