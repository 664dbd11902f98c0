//! Recovery codes: made here, shown once, and void as soon as the code generator is another one.

use entrepot_crypto::recovery_code;
use entrepot_db::Tx;
use entrepot_journal::Scope;
use entrepot_nouns::{Account, AccountId, AnyNoun, Event, Fact, Name, Stored};

use crate::actor::Actor;
use crate::credentials::ShownOnce;
use crate::error::{AdminError, Result};
use crate::limits::RECOVERY_CODES;
use crate::parts::AdminParts;

/// What was made.
pub(crate) struct Made {
    pub(crate) codes: Vec<ShownOnce>,
    pub(crate) event: Event,
}

/// Gives an account new codes in place of those that it has; `None`: there is no such account.
pub(crate) async fn make(parts: &AdminParts, actor: &Actor, name: &Name) -> Result<Option<Made>> {
    let mut tx = parts.db.begin().await?;
    let Some(stored) = tx.find::<Account>(actor.site, name).await? else { return Ok(None) };
    if stored.noun.totp_sealed.is_none() {
        let problem = format!(
            "account '{name}' has no code generator, whose codes they stand in for; make one: \
             'entrepot account totp {name}'"
        );
        return Err(AdminError::Refused { problem });
    }
    let account = AccountId(stored.id);
    let (mut codes, mut hashes) = (Vec::new(), Vec::new());
    for _ in 0..RECOVERY_CODES {
        let code = recovery_code::make(&parts.env);
        hashes.extend(recovery_code::hash(account, &code));
        codes.push(ShownOnce::new(String::from_utf8_lossy(code.expose())));
    }
    tx.set_recovery_codes(account, &hashes).await?;
    let (name, by) = (name.clone(), actor.name.clone());
    let fact = Fact::RecoveryCodesMade { name, count: hashes.len() as u64, by };
    let scope = Scope { account: actor.account(), ..Scope::site(actor.site) };
    let event = parts.recorder.event(&scope, fact);
    tx.insert_event(&event).await?;
    tx.commit().await?;
    Ok(Some(Made { codes, event }))
}

/// Voids the codes of an account whose generator is changed or taken away by a step, or which is
/// deleted.
pub(crate) async fn void(
    tx: &mut Tx,
    before: Option<&Stored<AnyNoun>>,
    after: Option<&AnyNoun>,
) -> Result<()> {
    let generator = |noun: &AnyNoun| match noun {
        AnyNoun::Account(account) => account.totp_sealed.clone(),
        _ => None,
    };
    let Some(before) = before else { return Ok(()) };
    let had = generator(&before.noun);
    if had.is_some() && had != after.and_then(generator) {
        tx.set_recovery_codes(AccountId(before.id), &[]).await?;
    }
    Ok(())
}
