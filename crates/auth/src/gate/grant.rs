//! The proof that a login succeeded, as long as its session lives.

use std::sync::Arc;

use entrepot_nouns::{Protocol, Rights, Timestamp, TokenScope};

use crate::credential::Credential;
use crate::peer::Peer;
use crate::policy::{EffectivePolicy, ListenerPolicy};
use crate::principal::Principal;
use crate::rates::SharedRates;

/// Proof that someone was admitted. Only the [`Gate`](crate::Gate) makes one:
///
/// ```compile_fail,E0451
/// let grant = entrepot_auth::Grant {
///     principal: todo!(),
///     proof: todo!(),
///     credentials: todo!(),
///     peer: todo!(),
///     listener: todo!(),
/// };
/// ```
#[derive(Clone, Debug)]
pub struct Grant {
    pub(super) principal: Arc<Principal>,
    pub(super) proof: String,
    pub(super) credentials: Vec<Credential>,
    pub(super) peer: Peer,
    pub(super) listener: Option<Arc<ListenerPolicy>>,
}

impl Grant {
    /// What everybody who came in by the same listener shares; a rule came in by none.
    pub(crate) fn listener_rates(&self) -> Option<&SharedRates> {
        self.listener.as_deref().map(|listener| &listener.shared)
    }
    /// Who was admitted, as resolved at that moment.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }
    /// What proved it, such as `public-key SHA256:… + password`.
    pub fn proof(&self) -> &str {
        &self.proof
    }
    /// Why it would not be given now to `principal`, the same account as it is now, by a listener
    /// of this policy; `None`: it would.
    pub(crate) fn why_gone(
        &self,
        principal: &Principal,
        listener: &EffectivePolicy,
        now: Timestamp,
    ) -> Option<&'static str> {
        let address = self.peer.address.ip();
        let barred = match self.peer.protocol {
            // A rule comes from no address.
            Protocol::Internal => principal.barred_at(now),
            _ => principal.why_barred(&self.peer, listener, now),
        };
        let mut credentials = self.credentials.iter();
        barred.or_else(|| credentials.find_map(|it| it.why_gone(principal, address, now)))
    }

    /// `principal`, the same account as it is now, with no more rights than what proved the login
    /// gives.
    pub(crate) fn narrowed(&self, principal: Arc<Principal>, now: Timestamp) -> Arc<Principal> {
        let address = self.peer.address.ip();
        let each = self.credentials.iter().map(|it| it.rights(&principal, address, now));
        let rights = each.fold(Rights::all(), Rights::and);
        if rights.is_all() { principal } else { Arc::new(principal.with_at_most(rights)) }
    }

    /// What the API token that proved the login may be used for; `None`: no token did, and whatever
    /// the account may do is allowed.
    pub fn scopes(&self) -> Option<&[TokenScope]> {
        self.scopes_in(&self.principal)
    }

    /// As [`Grant::scopes`], as `principal`, the same account as it is now, has the token.
    pub(crate) fn scopes_in<'a>(&self, principal: &'a Principal) -> Option<&'a [TokenScope]> {
        let hash = self.credentials.iter().find_map(|credential| match credential {
            Credential::Token(hash) => Some(*hash),
            _ => None,
        })?;
        let token = principal.api_token(hash);
        Some(token.map_or(&[], |token| &token.scopes))
    }

    /// True if another service decided about the login, so that an account here holds nothing that
    /// would let it in without that service.
    pub fn is_decided_elsewhere(&self) -> bool {
        self.credentials.contains(&Credential::Hook)
    }

    /// The client that logged in, or the rule that acts as the account.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
}
