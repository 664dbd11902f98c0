//! The party at the other end of a login.

use std::net::SocketAddr;

use entrepot_nouns::{LoginProtocol, Name, Protocol, SiteId};

/// Who wants to log in, and by which listener. A rule that acts as an account, which comes by no
/// listener, is described in the same way: its protocol is [`Protocol::Internal`].
#[derive(Clone, Debug)]
pub struct Peer {
    /// The site whose account logs in.
    pub site: SiteId,
    /// The site of the listener: mostly the same, but clients may choose another by its host name.
    pub home: SiteId,
    /// The protocol that the client speaks.
    pub protocol: Protocol,
    /// Whether the connection is encrypted when the login begins.
    pub encrypted: bool,
    /// The listener, by its name in the site `home`; for a rule, the account that it acts as.
    pub listener: Name,
    /// Address and port of the client, from the PROXY header where the listener takes one;
    /// 127.0.0.1:0 for a rule.
    pub address: SocketAddr,
    /// How the client names itself; never trusted for anything.
    pub client: String,
    /// The algorithms of the connection, for people.
    pub algorithms: String,
}

impl Peer {
    /// The protocol as accounts list it; `None` for a rule, which logs in over none.
    pub(crate) fn login_protocol(&self) -> Option<LoginProtocol> {
        match self.protocol {
            Protocol::Sftp => Some(LoginProtocol::Sftp),
            Protocol::Ftp if self.encrypted => Some(LoginProtocol::Ftps),
            Protocol::Ftp => Some(LoginProtocol::Ftp),
            // Clear text comes from this machine, or through a proxy that the operator has named.
            Protocol::Https | Protocol::Http => Some(LoginProtocol::Https),
            Protocol::Internal => None,
        }
    }
}
