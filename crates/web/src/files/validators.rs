//! ETag and Last-Modified of a file, and the conditions of requests on them (RFC 9110 §8.8, §13).

use std::time::{Duration, SystemTime};

use axum::http::header::{
    ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use entrepot_nouns::{Timestamp, VPath};
use entrepot_vfs::{Attributes, Vfs};

use crate::problem::Problem;

/// What tells one state of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    /// With its quotation marks; it begins with `W/` where the store names no identity of files.
    etag: String,
    /// When it changed last, where that tells states apart.
    modified: Option<Timestamp>,
}

/// What the conditions of a request lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Met,
    /// The client has this state already (304).
    NotModified,
    /// The request is meant for another state (412).
    Failed,
}

/// Whether a request only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Change,
}

impl Validators {
    /// Of a file. Its tag follows from identity, size and time, and says nothing of them.
    pub(crate) fn of(path: &VPath, attributes: &Attributes) -> Validators {
        let mut hasher = blake3::Hasher::new_derive_key("entrepot 2026 etag of a file");
        hasher.update(&attributes.size.to_le_bytes());
        hasher.update(&attributes.modified.micros().to_le_bytes());
        let (weak, told_by) = match &attributes.identity {
            Some(identity) => ("", identity.0.as_bytes()),
            None => ("W/", path.as_str().as_bytes()),
        };
        hasher.update(told_by);
        let mut tag = [0; 12];
        hasher.finalize_xof().fill(&mut tag);
        let hex: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        let modified = Some(attributes.modified);
        Validators { etag: format!("{weak}\"{hex}\""), modified }
    }

    /// Of an archive, whose tag changes with everything in it.
    pub(crate) fn of_archive(tag: &str) -> Validators {
        Validators { etag: format!("\"{tag}\""), modified: None }
    }

    /// As ETag shows it.
    pub(crate) fn etag(&self) -> &str {
        &self.etag
    }

    /// Adds them to an answer.
    pub(crate) fn add_to(&self, fields: &mut HeaderMap) {
        if let Ok(etag) = HeaderValue::from_str(&self.etag) {
            fields.insert(ETAG, etag);
        }
        let date = self.modified.map(|at| HeaderValue::from_str(&date(at)));
        if let Some(Ok(date)) = date {
            fields.insert(LAST_MODIFIED, date);
        }
    }

    /// Whether a range of this state may be sent: the rest of what the client has.
    pub(crate) fn allow_range(&self, fields: &HeaderMap) -> bool {
        let Some(wanted) = text(fields, &IF_RANGE) else { return true };
        let is_strong = !self.etag.starts_with("W/");
        // A date does not tell two changes within a second apart.
        is_strong && wanted == self.etag
    }

