//! Who exchanges the messages of `bench as2`, by certificates and keys.

use std::path::Path;
use std::sync::Arc;

use entrepot_as2_proto::OwnKey;
use entrepot_auth::as2;
use entrepot_crypto::Certificate;

use crate::args::BenchAs2Args;
use crate::failure::Failure;

/// Certificates and keys of both sides.
#[derive(Default)]
pub(super) struct Parties {
    /// The certificate that signs messages, with its key.
    pub(super) own: Option<OwnKey>,
    /// Of the receiver: the first is encrypted for, each may sign receipts.
    pub(super) partner: Vec<Arc<Certificate>>,
}

impl Parties {
    /// Those that the arguments name.
    pub(super) fn read(args: &BenchAs2Args) -> Result<Parties, Failure> {
        let own = match (&args.certificate, &args.key) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (read_file(certificate)?, read_file(key)?);
                Some(own_key(&String::from_utf8_lossy(&certificate), &key)?)
            }
            _ => None,
        };
        let mut partner = Vec::new();
        for file in &args.partner_certificate {
            let text = read_file(file)?;
            let read = as2::certificate(&String::from_utf8_lossy(&text));
            let wrong = |why: String| Failure::usage(format!("'{}': {why}", file.display()));
            partner.push(Arc::new(read.map_err(wrong)?));
        }
        Ok(Parties { own, partner })
    }
}

/// A certificate and its private half, both as PEM.
pub(super) fn own_key(certificate: &str, key: &[u8]) -> Result<OwnKey, Failure> {
    let certificate = Arc::new(as2::certificate(certificate).map_err(Failure::usage)?);
    let key = as2::private_key(key, &certificate).map_err(Failure::usage)?;
    Ok(OwnKey { certificate, key: Arc::new(key) })
}

/// Reads a file that an argument names, whole.
pub(super) fn read_file(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file)
        .map_err(|error| Failure::file(format!("cannot read '{}': {error}", file.display())))
}
