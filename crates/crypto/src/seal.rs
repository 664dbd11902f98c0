//! Sealing at rest: what tables and exported documents hold of a secret.
//!
//! A sealed secret is base64 of: version 1, a salt of 32 random bytes, ciphertext and tag of
//! AES-256-GCM (NIST SP 800-38D). The key is derived for this one seal by HKDF-SHA-256 (RFC 5869)
//! from the master key, the salt and the context, so that a nonce of zero never repeats under one
//! key; the context (site, kind and name of the noun, field) is authenticated too: see
//! [`SealingContext`].

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use entrepot_nouns::{Env, Sealed, Secret};
use zeroize::Zeroizing;

use crate::limits::{MASTER_KEY_FILE_BYTES, SEALED_BYTES};
use crate::sealing_context::SealingContext;

const VERSION: u8 = 1;
const SALT: usize = 32;
/// Leads the text form of a master key.
const TEXT_MARK: &str = "entrepot-master-key-1:";

/// The key that opens every sealed secret. Kept outside the database. Cheap to clone.
#[derive(Clone)]
pub struct MasterKey(Arc<Zeroizing<[u8; 32]>>);

/// Names a sealed secret, and tells nothing of it: sealed anew it has another name.
pub fn name(sealed: &Sealed) -> String {
    let key = blake3::derive_key("entrepot 2026 name of a sealed secret", sealed.0.as_bytes());
    blake3::Hash::from_bytes(key).to_hex().to_string()
}

/// Why a master key cannot be had, or a secret not be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The file cannot be read.
    #[error("cannot read '{path}': {error}")]
    File {
        /// Path of the key file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Others than its owner may read the file.
    #[error("'{path}' may be read by others, run: chmod 600 '{path}'")]
    OpenToOthers {
        /// Path of the key file.
        path: String,
    },
    /// The environment variable is not set.
    #[error("the environment variable '{0}' is not set")]
    NoVariable(String),
    /// The text is no master key.
    #[error("this is no master key, one is made by 'entrepot init'")]
    NoKey,
    /// Longer than a secret may be.
    #[error("the secret is longer than {SEALED_BYTES} bytes")]
    TooLong,
    /// Damaged, or sealed for another context or under another master key.
    #[error(
        "this is no sealed secret for {0}: it was sealed for another noun or site, or under \
         another master key, or is damaged"
    )]
    CannotOpen(Box<SealingContext>),
    /// The cryptographic library refused.
    #[error("the cryptographic library failed")]
    Library,
}

