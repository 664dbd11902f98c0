//! Lines of `authorized_keys` as keys of ours.

use entrepot_auth::check_login_key;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::{Key, KeyType, Name, Source, Timestamp};
use entrepot_openssh::{AuthorizedKey, Expiry, KeyOption, SftpCommand};

use crate::revoked::Revoked;

/// A key, and what of its options is not as it was.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) key: Key,
    /// Why it is disabled.
    pub(crate) doubts: Vec<String>,
    /// What is otherwise worth a word.
    pub(crate) notes: Vec<String>,
}

/// Options that take away, or give, what nobody has here.
const WITHOUT_MEANING: [&str; 12] = [
    "restrict",
    "no-agent-forwarding",
    "no-port-forwarding",
    "no-pty",
    "no-user-rc",
    "no-x11-forwarding",
    "agent-forwarding",
    "port-forwarding",
    "pty",
    "user-rc",
    "x11-forwarding",
    "no-touch-required",
];

/// Takes one line.
///
/// # Errors
/// A sentence: the key cannot be taken at all.
pub(crate) fn take(
    account: &str,
    line: &AuthorizedKey,
    revoked: &Revoked,
) -> Result<Taken, String> {
    check_login_key(&line.public).map_err(|problem| problem.to_string())?;
    let signs = line.options.iter().any(|option| option.name == "cert-authority");
    let (kind, key_type) = if signs { ("ca-", KeyType::SshUserCa) } else { ("", KeyType::SshUser) };
    let name = named(account, &format!("{kind}{}", digits(&line.public)))?;
    let mut key = Key::new(name, key_type, line.public.clone());
    key.account = Some(account.parse().map_err(|error| format!("{error}"))?);
    let doubts = revoked.doubt(&line.public).into_iter().map(str::to_owned).collect();
    let mut taken = Taken { key, doubts, notes: Vec::new() };
    for option in &line.options {
        taken.obey(option);
    }
    taken.key.enabled = taken.doubts.is_empty();
    Ok(taken)
}

/// A key that signs certificates for `account`.
///
/// # Errors
/// As [`take`].
pub(crate) fn signer(account: &str, public: &str, principals: Vec<String>) -> Result<Key, String> {
    check_login_key(public).map_err(|problem| problem.to_string())?;
    let name = named(account, &format!("ca-{}", digits(public)))?;
    let mut key = Key::new(name, KeyType::SshUserCa, public.to_owned());
    key.account = Some(account.parse().map_err(|error| format!("{error}"))?);
    key.principals = principals;
    Ok(key)
}

/// A name made of two parts.
pub(crate) fn named(front: &str, back: &str) -> Result<Name, String> {
    format!("{front}-{back}").parse().map_err(|error| format!("{error}"))
}

/// Eight digits that are the same for the same key.
pub(crate) fn digits(public: &str) -> String {
    let blob = public.split_ascii_whitespace().nth(1).unwrap_or_default();
    let mut digest = StreamDigest::new(Sha256::Wanted);
    digest.update(blob.as_bytes());
    let hash = digest.finish().sha256.unwrap_or_default();
    hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl Taken {
    fn obey(&mut self, option: &KeyOption) {
        let signs = self.key.key_type == KeyType::SshUserCa;
        let value = option.value.as_deref();
        match (option.name.as_str(), value) {
            ("cert-authority", None) => {}
            ("principals", Some(list)) if signs => {
                let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
                self.key.principals = names.map(str::to_owned).collect();
                if self.key.principals.is_empty() {
                    self.doubts.push("it names no principals".to_owned());
                }
            }
            ("from", Some(list)) => self.obey_from(list),
            ("expiry-time", Some(_)) => match option.expiry().and_then(moment) {
                Some(moment) => self.key.not_after = Some(moment),
                None => self.doubts.push("its expiry-time cannot be read".to_owned()),
            },
            ("command", Some(line)) => match SftpCommand::parse(line) {
                Some(command) => {
                    self.key.read_only |= command.read_only;
                    if let Some(start) = command.start {
                        self.notes.push(format!("sessions do not start in '{start}'"));
                    }
                }
                None => self.doubts.push(format!("it runs '{line}'")),
            },
            (name, None) if WITHOUT_MEANING.contains(&name) => {}
            (name, _) => self.doubts.push(format!("the option '{name}' cannot be obeyed")),
        }
    }

    fn obey_from(&mut self, list: &str) {
        for pattern in list.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()) {
            match pattern.parse::<Source>() {
                Ok(source) => self.key.from.push(source),
                // To leave out what it refuses would admit more.
                Err(_) if pattern.starts_with('!') => {
                    self.doubts.push(format!("from refuses the host name '{pattern}'"));
                }
                Err(_) => self.notes.push(format!("the host name '{pattern}' no longer counts")),
            }
        }
        if self.key.from.iter().all(Source::refuses) {
            self.doubts.push("from names no address".to_owned());
        }
    }
}

