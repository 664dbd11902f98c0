//! What nouns say about each other: references that must exist, and contradictions.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use entrepot_model::rule::StepSpec;
use entrepot_model::{
    Account, AccountType, AnyNoun, EndpointTarget, HostName, Key, KeyType, Kind, Listener, Name,
    Site, VPath,
};

use crate::near;

/// All nouns of a site as they shall be, and who refers to whom.
pub(crate) struct Relations<'a> {
    nouns: HashMap<(Kind, Name), &'a AnyNoun>,
    users: HashMap<(Kind, Name), Vec<&'a AnyNoun>>,
    mounts: HashMap<(Name, VPath), Vec<Name>>,
    addresses: HashMap<SocketAddr, Vec<Name>>,
    hosts: HashMap<HostName, Vec<Name>>,
}

/// A field that names another noun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) field: String,
    pub(crate) kind: Kind,
    pub(crate) name: Name,
}

/// Every field of `noun` that names another one.
pub(crate) fn references(noun: &AnyNoun) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut add = |field: String, kind: Kind, name: &Name| {
        found.push(Reference { field, kind, name: name.clone() });
    };
    match noun {
        AnyNoun::Site(site) => {
            site.policy.iter().for_each(|name| add("policy".to_owned(), Kind::Policy, name));
        }
        AnyNoun::Key(key) => {
            key.account.iter().for_each(|name| add("account".to_owned(), Kind::Account, name));
        }
        AnyNoun::Endpoint(endpoint) => {
            if let EndpointTarget::Sftp(sftp) = &endpoint.target {
                let field = "target.sftp.key".to_owned();
                sftp.key.iter().for_each(|name| add(field.clone(), Kind::Key, name));
            }
        }
        AnyNoun::Account(account) => {
            for (at, name) in account.groups.iter().enumerate() {
                add(format!("groups[{at}]"), Kind::Account, name);
            }
            account.policy.iter().for_each(|name| add("policy".to_owned(), Kind::Policy, name));
        }
        AnyNoun::Mount(mount) => {
            add("account".to_owned(), Kind::Account, &mount.account);
            add("endpoint".to_owned(), Kind::Endpoint, &mount.endpoint);
        }
        AnyNoun::Rule(rule) => {
            for (list, steps) in [("do", &rule.steps), ("else", &rule.otherwise)] {
                for (at, step) in steps.iter().enumerate() {
                    if let StepSpec::Deliver(deliver) = step {
                        let field = format!("{list}[{at}].deliver.endpoint");
                        add(field, Kind::Endpoint, &deliver.endpoint);
                    }
                }
            }
            rule.run_as.iter().for_each(|name| add("as".to_owned(), Kind::Account, name));
        }
        AnyNoun::Listener(listener) => {
            for (at, name) in listener.host_keys.iter().enumerate() {
                add(format!("host_keys[{at}]"), Kind::Key, name);
            }
            listener.tls.key.iter().for_each(|name| add("tls.key".to_owned(), Kind::Key, name));
            listener.policy.iter().for_each(|name| add("policy".to_owned(), Kind::Policy, name));
        }
        AnyNoun::Policy(_) => {}
    }
    found
}

/// The key that a listener without any makes for itself at its first start.
pub(crate) fn own_key(listener: &Listener) -> Option<Name> {
    let (has_key, ending) = match listener.protocol.server_key()? {
        KeyType::Tls => (listener.tls.key.is_some(), "tls"),
        _ => (!listener.host_keys.is_empty(), "ed25519"),
    };
    if has_key { None } else { format!("{}-{ending}", listener.name).parse().ok() }
}

impl<'a> Relations<'a> {
    /// Of these nouns, which are all there are.
    pub(crate) fn new(all: impl Iterator<Item = &'a AnyNoun>) -> Self {
        let mut relations = Relations {
            nouns: HashMap::new(),
            users: HashMap::new(),
            mounts: HashMap::new(),
            addresses: HashMap::new(),
            hosts: HashMap::new(),
        };
        for noun in all {
            relations.nouns.insert((noun.kind(), noun.name().clone()), noun);
            for reference in references(noun) {
                relations.users.entry((reference.kind, reference.name)).or_default().push(noun);
            }
            match noun {
                AnyNoun::Mount(mount) => {
                    let place = (mount.account.clone(), mount.path.clone());
                    relations.mounts.entry(place).or_default().push(mount.name.clone());
                }
                AnyNoun::Site(site) => {
                    for host in &site.hosts {
                        let names = relations.hosts.entry(host.clone()).or_default();
                        names.push(site.name.clone());
                    }
                }
                AnyNoun::Listener(listener) => {
                    if let Some(key) = own_key(listener) {
                        relations.users.entry((Kind::Key, key)).or_default().push(noun);
                    }
                    if listener.enabled && listener.address.port() != 0 {
                        let names = relations.addresses.entry(listener.address).or_default();
                        names.push(listener.name.clone());
                    }
                }
                _ => {}
            }
        }
        relations
    }

    /// True if there is such a noun.
    pub(crate) fn has(&self, kind: Kind, name: &Name) -> bool {
        self.nouns.contains_key(&(kind, name.clone()))
    }

    /// Which noun of a kind may be meant by a name that is none.
    pub(crate) fn hint(&self, kind: Kind, name: &Name) -> String {
        let of_kind = self.nouns.keys().filter(|(other, _)| *other == kind);
        near::hint(name.as_str(), of_kind.map(|(_, name)| name.as_str()))
    }

    /// Who refers to `(kind, name)`.
    pub(crate) fn users(&self, kind: Kind, name: &Name) -> &[&'a AnyNoun] {
        self.users.get(&(kind, name.clone())).map_or(&[], Vec::as_slice)
    }

