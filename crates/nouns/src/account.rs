//! Accounts: whoever may act.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::certificate::CertificateName;
use crate::document::OnByDefault;
use crate::limits::CERTIFICATES;
use crate::link::LinkTerms;
use crate::mount::Rights;
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference, check_users, users};
use crate::oidc::{OidcIdentity, check_identities};
use crate::path::VPath;
use crate::role::{AdminRights, Role};
use crate::secret::{Sealed, Secret};
use crate::time::Timestamp;

/// What an account stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccountType {
    /// A human being.
    #[default]
    Person,
    /// Another organisation's machine or people.
    Partner,
    /// A machine of ours; rules run as one.
    Service,
    /// May change configuration.
    Admin,
    /// Cannot log in; others inherit from it.
    Group,
    /// A share link: who shows its secret may use some files of another account.
    Link,
}

/// One way to prove who one is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthMethod {
    /// A password, checked against the account's hash or by a login hook.
    Password,
    /// A signature of an SSH key or certificate (RFC 4252 §7).
    PublicKey,
    /// A time-based code (RFC 6238), after something else.
    Totp,
    /// A certificate of TLS (FTPS, RFC 4217 §10).
    Certificate,
    /// A passkey, which a browser shows; alone, for it is two factors by itself.
    Passkey,
    /// What a provider of OpenID Connect says of a browser's person; first, or alone.
    Oidc,
}

/// A protocol that an account may log in over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginProtocol {
    /// SFTP, and SCP, which comes over the same listeners.
    Sftp,
    /// FTP whose control connection is under TLS at the login; data must be encrypted then too,
    /// unless the account has `ftp` besides.
    Ftps,
    /// FTP in clear text, where a listener lets it.
    Ftp,
    /// HTTPS; also HTTP in clear text, which comes from this machine or through a proxy that the
    /// operator has named, and that speaks TLS with the client.
    Https,
}

/// Whoever may act: person, partner, service, admin; also a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The login name.
    pub name: Name,
    /// What it stands for.
    #[serde(rename = "type", default)]
    pub account_type: AccountType,
    /// Of an account of type `admin`: what it may do. Unset: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// A disabled account is refused at every door.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// Groups it inherits mounts, policy and required methods from, first match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Name>,
    /// Argon2id hash in PHC string form; never the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
    /// Accepted in documents and requests only: hashed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// Secret of its code generator, sealed (base32 inside, RFC 6238 with SHA-1, 6 digits, 30 s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totp_sealed: Option<Sealed>,
    /// Accepted in documents and requests only, as base32: sealed on the way in, never stored or
    /// shown.
    #[serde(default, skip_serializing)]
    pub totp: Option<Secret>,
    /// Certificates of TLS that are its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateName>,
    /// Persons that it is, as providers of OpenID Connect know them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oidc: Vec<OidcIdentity>,
    /// Alternatives of methods that must all succeed, in order. Empty: any single method the
    /// account has credentials for, followed by a code if it has a code generator.
    /// `[[public-key, password]]` asks for both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub login: Vec<Vec<AuthMethod>>,
    /// Protocols that it may log in over. Empty: those of the nearest group that names any, else
    /// all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<LoginProtocol>,
    /// Policy of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Name>,
    /// Where its sessions start.
    #[serde(default = "VPath::root", skip_serializing_if = "VPath::is_root")]
    pub home: VPath,
    /// Refused from this moment on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Rights that its mounts may not exceed; all by default.
    #[serde(default = "Rights::all", skip_serializing_if = "Rights::is_all")]
    pub rights: Rights,
    /// Of a share link, and of nothing else: what it opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkTerms>,
    /// Accounts of type admin, or groups, who may change the account and whatever gives its rights
    /// away: rules that act as it, its keys and mounts, members of the group that it is. Empty:
    /// everybody who may change the configuration. Commands on the machine of a node may always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<Name>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Account {
    /// A new account of this name with every default.
    pub fn new(name: Name, account_type: AccountType) -> Self {
        Account {
            name,
            account_type,
            role: None,
            enabled: true,
            groups: Vec::new(),
            password_hash: None,
            password: None,
            totp_sealed: None,
            totp: None,
            certificates: Vec::new(),
            oidc: Vec::new(),
            login: Vec::new(),
            protocols: Vec::new(),
            policy: None,
            home: VPath::root(),
            expires_at: None,
            rights: Rights::all(),
            link: None,
            managers: Vec::new(),
            note: String::new(),
        }
    }

    /// What it may do as an administrator; of other types nothing.
    pub fn admin_rights(&self) -> AdminRights {
        match self.account_type {
            AccountType::Admin => self.role.unwrap_or(Role::Administrator).rights(),
            AccountType::Person
            | AccountType::Partner
            | AccountType::Service
            | AccountType::Group
            | AccountType::Link => AdminRights::none(),
        }
    }
}

