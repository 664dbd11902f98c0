//! Events: immutable facts. The audit log is their table; rules, alerts, console and metrics only
//! read it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::command::CommandFact;
use crate::document::is_default;
use crate::ids::{EventId, JobId, NodeId, SessionId, SiteId, TransferId};
use crate::listener::Protocol;
use crate::name::Name;
use crate::noun::Kind;
use crate::time::Timestamp;
use crate::transfer::Digests;

/// An immutable fact. Its order is that of the journal of its node (`sequence` in the table).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Given by the node that recorded it; the same in the journal and in the database.
    pub id: EventId,
    /// When it happened, by the clock of the node.
    pub at: Timestamp,
    /// Its place among the events of all nodes, as far as clocks can tell; none before a node has
    /// a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<EventClock>,
    /// The site that owns it; `main` for what concerns a node as a whole.
    pub site: SiteId,
    /// The node that saw it.
    pub node: Name,
    /// Who acted, if anyone known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// In which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// In which job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The event that a rule reacted to when this happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EventId>,
    /// How many causes lie behind it.
    #[serde(default)]
    pub depth: u8,
    /// What happened, by kind.
    #[serde(flatten)]
    pub fact: Fact,
}

/// A hybrid clock: time as the database has it, and what makes it unique. It grows from each
/// event of a node to the next, also while the node's clock is set back. In JSON it is text:
/// `ms.counter.slot`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventClock {
    /// Milliseconds since 1970, by the node's clock less what it was ahead of the database's.
    pub ms: i64,
    /// Counts the events of one millisecond.
    pub counter: u32,
    /// Of the node, so that no two nodes have the same.
    pub slot: u32,
}

impl fmt::Display for EventClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.ms, self.counter, self.slot)
    }
}

impl FromStr for EventClock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not the clock of an event (ms.counter.slot)");
        let mut parts = text.split('.');
        let ms = parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        let counter = parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        let slot = parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(EventClock { ms, counter, slot })
    }
}

impl Serialize for EventClock {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventClock {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A file that arrived, left or changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileFact {
    /// The transfer that moved it, also named by the row of the transfers table.
    pub transfer: TransferId,
    /// Virtual path as the account sees it.
    pub path: String,
    /// Size of the file in bytes, unless the kind of fact says otherwise.
    pub size: u64,
    /// Digests, as far as known.
    #[serde(flatten)]
    pub digests: Digests,
    /// Spoken with the peer.
    pub protocol: Protocol,
    /// When the transfer began.
    pub started_at: Timestamp,
    /// Which file it is, as its store tells it from every other one; none where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The file that had the name and lost it to this one; none if the name was free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaced: Option<Displaced>,
    /// Published under a name its client calls temporary (`.filepart`, …): no rule starts on it;
    /// the rename to the final name is the arrival.
    #[serde(default, skip_serializing_if = "is_default")]
    pub temporary: bool,
}

/// A file that events were written to before they were deleted: NDJSON, compressed by zstd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedFile {
    /// The endpoint that has it.
    pub endpoint: Name,
    /// Its path there.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of its bytes, 64 hexadecimal digits.
    pub sha256: String,
}

/// The file that had a name until another file took it. What several nodes publish under one name
/// is put in order by it: each names the file before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Displaced {
    /// Which file it was, as its store tells it from every other one; none where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// A fact of a kind that this program does not know: JSON as a newer one wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct UnknownFact {
    kind: String,
    fields: Map<String, Value>,
}

impl UnknownFact {
    /// The word that the newer program uses for it.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// All other fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

impl TryFrom<Map<String, Value>> for UnknownFact {
    type Error = String;

