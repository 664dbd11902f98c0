//! Certificates that listeners have from authorities (ACME): what is known of each, the accounts
//! there, and the answers to challenges. One node asks for a certificate, by a lease; each answers.

use std::time::Duration;

use entrepot_nouns::acme::AcmeSubject;
use entrepot_nouns::{Name, NodeId, Sealed, SiteId, Timestamp};

use crate::error::Result;
use crate::moment::{now_postgres, now_sqlite};
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::Tx;
use crate::{Db, Dialect};

/// The listener of a site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerPlace {
    /// The site that owns it.
    pub site: SiteId,
    /// Its name there.
    pub listener: Name,
}

/// What is known of the certificate of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcmeOrder {
    /// The last certificate that came.
    pub issued: Option<AcmeIssued>,
    /// The settings of the last try, as JSON.
    pub settings: Option<String>,
    /// The failures since a certificate came, or since the settings changed.
    pub failure: Option<AcmeFailure>,
    /// An administrator wants it renewed now.
    pub asked: bool,
}

/// A certificate that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeIssued {
    /// What it was asked for with.
    pub subject: AcmeSubject,
    /// Not valid before.
    pub not_before: Timestamp,
    /// Not valid from this moment on.
    pub not_after: Timestamp,
}

/// Why no certificate came, since how many tries in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeFailure {
    /// How many tries have failed in a row.
    pub count: u64,
    /// The code of the last one.
    pub code: String,
    /// Why, in plain words.
    pub problem: String,
    /// It is not tried again before.
    pub retry_at: Timestamp,
}

/// What is answered to a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeAnswer {
    /// By which the authority asks over HTTP.
    pub token: String,
    /// The name that is checked, in small letters.
    pub name: String,
    /// The answer: the token, a point and the thumbprint of the account's key (RFC 8555 §8.1).
    pub key_authorization: String,
    /// It is deleted after that.
    pub expires_at: Timestamp,
}

macro_rules! lease {
    ($now:ident) => {
        sql!(
            "UPDATE acme_orders SET node = $1, leased_until = $2 + ",
            $now!("3"),
            " WHERE site = $4 AND listener = $5 AND (node = $1 OR leased_until < ",
            $now!("3"),
            ")",
        )
    };
}

macro_rules! columns {
    () => {
        "site, listener, subject, not_before, not_after, settings, failures, code, problem, \
         retry_at, asked"
    };
}

statements! {
    LEASE_SQLITE = lease!(now_sqlite);
    MAKE = sql!(
        "INSERT INTO acme_orders (site, listener, failures, retry_at, asked, leased_until) ",
        "VALUES ($1, $2, 0, 0, FALSE, 0) ON CONFLICT (site, listener) DO NOTHING",
    );
    RELEASE = sql!(
        "UPDATE acme_orders SET leased_until = 0 WHERE site = $1 AND listener = $2 AND node = $3",
    );
    ALL_ORDERS = sql!("SELECT ", columns!(), " FROM acme_orders ORDER BY site, listener");
    ORDER = sql!("SELECT ", columns!(), " FROM acme_orders WHERE site = $1 AND listener = $2");
    ISSUED = sql!(
        "UPDATE acme_orders SET subject = $1, not_before = $2, not_after = $3, settings = $4, ",
        "failures = 0, code = NULL, problem = NULL, retry_at = 0, asked = FALSE ",
        "WHERE site = $5 AND listener = $6",
    );
    FAILED = sql!(
        "UPDATE acme_orders SET settings = $1, failures = $2, code = $3, problem = $4, ",
        "retry_at = $5, asked = FALSE WHERE site = $6 AND listener = $7",
    );
    ASK = sql!("UPDATE acme_orders SET asked = TRUE WHERE site = $1 AND listener = $2");
    FORGET_ORDER = sql!("DELETE FROM acme_orders WHERE site = $1 AND listener = $2");
    FORGET_ACCOUNTS = sql!("DELETE FROM acme_accounts WHERE site = $1 AND listener = $2");
    ACCOUNT = sql!(
        "SELECT account_sealed FROM acme_accounts ",
        "WHERE site = $1 AND listener = $2 AND directory = $3",
    );
    ACCOUNTS = sql!(
        "SELECT site, listener, directory, account_sealed FROM acme_accounts ",
        "WHERE site = $1 ORDER BY listener, directory",
    );
    SET_ACCOUNT = sql!(
        "INSERT INTO acme_accounts (site, listener, directory, account_sealed) ",
        "VALUES ($1, $2, $3, $4) ON CONFLICT (site, listener, directory) ",
        "DO UPDATE SET account_sealed = excluded.account_sealed",
    );
    FORGET_ACCOUNT = sql!(
        "DELETE FROM acme_accounts WHERE site = $1 AND listener = $2 AND directory = $3",
    );
    ADD_ANSWER = sql!(
        "INSERT INTO acme_challenges (token, name, key_authorization, expires_at) ",
        "VALUES ($1, $2, $3, $4) ON CONFLICT (token) DO UPDATE SET name = excluded.name, ",
        "key_authorization = excluded.key_authorization, expires_at = excluded.expires_at",
    );
    FORGET_ANSWER = sql!("DELETE FROM acme_challenges WHERE token = $1 OR expires_at <= $2");
    ANSWER_TO_TOKEN = sql!("SELECT key_authorization FROM acme_challenges WHERE token = $1");
    ANSWER_FOR_NAME = sql!(
        "SELECT key_authorization FROM acme_challenges WHERE name = $1 ",
        "ORDER BY expires_at DESC LIMIT 1",
    );
}

