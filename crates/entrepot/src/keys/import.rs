//! `key import`: certificates and keys in files of other programs.

use std::path::Path;

use entrepot_crypto::container::{Container, ContainerError, pem};
use entrepot_crypto::limits::CONTAINER_BYTES;
use entrepot_crypto::{Certificate, PrivateKey};
use entrepot_nouns::Timestamp;
use entrepot_nouns::transfer::hex;
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::{ImportedKeyType, KeyImportArgs};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::standard_input::line_from_stdin;

/// Digits of a fingerprint that tell certificates apart.
const SHOWN_DIGITS: usize = 16;

/// Makes a key of what a file holds.
pub(super) async fn run(
    client: &AdminClient,
    output: Output,
    args: &KeyImportArgs,
) -> Result<(), Failure> {
    let bytes = read(&args.file)?;
    let password = if args.password { Some(line_from_stdin()?) } else { None };
    let wrong = |why: &str| refused(&args.file, why);
    let found = Container::read(&bytes, password.as_deref()).map_err(|error| match error {
        ContainerError::PasswordMissing => {
            wrong(&format!("{error}; give '--password' and the password on standard input"))
        }
        error => wrong(&error.to_string()),
    })?;
    let chosen = chosen(&found, args).map_err(|why| wrong(&why))?;
    let key = json!({
        "name": args.name, "type": args.key_type.as_str(), "public": chosen.public,
        "private": chosen.private.as_ref().map(|private| private.as_str()),
    });
    client.ask(json!({"request": "create", "noun": {"key": without_null(key)}})).await?;
    let fingerprint = hex(&chosen.own.fingerprint());
    let until = Timestamp::from_seconds(chosen.own.not_after);
    let has_private = chosen.private.is_some();
    let shown = json!({
        "name": args.name, "fingerprint": fingerprint, "valid_until": until,
        "private": has_private, "left_out": chosen.left_out,
    });
    output.value(&shown, || {
        let private = if has_private { "with its private key" } else { "without a private key" };
        println!("key '{}': certificate {fingerprint}, valid until {until}, {private}", args.name);
        if chosen.left_out > 0 {
            println!("{} other certificates of the file are left out", chosen.left_out);
        }
    })
}

/// What becomes the key.
struct Chosen<'a> {
    own: &'a Certificate,
    /// The own certificate, of TLS with those behind it.
    public: String,
    private: Option<zeroize::Zeroizing<String>>,
    /// Certificates that are no part of it.
    left_out: usize,
}

/// The certificate that is meant, and its private key.
fn chosen<'a>(found: &'a Container, args: &KeyImportArgs) -> Result<Chosen<'a>, String> {
    let all: Vec<&Certificate> = found.certificates.iter().collect();
    if all.is_empty() {
        return Err("it has a private key and no certificate; give both in one file".to_owned());
    }
    let named = match &args.fingerprint {
        None => all,
        Some(digits) => {
            let digits = digits.replace(':', "").to_ascii_lowercase();
            let is_it = |it: &&Certificate| hex(&it.fingerprint()).starts_with(&digits);
            let named: Vec<_> = all.into_iter().filter(is_it).collect();
            if named.is_empty() {
                return Err(format!("none of its certificates has a fingerprint like '{digits}'"));
            }
            named
        }
    };
    let keys = || found.keys.iter().filter(|_| !args.certificate_only);
    let owner = |key: &PrivateKey| named.iter().find(|it| key.belongs_to(&it.key)).copied();
    let owned = keys().find_map(|key| Some((key, owner(&key.key)?)));
    if owned.is_none() && keys().next().is_some() {
        return Err("its private key belongs to none of its certificates that are meant".to_owned());
    }
    let must = args.with_private || args.key_type == ImportedKeyType::Tls;
    if owned.is_none() && must {
        return Err("it has no private key".to_owned());
    }
    let own = match owned {
        Some((_, own)) => own,
        None => one_of(&named)?,
    };
    let mut public = pem("CERTIFICATE", own.der());
    let mut taken = 1;
    if args.key_type == ImportedKeyType::Tls {
        for certificate in behind(own, &found.certificates) {
            public.push_str(&pem("CERTIFICATE", certificate.der()));
            taken += 1;
        }
    }
    let private = owned.map(|(key, _)| key.pem());
    let left_out = found.certificates.len().saturating_sub(taken);
    Ok(Chosen { own, public, private, left_out })
}

/// The one certificate that no other one was signed by: those of authorities stand behind it.
fn one_of<'a>(named: &[&'a Certificate]) -> Result<&'a Certificate, String> {
    let is_authority = |it: &Certificate| {
        named.iter().any(|other| other.der() != it.der() && other.issuer == it.subject)
    };
    let ends: Vec<&Certificate> = named.iter().filter(|it| !is_authority(it)).copied().collect();
    match ends.as_slice() {
        [one] => Ok(one),
        _ => {
            let prints = named
                .iter()
                .map(|it| hex(&it.fingerprint()).chars().take(SHOWN_DIGITS).collect::<String>());
            let prints: Vec<String> = prints.collect();
            Err(format!(
                "it has {} certificates ({}); name one by '--fingerprint'",
                named.len(),
                prints.join(", ")
            ))
        }
    }
}

/// The chain behind a certificate, as far as it is there, without one that signed itself.
fn behind<'a>(own: &Certificate, all: &'a [Certificate]) -> Vec<&'a Certificate> {
    let mut chain: Vec<&Certificate> = Vec::new();
    let mut issuer = own.issuer.clone();
    while chain.len() < all.len() {
        let next = all.iter().find(|it| it.subject == issuer && it.subject != it.issuer);
        let Some(next) = next.filter(|next| next.der() != own.der()) else { break };
        issuer.clone_from(&next.issuer);
        chain.push(next);
    }
    chain
}

fn without_null(mut key: Value) -> Value {
    if let Value::Object(fields) = &mut key {
        fields.retain(|_, value| !value.is_null());
    }
    key
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error| Failure::file(format!("cannot read '{}': {error}", file.display()));
    let size = std::fs::metadata(file).map_err(cannot)?.len();
    if size > CONTAINER_BYTES as u64 {
        return Err(refused(file, &ContainerError::TooLarge.to_string()));
    }
    std::fs::read(file).map_err(cannot)
}

fn refused(file: &Path, why: &str) -> Failure {
    Failure::new("EP1222", Exit::Invalid, format!("'{}': {why}", file.display()))
}