    fn matches(&self, list: &str, comparison: Comparison) -> bool {
        let is_same = |tag: &str| match comparison {
            Comparison::Strong => tag == self.etag && !tag.starts_with("W/"),
            Comparison::Weak => tag.trim_start_matches("W/") == self.etag.trim_start_matches("W/"),
        };
        list.trim() == "*" || list.split(',').any(|tag| is_same(tag.trim()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Evaluates the conditions of a request, in the order of RFC 9110 §13.2.2, on the file as it is
/// now, if it is there.
pub(crate) fn evaluate(
    fields: &HeaderMap,
    purpose: Purpose,
    now: Option<&Validators>,
) -> Condition {
    let changed = now.and_then(|now| now.modified);
    if let Some(list) = text(fields, &IF_MATCH) {
        if !now.is_some_and(|now| now.matches(list, Comparison::Strong)) {
            return Condition::Failed;
        }
    } else if let Some(since) = time(fields, &IF_UNMODIFIED_SINCE)
        && changed.is_some_and(|at| at.seconds() > since)
    {
        return Condition::Failed;
    }
    if let Some(list) = text(fields, &IF_NONE_MATCH) {
        if now.is_some_and(|now| now.matches(list, Comparison::Weak)) {
            return match purpose {
                Purpose::Read => Condition::NotModified,
                Purpose::Change => Condition::Failed,
            };
        }
    } else if purpose == Purpose::Read
        && let Some(since) = time(fields, &IF_MODIFIED_SINCE)
        && changed.is_some_and(|at| at.seconds() <= since)
    {
        return Condition::NotModified;
    }
    Condition::Met
}

/// Refuses a request that changes a file if its conditions do not hold.
///
/// # Errors
/// They do not, or the file cannot be looked at.
pub(crate) async fn check(vfs: &Vfs, path: &VPath, fields: &HeaderMap) -> Result<(), Problem> {
    if !has_conditions(fields) {
        return Ok(());
    }
    let now = vfs.published(path).await?;
    let now = now.map(|attributes| Validators::of(path, &attributes));
    match evaluate(fields, Purpose::Change, now.as_ref()) {
        Condition::Met => Ok(()),
        Condition::NotModified | Condition::Failed => Err(failed()),
    }
}

/// True if a request has any condition.
pub(crate) fn has_conditions(fields: &HeaderMap) -> bool {
    [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE]
        .iter()
        .any(|name| fields.contains_key(name))
}

/// The answer to a request that is meant for another state.
pub(crate) fn failed() -> Problem {
    let why = "the file is not in the state that the request is meant for; look at it again";
    Problem::new(StatusCode::PRECONDITION_FAILED, "EP1009", why)
}

fn text<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // What cannot be read matches nothing.
    fields.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// Seconds since the epoch; a date that cannot be read is no condition.
fn time(fields: &HeaderMap, name: &HeaderName) -> Option<i64> {
    parse_date(text(fields, name)?).map(|at| at.seconds())
}

/// A time as fields of HTTP have it, not before 1970.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    let since = date.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok().map(Timestamp::from_seconds)
}

/// A time as fields of HTTP have it; times before 1970 are shown as that.
pub(crate) fn date(at: Timestamp) -> String {
    let seconds = u64::try_from(at.seconds()).unwrap_or(0);
    // The year 9999 is the last that the format can show.
    let since = Duration::from_secs(seconds.min(253_402_300_799));
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validators() -> Validators {
        let modified = Some(Timestamp::from_seconds(784_111_777));
        Validators { etag: "\"a\"".to_owned(), modified }
    }

    fn after(named: &[(HeaderName, &str)], purpose: Purpose) -> Condition {
        evaluate(&fields(named), purpose, Some(&validators()))
    }

    fn fields(named: &[(HeaderName, &str)]) -> HeaderMap {
        let value = |value: &str| value.parse::<HeaderValue>().unwrap();
        named.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    }

    #[test]
    fn conditions_lead_where_the_rfc_says() {
        use Condition::{Failed, Met, NotModified};
        let (day, later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
        let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (named, read, change) in [
            (vec![], Met, Met),
            (vec![(IF_MATCH, "\"a\"")], Met, Met),
            (vec![(IF_MATCH, "\"b\", \"a\"")], Met, Met),
            (vec![(IF_MATCH, "\"b\"")], Failed, Failed),
            (vec![(IF_MATCH, "W/\"a\"")], Failed, Failed),
            (vec![(IF_MATCH, "*")], Met, Met),
            (vec![(IF_NONE_MATCH, "\"a\"")], NotModified, Failed),
            (vec![(IF_NONE_MATCH, "W/\"a\"")], NotModified, Failed),
            (vec![(IF_NONE_MATCH, "*")], NotModified, Failed),
            (vec![(IF_NONE_MATCH, "\"b\"")], Met, Met),
            (vec![(IF_MODIFIED_SINCE, day)], NotModified, Met),
            (vec![(IF_MODIFIED_SINCE, later)], NotModified, Met),
            (vec![(IF_MODIFIED_SINCE, earlier)], Met, Met),
            (vec![(IF_MODIFIED_SINCE, day), (IF_NONE_MATCH, "\"b\"")], Met, Met),
            (vec![(IF_UNMODIFIED_SINCE, earlier)], Failed, Failed),
            (vec![(IF_UNMODIFIED_SINCE, day)], Met, Met),
            (vec![(IF_MODIFIED_SINCE, "yesterday")], Met, Met),
        ] {
            assert_eq!(after(&named, Purpose::Read), read, "{named:?}");
            assert_eq!(after(&named, Purpose::Change), change, "{named:?}");
        }
        let any = fields(&[(IF_MATCH, "*")]);
        assert_eq!(evaluate(&any, Purpose::Change, None), Failed);
        let none = fields(&[(IF_NONE_MATCH, "*")]);
        assert_eq!(evaluate(&none, Purpose::Change, None), Met);
    }

    #[test]
    fn a_range_continues_the_same_state_only() {
        assert!(validators().allow_range(&HeaderMap::new()));
        assert!(validators().allow_range(&fields(&[(IF_RANGE, "\"a\"")])));
        for other in ["\"b\"", "W/\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert!(!validators().allow_range(&fields(&[(IF_RANGE, other)])), "{other}");
        }
        let weak = Validators { etag: "W/\"a\"".to_owned(), ..validators() };
        assert!(!weak.allow_range(&fields(&[(IF_RANGE, "W/\"a\"")])));
        assert_eq!(date(validators().modified.unwrap()), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
