//! What AS2 reads of a certificate (RFC 5280 §4.1): who it names, its key, and when it is valid.
//! It is read leniently, for partners' certificates have long serial numbers and odd extensions;
//! trust comes from the configuration that names the certificate, not from what is in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::der::{self, DerError, Reader, Value};
use crate::hash::HashAlgorithm;
use crate::key::{KeyError, PublicKey};

/// The identifier 2.5.29.14, `subjectKeyIdentifier`.
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];

/// A certificate, and the key in it.
#[derive(Debug)]
pub struct Certificate {
    der: Vec<u8>,
    /// The issuer's name as DER, as it is in the certificate.
    pub issuer: Vec<u8>,
    /// The name of whose it is, in the same way.
    pub subject: Vec<u8>,
    /// The content of the INTEGER.
    pub serial: Vec<u8>,
    /// `subjectKeyIdentifier`, where it has one.
    pub key_id: Option<Vec<u8>>,
    /// Seconds since 1970 from which it is valid.
    pub not_before: i64,
    /// Seconds since 1970 until which it is valid.
    pub not_after: i64,
    /// The public key.
    pub key: PublicKey,
}

/// A text or bytes hold no certificate that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The bytes are no certificate.
    #[error("malformed certificate")]
    Malformed,
    /// Its key is of a kind that is not used here.
    #[error("the certificate's key is neither RSA nor of an elliptic curve")]
    Key,
    /// The text has no block of PEM that is called `CERTIFICATE`.
    #[error("no certificate in PEM form")]
    NoPem,
}

impl From<DerError> for CertificateError {
    fn from(_: DerError) -> Self {
        CertificateError::Malformed
    }
}

impl From<KeyError> for CertificateError {
    fn from(_: KeyError) -> Self {
        CertificateError::Key
    }
}

impl Certificate {
    /// One certificate as DER, and nothing behind it.
    pub fn from_der(bytes: &[u8]) -> Result<Self, CertificateError> {
        let mut outer = Reader::new(bytes);
        let mut fields = outer.tagged(der::SEQUENCE)?.values();
        outer.end()?;
        let mut fields = fields.tagged(der::SEQUENCE)?.values();
        fields.optional(der::context(0))?;
        let serial = fields.tagged(der::INTEGER)?.content.to_vec();
        fields.tagged(der::SEQUENCE)?;
        let issuer = fields.tagged(der::SEQUENCE)?.raw.to_vec();
        let mut validity = fields.tagged(der::SEQUENCE)?.values();
        let not_before = seconds(validity.read()?)?;
        let not_after = seconds(validity.read()?)?;
        let subject = fields.tagged(der::SEQUENCE)?.raw.to_vec();
        let key = PublicKey::from_spki(fields.tagged(der::SEQUENCE)?.raw)?;
        fields.optional(der::context_primitive(1))?;
        fields.optional(der::context_primitive(2))?;
        let extensions = fields.optional(der::context(3))?;
        let key_id = extensions.map(|value| key_id(&value)).transpose()?.flatten();
        let der = bytes.to_vec();
        Ok(Certificate { der, issuer, subject, serial, key_id, not_before, not_after, key })
    }

    /// The certificates of a text of PEM, in order; other blocks are passed over.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, CertificateError> {
        let blocks = pem_blocks(text, "CERTIFICATE");
        if blocks.is_empty() {
            return Err(CertificateError::NoPem);
        }
        blocks.iter().map(|block| Certificate::from_der(block)).collect()
    }

    /// The certificate as it came.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// SHA-256 of the whole certificate.
    pub fn fingerprint(&self) -> Vec<u8> {
        HashAlgorithm::Sha256.hash(&self.der)
    }

    /// Whether it is valid at `now`, in seconds since 1970.
    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

/// The contents of all blocks of PEM (RFC 7468) with this label.
pub fn pem_blocks(text: &str, label: &str) -> Vec<Vec<u8>> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(&begin) {
        let Some((body, behind)) = after.split_once(&end) else { break };
        let digits: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        blocks.extend(STANDARD.decode(digits));
        rest = behind;
    }
    blocks
}

