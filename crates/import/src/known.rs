//! What is configured already, and what of a plan is new beside it.

use std::collections::{HashMap, HashSet};

use entrepot_nouns::{AnyNoun, Kind, Listener, Name};
use serde_json::{Value, json};

use crate::plan::{NOTE, Plan, Planned};
use crate::report::Outcome;

/// The nouns of a site before an import. They are never changed, the named listener apart.
#[derive(Clone, Debug, Default)]
pub struct Known {
    nouns: HashMap<(Kind, Name), AnyNoun>,
}

impl Known {
    /// The kinds that an import makes, and of which it must know all that there are.
    pub const KINDS: [Kind; 5] =
        [Kind::Account, Kind::Key, Kind::Endpoint, Kind::Mount, Kind::Listener];

    /// Knows these nouns.
    pub fn new(nouns: impl IntoIterator<Item = AnyNoun>) -> Known {
        let named = nouns.into_iter().map(|noun| ((noun.kind(), noun.name().clone()), noun));
        Known { nouns: named.collect() }
    }

    /// The listener of this name.
    pub(crate) fn listener(&self, name: &Name) -> Option<&Listener> {
        match self.nouns.get(&(Kind::Listener, name.clone())) {
            Some(AnyNoun::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    /// An account of this name that no import made: nothing is added to it.
    fn is_foreign(&self, account: &Name) -> bool {
        match self.nouns.get(&(Kind::Account, account.clone())) {
            Some(AnyNoun::Account(known)) => known.note != NOTE,
            _ => false,
        }
    }

    /// What of the plan is to be made; the report says of the rest that it is there.
    pub(crate) fn new_nouns(&self, plan: &mut Plan) -> Vec<Planned> {
        let mut new = Vec::new();
        let (mut foreign, mut elsewhere) = (HashSet::new(), HashSet::new());
        // Endpoints come before the mounts that use them.
        for planned in std::mem::take(&mut plan.nouns) {
            let taken = planned.account.as_ref().filter(|account| self.is_foreign(account));
            let known = self.nouns.get(&(planned.kind, planned.name.clone()));
            let what = format!("{} {}", planned.kind, planned.name);
            if let Some(account) = taken {
                foreign.insert(account.clone());
            } else if endpoint_of(&planned).is_some_and(|name| elsewhere.contains(name)) {
                let why = "its endpoint was there before and leads elsewhere: make it yourself";
                plan.report.refused(planned.place, what, why);
            } else if planned.kind == Kind::Listener || known.is_none() {
                new.push(planned);
            } else if let Some(why) = known.and_then(|known| difference(known, &planned)) {
                if planned.kind == Kind::Endpoint {
                    elsewhere.insert(json!(planned.name));
                }
                plan.report.refused(planned.place, what, why);
            } else {
                let why = "left as it is";
                plan.report.add(Outcome::AlreadyThere, planned.place, what, why);
            }
        }
        for account in foreign {
            let place = format!("user {account}");
            let why = "an account of this name was there before: nothing of the user was taken; \
                       rename or delete it, or give it keys and mounts yourself";
            plan.report.lines.retain(|line| line.about.as_ref() != Some(&account));
            plan.report.refused(place, "account", why);
        }
        self.without_users(new)
    }

    /// Endpoints that no mount uses are not made.
    fn without_users(&self, new: Vec<Planned>) -> Vec<Planned> {
        let used: HashSet<Value> = new.iter().filter_map(endpoint_of).cloned().collect();
        let wanted = |planned: &Planned| {
            planned.kind != Kind::Endpoint || used.contains(&json!(planned.name))
        };
        new.into_iter().filter(wanted).collect()
    }
}

/// In what the noun that is there is another than `planned`; `None`: it means the same.
fn difference(known: &AnyNoun, planned: &Planned) -> Option<String> {
    let fields: &[&str] = match planned.kind {
        Kind::Endpoint => &["target"],
        Kind::Key => &["public", "account"],
        Kind::Mount => &["account", "endpoint", "path"],
        // What was changed since is kept.
        _ => &[],
    };
    let known = serde_json::to_value(known).unwrap_or_default();
    let field = |noun: &Value, field: &str| {
        noun.get(planned.kind.as_str()).and_then(|body| body.get(field)).cloned()
    };
    if fields.iter().any(|name| field(&known, name) != field(&planned.document, name)) {
        return Some("another of this name was there before, left as it is".to_owned());
    }
    let certificate = field(&planned.document, "certificate")?;
    (field(&known, "certificate") != Some(certificate)).then(|| {
        let name = &planned.name;
        format!("without this certificate: entrepot key change {name} --from-file certificate=FILE")
    })
}

/// The endpoint that a mount uses.
fn endpoint_of(planned: &Planned) -> Option<&Value> {
    planned.document.pointer("/mount/endpoint")
}
