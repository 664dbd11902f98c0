//! Placeholders of rules. Expanded once; what comes out is never scanned again, and must parse as
//! a checked path (security rule R3).

use std::cell::Cell;

use std::collections::BTreeMap;
use std::time::Duration;

use entrepot_nouns::event::VersionFact;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Event, Fact, StorePath, VPath, call};
use serde_json::Value;

use crate::noted::{self, Noted};

/// Why a pattern gives no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// `{word}` is none of ours.
    #[error("'{{{0}}}' is no placeholder, use one of {known}", known = known())]
    Unknown(String),
    /// `{` without `}`.
    #[error("a '{{' has no '}}', close the placeholder")]
    Open,
    /// The event has nothing to put there.
    #[error("the event '{1}' has nothing for '{{{0}}}', take it out of the rule")]
    Missing(String, String),
    /// No step left it.
    #[error("no step before this one left anything for '{{{0}}}'")]
    NotNoted(String),
    /// The item of the turn has no such value.
    #[error("the item has no text, number or truth value at '{0}'")]
    NotInItem(String),
    /// The step is in no `each`.
    #[error("'{{{0}}}' is there in the steps of an 'each' only")]
    NoTurn(String),
    /// The event is about no endpoint.
    #[error("the event '{0}' names no endpoint, say which one")]
    NoEndpoint(String),
    /// The rule takes no such parameter.
    #[error("there is no parameter '{0}'")]
    NoParameter(String),
    /// The web hook has no such value.
    #[error("the web hook has no text, number or truth value at '{0}'")]
    NotInHook(String),
    /// The result is nothing that can be sent.
    #[error("{0} cannot be sent: {1}")]
    NotSent(String, String),
    /// The result is not a path.
    #[error("'{0}' is no path: {1}")]
    NoPath(String, String),
}

/// Every placeholder, but `{file}` and `{ip}`, which only programs have.
pub(crate) const WORDS: &[&str] = &[
    "path",
    "dir",
    "name",
    "stem",
    "extension",
    "size",
    "digest",
    "account",
    "session",
    "transfer",
    "date",
    "time",
    "start",
    "duration",
    "protocol",
    "verb",
    "argument",
    "code",
    "planned",
    "begins",
    "deadline",
    "seen",
    "count",
];

fn known() -> String {
    WORDS.iter().map(|word| format!("{{{word}}}")).collect::<Vec<_>>().join(", ")
}

/// What placeholders are taken from.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) event: &'a Event,
    /// What the steps of the job left so far.
    pub(crate) noted: Option<&'a Noted>,
}

impl<'a> From<&'a Event> for Values<'a> {
    fn from(event: &'a Event) -> Self {
        Values { event, noted: None }
    }
}

/// The text of `pattern`.
pub(crate) fn expand<'a>(
    pattern: &str,
    values: impl Into<Values<'a>>,
) -> Result<String, PatternError> {
    let values = values.into();
    expand_with(pattern, |word| value(word, values))
}

