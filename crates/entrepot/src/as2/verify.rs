//! `as2 verify`: evidence, checked offline.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use entrepot_crypto::{Certificate, Hasher, Sha256, StreamDigest};
use entrepot_nouns::transfer::hex;
use entrepot_proof::{As2Bundle, As2Check, ProofError};
use serde_json::json;

use crate::args::As2VerifyArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::receipt;
use crate::table::printable;

/// Bytes of a file that are read at a time.
const BLOCK_BYTES: usize = 256 * 1024;

/// Checks all parts, and fails if one of them does not hold.
pub(super) fn run(output: Output, args: &As2VerifyArgs) -> Result<(), Failure> {
    let invalid = |error: ProofError| Failure::new(error.code(), Exit::Findings, error.to_string());
    let key = args.key.as_deref().map(receipt::verifier).transpose()?;
    let limit = entrepot_proof::limits::EVIDENCE_BYTES;
    let text = receipt::read_up_to(&args.bundle, limit)?;
    let bundle = As2Bundle::parse(&text).map_err(invalid)?;
    let mut checks = bundle.check(key.as_ref());
    if let Some(file) = &args.certificate {
        checks.push(signer(&bundle, file)?);
    }
    if let Some(file) = &args.file {
        checks.extend(content(&bundle, file)?);
    }
    let failed: Vec<&str> = checks.iter().filter(|it| !it.holds).map(|it| it.part).collect();
    output.value(&json!({"valid": failed.is_empty(), "checks": checks}), || {
        checks.iter().for_each(print);
        if args.key.is_none() {
            println!("key     {} (compare it with the one of the node)", bundle.record.key);
        }
    })?;
    match failed.first() {
        None => Ok(()),
        Some(part) => {
            let count = failed.len();
            let found = format!("the evidence does not hold: {part} ({count} of its checks fail)");
            Err(Failure::new("EP1218", Exit::Findings, found))
        }
    }
}

fn print(check: &As2Check) {
    let word = if check.holds { "holds" } else { "FAILS" };
    println!("{word}   {:<13} {}", check.part, printable(&check.found));
}

/// Whether this certificate signed the receipt.
fn signer(bundle: &As2Bundle, file: &Path) -> Result<As2Check, Failure> {
    let pem = receipt::read_up_to(file, entrepot_proof::limits::RECEIPT_BYTES)?;
    let wrong = |why: String| Failure::usage(format!("'{}': {why}", file.display()));
    let all = Certificate::all_from_pem(&pem).map_err(|error| wrong(error.to_string()))?;
    let [certificate] = all.as_slice() else {
        return Err(wrong("give one certificate".to_owned()));
    };
    let given = hex(&certificate.fingerprint());
    Ok(match bundle.signer() {
        Some(signer) if signer == given => {
            let found = "the one that was given signed the receipt".to_owned();
            As2Check { part: "certificates", holds: true, found }
        }
        Some(signer) => {
            let found = format!("{signer} signed the receipt, and not the one that was given");
            As2Check { part: "certificates", holds: false, found }
        }
        None => {
            let found = "no certificate of the evidence signed the receipt".to_owned();
            As2Check { part: "certificates", holds: false, found }
        }
    })
}

/// Whether this is the file of the message, and, where that can be told, what its partner signed.
fn content(bundle: &As2Bundle, file: &Path) -> Result<Vec<As2Check>, Failure> {
    let check = |holds, found: &str| As2Check { part: "file", holds, found: found.to_owned() };
    let Some(recorded) = &bundle.parts.file else {
        return Ok(vec![check(false, "no file is recorded")]);
    };
    let signed = bundle.signed_file();
    let mut entity = signed.as_ref().map(|signed| Hasher::new(signed.mic.algorithm.hash()));
    if let (Some(entity), Some(signed)) = (&mut entity, &signed) {
        entity.update(signed.head.as_bytes());
    }
    let cannot = |error| Failure::file(format!("cannot read '{}': {error}", file.display()));
    let mut opened = File::open(file).map_err(cannot)?;
    let mut digest = StreamDigest::new(Sha256::Wanted);
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let count = opened.read(&mut block).map_err(cannot)?;
        if count == 0 {
            break;
        }
        let piece = block.get(..count).unwrap_or_default();
        digest.update(piece);
        if let Some(entity) = &mut entity {
            entity.update(piece);
        }
    }
    let mut checks = Vec::new();
    if let (Some(entity), Some(signed)) = (entity, signed) {
        let holds = entity.finish() == signed.mic.digest;
        let found = if holds { "it covers" } else { "it does not cover" };
        let found = format!("{found} the file that was given");
        checks.push(As2Check { part: "signature", holds, found });
    }
    let found = digest.finish();
    let recorded_digests = &recorded.digests;
    let pairs = [(recorded_digests.blake3, found.blake3), (recorded_digests.sha256, found.sha256)];
    let compared: Vec<bool> =
        pairs.into_iter().filter_map(|(recorded, found)| Some(recorded? == found?)).collect();
    checks.push(match compared.as_slice() {
        _ if digest.length() != recorded.size => check(false, "the one given has another size"),
        [] => check(false, "no digest is recorded that it could be compared with"),
        all if all.iter().all(|same| *same) => check(true, "the one given has these digests"),
        _ => check(false, "the one given has another digest"),
    });
    Ok(checks)
}
