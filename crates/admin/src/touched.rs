//! The part of a site that a change must see: what it changes, what that refers to, and what could
//! contradict it. A change that passes every check against this part passes against the whole
//! site; one that fails is checked again against the whole, so that errors name all that is there.

use std::collections::HashSet;

use entrepot_db::Db;
use entrepot_nouns::{AnyNoun, Kind, Name, Reference, SiteId, Stored};

use crate::error::Result;
use crate::limits;
use crate::plan::{Others, Wanted};
use crate::reader::{self, NounKey, State};
use crate::site::ChangedSite;

/// The part of the site that `wanted` touches; `None` if that may be most of it.
pub(crate) async fn load(db: &Db, site: &ChangedSite, wanted: &Wanted) -> Result<Option<State>> {
    if wanted.others == Others::Go || wanted.nouns.len() + wanted.gone.len() > limits::TOUCHED_NOUNS
    {
        return Ok(None);
    }
    let mut part = Part { db, site: site.id, state: State::new() };
    for key in &wanted.gone {
        part.add(key).await?;
        // One user forbids it.
        part.add_users(key).await?;
        if key.kind == Kind::Key {
            // A listener without a key of its own uses one by its name, without a reference.
            part.add_all(Kind::Listener).await?;
        }
    }
    for given in &wanted.nouns {
        if !part.add_for(&given.noun).await? {
            return Ok(None);
        }
    }
    if wanted.has_passwords() {
        part.add_policies(site.policy.as_ref()).await?;
    }
    Ok(Some(part.state))
}

/// The noun of this name alone, if there is one.
pub(crate) async fn only(db: &Db, site: SiteId, key: &NounKey) -> Result<State> {
    let found = reader::find(db, site, key).await?;
    Ok(found.map(|stored| (key.clone(), stored)).into_iter().collect())
}

struct Part<'a> {
    db: &'a Db,
    site: SiteId,
    state: State,
}

impl Part<'_> {
    /// Adds what the new form of a noun is checked against; false if that may be most of the site.
    async fn add_for(&mut self, noun: &AnyNoun) -> Result<bool> {
        let key = NounKey::of(noun);
        self.add(&key).await?;
        let before = self.state.get(&key).map(|stored| stored.noun.clone());
        for Reference { kind, name, .. } in noun.references() {
            self.add(&NounKey { kind, name }).await?;
        }
        match (noun, &before) {
            // Hosts are looked for in every site, and a site changes rarely.
            (AnyNoun::Site(_), _) => return Ok(false),
            // What names an account as a group, or as one that logs in, may contradict its type.
            (AnyNoun::Account(new), Some(AnyNoun::Account(old)))
                if new.account_type != old.account_type =>
            {
                return Ok(false);
            }
            (AnyNoun::Account(account), _) => self.add_groups(account.groups.clone()).await?,
            // What uses it may need it as it was.
            (AnyNoun::Key(_) | AnyNoun::Rule(_), Some(_)) => return self.add_users(&key).await,
            // Rules may take their days from it.
            (AnyNoun::Policy(new), Some(AnyNoun::Policy(old)))
                if old.calendar.is_some() && new.calendar.is_none() =>
            {
                return self.add_users(&key).await;
            }
            (AnyNoun::Mount(mount), _) => {
                // Two mounts of an account may not have the same path.
                let owner = std::slice::from_ref(&mount.account);
                let mounts = self.db.mounts_of(self.site, owner).await?;
                self.insert(mounts.into_iter().map(reader::any));
            }
            // Two listeners may not have the same address.
            (AnyNoun::Listener(_), _) => self.add_all(Kind::Listener).await?,
            (
                AnyNoun::Key(_)
                | AnyNoun::Policy(_)
                | AnyNoun::Endpoint(_)
                | AnyNoun::Model(_)
                | AnyNoun::Rule(_),
                _,
            ) => {}
        }
        Ok(true)
    }

    async fn add(&mut self, key: &NounKey) -> Result<()> {
        if !self.state.contains_key(key) {
            let found = reader::find(self.db, self.site, key).await?;
            self.insert(found.into_iter());
        }
        Ok(())
    }

    async fn add_all(&mut self, kind: Kind) -> Result<()> {
        let all = reader::Reader::Db(self.db).kind(self.site, kind).await?;
        self.insert(all.into_iter());
        Ok(())
    }

    /// Adds nouns that refer to this one; false if there are more.
    async fn add_users(&mut self, key: &NounKey) -> Result<bool> {
        let most = limits::TOUCHED_USERS;
        let users = self.db.users(self.site, key.kind, &key.name, most).await?;
        let are_all = users.len() < most as usize;
        for user in users {
            self.add(&NounKey { kind: user.kind, name: user.name }).await?;
        }
        Ok(are_all)
    }

    /// Adds the groups of these groups: an account may not inherit from itself.
    async fn add_groups(&mut self, mut groups: Vec<Name>) -> Result<()> {
        let mut seen = HashSet::new();
        while let Some(name) = groups.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let key = NounKey { kind: Kind::Account, name };
            self.add(&key).await?;
            let stored = self.state.get(&key);
            if let Some(Stored { noun: AnyNoun::Account(group), .. }) = stored {
                groups.extend(group.groups.iter().cloned());
            }
        }
        Ok(())
    }

    /// Adds the policies of the accounts and groups that are here, and that of the site: they say
    /// how long passwords are.
    async fn add_policies(&mut self, of_site: Option<&Name>) -> Result<()> {
        let policies = self.state.values().filter_map(|stored| match &stored.noun {
            AnyNoun::Account(account) => account.policy.as_ref(),
            _ => None,
        });
        let names: HashSet<Name> = policies.chain(of_site).cloned().collect();
        for name in names {
            self.add(&NounKey { kind: Kind::Policy, name }).await?;
        }
        Ok(())
    }

    fn insert(&mut self, nouns: impl Iterator<Item = Stored<AnyNoun>>) {
        for stored in nouns {
            self.state.insert(NounKey::of(&stored.noun), stored);
        }
    }
}
