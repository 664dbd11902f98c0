//! `encrypt`, `decrypt`, `sign`, `verify`: OpenPGP.
//!
//! A message that is made again after a crash has other bytes, for its session key is random; it
//! opens to the same file.

use async_trait::async_trait;
use entrepot_nouns::rule::{DecryptSpec, EncryptSpec, SignSpec, VerifySpec};
use entrepot_nouns::{Key, KeyType, Name, Timestamp};
use entrepot_transform::Bounds;
use entrepot_transform::limits::OPENPGP_SIGNATURE_BYTES;
use entrepot_transform::openpgp::{self, Armor, Opened, PublicKey, Sealing, SecretKey};
use serde_json::json;

use super::change::{Ends, MakesFile, bounds, change, foreseen_file, made_name, make};
use super::checksum::{Nothing, small_file};
use super::{Input, Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::pattern::{self, Values};
use crate::run::Run;

/// The key of what a step leaves about who signed.
const SIGNER: &str = "signer";

#[async_trait]
impl Step for EncryptSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        let (to, signers) = (public(run, &self.keys).await?, secret(run, &self.signers).await?);
        let env = run.shared.recorder.env().clone();
        let armor = if self.armor { Armor::Text } else { Armor::Binary };
        make(run, key, name, move |ends| {
            let (to, signers): (Vec<_>, Vec<_>) = (to.iter().collect(), signers.iter().collect());
            let sealing = Sealing { to: &to, signers: &signers, armor, at: env.now() };
            openpgp::encrypt(&sealing, &env, ends.reader, ends.writer)
        })
        .await
    }
}

impl MakesFile for EncryptSpec {
    const VERB: &'static str = "encrypts";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        made_name(values, self.name.as_deref(), |name| format!("{name}.pgp"))
    }
}

#[async_trait]
impl Step for SignSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        let signers = secret(run, std::slice::from_ref(&self.key)).await?;
        let env = run.shared.recorder.env().clone();
        let armor = if self.armor { Armor::Text } else { Armor::Binary };
        let detached = self.detached;
        make(run, key, name, move |ends| {
            let signers: Vec<_> = signers.iter().collect();
            let sealing = Sealing { to: &[], signers: &signers, armor, at: env.now() };
            if detached {
                openpgp::sign_detached(&sealing, &env, ends.reader, ends.writer)
            } else {
                openpgp::sign(&sealing, &env, ends.reader, ends.writer)
            }
        })
        .await
    }
}

impl MakesFile for SignSpec {
    const VERB: &'static str = "signs";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        let end = if self.detached { "sig" } else { "pgp" };
        made_name(values, self.name.as_deref(), |name| format!("{name}.{end}"))
    }
}

#[async_trait]
impl Step for DecryptSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        let keys = secret(run, &self.keys).await?;
        let opening = opening(run, &self.signed_by, bounds(self.output_mib, self.ratio)).await?;
        let signer = make(run, key, name, move |ends| {
            let (keys, by): (Vec<_>, Vec<_>) = (keys.iter().collect(), opening.by.iter().collect());
            let wanted = Opened { signed_by: &by, at: opening.at, bounds: opening.bounds };
            openpgp::decrypt(&wanted, &keys, ends.reader, ends.writer)
        });
        if let Some(signer) = signer.await? {
            run.leave(SIGNER, json!(signer));
        }
        Ok(())
    }
}

impl MakesFile for DecryptSpec {
    const VERB: &'static str = "decrypts";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        made_name(values, self.name.as_deref(), |name| without_end(name).to_owned())
    }
}

