//! Which users of the machine could only transfer files, and how.

use std::path::Path;

use entrepot_nouns::AuthMethod;
use entrepot_openssh::{Config, Criterion, Group, Setting, SftpCommand, User, Who, expand};

/// A user whose account is taken over.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) user: User,
    /// Numbers of all its groups.
    pub(crate) gids: Vec<u32>,
    /// What `/` is to it, if not the whole machine.
    pub(crate) chroot: Option<String>,
    /// The forced command.
    pub(crate) command: SftpCommand,
    /// Absolute names of its files of keys.
    pub(crate) key_files: Vec<String>,
    /// Such files do not count if others may write them.
    pub(crate) is_strict: bool,
    /// Which methods, in which order; empty: any.
    pub(crate) login: Vec<Vec<AuthMethod>>,
    /// File of keys that sign certificates.
    pub(crate) signers: Option<String>,
    /// File of principals, if they are not the user's name.
    pub(crate) principals: Option<String>,
    /// File of keys that count no longer.
    pub(crate) revoked: Option<String>,
    /// `PasswordAuthentication` is off, but PAM asks for the password by keyboard-interactive.
    pub(crate) asks_by_dialogue: bool,
    /// Why the account must be looked at before it may log in.
    pub(crate) doubts: Vec<String>,
}

/// What becomes of a user.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// It is taken over.
    Person(Box<Person>),
    /// It is not; a sentence, if anything was set for it.
    No(Option<String>),
}

/// Names and numbers of a user's groups.
pub(crate) fn groups_of(user: &User, groups: &[Group]) -> (Vec<String>, Vec<u32>) {
    let is_in = |group: &&Group| group.gid == user.gid || group.members.contains(&user.name);
    let of: Vec<&Group> = groups.iter().filter(is_in).collect();
    let mut gids: Vec<u32> = of.iter().map(|group| group.gid).collect();
    gids.push(user.gid);
    (of.into_iter().map(|group| group.name.clone()).collect(), gids)
}

/// Looks at one user.
pub(crate) fn look(config: &Config, user: &User, groups: &[Group]) -> Found {
    let (names, gids) = groups_of(user, groups);
    let who = Who { name: &user.name, groups: &names };
    let word = |keyword: &str| first_word(config, who, keyword);
    let chroot = word("chrootdirectory").filter(|path| !path.eq_ignore_ascii_case("none"));
    let forced = config.first("forcecommand", Some(who)).map(|setting| setting.rest.as_str());
    let forced = forced.filter(|line| !line.eq_ignore_ascii_case("none"));
    let command = match forced.map(SftpCommand::parse) {
        Some(None) => return no("the command it is forced to run is not internal-sftp"),
        Some(Some(command)) => command,
        None if chroot.is_some() && serves_itself(config) => SftpCommand::default(),
        None if chroot.is_some() => return no("no Subsystem sftp serves its ChrootDirectory"),
        None => return Found::No(None),
    };
    let mut doubts = match admitted(config, who) {
        Ok(doubts) => doubts,
        Err(reason) => return no(reason),
    };
    let Some(chroot) = chroot.map(|path| expand(path, user)).map_or(Some(None), |it| it.map(Some))
    else {
        return no("its ChrootDirectory has a token that is not known here");
    };
    let methods = config.first("authenticationmethods", Some(who));
    let password = word("passwordauthentication").is_none_or(is_yes);
    let dialogue = dialogue(config, who);
    let asked = Asked {
        password: password || dialogue,
        key: word("pubkeyauthentication").is_none_or(is_yes),
        methods: methods.map_or(&[], |setting| setting.arguments.as_slice()),
    };
    let login = chains(&asked).unwrap_or_else(|doubt| {
        doubts.push(doubt);
        Vec::new()
    });
    let files = config.first("authorizedkeysfile", Some(who));
    let path = |keyword: &str| {
        let named = word(keyword).filter(|path| !path.eq_ignore_ascii_case("none"))?;
        Some(absolute(named, user))
    };
    Found::Person(Box::new(Person {
        user: user.clone(),
        gids,
        chroot,
        command,
        key_files: key_files(files, user),
        is_strict: word("strictmodes").is_none_or(is_yes),
        login,
        asks_by_dialogue: dialogue && !password,
        signers: path("trustedusercakeys"),
        principals: path("authorizedprincipalsfile"),
        revoked: path("revokedkeys"),
        doubts,
    }))
}