/// Replaces each placeholder once by what `value` says.
pub(crate) fn expand_with(
    pattern: &str,
    value: impl Fn(&str) -> Result<String, PatternError>,
) -> Result<String, PatternError> {
    let mut text = String::with_capacity(pattern.len() + 64);
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (word, behind) = after.split_once('}').ok_or(PatternError::Open)?;
        text.push_str(&value(word)?);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

/// The placeholders of `pattern`, whatever they are.
pub(crate) fn words(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('{').skip(1).filter_map(|after| Some(after.split_once('}')?.0))
}

/// What a placeholder with a place in it, such as `vars.customer`, stands for; `None`: it has none.
fn value_in(
    word: &str,
    event: &Event,
    noted: Option<&Noted>,
) -> Option<Result<String, PatternError>> {
    let short = || word.chars().take(64).collect();
    let (first, rest) = word.split_once('.').unwrap_or((word, ""));
    Some(match first {
        "item" | "index" => match noted.and_then(|noted| noted.turn.as_ref()) {
            Some(turn) => turn.text(word).ok_or_else(|| PatternError::NotInItem(short())),
            None => Err(PatternError::NoTurn(short())),
        },
        "vars" | "steps" if !rest.is_empty() => {
            let found = noted.and_then(|noted| noted.text(word));
            found.ok_or_else(|| PatternError::NotNoted(short()))
        }
        "params" if !rest.is_empty() => {
            let found = event.fact.parameters().and_then(|given| given.get(rest)).map(call::text);
            found.ok_or_else(|| PatternError::NoParameter(rest.chars().take(64).collect()))
        }
        "hook" if !rest.is_empty() => {
            let found = event.fact.hook().and_then(|(body, headers)| in_hook(rest, body, headers));
            found.ok_or_else(|| PatternError::NotInHook(short()))
        }
        _ => return None,
    })
}

/// What there is for a placeholder.
pub(crate) fn value<'a>(word: &str, values: impl Into<Values<'a>>) -> Result<String, PatternError> {
    let Values { event, noted } = values.into();
    if let Some(found) = value_in(word, event, noted) {
        return found;
    }
    if !WORDS.contains(&word) {
        return Err(PatternError::Unknown(word.chars().take(64).collect()));
    }
    if let Some(file) = noted.and_then(|noted| noted.file.as_ref()) {
        match word {
            "name" => return Ok(file.name.clone()),
            "stem" => return Ok(split_name(&file.name).0.to_owned()),
            "extension" => return Ok(split_name(&file.name).1.to_owned()),
            "size" => return Ok(file.size.to_string()),
            "digest" => return Ok(file.digest.clone()),
            _ => {}
        }
    }
    let (file, command) = (event.fact.file(), event.fact.command());
    let started = || {
        let command = command.and_then(|command| command.duration_ms);
        let began = command.map(|ms| event.at.minus(Duration::from_millis(ms)));
        file.map(|file| file.started_at).or(began)
    };
    let digests = || file.map(|file| file.digests).or(command.map(|command| command.digests));
    let found = match word {
        "path" => event_path(event).map(str::to_owned),
        "dir" => event_path(event).map(|path| folder(path).to_owned()),
        "name" => file_name(event).map(str::to_owned),
        "stem" => file_name(event).map(|name| split_name(name).0.to_owned()),
        "extension" => file_name(event).map(|name| split_name(name).1.to_owned()),
        "size" => size(event).map(|size| size.to_string()),
        "digest" => digests().and_then(|digests| digests.blake3).map(|bytes| hex(&bytes)),
        "account" => event.account.as_ref().map(ToString::to_string),
        "session" => event.session.map(|session| session.to_string()),
        "transfer" => {
            let transfer = command.and_then(|command| command.transfer);
            file.map(|file| file.transfer).or(transfer).map(|id| id.to_string())
        }
        "date" => event.at.to_string().get(..10).map(str::to_owned),
        "time" => Some(event.at.to_string()),
        "start" => started().map(|at| at.to_string()),
        "duration" => started().map(|at| event.at.since(at).as_millis().to_string()),
        "protocol" => {
            let protocol = command.map(|command| command.protocol.as_str());
            file.map(|file| file.protocol.as_str()).or(protocol).map(str::to_owned)
        }
        "verb" => command.map(|command| command.verb.clone()),
        "argument" => command.map(|command| command.argument.clone()),
        "code" => command.and_then(|command| command.code).map(|code| code.to_string()),
        "planned" => match &event.fact {
            Fact::ScheduleDue { planned, .. } => Some(planned.to_string()),
            _ => None,
        },
        "begins" => event.fact.expected().map(|window| window.begins.to_string()),
        "deadline" => event.fact.expected().map(|window| window.deadline.to_string()),
        "seen" => event.fact.expected().map(|window| window.seen.to_string()),
        "count" => event.fact.expected().map(|window| window.count.to_string()),
        _ => None,
    };
    found.ok_or_else(|| PatternError::Missing(word.to_owned(), event.fact.kind().to_owned()))
}

