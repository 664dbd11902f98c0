//! Partners of AS2 as they are now: which names belong together, and the keys of both sides.

use std::collections::HashMap;
use std::sync::Arc;

use entrepot_crypto::x509::pem_blocks;
use entrepot_crypto::{
    Certificate, ContentCipher, DigestAlgorithm, MasterKey, PrivateKey, SealingContext,
};
use entrepot_db::Db;
use entrepot_net::http::host_of;
use entrepot_nouns::endpoint::{As2Cipher, As2Digest, As2Target, EndpointTarget};
use entrepot_nouns::{Endpoint, Key, KeyType, Name, SiteId, Timestamp};
use uuid::Uuid;

use crate::error::Result;

/// A certificate and, of ours, its private key, with the dates between which it counts.
#[derive(Debug)]
struct DatedKey {
    name: Name,
    certificate: Arc<Certificate>,
    private: Option<Arc<PrivateKey>>,
    not_before: Option<Timestamp>,
    not_after: Option<Timestamp>,
}

/// A key of ours, whole.
#[derive(Clone, Debug)]
pub struct As2OwnKey {
    /// The certificate that the partner has.
    pub certificate: Arc<Certificate>,
    /// Its private half.
    pub private: Arc<PrivateKey>,
}

/// What was agreed with a partner of AS2.
#[derive(Debug)]
pub struct As2Partner {
    /// The site of the endpoint.
    pub site: SiteId,
    /// The endpoint that says so.
    pub endpoint: Name,
    /// Its id and revision: another one when anything of it changes.
    pub version: (Uuid, i64),
    /// What the endpoint says.
    pub target: As2Target,
    keys: Vec<DatedKey>,
    certificates: Vec<DatedKey>,
}

/// All partners of a site.
#[derive(Debug, Default)]
pub(crate) struct As2Partners {
    by_names: HashMap<(String, String), Arc<As2Partner>>,
    by_endpoint: HashMap<Name, Arc<As2Partner>>,
}

impl As2Partner {
    /// The keys of ours that open its messages now, the one that began last first: that one signs.
    pub fn own_keys(&self, now: Timestamp) -> Vec<As2OwnKey> {
        let whole = |key: &DatedKey| {
            let certificate = Arc::clone(&key.certificate);
            Some(As2OwnKey { certificate, private: Arc::clone(key.private.as_ref()?) })
        };
        valid(&self.keys, now).into_iter().filter_map(whole).collect()
    }

    /// Whether it may have receipts sent to this address: at the host of `url`, or at one of
    /// `receipt_hosts`.
    pub fn may_have_receipts_at(&self, address: &str) -> bool {
        let Some(host) = host_of(address) else { return false };
        let server = self.target.url.as_ref().and_then(|url| host_of(url));
        server.as_ref() == Some(&host)
            || self.target.receipt_hosts.iter().any(|it| it.eq_ignore_ascii_case(&host))
    }

    /// The certificates of the partner that count now, the one that began last first.
    pub fn certificates(&self, now: Timestamp) -> Vec<Arc<Certificate>> {
        let valid = valid(&self.certificates, now).into_iter();
        valid.map(|key| Arc::clone(&key.certificate)).collect()
    }
}

impl As2Partners {
    /// The partner of these AS2 names.
    pub(crate) fn of_names(&self, partner: &str, station: &str) -> Option<Arc<As2Partner>> {
        self.by_names.get(&(partner.to_owned(), station.to_owned())).cloned()
    }

    /// The partner of an endpoint.
    pub(crate) fn of_endpoint(&self, name: &Name) -> Option<Arc<As2Partner>> {
        self.by_endpoint.get(name).cloned()
    }
}

/// Those that count, the newest first.
fn valid(keys: &[DatedKey], now: Timestamp) -> Vec<&DatedKey> {
    let counts = |key: &&DatedKey| {
        key.not_before.is_none_or(|from| now >= from)
            && key.not_after.is_none_or(|until| now < until)
            && key.certificate.is_valid_at(now.seconds())
    };
    let began = |key: &&DatedKey| {
        let named = key.not_before.map_or(i64::MIN, Timestamp::seconds);
        std::cmp::Reverse(named.max(key.certificate.not_before))
    };
    let mut valid: Vec<&DatedKey> = keys.iter().filter(counts).collect();
    valid.sort_by_key(began);
    valid
}