/// The first argument of a setting that counts for somebody.
fn first_word<'a>(config: &'a Config, who: Who<'_>, keyword: &str) -> Option<&'a str> {
    let setting = config.first(keyword, Some(who))?;
    setting.arguments.first().map(String::as_str)
}

fn no(reason: &str) -> Found {
    Found::No(Some(reason.to_owned()))
}

/// True if the subsystem `sftp` is OpenSSH's own server.
fn serves_itself(config: &Config) -> bool {
    let named = |setting: &&Setting| setting.arguments.first().is_some_and(|name| name == "sftp");
    let subsystem = config.all("subsystem", None).into_iter().find(named);
    let command = subsystem
        .map(|setting| setting.arguments.iter().skip(1).cloned().collect::<Vec<_>>().join(" "));
    command.is_some_and(|command| SftpCommand::parse(&command).is_some())
}

/// Whether a password can be given by keyboard-interactive. That method is on unless it is switched
/// off (sshd_config(5)), but without PAM there is nothing on Linux that it would ask; where it is
/// switched on by name, somebody wants it to ask.
fn dialogue(config: &Config, who: Who<'_>) -> bool {
    let word = |keyword: &str| first_word(config, who, keyword);
    // The second is the older name of the first.
    let set = word("kbdinteractiveauthentication").or(word("challengeresponseauthentication"));
    set.or(word("usepam")).is_some_and(is_yes)
}

fn is_yes(word: &str) -> bool {
    word.eq_ignore_ascii_case("yes")
}

/// Whether the lists of users and groups admit somebody, with what of them cannot be obeyed.
fn admitted(config: &Config, who: Who<'_>) -> Result<Vec<String>, &'static str> {
    let list = |keyword: &str| -> Option<Vec<String>> {
        let settings = config.all(keyword, Some(who));
        let words = settings.iter().flat_map(|setting| setting.arguments.iter().cloned());
        (!settings.is_empty()).then(|| words.collect())
    };
    let matches = |patterns: &[String], criterion: fn(Vec<String>) -> Criterion| {
        let positive = patterns.iter().map(|pattern| pattern.to_owned()).collect();
        criterion(positive).holds(who)
    };
    let mut doubts = Vec::new();
    let users = |patterns: Vec<String>, doubts: &mut Vec<String>, of: &str| {
        let (with_host, plain): (Vec<String>, Vec<String>) =
            patterns.into_iter().partition(|pattern| pattern.contains('@'));
        let front = |pattern: &String| pattern.split('@').next().unwrap_or_default().to_owned();
        let named: Vec<String> = with_host.iter().map(front).collect();
        let by_plain = matches(&plain, Criterion::User);
        if !by_plain && matches(&named, Criterion::User) {
            doubts.push(format!("{of} binds it to a host: use 'allow' of a policy"));
        }
        (by_plain, named)
    };
    if let Some(patterns) = list("denyusers")
        && users(patterns, &mut doubts, "DenyUsers").0
    {
        return Err("DenyUsers names it");
    }
    if let Some(patterns) = list("allowusers") {
        let (by_plain, named) = users(patterns, &mut doubts, "AllowUsers");
        if !by_plain && !matches(&named, Criterion::User) {
            return Err("AllowUsers does not name it");
        }
    }
    if list("denygroups").is_some_and(|patterns| matches(&patterns, Criterion::Group)) {
        return Err("DenyGroups names a group of it");
    }
    if list("allowgroups").is_some_and(|patterns| !matches(&patterns, Criterion::Group)) {
        return Err("AllowGroups names no group of it");
    }
    Ok(doubts)
}

/// What a configuration says of methods.
struct Asked<'a> {
    password: bool,
    key: bool,
    methods: &'a [String],
}

