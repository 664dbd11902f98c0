//! The nouns that an import is to make, in the order in which they were found.

use entrepot_nouns::{Kind, Name, Noun};
use serde_json::Value;

use crate::report::Report;

/// Note of every account that an import made: another run goes on with it.
pub(crate) const NOTE: &str = "imported from OpenSSH";

/// A noun that shall be.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
    /// The account that it belongs to.
    pub(crate) account: Option<Name>,
    /// The noun as `apply` takes it: its fields below the name of its kind.
    pub(crate) document: Value,
    /// The file and line, or the user, that it comes from, for the report.
    pub(crate) place: String,
}

/// All that is planned, and what is said of it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) nouns: Vec<Planned>,
    pub(crate) report: Report,
}

impl Plan {
    /// The planned noun of this kind and name.
    pub(crate) fn planned(&self, kind: Kind, name: &Name) -> Option<&Planned> {
        self.nouns.iter().find(|known| known.kind == kind && known.name == *name)
    }

    /// Adds a noun, unless one of its name is planned already.
    pub(crate) fn add<N: Noun>(
        &mut self,
        noun: &N,
        account: Option<&Name>,
        place: &str,
        secret: Option<(&str, String)>,
    ) {
        let (kind, name) = (N::KIND, noun.name().clone());
        // Nouns are maps of text, numbers and lists: they always have a JSON form.
        let mut body = serde_json::to_value(noun).unwrap_or_default();
        if let (Some((field, text)), Value::Object(body)) = (secret, &mut body) {
            body.insert(field.to_owned(), Value::from(text));
        }
        let document = Value::Object([(kind.as_str().to_owned(), body)].into_iter().collect());
        let (account, place) = (account.cloned(), place.to_owned());
        if let Some(known) = self.planned(kind, &name) {
            if known.document != document {
                let why = "another of this name comes from elsewhere: make it yourself";
                self.report.refused(place, format!("{kind} {name}"), why);
            }
            return;
        }
        self.nouns.push(Planned { kind, name, account, document, place });
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::{Account, AccountType};

    use super::*;

    #[test]
    fn of_two_nouns_with_one_name_the_second_is_reported() {
        let mut plan = Plan::default();
        let name: Name = "anna-x".parse().unwrap();
        let mut account = Account::new(name.clone(), AccountType::Partner);
        plan.add(&account, None, "a", None);
        plan.add(&account, None, "a", None);
        assert!(plan.report.lines.is_empty(), "the same twice is one");
        account.note = "another".to_owned();
        plan.add(&account, None, "b", None);
        assert_eq!((plan.nouns.len(), plan.report.lines.len()), (1, 1));
    }
}
