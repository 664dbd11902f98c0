//! One order: the account, the challenges, the request, the certificate (RFC 8555 §7).

use entrepot_crypto::{MasterKey, SealingContext};
use entrepot_db::{AcmeAnswer, Db, ListenerPlace};
use entrepot_net::tls::{
    CertificateRequest, ClientCertificates, OwnCertificate, TlsConfig, TlsOptions, TlsVersion,
    certificate_request,
};
use entrepot_nouns::acme::{Acme, AcmeChallenge};
use entrepot_nouns::{Env, Name, Secret};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount,
    NewOrder, Order, OrderStatus,
};
use tokio::time::timeout;

use crate::error::{AcmeError, Failed, is_unknown_account};
use crate::limits::{ANSWER_TIME, FRESH_ORDERS, ORDER_TIME, POLL_FIRST, POLL_LONGEST};
use crate::transport::Transport;

/// What a certificate is ordered with.
pub(crate) struct Buyer<'a> {
    pub(crate) db: &'a Db,
    pub(crate) env: &'a Env,
    pub(crate) master: &'a MasterKey,
    /// The listener that is to show it.
    pub(crate) place: &'a ListenerPlace,
    /// The name of its site, for which secrets are sealed.
    pub(crate) site: &'a Name,
    pub(crate) acme: &'a Acme,
}

/// A certificate that came, and fits its key.
#[derive(Debug)]
pub(crate) struct Bought {
    /// PEM, the own certificate first.
    pub(crate) chain: String,
    pub(crate) key: Secret,
    /// What it says of itself.
    pub(crate) says: OwnCertificate,
}

impl Buyer<'_> {
    /// Orders a certificate.
    pub(crate) async fn buy(&self) -> Result<Bought, Failed> {
        let transport = Transport::new(self.acme, self.env);
        let ordering = until_fresh(|| self.order(&transport));
        let ordering = timeout(ORDER_TIME, ordering).await;
        let ordered = ordering.unwrap_or(Err(AcmeError::Timeout));
        ordered.map_err(|error| Failed { error, wait: transport.wait() })
    }

    async fn order(&self, transport: &Transport) -> Result<Bought, AcmeError> {
        let names = &self.acme.names;
        let identifiers: Vec<Identifier> =
            names.iter().map(|name| Identifier::Dns(name.as_str().to_owned())).collect();
        let mut order = self.begin(transport, &NewOrder::new(&identifiers)).await?;
        let mut tokens = Vec::new();
        let proven = self.prove(transport, &mut order, &mut tokens).await;
        for token in tokens {
            self.db.forget_acme_answer(&token, self.env.now()).await?;
        }
        proven?;
        let names = names.iter().map(|name| name.as_str().to_owned()).collect();
        let CertificateRequest { der, key } = certificate_request(names)?;
        order.finalize_csr(&der).await?;
        settle(transport, &mut order, OrderStatus::Processing).await?;
        let chain = order.certificate().await?;
        let chain = chain.ok_or_else(|| AcmeError::Answer("it has no certificate".to_owned()))?;
        self.checked(chain, key)
    }

    /// The order, by the account that the listener has there, or by a new one.
    async fn begin(&self, transport: &Transport, new: &NewOrder<'_>) -> Result<Order, AcmeError> {
        if let Some(account) = self.known_account(transport).await? {
            match account.new_order(new).await {
                Err(error) if is_unknown_account(&error) => {
                    let directory = &self.acme.directory;
                    tracing::warn!(directory, "the authority does not know our account any more");
                    self.db.forget_acme_account(self.place, directory).await?;
                }
                answered => return Ok(answered?),
            }
        }
        Ok(self.new_account(transport).await?.new_order(new).await?)
    }

    async fn known_account(&self, transport: &Transport) -> Result<Option<Account>, AcmeError> {
        let sealed = self.db.acme_account(self.place, &self.acme.directory).await?;
        let Some(sealed) = sealed else { return Ok(None) };
        let secret = self.master.open(&self.context(), &sealed).map_err(AcmeError::Account)?;
        let credentials: AccountCredentials = serde_json::from_slice(secret.expose())
            .map_err(|_| AcmeError::Answer("its account cannot be read".to_owned()))?;
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        Ok(Some(builder.from_credentials(credentials).await?))
    }

    /// Makes an account and keeps it before it is used.
    async fn new_account(&self, transport: &Transport) -> Result<Account, AcmeError> {
        let contact: Vec<String> =
            self.acme.contact.iter().map(|address| format!("mailto:{address}")).collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let directory = self.acme.directory.clone();
        let (account, credentials) = builder.create(&new, directory, None).await?;
        let secret = serde_json::to_vec(&credentials)
            .map_err(|_| AcmeError::Answer("its account cannot be written".to_owned()))?;
        let sealed = self.master.seal(self.env, &self.context(), &Secret::new(secret));
        let sealed = sealed.map_err(AcmeError::Account)?;
        self.db.set_acme_account(self.place, &self.acme.directory, &sealed).await?;
        Ok(account)
    }

    fn context(&self) -> SealingContext {
        SealingContext::acme_account(self.site, &self.place.listener)
    }

    /// Lets the authority see that all names lead here. `tokens` name the answers that were kept
    /// for that.
    async fn prove(
        &self,
        transport: &Transport,
        order: &mut Order,
        tokens: &mut Vec<String>,
    ) -> Result<(), AcmeError> {
        let kind = match self.acme.challenge {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let mut asked = Ok(());
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            let name = authorization.identifier().to_string();
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => return Err(self.unverified(name, &format!("it is {status:?}"))),
            }
            let challenge = authorization.challenge(kind.clone());
            let Some(mut challenge) = challenge else {
                return Err(self.unverified(name, "the authority does not check it that way"));
            };
            let answer = AcmeAnswer {
                token: challenge.token.clone(),
                name: name.to_ascii_lowercase(),
                key_authorization: challenge.key_authorization().as_str().to_owned(),
                expires_at: self.env.now().plus(ANSWER_TIME),
            };
            tokens.push(answer.token.clone());
            self.db.add_acme_answer(&answer).await?;
            asked = challenge.set_ready().await.map_err(AcmeError::from);
            if asked.is_err() {
                break;
            }
        }
        let settled = match asked {
            Ok(()) => settle(transport, order, OrderStatus::Pending).await,
            // An authority that is quick says in this very answer that it could not verify.
            Err(error) => Err(error),
        };
        match settled {
            Ok(OrderStatus::Ready | OrderStatus::Valid) => Ok(()),
            Ok(_) => {
                let silent = "the order is invalid, and no name of it says why".to_owned();
                Err(self.why_unverified(order, AcmeError::Refused(silent)).await)
            }
            Err(error @ AcmeError::Refused(_)) => Err(self.why_unverified(order, error).await),
            Err(error) => Err(error),
        }
    }

    /// Which name the authority could not verify, and why; `otherwise` if it says so of none.
    async fn why_unverified(&self, order: &mut Order, otherwise: AcmeError) -> AcmeError {
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            let name = authorization.identifier().to_string();
            let Ok(state) = authorization.refresh().await else { continue };
            let problem = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
            if let Some(problem) = problem {
                return self.unverified(name, &AcmeError::said(problem));
            }
        }
        otherwise
    }

    fn unverified(&self, name: String, problem: &str) -> AcmeError {
        let (challenge, problem) = (self.acme.challenge, problem.to_owned());
        AcmeError::Unverified { name, challenge, problem }
    }

    /// A certificate that a listener cannot show must not take the place of one that it can.
    fn checked(&self, chain: String, key: Secret) -> Result<Bought, AcmeError> {
        let options = TlsOptions {
            chain: chain.clone().into_bytes(),
            key: key.clone(),
            clients: ClientCertificates::Off,
            least: TlsVersion::Tls12,
        };
        TlsConfig::new(&options, self.env)?;
        let says = OwnCertificate::read(chain.as_bytes())?;
        let has = |name: &str| says.names.iter().any(|it| it == name);
        match self.acme.names.iter().find(|name| !has(name.as_str())) {
            None => Ok(Bought { chain, key, says }),
            Some(name) => Err(AcmeError::Answer(format!("the certificate does not name '{name}'"))),
        }
    }
}