/// The chains of methods that mean the same here.
fn chains(asked: &Asked<'_>) -> Result<Vec<Vec<AuthMethod>>, String> {
    let any = |word: &String| word.eq_ignore_ascii_case("any");
    if asked.methods.is_empty() || asked.methods.iter().any(any) {
        return match (asked.password, asked.key) {
            (true, true) => Ok(Vec::new()),
            (true, false) => Ok(vec![vec![AuthMethod::Password]]),
            (false, true) => Ok(vec![vec![AuthMethod::PublicKey]]),
            (false, false) => Err("it may log in neither with a key nor a password".to_owned()),
        };
    }
    let method = |word: &str| match word {
        "publickey" => Ok(AuthMethod::PublicKey),
        "password" => Ok(AuthMethod::Password),
        other => Err(format!("AuthenticationMethods asks for '{other}': set 'login' yourself")),
    };
    let chain = |list: &String| list.split(',').map(method).collect::<Result<Vec<_>, _>>();
    let chains = asked.methods.iter().map(chain).collect::<Result<Vec<_>, _>>()?;
    let twice = |chain: &Vec<AuthMethod>| {
        let mut seen = Vec::new();
        chain.iter().any(|method| {
            seen.contains(method) || {
                seen.push(*method);
                false
            }
        })
    };
    if chains.iter().any(twice) {
        Err("AuthenticationMethods asks for two keys: set 'login' yourself".to_owned())
    } else {
        Ok(chains)
    }
}

/// The names of a user's files of keys.
fn key_files(setting: Option<&Setting>, user: &User) -> Vec<String> {
    let default = [".ssh/authorized_keys", ".ssh/authorized_keys2"].map(str::to_owned);
    let names = setting.map_or(default.as_slice(), |setting| setting.arguments.as_slice());
    let none = |name: &&String| !name.eq_ignore_ascii_case("none");
    names.iter().filter(none).map(|name| absolute(name, user)).collect()
}

