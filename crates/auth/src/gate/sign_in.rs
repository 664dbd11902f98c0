//! Browsers sign in: after a login a cookie stands for it, on every node, until it ends.
//!
//! What holds: only the hash of a cookie is stored. A sign-in ends when what proved its login would
//! no longer count, when the account is disabled or deleted, when nobody used it for the idle time
//! of the account's policy, and at its longest time. One that was ended is refused at once by the
//! node that ended it, by others within [`SIGN_IN_FRESH`]. While the database is away, those that
//! this node knows go on.

use std::time::Duration;

use entrepot_crypto::{BearerKind, TokenHash, bearer_token};
use entrepot_db::SignInRow;
use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::event::SignInEndedFact;
use entrepot_nouns::{Fact, Name, Secret, SessionId, SiteId};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Gate, Grant};
use crate::credential::Credential;
use crate::error::{AuthError, Result};
use crate::limits::{LISTED_SIGN_INS, SIGN_IN_SEEN_EVERY, SIGN_INS_OF_ACCOUNT};
use crate::peer::Peer;
use crate::signed_in::{
    Known, OpenedSignIn, SignIn, SignInInfo, StoredCredential, plain_user_agent,
};

/// Why a sign-in ends whose time is over.
const OVER: &str = "its time was over, or it was not used for too long";

/// What a cookie shows of its sign-in.
enum Shown {
    Grant(Grant),
    /// Refused from there; it stays.
    NotHere,
    /// It ends, for this reason.
    Gone(String),
}

impl Gate {
    /// Signs a browser in that has logged in by password, and by a code where the account has a
    /// generator, by a passkey or by a provider.
    ///
    /// # Errors
    /// The login was by something that is shown with each request, the database is away, or it
    /// cannot be recorded; nobody is signed in then.
    pub async fn open_sign_in(&self, grant: &Grant, user_agent: &str) -> Result<OpenedSignIn> {
        let (principal, peer) = (grant.principal(), grant.peer());
        let account = &principal.account.name;
        let refused = |reason: &str| AuthError::Refused {
            account: account.to_string(),
            reason: reason.to_owned(),
        };
        let stored = grant.credentials.iter().map(StoredCredential::of);
        let stored = stored.collect::<Option<Vec<_>>>().filter(|stored| !stored.is_empty());
        let stored =
            stored.ok_or_else(|| refused("a browser signs in by password, passkey or provider"))?;
        let credentials = serde_json::to_string(&stored);
        let credentials = credentials.map_err(|error| refused(&error.to_string()))?;
        self.make_room(principal.site, account).await?;
        let env = self.0.recorder.env();
        let cookie = bearer_token::make(env, BearerKind::SignIn);
        let hash = bearer_token::hash(BearerKind::SignIn, &cookie);
        let hash = hash.map_err(|error| refused(&error.to_string()))?;
        let (now, policy) = (env.now(), &principal.policy);
        let longest = Duration::from_secs(u64::from(policy.sign_in_hours) * 3600);
        let row = SignInRow {
            id: env.new_id(),
            hash: hash.to_string(),
            site: principal.site,
            account: account.clone(),
            account_id: principal.id,
            opened_at: now,
            seen_at: now,
            proved_at: now,
            ends_at: now.plus(longest),
            idle_us: i64::from(policy.sign_in_idle_minutes) * 60_000_000,
            address: address_of(peer),
            user_agent: plain_user_agent(user_agent),
            proof: grant.proof().to_owned(),
            credentials,
        };
        self.0.directory.db().add_sign_in(&row).await?;
        let (id, ends_at) = (row.id, row.ends_at);
        let fact = Fact::SignInOpened {
            address: row.address.clone(),
            client: row.user_agent.clone(),
            proof: row.proof.clone(),
        };
        if let Err(error) = self.0.recorder.record(&scope(&row), fact) {
            self.0.directory.db().end_sign_in(row.site, id).await?;
            return Err(error.into());
        }
        let elapsed = env.elapsed();
        self.0.sign_ins.keep(hash, Known::new(row, elapsed), elapsed);
        Ok(OpenedSignIn { id, csrf: bearer_token::csrf(&cookie), cookie, ends_at })
    }

