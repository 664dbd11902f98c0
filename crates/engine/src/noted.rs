//! What the steps of a job leave for those that follow: `vars` and `steps` in conditions,
//! `{vars.NAME}` and `{steps.NAME.FIELD}` in placeholders, and the file that they work on.

use entrepot_nouns::rule::StepSpec;
use entrepot_nouns::transfer::unhex32;
use entrepot_nouns::{JobStep, Rule, StepAddress, StepState, Timestamp};
use serde_json::{Map, Value as Json, json};

/// The key of a step's result under which it leaves variables.
pub(crate) const VARIABLES: &str = "vars";

/// The key of an `if` step's result under which the branch stands that was taken.
pub(crate) const BRANCH: &str = "branch";

/// The key of a `wait` step's result under which the instant stands at which the job goes on.
pub(crate) const UNTIL: &str = "until";

/// The key of a step's result under which the file stands that it made.
pub(crate) const FILE: &str = "file";

/// The key of an `each` step's result under which the list stands.
pub(crate) const ITEMS: &str = "items";

/// The turn of an `each` that is under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    /// What it is about; of an example nothing is known.
    pub(crate) item: Option<Json>,
    /// How many turns were before it.
    pub(crate) index: usize,
}

impl Turn {
    /// What `item`, `item.FIELD` or `index` stands for, if it has a form as text.
    pub(crate) fn text(&self, word: &str) -> Option<String> {
        let mut parts = word.split('.');
        if parts.next()? == "index" {
            return parts.next().is_none().then(|| self.index.to_string());
        }
        let Some(item) = self.item.as_ref() else { return Some("value".to_owned()) };
        plain_text(at_place(item, parts)?)
    }
}

/// The items of the `each` step that this is of, if it has gone through its list.
pub(crate) fn items(record: &JobStep) -> Option<&Vec<Json>> {
    record.result.as_ref()?.get(ITEMS)?.as_array()
}

/// Until when a job rests that is past this `wait` step.
pub(crate) fn rests_until(record: &JobStep) -> Option<Timestamp> {
    record.result.as_ref()?.get(UNTIL)?.as_str()?.parse().ok()
}

/// A file that a step made, on which later steps work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileValue {
    /// What it is called: a plain name.
    pub(crate) name: String,
    pub(crate) size: u64,
    /// BLAKE3 in hexadecimal digits.
    pub(crate) digest: String,
    /// The step that made it.
    pub(crate) step: StepAddress,
    /// The lease under which it was made.
    pub(crate) epoch: i64,
}

impl FileValue {
    /// What a step could make, for looking whether later ones can use it.
    pub(crate) fn example(step: StepAddress) -> FileValue {
        let (name, digest) = ("name.txt".to_owned(), String::new());
        FileValue { name, size: 1, digest, step, epoch: 1 }
    }

    /// As the result of its step.
    pub(crate) fn told(&self) -> Json {
        json!({"name": self.name, "size": self.size, "digest": self.digest})
    }

    pub(crate) fn blake3(&self) -> Option<[u8; 32]> {
        unhex32(&self.digest)
    }

    /// The file that a step made that is behind the job.
    pub(crate) fn of(record: &JobStep) -> Option<FileValue> {
        if record.state != StepState::Done {
            return None;
        }
        let file = record.result.as_ref()?.get(FILE)?;
        let text = |key: &str| file.get(key)?.as_str().map(str::to_owned);
        Some(FileValue {
            name: text("name")?,
            size: file.get("size")?.as_u64()?,
            digest: text("digest")?,
            step: record.address.clone(),
            epoch: record.epoch,
        })
    }
}

/// What a step left for conditions and placeholders.
fn left(result: Option<&Map<String, Json>>) -> Map<String, Json> {
    let left = result.into_iter().flatten();
    let left = left.filter(|(key, _)| ![VARIABLES, ITEMS].contains(&key.as_str()));
    left.map(|(key, it)| (key.clone(), it.clone())).collect()
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Noted {
    /// The file that the last step that made one left; `None`: that of the event.
    pub(crate) file: Option<FileValue>,
    pub(crate) vars: Map<String, Json>,
    pub(crate) steps: Map<String, Json>,
    /// The turn that is under way, in an `each`.
    pub(crate) turn: Option<Turn>,
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

    /// As in a turn of an `each`.
    pub(crate) fn in_turn(mut self, turn: Turn) -> Noted {
        self.turn = Some(turn);
        self
    }

    /// As behind a step that made `file`.
    pub(crate) fn with_file(mut self, file: FileValue) -> Noted {
        self.file = Some(file);
        self
    }

    /// As before a step made a file.
    pub(crate) fn without_file(mut self) -> Noted {
        self.file = None;
        self
    }

    /// Takes in a step that is behind the job.
    pub(crate) fn add(&mut self, record: &JobStep) {
        if let Some(file) = FileValue::of(record) {
            self.file = Some(file);
        }
        let result = record.result.as_ref().and_then(Json::as_object);
        if let Some(vars) = result.and_then(|result| result.get(VARIABLES)?.as_object()) {
            self.vars.extend(vars.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        // Of the turns of an `each` the last one counts.
        let StepAddress(address) = record.address.in_rule();
        if address.contains('.') {
            return;
        }
        let mut fields = left(result);
        if let Some(items) = items(record) {
            fields.insert("count".to_owned(), items.len().into());
        }
        fields.insert("state".to_owned(), record.state.as_str().into());
        if let (Some(error), StepState::Ignored | StepState::Failed) = (&record.error, record.state)
        {
            fields.insert("error".to_owned(), error.as_str().into());
        }
        self.steps.insert(address, Json::Object(fields));
    }

    /// Takes in how the step of this name ended that no job remembers.
    pub(crate) fn note(&mut self, name: String, state: StepState, result: Option<&Json>) {
        let mut fields = left(result.and_then(Json::as_object));
        fields.insert("state".to_owned(), state.as_str().into());
        self.steps.insert(name, Json::Object(fields));
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
        plain_text(found)
    }
}

/// What stands in a value behind these keys and numbers of items.
pub(crate) fn at_place<'p>(
    value: &Json,
    mut parts: impl Iterator<Item = &'p str>,
) -> Option<&Json> {
    parts.try_fold(value, |value, part| match value {
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        value => value.get(part),
    })
}

/// A value as text, if it has such a form.
pub(crate) fn plain_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(flag) => Some(flag.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}
