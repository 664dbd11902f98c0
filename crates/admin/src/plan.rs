//! From what is stored and what is wanted to the steps between, all checks passed.

use std::collections::{BTreeMap, HashMap, HashSet};

use entrepot_auth::UnusableKey;
use entrepot_nouns::{Account, AnyNoun, KeyType, Kind, Name, Role, SiteId};
use serde_json::Value;

use crate::diff;
use crate::document::{self, Given, Source};
use crate::error::{AdminError, Result};
use crate::password_rules::WantedNouns;
use crate::planned_change::{Action, FieldChange, PlannedChange};
use crate::reader::{NounKey, State};
use crate::refused_passwords;
use crate::relations::{self, Relations};
use crate::request::Document;
use crate::secrets::{Absent, Fault, MASK, PasswordWork, Settler};
use crate::side_by_side::side_by_side;
use crate::site::ChangedSite;

/// Shown in place of a password that only `apply` compares with the stored one.
const NOT_COMPARED: &str = "*** (apply compares it)";

/// Wanted nouns in the form in which they are stored.
type Settled = BTreeMap<NounKey, Given>;

/// What someone wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Nouns as they shall be.
    pub(crate) nouns: Vec<Given>,
    /// Nouns that shall go.
    pub(crate) gone: Vec<NounKey>,
    /// What becomes of stored nouns that are named in neither list.
    pub(crate) others: Others,
    /// What a missing secret means.
    pub(crate) absent: Absent,
    /// For the places of errors.
    pub(crate) documents: Vec<Document>,
}

impl Wanted {
    /// True if passwords are given in clear text.
    pub(crate) fn has_passwords(&self) -> bool {
        self.nouns.iter().any(|given| match &given.noun {
            AnyNoun::Account(account) => account.password.is_some(),
            _ => false,
        })
    }

    /// What is done with passwords when this is carried out.
    pub(crate) fn work(&self) -> PasswordWork {
        match self.absent {
            Absent::Keeps => PasswordWork::HashAndRemember,
            Absent::Removes => PasswordWork::Hash,
        }
    }

    /// One noun, whole.
    pub(crate) fn noun(noun: AnyNoun) -> Self {
        Wanted {
            nouns: vec![Given { noun, source: Source::Request }],
            gone: Vec::new(),
            others: Others::Stay,
            absent: Absent::Removes,
            documents: Vec::new(),
        }
    }

    /// One noun less.
    pub(crate) fn without(key: NounKey) -> Self {
        Wanted {
            nouns: Vec::new(),
            gone: vec![key],
            others: Others::Stay,
            absent: Absent::Keeps,
            documents: Vec::new(),
        }
    }
}

/// What becomes of stored nouns that a change does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Stay,
    /// They go too: the documents are the whole configuration.
    Go,
}

/// One noun that is touched.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) shown: PlannedChange,
    /// As it shall be stored; nothing: it goes.
    pub(crate) noun: Option<AnyNoun>,
}

/// Computes the steps at the site of this name. Slow if passwords are hashed: argon2. That comes
/// last, when everything else is known to be right.
pub(crate) fn compute(
    state: &State,
    site: &ChangedSite,
    wanted: Wanted,
    settler: &Settler,
    work: PasswordWork,
) -> Result<Vec<Step>> {
    let documents = wanted.documents;
    let mut settled = Settled::new();
    for given in wanted.nouns {
        let key = NounKey::of(&given.noun);
        if let Some(first) = settled.get(&key) {
            let first = document::place(&documents, &first.source, "name");
            return Err(AdminError::Twice {
                place: document::place(&documents, &given.source, "name"),
                kind: key.kind,
                name: key.name.to_string(),
                first: first.trim_end_matches(": ").to_owned(),
            });
        }
        let old = state.get(&key).map(|stored| &stored.noun);
        let source = given.source;
        let at = |fault: Fault| field_error(&documents, &source, &key, fault);
        let noun = settler.settle(&site.name, given.noun, old, wanted.absent).map_err(at)?;
        let checked = noun.check().and_then(|()| match &noun {
            AnyNoun::Rule(rule) => (settler.rule_check)(rule),
            AnyNoun::Listener(listener) => (settler.listener_check)(listener),
            AnyNoun::Endpoint(endpoint) => (settler.endpoint_check)(endpoint),
            AnyNoun::Model(model) => (settler.model_check)(model),
            _ => Ok(()),
        });
        checked.map_err(|error| at(Fault::new(error.field, error.problem)))?;
        check_role(&noun, site).map_err(at)?;
        check_login_key(&noun).map_err(|problem| AdminError::UnusableKey {
            place: document::place(&documents, &source, "public"),
            name: key.name.to_string(),
            problem,
        })?;
        settled.insert(key, Given { noun, source });
    }
    let mut gone = wanted.gone;
    if wanted.others == Others::Go {
        gone.extend(pruned(state, &settled));
    }
    check(state, &settled, &gone, &documents)?;
    let new_passwords = new_passwords(state, &mut settled, settler, work);
    let nouns = WantedNouns { settled: &settled, state, site };
    check_passwords(&nouns, &new_passwords, settler, &documents)?;
    hash_passwords(&mut settled, settler, work)
        .map_err(|(source, key, fault)| field_error(&documents, &source, &key, fault))?;
    Ok(steps(state, settled, gone))
}