/// As `LEASE_SQLITE`, by the server's clock.
pub(crate) const LEASE_POSTGRES: Sql = lease!(now_postgres);

fn order(row: &Row<'_>) -> Result<(ListenerPlace, AcmeOrder)> {
    let place = ListenerPlace { site: SiteId(row.id(0)?), listener: row.name(1)? };
    let time = |index| row.maybe_int(index).map(|at| at.map(Timestamp));
    let issued = match (row.maybe_text(2)?, time(3)?, time(4)?) {
        (Some(_), Some(not_before), Some(not_after)) => {
            Some(AcmeIssued { subject: row.json(2)?, not_before, not_after })
        }
        _ => None,
    };
    let count = row.unsigned(6)?;
    let failure = AcmeFailure {
        count,
        code: row.maybe_text(7)?.unwrap_or_default(),
        problem: row.maybe_text(8)?.unwrap_or_default(),
        retry_at: row.time(9)?,
    };
    let failure = (count > 0).then_some(failure);
    Ok((place, AcmeOrder { issued, settings: row.maybe_text(5)?, failure, asked: row.bool(10)? }))
}

impl Db {
    /// What is known of the certificates of all listeners that one was asked for.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn acme_orders(&self) -> Result<Vec<(ListenerPlace, AcmeOrder)>> {
        self.read(ALL_ORDERS, Vec::new(), order).await
    }

    /// What is known of the certificate of a listener.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn acme_order(&self, place: &ListenerPlace) -> Result<Option<AcmeOrder>> {
        let found = self.read(ORDER, of(place).to_vec(), order).await?;
        Ok(found.into_iter().next().map(|(_, order)| order))
    }

    /// Makes `node` the one that asks for the certificate of a listener, for `time` from now on;
    /// false if another one is.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn lease_acme_order(
        &self,
        place: &ListenerPlace,
        node: NodeId,
        time: Duration,
    ) -> Result<bool> {
        self.execute(MAKE, of(place).to_vec()).await?;
        let sql = match self.dialect() {
            Dialect::Sqlite => LEASE_SQLITE,
            Dialect::Postgres => LEASE_POSTGRES,
        };
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let [site, listener] = of(place);
        let values = vec![node.0.into(), time.into(), self.clock(), site, listener];
        Ok(self.execute(sql, values).await? > 0)
    }

    /// Lets another node ask for the certificate of a listener.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn release_acme_order(&self, place: &ListenerPlace, node: NodeId) -> Result<()> {
        let [site, listener] = of(place);
        self.execute(RELEASE, vec![site, listener, node.0.into()]).await.map(drop)
    }

    /// Notes that a certificate came, by these settings.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn note_acme_issued(
        &self,
        place: &ListenerPlace,
        issued: &AcmeIssued,
        settings: &str,
    ) -> Result<()> {
        let subject = Value::text(to_json(&issued.subject)?);
        let (from, to) = (issued.not_before.into(), issued.not_after.into());
        let [site, listener] = of(place);
        let values = vec![subject, from, to, settings.into(), site, listener];
        self.execute(ISSUED, values).await.map(drop)
    }

    /// Notes that none came, by these settings.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn note_acme_failed(
        &self,
        place: &ListenerPlace,
        failure: &AcmeFailure,
        settings: &str,
    ) -> Result<()> {
        let AcmeFailure { count, code, problem, retry_at } = failure;
        let [site, listener] = of(place);
        let values = vec![
            settings.into(),
            Value::unsigned(*count),
            code.as_str().into(),
            problem.as_str().into(),
            (*retry_at).into(),
            site,
            listener,
        ];
        self.execute(FAILED, values).await.map(drop)
    }

    /// Asks for the certificate of a listener to be renewed now.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn ask_for_acme_renewal(&self, place: &ListenerPlace) -> Result<()> {
        self.execute(MAKE, of(place).to_vec()).await?;
        self.execute(ASK, of(place).to_vec()).await.map(drop)
    }

    /// The account of a listener at an authority, sealed.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn acme_account(
        &self,
        place: &ListenerPlace,
        directory: &str,
    ) -> Result<Option<Sealed>> {
        let [site, listener] = of(place);
        let values = vec![site, listener, directory.into()];
        let found = self.read(ACCOUNT, values, |row| Ok(Sealed(row.text(0)?))).await?;
        Ok(found.into_iter().next())
    }

    /// Keeps the account of a listener at an authority.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn set_acme_account(
        &self,
        place: &ListenerPlace,
        directory: &str,
        account: &Sealed,
    ) -> Result<()> {
        self.execute(SET_ACCOUNT, account_values(place, directory, account)).await.map(drop)
    }

    /// Forgets an account that the authority does not know any more.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_acme_account(&self, place: &ListenerPlace, directory: &str) -> Result<()> {
        let [site, listener] = of(place);
        self.execute(FORGET_ACCOUNT, vec![site, listener, directory.into()]).await.map(drop)
    }

    /// Lets every node answer a challenge.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn add_acme_answer(&self, answer: &AcmeAnswer) -> Result<()> {
        let AcmeAnswer { token, name, key_authorization, expires_at } = answer;
        let (token, name) = (token.as_str().into(), name.as_str().into());
        let values = vec![token, name, key_authorization.as_str().into(), (*expires_at).into()];
        self.execute(ADD_ANSWER, values).await.map(drop)
    }

    /// Deletes the answer to a challenge that is over, and those whose time is over.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_acme_answer(&self, token: &str, now: Timestamp) -> Result<()> {
        self.execute(FORGET_ANSWER, vec![token.into(), now.into()]).await.map(drop)
    }

    /// What is answered to who asks by a token.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn acme_answer_to(&self, token: &str) -> Result<Option<String>> {
        let found = self.read(ANSWER_TO_TOKEN, vec![token.into()], |row| row.text(0)).await?;
        Ok(found.into_iter().next())
    }

    /// What is answered to who asks by a name.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn acme_answer_for(&self, name: &str) -> Result<Option<String>> {
        let found = self.read(ANSWER_FOR_NAME, vec![name.into()], |row| row.text(0)).await?;
        Ok(found.into_iter().next())
    }
}

