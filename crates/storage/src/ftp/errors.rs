//! What an FTP server and its connections say, in the words of the store.

use entrepot_ftp_proto::client::{Fault, NotBegun, OpError};
use entrepot_ftp_proto::reply::Reply;
use entrepot_net::NetError;
use entrepot_net::tls::HandshakeError;

use crate::error::StoreError;

/// Why an operation brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// The server's answer; the connection goes on.
    Op(OpError),
    /// It was never asked.
    NotBegun(NotBegun),
    /// The connection is gone; what happened to the request is not known.
    Lost(String),
    /// Fewer bytes came than the server had told of, and it says that it was all.
    Short(String),
    /// There was no session to ask in.
    Store(StoreError),
    /// There is no connection, and none before the configuration or the server changes.
    Never(String),
}

impl Failed {
    /// The code of a refusal; 0 for all else.
    pub(super) fn code(&self) -> u16 {
        match self {
            Failed::Op(OpError::Refused(reply)) => reply.code,
            _ => 0,
        }
    }

    /// The name is not there, or it may not be seen: FTP has one code for both.
    pub(super) fn is_absent(&self) -> bool {
        self.code() == 550
    }

    /// The server has something against the name: a file is looked for as a directory then.
    pub(super) fn is_about_name(&self) -> bool {
        matches!(self.code(), 501 | 550 | 551 | 553)
    }

    /// The server does not know the verb, or not here.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.code(), 500 | 502 | 504)
    }

    /// What moved last may be begun again where it ended.
    pub(super) fn was_cut(&self) -> bool {
        match self {
            Failed::Lost(_) => true,
            Failed::Op(error) => matches!(error, OpError::Data) || matches!(self.code(), 425 | 426),
            _ => false,
        }
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NoTls(_) | Fault::Injected => Failed::Never(fault.to_string()),
            _ => Failed::Lost(fault.to_string()),
        }
    }
}

impl From<HandshakeError> for Failed {
    fn from(error: HandshakeError) -> Self {
        match &error {
            // A certificate does not become another one by itself.
            HandshakeError::Failed(io) if io.kind() == std::io::ErrorKind::InvalidData => {
                Failed::Never(error.to_string())
            }
            _ => Failed::Lost(error.to_string()),
        }
    }
}

impl From<NetError> for Failed {
    fn from(error: NetError) -> Self {
        if error.is_temporary() {
            Failed::Lost(error.to_string())
        } else {
            Failed::Never(error.to_string())
        }
    }
}

impl From<Failed> for StoreError {
    /// The meaning where no call knows better.
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Op(OpError::Refused(reply)) => refused(&reply),
            Failed::Op(OpError::Data) => {
                StoreError::Unavailable("the data connection was cut".to_owned())
            }
            Failed::Op(error @ (OpError::AccountNeeded | OpError::Credential)) => {
                StoreError::Denied(error.to_string())
            }
            Failed::Op(error) => StoreError::Io(error.to_string()),
            Failed::NotBegun(NotBegun::Name) => StoreError::Denied(NotBegun::Name.to_string()),
            Failed::NotBegun(error) => StoreError::Unavailable(error.to_string()),
            Failed::Lost(why) => StoreError::Unavailable(why),
            Failed::Short(why) => StoreError::Io(why),
            Failed::Store(error) => error,
            Failed::Never(why) => StoreError::Denied(why),
        }
    }
}

/// The meaning of a reply (RFC 959 §4.2, RFC 4217).
fn refused(reply: &Reply) -> StoreError {
    let said: String = reply.text.chars().filter(|c| !c.is_control()).take(200).collect();
    let said = format!("the server says '{} {said}'", reply.code);
    match reply.code {
        452 | 552 => StoreError::NoSpace,
        400..500 => StoreError::Unavailable(said),
        500 | 502 | 504 => StoreError::Unsupported("the server does not know the command"),
        522 => StoreError::Denied(format!(
            "{said}: it may want data connections that resume the TLS session, which this one did \
             not; look at the server's setting for session reuse"
        )),
        501 | 530..540 | 550 | 553 => StoreError::Denied(said),
        _ => StoreError::Io(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(code: u16) -> StoreError {
        Failed::Op(OpError::Refused(Reply { code, text: "x\u{7}".to_owned() })).into()
    }

    #[test]
    fn replies_keep_their_meaning() {
        assert_eq!(meaning(452), StoreError::NoSpace);
        assert_eq!(meaning(552), StoreError::NoSpace);
        for code in [421, 425, 426, 450, 451] {
            let told = meaning(code);
            assert!(matches!(&told, StoreError::Unavailable(_)) && told.is_temporary(), "{code}");
        }
        for code in [501, 522, 530, 532, 533, 534, 550, 553] {
            let told = meaning(code);
            assert!(matches!(&told, StoreError::Denied(_)) && !told.is_temporary(), "{code}");
        }
        assert_eq!(meaning(502).code(), "EP0508");
        assert_eq!(meaning(551).code(), "EP0510");
        assert_eq!(meaning(553), StoreError::Denied("the server says '553 x'".to_owned()));
    }
}
