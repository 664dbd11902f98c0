//! From a user of the machine to its account, keys, endpoint and mounts.

use std::path::Path;

use entrepot_nouns::endpoint::DirectoryTarget;
use entrepot_nouns::{
    Account, AccountType, Endpoint, EndpointTarget, KeyType, Kind, Mount, Name, Rights, VPath,
};
use entrepot_openssh::{authorized_keys, expand};
use serde_json::json;

use crate::files;
use crate::folder::{self, Folder};
use crate::keys;
use crate::people::Person;
use crate::plan::{NOTE, Plan, Planned};
use crate::revoked::Revoked;

/// Plans the account of a user with its folder and keys.
pub(crate) fn plan(plan: &mut Plan, person: &Person) {
    let place = format!("user {}", person.user.name);
    let Ok(name) = person.user.name.parse::<Name>() else {
        return plan.report.refused(
            place,
            "account",
            "its name has letters that names cannot have",
        );
    };
    let root = person.chroot.clone().unwrap_or_else(|| person.user.home.clone());
    if !root.starts_with('/') {
        return plan.report.refused(place, root, "its folder has no absolute path");
    }
    let keys = keys_of(plan, person, &name);
    let mut account = Account::new(name.clone(), AccountType::Partner);
    account.login = person.login.clone();
    account.note = NOTE.to_owned();
    account.enabled = person.doubts.is_empty();
    if person.command.read_only {
        account.rights = Rights::read_only();
    }
    account.home = home(person, Path::new(&root));
    plan.add(&account, Some(&name), &place, None);
    let what = format!("account with {keys} keys");
    match person.doubts.as_slice() {
        [] => plan.report.taken(&place, what, restrictions(person)),
        doubts => {
            let why = format!("disabled, enable it when this is settled: {}", doubts.join("; "));
            plan.report.refused(&place, what, why);
        }
    }
    passwords(plan, person, keys);
    folders(plan, person, &name, &root);
}

fn restrictions(person: &Person) -> String {
    let mut said = Vec::new();
    if person.command.read_only {
        said.push("read only".to_owned());
    }
    let words = person.login.iter().map(|chain| {
        let words: Vec<String> = chain.iter().map(|method| format!("{method:?}")).collect();
        words.join(" and ")
    });
    let words: Vec<String> = words.collect();
    if !words.is_empty() {
        said.push(format!("logs in by {}", words.join(" or ")));
    }
    said.join(", ")
}

/// Hashes of passwords are not read: what `shadow` holds cannot be checked here.
fn passwords(plan: &mut Plan, person: &Person, keys: usize) {
    use entrepot_nouns::AuthMethod::Password;
    let by_password =
        person.login.is_empty() || person.login.iter().any(|chain| chain.contains(&Password));
    let name = &person.user.name;
    let set = format!("entrepot account change {name} --password-stdin");
    if person.asks_by_dialogue && by_password {
        let why = "PAM asks for it by keyboard-interactive, although PasswordAuthentication is no; \
                   if only keys shall count, set KbdInteractiveAuthentication no before the import";
        plan.report.taken(format!("user {name}"), "password", why);
    }
    if by_password {
        let why = match keys {
            0 => format!("it cannot log in before a new one is set: {set}"),
            _ => format!("if it has one, set a new one: {set}"),
        };
        plan.report.refused(format!("user {name}"), "password", why);
    }
}

/// Where sessions start: the folder of the forced command, else the home folder if it exists.
fn home(person: &Person, root: &Path) -> VPath {
    let inside = |path: &str| root.join(path.trim_start_matches('/')).is_dir();
    let wanted = match &person.command.start {
        Some(start) => expand(start, &person.user),
        None if person.chroot.is_some() => Some(person.user.home.clone()),
        None => None,
    };
    let start = wanted.filter(|path| inside(path));
    let start = start.map(|path| format!("/{}", path.trim_matches('/')));
    start.and_then(|path| path.parse().ok()).unwrap_or_else(VPath::root)
}

