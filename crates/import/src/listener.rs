//! The host keys, by which clients know the server, and what they are shown.

use std::path::Path;

use entrepot_nouns::{Key, KeyType, Listener, Name, Protocol, Secret};
use entrepot_openssh::Config as Sshd;
use entrepot_ssh::keys as ssh;
use serde_json::json;

use crate::plan::Plan;
use crate::report::Outcome;
use crate::{files, keys};

/// What `sshd` takes if nothing is set.
const DEFAULT_KEYS: [&str; 3] =
    ["/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key"];

/// Plans host keys, banner and, if there is none of this name, a listener.
pub(crate) fn plan(plan: &mut Plan, sshd: &Sshd, name: &Name, there: Option<&Listener>) {
    // Made as a document is, with every default.
    let new = json!({"name": name, "protocol": Protocol::Sftp, "address": "0.0.0.0:2022"});
    let Some(mut wanted) = there.cloned().or_else(|| serde_json::from_value(new).ok()) else {
        return;
    };
    let host_keys = host_keys(plan, sshd);
    if !host_keys.is_empty() {
        wanted.host_keys = host_keys;
    }
    banner(plan, sshd, &mut wanted);
    addresses(plan, sshd, &wanted);
    let place = format!("listener {name}");
    if there == Some(&wanted) {
        let why = "it shows these host keys already";
        plan.report.add(Outcome::AlreadyThere, place, "host keys and banner", why);
    } else {
        plan.report.taken(&place, "host keys and banner", "no client sees a changed key");
        plan.add(&wanted, None, &place, None);
    }
}

fn host_keys(plan: &mut Plan, sshd: &Sshd) -> Vec<Name> {
    let settings = sshd.all("hostkey", None);
    let mut named: Vec<(String, String)> = Vec::new();
    for setting in &settings {
        let place = format!("{}:{}", setting.file, setting.line);
        named.extend(setting.arguments.first().map(|file| (file.clone(), place)));
    }
    if named.is_empty() {
        let exists = |file: &&str| Path::new(*file).exists();
        let default = DEFAULT_KEYS.into_iter().filter(exists);
        named.extend(default.map(|file| (file.to_owned(), file.to_owned())));
    }
    let mut found = Vec::new();
    for (file, place) in named {
        match host_key(&file) {
            Ok((key, private)) => {
                let why = "sealed; shown if the algorithms of the listener have its kind";
                plan.report.taken(&place, format!("hostkey {file}: key {}", key.name), why);
                found.push((key, private, place));
            }
            Err(why) => plan.report.refused(place, format!("hostkey {file}"), why),
        }
    }
    certificates(plan, sshd, &mut found);
    let mut names = Vec::new();
    for (key, private, place) in found {
        names.push(key.name.clone());
        plan.add(&key, None, &place, Some(("private", private)));
    }
    if names.is_empty() {
        let why = "clients will see another key and refuse to go on; run this as root";
        plan.report.refused("-", "host keys", why);
    }
    names
}

/// Gives host keys their certificates. Of two for one key the later counts, as for `sshd`.
fn certificates(plan: &mut Plan, sshd: &Sshd, found: &mut [(Key, String, String)]) {
    for setting in sshd.all("hostcertificate", None).into_iter().rev() {
        let place = format!("{}:{}", setting.file, setting.line);
        let file = setting.arguments.first().map(String::as_str).unwrap_or_default();
        if file.eq_ignore_ascii_case("none") {
            plan.report.add(Outcome::NotNeeded, place, setting.to_string(), "");
            continue;
        }
        match certified(file, found) {
            Ok((key, line)) if key.certificate.is_none() => {
                plan.report.taken(place, setting.to_string(), format!("of key {}", key.name));
                key.certificate = Some(line);
            }
            Ok((key, _)) => {
                let why = format!("a later one of key {} counts", key.name);
                plan.report.add(Outcome::NotNeeded, place, setting.to_string(), why);
            }
            Err(why) => plan.report.refused(place, setting.to_string(), why),
        }
    }
}

/// The key that the certificate in a file is of, and the certificate in one line.
fn certified<'a>(
    file: &str,
    found: &'a mut [(Key, String, String)],
) -> Result<(&'a mut Key, String), String> {
    let line = files::text(Path::new(file))?.trim().to_owned();
    let mut why = "there is no host key that it could be of".to_owned();
    for (key, private, _) in found {
        let of = ssh::private(&Secret::new(private.clone()));
        match of.and_then(|of| ssh::certificate(&line, &[of])) {
            Ok(_) => return Ok((key, line)),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// A host key and its private half as text.
fn host_key(file: &str) -> Result<(Key, String), String> {
    let text = files::text(Path::new(file))?;
    let not_ours = |error: entrepot_ssh::SshError| {
        format!("{error}; if it is an older form: ssh-keygen -p -N '' -f {file}")
    };
    let public = ssh::public_of(&Secret::new(text.clone())).map_err(not_ours)?;
    let kind = public.split(' ').next().unwrap_or_default();
    let kind = kind.trim_start_matches("ssh-").split('-').next().unwrap_or_default();
    let name = keys::named(&format!("sshd-{kind}"), &keys::digits(&public))?;
    let mut key = Key::new(name, KeyType::SshHost, public);
    key.note = format!("imported from {file}");
    Ok((key, text))
}

fn banner(plan: &mut Plan, sshd: &Sshd, wanted: &mut Listener) {
    let Some(setting) = sshd.first("banner", None) else { return };
    let place = format!("{}:{}", setting.file, setting.line);
    let file = setting.arguments.first().map(String::as_str).unwrap_or_default();
    let what = setting.to_string();
    if file.eq_ignore_ascii_case("none") {
        return plan.report.add(Outcome::NotNeeded, place, what, "");
    }
    match files::text(Path::new(file)) {
        Ok(text) if wanted.banner.is_empty() || wanted.banner == text.trim_end() => {
            wanted.banner = text.trim_end().to_owned();
            plan.report.taken(place, what, "");
        }
        Ok(_) => plan.report.refused(place, what, "the listener has another banner, left as it is"),
        Err(why) => plan.report.refused(place, what, why),
    }
}

/// Two servers cannot have one port: moving is the last step, and a person's.
fn addresses(plan: &mut Plan, sshd: &Sshd, wanted: &Listener) {
    for setting in sshd.all("port", None).into_iter().chain(sshd.all("listenaddress", None)) {
        let place = format!("{}:{}", setting.file, setting.line);
        let why = format!(
            "listener '{}' stays at {}; when sshd has left it: entrepot listener change {} \
             address=ADDRESS:PORT",
            wanted.name, wanted.address, wanted.name
        );
        plan.report.refused(place, setting.to_string(), why);
    }
}