/// An account with a password in clear text, and where it was given.
type WithPassword<'a> = (&'a NounKey, &'a mut Account, &'a Source);

/// The accounts whose passwords are still in clear text.
fn with_passwords(settled: &mut Settled) -> Vec<WithPassword<'_>> {
    let accounts = settled.iter_mut().filter_map(|(key, given)| match &mut given.noun {
        AnyNoun::Account(account) => Some((key, account, &given.source)),
        _ => None,
    });
    accounts.filter(|(_, account, _)| account.password.is_some()).collect()
}

/// Which of them get another password than they have. Slow: argon2.
fn new_passwords(
    state: &State,
    settled: &mut Settled,
    settler: &Settler,
    work: PasswordWork,
) -> Vec<NounKey> {
    let new = side_by_side(with_passwords(settled), |(key, account, _)| {
        let old = state.get(key).and_then(|stored| stored_hash(&stored.noun));
        settler.is_new_password(account, old, work).then(|| key.clone())
    });
    new.into_iter().flatten().collect()
}

/// Brings those that are left in clear text into their stored form. Slow: argon2.
fn hash_passwords(
    settled: &mut Settled,
    settler: &Settler,
    work: PasswordWork,
) -> std::result::Result<(), (Source, NounKey, Fault)> {
    let hashed = side_by_side(with_passwords(settled), |(key, account, source)| {
        let hashed = settler.hash_password(account, work);
        hashed.map_err(|fault| (source.clone(), key.clone(), fault))
    });
    hashed.into_iter().collect()
}

/// Refuses passwords that are too short, or that attackers try first.
fn check_passwords(
    nouns: &WantedNouns<'_>,
    new: &[NounKey],
    settler: &Settler,
    documents: &[Document],
) -> Result<()> {
    let accounts = || {
        new.iter().filter_map(|key| match nouns.settled.get(key)? {
            Given { noun: AnyNoun::Account(account), source } => Some((account, source)),
            _ => None,
        })
    };
    let refused = |name: &Name, source: &Source, problem: String| AdminError::WeakPassword {
        place: document::place(documents, source, "password"),
        name: name.to_string(),
        problem,
    };
    for (account, source) in accounts() {
        let password = account.password.as_ref();
        if let Some(problem) = password.and_then(|given| nouns.why_too_short(account, given)) {
            return Err(refused(&account.name, source, problem));
        }
    }
    let Some(list) = settler.refused_passwords.as_ref().filter(|_| !new.is_empty()) else {
        return Ok(());
    };
    let given = accounts()
        .filter_map(|(account, source)| Some(((&account.name, source), account.password.clone()?)));
    let listed = refused_passwords::listed(list, given).map_err(|error| {
        AdminError::PasswordList { file: list.name.clone(), problem: error.to_string() }
    })?;
    match listed.first() {
        Some(&(name, source)) => {
            let problem = "attackers know it from lists of passwords that have leaked; use another";
            Err(refused(name, source, problem.to_owned()))
        }
        None => Ok(()),
    }
}

/// The hash of an account's password.
fn stored_hash(noun: &AnyNoun) -> Option<&str> {
    match noun {
        AnyNoun::Account(account) => account.password_hash.as_deref(),
        _ => None,
    }
}

/// Takes the password out that a plan has left in clear text, and says what becomes of it.
fn uncompared(noun: &mut AnyNoun, old: Option<&AnyNoun>) -> Option<FieldChange> {
    let AnyNoun::Account(account) = noun else { return None };
    account.password.take()?;
    account.password_hash = old.and_then(stored_hash).map(str::to_owned);
    let is_set = account.password_hash.is_some();
    Some(FieldChange {
        field: "password".to_owned(),
        old: is_set.then(|| Value::from(MASK)),
        new: Some(Value::from(if is_set { NOT_COMPARED } else { MASK })),
    })
}

/// Whoever administers the site `main` as a whole administers all others, which it owns.
fn check_role(noun: &AnyNoun, site: &ChangedSite) -> std::result::Result<(), Fault> {
    match noun {
        AnyNoun::Account(account)
            if account.role == Some(Role::SiteAdministrator) && site.id == SiteId::MAIN =>
        {
            let problem = "the site 'main' owns all others: make the account at its own site, or \
                           give it the role administrator";
            Err(Fault::new("role", problem))
        }
        _ => Ok(()),
    }
}

