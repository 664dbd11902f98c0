//! Secrets on their way in and out: hashed or sealed before anything is stored, `***` when shown.

use std::sync::Arc;

use entrepot_auth::as2;
use entrepot_crypto::password::{self, HashCost};
use entrepot_crypto::{MasterKey, SealingContext, constant_time_eq, totp};
use entrepot_nouns::account::Account;
use entrepot_nouns::key::{Key, KeyType};
use entrepot_nouns::{AnyNoun, Endpoint, EndpointTarget, Env, Model, Name, Sealed, Secret, Site};
use serde_json::Value;

use crate::passwords::Passwords;
use crate::refused_passwords::RefusedPasswords;

/// Fields that take a secret in clear text.
pub(crate) const SECRET_INPUTS: [&str; 6] =
    ["password", "secret_key", "private", "totp", "client_secret", "users"];
/// Fields that hold what became of it, in the same order of kinds.
const SECRET_STORED: [&str; 7] = [
    "password_hash",
    "password_sealed",
    "secret_key_sealed",
    "private_sealed",
    "totp_sealed",
    "client_secret_sealed",
    "users_sealed",
];
/// What is shown instead; given back, it means "as it is stored".
pub(crate) const MASK: &str = "***";

/// A field of a noun cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) field: String,
    pub(crate) problem: String,
}

impl Fault {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Fault { field: field.into(), problem: problem.into() }
    }
}

/// The field that a person knows: `password` for `password_hash`.
pub(crate) fn shown_field(field: &str) -> String {
    let (front, last) = field.rsplit_once('.').map_or(("", field), |(front, last)| (front, last));
    if !SECRET_STORED.contains(&last) {
        return field.to_owned();
    }
    let last = last.trim_end_matches("_hash").trim_end_matches("_sealed");
    if front.is_empty() { last.to_owned() } else { format!("{front}.{last}") }
}

/// A value as it may be shown.
pub(crate) fn shown(key: &str, value: &Value) -> Value {
    if SECRET_STORED.contains(&key) || SECRET_INPUTS.contains(&key) {
        return Value::from(MASK);
    }
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), shown(key, value))).collect()
        }
        Value::Array(items) => items.iter().map(|item| shown("", item)).collect(),
        _ => value.clone(),
    }
}

/// The halves of a key of AS2 can be used, and belong together.
fn check_as2(key: &Key) -> Result<(), Fault> {
    let certificate = as2::certificate(&key.public);
    let certificate = certificate.map_err(|problem| Fault::new("public", problem))?;
    match &key.private {
        Some(private) if private.expose() != MASK.as_bytes() => {
            let private = as2::private_key(private.expose(), &certificate);
            private.map(drop).map_err(|problem| Fault::new("private", problem))
        }
        _ => Ok(()),
    }
}

/// A noun as it may be shown.
pub(crate) fn redacted(mut noun: AnyNoun) -> AnyNoun {
    let mask = |sealed: &mut Option<Sealed>, plain: &mut Option<Secret>| {
        *plain = None;
        if sealed.is_some() {
            *sealed = Some(Sealed(MASK.to_owned()));
        }
    };
    match &mut noun {
        AnyNoun::Account(account) => {
            account.password = None;
            if account.password_hash.is_some() {
                account.password_hash = Some(MASK.to_owned());
            }
            mask(&mut account.totp_sealed, &mut account.totp);
        }
        AnyNoun::Key(key) => mask(&mut key.private_sealed, &mut key.private),
        AnyNoun::Endpoint(endpoint) => {
            if let Some(secret) = endpoint.target.secret() {
                mask(secret.sealed, secret.plain);
            }
        }
        AnyNoun::Model(model) => mask(&mut model.users_sealed, &mut model.users),
        AnyNoun::Site(site) => site
            .oidc
            .values_mut()
            .for_each(|it| mask(&mut it.client_secret_sealed, &mut it.client_secret)),
        AnyNoun::Policy(_) | AnyNoun::Mount(_) | AnyNoun::Rule(_) | AnyNoun::Listener(_) => {}
    }
    noun
}

/// True if a noun holds the hash of a password or a sealed secret.
pub(crate) fn has_stored(noun: &AnyNoun) -> bool {
    match noun {
        AnyNoun::Account(account) => {
            account.password_hash.is_some() || account.totp_sealed.is_some()
        }
        AnyNoun::Key(key) => key.private_sealed.is_some(),
        AnyNoun::Endpoint(endpoint) => {
            let mut target = endpoint.target.clone();
            target.secret().is_some_and(|secret| secret.sealed.is_some())
        }
        AnyNoun::Model(model) => model.users_sealed.is_some(),
        AnyNoun::Site(site) => site.oidc.values().any(|it| it.client_secret_sealed.is_some()),
        AnyNoun::Policy(_) | AnyNoun::Mount(_) | AnyNoun::Rule(_) | AnyNoun::Listener(_) => false,
    }
}

