//! Listeners: places they reach us.

use std::net::SocketAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::acme::AcmeChallenge;
use crate::document::OnByDefault;
use crate::ftp::{ClearText, DataPeers, FtpOptions, FtpTls, TlsRequired};
use crate::http::{HttpOptions, HttpService};
use crate::key::KeyType;
use crate::limits::{UNAUTHENTICATED, UNAUTHENTICATED_NETWORKS};
use crate::login::LoginCheck;
use crate::name::{Name, NameError};
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::tls::{ClientCertificates, ListenerTls};

/// A protocol we serve or speak.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// SFTP version 3 over SSH.
    Sftp,
    /// FTP, in clear text or under TLS.
    Ftp,
    /// HTTP/1.1 and HTTP/2 under TLS.
    Https,
    /// HTTP/1.1 in clear text: of this machine, from proxies, or to send clients to HTTPS.
    Http,
    /// Not a peer's: a rule, the console or the command line.
    Internal,
}

/// What is known of a protocol without speaking it.
struct ProtocolRow {
    name: &'static str,
    server_key: Option<KeyType>,
}

impl Protocol {
    /// All of them, in the order of metrics and lists.
    pub const ALL: [Protocol; 5] =
        [Protocol::Sftp, Protocol::Ftp, Protocol::Https, Protocol::Http, Protocol::Internal];

    /// The table of protocols.
    fn row(self) -> ProtocolRow {
        let (name, server_key) = match self {
            Protocol::Sftp => ("sftp", Some(KeyType::SshHost)),
            Protocol::Ftp => ("ftp", Some(KeyType::Tls)),
            Protocol::Https => ("https", Some(KeyType::Tls)),
            Protocol::Http => ("http", None),
            Protocol::Internal => ("internal", None),
        };
        ProtocolRow { name, server_key }
    }

    /// The name in documents, metrics and on the command line, lower case.
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The protocol of a name.
    pub fn of_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.as_str() == name)
    }

    /// The type of key by which a listener proves what it is. `None`: it proves nothing, or there
    /// are no listeners of it.
    pub fn server_key(self) -> Option<KeyType> {
        self.row().server_key
    }

    /// True of HTTP, under TLS or not.
    pub fn is_http(self) -> bool {
        matches!(self, Protocol::Https | Protocol::Http)
    }
}

/// How many connections without a login may come from a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnauthenticatedLimit {
    /// The network; of several that fit the first counts.
    #[schemars(with = "String")]
    pub network: IpNet,
    /// So many at a time, all its addresses together; they take no place from others.
    pub connections: u32,
}

/// A place they reach us; started, changed and stopped at run time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Unique among the listeners of its site; never changes.
    pub name: Name,
    /// What is spoken there.
    pub protocol: Protocol,
    /// Address and port, such as `0.0.0.0:2022` or `[::]:2022`.
    pub address: SocketAddr,
    /// A disabled listener is closed.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// Host keys, by name. Empty: an Ed25519 key is made at first start and named
    /// `<listener>-ed25519`; by the policy's `algorithms` also ECDSA and RSA keys, named alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_keys: Vec<Name>,
    /// Networks of load balancers that say for whom they connect by the PROXY protocol, version 2.
    /// From there nothing else is taken; from elsewhere no such header is. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub proxies: Vec<IpNet>,
    /// Networks from which more connections without a login may come than the usual 256 of one
    /// address: load balancers without the PROXY protocol, large offices, load generators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unauthenticated: Vec<UnauthenticatedLimit>,
    /// Policy of its own: which addresses may come in here, whoever they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Name>,
    /// Who is asked about passwords of names that have none here. Unset: what the site says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginCheck>,
    /// Text shown before login.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub banner: String,
    /// Its certificate, and what it asks of clients under TLS.
    #[serde(default, skip_serializing_if = "ListenerTls::is_default")]
    pub tls: ListenerTls,
    /// What only a listener of FTP has; unset: its defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ftp: Option<FtpOptions>,
    /// What only a listener of HTTPS or HTTP has; unset: its defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpOptions>,
}

impl Noun for Listener {
    const KIND: Kind = Kind::Listener;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        let keys = self.host_keys.iter().enumerate();
        let keys =
            keys.map(|(at, name)| Reference::new(format!("host_keys[{at}]"), Kind::Key, name));
        let tls_key = self.tls.key.iter();
        let tls_key = tls_key.map(|name| Reference::new("tls.key", Kind::Key, name));
        let policy = self.policy.iter();
        let policy = policy.map(|name| Reference::new("policy", Kind::Policy, name));
        keys.chain(tls_key).chain(policy).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.protocol == Protocol::Internal {
            let problem = "use a protocol that peers speak: sftp, ftp, https, http";
            return Err(FieldError::new("protocol", problem));
        }
        if self.protocol != Protocol::Ftp && self.ftp.is_some() {
            return Err(FieldError::new("ftp", "only a listener of protocol ftp has it"));
        }
        self.check_http()?;
        let server_key = self.protocol.server_key();
        if server_key != Some(KeyType::SshHost) && !self.host_keys.is_empty() {
            return Err(FieldError::new("host_keys", "only SSH has host keys: use tls.key"));
        }
        if server_key != Some(KeyType::Tls) && !self.tls.is_default() {
            return Err(FieldError::new("tls", "a listener of this protocol has no TLS"));
        }
        self.check_tls()?;
        if self.unauthenticated.len() > UNAUTHENTICATED_NETWORKS {
            let problem = format!("there are more than {UNAUTHENTICATED_NETWORKS} networks");
            return Err(FieldError::new("unauthenticated", problem));
        }
        let fits =
            |limit: &UnauthenticatedLimit| (1..=UNAUTHENTICATED).contains(&limit.connections);
        if !self.unauthenticated.iter().all(fits) {
            let problem = format!("connections are from 1 to {UNAUTHENTICATED}");
            return Err(FieldError::new("unauthenticated", problem));
        }
        self.login.as_ref().map_or(Ok(()), LoginCheck::check)?;
        self.ftp.as_ref().map_or(Ok(()), check_ftp)
    }
    fn programs(&self) -> Vec<&str> {
        self.login.as_ref().and_then(LoginCheck::program).into_iter().collect()
    }
}

