//! What the steps of a job leave for those that follow: `vars` and `steps` in conditions,
//! `{vars.NAME}` and `{steps.NAME.FIELD}` in placeholders.

use entrepot_nouns::rule::StepSpec;
use entrepot_nouns::{JobStep, Rule, StepAddress, StepState};
use serde_json::{Map, Value as Json};

/// The key of a step's result under which it leaves variables.
pub(crate) const VARIABLES: &str = "vars";

/// The key of an `if` step's result under which the branch stands that was taken.
pub(crate) const BRANCH: &str = "branch";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Noted {
    pub(crate) vars: Map<String, Json>,
    pub(crate) steps: Map<String, Json>,
    /// What stands for a field of a step that has not run.
    unknown: Option<String>,
}

impl Noted {
    /// What a rule could know if each of its steps had run: its variables and its named steps. A
    /// step leaves what it does, so of steps only the names are known before.
    pub(crate) fn names(rule: &Rule) -> Noted {
        let mut noted = Noted { unknown: Some("value".to_owned()), ..Noted::default() };
        for place in rule.all_places() {
            if let Some(name) = &place.step.name {
                noted.steps.insert(name.to_string(), Json::Object(Map::new()));
            }
            if let StepSpec::Set(set) = &place.step.spec {
                let names = set.0.iter().map(|variable| variable.name.clone());
                noted.vars.extend(names.map(|name| (name, Json::from("value"))));
            }
        }
        noted
    }

    /// Takes in a step that is behind the job.
    pub(crate) fn add(&mut self, record: &JobStep) {
        let result = record.result.as_ref().and_then(Json::as_object);
        if let Some(vars) = result.and_then(|result| result.get(VARIABLES)?.as_object()) {
            self.vars.extend(vars.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        let StepAddress(address) = &record.address;
        if address.contains('.') {
            return;
        }
        let mut fields = result.cloned().unwrap_or_default();
        fields.remove(VARIABLES);
        fields.insert("state".to_owned(), record.state.as_str().into());
        if let (Some(error), StepState::Ignored | StepState::Failed) = (&record.error, record.state)
        {
            fields.insert("error".to_owned(), error.as_str().into());
        }
        self.steps.insert(address.clone(), Json::Object(fields));
    }

    /// Bytes of the variables as JSON.
    pub(crate) fn size(&self) -> usize {
        self.vars.iter().map(|(name, value)| name.len() + value.to_string().len()).sum()
    }

    /// What a placeholder such as `vars.customer` stands for; `None` if there is nothing of that
    /// name that has a form as text.
    pub(crate) fn text(&self, word: &str) -> Option<String> {
        let mut parts = word.split('.');
        let mut fields = match parts.next()? {
            "vars" => &self.vars,
            "steps" => &self.steps,
            _ => return None,
        };
        let mut found = fields.get(parts.next()?)?;
        for part in parts {
            fields = found.as_object()?;
            match fields.get(part) {
                Some(field) => found = field,
                None => return self.unknown.clone(),
            }
        }
        match found {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            Json::Bool(flag) => Some(flag.to_string()),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        }
    }
}