/// A name with its tokens replaced, from the home folder if it is relative.
fn absolute(name: &str, user: &User) -> String {
    let name = expand(name, user).unwrap_or_else(|| name.to_owned());
    Path::new(&user.home).join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User {
            name: name.to_owned(),
            uid: 1001,
            gid: 100,
            home: format!("/home/{name}"),
            shell: "/usr/sbin/nologin".to_owned(),
        }
    }

    fn sftp_group() -> Vec<Group> {
        let members = vec!["anna".to_owned()];
        vec![Group { name: "sftp".to_owned(), gid: 50, members }]
    }

    fn found(text: &str, name: &str) -> Found {
        let config = Config::read("sshd_config", text, &mut |_| Vec::new());
        look(&config, &user(name), &sftp_group())
    }

    fn person(text: &str, name: &str) -> Person {
        match found(text, name) {
            Found::Person(person) => *person,
            Found::No(reason) => panic!("{name} is not taken: {reason:?}"),
        }
    }

    fn why_not(text: &str, name: &str) -> Option<String> {
        match found(text, name) {
            Found::Person(person) => panic!("it was taken: {person:?}"),
            Found::No(reason) => reason,
        }
    }

    const USUAL: &str = "Subsystem sftp /usr/lib/openssh/sftp-server\n\
        Match Group sftp\nChrootDirectory /srv/%u\nForceCommand internal-sftp -d /in -R\n";

    #[test]
    fn members_of_a_chrooted_group_are_taken_and_others_are_not() {
        let anna = person(USUAL, "anna");
        assert_eq!(anna.chroot.as_deref(), Some("/srv/anna"));
        assert_eq!((anna.command.start.as_deref(), anna.command.read_only), (Some("/in"), true));
        assert_eq!(anna.gids, [50, 100]);
        let files = ["/home/anna/.ssh/authorized_keys", "/home/anna/.ssh/authorized_keys2"];
        assert_eq!(anna.key_files, files);
        assert!(anna.login.is_empty() && anna.doubts.is_empty());
        assert_eq!(why_not(USUAL, "berta"), None, "nothing is set for her");
    }

    #[test]
    fn lists_admit_and_refuse() {
        let with = |line: &str| format!("{line}\n{USUAL}");
        for (line, reason) in [
            ("DenyUsers an*", "DenyUsers names it"),
            ("AllowUsers berta carl", "AllowUsers does not name it"),
            ("DenyGroups sftp", "DenyGroups names a group of it"),
            ("AllowGroups staff", "AllowGroups names no group of it"),
        ] {
            assert_eq!(why_not(&with(line), "anna").unwrap(), reason);
        }
        for line in
            ["AllowUsers anna", "AllowGroups s*", "DenyUsers root", "AllowUsers x\nAllowUsers anna"]
        {
            assert!(person(&with(line), "anna").doubts.is_empty(), "{line}");
        }
        let bound = person(&with("AllowUsers anna@10.0.0.*"), "anna");
        assert!(bound.doubts.first().unwrap().contains("binds it to a host"));
    }

    #[test]
    fn methods_become_chains() {
        use AuthMethod::{Password, PublicKey};
        let login = |line: &str| person(&format!("{line}\n{USUAL}"), "anna").login;
        assert_eq!(login("PasswordAuthentication no"), [[PublicKey]]);
        assert_eq!(login("PubkeyAuthentication no"), [[Password]]);
        let both = login("AuthenticationMethods publickey,password password");
        assert_eq!(both, [vec![PublicKey, Password], vec![Password]]);
        let odd = "AuthenticationMethods publickey,keyboard-interactive:pam";
        let anna = person(&format!("{odd}\n{USUAL}"), "anna");
        assert!(anna.login.is_empty() && anna.doubts.len() == 1, "{:?}", anna.doubts);
        let twice = person(&format!("AuthenticationMethods publickey,publickey\n{USUAL}"), "anna");
        assert_eq!(twice.doubts.len(), 1);
    }

    #[test]
    fn keyboard_interactive_takes_passwords_unless_it_is_off() {
        let anna =
            |lines: &str| person(&format!("PasswordAuthentication no\n{lines}{USUAL}"), "anna");
        for by_key in [
            "",
            "UsePAM no\n",
            "UsePAM yes\nKbdInteractiveAuthentication no\n",
            "UsePAM yes\nChallengeResponseAuthentication no\n",
        ] {
            let anna = anna(by_key);
            assert_eq!(anna.login, [[AuthMethod::PublicKey]], "{by_key}");
            assert!(!anna.asks_by_dialogue, "{by_key}");
        }
        for with_password in [
            "UsePAM yes\n",
            "KbdInteractiveAuthentication yes\n",
            "ChallengeResponseAuthentication yes\n",
        ] {
            let anna = anna(with_password);
            assert!(anna.login.is_empty() && anna.asks_by_dialogue, "{with_password}");
        }
        let both = person(&format!("UsePAM yes\n{USUAL}"), "anna");
        assert!(both.login.is_empty() && !both.asks_by_dialogue, "passwords are taken anyway");
    }

    #[test]
    fn other_commands_are_not_taken() {
        let rsync = "Match User anna\nForceCommand rsync --server\nChrootDirectory /srv\n";
        assert!(why_not(rsync, "anna").unwrap().contains("not internal-sftp"));
        assert!(why_not("Match User anna\nChrootDirectory /srv\n", "anna").is_some());
        let plain = "Subsystem sftp internal-sftp\nChrootDirectory /srv/%u\n";
        assert_eq!(person(plain, "carl").chroot.as_deref(), Some("/srv/carl"));
        assert!(why_not(&plain.replace("%u", "%k"), "carl").is_some());
        let forced = person("ForceCommand internal-sftp\nAuthorizedKeysFile /k/%u none\n", "carl");
        assert_eq!((forced.chroot, forced.key_files), (None, vec!["/k/carl".to_owned()]));
    }
}