/// Reads all partners of a site, with their keys opened. A key that cannot be used is left out and
/// logged: the others still count.
///
/// # Errors
/// The database is away.
pub(crate) async fn partners(db: &Db, master: &MasterKey, site: SiteId) -> Result<As2Partners> {
    let mut partners = As2Partners::default();
    let Some(site_name) = db.site_name(site).await? else { return Ok(partners) };
    for stored in db.list::<Endpoint>(site).await? {
        let (id, revision) = (stored.id, stored.revision);
        let Endpoint { name, target: EndpointTarget::As2(target), .. } = stored.noun else {
            continue;
        };
        let mut sides = [Vec::new(), Vec::new()];
        for (side, names) in sides.iter_mut().zip([&target.keys, &target.certificates]) {
            for key in names {
                let key = db.find::<Key>(site, key).await?;
                side.extend(key.and_then(|key| opened(master, &site_name, &key.noun)));
            }
        }
        let [keys, certificates] = sides;
        let names = (target.partner.clone(), target.station.clone());
        let partner = Arc::new(As2Partner {
            site,
            endpoint: name.clone(),
            version: (id, revision),
            target: *target,
            keys,
            certificates,
        });
        partners.by_names.insert(names, Arc::clone(&partner));
        partners.by_endpoint.insert(name, partner);
    }
    Ok(partners)
}

fn opened(master: &MasterKey, site: &Name, key: &Key) -> Option<DatedKey> {
    if key.key_type != KeyType::As2 || !key.enabled {
        return None;
    }
    let warn = |problem: &dyn std::fmt::Display| {
        tracing::warn!(code = "EP1201", key = %key.name, %problem, "a key of AS2 is not used");
    };
    let certificate = match certificate(&key.public) {
        Ok(certificate) => Arc::new(certificate),
        Err(problem) => {
            warn(&problem);
            return None;
        }
    };
    let private = match &key.private_sealed {
        None => None,
        Some(sealed) => {
            let context = SealingContext::private_key(site, &key.name);
            let secret = master.open(&context, sealed).inspect_err(|error| warn(error)).ok()?;
            let private = private_key(secret.expose(), &certificate);
            Some(Arc::new(private.inspect_err(|problem| warn(problem)).ok()?))
        }
    };
    let (not_before, not_after) = (key.not_before, key.not_after);
    Some(DatedKey { name: key.name.clone(), certificate, private, not_before, not_after })
}

/// A digest of a document, as it is computed.
pub fn digest(digest: As2Digest) -> DigestAlgorithm {
    match digest {
        As2Digest::Sha1 => DigestAlgorithm::Sha1,
        As2Digest::Sha256 => DigestAlgorithm::Sha256,
        As2Digest::Sha384 => DigestAlgorithm::Sha384,
        As2Digest::Sha512 => DigestAlgorithm::Sha512,
    }
}

/// A cipher of a document, as it is computed; `None`: nothing is encrypted.
pub fn cipher(cipher: As2Cipher) -> Option<ContentCipher> {
    match cipher {
        As2Cipher::Aes128Cbc => Some(ContentCipher::Aes128Cbc),
        As2Cipher::Aes256Cbc => Some(ContentCipher::Aes256Cbc),
        As2Cipher::Aes128Gcm => Some(ContentCipher::Aes128Gcm),
        As2Cipher::Aes256Gcm => Some(ContentCipher::Aes256Gcm),
        As2Cipher::TripleDesCbc => Some(ContentCipher::TripleDesCbc),
        As2Cipher::None => None,
    }
}

/// The one certificate of a text of PEM.
///
/// # Errors
/// There is none, or it cannot be used: a sentence for operators.
pub fn certificate(pem: &str) -> std::result::Result<Certificate, String> {
    let mut all = Certificate::all_from_pem(pem).map_err(|error| error.to_string())?;
    match (all.pop(), all.is_empty()) {
        (Some(certificate), true) => Ok(certificate),
        _ => Err("give one certificate".to_owned()),
    }
}

/// The private half of a certificate, as PEM.
///
/// # Errors
/// It is none that can be used, or belongs to another certificate: a sentence for operators.
pub fn private_key(
    pem: &[u8],
    certificate: &Certificate,
) -> std::result::Result<PrivateKey, String> {
    let text = String::from_utf8_lossy(pem);
    let Some(block) = pem_blocks(&text, "PRIVATE KEY").pop() else {
        let what = "give the key as unencrypted PEM of PKCS #8: it begins with -----BEGIN PRIVATE \
                    KEY-----";
        return Err(what.to_owned());
    };
    let key = PrivateKey::from_pkcs8(&block).map_err(|error| error.to_string())?;
    if !key.belongs_to(&certificate.key) {
        return Err("the private key is not that of the certificate".to_owned());
    }
    Ok(key)
}

impl As2Partner {
    /// The names of the keys that are used, ours first.
    pub fn key_names(&self) -> impl Iterator<Item = &Name> {
        self.keys.iter().chain(&self.certificates).map(|key| &key.name)
    }
}