    /// A kind that this program knows, with fields that it does not understand, is no fact of a
    /// newer program but a damaged one.
    fn try_from(mut fields: Map<String, Value>) -> Result<Self, String> {
        let Some(Value::String(kind)) = fields.remove("kind") else {
            return Err("an event has no kind".to_owned());
        };
        if Fact::KINDS.contains(&kind.as_str()) {
            return Err(format!("an event of kind '{kind}' has fields that cannot be read"));
        }
        Ok(UnknownFact { kind, fields })
    }
}

impl From<UnknownFact> for Map<String, Value> {
    fn from(UnknownFact { kind, mut fields }: UnknownFact) -> Self {
        fields.insert("kind".to_owned(), Value::String(kind));
        fields
    }
}

macro_rules! facts {
    ($( $(#[$doc:meta])* $word:literal $name:ident {
        $( $(#[$field_doc:meta])* $field:ident : $ty:ty ),* $(,)?
    } )*) => {
        /// What happened. `kind` in JSON is the word that rules and searches use.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum Fact { $(
            $(#[$doc])*
            #[serde(rename = $word)]
            $name { $( $(#[$field_doc])* $field: $ty, )* },
        )*
            /// What a newer program recorded. It is kept and shown as it is.
            #[serde(untagged)]
            Unknown(UnknownFact),
        }

        impl Fact {
            /// Every kind, as rules and searches name it.
            pub const KINDS: &'static [&'static str] = &[$($word,)*];

            /// The word that rules and searches use, such as `file.uploaded`.
            pub fn kind(&self) -> &str {
                match self {
                    $(Fact::$name { .. } => $word,)*
                    Fact::Unknown(fact) => fact.kind(),
                }
            }
        }
    };
}

facts! {
    /// A node began to serve.
    "node.started" NodeStarted {
        /// Version of the program.
        version: String,
    }
    /// A node stopped in good order.
    "node.stopped" NodeStopped {}
    /// A node was asked to end: running transfers may end, nothing new begins.
    "node.draining" NodeDraining {
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A node served this database for the first time; its journal is bound to its name.
    "node.joined" NodeJoined {
        /// Its id, made with its journal.
        node_id: NodeId,
        /// The smallest number that no other node has.
        slot: u32,
        /// Who: an admin account, or `cli:<user>`; else `node:<name>`.
        by: String,
    }
    /// A node was asked to take no new sessions and no new jobs; what is open goes on.
    "node.drained" NodeDrained {
        /// The node that was asked.
        name: Name,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A drained node takes new sessions and jobs again.
    "node.undrained" NodeUndrained {
        /// The node that was asked.
        name: Name,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A node was taken off the list; another one may have its name.
    "node.removed" NodeRemoved {
        /// The name that is free again.
        name: Name,
        /// The last record of its journal that is in the database.
        projected: u64,
        /// How many records behind that one its last heartbeat told of: events that are lost if
        /// the journal is.
        unprojected: u64,
        /// It did not stop in good order: there may be more of them.
        lost: bool,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A backup was made.
    "backup.made" BackupMade {
        /// The folder that holds it, on the machine of the node.
        folder: String,
        /// BLAKE3 of its manifest, which holds the digests of all its parts.
        manifest: String,
        /// The last record of the node's journal that it holds.
        records: u64,
        /// Published files of directory endpoints that it lists.
        files: u64,
        /// It holds the master key.
        with_master_key: bool,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// All sealed secrets of the installation were sealed anew under another master key.
    "secrets.rotated" SecretsRotated {
        /// Names the master key that opens them no more; tells nothing of it.
        from: String,
        /// Names the one that opens them now.
        to: String,
        /// How many there are.
        secrets: u64,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// The database fell back, by a failover or a restore: what it misses is projected anew.
    "database.fell-back" DatabaseFellBack {
        /// The last record of the node's journal that was in the database.
        reached: u64,
        /// The last one that is still there.
        found: u64,
    }
    /// The journal no longer holds records that the database misses.
    "database.gap" DatabaseGap {
        /// The last record that the database has.
        after: u64,
        /// The next one that the journal still holds.
        until: u64,
    }
    /// How fast everything together on a node may go was changed by hand.
    "node.limited" NodeLimited {
        /// Bytes a second from peers to us, from now on; none: no limit.
        upload: Option<u64>,
        /// Bytes a second from us to peers.
        download: Option<u64>,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// The journal of the node is not what its signed head or the database says that it was:
    /// records were changed, cut or replaced while the node was down.
    "journal.altered" JournalAltered {
        /// The last record that is known to have been in it.
        up_to: u64,
        /// What is wrong.
        problem: String,
    }
    /// An earlier run of the node ended because a sync of its journal failed; this one has proven
    /// what the journal has.
    "journal.failed" JournalFailed {
        /// When the sync failed.
        failed_at: Timestamp,
        /// What the system said.
        problem: String,
    }
    /// A sink does not take the signed heads of the journal; they are sent again until it does.
    "sink.failed" SinkFailed {
        /// As the process file names it.
        sink: String,
        /// What it said.
        problem: String,
    }
    /// Retention deletes what is older than the site keeps it. It is recorded before the first row
    /// or file goes.
    "retention.pruned" RetentionPruned {
        /// `events`, `transfers`, `jobs` or `archive`.
        what: String,
        /// Of events and archives: the node whose journal has their records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<Name>,
        /// The first record of that journal that is concerned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first: Option<u64>,
        /// The last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<u64>,
        /// How many rows, or records of an archive.
        count: u64,
        /// Everything deleted is older than this.
        older_than: Timestamp,
        /// The file that the events were written to before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exported: Option<ExportedFile>,
        /// The signed note by which the rest still verifies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stub: Option<String>,
    }
    /// Someone logged in.
    "session.opened" SessionOpened {
        /// The protocol of the connection.
        protocol: Protocol,
        /// The peer's IP address, without a port.
        address: String,
        /// How the client names itself.
        client: String,
        /// Methods that proved the account, with key fingerprints.
        proof: String,
    }
    /// A session ended.
    "session.closed" SessionClosed {
        /// Why, one sentence.
        reason: String,
        /// Bytes from the peer.
        bytes_in: u64,
        /// Bytes to the peer.
        bytes_out: u64,
    }
    /// An administrator asked for the end of a session: its `session.closed` follows.
    "session.ending" SessionEnding {
        /// The account of the session.
        name: Name,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// How fast one session may go was changed by hand.
    "session.limited" SessionLimited {
        /// The account of the session.
        name: Name,
        /// The rates of its policies hold again; else those below.
        by_policy: bool,
        /// Bytes a second from the client; none: no limit of its own.
        upload: Option<u64>,
        /// Bytes a second to the client.
        download: Option<u64>,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A login was refused.
    "login.refused" LoginRefused {
        /// The protocol of the connection.
        protocol: Protocol,
        /// The peer's IP address, without a port.
        address: String,
        /// The name that was tried, as sent, cut to 64 characters.
        name: String,
        /// Why, for operators; the peer hears less.
        reason: String,
    }
    /// An address or an account must wait after too many refused logins.
    "login.limited" LoginLimited {
        /// The peer's IP address, without a port.
        address: String,
        /// How long it must wait, in seconds from the event on.
        seconds: u64,
    }
    /// An administrator let an address go that wrong passwords had delayed or locked.
    "address.unlocked" AddressUnlocked {
        /// The address, of IPv6 its /64.
        address: String,
        /// Wrong passwords that were forgotten.
        failures: u32,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// The same of an account.
    "account.unlocked" AccountUnlocked {
        /// The account whose wrong passwords are forgotten.
        name: Name,
        /// Wrong passwords that were forgotten.
        failures: u32,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A client asked for a forwarding of SSH and was refused; once a session for each kind.
    "forwarding.refused" ForwardingRefused {
        /// The kind, as the protocol names it: `direct-tcpip`, `tcpip-forward`, `x11`.
        what: String,
        /// The peer's IP address, without a port.
        address: String,
    }
    /// A file is whole, durable and visible.
    "file.uploaded" FileUploaded {
        /// What is known of the file.
        #[serde(flatten)]
        file: FileFact,
    }
    /// A crash hid the answer: the file was found published at the next start.
    "file.recovered" FileRecovered {
        /// What is known of the file.
        #[serde(flatten)]
        file: FileFact,
    }
    /// A file was read to its end, or a part of it was.
    "file.downloaded" FileDownloaded {
        /// The file; `size` is what was sent.
        #[serde(flatten)]
        file: FileFact,
    }
    /// An upload was cut, refused or aborted. Nothing is visible.
    "file.interrupted" FileInterrupted {
        /// The file; `size` is what arrived.
        #[serde(flatten)]
        file: FileFact,
        /// Kept for its owner to resume.
        kept: bool,
        /// Why, one sentence.
        reason: String,
    }
    /// After a crash neither the staged nor the published file was there.
    "file.unknown" FileUnknown {
        /// What is known of the file.
        #[serde(flatten)]
        file: FileFact,
    }
    /// A file was removed.
    "file.removed" FileRemoved {
        /// Virtual path as the account sees it.
        path: String,
    }
    /// A file or directory was renamed.
    "file.renamed" FileRenamed {
        /// Old virtual path.
        from: String,
        /// New virtual path.
        to: String,
        /// The file that had the new name and lost it; none if the name was free.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        displaced: Option<Displaced>,
        /// A temporary name became a final one: rules treat it as an arrival.
        arrival: bool,
        /// Bytes of the file.
        size: u64,
        /// Of an arrival, as far as known: the upload under the temporary name, with `path` as it
        /// is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<Box<FileFact>>,
    }
    /// A file was given a second name.
    "file.linked" FileLinked {
        /// The virtual path it had.
        from: String,
        /// The one it has besides.
        to: String,
        /// Bytes of the file.
        size: u64,
    }
    /// Permission bits of a file or directory were changed by a client.
    "mode.changed" ModeChanged {
        /// Virtual path as the account sees it.
        path: String,
        /// The bits before, as octal digits.
        from: String,
        /// The bits since.
        to: String,
    }
    /// A symbolic link was made.
    "link.created" LinkCreated {
        /// Its virtual path.
        path: String,
        /// The virtual path it leads to; there need be nothing.
        target: String,
    }
    /// A directory was made.
    "directory.created" DirectoryCreated {
        /// Virtual path as the account sees it.
        path: String,
    }
    /// A directory was removed.
    "directory.removed" DirectoryRemoved {
        /// Virtual path as the account sees it.
        path: String,
    }
    /// A file is whole and durable at an endpoint.
    "file.delivered" FileDelivered {
        /// The file; `path` is the one at the endpoint.
        #[serde(flatten)]
        file: FileFact,
        /// The endpoint that has it now.
        endpoint: Name,
        /// The name of the rule, which may have been deleted since.
        rule: Name,
    }
    /// A command of a peer was answered, and a rule asked to be told.
    "command.done" CommandDone {
        /// The command, with what became of it.
        #[serde(flatten)]
        command: CommandFact,
    }
    /// A rule refused a command of a peer, or could not be asked.
    "command.refused" CommandRefused {
        /// The command; `code` is what the peer was told.
        #[serde(flatten)]
        command: CommandFact,
        /// The rule, if one could be asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<Name>,
        /// What the peer was told, or why it could not be asked.
        reason: String,
    }
    /// A program that a rule started has ended.
    "program.ended" ProgramEnded {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// Its path; its arguments may be secrets of somebody.
        program: String,
        /// Whether it counts as done: exit code 0, or 1 with a warning.
        done: bool,
        /// Exit code, signal or limit, in words.
        how: String,
        /// From its start to its end.
        duration_ms: u64,
        /// The last words of what it wrote.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
    }
    /// An attempt of a job failed; it will be tried again.
    "job.retrying" JobRetrying {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// Attempts made so far, counting this one.
        attempts: u32,
        /// Why, one sentence.
        error: String,
        /// When the next attempt may begin.
        due_at: Timestamp,
    }
    /// The last attempt of a job failed.
    "job.failed" JobFailed {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// Attempts made so far, counting this one.
        attempts: u32,
        /// Why, one sentence.
        error: String,
    }
    /// All steps of a job are done.
    "job.done" JobDone {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
    }
    /// A job was made due again by hand.
    "job.retried" JobRetried {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A job was ended by hand.
    "job.cancelled" JobCancelled {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// The configuration was read as documents, with what protects its secrets.
    "config.exported" ConfigExported {
        /// Which kinds of nouns.
        kinds: Vec<Kind>,
        /// Hashes of passwords and sealed secrets were among it.
        secrets: bool,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// How much a node logs was changed by hand.
    "log.changed" LogChanged {
        /// What differs from the process file since, such as `auth=debug`.
        levels: Vec<String>,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// Configuration was created, changed or deleted.
    "config.changed" ConfigChanged {
        /// What kind of noun.
        noun: Kind,
        /// The name of the noun within its kind and site.
        name: Name,
        /// `created`, `changed` or `deleted`.
        action: String,
        /// Who: an admin account, `cli:<user>`, or `node:<name>` for keys made at first start and
        /// for hashes of passwords made anew after a login.
        by: String,
        /// Names of the fields that changed; never their values.
        fields: Vec<String>,
    }
}

impl Fact {
    /// The file it is about, if any: what the steps of a rule work on.
    pub fn file(&self) -> Option<&FileFact> {
        match self {
            Fact::FileUploaded { file }
            | Fact::FileRecovered { file }
            | Fact::FileDownloaded { file }
            | Fact::FileInterrupted { file, .. }
            | Fact::FileUnknown { file }
            | Fact::FileDelivered { file, .. } => Some(file),
            Fact::FileRenamed { file, .. } => file.as_deref(),
            _ => None,
        }
    }

    /// Whether a file lost its name by it; `None` for what gives no file a name.
    pub fn replaced(&self) -> Option<bool> {
        match self {
            Fact::FileRenamed { displaced, .. } => Some(displaced.is_some()),
            _ => self.file().map(|file| file.displaced.is_some()),
        }
    }

    /// Notes which file lost its name by it: known for certain once it has happened.
    pub fn set_displaced(&mut self, gone: Option<Displaced>) {
        match self {
            Fact::FileUploaded { file }
            | Fact::FileRecovered { file }
            | Fact::FileDelivered { file, .. } => file.displaced = gone,
            Fact::FileRenamed { displaced, file, .. } => {
                if let Some(file) = file {
                    file.displaced.clone_from(&gone);
                }
                *displaced = gone;
            }
            _ => {}
        }
    }

    /// The command it is about, if any.
    pub fn command(&self) -> Option<&CommandFact> {
        match self {
            Fact::CommandDone { command } | Fact::CommandRefused { command, .. } => Some(command),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;

    #[test]
    fn an_event_of_a_newer_program_goes_round_as_it_is() {
        let json = serde_json::json!({
            "id": "0192f1c4-7d7a-7abc-8def-0123456789ab",
            "at": "2026-07-01T00:00:00.000000Z",
            "site": "00000000-0000-0000-0000-000000000001",
            "node": "n1",
            "depth": 0,
            "kind": "file.eaten",
            "by": { "whale": [1, null, "x"] },
        });
        let event: Event = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(event.fact.kind(), "file.eaten");
        assert_eq!(event.fact.file(), None);
        assert_eq!(serde_json::to_value(&event).unwrap(), json);
        // A kind that is known and cannot be read is damage.
        let mut known = json.clone();
        known["kind"] = "file.removed".into();
        assert!(serde_json::from_value::<Event>(known).is_err());
        let mut none = json;
        assert_eq!("7.1.3".parse(), Ok(EventClock { ms: 7, counter: 1, slot: 3 }));
        assert!("7.1".parse::<EventClock>().is_err() && "7.1.3.4".parse::<EventClock>().is_err());
        none.as_object_mut().unwrap().remove("kind");
        assert!(serde_json::from_value::<Event>(none).is_err());
    }

    #[test]
    fn json_form_is_flat_and_goes_round() {
        let env = Env::simulated(1);
        let event = Event {
            id: env.new_id(),
            at: env.now(),
            clock: Some(EventClock { ms: 7, counter: 1, slot: 3 }),
            site: SiteId::MAIN,
            node: "n1".parse().unwrap(),
            account: Some("acme".parse().unwrap()),
            session: None,
            job: None,
            cause: None,
            depth: 0,
            fact: Fact::FileUploaded {
                file: FileFact {
                    transfer: env.new_id(),
                    path: "/in/a.xml".to_owned(),
                    size: 3,
                    digests: Digests { blake3: Some([7; 32]), sha256: None },
                    protocol: Protocol::Sftp,
                    started_at: env.now(),
                    identity: Some("12:1700000000000000".to_owned()),
                    displaced: Some(Displaced { identity: None }),
                    temporary: false,
                },
            },
        };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["kind"], "file.uploaded");
        assert_eq!(json["path"], "/in/a.xml");
        // That something was displaced is not lost where nobody can tell what.
        assert_eq!(json["displaced"], serde_json::json!({}));
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
}
