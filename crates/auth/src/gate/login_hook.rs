//! Logins with a password that an external check, the login hook, decides about.

use entrepot_nouns::login::LoginCheck;
use entrepot_nouns::{AccountType, AuthMethod, Secret};

use super::{Attempt, Fault, Verdict};
use crate::credential::{Credential, Proof};
use crate::login_hook::{HookDecision, PasswordLogin};
use crate::penalties::PasswordTry;
use crate::principal::Principal;

impl Attempt {
    /// Checks a password by the hook: the name has none here.
    pub(super) async fn password_by_hook(
        &mut self,
        user: &str,
        password: &Secret,
        check: &LoginCheck,
        pending: PasswordTry,
    ) -> Verdict {
        let now = self.gate.0.recorder.env().now();
        let login = PasswordLogin { user, password, peer: &self.peer };
        let decision = self.gate.0.hooks.ask(check, &login, now).await;
        let unknown = Ok(None);
        let fault = match decision {
            HookDecision::Busy => return self.busy(user, pending),
            HookDecision::Refused => Fault::Wrong("the login hook refused"),
            HookDecision::Failed(why) => {
                let listener = &self.peer.listener;
                tracing::warn!(code = "EP0306", %listener, "the login hook did not decide: {why}");
                Fault::Later(format!("the login hook did not decide: {why}"))
            }
            HookDecision::Allowed(name) => {
                let principal = self.principal(&name).await;
                match principal {
                    Err(error) => Fault::Later(error.to_string()),
                    Ok(None) => Fault::Barred("the login hook names no account".to_owned()),
                    Ok(Some(principal)) => match self.why_not_by_hook(check, &principal) {
                        Some(reason) => Fault::Barred(reason.to_owned()),
                        None => {
                            pending.give_back();
                            let text = if user == name {
                                "password, by the login hook".to_owned()
                            } else {
                                format!("password of '{user}', by the login hook")
                            };
                            let proof = Proof { text, credential: Credential::Hook };
                            return self.admit_as(user, principal, vec![proof]).await;
                        }
                    },
                }
            }
        };
        self.fail(user, &unknown, pending, fault).await
    }

    /// Why a hook may not admit a login as this account.
    fn why_not_by_hook(&self, check: &LoginCheck, principal: &Principal) -> Option<&'static str> {
        let now = self.gate.0.recorder.env().now();
        if let Some(reason) = principal.why_barred(&self.peer, self.here(), now) {
            return Some(reason);
        }
        if principal.account.account_type == AccountType::Admin {
            return Some("a login hook lets no administrator in");
        }
        if !check.may_admit(&principal.lineage) {
            return Some("the login hook may not let anybody in as this account");
        }
        let alone = |chain: &Vec<AuthMethod>| chain.as_slice() == [AuthMethod::Password];
        let more = if principal.login.is_empty() {
            principal.account.totp_sealed.is_some()
        } else {
            !principal.login.iter().any(alone)
        };
        more.then_some("the account asks for more than a password")
    }
}