impl Listener {
    /// What may cross the network unencrypted here; `None`: nothing.
    pub fn clear_text(&self) -> Option<ClearText> {
        match self.protocol {
            Protocol::Ftp => self.ftp.as_ref().and_then(FtpOptions::clear_text),
            // What only sends clients to HTTPS reads no password, nor does AS2.
            Protocol::Http
                if !self.is_of_this_machine()
                    && self.redirects_to_https().is_none()
                    && !self.serves_only_as2() =>
            {
                Some(ClearText::PasswordsAndFiles)
            }
            Protocol::Sftp | Protocol::Https | Protocol::Http | Protocol::Internal => None,
        }
    }

    /// True if only programs of this machine can connect to it.
    pub fn is_of_this_machine(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// True if messages of AS2 are all that it takes: they are protected by themselves.
    fn serves_only_as2(&self) -> bool {
        self.http.as_ref().is_some_and(|http| http.serve == [HttpService::As2])
    }

    /// The port of HTTPS that it sends all clients to, if it does nothing else.
    pub fn redirects_to_https(&self) -> Option<u16> {
        self.http.as_ref().and_then(|http| http.redirect_to_https)
    }

    fn check_http(&self) -> Result<(), FieldError> {
        if !self.protocol.is_http() {
            let problem = "only a listener of protocol https or http has it";
            return match self.http {
                Some(_) => Err(FieldError::new("http", problem)),
                None => Ok(()),
            };
        }
        self.http.as_ref().map_or(Ok(()), HttpOptions::check)?;
        let redirects = self.redirects_to_https().is_some();
        if self.protocol == Protocol::Https && redirects {
            let problem = "a listener of protocol http sends clients to https: set it there";
            return Err(FieldError::new("http.redirect_to_https", problem));
        }
        let is_guarded = self.is_of_this_machine()
            || !self.proxies.is_empty()
            || redirects
            || self.serves_only_as2();
        if self.protocol == Protocol::Http && !is_guarded {
            let problem = "without TLS passwords and files could be read on the way: use protocol \
                           https, an address of this machine such as 127.0.0.1:8080, name the \
                           proxies in front in 'proxies', or serve only as2";
            return Err(FieldError::new("address", problem));
        }
        Ok(())
    }

    fn check_tls(&self) -> Result<(), FieldError> {
        let asks = self.tls.client_certificates != ClientCertificates::Off;
        if asks && self.ftp.as_ref().is_some_and(|ftp| ftp.tls == FtpTls::Off) {
            let problem = "there are no certificates without TLS: set ftp.tls to another value";
            return Err(FieldError::new("tls.client_certificates", problem));
        }
        self.check_acme()?;
        let pem = self.tls.client_authorities.as_deref();
        if pem.is_some_and(|pem| !asks || !pem.contains("-----BEGIN CERTIFICATE-----")) {
            let problem =
                "they are certificates as PEM, and go with client_certificates: ask or require";
            return Err(FieldError::new("tls.client_authorities", problem));
        }
        Ok(())
    }
}

impl Listener {
    /// The name of the key that holds the certificate of a listener that names none.
    ///
    /// # Errors
    /// The name of the listener is too long for it.
    pub fn own_tls_key(&self) -> Result<Name, NameError> {
        format!("{}-tls", self.name).parse()
    }

    fn check_acme(&self) -> Result<(), FieldError> {
        let Some(acme) = &self.tls.acme else { return Ok(()) };
        let refused = |field: &str, problem: &str| Err(FieldError::new(field, problem));
        if self.tls.key.is_some() {
            let problem = "the certificate is kept in a key of its own: remove tls.key or tls.acme";
            return refused("tls.acme", problem);
        }
        if self.own_tls_key().is_err() {
            let problem = "the name of the listener is too long for the key NAME-tls";
            return refused("tls.acme", problem);
        }
        if self.ftp.as_ref().is_some_and(|ftp| ftp.tls == FtpTls::Off) {
            return refused("tls.acme", "there are no certificates without TLS: set ftp.tls");
        }
        if acme.challenge == AcmeChallenge::TlsAlpn01 && self.protocol != Protocol::Https {
            let problem = "only a listener of protocol https answers it: use http-01";
            return refused("tls.acme.challenge", problem);
        }
        acme.check()
    }
}

fn check_ftp(ftp: &FtpOptions) -> Result<(), FieldError> {
    if ftp.compression.is_some_and(|level| !(1..=9).contains(&level)) {
        return Err(FieldError::new("ftp.compression", "use a level of 1 to 9, or leave it out"));
    }
    if ftp.tls == FtpTls::Off && ftp.tls_required.is_some_and(|it| it != TlsRequired::None) {
        let problem = "there is no TLS that could be required: set ftp.tls to another value";
        return Err(FieldError::new("ftp.tls_required", problem));
    }
    let wants = ftp.data_peer == DataPeers::Networks;
    if wants != ftp.data_networks.is_empty() {
        return Ok(());
    }
    let problem = "they go with data_peer: networks, and that one goes with them";
    Err(FieldError::new("ftp.data_networks", problem))
}