/// What a web hook has at `body.x.0.y` or `headers.name`.
fn in_hook(place: &str, body: &Value, headers: &BTreeMap<String, String>) -> Option<String> {
    if let Some(name) = place.strip_prefix("headers.") {
        return headers.get(name).cloned();
    }
    let mut parts = place.strip_prefix("body.")?.split('.');
    match body {
        // Of an example nothing is known.
        Value::Null => Some("value".to_owned()),
        body => noted::plain_text(noted::at_place(body, &mut parts)?),
    }
}

/// Bytes of what the event is about.
fn size(event: &Event) -> Option<u64> {
    match &event.fact {
        Fact::FileRenamed { size, .. }
        | Fact::FileLinked { size, .. }
        | Fact::FileTrashed { size, .. }
        | Fact::FileVersioned { version: VersionFact { size, .. } }
        | Fact::FileRestored { size, .. }
        | Fact::WatchFound { size, .. } => Some(*size),
        Fact::CommandDone { command } => command.bytes,
        fact => fact.file().map(|file| file.size),
    }
}

/// The folder of a path, `/` of one right below the root; of a path below a watched folder, which
/// begins with no `/`, that within it.
pub(crate) fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => "",
    }
}

/// Stem and extension: `a.tar.gz` is `a.tar` and `gz`; `.profile` has no extension.
pub(crate) fn split_name(name: &str) -> (&str, &str) {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, extension),
        _ => (name, ""),
    }
}

/// The path the event is about, as it stands in the event.
pub(crate) fn event_path(event: &Event) -> Option<&str> {
    match &event.fact {
        Fact::FileRenamed { to, .. } | Fact::FileLinked { to, .. } => Some(to),
        Fact::FileRemoved { path }
        | Fact::FileTrashed { path, .. }
        | Fact::FileVersioned { version: VersionFact { path, .. } }
        | Fact::FileRestored { path, .. }
        | Fact::FilePurged { path, .. }
        | Fact::WatchFound { path, .. }
        | Fact::WatchGone { path, .. }
        | Fact::LinkCreated { path, .. }
        | Fact::ModeChanged { path, .. }
        | Fact::DirectoryCreated { path }
        | Fact::DirectoryRemoved { path } => Some(path),
        Fact::CommandDone { command } | Fact::CommandRefused { command, .. } => {
            command.path.as_deref()
        }
        fact => fact.file().map(|file| file.path.as_str()),
    }
}

/// The last component of [`event_path`].
pub(crate) fn file_name(event: &Event) -> Option<&str> {
    event_path(event)?.rsplit('/').next().filter(|name| !name.is_empty())
}

/// Where at an endpoint; a leading slash of the pattern is forgiven, and so is the one of the path
/// of the event where the pattern begins with that.
pub(crate) fn store_path<'a>(
    pattern: &str,
    values: impl Into<Values<'a>>,
) -> Result<StorePath, PatternError> {
    let mut text = expand(pattern.strip_prefix('/').unwrap_or(pattern), values)?;
    // What stands for the begin of a path may be one of the account's view.
    if pattern.starts_with('{') && text.starts_with('/') {
        text.remove(0);
    }
    match text.parse::<StorePath>() {
        Ok(path) if !path.is_root() => Ok(path),
        Ok(_) => Err(PatternError::NoPath(text, "it names no file".to_owned())),
        Err(error) => Err(PatternError::NoPath(text, error.to_string())),
    }
}

/// Where in an account's view; the pattern begins with a slash.
pub(crate) fn virtual_path<'a>(
    pattern: &str,
    values: impl Into<Values<'a>>,
) -> Result<VPath, PatternError> {
    file_path(expand(pattern, values)?)
}

