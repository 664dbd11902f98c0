//! All sealed secrets of the installation, sealed anew under another master key in one
//! transaction: those of nouns of every site, and the keys by which nodes sign.

use entrepot_crypto::{MasterKey, SealingContext};
use entrepot_db::Tx;
use entrepot_journal::Scope;
use entrepot_nouns::event::RotationFact;
use entrepot_nouns::{
    Account, Endpoint, Event, Fact, Key, Model, Name, Noun, Sealed, Site, SiteId, Stored, Timestamp,
};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::parts::AdminParts;

/// What a rotation did.
pub(crate) struct Rotated {
    /// How many secrets there are.
    pub(crate) secrets: u64,
    /// The committed event, to be sealed; `None`: all were under the new key already.
    pub(crate) event: Option<Event>,
}

/// Seals everything anew. No node may live that has the present key in memory; the node of this
/// process does not, for it holds that node's journal.
pub(crate) async fn rotate(parts: &AdminParts, actor: &Actor, new: &MasterKey) -> Result<Rotated> {
    actor.must_be_of_main()?;
    // Until the end nobody else joins or changes a noun.
    let mut tx = parts.db.begin().await?;
    let living =
        tx.nodes(&parts.db).await?.into_iter().filter(|node| {
            node.id != parts.recorder.node_id() && !node.stopped && !node.is_silent()
        });
    let living: Vec<Name> = living.map(|node| node.name).collect();
    if !living.is_empty() {
        return Err(AdminError::SecretsInUse { nodes: living });
    }
    let mut work = Work { parts, new, at: parts.env.now(), secrets: 0, changed: 0 };
    for site in tx.list::<Site>(SiteId::MAIN).await? {
        work.site(&mut tx, SiteId(site.id), &site.noun.name).await?;
        work.oidc_clients(&mut tx, site).await?;
    }
    work.node_keys(&mut tx).await?;
    let Work { secrets, changed, .. } = work;
    if changed == 0 && secrets > 0 {
        return Ok(Rotated { secrets, event: None });
    }
    let (from, to, by) = (parts.master.id(), new.id(), actor.name.clone());
    let rotation = RotationFact { from, to, secrets, by };
    let fact = Fact::SecretsRotated { rotation };
    let scope = Scope { account: actor.account(), ..Scope::site(SiteId::MAIN) };
    let event = parts.recorder.event(&scope, fact);
    tx.insert_event(&event).await?;
    tx.commit().await?;
    Ok(Rotated { secrets, event: Some(event) })
}

struct Work<'a> {
    parts: &'a AdminParts,
    new: &'a MasterKey,
    at: Timestamp,
    secrets: u64,
    changed: u64,
}

impl Work<'_> {
    async fn site(&mut self, tx: &mut Tx, site: SiteId, name: &Name) -> Result<()> {
        for mut stored in tx.list::<Key>(site).await? {
            let context = SealingContext::private_key(name, &stored.noun.name);
            if self.reseal(&context, &mut stored.noun.private_sealed)? {
                self.put(tx, &stored).await?;
            }
        }
        for mut stored in tx.list::<Account>(site).await? {
            let context = SealingContext::code_generator(name, &stored.noun.name);
            if self.reseal(&context, &mut stored.noun.totp_sealed)? {
                self.put(tx, &stored).await?;
            }
        }
        for mut stored in tx.list::<Endpoint>(site).await? {
            let endpoint = stored.noun.name.clone();
            let Some(secret) = stored.noun.target.secret() else { continue };
            let context = SealingContext::endpoint(name, &endpoint, &secret);
            if self.reseal(&context, secret.sealed)? {
                self.put(tx, &stored).await?;
            }
        }
        for mut stored in tx.list::<Model>(site).await? {
            let context = SealingContext::model_users(name, &stored.noun.name);
            if self.reseal(&context, &mut stored.noun.users_sealed)? {
                self.put(tx, &stored).await?;
            }
        }
        for mut account in tx.acme_accounts(site).await? {
            let context = SealingContext::acme_account(name, &account.place.listener);
            let mut sealed = Some(account.sealed.clone());
            if self.reseal(&context, &mut sealed)?
                && let Some(sealed) = sealed
            {
                account.sealed = sealed;
                tx.reseal_acme_account(&account).await?;
            }
        }
        Ok(())
    }

    /// Those by which a site proves itself to providers of OpenID Connect.
    async fn oidc_clients(&mut self, tx: &mut Tx, mut site: Stored<Site>) -> Result<()> {
        let mut is_changed = false;
        for (name, provider) in &mut site.noun.oidc {
            let context = SealingContext::oidc_client(&site.noun.name, name);
            is_changed |= self.reseal(&context, &mut provider.client_secret_sealed)?;
        }
        if is_changed {
            self.put(tx, &site).await?;
        }
        Ok(())
    }

    /// Those of nodes that were removed too: heads that they signed are verified by them.
    async fn node_keys(&mut self, tx: &mut Tx) -> Result<()> {
        let sites = tx.list::<Site>(SiteId::MAIN).await?;
        let Some(main) = sites.into_iter().find(|site| site.id == SiteId::MAIN.0) else {
            return Ok(());
        };
        for found in tx.node_keys().await? {
            let context = SealingContext::node_key(&main.noun.name, &found.name);
            let mut sealed = Some(found.key.private_sealed);
            if self.reseal(&context, &mut sealed)?
                && let Some(sealed) = sealed
            {
                tx.reseal_node_key(found.node, &sealed).await?;
            }
        }
        Ok(())
    }

    async fn put<N: Noun>(&self, tx: &mut Tx, stored: &Stored<N>) -> Result<()> {
        tx.put(stored.site, stored.id, &stored.noun, self.at).await?;
        Ok(())
    }

    /// True if the secret is sealed otherwise now. What is under the new key already stays.
    fn reseal(&mut self, context: &SealingContext, sealed: &mut Option<Sealed>) -> Result<bool> {
        let Some(before) = sealed else { return Ok(false) };
        self.secrets += 1;
        if self.new.open(context, before).is_ok() {
            return Ok(false);
        }
        let failed = |error: entrepot_crypto::seal::SealError| AdminError::CannotRotate {
            problem: error.to_string(),
        };
        let secret = self.parts.master.open(context, before).map_err(failed)?;
        *sealed = Some(self.new.seal(&self.parts.env, context, &secret).map_err(failed)?);
        self.changed += 1;
        Ok(true)
    }
}