/// A key that is to let somebody in must be one that logins accept. One without an account logs us
/// in elsewhere.
fn check_login_key(noun: &AnyNoun) -> std::result::Result<(), UnusableKey> {
    match noun {
        AnyNoun::Key(key)
            if key.key_type == KeyType::SshUserCa
                || key.key_type == KeyType::SshUser && key.account.is_some() =>
        {
            entrepot_auth::check_login_key(&key.public)
        }
        _ => Ok(()),
    }
}

fn field_error(documents: &[Document], source: &Source, key: &NounKey, fault: Fault) -> AdminError {
    AdminError::Field {
        place: document::place(documents, source, &fault.field),
        kind: key.kind,
        name: key.name.to_string(),
        field: fault.field,
        problem: fault.problem,
    }
}

/// What pruning deletes. It spares the site and the host keys that listeners made for themselves:
/// no document names them, and clients know them.
fn pruned(state: &State, settled: &Settled) -> Vec<NounKey> {
    let own_keys: Vec<Name> = settled
        .values()
        .filter_map(|given| match &given.noun {
            AnyNoun::Listener(listener) => relations::own_key(listener),
            _ => None,
        })
        .collect();
    let spared = |key: &NounKey| {
        key.kind == Kind::Site
            || settled.contains_key(key)
            || (key.kind == Kind::Key && own_keys.contains(&key.name))
    };
    state.keys().filter(|key| !spared(key)).cloned().collect()
}

/// Checks what is touched, and what refers to it, against the configuration as it shall be.
fn check(state: &State, settled: &Settled, gone: &[NounKey], documents: &[Document]) -> Result<()> {
    let going: HashSet<&NounKey> = gone.iter().collect();
    let kept = state.iter().filter(|(key, _)| !settled.contains_key(key) && !going.contains(key));
    let new = settled.values().map(|given| &given.noun);
    let relations = Relations::new(kept.map(|(_, stored)| &stored.noun).chain(new));
    for (key, given) in settled {
        let place = |field: &str| document::place(documents, &given.source, field);
        for reference in given.noun.references() {
            if !relations.has(reference.kind, &reference.name) {
                return Err(AdminError::Dangling {
                    place: place(&reference.field),
                    kind: key.kind,
                    name: key.name.to_string(),
                    target: reference.kind,
                    target_name: reference.name.to_string(),
                    hint: relations.hint(reference.kind, &reference.name),
                    field: reference.field,
                });
            }
        }
        if let Some((field, problem)) = relations.contradiction(&given.noun) {
            let fault = Fault::new(field, problem);
            return Err(field_error(documents, &given.source, key, fault));
        }
        for user in relations.users(key) {
            if let Some((field, problem)) = relations.contradiction(user) {
                let key = NounKey::of(user);
                let source = settled.get(&key).map_or(&Source::Request, |given| &given.source);
                let fault = Fault::new(field, problem);
                return Err(field_error(documents, source, &key, fault));
            }
        }
    }
    for key in gone {
        let users = relations.users(key);
        if !users.is_empty() {
            let names: Vec<String> =
                users.iter().map(|user| format!("{} '{}'", user.kind(), user.name())).collect();
            let (name, by) = (key.name.to_string(), names.join(", "));
            return Err(AdminError::InUse { kind: key.kind, name, by });
        }
    }
    Ok(())
}

/// First what is referred to, then what refers; deletions last, the other way round.
fn steps(state: &State, settled: Settled, mut gone: Vec<NounKey>) -> Vec<Step> {
    let mut steps = Vec::new();
    for (key, mut given) in settled {
        let old = state.get(&key).map(|stored| &stored.noun);
        let uncompared = uncompared(&mut given.noun, old);
        let mut fields = diff::diff(old, &given.noun);
        let replaces = uncompared.as_ref().is_some_and(|change| change.old.is_some());
        let action = match old {
            None => Action::Create,
            Some(_) if !fields.is_empty() => Action::Change,
            Some(_) if replaces => Action::Compare,
            Some(_) if uncompared.is_some() => Action::Change,
            Some(_) => Action::Unchanged,
        };
        fields.extend(uncompared);
        let shown = PlannedChange { action, kind: key.kind, name: key.name, fields };
        steps.push(Step { shown, noun: Some(given.noun) });
    }
    let order: HashMap<Kind, usize> =
        Kind::ALL.into_iter().enumerate().map(|(at, kind)| (kind, at)).collect();
    steps.sort_by_key(|step| order.get(&step.shown.kind).copied());
    gone.sort_by_key(|key| std::cmp::Reverse(order.get(&key.kind).copied()));
    for NounKey { kind, name } in gone {
        let shown = PlannedChange { action: Action::Delete, kind, name, fields: Vec::new() };
        steps.push(Step { shown, noun: None });
    }
    steps
}