    /// Ends those of the account that were idle longest, where it has as many as it may.
    async fn make_room(&self, site: SiteId, account: &Name) -> Result<()> {
        let rows = self.0.directory.db().sign_ins(site, Some(account), LISTED_SIGN_INS).await?;
        for row in rows.iter().skip(SIGN_INS_OF_ACCOUNT - 1) {
            self.end_sign_in(site, row.id, "the account signed in elsewhere too often").await?;
        }
        Ok(())
    }

    /// Whoever sends this cookie with a request; `peer` describes the request. `None`: nobody who
    /// is signed in.
    ///
    /// # Errors
    /// The database is away, and this node does not know the cookie.
    pub async fn signed_in(&self, cookie: &Secret, peer: Peer) -> Result<Option<SignIn>> {
        let Ok(hash) = bearer_token::hash(BearerKind::SignIn, cookie) else { return Ok(None) };
        let Some(known) = self.known_sign_in(hash).await? else { return Ok(None) };
        let row = known.row.clone();
        if row.site != peer.site {
            return Ok(None);
        }
        let (now, address) = (self.0.recorder.env().now(), address_of(&peer));
        let shown = if known.is_over(now) {
            Shown::Gone(OVER.to_owned())
        } else {
            self.shown(&row, peer).await?
        };
        let grant = match shown {
            Shown::Grant(grant) => grant,
            Shown::NotHere => return Ok(None),
            Shown::Gone(reason) => {
                self.end_sign_in(row.site, row.id, &reason).await?;
                return Ok(None);
            }
        };
        if self.0.sign_ins.see(&hash, now) {
            let noted = self.0.directory.db().note_sign_in_seen(row.id, now, &address).await;
            if let Err(error) = noted {
                tracing::debug!(%error, "a browser that is signed in is noted later");
            }
        }
        Ok(Some(SignIn {
            id: row.id,
            grant,
            csrf: bearer_token::csrf(cookie),
            opened_at: row.opened_at,
            proved_at: row.proved_at,
            ends_at: row.ends_at,
        }))
    }

