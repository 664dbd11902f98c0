//! `RevokedKeys` of `sshd_config`: a list of public keys that count no longer.

use std::collections::HashSet;
use std::path::Path;

use entrepot_openssh::authorized_keys;
use entrepot_openssh::limits::LINES;
use entrepot_ssh::keys;

use crate::files;

/// How a binary list begins (OpenSSH's PROTOCOL.krl).
const KRL: &[u8] = b"SSHKRL\n\0";

/// Keys that are revoked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Revoked {
    fingerprints: HashSet<String>,
    /// The list cannot be read: `sshd` then takes no key of anybody.
    is_unread: bool,
}

impl Revoked {
    /// Reads a list, with why it cannot be read, in a sentence.
    pub(crate) fn read(file: &str) -> (Revoked, Option<String>) {
        match files::bytes(Path::new(file)).and_then(|bytes| fingerprints(&bytes)) {
            Ok(fingerprints) => (Revoked { fingerprints, is_unread: false }, None),
            Err(why) => (Revoked { is_unread: true, ..Revoked::default() }, Some(why)),
        }
    }

    /// True if it names a key.
    pub(crate) fn names_any(&self) -> bool {
        !self.fingerprints.is_empty()
    }

    /// Why a key must not count.
    pub(crate) fn doubt(&self, public: &str) -> Option<&'static str> {
        if self.is_unread {
            return Some("RevokedKeys cannot be read and may name it");
        }
        let key = keys::public(public).ok()?;
        let is_named = self.fingerprints.contains(&keys::fingerprint(&key));
        is_named.then_some("RevokedKeys names it")
    }
}

/// Those of a list: one public key a line. `sshd` reads no further than to the first bad line.
fn fingerprints(bytes: &[u8]) -> Result<HashSet<String>, String> {
    if bytes.starts_with(KRL) {
        let what = "a binary list (KRL) is not read, every key is disabled";
        return Err(format!("{what}; name a list of public keys, one a line, in its place"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
    if text.lines().nth(LINES).is_some() {
        return Err(format!("it has more than {LINES} lines"));
    }
    let mut fingerprints = HashSet::new();
    for line in authorized_keys(text) {
        let line = line.map_err(|bad| format!("line {}: {}", bad.line, bad.problem))?;
        let key = keys::public(&line.public);
        let key = key.map_err(|error| format!("line {}: {error}", line.line))?;
        if !line.options.is_empty() {
            return Err(format!("line {}: more than a key stands there", line.line));
        }
        fingerprints.insert(keys::fingerprint(&key));
    }
    Ok(fingerprints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_list_of_keys_lets_none_count() {
        let env = entrepot_nouns::Env::simulated(1);
        let lost = keys::generate(&env, "lost").unwrap().public;
        let kept = keys::generate(&env, "kept").unwrap().public;
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("revoked");
        let read = |content: &[u8]| {
            std::fs::write(&file, content).unwrap();
            Revoked::read(file.to_str().unwrap())
        };
        let (revoked, why) = read(format!("# gone\n\n{lost} at home\n").as_bytes());
        assert_eq!(why, None);
        assert_eq!(revoked.doubt(&lost), Some("RevokedKeys names it"));
        assert_eq!(revoked.doubt(&kept), None);
        let more = format!("{lost}\nrestrict {kept}\n");
        let bad = format!("{lost}\nnonsense\n");
        let long = "#\n".repeat(LINES + 1);
        for (content, word) in [
            (&b"SSHKRL\n\0\0\0\0\x01"[..], "KRL"),
            (b"\xff\xfe", "no text"),
            (bad.as_bytes(), "line 2"),
            (more.as_bytes(), "line 2"),
            (b"ssh-ed25519 AAAA\n", "line 1"),
            (long.as_bytes(), "lines"),
        ] {
            let (revoked, why) = read(content);
            assert!(why.as_ref().unwrap().contains(word), "{why:?}");
            assert!(revoked.doubt(&kept).is_some(), "{word}");
        }
        assert!(Revoked::read("/nonexistent/list").0.doubt(&kept).is_some());
        assert_eq!(Revoked::default().doubt(&lost), None, "nothing is set");
    }
}
