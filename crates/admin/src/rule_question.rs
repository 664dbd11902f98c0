//! Why an event started which rules: what is asked, and who answers.

use entrepot_nouns::explanation::{EventExplanation, EventName, ExplainedSite};
use entrepot_nouns::{Event, Name, Rule, Stored};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Says of each event of the site what each rule makes of it, with the id of the job that it would
/// make.
pub type RuleExplainer = fn(&ExplainedSite, Vec<Stored<Rule>>, Vec<Event>) -> Vec<EventExplanation>;

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleQuestion {
    /// The event, or the path of files.
    pub about: RuleSubject,
    /// Only what this rule made of it; unset: every rule of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Name>,
}

/// What a question about rules is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSubject {
    /// The event of this id, or of this number at the site.
    Event(EventName),
    /// The newest events about this path, as accounts see it.
    Path(String),
}