impl MasterKey {
    /// A new one.
    pub fn generate(env: &Env) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        env.fill_random(bytes.as_mut());
        MasterKey(Arc::new(bytes))
    }

    /// From its 32 bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        MasterKey(Arc::new(Zeroizing::new(*bytes)))
    }

    /// From a file that only its owner may read.
    pub fn from_file(path: &Path) -> Result<Self, SealError> {
        let shown = path.display().to_string();
        let unreadable = |error| SealError::File { path: shown.clone(), error };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        if meta.permissions().mode() & 0o077 != 0 && meta.is_file() {
            return Err(SealError::OpenToOthers { path: shown });
        }
        if meta.size() > MASTER_KEY_FILE_BYTES {
            return Err(SealError::NoKey);
        }
        let mut text = Zeroizing::new(String::new());
        file.take(MASTER_KEY_FILE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        Self::from_text(&text)
    }

    /// From the environment variable `name`.
    pub fn from_env(name: &str) -> Result<Self, SealError> {
        let text = std::env::var(name).map_err(|_| SealError::NoVariable(name.to_owned()))?;
        Self::from_text(&Zeroizing::new(text))
    }

    /// From its text form.
    pub fn from_text(text: &str) -> Result<Self, SealError> {
        let coded = text.trim().strip_prefix(TEXT_MARK).ok_or(SealError::NoKey)?;
        let bytes = Zeroizing::new(STANDARD_NO_PAD.decode(coded).map_err(|_| SealError::NoKey)?);
        let bytes: [u8; 32] = bytes.as_slice().try_into().map_err(|_| SealError::NoKey)?;
        Ok(Self::from_bytes(&bytes))
    }

    /// Its text form, one line: what a key file or the environment holds.
    pub fn to_text(&self) -> Secret {
        Secret::new(format!("{TEXT_MARK}{}\n", STANDARD_NO_PAD.encode(self.0.as_slice())))
    }

    /// Names this key among others, and tells nothing of it.
    pub fn id(&self) -> String {
        let hash = self.keyed_hash("entrepot master key id", b"");
        entrepot_nouns::transfer::hex(hash.get(..8).unwrap_or_default())
    }

    /// Seals `secret` for `context`.
    ///
    /// # Errors
    /// It is longer than [`SEALED_BYTES`].
    pub fn seal(
        &self,
        env: &Env,
        context: &SealingContext,
        secret: &Secret,
    ) -> Result<Sealed, SealError> {
        if secret.expose().len() > SEALED_BYTES {
            return Err(SealError::TooLong);
        }
        let mut salt = [0; SALT];
        env.fill_random(&mut salt);
        let mut sealed = Zeroizing::new(secret.expose().to_vec());
        let context = context.text();
        let key = self.key_for(&salt, &context)?;
        let aad = Aad::from(context.as_bytes());
        let tag = key
            .seal_in_place_separate_tag(nonce(), aad, &mut sealed)
            .map_err(|_| SealError::Library)?;
        let whole = [&[VERSION], salt.as_slice(), sealed.as_slice(), tag.as_ref()].concat();
        Ok(Sealed(STANDARD_NO_PAD.encode(whole)))
    }

    /// Opens what was sealed for `context`.
    ///
    /// # Errors
    /// [`SealError::CannotOpen`].
    pub fn open(&self, context: &SealingContext, sealed: &Sealed) -> Result<Secret, SealError> {
        let closed = || SealError::CannotOpen(Box::new(context.clone()));
        let whole = STANDARD_NO_PAD.decode(&sealed.0).map_err(|_| closed())?;
        let (version, rest) = whole.split_first().ok_or_else(closed)?;
        let (salt, text) = rest.split_at_checked(SALT).ok_or_else(closed)?;
        if *version != VERSION {
            return Err(closed());
        }
        let mut text = Zeroizing::new(text.to_vec());
        let context = context.text();
        let aad = Aad::from(context.as_bytes());
        let key = self.key_for(salt, &context)?;
        let open = key.open_in_place(nonce(), aad, &mut text).map_err(|_| closed())?;
        Ok(Secret::new(&*open))
    }

    /// A keyed hash (HMAC-SHA-256, RFC 2104) of `data` for one purpose.
    pub fn keyed_hash(&self, purpose: &str, data: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_slice());
        let mut context = hmac::Context::with_key(&key);
        context.update(&(purpose.len() as u64).to_be_bytes());
        context.update(purpose.as_bytes());
        context.update(data);
        let mut hash = [0; 32];
        // HMAC-SHA-256 has 32 bytes.
        hash.copy_from_slice(context.sign().as_ref());
        hash
    }

    fn key_for(&self, salt: &[u8], context: &str) -> Result<LessSafeKey, SealError> {
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(self.0.as_slice());
        let info = [b"entrepot seal 1".as_slice(), context.as_bytes()];
        let expanded = extracted.expand(&info, &AES_256_GCM).map_err(|_| SealError::Library)?;
        Ok(LessSafeKey::new(UnboundKey::from(expanded)))
    }
}

/// Each seal has a key of its own, so its only nonce may be zero.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey(***)")
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::Name;
    use entrepot_nouns::endpoint::TargetSecret;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn password_of(site: &str, endpoint: &str) -> SealingContext {
        let (plain, sealed) = (&mut None, &mut None);
        let secret = TargetSecret { field: "target.sftp.password", plain, sealed };
        SealingContext::endpoint(&name(site), &name(endpoint), &secret)
    }

    #[test]
    fn what_is_sealed_opens_only_for_its_context_and_under_its_key() {
        let env = Env::simulated(3);
        let key = MasterKey::generate(&env);
        let secret = Secret::new(*b"partner password");
        let own = password_of("main", "a");
        let sealed = key.seal(&env, &own, &secret).unwrap();
        assert_ne!(sealed, key.seal(&env, &own, &secret).unwrap());
        assert_eq!(key.open(&own, &sealed).unwrap(), secret);
        let others = [
            password_of("main", "b"),
            password_of("north", "a"),
            password_of("a", "main"),
            SealingContext::private_key(&name("main"), &name("a")),
            SealingContext::code_generator(&name("main"), &name("a")),
        ];
        for other in others {
            let error = key.open(&other, &sealed).unwrap_err();
            assert!(matches!(&error, SealError::CannotOpen(it) if **it == other), "{error}");
        }
        assert!(MasterKey::generate(&env).open(&own, &sealed).is_err());
        for at in 0..sealed.0.len() {
            let mut text = sealed.0.clone().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let damaged = Sealed(String::from_utf8(text).unwrap());
            assert!(key.open(&own, &damaged).is_err(), "at {at}");
        }
    }

    #[test]
    fn a_key_file_must_be_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let key = MasterKey::generate(&Env::simulated(4));
        std::fs::write(&path, key.to_text().expose()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(MasterKey::from_file(&path), Err(SealError::OpenToOthers { .. })));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let read = MasterKey::from_file(&path).unwrap();
        assert_eq!(read.keyed_hash("x", b"y"), key.keyed_hash("x", b"y"));
        assert_ne!(read.keyed_hash("x", b"y"), key.keyed_hash("z", b"y"));
        assert_eq!((read.id().len(), read.id()), (16, key.id()));
        assert_ne!(key.id(), MasterKey::generate(&Env::simulated(5)).id());
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(MasterKey::from_file(&path), Err(SealError::NoKey)));
    }
}
