//! Events: immutable facts. The audit log is their table; rules, alerts, console and metrics only
//! read it.

#[macro_use]
mod table;
mod about;
mod approval;
mod as2;
mod backup;
mod clock;
mod endpoint;
mod expected;
mod file;
mod job;
mod node;
mod pruned;
mod quota;
mod recorded;
mod session;
#[cfg(test)]
mod tests;
mod unknown;
mod watch;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::command::CommandFact;
use crate::document::is_default;
use crate::ids::EventId;
use crate::listener::Protocol;
use crate::name::Name;
use crate::noun::Kind;
use crate::time::Timestamp;
use crate::watch::WatchChange;

pub use approval::ApprovalFact;
pub use as2::*;
pub use backup::{BackupFact, ConfigExportFact};
pub use clock::EventClock;
pub use endpoint::{
    DisabledFact, HostSessionEnd, HostSessionEnding, HostSessionFact, ProcedureFact,
};
pub use expected::ExpectedFact;
pub use file::{DecidedFact, Displaced, ExportedFile, FileFact, HeldFact, VersionFact};
pub use job::*;
pub use node::*;
pub use pruned::PrunedFact;
pub use quota::QuotaFact;
pub use recorded::{Event, FORMAT_LEVEL};
pub use session::{SessionLimitFact, SignInEndedFact};
pub use unknown::UnknownFact;
pub use watch::WatchedFolder;

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
        /// Which one.
        #[serde(flatten)]
        node: JoinedFact,
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
    /// The pools of a node got other sizes.
    "node.pools" NodePools {
        /// Which ones.
        #[serde(flatten)]
        pools: PoolsFact,
    }
    /// A node was taken off the list; another one may have its name.
    "node.removed" NodeRemoved {
        /// Which node, and what it leaves.
        #[serde(flatten)]
        node: RemovedFact,
    }
    /// An authority has given a listener its certificate, the first one or the next.
    "certificate.renewed" CertificateRenewed {
        /// Which certificate, and of which listener.
        #[serde(flatten)]
        certificate: RenewedFact,
    }
    /// The certificate of a key for TLS or AS2 ends soon, or has ended: told once for each of 60,
    /// 30, 7, 1 and 0 days.
    "certificate.expiring" CertificateExpiring {
        /// Which key, and when.
        #[serde(flatten)]
        end: ExpiringFact,
    }
    /// Another key ends soon, or has ended: told once for each of 60, 30, 7, 1 and 0 days.
    "key.expiring" KeyExpiring {
        /// Which key, and when.
        #[serde(flatten)]
        end: ExpiringFact,
    }
    /// The journal of a node holds so much that the database does not have yet: full, it takes no
    /// new files.
    "journal.filling" JournalFilling {
        /// How full it is.
        #[serde(flatten)]
        filling: JournalFact,
    }
    /// Files in a folder with a quota take so much of it.
    "quota.reached" QuotaReached {
        /// Which folder, and how full it is.
        #[serde(flatten)]
        quota: QuotaFact,
    }
    /// A receiver of web hooks wants no more of them: nothing is sent to its endpoint until it is
    /// enabled again.
    "endpoint.disabled" EndpointDisabled {
        /// Which endpoint, and why.
        #[serde(flatten)]
        disabled: DisabledFact,
    }
    /// An administrator asked for the certificate of a listener to be renewed now.
    "certificate.requested" CertificateRequested {
        /// The listener that shows it.
        listener: Name,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// An authority has not given a listener its certificate; it is asked again later.
    "certificate.failed" CertificateFailed {
        /// Which certificate, and why it did not come.
        #[serde(flatten)]
        failure: CertificateFailure,
    }
    /// A backup was made.
    "backup.made" BackupMade {
        /// Where it is, and what it holds.
        #[serde(flatten)]
        backup: BackupFact,
    }
    /// All sealed secrets of the installation were sealed anew under another master key.
    "secrets.rotated" SecretsRotated {
        /// From which key to which, and how many there are.
        #[serde(flatten)]
        rotation: RotationFact,
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
        /// How fast, and who said so.
        #[serde(flatten)]
        rates: LimitedFact,
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
        /// What, and how much of it.
        #[serde(flatten)]
        pruned: PrunedFact,
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
        /// Which session, and how fast it may go.
        #[serde(flatten)]
        limit: SessionLimitFact,
    }
    /// Someone signed in with a browser: its cookie stands for the login from then on.
    "sign-in.opened" SignInOpened {
        /// The peer's IP address, without a port.
        address: String,
        /// How the browser names itself, with what is no plain letter escaped.
        client: String,
        /// Methods that proved the account.
        proof: String,
    }
    /// Whoever is signed in has logged in once more, as dangerous changes ask for.
    "sign-in.proved" SignInProved {
        /// The peer's IP address, without a port.
        address: String,
        /// Methods that proved the account.
        proof: String,
    }
    /// A browser is signed in no more.
    "sign-in.ended" SignInEnded {
        /// Whose, and why.
        #[serde(flatten)]
        ended: SignInEndedFact,
    }
    /// Recovery codes were made for an account, in place of those that it had.
    "recovery-codes.made" RecoveryCodesMade {
        /// The account that logs in with them.
        name: Name,
        /// How many.
        count: u64,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A recovery code stood in for a code of the account's generator; it is used up.
    "recovery-code.used" RecoveryCodeUsed {
        /// The peer's IP address, without a port.
        address: String,
        /// How many the account has left.
        left: u64,
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
    /// A message of AS2 was refused; its sender may send it again. Or a receipt was.
    "as2.refused" As2Refused {
        /// The message, and why.
        #[serde(flatten)]
        refusal: As2Refusal,
    }
    /// A partner has refused a message of AS2 of ours, or has confirmed other bytes.
    "as2.rejected" As2Rejected {
        /// The message, and what the receipt says.
        #[serde(flatten)]
        rejection: As2Rejection,
    }
    /// A receipt of AS2 was sent to the address where its partner wants it.
    "as2-receipt.sent" As2ReceiptSent {
        /// Which one.
        #[serde(flatten)]
        sending: As2ReceiptSending,
    }
    /// A receipt of AS2 could not be sent there for a day, or never can be: it is given up.
    "as2-receipt.unsent" As2ReceiptUnsent {
        /// Which one, and why.
        #[serde(flatten)]
        sending: As2ReceiptSending,
    }
    /// A partner has sent a receipt of AS2 to an address of ours.
    "as2-receipt.received" As2ReceiptReceived {
        /// What it says, and of which message.
        #[serde(flatten)]
        received: As2ReceivedReceipt,
    }
    /// A procedure of a host application was called.
    "procedure.called" ProcedureCalled {
        /// Which one, and how it ended.
        #[serde(flatten)]
        call: ProcedureFact,
    }
    /// A client holds a session with a host.
    "host-session.opened" HostSessionOpened {
        /// Which one.
        #[serde(flatten)]
        session: HostSessionFact,
    }
    /// A client does not hold a session with a host any more.
    "host-session.ended" HostSessionEnded {
        /// Which one, and why.
        #[serde(flatten)]
        end: HostSessionEnd,
    }
    /// A crash hid the answer: the file was found published at the next start.
    "file.recovered" FileRecovered {
        /// What is known of the file.
        #[serde(flatten)]
        file: FileFact,
    }
    /// A file is whole and durable, and not visible: its mount holds files until a rule releases
    /// them. Then it is uploaded, in an event of the same transfer.
    "file.held" FileHeld {
        /// The file, and where it lies.
        #[serde(flatten)]
        held: HeldFact,
    }
    /// A file that is held is not to be released by any rule: somebody has to look.
    "file.quarantined" FileQuarantined {
        /// The file, and where it lies.
        #[serde(flatten)]
        held: HeldFact,
        /// Why, one sentence.
        reason: String,
    }
    /// An admin lets a file be seen that is held: it is uploaded next.
    "file.released" FileReleased {
        /// The file, and who said so.
        #[serde(flatten)]
        decided: DecidedFact,
    }
    /// A file that was held is deleted for good; it never was visible.
    "file.discarded" FileDiscarded {
        /// The file, and who said so.
        #[serde(flatten)]
        decided: DecidedFact,
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
    /// A file, or a directory with all that is in it, was removed and is kept by its mount: it can
    /// be put back by the id of this event.
    "file.trashed" FileTrashed {
        /// Virtual path as the account sees it.
        path: String,
        /// It is a directory.
        #[serde(default, skip_serializing_if = "is_default")]
        directory: bool,
        /// Bytes of the file; 0 of a directory.
        size: u64,
        /// The endpoint that keeps it.
        endpoint: Name,
        /// The directory of the endpoint that the mount shows: it has the trash in it.
        prefix: String,
        /// The path that it had at the endpoint.
        stored: String,
        /// From then on it is deleted for good.
        until: Timestamp,
        /// Most bytes that the trash of the mount keeps; none: as many as come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most_bytes: Option<u64>,
    }
    /// A file was replaced and is kept by its mount as a version: it can be put back by the id of
    /// this event. What replaced it has an event of its own.
    "file.versioned" FileVersioned {
        /// The file that was replaced, and where it is kept.
        #[serde(flatten)]
        version: VersionFact,
    }
    /// What was removed, or a version of a file, was put back.
    "file.restored" FileRestored {
        /// The virtual path that it has now.
        path: String,
        /// It is a directory.
        #[serde(default, skip_serializing_if = "is_default")]
        directory: bool,
        /// Bytes of the file; 0 of a directory.
        size: u64,
        /// The id of the event `file.trashed` or `file.versioned`.
        trashed: EventId,
    }
    /// What was removed, or a version of a file, is deleted for good: by its account, because its
    /// time was over, or because there was too much of it.
    "file.purged" FilePurged {
        /// The virtual path that it had.
        path: String,
        /// The id of the event `file.trashed` or `file.versioned`.
        trashed: EventId,
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
    /// A file of an endpoint was fetched for the steps of a rule.
    "file.fetched" FileFetched {
        /// The file; `path` is the one at the endpoint.
        #[serde(flatten)]
        file: FileFact,
        /// The endpoint that it was fetched from.
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
    /// The clock reached an instant of a rule's schedule: the rule starts.
    "schedule.due" ScheduleDue {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// The instant by the schedule; the event is later if the instant was missed, or waited
        /// for the run before it.
        planned: Timestamp,
    }
    /// The rule does not start at an instant of its schedule.
    "schedule.skipped" ScheduleSkipped {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// The instant by the schedule.
        planned: Timestamp,
        /// Why, one sentence.
        reason: String,
    }
    /// Somebody started a rule by hand, or a step of another rule did.
    "rule.called" RuleCalled {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// The value of each parameter that it takes.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        parameters: Map<String, Value>,
        /// Who: an admin account, `cli:<user>`, or `rule:<name>` of a step.
        by: String,
    }
    /// Another system posted a web hook to a rule, and proved that it may.
    "hook.received" HookReceived {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// The peer's IP address, without a port.
        address: String,
        /// Fields of the request that are kept, with their names in lower case; no secrets.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        /// What it said.
        body: Value,
    }
    /// Files that a rule expects have not come, and their time ends soon.
    "expected.soon" ExpectedSoon {
        /// What was expected, and what came.
        #[serde(flatten)]
        window: ExpectedFact,
    }
    /// Files that a rule expects had not come when their time ended.
    "expected.missed" ExpectedMissed {
        /// What was expected, and what came.
        #[serde(flatten)]
        window: ExpectedFact,
    }
    /// Files that had not come in time have come now.
    "expected.late" ExpectedLate {
        /// What was expected, and what came.
        #[serde(flatten)]
        window: ExpectedFact,
    }
    /// More files came in their time than a rule expects.
    "expected.extra" ExpectedExtra {
        /// What was expected, and what came.
        #[serde(flatten)]
        window: ExpectedFact,
    }
    /// A watched folder has a file, or another version of one, which rests; or has one no more.
    "watch.found" WatchFound {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// The endpoint that has the file.
        endpoint: Name,
        /// Its path there, with a slash in front.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// When it was changed last, by the clock of its server.
        modified: Timestamp,
        /// Whether a file of this path was found before.
        change: WatchChange,
    }
    /// A file that was found in a watched folder is not there any more: nothing came of its job.
    "watch.gone" WatchGone {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// The endpoint that had the file.
        endpoint: Name,
        /// Its path there, with a slash in front.
        path: String,
    }
    /// Somebody had a file of a watched folder forgotten: it is found anew.
    "watch.forgotten" WatchForgotten {
        /// The rule, by name.
        rule: Name,
        /// The file, below the watched folder.
        path: String,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// A watched folder cannot be listed, for the first time since it could.
    "watch.failed" WatchFailed {
        /// Which one.
        #[serde(flatten)]
        folder: WatchedFolder,
        /// Why, one sentence.
        error: String,
    }
    /// A watched folder can be listed again.
    "watch.recovered" WatchRecovered {
        /// Which one.
        #[serde(flatten)]
        folder: WatchedFolder,
    }
    /// A program that a rule started has ended.
    "program.ended" ProgramEnded {
        /// Which program, and how it ended.
        #[serde(flatten)]
        program: ProgramFact,
    }
    /// An attempt of a job failed; it will be tried again.
    "job.retrying" JobRetrying {
        /// How often, why and when.
        #[serde(flatten)]
        retrying: RetryingFact,
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
    /// A job failed for good, and those of its order stand still behind it; told once a failure.
    "order.stopped" OrderStopped {
        /// Which order, and why.
        #[serde(flatten)]
        stopped: StoppedFact,
    }
    /// All steps of a job are done.
    "job.done" JobDone {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
    }
    /// A job was made due again by hand.
    "job.retried" JobRetried {
        /// Of which rule, and by whom.
        #[serde(flatten)]
        retried: RetriedFact,
    }
    /// A job was ended by hand.
    "job.cancelled" JobCancelled {
        /// The name of the rule, which may have been deleted since.
        rule: Name,
        /// Who: an admin account, or `cli:<user>`.
        by: String,
    }
    /// Somebody approved what an `approve` step of a job asked.
    "job.approved" JobApproved {
        /// Who, and what was asked.
        #[serde(flatten)]
        answer: ApprovalFact,
    }
    /// Somebody refused it: the job fails.
    "job.refused" JobRefused {
        /// Who, why, and what was asked.
        #[serde(flatten)]
        answer: ApprovalFact,
    }
    /// Jobs of a rule were made again by hand, of earlier events; told of each part of a replay.
    "rule.replayed" RuleReplayed {
        /// Which rule, by whom, and how many.
        #[serde(flatten)]
        replayed: ReplayedFact,
    }
    /// A rule was paused: its jobs wait until it is resumed.
    "rule.paused" RulePaused {
        /// Which rule, by whom, and why.
        #[serde(flatten)]
        paused: PausedFact,
    }
    /// A paused rule was resumed: its jobs go on.
    "rule.resumed" RuleResumed {
        /// Which rule, and by whom.
        #[serde(flatten)]
        resumed: ResumedFact,
    }
    /// The configuration was read as documents, with what protects its secrets.
    "config.exported" ConfigExported {
        /// What of it, and by whom.
        #[serde(flatten)]
        exported: ConfigExportFact,
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
        /// Who: an admin account, `cli:<user>`, or `node:<name>` for keys made at first start, for
        /// hashes of passwords made anew after a login, and for endpoints that were disabled.
        by: String,
        /// Names of the fields that changed; never their values.
        fields: Vec<String>,
    }
}
