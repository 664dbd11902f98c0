//! Codes, and the rounds of keyboard-interactive (RFC 4256) in which they and passwords are asked.

use std::sync::Arc;

use entrepot_crypto::{SealingContext, recovery_code};
use entrepot_journal::Scope;
use entrepot_nouns::{AuthMethod, Fact, Secret};

use super::{Attempt, Fault, Verdict, completes, next_methods};
use crate::account_key::AccountKey;
use crate::codes::USED;
use crate::credential::{Credential, Proof};
use crate::principal::Principal;

impl Attempt {
    /// What `user` is asked for in one round. A name that nothing is known of is asked for a
    /// password, as most are. A client can learn in this way that an account has a code generator:
    /// that is the price of asking for both at once.
    pub async fn asked(&mut self, user: &str) -> Vec<AuthMethod> {
        let plain = vec![AuthMethod::Password];
        if self.is_other(user) {
            return plain;
        }
        let Some(principal) = self.principal(user).await.ok().flatten() else {
            return plain;
        };
        let next = next_methods(&principal, self.done());
        if !next.contains(&AuthMethod::Password) {
            let code = next.contains(&AuthMethod::Totp);
            return if code { vec![AuthMethod::Totp] } else { plain };
        }
        let after: Vec<AuthMethod> = self.done().iter().copied().chain(plain.clone()).collect();
        let code = next_methods(&principal, &after).contains(&AuthMethod::Totp);
        if code && !completes(&principal, &after) {
            vec![AuthMethod::Password, AuthMethod::Totp]
        } else {
            plain
        }
    }

    /// Checks the answers of one round. It counts whole or not at all: the client does not learn
    /// which of two answers was wrong.
    pub async fn answers(&mut self, user: &str, given: &[(AuthMethod, Secret)]) -> Verdict {
        let before = self.steps.clone();
        let mut verdict = Verdict::Refused { next: self.methods(), end: false };
        for (method, secret) in given {
            verdict = match method {
                AuthMethod::Password => self.password(user, secret).await,
                AuthMethod::Totp => self.code(user, secret).await,
                AuthMethod::PublicKey
                | AuthMethod::Certificate
                | AuthMethod::Passkey
                | AuthMethod::Oidc => Verdict::Refused { next: self.methods(), end: true },
            };
            if !matches!(verdict, Verdict::Partial { .. }) {
                break;
            }
        }
        if let Verdict::Refused { end, .. } = verdict {
            self.steps = before;
            let principal = self.principal(user).await;
            verdict = Verdict::Refused { next: self.next_told(&principal), end };
        }
        verdict
    }

    /// Checks a code of the account's generator, or one of its recovery codes.
    pub async fn code(&mut self, user: &str, code: &Secret) -> Verdict {
        let pending = match self.begin_try(user).await {
            Ok(pending) => pending,
            Err(verdict) => return verdict,
        };
        let principal = self.principal(user).await;
        let taken = match self.admit(&principal, AuthMethod::Totp) {
            Ok(principal) => match recovery_code::hash(principal.id, code) {
                Some(hash) => self.take_recovery_code(principal, &hash).await,
                None => self.take_code(principal, code).await,
            },
            Err(fault) => Err(fault),
        };
        match taken {
            Ok((principal, proof)) => {
                pending.give_back();
                self.passed(user, principal, AuthMethod::Totp, proof).await
            }
            Err(fault) => self.fail(user, &principal, pending, fault).await,
        }
    }

    /// Takes a code that stands in for one of the generator; for good, so not while the database is
    /// away.
    async fn take_recovery_code(
        &self,
        principal: Arc<Principal>,
        hash: &str,
    ) -> Result<(Arc<Principal>, Proof), Fault> {
        let sealed = principal.account.totp_sealed.clone();
        let sealed = sealed.ok_or(Fault::Wrong("the account has no code generator"))?;
        let db = self.gate.0.directory.db();
        match db.take_recovery_code(principal.id, hash).await {
            Ok(true) => {}
            Ok(false) => return Err(Fault::Wrong("wrong or used recovery code")),
            Err(error) => return Err(Fault::Later(error.to_string())),
        }
        let left = db.recovery_codes_left(principal.id).await.unwrap_or_default();
        let address = self.peer.address.ip().to_string();
        let account = Some(principal.account.name.clone());
        let scope = Scope { account, ..Scope::site(principal.site) };
        let recorded =
            self.gate.0.recorder.record(&scope, Fact::RecoveryCodeUsed { address, left });
        recorded.map_err(|error| Fault::Later(error.to_string()))?;
        let credential = Credential::Code(sealed);
        Ok((principal, Proof { text: "recovery code".to_owned(), credential }))
    }

    async fn take_code(
        &self,
        principal: Arc<Principal>,
        code: &Secret,
    ) -> Result<(Arc<Principal>, Proof), Fault> {
        let name = &principal.account.name;
        let sealed = principal.account.totp_sealed.clone();
        let sealed = sealed.ok_or(Fault::Wrong("the account has no code generator"))?;
        let master = self.gate.0.directory.master();
        let site = self.gate.0.directory.site_name(principal.site).await.ok().flatten();
        let site = site.ok_or_else(|| Fault::Later("its site cannot be looked up".to_owned()))?;
        let context = SealingContext::code_generator(&site, name);
        let secret = master.open(&context, &sealed).map_err(|error| {
            tracing::error!(account = %name, %error, "the secret of a code generator is lost");
            Fault::Later("the secret of its code generator cannot be opened".to_owned())
        })?;
        let account = AccountKey { site: principal.site, name: name.clone() };
        let now = self.gate.0.recorder.env().now();
        let step = self.gate.0.codes.take(&account, &secret, code, now).map_err(Fault::Wrong)?;
        match self.gate.0.directory.db().take_code(principal.site, name, step).await {
            Ok(true) => {}
            Ok(false) => return Err(Fault::Wrong(USED)),
            // Known accounts log in while the database is away.
            Err(error) => tracing::warn!(%error, "a code is taken on this node only"),
        }
        let credential = Credential::Code(sealed);
        Ok((principal, Proof { text: "code".to_owned(), credential }))
    }
}
