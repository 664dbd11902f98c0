//! The functions of conditions: those of the standard, its extension for strings, and ours.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use cel::common::types::{CelBool, CelString, CelTimestamp};
use cel::extractors::Arguments;
use cel::{Context, Env as CelEnv, ExecutionError, Value, extensions};
use entrepot_nouns::Name;
use entrepot_nouns::watch::path_glob;
use ipnet::IpNet;

use crate::calendars::Calendars;
use crate::limits::FORMAT_BYTES;
use crate::schedule;

/// Ours: what each is called, and what it may be given.
pub(super) const OURS: &[&str] = &["format", "glob", IN_CALENDAR, "inNetwork"];

/// The function that asks for days of a calendar.
pub(crate) const IN_CALENDAR: &str = "inCalendar";

/// Those of the extension for strings that may be called. What `format` of a string makes cannot be
/// bounded before.
pub(super) const OF_STRINGS: &[&str] = &[
    "charAt",
    "indexOf",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "replace",
    "reverse",
    "split",
    "substring",
    "trim",
    "upperAscii",
];

/// All functions that there are.
pub(super) fn environment() -> Arc<CelEnv> {
    static ENV: OnceLock<Arc<CelEnv>> = OnceLock::new();
    let make = || {
        let mut env = CelEnv::stdlib();
        if let Err(error) = add(&mut env) {
            tracing::error!(%error, "a function of conditions is there twice");
        }
        Arc::new(env)
    };
    ENV.get_or_init(make).clone()
}

fn add(env: &mut CelEnv) -> Result<(), cel::DeclarationError> {
    env.add_extension(extensions::strings)?;
    cel::add_overload!(env, fn glob: (CelString, CelString) -> Result<CelBool>)?;
    cel::add_overload!(env, fn in_network: (CelString, CelString) -> Result<CelBool>)?;
    cel::add_overload!(
        env,
        fn format: (CelTimestamp, CelString, CelString) -> Result<CelString>
    )
}

/// Adds the one function that asks for what is stored: whether the day of a time, by the clock of a
/// zone, or without one of UTC, is a day of the calendar of a policy.
pub(super) fn add_calendars(context: &mut Context<'_, '_>, calendars: Arc<Calendars>) {
    let ask = move |Arguments(given): Arguments| in_calendar(&calendars, &given);
    if let Err(error) = context.add_function(IN_CALENDAR, ask) {
        tracing::error!(%error, "a function of conditions is there twice");
    }
}

fn in_calendar(calendars: &Calendars, given: &[Value]) -> Result<Value, ExecutionError> {
    let wrong = |text: String| ExecutionError::function_error(IN_CALENDAR, text);
    let (at, name, zone) = match given {
        [Value::Timestamp(at), Value::String(name)] => (at, name, "UTC"),
        [Value::Timestamp(at), Value::String(name), Value::String(zone)] => (at, name, &***zone),
        _ => {
            let types = given.iter().map(|value| value.type_of().to_string()).collect();
            return Err(ExecutionError::no_such_overload(IN_CALENDAR, types));
        }
    };
    let at = jiff::Timestamp::from_microsecond(at.timestamp_micros());
    let at = at.map_err(|error| wrong(error.to_string()))?;
    let zone = schedule::zone(zone, "zone").map_err(|error| wrong(error.problem))?;
    calendars.has(name, at.to_zoned(zone).date()).map(Value::Bool).map_err(wrong)
}

/// Whether a path fits a pattern: `*` stands for any letters but the slash, `**` for any at all,
/// `?` for one.
fn glob(path: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let pattern = path_glob(pattern.inner());
    let pattern = pattern.map_err(|error| ExecutionError::function_error("glob", error))?;
    Ok(CelBool::from(pattern.is_match(path.inner())))
}

/// Whether an address lies in a network, such as `10.0.0.0/8`; an IPv4 address that is written as
/// one of IPv6 counts as what it is.
fn in_network(address: &CelString<'_>, network: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let wrong = |text: String| ExecutionError::function_error("inNetwork", text);
    let network = parse_network(network.inner()).map_err(wrong)?;
    let address: IpAddr = address
        .inner()
        .parse()
        .map_err(|_| wrong(format!("'{}' is no address", address.inner())))?;
    Ok(CelBool::from(network.contains(&address.to_canonical())))
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let found = text.parse::<IpNet>().or_else(|_| address());
    found.map_err(|_| format!("'{text}' is no network; write it as in 10.0.0.0/8"))
}

/// A time by the clock of a zone, in the form of `strftime`.
fn format(
    at: &CelTimestamp,
    form: &CelString<'_>,
    zone: &CelString<'_>,
) -> Result<CelString<'static>, ExecutionError> {
    let wrong = |text: String| ExecutionError::function_error("format", text);
    let at = jiff::Timestamp::from_microsecond(at.inner().timestamp_micros());
    let at = at.map_err(|error| wrong(error.to_string()))?;
    Ok(formatted(at, form.inner(), zone.inner()).map_err(wrong)?.into())
}

fn formatted(at: jiff::Timestamp, form: &str, zone: &str) -> Result<String, String> {
    if form.len() > FORMAT_BYTES {
        return Err(format!("the form of a time has at most {FORMAT_BYTES} bytes"));
    }
    let zone = schedule::zone(zone, "zone").map_err(|error| error.problem)?;
    jiff::fmt::strtime::format(form, &at.to_zoned(zone))
        .map_err(|error| format!("'{form}' is no form of a time: {error}"))
}

/// What of a text that a condition gives a function can be used by it in no case; `at` counts from
/// 0, with what the function is called on.
pub(super) fn flaw(function: &str, at: usize, text: &str) -> Option<String> {
    match (function, at) {
        ("inNetwork", 1) => parse_network(text).err(),
        ("inNetwork", 0) if text.parse::<IpAddr>().is_err() => {
            Some(format!("'{text}' is no address"))
        }
        ("glob", 1) => path_glob(text).err(),
        ("format", 1) => formatted(jiff::Timestamp::UNIX_EPOCH, text, "UTC").err(),
        (IN_CALENDAR, 1) if text.parse::<Name>().is_err() => {
            Some(format!("'{text}' is no name of a policy"))
        }
        ("format" | IN_CALENDAR, 2) => {
            schedule::zone(text, "zone").err().map(|error| error.problem)
        }
        _ => None,
    }
}