/// A path as the account sees it, of the part of a file that has this number: `{part}`, or as many
/// digits as `{part:04}` says.
pub(crate) fn part_path(
    pattern: &str,
    values: Values<'_>,
    number: &str,
) -> Result<VPath, PatternError> {
    let text = expand_with(pattern, |word| match word.strip_prefix("part") {
        Some("") => Ok(number.to_owned()),
        Some(width) => {
            let digits = part_digits(width).ok_or_else(|| unknown(word))?;
            Ok(format!("{number:0>digits$}"))
        }
        None => value(word, values),
    });
    file_path(text?)
}

/// The names that the parts of a file have.
#[derive(Debug, PartialEq)]
pub(crate) struct PartNames {
    /// Where they lie.
    pub(crate) folder: VPath,
    before: String,
    behind: String,
    /// Fewest digits of a number.
    digits: usize,
}

impl PartNames {
    /// The number of the part that has this name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(&*self.before)?.strip_suffix(&*self.behind)?;
        let number: u32 = digits.parse().ok().filter(|number| *number > 0)?;
        (self.digits(number) == digits).then_some(number)
    }

    /// The path of a part.
    pub(crate) fn path(&self, number: u32) -> Result<VPath, PatternError> {
        let folder = self.folder.as_str().trim_end_matches('/');
        let (before, behind) = (&self.before, &self.behind);
        file_path(format!("{folder}/{before}{}{behind}", self.digits(number)))
    }

    fn digits(&self, number: u32) -> String {
        let digits = self.digits;
        format!("{number:0>digits$}")
    }
}

/// What the parts are called of which [`part_path`] gives the paths; the number stands in the name.
pub(crate) fn part_names(pattern: &str, values: Values<'_>) -> Result<PartNames, PatternError> {
    // No path has this letter.
    const NUMBER: char = '\0';
    let width = Cell::new(1);
    let text = expand_with(pattern, |word| match word.strip_prefix("part") {
        Some("") => Ok(NUMBER.to_string()),
        Some(digits) => {
            width.set(part_digits(digits).ok_or_else(|| unknown(word))?);
            Ok(NUMBER.to_string())
        }
        None => value(word, values),
    })?;
    let wrong = |why: &str| PatternError::NoPath(pattern.to_owned(), why.to_owned());
    let once = || wrong("the number of the part stands in the name, and once");
    let (head, behind) = text.split_once(NUMBER).ok_or_else(once)?;
    let (folder, before) = head.rsplit_once('/').ok_or_else(|| wrong("begin it with '/'"))?;
    if behind.contains(['/', NUMBER]) {
        return Err(once());
    }
    let folder = if folder.is_empty() { VPath::root() } else { file_path(folder.to_owned())? };
    let (before, behind) = (before.to_owned(), behind.to_owned());
    Ok(PartNames { folder, before, behind, digits: width.get() })
}

fn unknown(word: &str) -> PatternError {
    PatternError::Unknown(word.chars().take(64).collect())
}

/// How many digits `:04` asks for.
fn part_digits(width: &str) -> Option<usize> {
    let digits = width.strip_prefix(":0").and_then(|digits| digits.parse::<usize>().ok());
    digits.filter(|digits| (1..=9).contains(digits))
}