    fn account(&self, name: &Name) -> Option<&'a Account> {
        match self.nouns.get(&(Kind::Account, name.clone())) {
            Some(AnyNoun::Account(account)) => Some(account),
            _ => None,
        }
    }

    fn key(&self, name: &Name) -> Option<&'a Key> {
        match self.nouns.get(&(Kind::Key, name.clone())) {
            Some(AnyNoun::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Contradictions between `noun` and the others: the field and a sentence.
    pub(crate) fn contradiction(&self, noun: &AnyNoun) -> Option<(String, String)> {
        match noun {
            AnyNoun::Account(account) => self.of_account(account),
            AnyNoun::Key(key) => {
                let account = self.account(key.account.as_ref()?)?;
                let problem = format!("'{}' is a group, which cannot log in", account.name);
                is_group(account).then(|| ("account".to_owned(), problem))
            }
            AnyNoun::Rule(rule) => {
                let account = self.account(rule.run_as.as_ref()?)?;
                let problem = format!("'{}' is a group, which cannot act", account.name);
                is_group(account).then(|| ("as".to_owned(), problem))
            }
            AnyNoun::Mount(mount) => {
                let place = (mount.account.clone(), mount.path.clone());
                let other = self.mounts.get(&place)?.iter().find(|name| **name != mount.name)?;
                let problem = format!("mount '{other}' gives '{}' the same path", mount.account);
                Some(("path".to_owned(), problem))
            }
            AnyNoun::Listener(listener) => self.of_listener(listener),
            AnyNoun::Endpoint(endpoint) => {
                let EndpointTarget::Sftp(sftp) = &endpoint.target else { return None };
                let key = self.key(sftp.key.as_ref()?)?;
                (key.private_sealed.is_none() || key.key_type != KeyType::SshUser).then(|| {
                    let problem = format!(
                        "key '{}' cannot log us in: it must be of type ssh-user and have its \
                         private half",
                        key.name
                    );
                    ("target.sftp.key".to_owned(), problem)
                })
            }
            AnyNoun::Site(site) => self.of_site(site),
            AnyNoun::Policy(_) => None,
        }
    }

    fn of_site(&self, site: &Site) -> Option<(String, String)> {
        site.hosts.iter().enumerate().find_map(|(at, host)| {
            let other = self.hosts.get(host)?.iter().find(|name| **name != site.name)?;
            Some((format!("hosts[{at}]"), format!("site '{other}' is reached by '{host}' already")))
        })
    }

    fn of_account(&self, account: &Account) -> Option<(String, String)> {
        for (at, name) in account.groups.iter().enumerate() {
            if self.account(name).is_some_and(|group| !is_group(group)) {
                let problem = format!("account '{name}' is not of type group");
                return Some((format!("groups[{at}]"), problem));
            }
        }
        let (mut seen, mut next) = (HashSet::new(), account.groups.clone());
        while let Some(name) = next.pop() {
            if name == account.name {
                let problem = "it inherits from itself through its groups; break the circle";
                return Some(("groups".to_owned(), problem.to_owned()));
            }
            if seen.insert(name.clone())
                && let Some(group) = self.account(&name)
            {
                next.extend(group.groups.iter().cloned());
            }
        }
        None
    }

    fn of_listener(&self, listener: &Listener) -> Option<(String, String)> {
        for (at, name) in listener.host_keys.iter().enumerate() {
            if self.key(name).is_some_and(|key| key.key_type != KeyType::SshHost) {
                let problem = format!("key '{name}' is not of type ssh-host");
                return Some((format!("host_keys[{at}]"), problem));
            }
        }
        if let Some(name) = &listener.tls.key
            && self.key(name).is_some_and(|key| key.key_type != KeyType::Tls)
        {
            return Some(("tls.key".to_owned(), format!("key '{name}' is not of type tls")));
        }
        let at_address = self.addresses.get(&listener.address).filter(|_| listener.enabled)?;
        let other = at_address.iter().find(|name| **name != listener.name)?;
        Some(("address".to_owned(), format!("listener '{other}' has this address already")))
    }
}

fn is_group(account: &Account) -> bool {
    account.account_type == AccountType::Group
}

#[cfg(test)]
mod tests {
    use super::*;
    use entrepot_model::{Noun, Rule};

    #[test]
    fn the_fields_that_refer_are_those_that_the_model_names() {
        let texts = [
            r#"{"site":{"name":"main","policy":"p"}}"#,
            r#"{"key":{"name":"k","type":"ssh-user","account":"a","public":"ssh-ed25519 AAAA"}}"#,
            r#"{"account":{"name":"a","groups":["g","h"],"policy":"p"}}"#,
            r#"{"mount":{"name":"m","account":"a","endpoint":"e","path":"/"}}"#,
            r#"{"listener":{"name":"l","protocol":"sftp","address":"[::]:22","host_keys":["k","j"],
                "policy":"p"}}"#,
            r#"{"endpoint":{"name":"e","target":{"sftp":{"host":"h","user":"u","host_keys":["x"],
                "key":"k"}}}}"#,
            r#"{"rule":{"name":"r","when":{"event":"file.uploaded"},"as":"s",
                "do":[{"delete":{}},{"deliver":{"endpoint":"e"}}],
                "else":[{"deliver":{"endpoint":"f"}}]}}"#,
            r#"{"policy":{"name":"p"}}"#,
        ];
        for text in texts {
            let noun: AnyNoun = serde_json::from_str(text).unwrap();
            let mut ours: Vec<(Kind, Name)> =
                references(&noun).into_iter().map(|found| (found.kind, found.name)).collect();
            let mut theirs = noun.references();
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{text}");
        }
        assert_eq!((Rule::KIND, Site::KIND), (Kind::Rule, Kind::Site));
    }
}