/// Orders anew where the authority held the nonce of a request for stale, which says nothing
/// against the order (RFC 8555 §6.5). The client has sent that request three times by then.
async fn until_fresh<T, F>(order: impl Fn() -> F) -> Result<T, AcmeError>
where
    F: Future<Output = Result<T, AcmeError>>,
{
    let mut tries = 1;
    loop {
        match order().await {
            Err(AcmeError::StaleNonce(_)) if tries < FRESH_ORDERS => tries += 1,
            ended => return ended,
        }
    }
}

/// Waits until the order is in another state than this one.
async fn settle(
    transport: &Transport,
    order: &mut Order,
    from: OrderStatus,
) -> Result<OrderStatus, AcmeError> {
    let mut pause = POLL_FIRST;
    loop {
        let state = order.refresh().await?;
        if state.status != from {
            return Ok(state.status);
        }
        let wanted = transport.wait().unwrap_or(pause);
        tokio::time::sleep(wanted.clamp(POLL_FIRST, POLL_LONGEST)).await;
        pause = (pause * 2).min(POLL_LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn a_stale_nonce_ends_no_order_unless_each_is_stale() {
        let stale = || AcmeError::StaleNonce("invalid anti-replay nonce".to_owned());
        for (stale_first, wanted, calls) in [(0, "EP1136", 1), (3, "EP1136", 4), (9, "EP1132", 4)] {
            let called = Cell::new(0);
            let ordered = until_fresh(|| {
                called.set(called.get() + 1);
                let error = if called.get() <= stale_first { stale() } else { AcmeError::Timeout };
                ready(Err::<(), _>(error))
            });
            assert_eq!(ordered.await.unwrap_err().code(), wanted);
            assert_eq!(called.get(), calls);
        }
        let fresh = until_fresh(|| ready(Ok::<_, AcmeError>(7))).await;
        assert!(matches!(fresh, Ok(7)));
    }
}
