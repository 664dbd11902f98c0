//! KeyAgreeRecipientInfo (RFC 5652 §6.2.2, RFC 5753): the content key for a key of an elliptic
//! curve.

use entrepot_crypto::der::{self, Reader, Value};
use entrepot_crypto::{Certificate, KeyAgreement};
use zeroize::Zeroizing;

use crate::limits;
use crate::oid;
use crate::own_key::{OwnKey, Sealed};
use crate::signed_data::Identifier;

/// The content key, if it is for one of ours.
pub(crate) fn agreed(
    recipient: Value<'_>,
    keys: &[OwnKey],
    substitute: &[u8],
) -> Result<Option<Zeroizing<Vec<u8>>>, Sealed> {
    let mut fields = recipient.values();
    fields.small_integer()?;
    let originator = fields.tagged(der::context(0))?;
    let added = match fields.optional(der::context(1))? {
        Some(value) => Some(value.values().tagged(der::OCTET_STRING)?.content),
        None => None,
    };
    let algorithm = fields.tagged(der::SEQUENCE)?;
    let mut wrapped = fields.tagged(der::SEQUENCE)?.values();
    for _ in 0..limits::RECIPIENTS {
        if wrapped.is_empty() {
            break;
        }
        let mut fields = wrapped.tagged(der::SEQUENCE)?.values();
        let id = recipient_id(&mut fields)?;
        let sealed = fields.tagged(der::OCTET_STRING)?.content;
        let ours = |own: &&OwnKey| id.names(&own.certificate);
        let Some(own) = keys.iter().find(ours) else { continue };
        let agreement = agreement(originator, algorithm, added)?;
        return Ok(Some(agreement.content_key(&own.key, sealed, substitute)));
    }
    Ok(None)
}

enum RecipientId<'a> {
    Named(Identifier<'a>),
    KeyId(&'a [u8]),
}

impl RecipientId<'_> {
    fn names(&self, certificate: &Certificate) -> bool {
        match self {
            RecipientId::Named(id) => id.names(certificate),
            RecipientId::KeyId(id) => certificate.key_id.as_deref() == Some(id),
        }
    }
}

/// KeyAgreeRecipientIdentifier: unlike elsewhere, an identifier of a key lies in a sequence.
fn recipient_id<'a>(fields: &mut Reader<'a>) -> Result<RecipientId<'a>, Sealed> {
    if let Some(value) = fields.optional(der::context(0))? {
        return Ok(RecipientId::KeyId(value.values().tagged(der::OCTET_STRING)?.content));
    }
    Ok(RecipientId::Named(Identifier::read(fields)?))
}

/// The sender's key is one that was made for this message; others are not supported.
fn agreement<'a>(
    originator: Value<'a>,
    algorithm: Value<'a>,
    added: Option<&'a [u8]>,
) -> Result<KeyAgreement<'a>, Sealed> {
    let mut key = originator.values().tagged(der::context(1))?.values();
    key.tagged(der::SEQUENCE)?;
    let (unused, point) = key.tagged(der::BIT_STRING)?.content.split_first().ok_or(Sealed)?;
    if *unused != 0 {
        return Err(Sealed);
    }
    let mut fields = algorithm.values();
    let digest = oid::agreement(fields.tagged(der::OID)?.content).ok_or(Sealed)?;
    let wrapping = fields.tagged(der::SEQUENCE)?;
    let oid = wrapping.values().tagged(der::OID)?.content;
    Ok(KeyAgreement {
        point,
        digest,
        wrapping: oid::key_wrapping(oid).ok_or(Sealed)?,
        wrapping_algorithm: wrapping.raw,
        added,
    })
}