#[async_trait]
impl Step for VerifySpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let opening = opening(run, &self.signed_by, Bounds::default()).await?;
        let signer = match &self.signature {
            None => {
                let name = made_name(run.values(), None, |name| without_end(name).to_owned())?;
                let verified = make(run, key, name, move |ends| {
                    let by: Vec<_> = opening.by.iter().collect();
                    let Opening { at, bounds, .. } = opening;
                    let wanted = Opened { signed_by: &by, at, bounds };
                    openpgp::verify(&wanted, ends.reader, ends.writer)
                });
                verified.await?
            }
            Some(signature) => {
                let path = pattern::virtual_path(signature, run.values())?;
                let signature = small_file(run, &path, OPENPGP_SIGNATURE_BYTES).await?;
                let input = Input::open(run).await?;
                let verifying = move |ends: Ends| {
                    let by: Vec<_> = opening.by.iter().collect();
                    openpgp::verify_detached(&signature, &by, opening.at, ends.reader)
                };
                change(run, &input, &mut Nothing, verifying).await?
            }
        };
        run.leave(SIGNER, json!(signer));
        Ok(())
    }
}

#[async_trait]
impl Foresee for VerifySpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let file = foresight.input()?.file;
        let why = "who signed it shows only then";
        if let Some(signature) = &self.signature {
            let path = pattern::virtual_path(signature, foresight.values())?;
            return Ok(Foreseen::open(format!("compares {file} with signature '{path}'"), why));
        }
        let name = made_name(foresight.values(), None, |name| without_end(name).to_owned())?;
        let what = format!("takes '{name}' out of the signed message {file}");
        Ok(Foreseen { open: Some(why.to_owned()), ..foreseen_file(foresight, what, name) })
    }
}

/// What a message is opened with, besides private keys.
struct Opening {
    by: Vec<PublicKey>,
    at: Timestamp,
    bounds: Bounds,
}

async fn opening(run: &Run<'_>, by: &[Name], bounds: Bounds) -> Result<Opening, StepError> {
    let at = run.shared.recorder.env().now();
    Ok(Opening { by: public(run, by).await?, at, bounds })
}

fn without_end(name: &str) -> &str {
    let known = |end: &str| ["pgp", "gpg", "asc"].iter().any(|it| end.eq_ignore_ascii_case(it));
    match name.rsplit_once('.') {
        Some((stem, end)) if known(end) && !stem.is_empty() => stem,
        _ => name,
    }
}

/// The key of this name, if it counts now.
async fn key(run: &Run<'_>, name: &Name) -> Result<Key, StepError> {
    let (db, site) = (&run.shared.db, run.job.site);
    let found = run.hold.insist(|| db.find::<Key>(site, name)).await?;
    let bad = |why: &str| StepError::permanent("EP0872", format!("key '{name}' {why}"));
    let key = found.ok_or_else(|| bad("is not there, create it or change the rule"))?.noun;
    let now = run.shared.recorder.env().now();
    if key.key_type != KeyType::OpenPgp {
        return Err(bad("is not of type openpgp"));
    }
    if let Some(why) = key.why_unusable(now) {
        return Err(bad(why));
    }
    Ok(key)
}

fn of_key(name: &Name, error: &entrepot_transform::TransformError) -> StepError {
    StepError::permanent("EP0872", format!("key '{name}': {error}"))
}

async fn public(run: &Run<'_>, names: &[Name]) -> Result<Vec<PublicKey>, StepError> {
    let mut found = Vec::new();
    for name in names {
        let key = key(run, name).await?;
        let parsed = PublicKey::parse(key.public.as_bytes());
        found.push(parsed.map_err(|error| of_key(name, &error))?);
    }
    Ok(found)
}

async fn secret(run: &Run<'_>, names: &[Name]) -> Result<Vec<SecretKey>, StepError> {
    let mut found = Vec::new();
    for name in names {
        let key = key(run, name).await?;
        let opening = run.shared.file_access.private_key(run.job.site, &key);
        let private = run.hold.waiting(opening).await??;
        let parsed = SecretKey::parse(private.expose());
        found.push(parsed.map_err(|error| of_key(name, &error))?);
    }
    Ok(found)
}
