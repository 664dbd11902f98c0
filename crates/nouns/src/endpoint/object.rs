//! Buckets of object stores, and how requests to them are made.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::limits::{
    OBJECT_ATTEMPTS, OBJECT_BACKOFF_SECONDS, OBJECT_CONNECTIONS, OBJECT_PART_MIB, OBJECT_PARTS_MIB,
    OBJECT_TIMEOUT_SECONDS,
};
use crate::noun::FieldError;
use crate::period::Period;
use crate::secret::{Sealed, Secret};

/// Whose object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectProvider {
    /// Amazon S3 or any server that speaks it.
    #[default]
    S3,
    /// Microsoft Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
}

/// A bucket of an object store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectTarget {
    /// Which service the bucket is in; it decides how requests are signed.
    #[serde(default)]
    pub provider: ObjectProvider,
    /// Bucket or container.
    pub bucket: String,
    /// Key prefix below which everything lies, without leading or trailing slash.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Base URL of an S3 compatible server; unset: the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Region; unset: `us-east-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Access key id, or Azure account name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// The secret key, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub secret_key: Option<Secret>,
    /// Allow `http://` and private addresses, for servers inside one's own network.
    #[serde(default)]
    pub allow_private: bool,
    /// The bucket of S3 keeps each object for a time (Object Lock): it takes only objects with a
    /// checksum, which is then sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub object_lock: bool,
    /// How files are cut into parts, and how its requests are made, limited and tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: ObjectRequests,
}

impl ObjectTarget {
    /// A bucket of S3, without a key; all else as where a document leaves it away.
    pub fn new(bucket: &str) -> ObjectTarget {
        ObjectTarget {
            provider: ObjectProvider::default(),
            bucket: bucket.to_owned(),
            prefix: String::new(),
            url: None,
            region: None,
            access_key_id: None,
            secret_key_sealed: None,
            secret_key: None,
            allow_private: false,
            object_lock: false,
            requests: ObjectRequests::default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        if self.bucket.is_empty() {
            return Err(FieldError::new("target.object.bucket", "name a bucket"));
        }
        self.requests.check()
    }
}

/// How files are cut into parts for an object store, and how requests to it are made, limited and
/// tried again. A field that is unset has its default, which the methods of the same name give.
///
/// The parts of one file that are in memory, `part_size_mib` × `parts_at_once`, have at most 15
/// MiB, so that a transfer stays within 16 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectRequests {
    /// Size of the first 1,000 parts of a file, 5 to 15 MiB; unset: 5. Parts of larger files grow,
    /// because an object has at most 10,000 of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_size_mib: Option<u32>,
    /// Parts of one file that are sent at the same time; unset: 1. Fewer are where parts have
    /// grown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_at_once: Option<u32>,
    /// Connections of a node to the store, 1 to 1,024; unset: 64. Further requests wait for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// How long it may take to make a connection, with TLS, 1 s to 1 h; unset: 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Period>,
    /// How long the answer to a request that was sent may take to begin, 1 s to 1 h; unset: 2m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_timeout: Option<Period>,
    /// How long no byte of a request or an answer may move, 1 s to 1 h; unset: 1m. As long as some
    /// do, a request may take as long as it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Period>,
    /// Tries of one request, 1 to 20; unset: 5. They end 10 minutes after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Pause before the second try, at most 5 minutes; unset: 1s. Later ones are longer, by chance
    /// up to twice the one before, or 30 seconds. A server that names a pause gets that one too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Period>,
}

impl ObjectRequests {
    /// Size of the first parts of a file.
    pub fn part_size_mib(&self) -> u32 {
        self.part_size_mib.unwrap_or(5)
    }

    /// Parts of one file that are sent at the same time.
    pub fn parts_at_once(&self) -> u32 {
        self.parts_at_once.unwrap_or(1)
    }

    /// Most connections of a node.
    pub fn connections(&self) -> u32 {
        self.connections.unwrap_or(64)
    }

    /// How long it may take to make a connection.
    pub fn connect_timeout(&self) -> Period {
        self.connect_timeout.unwrap_or(Period::from_seconds(10))
    }

    /// How long an answer may take to begin.
    pub fn answer_timeout(&self) -> Period {
        self.answer_timeout.unwrap_or(Period::from_seconds(120))
    }

    /// How long no byte may move.
    pub fn idle_timeout(&self) -> Period {
        self.idle_timeout.unwrap_or(Period::from_seconds(60))
    }

    /// Tries of one request, at least 1.
    pub fn attempts(&self) -> u32 {
        self.attempts.unwrap_or(5)
    }

    /// Pause before the second try.
    pub fn backoff(&self) -> Period {
        self.backoff.unwrap_or(Period::from_seconds(1))
    }

    /// The same, with each default in its field: what holds.
    pub fn in_full(&self) -> ObjectRequests {
        ObjectRequests {
            part_size_mib: Some(self.part_size_mib()),
            parts_at_once: Some(self.parts_at_once()),
            connections: Some(self.connections()),
            connect_timeout: Some(self.connect_timeout()),
            answer_timeout: Some(self.answer_timeout()),
            idle_timeout: Some(self.idle_timeout()),
            attempts: Some(self.attempts()),
            backoff: Some(self.backoff()),
        }
    }

