//! Whether the commands that a rule looks at are any that a client can send: a rule before one that
//! nobody can send protects nothing.

use entrepot_ftp_proto::table as ftp;
use entrepot_nouns::{CommandPattern, CommandProtocol, FieldError, Rule};
use entrepot_sftp_proto::table as sftp;

/// What of HTTP and WebDAV is called otherwise in rules: methods are many, and the same operation
/// is asked for by several.
const METHODS: [(&str, &str); 9] = [
    ("COPY", "rename"),
    ("DELETE", "remove"),
    ("GET", "read"),
    ("MKCOL", "mkdir"),
    ("MOVE", "rename"),
    ("PATCH", "write"),
    ("POST", "write"),
    ("PROPFIND", "list"),
    ("PUT", "write"),
];

/// Looks the commands of a rule up in the tables of their protocols.
pub(super) fn check(rule: &Rule) -> Result<(), FieldError> {
    let moment = if rule.when.before().is_some() { "before" } else { "after" };
    for (at, command) in rule.when.commands().iter().enumerate() {
        if !is_known(command) {
            return Err(FieldError::new(format!("when.{moment}.{at}"), unknown(command)));
        }
    }
    Ok(())
}

/// Whether any protocol that a pattern may be of has the command that it names.
fn is_known(pattern: &CommandPattern) -> bool {
    let Some(verb) = pattern.verb() else { return true };
    let has = |protocol: CommandProtocol| match (protocol, pattern.word()) {
        (CommandProtocol::Ftp, Some(word)) => ftp::site_verb(word).is_some(),
        (CommandProtocol::Ftp, None) => ftp::verb(verb.as_bytes()).is_some(),
        (_, Some(_)) => false,
        (CommandProtocol::Sftp, None) => sftp::asked_about().any(|it| is_same(it, verb)),
        (CommandProtocol::Http | CommandProtocol::As2, None) => {
            protocol.operations().iter().any(|it| is_same(it, verb))
        }
    };
    protocols(pattern).any(has)
}

fn is_same(word: &str, other: &str) -> bool {
    word.eq_ignore_ascii_case(other)
}

/// The protocols that a pattern may be of.
fn protocols(pattern: &CommandPattern) -> impl Iterator<Item = CommandProtocol> {
    CommandProtocol::ALL.into_iter().filter(|protocol| pattern.may_be_of(*protocol))
}

/// What is said of a command that nobody can send.
fn unknown(pattern: &CommandPattern) -> String {
    let named = pattern.protocol();
    let operations = named.map_or(&[][..], CommandProtocol::operations);
    let hint = meant(pattern).map(|meant| format!("; did you mean '{meant}'?"));
    let hint = hint.unwrap_or_default();
    if operations.is_empty() {
        return format!(
            "'{pattern}' is no command that clients of this server can send: see the verbs in \
             docs/protocols{hint}"
        );
    }
    let (protocol, all) = (named.map_or("*", CommandProtocol::as_str), operations.join(", "));
    format!("'{pattern}' is nothing that rules are asked about: {protocol} has {all}{hint}")
}

/// The command that was probably meant.
fn meant(pattern: &CommandPattern) -> Option<String> {
    let (verb, word) = (pattern.verb()?.to_lowercase(), pattern.word().map(str::to_lowercase));
    let named = pattern.protocol().map_or("*", CommandProtocol::as_str);
    if let Some(word) = word {
        let site: Vec<String> = ftp::SITE_VERBS.iter().map(|verb| verb.name.to_owned()).collect();
        return nearest(&word, &site).map(|word| format!("{named} SITE {word}"));
    }
    let words: Vec<String> = protocols(pattern).flat_map(words).collect();
    let method = METHODS.iter().find(|(method, _)| is_same(method, &verb));
    let method = method.map(|(_, word)| *word).filter(|word| words.iter().any(|it| it == word));
    let word = method.or_else(|| nearest(&verb, &words))?;
    Some(format!("{named} {word}"))
}

/// The words of a protocol, as rules usually write them.
fn words(protocol: CommandProtocol) -> Vec<String> {
    match protocol {
        CommandProtocol::Ftp => ftp::VERBS.iter().map(|verb| verb.name.to_owned()).collect(),
        CommandProtocol::Sftp => sftp::asked_about().map(str::to_lowercase).collect(),
        CommandProtocol::Http | CommandProtocol::As2 => {
            protocol.operations().iter().map(|word| (*word).to_owned()).collect()
        }
    }
}

/// The known word that is most like a lower-case one, if any is like it.
fn nearest<'k>(given: &str, known: &'k [String]) -> Option<&'k str> {
    let far = |word: &str| strsim::osa_distance(given, &word.to_lowercase());
    // Of three letters, another two make another word.
    let most = if given.len() > 4 { 2 } else { 1 };
    let best = known.iter().map(|word| (far(word), word.as_str())).min();
    best.filter(|(distance, _)| *distance <= most).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(pattern: &str) -> Result<(), String> {
        let rule = json!({"name": "r", "when": {"before": ["ftp NOOP", pattern]},
            "do": [{"refuse": {"text": "No."}}]});
        let rule: Rule = serde_json::from_value(rule).unwrap();
        check(&rule).map_err(|error| error.to_string())
    }

    #[test]
    fn each_protocol_has_its_words() {
        for known in [
            "ftp DELE",
            "ftp SITE CHMOD",
            "ftp *",
            "sftp remove",
            "sftp posix-rename",
            "* *",
            "http read",
            "http WRITE",
            "http list",
            "http mkdir",
            "http remove",
            "http rename",
            "http login",
            "http *",
            "as2 write",
            "as2 *",
            "* DELE",
            "* remove",
            "* write",
            "* login",
        ] {
            assert_eq!(checked(known), Ok(()), "{known}");
        }
        for (unknown, said) in [
            ("ftp DELLE", "did you mean 'ftp DELE'?"),
            ("ftp SITE CHMODD", "did you mean 'ftp SITE CHMOD'?"),
            ("ftp remove", "see the verbs in docs/protocols"),
            ("sftp remvoe", "did you mean 'sftp remove'?"),
            ("sftp write", "is no command"),
            ("http GET", "did you mean 'http read'?"),
            ("http propfind", "did you mean 'http list'?"),
            (
                "http wrte",
                "has list, login, mkdir, read, remove, rename, write; did you mean \
                           'http write'?",
            ),
            ("http stat", "is nothing that rules are asked about"),
            ("http SITE CHMOD", "is nothing that rules are asked about"),
            ("as2 read", "as2 has write"),
            ("as2 wirte", "did you mean 'as2 write'?"),
            ("* wirte", "did you mean '* write'?"),
            ("* nothing", "is no command"),
        ] {
            let error = checked(unknown).unwrap_err();
            assert!(error.starts_with("when.before.1") && error.contains(said), "{error}");
        }
    }
}
