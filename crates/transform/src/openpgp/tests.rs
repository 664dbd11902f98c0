//! Messages of GnuPG and of Sequoia, and of people who mean harm.

use std::io::Cursor;
use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::tools;

/// A home of GnuPG with the keys that tests name.
struct Gpg(tempfile::TempDir);

impl Drop for Gpg {
    fn drop(&mut self) {
        let mut kill = Command::new("gpgconf");
        let _ = tools::run(kill.env("GNUPGHOME", self.0.path()).args(["--kill", "all"]), b"");
    }
}

impl Gpg {
    /// Makes a key for each name: its kind and for how long.
    fn new(keys: &[(&str, &str, &str)]) -> Gpg {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let gpg = Gpg(tempfile::Builder::new().permissions(private).tempdir_in("/tmp").unwrap());
        for (name, kind, until) in keys {
            if kind.starts_with("rsa") {
                gpg.run(&["--quick-gen-key", "--passphrase", "", name, kind, "sign", until], b"");
                let print = gpg.public(name).fingerprint();
                gpg.run(&["--quick-add-key", "--passphrase", "", &print, kind, "encr", until], b"");
                continue;
            }
            gpg.run(&["--quick-gen-key", "--passphrase", "", name, kind, "default", until], b"");
        }
        gpg
    }