fn file_path(text: String) -> Result<VPath, PatternError> {
    match text.parse::<VPath>() {
        Ok(path) if !path.is_root() => Ok(path),
        Ok(_) => Err(PatternError::NoPath(text, "it names no file".to_owned())),
        Err(_) if !text.starts_with('/') => {
            Err(PatternError::NoPath(text, "begin it with '/'".to_owned()))
        }
        Err(error) => Err(PatternError::NoPath(text, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::uploaded;

    #[test]
    fn parts_are_known_by_their_names() {
        let event = uploaded("/in/a.tar.gz");
        let values = Values { event: &event, noted: None };
        let names = part_names("/parts/{stem}.{part:03}.x", values).unwrap();
        assert_eq!(names.folder.as_str(), "/parts");
        for (name, number) in [
            ("a.tar.001.x", Some(1)),
            ("a.tar.1000.x", Some(1000)),
            ("a.tar.01.x", None),
            ("a.tar.0001.x", None),
            ("a.tar.000.x", None),
            ("a.tar.+01.x", None),
            ("a.tar.001", None),
            ("b.tar.001.x", None),
        ] {
            assert_eq!(names.number(name), number, "{name}");
            if let Some(number) = number {
                let path = names.path(number).unwrap();
                assert_eq!(path.file_name(), Some(name));
                let split = part_path("/parts/{stem}.{part:03}.x", values, &number.to_string());
                assert_eq!(split.unwrap(), path);
            }
        }
        let plain = part_names("/{part}", values).unwrap();
        assert_eq!((plain.folder.as_str(), plain.number("12")), ("/", Some(12)));
        assert_eq!(plain.path(3).unwrap().as_str(), "/3");
        for bad in ["/p/{part}/{part}", "/p{part}/a", "p.{part}", "/p/{part:4}", "/../{part}"] {
            assert!(part_names(bad, values).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_table_of_patterns() {
        let event = uploaded("/in/a.tar.gz");
        let transfer = event.fact.file().unwrap().transfer;
        let date = &event.at.to_string()[..10];
        for (pattern, wanted) in [
            ("{name}", "a.tar.gz".to_owned()),
            ("/x/{name}", "x/a.tar.gz".to_owned()),
            ("{stem}-{date}.{extension}", format!("a.tar-{date}.gz")),
            ("{account}/{transfer}", format!("acme/{transfer}")),
            ("plain", "plain".to_owned()),
        ] {
            assert_eq!(store_path(pattern, &event).unwrap().as_str(), wanted, "{pattern}");
        }
        for bad in ["", "/", "../{name}", "a//b", "{nmae}", "{name", "{{7*7}}", "x/{name}/..", "{}"]
        {
            assert!(store_path(bad, &event).is_err(), "{bad} was taken");
        }
        assert_eq!(virtual_path("/done/{name}", &event).unwrap().as_str(), "/done/a.tar.gz");
        for bad in ["done/{name}", "/", "/../{name}", "/a/"] {
            assert!(virtual_path(bad, &event).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn values_of_a_web_hook_are_found_by_their_place() {
        let body = json!({"order": {"id": 7, "lines": [{"sku": "a{date}"}], "note": null}});
        let mut event = uploaded("/in/a");
        event.fact = Fact::HookReceived {
            rule: "r".parse().unwrap(),
            address: "192.0.2.1".to_owned(),
            headers: BTreeMap::from([("x-topic".to_owned(), "orders".to_owned())]),
            body,
        };
        for (pattern, wanted) in [
            ("{hook.body.order.id}.json", "7.json"),
            ("{hook.body.order.lines.0.sku}", "a{date}"),
            ("{hook.headers.x-topic}/a", "orders/a"),
        ] {
            assert_eq!(expand(pattern, &event).unwrap(), wanted, "{pattern}");
        }
        for bad in [
            "{hook.body.order}",
            "{hook.body.order.note}",
            "{hook.body.order.lines.1.sku}",
            "{hook.body.order.id.x}",
            "{hook.body}",
            "{hook.headers.cookie}",
            "{hook.x}",
        ] {
            let error = expand(bad, &event).unwrap_err();
            assert!(matches!(error, PatternError::NotInHook(_)), "{bad}: {error}");
        }
        let none = expand("{hook.body.x}", &uploaded("/in/a")).unwrap_err();
        assert!(matches!(none, PatternError::NotInHook(_)), "{none}");
    }

    #[test]
    fn what_a_peer_named_is_never_expanded() {
        for name in ["{date}", "{{7*7}}", "${x}", "%s", "{name}{name}"] {
            let event = uploaded(&format!("/in/{name}"));
            assert_eq!(store_path("out/{name}", &event).unwrap().as_str(), format!("out/{name}"));
        }
        let hidden = uploaded("/in/.profile");
        assert_eq!(store_path("{stem}_{extension}", &hidden).unwrap().as_str(), ".profile_");
        let long = uploaded(&format!("/in/{}", "n".repeat(255)));
        assert!(store_path("{name}.copy", &long).is_err());
    }
}
