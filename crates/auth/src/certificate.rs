//! Certificates of users: whether one lets its holder in as an account.
//!
//! A certificate proves only that its signer wanted it. Everything else is checked here, at
//! login and as long as the session lives: that the signer is one of ours, that it means this
//! account, its dates, its revocation, and every option it calls critical.

use std::net::IpAddr;

use entrepot_net::ssh::Certificate;
use entrepot_nouns::{Source, Timestamp};
use entrepot_openssh::SftpCommand;

use crate::authority::Authority;
use crate::login_key::check_blob;
use crate::principal::Principal;
use crate::ssh_key::{SIGNATURES, fingerprint};

/// What a certificate that counts allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Certified {
    /// List and read only.
    pub(crate) read_only: bool,
}

/// Says whether `certificate` lets its holder in as `principal`, from `address` at `now`.
///
/// # Errors
/// Why not.
pub(crate) fn check(
    principal: &Principal,
    certificate: &Certificate,
    address: IpAddr,
    now: Timestamp,
) -> Result<Certified, &'static str> {
    if !certificate.is_user {
        return Err("the certificate is one for hosts");
    }
    if check_blob(&certificate.key).is_err() || check_blob(&certificate.authority).is_err() {
        return Err("the certificate has a key that is too weak");
    }
    if !SIGNATURES.contains(&certificate.signature_algorithm.as_str()) {
        return Err("the certificate is signed too weakly");
    }
    let signers = principal.authorities.iter();
    let signers: Vec<&Authority> =
        signers.filter(|authority| authority.key.blob == certificate.authority).collect();
    if signers.is_empty() {
        return Err("the certificate is signed by an unknown key");
    }
    if signers.iter().any(|authority| authority.revokes(certificate)) {
        return Err("the certificate is revoked");
    }
    let seconds = u64::try_from(now.seconds()).unwrap_or(0);
    if seconds < certificate.valid_after || certificate.valid_before <= seconds {
        return Err("the certificate is not valid at this time");
    }
    // None would mean everybody: as OpenSSH does, nobody.
    let account = &principal.account.name;
    let meant = signers.iter().filter(|authority| authority.means(account, certificate));
    let meant: Vec<_> = meant.collect();
    if meant.is_empty() {
        return Err("the certificate names none of the account's principals");
    }
    let counting = meant.into_iter().filter(|authority| authority.key.counts(address, now));
    let counting: Vec<_> = counting.collect();
    if counting.is_empty() {
        return Err("the key that signed the certificate does not count here and now");
    }
    let options = read_only_by_options(&certificate.critical, address)?;
    // Of several nouns of one key the strictest counts.
    let narrowed = counting.iter().any(|authority| authority.key.read_only);
    Ok(Certified { read_only: options || narrowed })
}

/// Obeys critical options; one that cannot be obeyed refuses, for ignoring it would grant more
/// than its signer meant.
fn read_only_by_options(
    critical: &[(String, String)],
    address: IpAddr,
) -> Result<bool, &'static str> {
    let mut read_only = false;
    for (name, value) in critical {
        match name.as_str() {
            "source-address" if !comes_from(value, address) => {
                return Err("the certificate does not admit this address");
            }
            "source-address" => {}
            "force-command" => {
                let command: Option<SftpCommand> = SftpCommand::parse(value);
                let command = command.ok_or("the certificate forces a command that is not SFTP")?;
                read_only |= command.read_only;
            }
            _ => return Err("the certificate has a critical option that cannot be obeyed"),
        }
    }
    Ok(read_only)
}

/// A list of addresses and networks; anything else in it spoils it.
fn comes_from(list: &str, address: IpAddr) -> bool {
    let plain = |text: &str| !text.contains(['!', '*', '?']);
    let sources: Option<Vec<Source>> =
        list.split(',').map(|text| text.parse().ok().filter(|_| plain(text))).collect();
    // An empty list has one empty text, which is no address.
    sources.is_some_and(|sources| Source::admit(&sources, address))
}

/// For the audit: what of a certificate tells it from others.
pub(crate) fn proof(certificate: &Certificate) -> String {
    let printable = |letter: &char| !letter.is_control();
    let key_id: String = certificate.key_id.chars().filter(printable).take(KEY_ID_SHOWN).collect();
    format!(
        "certificate {} '{key_id}' of {} signed by {}",
        certificate.serial,
        fingerprint(&certificate.key),
        fingerprint(&certificate.authority),
    )
}

/// Letters of a key id that are recorded.
const KEY_ID_SHOWN: usize = 64;