/// The account of a listener at an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAcmeAccount {
    /// The listener that it is of.
    pub place: ListenerPlace,
    /// The directory of the authority.
    pub directory: String,
    /// With its private key.
    pub sealed: Sealed,
}

impl Tx {
    /// The accounts of the listeners of a site.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn acme_accounts(&mut self, site: SiteId) -> Result<Vec<StoredAcmeAccount>> {
        let read = |row: &Row<'_>| {
            let place = ListenerPlace { site: SiteId(row.id(0)?), listener: row.name(1)? };
            Ok(StoredAcmeAccount { place, directory: row.text(2)?, sealed: Sealed(row.text(3)?) })
        };
        self.work.query(ACCOUNTS, vec![site.0.into()], read).await
    }

    /// Keeps an account that is sealed anew.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn reseal_acme_account(&mut self, account: &StoredAcmeAccount) -> Result<()> {
        let values = account_values(&account.place, &account.directory, &account.sealed);
        self.work.execute(SET_ACCOUNT, values).await.map(drop)
    }

    /// Forgets what is known of the certificate of a listener that is deleted, and its accounts.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_acme(&mut self, place: &ListenerPlace) -> Result<()> {
        self.work.execute(FORGET_ORDER, of(place).to_vec()).await?;
        self.work.execute(FORGET_ACCOUNTS, of(place).to_vec()).await.map(drop)
    }
}

fn of(place: &ListenerPlace) -> [Value; 2] {
    [place.site.0.into(), (&place.listener).into()]
}

fn account_values(place: &ListenerPlace, directory: &str, account: &Sealed) -> Vec<Value> {
    let [site, listener] = of(place);
    vec![site, listener, directory.into(), account.0.as_str().into()]
}