/// The endpoint and what of it the user may write into.
fn folders(plan: &mut Plan, person: &Person, name: &Name, root: &str) {
    let place = format!("user {name}");
    let seen = folder::look(Path::new(root), person);
    let target = EndpointTarget::Directory(DirectoryTarget::new(root));
    let Ok(endpoint) = endpoint_name(plan, root, name) else {
        return plan.report.refused(place, root, "the name of its endpoint would be too long");
    };
    let noun = Endpoint {
        name: endpoint.clone(),
        target,
        paused: false,
        at_once: None,
        users: Vec::new(),
        note: String::new(),
    };
    plan.add(&noun, None, &place, None);
    // Made as a document is, with every default.
    let mount = json!({
        "name": name, "account": name, "path": "/", "endpoint": endpoint,
        "rights": if seen.writable { Rights::all() } else { Rights::read_only() },
    });
    let Ok(mut mount) = serde_json::from_value::<Mount>(mount) else { return };
    plan.add(&mount, Some(name), &place, None);
    let mut writable = Vec::new();
    for below in &seen.below {
        let text = below.to_string_lossy().into_owned();
        let Ok(path) = format!("/{text}").parse::<VPath>() else {
            plan.report.refused(&place, text, "its name cannot be a path here");
            continue;
        };
        let back = text.replace('/', ".");
        let Ok(name_of) = keys::named(name.as_str(), &back)
            .or_else(|_| keys::named(name.as_str(), &keys::digits(&format!("x {text}"))))
        else {
            continue;
        };
        writable.push(path.to_string());
        (mount.name, mount.path, mount.prefix) = (name_of, path, text);
        mount.rights = Rights::all();
        plan.add(&mount, Some(name), &place, None);
    }
    say_folder(plan, person, root, &seen, &writable);
}

fn say_folder(plan: &mut Plan, person: &Person, root: &str, seen: &Folder, writable: &[String]) {
    let place = format!("user {}", person.user.name);
    let what = format!("folder {root}");
    if !seen.exists {
        let why = "there is no such folder; make it, or change the endpoint";
        return plan.report.refused(place, what, why);
    }
    let how = match (seen.writable, writable) {
        (true, _) => "as /".to_owned(),
        (false, []) => "as /, read only as it was".to_owned(),
        (false, paths) => format!("as /, read only as it was but for {}", paths.join(" ")),
    };
    plan.report.taken(&place, what, how);
    if person.chroot.is_none() {
        let why = "it could leave its home folder, for it had no ChrootDirectory; it no longer can";
        plan.report.refused(&place, format!("folder {root}"), why);
    }
    if let Some(first) = seen.closed_to_us.first() {
        let uid = rustix::process::geteuid().as_raw();
        let why = format!(
            "user {uid}, who runs this, cannot read and write in '{}'{}; run the server as root or \
             let its user in (setfacl, group)",
            first.display(),
            match seen.closed_to_us.len() {
                1 => String::new(),
                more => format!(" and {} more", more - 1),
            }
        );
        plan.report.refused(place, format!("folder {root}"), why);
    }
}

/// `/srv/sftp/anna` becomes `srv.sftp.anna`, unless `/srv/sftp.anna` has become that.
fn endpoint_name(plan: &Plan, root: &str, account: &Name) -> Result<Name, String> {
    let path = root.trim_matches('/').replace('/', ".");
    let leads_elsewhere = |name: &Name| {
        let known = plan.planned(Kind::Endpoint, name);
        let path = |it: &Planned| it.document.pointer("/endpoint/target/directory/path").cloned();
        known.is_some_and(|known| path(known) != Some(root.into()))
    };
    let plain = path.parse::<Name>().ok().filter(|name| !leads_elsewhere(name));
    plain.map_or_else(|| keys::named(account.as_str(), "files"), Ok)
}

/// Plans the keys that let a user in; gives how many may.
fn keys_of(plan: &mut Plan, person: &Person, name: &Name) -> usize {
    let revoked = revoked(plan, person);
    let (mut count, mut signs) = (0, 0);
    for file in &person.key_files {
        if !Path::new(file).exists() {
            continue;
        }
        if person.is_strict && files::is_open_to_others(Path::new(file)) {
            let why = "others may write it or its folder: sshd ignored it (StrictModes)";
            plan.report.refused(file, "keys", why);
            continue;
        }
        let text = match files::text(Path::new(file)) {
            Ok(text) => text,
            Err(why) => {
                plan.report.refused(file, "keys", why);
                continue;
            }
        };
        for line in authorized_keys(&text) {
            let line = match line {
                Ok(line) => line,
                Err(bad) => {
                    let place = format!("{file}:{}", bad.line);
                    plan.report.refused(place, "key", bad.problem);
                    continue;
                }
            };
            let place = format!("{file}:{}", line.line);
            match keys::take(name.as_str(), &line, &revoked) {
                Ok(taken) => {
                    let counts = usize::from(key(plan, &taken, name, &place));
                    count += counts;
                    signs += counts * usize::from(taken.key.key_type == KeyType::SshUserCa);
                }
                Err(why) => plan.report.refused(place, "key", why),
            }
        }
    }
    let signers = signers(plan, person, name, &revoked);
    if revoked.names_any() && signs + signers > 0 {
        let why = "those of keys that RevokedKeys names still count: list their serials or ids in \
                   'revoked_serials', 'revoked_key_ids' of the key that signs";
        plan.report.refused(format!("user {name}"), "certificates", why);
    }
    count + signers
}