/// A moment, if there is such a day.
fn moment(expiry: Expiry) -> Option<Timestamp> {
    let ((year, month, day), (hour, minute, second)) = (expiry.date, expiry.time);
    let civil = jiff::civil::DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    let zone = if expiry.is_utc { jiff::tz::TimeZone::UTC } else { jiff::tz::TimeZone::system() };
    Some(Timestamp(civil.to_zoned(zone).ok()?.timestamp().as_microsecond()))
}

#[cfg(test)]
mod tests {
    use entrepot_ssh::keys;

    use super::*;
    use entrepot_nouns::{Env, Noun};

    fn taken(options: &str) -> Taken {
        let public = keys::generate(&Env::simulated(1), "anna").unwrap().public;
        let text = format!("{options} {public}\n");
        let line = entrepot_openssh::authorized_keys(text.trim()).pop().unwrap().unwrap();
        let taken = take("anna", &line, &Revoked::default()).unwrap();
        taken.key.check().unwrap();
        taken
    }

    #[test]
    fn options_that_mean_something_here_are_obeyed() {
        let plain = taken("");
        assert!(plain.key.enabled && plain.key.from.is_empty() && plain.notes.is_empty());
        assert!(plain.key.name.as_str().starts_with("anna-"), "{}", plain.key.name);
        assert_eq!(plain.key.name, taken("restrict,no-pty").key.name, "the same key, one name");
        let bound = taken("from=\"10.0.0.0/8,!10.9.*\",command=\"internal-sftp -R\"").key;
        assert!(bound.enabled && bound.read_only && bound.from.len() == 2);
        let until = taken("expiry-time=\"20270131Z\"").key.not_after.unwrap();
        assert_eq!(until, "2027-01-31T00:00:00Z".parse().unwrap());
        let signer = taken("cert-authority,principals=\"ops, batch\"").key;
        assert_eq!((signer.key_type, signer.principals.len()), (KeyType::SshUserCa, 2));
    }

    #[test]
    fn what_cannot_be_obeyed_disables_the_key() {
        for options in [
            "command=\"rsync --server\"",
            "environment=\"A=b\"",
            "permitopen=\"h:1\"",
            "tunnel=\"0\"",
            "verify-required",
            "unheard-of",
            "from=\"host.example\"",
            "from=\"10.0.0.0/8,!bad.example\"",
            "from=\"\"",
            "expiry-time=\"20271301\"",
            "expiry-time=\"soon\"",
            "principals=\"a\"",
            "cert-authority,principals=\"\"",
        ] {
            let taken = taken(options);
            assert!(!taken.key.enabled && taken.doubts.len() == 1, "{options}: {:?}", taken.doubts);
        }
        let some = taken("from=\"10.0.0.1,host.example\"");
        assert!(some.key.enabled && some.notes.len() == 1, "a host name less is no more");
    }

    #[test]
    fn weak_and_broken_keys_are_not_taken() {
        for (public, words) in [
            ("ssh-ed25519 AAAA", "cannot be read"),
            (include_str!("../../auth/fixtures/dsa.pub"), "DSA keys are too weak"),
            (include_str!("../../auth/fixtures/rsa1024.pub"), "an RSA key of 1024 bits"),
        ] {
            let line = AuthorizedKey { line: 1, options: Vec::new(), public: public.to_owned() };
            let taken = take("anna", &line, &Revoked::default());
            assert!(taken.as_ref().is_err_and(|why| why.contains(words)), "{taken:?}");
            let signer = signer("anna", public, Vec::new());
            assert!(signer.as_ref().is_err_and(|why| why.contains(words)), "{signer:?}");
        }
    }
}