/// Takes what a patch replaces out of the way: a new password ends the old hash, and so does
/// `password: null`.
pub(crate) fn make_way(body: &mut Value, patch: &Value) {
    let providers = patch.get("oidc").and_then(Value::as_object);
    let providers = providers.into_iter().flat_map(|all| all.keys());
    let providers: Vec<String> = providers.map(|name| format!("/oidc/{name}")).collect();
    let of_providers = providers.iter().map(|at| (&**at, "client_secret", "client_secret_sealed"));
    let fixed = [
        ("", "password", "password_hash"),
        ("", "private", "private_sealed"),
        ("", "totp", "totp_sealed"),
        ("", "users", "users_sealed"),
        ("/target/object", "secret_key", "secret_key_sealed"),
        ("/target/sftp", "password", "password_sealed"),
        ("/target/ftp", "password", "password_sealed"),
        ("/target/sql", "password", "password_sealed"),
        ("/target/mail", "password", "password_sealed"),
        ("/target/web", "password", "password_sealed"),
        ("/target/webhook", "secret_key", "secret_key_sealed"),
    ];
    for (at, input, stored) in fixed.into_iter().chain(of_providers) {
        let Some(patch) = patch.pointer(at) else { continue };
        if patch.get(input).is_some()
            && patch.get(stored).is_none()
            && let Some(Value::Object(body)) = body.pointer_mut(at)
        {
            body.remove(stored);
        }
    }
}

/// What a missing secret means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Documents need not hold secrets: the stored one stays.
    Keeps,
    /// The whole noun is given.
    Removes,
}

/// What becomes of passwords that are given in clear text and not known to be the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordWork {
    /// They are left as they are: a plan hashes nothing.
    Leave,
    /// They are compared and, if they are others, hashed.
    Hash,
    /// The same; they are known the next time, for documents come again as they are.
    HashAndRemember,
}

/// Hashes and seals.
#[derive(Clone)]
pub(crate) struct Settler {
    pub(crate) master: MasterKey,
    pub(crate) env: Env,
    pub(crate) passwords: Passwords,
    pub(crate) cost: HashCost,
    pub(crate) refused_passwords: Option<RefusedPasswords>,
    pub(crate) rule_check: RuleCheck,
    pub(crate) listener_check: ListenerCheck,
    pub(crate) endpoint_check: EndpointCheck,
    pub(crate) model_check: ModelCheck,
}

/// Says what of a rule cannot be run.
pub type RuleCheck =
    fn(&entrepot_nouns::Rule) -> std::result::Result<(), entrepot_nouns::FieldError>;

/// Says what of a listener cannot be served.
pub type ListenerCheck =
    fn(&entrepot_nouns::Listener) -> std::result::Result<(), entrepot_nouns::FieldError>;

/// Says what of an endpoint this node must not open.
pub type EndpointCheck =
    Arc<dyn Fn(&Endpoint) -> std::result::Result<(), entrepot_nouns::FieldError> + Send + Sync>;

/// Says what of a model cannot be deployed.
pub type ModelCheck = fn(&Model) -> std::result::Result<(), entrepot_nouns::FieldError>;

/// One secret of a noun.
struct Slot<'a> {
    /// Path of the field that takes clear text.
    field: &'static str,
    context: SealingContext,
    plain: &'a mut Option<Secret>,
    sealed: &'a mut Option<Sealed>,
    stored: Option<&'a Sealed>,
}

