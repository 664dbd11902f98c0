//! What each keyword of `sshd_config` means to an import, and the report of each line.

use std::collections::HashSet;

use entrepot_openssh::{Config as Sshd, Criterion, Setting, Who};

use crate::report::{Outcome, Report};

/// What an import does with a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// It is looked at for each user.
    OfUsers,
    /// It is looked at for the listener.
    OfListener,
    /// There is nothing to take; why.
    Ours(&'static str),
    /// It cannot be taken; why, and what to do.
    Look(&'static str),
}

use Meaning::{Look, OfListener, OfUsers, Ours};

const OFFERED: &str = "files are all that is offered: no shell, no forwarding";
const ALGORITHMS: &str = "the listener has sets of algorithms of its own";
const LIMITS: &str = "limits before and after login are those of policies";
const LOGS: &str = "logs and audit have settings of their own";
const NEVER: &str = "this way to log in is never offered";

/// Keywords in lower case.
const MEANINGS: [(&str, Meaning); 84] = [
    ("match", OfUsers),
    ("include", OfUsers),
    ("chrootdirectory", OfUsers),
    ("forcecommand", OfUsers),
    ("subsystem", OfUsers),
    ("authorizedkeysfile", OfUsers),
    ("trustedusercakeys", OfUsers),
    ("authorizedprincipalsfile", OfUsers),
    ("revokedkeys", OfUsers),
    ("allowusers", OfUsers),
    ("allowgroups", OfUsers),
    ("denyusers", OfUsers),
    ("denygroups", OfUsers),
    ("passwordauthentication", OfUsers),
    ("kbdinteractiveauthentication", OfUsers),
    ("challengeresponseauthentication", OfUsers),
    ("pubkeyauthentication", OfUsers),
    ("authenticationmethods", OfUsers),
    ("hostkey", OfListener),
    ("hostcertificate", OfListener),
    ("banner", OfListener),
    ("port", OfListener),
    ("listenaddress", OfListener),
    ("addressfamily", Ours("the address of the listener says it")),
    ("authorizedkeyscommand", Look("keys of a command are not read: import them from a file")),
    ("authorizedkeyscommanduser", Ours("see AuthorizedKeysCommand")),
    ("authorizedprincipalscommand", Look("principals of a command are not read")),
    ("authorizedprincipalscommanduser", Ours("see AuthorizedPrincipalsCommand")),
    ("usepam", Ours("PAM is not asked: passwords are our own, by whichever method PAM asked")),
    ("permitrootlogin", Ours("accounts of the machine mean nothing here")),
    ("permitemptypasswords", Ours("never")),
    ("strictmodes", OfUsers),
    ("permituserenvironment", Ours("never")),
    ("permituserrc", Ours("never")),
    ("hostbasedauthentication", Ours(NEVER)),
    ("hostbasedacceptedalgorithms", Ours(NEVER)),
    ("hostbasedusesnamefrompacketonly", Ours(NEVER)),
    ("ignorerhosts", Ours(NEVER)),
    ("ignoreuserknownhosts", Ours(NEVER)),
    ("gssapiauthentication", Ours(NEVER)),
    ("gssapicleanupcredentials", Ours(NEVER)),
    ("gssapikeyexchange", Ours(NEVER)),
    ("gssapistrictacceptorcheck", Ours(NEVER)),
    ("kerberosauthentication", Ours(NEVER)),
    ("kerberosorlocalpasswd", Ours(NEVER)),
    ("kerberosticketcleanup", Ours(NEVER)),
    ("x11forwarding", Ours(OFFERED)),
    ("x11displayoffset", Ours(OFFERED)),
    ("x11uselocalhost", Ours(OFFERED)),
    ("allowtcpforwarding", Ours(OFFERED)),
    ("allowagentforwarding", Ours(OFFERED)),
    ("allowstreamlocalforwarding", Ours(OFFERED)),
    ("disableforwarding", Ours(OFFERED)),
    ("gatewayports", Ours(OFFERED)),
    ("permitopen", Ours(OFFERED)),
    ("permitlisten", Ours(OFFERED)),
    ("permittunnel", Ours(OFFERED)),
    ("permittty", Ours(OFFERED)),
    ("printmotd", Ours(OFFERED)),
    ("printlastlog", Ours(OFFERED)),
    ("acceptenv", Ours(OFFERED)),
    ("setenv", Ours(OFFERED)),
    ("streamlocalbindunlink", Ours(OFFERED)),
    ("ciphers", Ours(ALGORITHMS)),
    ("macs", Ours(ALGORITHMS)),
    ("kexalgorithms", Ours(ALGORITHMS)),
    ("hostkeyalgorithms", Ours(ALGORITHMS)),
    ("pubkeyacceptedalgorithms", Ours(ALGORITHMS)),
    ("pubkeyacceptedkeytypes", Ours(ALGORITHMS)),
    ("casignaturealgorithms", Ours(ALGORITHMS)),
    ("rekeylimit", Ours(ALGORITHMS)),
    ("compression", Ours(ALGORITHMS)),
    ("requiredrsasize", Ours("RSA keys need 2,048 bits")),
    ("logingracetime", Ours(LIMITS)),
    ("maxauthtries", Ours(LIMITS)),
    ("maxsessions", Ours(LIMITS)),
    ("maxstartups", Ours(LIMITS)),
    ("persourcemaxstartups", Ours(LIMITS)),
    ("persourcepenalties", Ours(LIMITS)),
    ("clientaliveinterval", Ours(LIMITS)),
    ("clientalivecountmax", Ours(LIMITS)),
    ("tcpkeepalive", Ours(LIMITS)),
    ("syslogfacility", Ours(LOGS)),
    ("loglevel", Ours(LOGS)),
];

/// The file and line of a setting.
pub(crate) type SettingPlace = (String, usize);

/// What a keyword means.
fn meaning(keyword: &str) -> Meaning {
    let others = [
        ("usedns", Ours("addresses are never looked up")),
        ("pidfile", Ours("the process file has settings of its own")),
        ("versionaddendum", Ours("no version is told")),
        ("logverbose", Ours(LOGS)),
        ("fingerprinthash", Ours(LOGS)),
        ("debianbanner", Ours("no version is told")),
    ];
    let found = MEANINGS.iter().chain(&others).find(|(known, _)| *known == keyword);
    found.map_or(Look("not known here: see whether it restricts somebody"), |(_, it)| *it)
}

/// File and line of each setting that counts for somebody.
pub(crate) fn counting(sshd: &Sshd, who: Who<'_>) -> HashSet<SettingPlace> {
    let keywords: HashSet<&str> =
        sshd.settings.iter().map(|setting| setting.keyword.as_str()).collect();
    let all = keywords.into_iter().flat_map(|keyword| sshd.all(keyword, Some(who)));
    let matched = sshd.settings.iter().filter(|setting| {
        setting.keyword == "match" && setting.when.iter().all(|criterion| criterion.holds(who))
    });
    all.chain(matched).map(|setting| (setting.file.clone(), setting.line)).collect()
}

/// Puts a line for each line of the configuration before the rest of the report.
pub(crate) fn report_on(report: &mut Report, sshd: &Sshd, taken: &HashSet<SettingPlace>) {
    let mut said = Report::default();
    for (file, bad) in &sshd.bad {
        said.refused(format!("{file}:{}", bad.line), "-", bad.problem.clone());
    }
    for setting in &sshd.settings {
        let (place, what) = (place_of(setting), setting.to_string());
        match meaning(&setting.keyword) {
            Meaning::OfListener => {}
            Meaning::Ours(why) => said.add(Outcome::NotNeeded, place, what, why),
            Meaning::Look(why) => said.refused(place, what, why),
            Meaning::OfUsers => say_of_users(&mut said, setting, taken),
        }
    }
    said.lines.append(&mut report.lines);
    *report = said;
}

/// File and line, as reports show it.
fn place_of(setting: &Setting) -> String {
    format!("{}:{}", setting.file, setting.line)
}

fn say_of_users(said: &mut Report, setting: &Setting, taken: &HashSet<SettingPlace>) {
    let (place, what) = (place_of(setting), setting.to_string());
    let by_address = setting.when.iter().find_map(|criterion| match criterion {
        Criterion::Other(text) => Some(text),
        _ => None,
    });
    if let Some(criterion) = by_address {
        let why =
            format!("it depends on '{criterion}': use 'allow' of a policy, or 'from' of keys");
        said.refused(place, what, why);
    } else if setting.keyword == "include" || taken.contains(&(setting.file.clone(), setting.line))
    {
        said.taken(place, what, "");
    } else {
        said.add(Outcome::NotNeeded, place, what, "it counts for nobody who is taken");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keyword_stands_once_and_unknown_ones_are_told() {
        for (at, (keyword, _)) in MEANINGS.iter().enumerate() {
            assert_eq!(keyword.to_ascii_lowercase(), *keyword);
            assert!(MEANINGS.iter().skip(at + 1).all(|(other, _)| other != keyword), "{keyword}");
        }
        assert_eq!(meaning("chrootdirectory"), OfUsers);
        assert!(matches!(meaning("frobnicate"), Look(_)));
    }
}