    fn check(&self) -> Result<(), FieldError> {
        within("part_size_mib", self.part_size_mib(), &OBJECT_PART_MIB)?;
        within("parts_at_once", self.parts_at_once(), &(1..=OBJECT_PARTS_MIB))?;
        within("connections", self.connections(), &OBJECT_CONNECTIONS)?;
        within("attempts", self.attempts(), &OBJECT_ATTEMPTS)?;
        for (field, period, range) in [
            ("connect_timeout", self.connect_timeout(), OBJECT_TIMEOUT_SECONDS),
            ("answer_timeout", self.answer_timeout(), OBJECT_TIMEOUT_SECONDS),
            ("idle_timeout", self.idle_timeout(), OBJECT_TIMEOUT_SECONDS),
            ("backoff", self.backoff(), OBJECT_BACKOFF_SECONDS),
        ] {
            let [least, most] = [*range.start(), *range.end()].map(Period::from_seconds);
            if !(least..=most).contains(&period) {
                return Err(flaw(field, &format!("give {least} to {most}")));
            }
        }
        let (size, at_once) = (self.part_size_mib(), self.parts_at_once());
        if size * at_once > OBJECT_PARTS_MIB {
            let what = format!(
                "{at_once} parts of {size} MiB are {} MiB in memory; a transfer may have \
                 {OBJECT_PARTS_MIB}: give fewer, or smaller ones",
                size * at_once
            );
            return Err(flaw("parts_at_once", &what));
        }
        if self.connections() < at_once {
            return Err(flaw("connections", "give at least as many as 'parts_at_once'"));
        }
        Ok(())
    }
}

fn flaw(field: &str, what: &str) -> FieldError {
    FieldError::new(format!("target.object.requests.{field}"), what)
}

fn within(field: &str, value: u32, range: &RangeInclusive<u32>) -> Result<(), FieldError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(flaw(field, &format!("give {} to {}", range.start(), range.end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(requests: &str) -> Result<ObjectTarget, serde_json::Error> {
        serde_json::from_str(&format!(r#"{{"bucket": "b", "requests": {requests}}}"#))
    }

    #[test]
    fn a_document_without_the_fields_is_as_before_and_has_the_defaults() {
        let target: ObjectTarget = serde_json::from_str(r#"{"bucket": "b"}"#).unwrap();
        assert_eq!(target, ObjectTarget::new("b"));
        target.check().unwrap();
        let written = serde_json::to_value(&target).unwrap();
        assert!(written.get("requests").is_none(), "{written}");
        let full = serde_json::to_value(target.requests.in_full()).unwrap();
        let wanted = serde_json::json!({
            "part_size_mib": 5, "parts_at_once": 1, "connections": 64, "connect_timeout": "10s",
            "answer_timeout": "2m", "idle_timeout": "1m", "attempts": 5, "backoff": "1s",
        });
        assert_eq!(full, wanted);
    }

    #[test]
    fn what_is_given_is_kept_and_the_rest_is_as_usual() {
        let target = parsed(r#"{"part_size_mib": 7, "answer_timeout": "30s"}"#).unwrap();
        target.check().unwrap();
        let (requests, written) = (&target.requests, serde_json::to_value(&target).unwrap());
        assert_eq!((requests.part_size_mib(), requests.parts_at_once()), (7, 1));
        assert_eq!(requests.answer_timeout(), Period::from_seconds(30));
        let kept = serde_json::json!({"part_size_mib": 7, "answer_timeout": "30s"});
        assert_eq!(written["requests"], kept);
        assert!(parsed(r#"{"part_size": 7}"#).is_err());
        assert!(parsed(r#"{"backoff": "1.5s"}"#).is_err());
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_its_field() {
        for (requests, field) in [
            (r#"{"part_size_mib": 4}"#, "part_size_mib"),
            (r#"{"part_size_mib": 16}"#, "part_size_mib"),
            (r#"{"part_size_mib": 4000000000, "parts_at_once": 2}"#, "part_size_mib"),
            (r#"{"parts_at_once": 0}"#, "parts_at_once"),
            (r#"{"parts_at_once": 4}"#, "parts_at_once"),
            (r#"{"parts_at_once": 4000000000}"#, "parts_at_once"),
            (r#"{"part_size_mib": 8, "parts_at_once": 2}"#, "parts_at_once"),
            (r#"{"connections": 0}"#, "connections"),
            (r#"{"connections": 1025}"#, "connections"),
            (r#"{"connections": 1, "parts_at_once": 2}"#, "connections"),
            (r#"{"connect_timeout": "0s"}"#, "connect_timeout"),
            (r#"{"answer_timeout": "61m"}"#, "answer_timeout"),
            (r#"{"idle_timeout": "0s"}"#, "idle_timeout"),
            (r#"{"attempts": 0}"#, "attempts"),
            (r#"{"attempts": 21}"#, "attempts"),
            (r#"{"backoff": "6m"}"#, "backoff"),
        ] {
            let error = parsed(requests).unwrap().check().unwrap_err();
            assert_eq!(error.field, format!("target.object.requests.{field}"), "{requests}");
        }
        for requests in [
            r#"{"part_size_mib": 15}"#,
            r#"{"part_size_mib": 7, "parts_at_once": 2}"#,
            r#"{"parts_at_once": 3, "connections": 3}"#,
            r#"{"backoff": "0s", "attempts": 1}"#,
        ] {
            parsed(requests).unwrap().check().unwrap();
        }
    }
}