/// What `RevokedKeys` says to a user's keys.
fn revoked(plan: &mut Plan, person: &Person) -> Revoked {
    let Some(file) = &person.revoked else { return Revoked::default() };
    let (revoked, why) = Revoked::read(file);
    if let Some(why) = why {
        plan.report.refused(file, "revoked keys", why);
    }
    revoked
}

fn key(plan: &mut Plan, taken: &keys::Taken, name: &Name, place: &str) -> bool {
    let what = format!("key {}", taken.key.name);
    plan.add(&taken.key, Some(name), place, None);
    if taken.key.enabled {
        plan.report.taken(place, &what, "");
    } else {
        let why = format!("disabled: {}", taken.doubts.join("; "));
        plan.report.refused(place, &what, why);
    }
    for note in &taken.notes {
        plan.report.refused(place, &what, note);
    }
    taken.key.enabled
}

/// Plans the keys that sign certificates for a user: as keys of the account, so that accounts
/// which were here before are not opened by them.
fn signers(plan: &mut Plan, person: &Person, name: &Name, revoked: &Revoked) -> usize {
    let Some(file) = &person.signers else { return 0 };
    let principals = match principals(plan, person) {
        Ok(principals) => principals,
        Err(why) => {
            plan.report.refused(format!("user {name}"), "certificates", why);
            return 0;
        }
    };
    let text = match files::text(Path::new(file)) {
        Ok(text) => text,
        Err(why) => {
            plan.report.refused(file, "keys that sign certificates", why);
            return 0;
        }
    };
    let mut count = 0;
    for line in authorized_keys(&text).into_iter().flatten() {
        let place = format!("{file}:{}", line.line);
        let doubt = revoked.doubt(&line.public).map_or(Ok(()), |doubt| Err(doubt.to_owned()));
        let signer = || keys::signer(name.as_str(), &line.public, principals.clone());
        match doubt.and_then(|()| signer()) {
            Ok(key) => {
                let why = format!("signs certificates for '{name}'");
                plan.report.taken(&place, format!("key {}", key.name), why);
                plan.add(&key, Some(name), &place, None);
                count += 1;
            }
            Err(why) => plan.report.refused(place, "key that signs certificates", why),
        }
    }
    count
}

/// The principals of a user's file; none named: its own name.
fn principals(plan: &mut Plan, person: &Person) -> Result<Vec<String>, String> {
    let Some(file) = &person.principals else { return Ok(Vec::new()) };
    let text = files::text(Path::new(file))?;
    let mut principals = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            [] => {}
            [principal] => principals.push((*principal).to_owned()),
            _ => {
                let place = format!("{file}:{}", at + 1);
                plan.report.refused(place, line, "principals with options are not taken");
            }
        }
    }
    if principals.is_empty() {
        Err(format!("'{file}' names no principal that can be taken"))
    } else {
        Ok(principals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_never_share_an_endpoint() {
        let mut plan = Plan::default();
        let (anna, berta) = ("anna".parse().unwrap(), "berta".parse().unwrap());
        let first = endpoint_name(&plan, "/srv/a.b", &anna).unwrap();
        assert_eq!(first.as_str(), "srv.a.b");
        let target = EndpointTarget::Directory(DirectoryTarget::new("/srv/a.b"));
        plan.add(
            &Endpoint {
                name: first,
                target,
                paused: false,
                at_once: None,
                users: Vec::new(),
                note: String::new(),
            },
            None,
            "x",
            None,
        );
        assert_eq!(endpoint_name(&plan, "/srv/a.b", &berta).unwrap().as_str(), "srv.a.b");
        assert_eq!(endpoint_name(&plan, "/srv/a/b", &berta).unwrap().as_str(), "berta-files");
        let long = format!("/{}", "x".repeat(100));
        assert_eq!(endpoint_name(&plan, &long, &berta).unwrap().as_str(), "berta-files");
    }
}