    fn try_run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        let mut gpg = Command::new("gpg");
        gpg.env("GNUPGHOME", self.0.path()).args(["--batch", "--no-tty", "--quiet", "--yes"]);
        tools::run(
            gpg.args(["--trust-model", "always", "--pinentry-mode", "loopback"]).args(arguments),
            input,
        )
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let ended = self.try_run(arguments, input);
        ended.unwrap_or_else(|words| panic!("{arguments:?}: {words}"))
    }

    fn public(&self, name: &str) -> PublicKey {
        PublicKey::parse(&self.run(&["--armor", "--export", name], b"")).unwrap()
    }

    fn secret(&self, name: &str) -> SecretKey {
        SecretKey::parse(&self.run(&["--export-secret-keys", name], b"")).unwrap()
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn ours_and_theirs() -> Gpg {
    Gpg::new(&[
        ("ours", "rsa2048", "0"),
        ("theirs", "future-default", "0"),
        ("other", "default", "0"),
    ])
}

fn env() -> Env {
    Env::real()
}

fn sample() -> Vec<u8> {
    (0..400_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn opened<'a>(signed_by: &'a [&'a PublicKey]) -> Opened<'a> {
    Opened { signed_by, at: env().now(), bounds: Bounds::default() }
}

fn decrypted(
    message: &[u8],
    keys: &[&SecretKey],
    signed_by: &[&PublicKey],
) -> Result<(Vec<u8>, Option<String>), TransformError> {
    let mut out = Vec::new();
    let signer = decrypt(&opened(signed_by), keys, message, &mut out)?;
    Ok((out, signer))
}

fn encrypted(to: &[&PublicKey], signers: &[&SecretKey], armor: Armor, bytes: &[u8]) -> Vec<u8> {
    let sealing = Sealing { to, signers, armor, at: env().now() };
    let mut out = Vec::new();
    encrypt(&sealing, &env(), bytes, &mut out).unwrap();
    out
}

#[test]
fn gpg_opens_our_messages_and_we_those_of_gpg() {
    let gpg = ours_and_theirs();
    let (ours, theirs) = (gpg.secret("ours"), gpg.public("theirs"));
    let print = theirs.fingerprint();
    for bytes in [Vec::new(), b"one line\n".to_vec(), sample()] {
        for armor in [Armor::Text, Armor::Binary] {
            let message = encrypted(&[&theirs, ours.public()], &[&ours], armor, &bytes);
            let path = gpg.file("message", &message);
            let path = path.to_str().unwrap();
            assert!(gpg.run(&["--decrypt", path], b"") == bytes);
            let status = gpg.run(&["--status-fd", "1", "-o", "/dev/null", "--decrypt", path], b"");
            let status = String::from_utf8(status).unwrap();
            assert!(status.contains("GOODSIG") && status.contains("GOODMDC"), "{status}");
        }
        let sets: [&[&str]; 5] = [
            &["-r", "ours"],
            &["-r", "ours", "--armor"],
            &["-r", "ours", "--compress-algo", "none"],
            &["-r", "ours", "--compress-algo", "zip"],
            &["-R", "ours", "-r", "other", "--cipher-algo", "AES128"],
        ];
        for more in sets {
            let mut arguments = vec!["--encrypt"];
            arguments.extend(more);
            let message = gpg.run(&arguments, &bytes);
            let (found, signer) = decrypted(&message, &[&ours], &[]).unwrap();
            assert!(found == bytes && signer.is_none(), "{more:?}");
            arguments.splice(0..0, ["--sign", "-u", "theirs"]);
            let message = gpg.run(&arguments, &bytes);
            let (found, signer) = decrypted(&message, &[&ours], &[&theirs]).unwrap();
            assert!(found == bytes && signer.as_ref() == Some(&print), "{more:?}");
            let other = gpg.public("other");
            let wrong = decrypted(&message, &[&ours], &[&other]);
            assert!(matches!(wrong, Err(TransformError::NotSigned(_))), "{more:?}: {wrong:?}");
        }
    }
}

#[test]
fn the_end_of_a_key_is_found_to_the_second() {
    let gpg = Gpg::new(&[("short", "default", "5d"), ("endless", "default", "0")]);
    let (now, day) = (env().now(), std::time::Duration::from_secs(24 * 3600));
    let end = gpg.public("short").ends_between(now, now.plus(day * 60)).unwrap();
    let left = end.since(now);
    assert!(left > day * 5 - day / 24 && left <= day * 5 + day / 24, "{left:?}");
    assert_eq!(gpg.public("short").ends_between(now, now.plus(day * 4)), None);
    assert_eq!(gpg.public("endless").ends_between(now, now.plus(day * 60)), None);
    let short = gpg.public("short");
    assert!(short.check(Usage::Sign, seconds(end) - 1).is_ok());
    assert!(short.check(Usage::Sign, seconds(end)).is_err());
}

#[test]
fn gpg_takes_the_keys_that_are_made_here() {
    let gpg = Gpg::new(&[]);
    let made = make("Example Ltd <edi@example.com>", &env()).unwrap();
    let key = SecretKey::parse(made.private.expose()).unwrap();
    assert_eq!(PublicKey::parse(made.public.as_bytes()).unwrap().fingerprint(), made.fingerprint);
    let path = gpg.file("key", made.public.as_bytes());
    gpg.run(&["--import", path.to_str().unwrap()], b"");
    let message = gpg.run(&["--encrypt", "-r", "edi@example.com"], &sample());
    let (found, _) = decrypted(&message, &[&key], &[]).unwrap();
    assert!(found == sample());
    let signed = encrypted(&[key.public()], &[&key], Armor::Binary, b"x");
    let (_, signer) = decrypted(&signed, &[&key], &[key.public()]).unwrap();
    assert_eq!(signer, Some(made.fingerprint));
    let path = gpg.file("private", made.private.expose());
    gpg.run(&["--import", path.to_str().unwrap()], b"");
    let status = gpg.run(&["--status-fd", "1", "-o", "/dev/null", "--decrypt"], &signed);
    assert!(String::from_utf8(status).unwrap().contains("GOODSIG"));
    for owner in ["", "  ", "a\nb", &"x".repeat(501)] {
        assert!(make(owner, &env()).is_err(), "{owner:?}");
    }
}

#[test]
fn sequoia_opens_our_messages_and_we_those_of_sequoia() {
    let folder = tempfile::tempdir().unwrap();
    let sq = |arguments: &[&str], input: &[u8]| {
        let mut sq = Command::new("sq");
        tools::run(sq.current_dir(folder.path()).args(arguments), input).unwrap()
    };
    sq(&["key", "generate", "--userid", "k", "--export", "key.pgp"], b"");
    std::fs::write(folder.path().join("cert.pgp"), sq(&["key", "extract-cert", "key.pgp"], b""))
        .unwrap();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let key = SecretKey::parse(&read("key.pgp")).unwrap();
    let cert = PublicKey::parse(&read("cert.pgp")).unwrap();
    let message = encrypted(&[&cert], &[&key], Armor::Text, &sample());
    let arguments =
        ["decrypt", "--recipient-key", "key.pgp", "--signer-cert", "cert.pgp", "--signatures", "1"];
    assert!(sq(&arguments, &message) == sample());
    let arguments = ["encrypt", "--recipient-cert", "cert.pgp", "--signer-key", "key.pgp"];
    let message = sq(&arguments, &sample());
    let (found, signer) = decrypted(&message, &[&key], &[&cert]).unwrap();
    assert!(found == sample() && signer == Some(cert.fingerprint()));
}

#[test]
fn signatures_are_checked_both_ways() {
    let gpg = ours_and_theirs();
    let (ours, theirs) = (gpg.secret("ours"), gpg.public("theirs"));
    let bytes = sample();
    let at = env().now();
    let signers: [&SecretKey; 1] = [&ours];
    for armor in [Armor::Text, Armor::Binary] {
        let sealing = Sealing { to: &[], signers: &signers, armor, at };
        let mut message = Vec::new();
        sign(&sealing, &env(), bytes.as_slice(), &mut message).unwrap();
        assert!(gpg.run(&["--decrypt"], &message) == bytes);
        let mut found = Vec::new();
        let by: [&PublicKey; 2] = [&theirs, ours.public()];
        let signer = verify(&opened(&by), message.as_slice(), &mut found).unwrap();
        assert!(found == bytes && signer == ours.public().fingerprint());
        let mut detached = Vec::new();
        sign_detached(&sealing, &env(), bytes.as_slice(), &mut detached).unwrap();
        let (file, signature) = (gpg.file("file", &bytes), gpg.file("file.sig", &detached));
        gpg.run(&["--verify", signature.to_str().unwrap(), file.to_str().unwrap()], b"");
    }
    for more in [&["--sign"][..], &["--sign", "--armor"], &["--sign", "--compress-algo", "none"]] {
        let message = gpg.run(&[more, &["-u", "theirs"]].concat(), &bytes);
        let mut found = Vec::new();
        assert_eq!(
            verify(&opened(&[&theirs]), message.as_slice(), &mut found).unwrap(),
            theirs.fingerprint()
        );
        assert!(found == bytes);
        let other = verify(&opened(&[ours.public()]), message.as_slice(), Vec::new());
        assert!(matches!(other, Err(TransformError::NotSigned(_))), "{other:?}");
        let decrypt = decrypted(&message, &[&ours], &[&theirs]);
        assert!(matches!(decrypt, Err(TransformError::NotDecrypted)), "not encrypted: {decrypt:?}");
    }
    let other = gpg.public("other");
    for more in
        [&["-u", "theirs"][..], &["--armor", "-u", "theirs"], &["-u", "ours", "-u", "theirs"]]
    {
        let signature = gpg.run(&[more, &["--detach-sign"]].concat(), &bytes);
        let check = |by: &PublicKey, bytes: &[u8]| {
            verify_detached(&signature, &[by], at, Cursor::new(bytes))
        };
        assert_eq!(check(&theirs, &bytes).unwrap(), theirs.fingerprint());
        assert!(matches!(check(&other, &bytes), Err(TransformError::NotSigned(_))));
        assert!(matches!(check(&theirs, &bytes[1..]), Err(TransformError::NotSigned(_))));
    }
    let weak = gpg.run(&["--digest-algo", "SHA1", "-u", "ours", "--detach-sign"], &bytes);
    let weak = verify_detached(&weak, &[ours.public()], at, Cursor::new(&bytes));
    assert!(matches!(weak, Err(TransformError::NotSigned(_))), "{weak:?}");
}

/// Every place of a message for a key of Curve25519, which is quick; and with an RSA key, which is
/// slow, its head and samples of the rest.
#[test]
fn a_changed_or_cut_message_gives_one_answer() {
    let gpg = ours_and_theirs();
    let (ours, theirs) = (gpg.secret("ours"), gpg.secret("theirs"));
    let bytes = b"a file of some length\n".repeat(3);
    // A packet that readers skip, of 8 MiB.
    let marker = [&[0xca, 0xff, 0, 0x80, 0, 0], &vec![7; 8 << 20][..]].concat();
    for (name, key, other) in [("theirs", &theirs, &ours), ("ours", &ours, &theirs)] {
        let message = encrypted(&[key.public()], &[], Armor::Binary, &bytes);
        let of_gpg = gpg.run(&["--encrypt", "-r", name], &bytes);
        for message in [&message, &of_gpg] {
            not_decrypted(message, &[other], "another key".to_owned());
            not_decrypted(message, &[], "no key".to_owned());
            not_decrypted(&marker, &[key], "a long marker".to_owned());
            let every = if name == "ours" { 37 } else { 1 };
            for at in (0..message.len()).filter(|at| *at < 16 || at % every == 0) {
                not_decrypted(&message[..at], &[key], format!("{name}, cut at {at}"));
                let mut changed = message.clone();
                changed[at] ^= 1;
                // The numbers that tell whose key it is may change and the message still open.
                if let Ok((found, _)) = decrypted(&changed, &[key], &[]) {
                    assert!(found == bytes, "{name}, {at}");
                    assert!(at < 16, "{name}: a change at {at} was not seen");
                }
            }
            not_decrypted(&[message.as_slice(), message].concat(), &[key], "two".to_owned());
        }
    }
    same_text(&gpg, &ours);
}

fn not_decrypted(message: &[u8], keys: &[&SecretKey], what: String) {
    match decrypted(message, keys, &[]) {
        Err(TransformError::NotDecrypted) => {}
        ended => panic!("{what}: {ended:?}"),
    }
}

/// Neither passwords nor packets that anybody can change.
fn same_text(gpg: &Gpg, ours: &SecretKey) {
    let password = gpg.run(&["--symmetric", "--passphrase", "x"], b"text");
    assert!(matches!(decrypted(&password, &[ours], &[]), Err(TransformError::NotDecrypted)));
    let old = gpg.try_run(&["--encrypt", "-r", "ours", "--rfc2440", "--disable-mdc"], b"text");
    if let Ok(old) = old {
        let is_old = decrypted(&old, &[ours], &[]);
        // GnuPG 2.2 ignores the option and protects the message all the same.
        assert!(is_old.is_err() || is_old.unwrap().0 == b"text");
    }
    // A bare packet of type 9, with nothing to protect it.
    let bare = [vec![0xc9, 40], vec![7; 40]].concat();
    assert!(matches!(decrypted(&bare, &[ours], &[]), Err(TransformError::NotDecrypted)));
}

#[test]
fn a_key_counts_while_it_is_valid() {
    let gpg =
        Gpg::new(&[("short", "rsa2048", "1d"), ("gone", "rsa2048", "0"), ("fine", "default", "0")]);
    let (short, fine) = (gpg.public("short"), gpg.secret("fine"));
    let message = gpg.run(&["--encrypt", "-r", "fine", "--sign", "-u", "short"], b"text");
    let now = env().now();
    let later = Timestamp::from_seconds(i64::from(seconds(now)) + 2 * 86_400);
    let by: [&PublicKey; 1] = [&short];
    let at = |at| {
        let wanted = Opened { signed_by: &by, at, bounds: Bounds::default() };
        decrypt(&wanted, &[&fine], message.as_slice(), Vec::new())
    };
    assert!(at(now).unwrap().is_some());
    assert!(matches!(at(later), Err(TransformError::NotSigned(_))), "an expired key signs");
    let to: [&PublicKey; 1] = [&short];
    let encrypt_at = |at| {
        let sealing = Sealing { to: &to, signers: &[], armor: Armor::Text, at };
        encrypt(&sealing, &env(), b"text".as_slice(), Vec::new())
    };
    encrypt_at(now).unwrap();
    let expired = encrypt_at(later).unwrap_err().to_string();
    assert!(expired.contains("expired"), "{expired}");
    let gone = gpg.run(&["--encrypt", "-r", "fine", "--sign", "-u", "gone"], b"text");
    let print = gpg.public("gone").fingerprint().to_uppercase();
    let revocation = gpg.0.path().join(format!("openpgp-revocs.d/{print}.rev"));
    let revocation = std::fs::read_to_string(revocation).unwrap().replace(":---", "---");
    gpg.run(&["--import"], revocation.as_bytes());
    let revoked = gpg.public("gone");
    let error = revoked.check(Usage::Encrypt, seconds(now)).unwrap_err().to_string();
    assert!(error.contains("revoked"), "{error}");
    let signed = decrypted(&gone, &[&fine], &[&revoked]);
    assert!(matches!(signed, Err(TransformError::NotSigned(_))), "{signed:?}");
}

#[test]
fn bombs_end_at_their_bound() {
    let gpg = ours_and_theirs();
    let ours = gpg.secret("ours");
    let zeros = vec![0; 32 << 20];
    for algorithm in ["zip", "zlib"] {
        let message = gpg.run(&["--encrypt", "-r", "ours", "--compress-algo", algorithm], &zeros);
        let ended = decrypted(&message, &[&ours], &[]);
        assert!(matches!(ended, Err(TransformError::OverBound(_))), "{algorithm}");
    }
    // Inside: 30 MB of a packet that a reader skips, and would keep.
    let padding = [vec![0xff, 0xff, 1, 0xe0, 0, 0], vec![0; 0x1e0_0000]].concat();
    let literal = [0xcb, 7, b'b', 0, 0, 0, 0, 0, b'x'];
    for parts in [[&padding[..], &literal[..]].concat(), [&literal[..], &padding[..]].concat()] {
        let mut deflated = vec![0xc8, 0xff, 0, 0, 0, 0, 1];
        crate::fuzzing::deflate(&parts, &mut deflated);
        let length = u32::try_from(deflated.len() - 6).unwrap();
        deflated[2..6].copy_from_slice(&length.to_be_bytes());
        let ended = verify(&opened(&[ours.public()]), deflated.as_slice(), Vec::new());
        assert!(matches!(ended, Err(TransformError::OverBound(_))), "{ended:?}");
    }
}

#[test]
fn keys_that_cannot_be_used_are_refused_with_the_reason() {
    let gpg = ours_and_theirs();
    gpg.run(&["--quick-gen-key", "--passphrase", "secret", "locked"], b"");
    let locked = ["--passphrase", "secret", "--export-secret-keys", "locked"];
    let refused = |error: TransformError, text: &str| {
        assert!(error.to_string().contains(text), "{error}");
    };
    refused(SecretKey::parse(&gpg.run(&locked, b"")).unwrap_err(), "passphrase");
    let two = gpg.run(&["--export", "ours", "theirs"], b"");
    refused(PublicKey::parse(&two).unwrap_err(), "more than one");
    refused(PublicKey::parse(b"text").unwrap_err(), "no OpenPGP public key");
    let public = gpg.run(&["--export", "ours"], b"");
    refused(SecretKey::parse(&public).unwrap_err(), "no OpenPGP private key");
    // Without self-signatures nobody says what it is for.
    let bare = PublicKey::parse(&public).unwrap();
    bare.check(Usage::Sign, seconds(env().now())).unwrap();
    refused(bare.check(Usage::Sign, 1_000_000_000).unwrap_err(), "does not sign itself");
}