impl Noun for Account {
    const KIND: Kind = Kind::Account;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        let groups = self.groups.iter().enumerate();
        let groups =
            groups.map(|(at, name)| Reference::new(format!("groups[{at}]"), Kind::Account, name));
        let policy = self.policy.iter();
        let policy = policy.map(|name| Reference::new("policy", Kind::Policy, name));
        let owner = self.link.iter();
        let owner = owner.map(|link| Reference::new("link.owner", Kind::Account, &link.owner));
        let managers = users("managers", &self.managers);
        groups.chain(policy).chain(owner).chain(managers).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        check_users("managers", &self.managers)?;
        if self.groups.contains(&self.name) {
            return Err(FieldError::new("groups", "an account cannot be its own group"));
        }
        if self.role.is_some() && self.account_type != AccountType::Admin {
            return Err(FieldError::new("role", "only an account of type admin has a role"));
        }
        let group = self.account_type == AccountType::Group;
        if group && (self.password_hash.is_some() || self.password.is_some()) {
            return Err(FieldError::new("password", "a group cannot log in, remove its password"));
        }
        if group && (self.totp_sealed.is_some() || self.totp.is_some()) {
            return Err(FieldError::new("totp", "a group cannot log in, remove its generator"));
        }
        if group && !self.certificates.is_empty() {
            let problem = "a group cannot log in, remove its certificates";
            return Err(FieldError::new("certificates", problem));
        }
        if group && !self.oidc.is_empty() {
            let problem = "a group cannot log in, remove who it is at providers";
            return Err(FieldError::new("oidc", problem));
        }
        check_identities(&self.oidc)?;
        if self.certificates.len() > CERTIFICATES {
            let problem = format!("there are more than {CERTIFICATES}");
            return Err(FieldError::new("certificates", problem));
        }
        self.check_link()?;
        self.login.iter().try_for_each(|chain| check_chain(chain))
    }
}

impl Account {
    /// A share link is nothing but its terms, and nothing else has terms.
    fn check_link(&self) -> Result<(), FieldError> {
        let is_link = self.account_type == AccountType::Link;
        let Some(terms) = self.link.as_ref().filter(|_| is_link) else {
            return match (is_link, &self.link) {
                (false, None) => Ok(()),
                (true, _) => {
                    let problem = "a link needs them: make one by 'entrepot link create'";
                    Err(FieldError::new("link", problem))
                }
                (false, Some(_)) => {
                    Err(FieldError::new("link", "only an account of type link has terms"))
                }
            };
        };
        for (field, is_unset) in [
            ("groups", self.groups.is_empty()),
            ("totp", self.totp.is_none() && self.totp_sealed.is_none()),
            ("certificates", self.certificates.is_empty()),
            ("oidc", self.oidc.is_empty()),
            ("login", self.login.is_empty()),
            ("protocols", self.protocols.is_empty()),
            ("home", self.home.is_root()),
        ] {
            if !is_unset {
                return Err(FieldError::new(field, "a link has none, it follows its owner"));
            }
        }
        terms.check()
    }
}

/// A chain of methods that can be walked, and proves something.
fn check_chain(chain: &[AuthMethod]) -> Result<(), FieldError> {
    let refused = |problem: &str| Err(FieldError::new("login", problem));
    let twice = |at: usize, method: &AuthMethod| chain.iter().skip(at + 1).any(|m| m == method);
    match chain.first() {
        None => refused("an alternative needs at least one method"),
        Some(AuthMethod::Totp) => refused("a code cannot come first, put another before it"),
        _ if chain.len() > 1 && chain.contains(&AuthMethod::Passkey) => {
            refused("a passkey stands alone in its alternative")
        }
        _ if chain.iter().skip(1).any(|method| *method == AuthMethod::Oidc) => {
            refused("oidc comes first in its alternative")
        }
        Some(AuthMethod::Oidc)
            if chain.iter().skip(1).any(|method| *method != AuthMethod::Totp) =>
        {
            refused("only a code can follow oidc")
        }
        _ if chain.iter().enumerate().any(|(at, method)| twice(at, method)) => {
            refused("a method stands twice in one alternative, remove one")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_administrators_have_a_role_and_without_one_they_may_do_everything() {
        use crate::role::AdminRight::{Operate, Steer};
        let mut account = Account::new("a".parse().unwrap(), AccountType::Admin);
        assert!(account.admin_rights().has(Steer));
        account.role = Some(Role::Operator);
        assert_eq!(account.check(), Ok(()));
        assert!(account.admin_rights().has(Operate) && !account.admin_rights().has(Steer));
        account.account_type = AccountType::Person;
        assert_eq!(account.check().unwrap_err().field, "role");
        assert_eq!(account.admin_rights(), AdminRights::none());
    }

    #[test]
    fn chains_that_prove_nothing_more_are_refused() {
        use AuthMethod::{Oidc, Passkey, Password, PublicKey, Totp};
        for good in [
            vec![Password],
            vec![Passkey],
            vec![PublicKey, Password, Totp],
            vec![Password, Totp],
            vec![Oidc],
            vec![Oidc, Totp],
        ] {
            assert_eq!(check_chain(&good), Ok(()), "{good:?}");
        }
        for bad in [
            vec![],
            vec![Passkey, Totp],
            vec![Password, Passkey],
            vec![Password, Oidc],
            vec![Oidc, Password],
            vec![Oidc, Oidc],
            vec![Totp],
            vec![Totp, Password],
            vec![PublicKey, PublicKey],
        ] {
            assert!(check_chain(&bad).is_err(), "{bad:?}");
        }
    }
}
