//! What nouns say about each other: references that must exist, and contradictions.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use entrepot_nouns::endpoint::{As2Target, EndpointUse};
use entrepot_nouns::rule::{ApproveSpec, CallSpec, KeyHalf, KeyUse, StepSpec};
use entrepot_nouns::{
    Account, AccountType, AnyNoun, EndpointTarget, HostName, Key, KeyType, Kind, Listener, Model,
    Name, Noun as _, Reference, Rule, Site, VPath,
};

use crate::near;
use crate::reader::NounKey;

/// All nouns of a site as they shall be, and who refers to whom.
pub(crate) struct Relations<'a> {
    nouns: HashMap<NounKey, &'a AnyNoun>,
    users: HashMap<NounKey, Vec<&'a AnyNoun>>,
    mounts: HashMap<(Name, VPath), Vec<Name>>,
    addresses: HashMap<SocketAddr, Vec<Name>>,
    hosts: HashMap<HostName, Vec<Name>>,
    /// Endpoints by the AS2 names of partner and station.
    as2_names: HashMap<(String, String), Vec<Name>>,
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
            as2_names: HashMap::new(),
        };
        for noun in all {
            relations.nouns.insert(NounKey::of(noun), noun);
            for Reference { kind, name, .. } in noun.references() {
                relations.users.entry(NounKey { kind, name }).or_default().push(noun);
            }
            match noun {
                AnyNoun::Mount(mount) => {
                    let place = (mount.account.clone(), mount.path.clone());
                    relations.mounts.entry(place).or_default().push(mount.name.clone());
                }
                AnyNoun::Endpoint(endpoint) => {
                    if let EndpointTarget::As2(as2) = &endpoint.target {
                        let pair = (as2.partner.clone(), as2.station.clone());
                        let names = relations.as2_names.entry(pair).or_default();
                        names.push(endpoint.name.clone());
                    }
                }
                AnyNoun::Site(site) => {
                    for host in &site.hosts {
                        let names = relations.hosts.entry(host.clone()).or_default();
                        names.push(site.name.clone());
                    }
                }
                AnyNoun::Listener(listener) => {
                    if let Some(name) = own_key(listener) {
                        let key = NounKey { kind: Kind::Key, name };
                        relations.users.entry(key).or_default().push(noun);
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
        self.nouns.contains_key(&NounKey::new(kind, name))
    }

    /// Which noun of a kind may be meant by a name that is none.
    pub(crate) fn hint(&self, kind: Kind, name: &Name) -> String {
        let of_kind = self.nouns.keys().filter(|key| key.kind == kind);
        near::hint(name.as_str(), of_kind.map(|key| key.name.as_str()))
    }

    /// The nouns that refer to this one.
    pub(crate) fn users(&self, key: &NounKey) -> &[&'a AnyNoun] {
        self.users.get(key).map_or(&[], Vec::as_slice)
    }

    fn account(&self, name: &Name) -> Option<&'a Account> {
        match self.nouns.get(&NounKey::new(Kind::Account, name)) {
            Some(AnyNoun::Account(account)) => Some(account),
            _ => None,
        }
    }

    fn key(&self, name: &Name) -> Option<&'a Key> {
        match self.nouns.get(&NounKey::new(Kind::Key, name)) {
            Some(AnyNoun::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Contradictions between `noun` and the others: the field and a sentence.
    pub(crate) fn contradiction(&self, noun: &AnyNoun) -> Option<(String, String)> {
        if let Some(flaw) = self.of_users(noun) {
            return Some(flaw);
        }
        match noun {
            AnyNoun::Account(account) => self.of_account(account),
            AnyNoun::Key(key) => {
                let account = self.account(key.account.as_ref()?)?;
                if is_link(account) != (key.key_type == KeyType::Link) {
                    let problem = "a share link is opened by keys of type link, and by no other";
                    return Some(("account".to_owned(), problem.to_owned()));
                }
                let problem = format!("'{}' is a group, which cannot log in", account.name);
                is_group(account).then(|| ("account".to_owned(), problem))
            }
            AnyNoun::Rule(rule) => self.of_rule(rule),
            AnyNoun::Mount(mount) => {
                if let Some(problem) = self.unfit(&mount.endpoint, EndpointUse::Files) {
                    return Some(("endpoint".to_owned(), problem));
                }
                if self.account(&mount.account).is_some_and(is_link) {
                    let problem = "a share link sees what its owner sees, and has no mounts";
                    return Some(("account".to_owned(), problem.to_owned()));
                }
                let place = (mount.account.clone(), mount.path.clone());
                let other = self.mounts.get(&place)?.iter().find(|name| **name != mount.name)?;
                let problem = format!("mount '{other}' gives '{}' the same path", mount.account);
                Some(("path".to_owned(), problem))
            }
            AnyNoun::Listener(listener) => self.of_listener(listener),
            AnyNoun::Endpoint(endpoint) => {
                if let EndpointTarget::As2(as2) = &endpoint.target {
                    return self.of_as2_partner(&endpoint.name, as2);
                }
                if let Some((field, name)) = endpoint.target.client_key() {
                    let key = self.key(name)?;
                    let fits = key.key_type == KeyType::Tls && key.private_sealed.is_some();
                    return (!fits).then(|| {
                        let problem = format!(
                            "key '{name}' proves nothing to a server: it must be of type tls and \
                             have its private half"
                        );
                        (field.to_owned(), problem)
                    });
                }
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
            AnyNoun::Model(model) => self.of_model(model),
            AnyNoun::Site(site) => self.of_site(site),
            AnyNoun::Policy(_) => None,
        }
    }

    /// Only those who may change something can be named.
    fn of_users(&self, noun: &AnyNoun) -> Option<(String, String)> {
        let (field, users) = noun.users();
        users.iter().enumerate().find_map(|(at, name)| {
            let account = self.account(name)?;
            let fits = matches!(account.account_type, AccountType::Admin | AccountType::Group);
            let problem = format!("'{name}' is neither of type admin nor a group");
            (!fits).then(|| (format!("{field}.{at}"), problem))
        })
    }

    fn of_model(&self, model: &Model) -> Option<(String, String)> {
        if let Some(problem) = self.unfit(&model.endpoint, EndpointUse::Host) {
            return Some(("endpoint".to_owned(), problem));
        }
        let is_wrong = |name: &Name| self.account(name).is_some_and(is_link);
        let (field, name) = if let Some(name) = model.callers.keys().find(|name| is_wrong(name)) {
            (format!("callers.{name}"), name)
        } else {
            let mut terminals = model.terminals.iter().enumerate();
            let (at, name) = terminals.find(|(_, name)| is_wrong(name))?;
            (format!("terminals.{at}"), name)
        };
        Some((field, format!("'{name}' is a share link, which calls nothing")))
    }

    fn of_rule(&self, rule: &Rule) -> Option<(String, String)> {
        for place in rule.all_places() {
            if let Some(endpoint) = place.step.endpoint()
                && let Some(problem) = self.unfit(endpoint.name, endpoint.usage)
            {
                return Some((format!("{}.{}", place.field, endpoint.field), problem));
            }
            if let StepSpec::Call(call) = &place.step.spec
                && let Some((field, problem)) = self.unfit_call(call)
            {
                return Some((format!("{}.call.{field}", place.field), problem));
            }
            if let StepSpec::Approve(approve) = &place.step.spec
                && let Some((field, problem)) = self.unfit_approval(approve)
            {
                return Some((format!("{}.approve.{field}", place.field), problem));
            }
            for key in place.step.spec.keys() {
                if let Some(problem) = self.unfit_key(&key) {
                    return Some((format!("{}.{}", place.field, key.field), problem));
                }
            }
        }
        if let Some(problem) = self.unfit_calendar(rule) {
            return Some(problem);
        }
        if let Some((place, hook)) = rule.when.told_by() {
            for (at, name) in hook.keys.iter().enumerate() {
                if self.key(name).is_some_and(|key| key.key_type != KeyType::WebHook) {
                    let problem = format!("key '{name}' is not of type web-hook");
                    return Some((format!("{place}.keys.{at}"), problem));
                }
            }
        }
        let account = self.account(rule.run_as.as_ref()?)?;
        let problem = format!("'{}' is a group or a link, and cannot act", account.name);
        (is_group(account) || is_link(account)).then(|| ("as".to_owned(), problem))
    }

    /// Why a rule cannot take its days from the policy that it names, if so: the field and a
    /// sentence.
    fn unfit_calendar(&self, rule: &Rule) -> Option<(String, String)> {
        let lacks = |name: &Name| {
            let policy = self.nouns.get(&NounKey::new(Kind::Policy, name));
            matches!(policy, Some(AnyNoun::Policy(policy)) if policy.calendar.is_none())
        };
        let named = rule.references().into_iter().filter(|it| it.kind == Kind::Policy);
        let lacking = named.into_iter().find(|reference| lacks(&reference.name))?;
        let problem = format!("policy '{}' has no calendar: give it 'calendar'", lacking.name);
        Some((lacking.field, problem))
    }

    /// Why an endpoint is not for this use, if so.
    fn unfit(&self, name: &Name, usage: EndpointUse) -> Option<String> {
        let target = match self.nouns.get(&NounKey::new(Kind::Endpoint, name)) {
            Some(AnyNoun::Endpoint(endpoint)) => &endpoint.target,
            _ => return None,
        };
        (target.usage() != usage).then(|| {
            let (kind, kinds) = (target.as_str(), usage.kinds());
            format!("'{name}' is an endpoint of kind {kind}: this needs one of kind {kinds}")
        })
    }

    /// Why a step cannot start the rule that it names, if so: the field and a sentence.
    fn unfit_call(&self, call: &CallSpec) -> Option<(&'static str, String)> {
        let Some(AnyNoun::Rule(rule)) = self.nouns.get(&NounKey::new(Kind::Rule, &call.rule))
        else {
            return None;
        };
        let Some(starts_on) = rule.when.call() else {
            let problem = format!("rule '{}' does not start by 'when: {{call: {{}}}}'", rule.name);
            return Some(("rule", problem));
        };
        starts_on.check_expressions(&call.with).err().map(|problem| ("with", problem))
    }

    /// Why nobody could answer a step that asks, if so: the field and a sentence.
    fn unfit_approval(&self, approve: &ApproveSpec) -> Option<(String, String)> {
        let mut people = 0;
        for (at, name) in approve.by.iter().enumerate() {
            let account = self.account(name)?;
            match account.account_type {
                AccountType::Group => people = usize::MAX,
                AccountType::Admin => people = people.saturating_add(1),
                _ => {
                    let problem = format!("'{name}' is neither of type admin nor a group");
                    return Some((format!("by.{at}"), problem));
                }
            }
        }
        (people < approve.need as usize).then(|| {
            let problem = format!("so many people are not asked, but {people}");
            ("need".to_owned(), problem)
        })
    }

    /// Why a key is not for this use, if so.
    fn unfit_key(&self, usage: &KeyUse<'_>) -> Option<String> {
        let key = self.key(usage.name)?;
        if key.key_type != KeyType::OpenPgp {
            return Some(format!("key '{}' is not of type openpgp", key.name));
        }
        let lacks = usage.half == KeyHalf::Private && key.private_sealed.is_none();
        lacks.then(|| format!("key '{}' has no private half here", key.name))
    }

    fn of_as2_partner(&self, name: &Name, partner: &As2Target) -> Option<(String, String)> {
        for (field, half, names) in [
            ("keys", KeyHalf::Private, &partner.keys),
            ("certificates", KeyHalf::Public, &partner.certificates),
        ] {
            for (at, name) in names.iter().enumerate() {
                let field = format!("target.as2.{field}[{at}]");
                let key = self.key(name)?;
                if key.key_type != KeyType::As2 {
                    return Some((field, format!("key '{name}' is not of type as2")));
                }
                if half == KeyHalf::Private && key.private_sealed.is_none() {
                    return Some((field, format!("key '{name}' has no private half here")));
                }
            }
        }
        if let Some(account) = partner.account.as_ref().and_then(|name| self.account(name))
            && (is_group(account) || is_link(account))
        {
            let problem = format!("'{}' is a group or a link, and has no files", account.name);
            return Some(("target.as2.account".to_owned(), problem));
        }
        let pair = (partner.partner.clone(), partner.station.clone());
        let other = self.as2_names.get(&pair)?.iter().find(|other| *other != name)?;
        let problem = format!("endpoint '{other}' has these two AS2 names already");
        Some(("target.as2.partner".to_owned(), problem))
    }

    fn of_site(&self, site: &Site) -> Option<(String, String)> {
        site.hosts.iter().enumerate().find_map(|(at, host)| {
            let other = self.hosts.get(host)?.iter().find(|name| **name != site.name)?;
            Some((format!("hosts[{at}]"), format!("site '{other}' is reached by '{host}' already")))
        })
    }

    fn of_account(&self, account: &Account) -> Option<(String, String)> {
        if let Some(owner) = account.link.as_ref().and_then(|link| self.account(&link.owner))
            && (is_group(owner) || is_link(owner))
        {
            let problem = format!("'{}' is a group or a link, and shares nothing", owner.name);
            return Some(("link.owner".to_owned(), problem));
        }
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

fn is_link(account: &Account) -> bool {
    account.account_type == AccountType::Link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_names_another_noun_is_a_reference() {
        type Named = (&'static str, Kind, &'static str);
        let cases: [(&str, &[Named]); 10] = [
            (r#"{"site":{"name":"main","policy":"p"}}"#, &[("policy", Kind::Policy, "p")]),
            (
                r#"{"key":{"name":"k","type":"ssh-user","account":"a",
                    "public":"ssh-ed25519 AAAA"}}"#,
                &[("account", Kind::Account, "a")],
            ),
            (
                r#"{"account":{"name":"a","groups":["g","h"],"policy":"p"}}"#,
                &[
                    ("groups[0]", Kind::Account, "g"),
                    ("groups[1]", Kind::Account, "h"),
                    ("policy", Kind::Policy, "p"),
                ],
            ),
            (
                r#"{"mount":{"name":"m","account":"a","endpoint":"e","path":"/"}}"#,
                &[("account", Kind::Account, "a"), ("endpoint", Kind::Endpoint, "e")],
            ),
            (
                r#"{"listener":{"name":"l","protocol":"sftp","address":"[::]:22",
                    "host_keys":["k","j"],"policy":"p"}}"#,
                &[
                    ("host_keys[0]", Kind::Key, "k"),
                    ("host_keys[1]", Kind::Key, "j"),
                    ("policy", Kind::Policy, "p"),
                ],
            ),
            (
                r#"{"endpoint":{"name":"e","target":{"sftp":{"host":"h","user":"u",
                    "host_keys":["x"],"key":"k"}}}}"#,
                &[("target.sftp.key", Kind::Key, "k")],
            ),
            (
                r#"{"rule":{"name":"r","when":{"event":"file.uploaded"},"as":"s",
                    "do":[{"delete":{}},{"deliver":{"endpoint":"e"}}],
                    "else":[{"deliver":{"endpoint":"f"}}]}}"#,
                &[
                    ("do.1.deliver.endpoint", Kind::Endpoint, "e"),
                    ("else.0.deliver.endpoint", Kind::Endpoint, "f"),
                    ("as", Kind::Account, "s"),
                ],
            ),
            (
                r#"{"rule":{"name":"r","when":{"event":"file.uploaded"},
                    "do":[{"call":{"rule":"other"}}]}}"#,
                &[("do.0.call.rule", Kind::Rule, "other")],
            ),
            (
                r#"{"rule":{"name":"r","when":{"event":"file.uploaded"},
                    "do":[{"approve":{"by":["a","b"],"text":"t"}}]}}"#,
                &[
                    ("do.0.approve.by.0", Kind::Account, "a"),
                    ("do.0.approve.by.1", Kind::Account, "b"),
                ],
            ),
            (r#"{"policy":{"name":"p"}}"#, &[]),
        ];
        for (text, wanted) in cases {
            let noun: AnyNoun = serde_json::from_str(text).unwrap();
            let found = noun.references();
            let found: Vec<(&str, Kind, &str)> =
                found.iter().map(|it| (it.field.as_str(), it.kind, it.name.as_str())).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }
}