impl Settler {
    /// Brings the secrets of `noun`, of the site with this name, into the form in which they are
    /// stored; a secret that is the same as before keeps its form. A password may be left: see
    /// [`Settler::hash_password`].
    pub(crate) fn settle(
        &self,
        site: &Name,
        mut noun: AnyNoun,
        stored: Option<&AnyNoun>,
        absent: Absent,
    ) -> Result<AnyNoun, Fault> {
        match (&mut noun, stored) {
            (AnyNoun::Account(account), stored) => {
                let stored = stored.and_then(|noun| match noun {
                    AnyNoun::Account(old) => Some(old),
                    _ => None,
                });
                let hash = stored.and_then(|old| old.password_hash.as_deref());
                self.password(account, hash, absent)?;
                let stored = stored.and_then(|old| old.totp_sealed.as_ref());
                self.totp(site, account, stored, absent)?;
            }
            (AnyNoun::Key(key), stored) => {
                let stored = stored.and_then(|noun| match noun {
                    AnyNoun::Key(old) => old.private_sealed.as_ref(),
                    _ => None,
                });
                self.private_key(site, key, stored, absent)?;
            }
            (AnyNoun::Endpoint(endpoint), stored) => {
                let stored = stored.and_then(|noun| match noun {
                    AnyNoun::Endpoint(old) => Some(&old.target),
                    _ => None,
                });
                self.target(site, endpoint, stored, absent)?;
            }
            (AnyNoun::Model(model), stored) => {
                let stored = stored.and_then(|noun| match noun {
                    AnyNoun::Model(old) => old.users_sealed.as_ref(),
                    _ => None,
                });
                self.model_users(site, model, stored, absent)?;
            }
            (AnyNoun::Site(own), stored) => {
                let stored = stored.and_then(|noun| match noun {
                    AnyNoun::Site(old) => Some(old),
                    _ => None,
                });
                self.oidc_clients(own, stored, absent)?;
            }
            _ => {}
        }
        Ok(noun)
    }

    /// The secrets by which a site proves itself to providers of OpenID Connect.
    fn oidc_clients(
        &self,
        site: &mut Site,
        stored: Option<&Site>,
        absent: Absent,
    ) -> Result<(), Fault> {
        for (name, provider) in &mut site.oidc {
            let old = stored.and_then(|old| old.oidc.get(name));
            let slot = Slot {
                field: "oidc.client_secret",
                context: SealingContext::oidc_client(&site.name, name),
                plain: &mut provider.client_secret,
                sealed: &mut provider.client_secret_sealed,
                stored: old.and_then(|old| old.client_secret_sealed.as_ref()),
            };
            self.seal(slot, absent)?;
        }
        Ok(())
    }

    /// The secret of a code generator.
    fn totp(
        &self,
        site: &Name,
        account: &mut Account,
        stored: Option<&Sealed>,
        absent: Absent,
    ) -> Result<(), Fault> {
        if let Some(plain) = &account.totp {
            totp::check_secret(plain).map_err(|problem| Fault::new("totp", problem))?;
        }
        let slot = Slot {
            field: "totp",
            context: SealingContext::code_generator(site, &account.name),
            plain: &mut account.totp,
            sealed: &mut account.totp_sealed,
            stored,
        };
        self.seal(slot, absent)
    }

    /// The values that sessions of a model have.
    fn model_users(
        &self,
        site: &Name,
        model: &mut Model,
        stored: Option<&Sealed>,
        absent: Absent,
    ) -> Result<(), Fault> {
        if let Some(plain) = model.users.as_ref().filter(|it| it.expose() != MASK.as_bytes()) {
            Model::sessions_of(plain).map_err(|problem| Fault::new("users", problem))?;
        }
        let slot = Slot {
            field: "users",
            context: SealingContext::model_users(site, &model.name),
            plain: &mut model.users,
            sealed: &mut model.users_sealed,
            stored,
        };
        self.seal(slot, absent)
    }

    fn private_key(
        &self,
        site: &Name,
        key: &mut Key,
        stored: Option<&Sealed>,
        absent: Absent,
    ) -> Result<(), Fault> {
        if key.key_type == KeyType::As2 {
            check_as2(key)?;
        }
        let slot = Slot {
            field: "private",
            context: SealingContext::private_key(site, &key.name),
            plain: &mut key.private,
            sealed: &mut key.private_sealed,
            stored,
        };
        self.seal(slot, absent)
    }

    fn target(
        &self,
        site: &Name,
        endpoint: &mut Endpoint,
        stored: Option<&EndpointTarget>,
        absent: Absent,
    ) -> Result<(), Fault> {
        let mut old = stored.cloned();
        let Some(secret) = endpoint.target.secret() else { return Ok(()) };
        // A secret of another kind of endpoint is not this one's.
        let stored = old.as_mut().and_then(EndpointTarget::secret);
        let stored = stored.filter(|old| old.field == secret.field);
        let slot = Slot {
            field: secret.field,
            context: SealingContext::endpoint(site, &endpoint.name, &secret),
            plain: secret.plain,
            sealed: secret.sealed,
            stored: stored.as_ref().and_then(|old| old.sealed.as_ref()),
        };
        self.seal(slot, absent)
    }

