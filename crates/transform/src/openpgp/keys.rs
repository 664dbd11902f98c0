//! Keys: which part of one is used for what, and whether it is valid at a time.
//!
//! A key is a primary key and subkeys. What each may be used for, and until when, stands in
//! signatures by the primary key; of several valid ones the newest counts. A signature that does
//! not verify counts for nothing.

use entrepot_nouns::Timestamp;
use pgp::composed::{Deserializable, SignedPublicKey, SignedPublicSubKey, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{self, KeyFlags, Signature, SignatureType};
use pgp::types::{KeyDetails, SigningKey, Tag};

use crate::error::TransformError;
use crate::limits::{OPENPGP_CLOCK_SECONDS, OPENPGP_KEY_BYTES};

/// What a key is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Others encrypt to it.
    Encrypt,
    /// Its owner signs with it.
    Sign,
}

/// The public half of a key, of ours or of a partner.
#[derive(Clone, Debug)]
pub struct PublicKey(SignedPublicKey);

/// A key with its private half, which no passphrase protects.
#[derive(Clone)]
pub struct SecretKey {
    secret: SignedSecretKey,
    public: PublicKey,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretKey({})", self.public.fingerprint())
    }
}

/// The primary key or a subkey.
#[derive(Clone, Copy, Debug)]
pub(super) enum Component<'a> {
    Primary(&'a packet::PublicKey),
    Sub(&'a packet::PublicSubkey),
}

/// A key that others encrypt to.
pub(super) struct Recipient<'a> {
    pub(super) component: Component<'a>,
    pub(super) takes_seipdv2: bool,
}

/// A moment as OpenPGP counts them.
pub(super) fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.micros().div_euclid(1_000_000).max(0)).unwrap_or(u32::MAX)
}

fn bad(text: impl Into<String>) -> TransformError {
    TransformError::BadKey(text.into())
}

/// Reads the one key in a file, armored or not.
fn parse<K: Deserializable>(file: &[u8], what: &str) -> Result<K, TransformError> {
    if file.len() > OPENPGP_KEY_BYTES {
        return Err(bad(format!("a key has {OPENPGP_KEY_BYTES} bytes at most")));
    }
    let none = || bad(format!("it is no OpenPGP {what} key"));
    let (mut keys, _) = K::from_reader_many(file).map_err(|_| none())?;
    let key = keys.next().ok_or_else(none)?.map_err(|_| none())?;
    if keys.next().is_some() {
        return Err(bad("it has more than one key: give each of them a name of its own"));
    }
    Ok(key)
}

impl PublicKey {
    /// Reads the file that `gpg --export` writes, with or without `--armor`.
    pub fn parse(file: &[u8]) -> Result<PublicKey, TransformError> {
        parse(file, "public").map(PublicKey)
    }