fn key_id(extensions: &Value<'_>) -> Result<Option<Vec<u8>>, DerError> {
    let mut list = extensions.values().tagged(der::SEQUENCE)?.values();
    while !list.is_empty() {
        let mut extension = list.tagged(der::SEQUENCE)?.values();
        let oid = extension.tagged(der::OID)?;
        extension.optional(der::BOOLEAN)?;
        let value = extension.tagged(der::OCTET_STRING)?;
        if oid.content == SUBJECT_KEY_ID {
            return Ok(Some(value.values().tagged(der::OCTET_STRING)?.content.to_vec()));
        }
    }
    Ok(None)
}

/// UTCTime or GeneralizedTime in UTC, as seconds since 1970.
fn seconds(value: Value<'_>) -> Result<i64, DerError> {
    let text = std::str::from_utf8(value.content).or(Err(DerError))?;
    let digits = text.strip_suffix('Z').ok_or(DerError)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DerError);
    }
    let (year, rest) = match value.tag {
        der::UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2).ok_or(DerError)?;
            let short: i64 = year.parse().or(Err(DerError))?;
            // RFC 5280 §4.1.2.5.1: 50 and above are of the twentieth century.
            (if short >= 50 { 1900 + short } else { 2000 + short }, rest)
        }
        der::GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4).ok_or(DerError)?;
            (year.parse().or(Err(DerError))?, rest)
        }
        _ => return Err(DerError),
    };
    let field = |at: usize| -> Result<i64, DerError> {
        rest.get(at..at + 2).and_then(|two| two.parse().ok()).ok_or(DerError)
    };
    let (month, day) = (field(0)?, field(2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(DerError);
    }
    let time = field(4)? * 3600 + field(6)? * 60 + field(8).unwrap_or(0);
    Ok(days(year, month, day) * 86_400 + time)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

/// The value of a time in UTC, of seconds since 1970: UTCTime, from 2050 on GeneralizedTime
/// (RFC 5652 §11.3).
pub fn time_value(seconds: i64) -> Vec<u8> {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The inverse of `days`: a year of four hundred has 146,097 of them.
    let shifted = day + 719_468;
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month = (shifted_month + 2) % 12 + 1;
    let year = year_of_era + shifted.div_euclid(146_097) * 400 + i64::from(month <= 2);
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    if (1950..2050).contains(&year) {
        der::write(der::UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes())
    } else {
        der::write(der::GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A self-signed certificate of P-256 that `openssl req -x509` made.
    const PEM: &str = include_str!("testdata/p256.pem");

    #[test]
    fn a_certificate_is_read() {
        let all = Certificate::all_from_pem(PEM).unwrap();
        let [certificate] = &all[..] else { panic!("one") };
        assert!(!certificate.key.is_rsa());
        assert_eq!(certificate.key.bits(), 256);
        assert_eq!(certificate.key_id.as_ref().map(Vec::len), Some(20));
        assert_eq!(certificate.not_after - certificate.not_before, 3650 * 86_400);
        assert!(certificate.is_valid_at(certificate.not_before));
        assert!(!certificate.is_valid_at(certificate.not_after + 1));
        assert_eq!(certificate.fingerprint().len(), 32);
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(Certificate::all_from_pem("text").err(), Some(CertificateError::NoPem));
        let mut der = Certificate::all_from_pem(PEM).unwrap().remove(0).der().to_vec();
        for cut in 0..der.len() {
            assert!(Certificate::from_der(&der[..cut]).is_err(), "{cut}");
        }
        der.push(0);
        assert_eq!(Certificate::from_der(&der).err(), Some(CertificateError::Malformed));
    }

    #[test]
    fn times_are_read_as_written() {
        for at in [0, 951_782_399, 951_868_799, 1_769_903_999, 2_524_608_000, 4_107_542_400] {
            let written = time_value(at);
            let value = Reader::new(&written).read().unwrap();
            assert_eq!(seconds(value), Ok(at), "{at}");
        }
    }

    #[test]
    fn times() {
        let at = |tag, text: &str| seconds(Value { tag, content: text.as_bytes(), raw: &[] });
        assert_eq!(at(der::UTC_TIME, "700101000000Z"), Ok(0));
        assert_eq!(at(der::UTC_TIME, "260131235959Z"), Ok(1_769_903_999));
        assert_eq!(at(der::GENERALIZED_TIME, "20500101000000Z"), Ok(2_524_608_000));
        assert_eq!(at(der::UTC_TIME, "261331235959Z"), Err(DerError));
        assert_eq!(at(der::UTC_TIME, "2601312359"), Err(DerError));
        assert_eq!(at(der::BOOLEAN, "700101000000Z"), Err(DerError));
    }
}