    /// The password of an account, as far as it takes no slow hash: one that is given in clear
    /// text and is not known to be the stored one stays for [`Settler::hash_password`].
    fn password(
        &self,
        account: &mut Account,
        stored: Option<&str>,
        absent: Absent,
    ) -> Result<(), Fault> {
        let fault = |problem: String| Fault::new("password", problem);
        let mut given = account.password_hash.take();
        if given.as_deref() == Some(MASK) {
            given = Some(stored.ok_or_else(|| fault(nothing_stored()))?.to_owned());
        }
        let Some(plain) = &account.password else {
            if let Some(hash) = &given {
                password::check(hash)
                    .map_err(|error| Fault::new("password_hash", error.to_string()))?;
            } else if absent == Absent::Keeps {
                given = stored.map(str::to_owned);
            }
            account.password_hash = given;
            return Ok(());
        };
        if given.is_some() {
            return Err(fault("give 'password' or 'password_hash', not both".to_owned()));
        }
        if plain.expose().is_empty() {
            return Err(fault("a password cannot be empty".to_owned()));
        }
        password::check_length(plain).map_err(|error| fault(error.to_string()))?;
        if let Some(hash) = stored.filter(|hash| self.passwords.knows(plain, hash)) {
            account.password_hash = Some(hash.to_owned());
            account.password = None;
        }
        Ok(())
    }

    /// True if the password that [`Settler::settle`] left in clear text is another than the stored
    /// one, as far as `work` lets us know. The same password keeps its hash, so that applying twice
    /// changes nothing. Slow: argon2.
    pub(crate) fn is_new_password(
        &self,
        account: &mut Account,
        stored: Option<&str>,
        work: PasswordWork,
    ) -> bool {
        let Some(plain) = &account.password else { return false };
        if work == PasswordWork::Leave {
            return stored.is_none();
        }
        let Some(hash) = stored.filter(|hash| self.passwords.fits(plain, hash)) else {
            return true;
        };
        if work == PasswordWork::HashAndRemember {
            self.passwords.remember(plain, hash);
        }
        account.password_hash = Some(hash.to_owned());
        account.password = None;
        false
    }

    /// Brings a new password into its stored form. Slow: argon2.
    pub(crate) fn hash_password(
        &self,
        account: &mut Account,
        work: PasswordWork,
    ) -> Result<(), Fault> {
        if work == PasswordWork::Leave {
            return Ok(());
        }
        let Some(plain) = account.password.take() else { return Ok(()) };
        let hash = self.passwords.hash(&plain, self.cost);
        let hash = hash.map_err(|error| Fault::new("password", error.to_string()))?;
        if work == PasswordWork::HashAndRemember {
            self.passwords.remember(&plain, &hash);
        }
        account.password_hash = Some(hash);
        Ok(())
    }

    fn seal(&self, slot: Slot<'_>, absent: Absent) -> Result<(), Fault> {
        let fault = |problem: String| Fault::new(slot.field, problem);
        let last = slot.field.rsplit('.').next().unwrap_or(slot.field);
        let mut given = slot.sealed.take();
        if given.as_ref().is_some_and(|sealed| sealed.0 == MASK) {
            given = Some(slot.stored.ok_or_else(|| fault(nothing_stored()))?.clone());
        }
        *slot.sealed = match (slot.plain.take(), given) {
            (Some(_), Some(_)) => {
                return Err(fault(format!("give '{last}' or '{last}_sealed', not both")));
            }
            (Some(plain), None) => {
                let same = slot.stored.filter(|stored| {
                    self.master
                        .open(&slot.context, stored)
                        .is_ok_and(|old| constant_time_eq(old.expose(), plain.expose()))
                });
                match same {
                    Some(stored) => Some(stored.clone()),
                    None => {
                        let sealed = self.master.seal(&self.env, &slot.context, &plain);
                        Some(sealed.map_err(|error| fault(error.to_string()))?)
                    }
                }
            }
            (None, Some(sealed)) if Some(&sealed) != slot.stored => {
                self.master
                    .open(&slot.context, &sealed)
                    .map_err(|error| fault(format!("{error}; give '{last}' itself")))?;
                Some(sealed)
            }
            (None, Some(sealed)) => Some(sealed),
            (None, None) if absent == Absent::Keeps => slot.stored.cloned(),
            (None, None) => None,
        };
        Ok(())
    }
}

fn nothing_stored() -> String {
    "'***' stands for a stored secret, and none is stored; give the secret itself".to_owned()
}