    /// What people compare, in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        self.0.fingerprint().to_string()
    }

    /// Whether it can be used so at a time, in seconds since 1970.
    pub fn check(&self, usage: Usage, at: u32) -> Result<(), TransformError> {
        match usage {
            Usage::Encrypt => self.for_encryption(at).map(drop),
            Usage::Sign => self.component(usage, at, |_| true).map(drop),
        }
    }

    /// When it ends for something that it can be used for at `at`, if that is before `until`.
    pub fn ends_between(&self, at: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let (at, until) = (seconds(at), seconds(until));
        let uses = [Usage::Encrypt, Usage::Sign].into_iter();
        let ends = uses.filter(|usage| self.check(*usage, at).is_ok()).filter_map(|usage| {
            let (mut valid, mut over) = (at, until);
            if self.check(usage, over).is_ok() {
                return None;
            }
            while over.saturating_sub(valid) > 1 {
                let between = valid.midpoint(over);
                match self.check(usage, between) {
                    Ok(()) => valid = between,
                    Err(_) => over = between,
                }
            }
            Some(over)
        });
        ends.min().map(|end| Timestamp::from_seconds(i64::from(end)))
    }

    /// The part that others encrypt to.
    pub(super) fn for_encryption(&self, at: u32) -> Result<Recipient<'_>, TransformError> {
        let primary = self.primary(at)?;
        let component = self.component(Usage::Encrypt, at, |_| true)?;
        let takes_seipdv2 = primary.features().is_some_and(packet::Features::seipd_v2);
        Ok(Recipient { component, takes_seipdv2 })
    }

    /// The part that may have made `signature`, which is not yet known to be good.
    pub(super) fn may_have_made(&self, signature: &Signature, at: u32) -> Option<Component<'_>> {
        let created = signature.created()?.as_secs();
        if created > at.saturating_add(OPENPGP_CLOCK_SECONDS) {
            return None;
        }
        if let Some(expires) = signature.signature_expiration_time()
            && expires.as_secs() > 0
            && created.saturating_add(expires.as_secs()) <= at
        {
            return None;
        }
        let is_data = matches!(signature.typ()?, SignatureType::Binary | SignatureType::Text);
        let weak = matches!(
            signature.hash_alg()?,
            HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160
        );
        if !is_data || weak {
            return None;
        }
        let (ids, prints) = (signature.issuer_key_id(), signature.issuer_fingerprint());
        let found = self.component(Usage::Sign, at, |key| {
            let named = prints.contains(&&key.fingerprint())
                || (prints.is_empty() && ids.contains(&&key.legacy_key_id()));
            named && key.created_at().as_secs() <= created
        });
        found.ok()
    }

    /// The newest part that is valid and may be used so.
    fn component(
        &self,
        usage: Usage,
        at: u32,
        wanted: impl Fn(&dyn KeyDetails) -> bool,
    ) -> Result<Component<'_>, TransformError> {
        let primary = self.primary(at)?;
        let valid = |sub: &&SignedPublicSubKey| {
            self.subkey_may(sub, usage, at) && wanted(&sub.key as &dyn KeyDetails)
        };
        let newest = self.0.public_subkeys.iter().filter(valid);
        let newest = newest.max_by_key(|sub| sub.key.created_at().as_secs());
        if let Some(sub) = newest {
            return Ok(Component::Sub(&sub.key));
        }
        let key = &self.0.primary_key;
        if may(&primary.key_flags(), usage) && wanted(key as &dyn KeyDetails) {
            return Ok(Component::Primary(key));
        }
        let what = match usage {
            Usage::Encrypt => "to encrypt to",
            Usage::Sign => "that signs",
        };
        Err(bad(format!("key {} has no valid part {what}", self.fingerprint())))
    }

    /// What the primary key says of itself, if it is valid.
    fn primary(&self, at: u32) -> Result<&Signature, TransformError> {
        let (key, details) = (&self.0.primary_key, &self.0.details);
        let name = self.fingerprint();
        let revoked = details.revocation_signatures.iter();
        if revoked.filter(|signature| is_made(signature, at)).any(|it| it.verify_key(key).is_ok()) {
            return Err(bad(format!("key {name} is revoked")));
        }
        let direct = details.direct_signatures.iter().filter(|signature| {
            signature.typ() == Some(SignatureType::Key) && signature.verify_key(key).is_ok()
        });
        let users = details.users.iter().flat_map(|user| {
            let good = move |signature: &&Signature| {
                signature.verify_certification(key, Tag::UserId, &user.id).is_ok()
            };
            let good: Vec<&Signature> = user.signatures.iter().filter(good).collect();
            let revoked = |signature: &&Signature| {
                signature.typ() == Some(SignatureType::CertRevocation) && is_made(signature, at)
            };
            if good.iter().any(revoked) { Vec::new() } else { good }
        });
        let own = direct.chain(users).filter(|signature| is_made(signature, at));
        let newest = own.max_by_key(|signature| signature.created().map(|at| at.as_secs()));
        let newest = newest.ok_or_else(|| bad(format!("key {name} does not sign itself")))?;
        if is_over(key, newest, at) {
            return Err(bad(format!("key {name} has expired")));
        }
        Ok(newest)
    }

    fn subkey_may(&self, sub: &SignedPublicSubKey, usage: Usage, at: u32) -> bool {
        let key = &self.0.primary_key;
        let good = |signature: &&Signature| {
            is_made(signature, at) && signature.verify_subkey_binding(key, &sub.key).is_ok()
        };
        let good: Vec<&Signature> = sub.signatures.iter().filter(good).collect();
        if good.iter().any(|it| it.typ() == Some(SignatureType::SubkeyRevocation)) {
            return false;
        }
        let newest = good.iter().max_by_key(|it| it.created().map(|at| at.as_secs()));
        let Some(newest) = newest else { return false };
        if is_over(&sub.key, newest, at) || !may(&newest.key_flags(), usage) {
            return false;
        }
        // A subkey that signs must say itself that it belongs here.
        let belongs = |back: &Signature| back.verify_primary_key_binding(&sub.key, key).is_ok();
        usage == Usage::Encrypt || newest.embedded_signature().is_some_and(belongs)
    }
}

fn is_made(signature: &Signature, at: u32) -> bool {
    signature
        .created()
        .is_some_and(|created| created.as_secs() <= at.saturating_add(OPENPGP_CLOCK_SECONDS))
}

fn is_over(key: &dyn KeyDetails, says: &Signature, at: u32) -> bool {
    let created = key.created_at().as_secs();
    let lives = says.key_expiration_time().map_or(0, |time| time.as_secs());
    created > at.saturating_add(OPENPGP_CLOCK_SECONDS)
        || (lives > 0 && created.saturating_add(lives) <= at)
}

fn may(flags: &KeyFlags, usage: Usage) -> bool {
    match usage {
        Usage::Encrypt => flags.encrypt_comms() || flags.encrypt_storage(),
        Usage::Sign => flags.sign(),
    }
}

impl SecretKey {
    /// Reads the file that `gpg --export-secret-keys` writes of a key without a passphrase.
    pub fn parse(file: &[u8]) -> Result<SecretKey, TransformError> {
        let secret: SignedSecretKey = parse(file, "private")?;
        let primary = secret.primary_key.secret_params().is_encrypted();
        let mut subkeys = secret.secret_subkeys.iter();
        if primary || subkeys.any(|sub| sub.key.secret_params().is_encrypted()) {
            return Err(bad("a passphrase protects it: export it without one, it is sealed here"));
        }
        let public = PublicKey(secret.to_public_key());
        Ok(SecretKey { secret, public })
    }

    /// Its other half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn secret(&self) -> &SignedSecretKey {
        &self.secret
    }

    /// The part that signs.
    pub(super) fn for_signing(&self, at: u32) -> Result<&dyn SigningKey, TransformError> {
        let wanted = match self.public.component(Usage::Sign, at, |_| true)? {
            Component::Primary(_) => return Ok(&self.secret.primary_key),
            Component::Sub(key) => key.fingerprint(),
        };
        let found = self.secret.secret_subkeys.iter().find(|sub| sub.key.fingerprint() == wanted);
        let missing = || bad("the private half of the part that signs is missing");
        found.map(|sub| &sub.key as &dyn SigningKey).ok_or_else(missing)
    }
}
