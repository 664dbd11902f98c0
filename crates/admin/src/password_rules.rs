//! How long passwords that are set are at least: the policy of the account says.

use std::collections::{BTreeMap, HashSet, VecDeque};

use entrepot_nouns::{Account, AnyNoun, Kind, Name, Secret};

use crate::document::Given;
use crate::limits::PASSWORD_LENGTH;
use crate::reader::{NounKey, State};
use crate::site::ChangedSite;

/// The nouns of a site as they shall be.
pub(crate) struct WantedNouns<'a> {
    pub(crate) settled: &'a BTreeMap<NounKey, Given>,
    pub(crate) state: &'a State,
    pub(crate) site: &'a ChangedSite,
}

impl WantedNouns<'_> {
    fn noun(&self, kind: Kind, name: &Name) -> Option<&AnyNoun> {
        let key = NounKey::new(kind, name);
        let settled = self.settled.get(&key).map(|given| &given.noun);
        settled.or_else(|| self.state.get(&key).map(|stored| &stored.noun))
    }

    /// Why the account may not have this password; `None`: it is long enough.
    pub(crate) fn why_too_short(&self, account: &Account, password: &Secret) -> Option<String> {
        let least = self.least_length(account);
        let bytes = password.expose();
        let length = std::str::from_utf8(bytes).map_or(bytes.len(), |text| text.chars().count());
        let is_short = length < usize::try_from(least).unwrap_or(usize::MAX);
        is_short.then(|| format!("it has fewer than {least} characters; use a longer one"))
    }

    /// What the policies say that count for the account: its own, those of its groups, nearest
    /// first, that of the site.
    fn least_length(&self, account: &Account) -> u32 {
        let mut policies: Vec<Option<&Name>> = vec![account.policy.as_ref()];
        let mut seen = HashSet::new();
        let mut groups: VecDeque<&Name> = account.groups.iter().collect();
        while let Some(name) = groups.pop_front() {
            if let Some(AnyNoun::Account(group)) = self.noun(Kind::Account, name)
                && seen.insert(name)
            {
                policies.push(group.policy.as_ref());
                groups.extend(&group.groups);
            }
        }
        policies.push(match self.noun(Kind::Site, &self.site.name) {
            Some(AnyNoun::Site(site)) => site.policy.as_ref(),
            _ => self.site.policy.as_ref(),
        });
        let said = |name: &Name| match self.noun(Kind::Policy, name) {
            Some(AnyNoun::Policy(policy)) => policy.least_password_length,
            _ => None,
        };
        policies.into_iter().flatten().find_map(said).unwrap_or(PASSWORD_LENGTH)
    }
}