    /// The sign-in of a cookie as the database has it, or had it a moment ago; while the database
    /// is away as this node knows it.
    async fn known_sign_in(&self, hash: TokenHash) -> Result<Option<Known>> {
        let elapsed = self.0.recorder.env().elapsed();
        let before = self.0.sign_ins.find(&hash);
        if let Some(known) = before.as_ref().filter(|known| known.is_fresh(elapsed)) {
            return Ok(Some(known.clone()));
        }
        match (self.0.directory.db().find_sign_in(&hash.to_string()).await, before) {
            (Ok(Some(row)), _) => {
                Ok(Some(self.0.sign_ins.keep(hash, Known::new(row, elapsed), elapsed)))
            }
            (Ok(None), _) => {
                self.0.sign_ins.forget(&hash);
                Ok(None)
            }
            (Err(_), Some(known)) => Ok(Some(known)),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// What the account of a sign-in, as it is now, is given for it.
    async fn shown(&self, row: &SignInRow, peer: Peer) -> Result<Shown> {
        let now = self.0.recorder.env().now();
        let gone = |reason: &str| Ok(Shown::Gone(reason.to_owned()));
        let principal = match self.0.directory.resolve(row.site, &row.account).await {
            Ok(Some(principal)) if principal.id == row.account_id => principal,
            Ok(_) => return gone("the account was deleted"),
            Err(AuthError::Unavailable(error)) => return Err(error.into()),
            Err(error) => return gone(&error.to_string()),
        };
        if let Some(reason) = principal.barred_at(now) {
            return gone(reason);
        }
        let Ok(stored) = serde_json::from_str::<Vec<StoredCredential>>(&row.credentials) else {
            return gone("what proved its login cannot be read");
        };
        let restored = stored.iter().map(|stored| stored.restored(&principal));
        let credentials: Vec<Credential> = match restored.collect::<std::result::Result<_, &str>>()
        {
            Ok(credentials) => credentials,
            Err(reason) => return gone(reason),
        };
        let address = peer.address.ip();
        if let Some(reason) =
            credentials.iter().find_map(|it| it.why_gone(&principal, address, now))
        {
            return gone(reason);
        }
        let listener = self.0.directory.listener_policy(peer.home, &peer.listener).await?;
        if principal.why_barred(&peer, &listener.own, now).is_some() {
            return Ok(Shown::NotHere);
        }
        let (listener, proof) = (Some(listener), row.proof.clone());
        let mut grant = Grant { principal, proof, credentials, peer, listener };
        grant.principal = grant.narrowed(grant.principal.clone(), now);
        Ok(Shown::Grant(grant))
    }

    /// Notes that who is signed in has just logged in once more; false if that was another account,
    /// or by something that is shown with each request, or if the browser is signed in no more.
    ///
    /// # Errors
    /// The database is away, or it cannot be recorded.
    pub async fn prove_sign_in(&self, cookie: &Secret, grant: &Grant) -> Result<bool> {
        let Ok(hash) = bearer_token::hash(BearerKind::SignIn, cookie) else { return Ok(false) };
        let Some(known) = self.known_sign_in(hash).await? else { return Ok(false) };
        let (row, now) = (known.row, self.0.recorder.env().now());
        let mut credentials = grant.credentials.iter().map(StoredCredential::of);
        let is_same = grant.principal().site == row.site && grant.principal().id == row.account_id;
        if !is_same || grant.credentials.is_empty() || credentials.any(|it| it.is_none()) {
            return Ok(false);
        }
        let address = address_of(grant.peer());
        let fact = Fact::SignInProved { address, proof: grant.proof().to_owned() };
        self.0.recorder.record(&scope(&row), fact)?;
        let proved = self.0.directory.db().note_sign_in_proved(row.id, now).await?;
        self.0.sign_ins.forget(&hash);
        Ok(proved)
    }

    /// Browsers that are signed in at a site, or as one of its accounts, the last seen first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn sign_ins(&self, site: SiteId, account: Option<&Name>) -> Result<Vec<SignInInfo>> {
        let rows = self.0.directory.db().sign_ins(site, account, LISTED_SIGN_INS).await?;
        Ok(rows.into_iter().map(SignInInfo::from).collect())
    }

    /// Signs a browser out, such as by its own wish; `None` if it is signed in no more.
    ///
    /// # Errors
    /// The database is away, or it cannot be recorded.
    pub async fn end_sign_in(
        &self,
        site: SiteId,
        id: SessionId,
        reason: &str,
    ) -> Result<Option<SignInInfo>> {
        self.0.sign_ins.forget_id(id);
        let Some(row) = self.0.directory.db().end_sign_in(site, id).await? else {
            return Ok(None);
        };
        record_end(&self.0.recorder, &row, reason)?;
        Ok(Some(row.into()))
    }

    /// Forgets a sign-in that was ended in the database.
    pub fn forget_sign_in(&self, id: SessionId) {
        self.0.sign_ins.forget_id(id);
    }

    /// Signs out whoever was not seen for too long, once a minute until `until`.
    pub async fn keep_sign_ins(&self, until: CancellationToken) {
        let mut ticks = interval(SIGN_IN_SEEN_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while until.run_until_cancelled(ticks.tick()).await.is_some() {
            if let Err(error) = self.end_sign_ins_over().await {
                tracing::debug!(%error, "browsers whose time is over are signed out later");
            }
        }
    }

    /// Signs out whoever was not seen for too long; says how many.
    ///
    /// # Errors
    /// The database is away, or it cannot be recorded.
    pub async fn end_sign_ins_over(&self) -> Result<usize> {
        let now = self.0.recorder.env().now();
        let over = self.0.directory.db().end_sign_ins_over(now).await?;
        for row in &over {
            self.0.sign_ins.forget_id(row.id);
            record_end(&self.0.recorder, row, OVER)?;
        }
        self.0.directory.db().forget_answered_challenges(now).await?;
        Ok(over.len())
    }
}

fn record_end(recorder: &Recorder, row: &SignInRow, reason: &str) -> Result<()> {
    let (name, reason) = (row.account.clone(), reason.to_owned());
    let ended = SignInEndedFact { name, reason, by: None };
    recorder.record(&scope(row), Fact::SignInEnded { ended })?;
    Ok(())
}

fn scope(row: &SignInRow) -> Scope {
    Scope { account: Some(row.account.clone()), session: Some(row.id), ..Scope::site(row.site) }
}

fn address_of(peer: &Peer) -> String {
    peer.address.ip().to_canonical().to_string()
}
