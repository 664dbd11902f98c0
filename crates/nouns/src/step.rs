//! Steps of rules: what they do, and what any of them may have.

mod as2;
mod change;
mod files;
mod flow;
mod held;
mod keys;
pub(crate) mod place;
mod procedure;
mod talk;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::document::is_default;
use crate::endpoint::EndpointUse;
use crate::name::Name;
use crate::path::VPath;
use crate::period::Period;
use crate::retry::Retry;

pub use as2::As2Spec;
pub use change::{
    ChecksumAlgorithm, ChecksumSpec, DecryptSpec, EncryptSpec, ExtractSpec, GzipSpec, PackedFormat,
    SignSpec, TarCompression, TarSpec, VerifySpec, ZipSpec, ZstdSpec,
};
pub use files::{AfterFetch, CopySpec, FetchSpec, MkdirSpec};
pub use flow::{
    ApproveSpec, AwaitedEvent, CallSpec, CheckSpec, EachSpec, FindSpec, IfSpec, ParallelNeed,
    ParallelSpec, SetSpec, StopEnding, StopSpec, Variable, WaitSpec,
};
pub use held::{QuarantineSpec, ReleaseSpec};
pub use keys::{KeyHalf, KeyUse};
pub use procedure::{ProcedureFormat, ProcedureSpec};
pub use talk::{
    HttpAnswer, HttpBody, HttpMethod, HttpSpec, MailAttachment, MailSpec, ScanSpec, WebhookSpec,
};
pub use text::{BadCharacters, CHARSETS, JoinSpec, Newline, RecordForm, SplitSpec, TranscodeSpec};

/// One step of a rule: in a document a mapping with the step's word, and what any step may have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// What the step is known by, unique in its rule and without a dot. Jobs remember it by this
    /// name, so that the rule may get other steps before it; unset: by its place, `do.1` for the
    /// second step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// A CEL expression as that of the rule: where it is false the step is passed over, and that is
    /// recorded; unset: always.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// How often and how long this step is tried, in place of the rule's `retry`. Its failures do
    /// not count for the other steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What becomes of the job if the step fails for good, or with the last attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// An attempt of the step that takes longer is given up, and tried again as the rule says; as
    /// text: `30s`, `4h`. Unset: none is, for a large file rightly takes long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// Of `exec` and `http`: what is to be done where a node died, or was stopped, while it ran, so
    /// that nobody knows whether it did what it does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_crash: AfterCrash,
    /// What it does.
    #[serde(flatten)]
    pub spec: StepSpec,
}

/// Why a step cannot be: where in it, and what to do.
pub(crate) type StepFlaw = (&'static str, &'static str);

/// What becomes of a job of which a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It fails too: the steps of `else` follow.
    #[default]
    Fail,
    /// It goes on with the next step, and the failure is recorded.
    Continue,
}

/// What is to be done about a step that was begun and of which nobody knows how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterCrash {
    /// It runs again: it happens once or more often.
    #[default]
    Run,
    /// The job fails, so that somebody looks; `job retry` runs it again.
    Ask,
    /// The job goes on behind it: it happens once or not at all.
    Skip,
}

impl From<StepSpec> for Step {
    fn from(spec: StepSpec) -> Self {
        let (on_error, after_crash) = (OnError::default(), AfterCrash::default());
        let (name, condition, retry, timeout) = (None, None, None, None);
        Step { name, condition, retry, on_error, timeout, after_crash, spec }
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(StepVisitor)
    }
}

/// Reads a step key by key, so that what is wrong is said at its place.
struct StepVisitor;

impl<'de> Visitor<'de> for StepVisitor {
    type Value = Step;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a step: a mapping with one of {}", StepSpec::WORDS.join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Step, A::Error> {
        let mut common = StepKeys::default();
        let mut spec: Option<StepSpec> = None;
        while let Some(key) = map.next_key::<String>()? {
            let is_word = match common.take(&key, &mut map)? {
                Taken::Common => continue,
                Taken::Branch(branch) => {
                    if let Some(spec) = &spec {
                        return Err(two_words(spec.word(), "if"));
                    }
                    spec = Some(StepSpec::If(branch));
                    continue;
                }
                Taken::No => StepSpec::WORDS.contains(&key.as_str()),
            };
            if let (Some(spec), true) = (&spec, is_word) {
                return Err(two_words(spec.word(), &key));
            }
            spec = StepSpec::read(&key, &mut map)?;
            if spec.is_none() {
                return Err(A::Error::unknown_field(&key, StepSpec::KEYS));
            }
        }
        let none = || {
            let words = StepSpec::WORDS.join(", ");
            A::Error::custom(format!("a step needs a word that says what it does: {words}"))
        };
        let StepKeys { name, condition, retry, on_error, timeout, after_crash } = common;
        let on_error = on_error.unwrap_or_default();
        let after_crash = after_crash.unwrap_or_default();
        let spec = spec.ok_or_else(none)?;
        Ok(Step { name, condition, retry, on_error, timeout, after_crash, spec })
    }
}

/// What any step may have.
#[derive(Default)]
struct StepKeys {
    name: Option<Name>,
    condition: Option<String>,
    retry: Option<Retry>,
    on_error: Option<OnError>,
    timeout: Option<Period>,
    after_crash: Option<AfterCrash>,
}

/// What became of a key of a step.
enum Taken {
    /// It is one that any step may have.
    Common,
    /// It is the word of a step with branches.
    Branch(IfSpec),
    /// Its value was not read.
    No,
}

/// The key `if` with a text is the condition of a step; with a mapping it is a step of its own.
#[derive(Deserialize)]
#[serde(untagged)]
enum IfKey {
    Nothing(()),
    Condition(String),
    Branch(serde_json::Value),
}

impl StepKeys {
    /// Reads the value if `key` is one of these.
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<Taken, A::Error> {
        let twice = |key: &'static str| Err(A::Error::duplicate_field(key));
        match key {
            "name" if self.name.is_some() => return twice("name"),
            "retry" if self.retry.is_some() => return twice("retry"),
            "on_error" if self.on_error.is_some() => return twice("on_error"),
            "timeout" if self.timeout.is_some() => return twice("timeout"),
            "after_crash" if self.after_crash.is_some() => return twice("after_crash"),
            "name" => self.name = map.next_value()?,
            "if" => match map.next_value()? {
                IfKey::Nothing(()) => {}
                IfKey::Condition(_) if self.condition.is_some() => return twice("if"),
                IfKey::Condition(condition) => self.condition = Some(condition),
                IfKey::Branch(branch) => {
                    let branch = serde_json::from_value(branch);
                    return branch.map(Taken::Branch).map_err(A::Error::custom);
                }
            },
            "retry" => self.retry = map.next_value()?,
            "on_error" => self.on_error = Some(map.next_value()?),
            "timeout" => self.timeout = map.next_value()?,
            "after_crash" => self.after_crash = Some(map.next_value()?),
            _ => return Ok(Taken::No),
        }
        Ok(Taken::Common)
    }
}

fn two_words<E: serde::de::Error>(first: &str, second: &str) -> E {
    E::custom(format!("a step has one word, and this one has '{first}' and '{second}'"))
}

/// One line a step: what it does, its word in a document, and what the document says of it.
macro_rules! steps {
    ($($(#[$doc:meta])* $word:literal => $variant:ident($spec:ty),)*) => {
        /// What a step does. In a document the one key of these that the step has.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub enum StepSpec {
            $($(#[$doc])* #[serde(rename = $word)] $variant($spec),)*
        }

        impl StepSpec {
            /// The words of all steps.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            /// Every key that a step may have.
            const KEYS: &'static [&'static str] =
                &[$($word,)* "name", "if", "retry", "on_error", "timeout", "after_crash"];

            /// The word of this one.
            pub fn word(&self) -> &'static str {
                match self {
                    $(StepSpec::$variant(_) => $word,)*
                }
            }

            /// Reads the value behind `word`; `None` if no step has it.
            fn read<'de, A: MapAccess<'de>>(
                word: &str,
                map: &mut A,
            ) -> Result<Option<StepSpec>, A::Error> {
                Ok(match word {
                    $($word => Some(StepSpec::$variant(map.next_value()?)),)*
                    _ => None,
                })
            }
        }
    };
}

steps! {
    /// Copy the file to an endpoint.
    "deliver" => Deliver(DeliverSpec),
    /// Fetch a file from an endpoint.
    "fetch" => Fetch(FetchSpec),
    /// Write the file into the account's view.
    "copy" => Copy(CopySpec),
    /// Make a directory.
    "mkdir" => Mkdir(MkdirSpec),
    /// Compress the file as gzip does.
    "gzip" => Gzip(GzipSpec),
    /// Compress the file as zstd does.
    "zstd" => Zstd(ZstdSpec),
    /// Put the file into a zip archive.
    "zip" => Zip(ZipSpec),
    /// Put the file into a tar archive.
    "tar" => Tar(TarSpec),
    /// Take files out of an archive.
    "extract" => Extract(ExtractSpec),
    /// Encrypt the file by OpenPGP.
    "encrypt" => Encrypt(EncryptSpec),
    /// Decrypt an OpenPGP message.
    "decrypt" => Decrypt(DecryptSpec),
    /// Sign the file by OpenPGP.
    "sign" => Sign(SignSpec),
    /// Fail unless the file was signed by OpenPGP.
    "verify" => Verify(VerifySpec),
    /// Make or compare a checksum file.
    "checksum" => Checksum(ChecksumSpec),
    /// Write the text in another character set.
    "transcode" => Transcode(TranscodeSpec),
    /// Write the file in parts.
    "split" => Split(SplitSpec),
    /// Put the parts of a file together.
    "join" => Join(JoinSpec),
    /// Rename the file within what the account sees.
    "move" => Move(MoveSpec),
    /// Remove the file.
    "delete" => Delete(DeleteSpec),
    /// Let a file be seen that its mount holds.
    "release" => Release(ReleaseSpec),
    /// Keep a file hidden that its mount holds, until an admin decides.
    "quarantine" => Quarantine(QuarantineSpec),
    /// Run a program.
    "exec" => Exec(ExecSpec),
    /// Refuse the command; only in rules `before` a command.
    "refuse" => Refuse(RefuseSpec),
    /// Go on with one of two lists of steps.
    "if" => If(IfSpec),
    /// Run steps once for each item of a list.
    "each" => Each(EachSpec),
    /// Run lists of steps at the same time.
    "parallel" => Parallel(ParallelSpec),
    /// Give values names for later steps.
    "set" => Set(SetSpec),
    /// Fail unless a condition holds.
    "check" => Check(CheckSpec),
    /// End the job here.
    "stop" => Stop(StopSpec),
    /// Let the job rest.
    "wait" => Wait(WaitSpec),
    /// Start another rule.
    "call" => Call(CallSpec),
    /// Ask people whether the job may go on.
    "approve" => Approve(ApproveSpec),
    /// Send a request of HTTP.
    "http" => Http(HttpSpec),
    /// Tell a receiver of web hooks of the event.
    "webhook" => Webhook(WebhookSpec),
    /// Send mail.
    "mail" => Mail(MailSpec),
    /// Have a scanner look at the file.
    "scan" => Scan(ScanSpec),
    /// Send the file to a partner of AS2.
    "as2" => As2(As2Spec),
    /// Call a procedure of a host application.
    "procedure" => Procedure(ProcedureSpec),
}

/// The endpoint that a step names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepEndpoint<'a> {
    /// Where it stands in the step, such as `deliver.endpoint`.
    pub field: &'static str,
    /// What the endpoint is called.
    pub name: &'a Name,
    /// What the step needs it for.
    pub usage: EndpointUse,
}

/// An expression of a step, and what it must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepExpression<'a> {
    /// Where it stands in the step, such as `check.that`.
    pub field: &'static str,
    /// The CEL expression.
    pub text: &'a str,
    /// What it must give.
    pub gives: ExpressionValue,
    /// The kind of the event that it looks at; unset: at that of the job.
    pub event: Option<&'a str>,
}

impl<'a> StepExpression<'a> {
    fn new(field: &'static str, text: &'a str, gives: ExpressionValue) -> StepExpression<'a> {
        StepExpression { field, text, gives, event: None }
    }
}

/// What an expression must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionValue {
    /// True or false.
    Flag,
    /// A point in time.
    Instant,
    /// The items of an `each`.
    List,
    /// Anything that has a form in JSON.
    Any,
}

impl StepSpec {
    /// Whether the steps behind it work on a file that it made.
    pub fn makes_file(&self) -> bool {
        match self {
            StepSpec::Fetch(_)
            | StepSpec::Gzip(_)
            | StepSpec::Zstd(_)
            | StepSpec::Zip(_)
            | StepSpec::Tar(_)
            | StepSpec::Encrypt(_)
            | StepSpec::Decrypt(_)
            | StepSpec::Sign(_)
            | StepSpec::Transcode(_)
            | StepSpec::Procedure(_)
            | StepSpec::Join(_) => true,
            StepSpec::Exec(exec) => exec.stdout == ExecStdout::File,
            StepSpec::Extract(extract) => extract.to.is_none(),
            StepSpec::Verify(verify) => verify.signature.is_none(),
            StepSpec::Checksum(checksum) => checksum.verify.is_none(),
            _ => false,
        }
    }

    /// Whether it changes the file that steps work on into another one, or looks into it.
    pub fn needs_file(&self) -> bool {
        matches!(
            self,
            StepSpec::Deliver(_)
                | StepSpec::Copy(_)
                | StepSpec::Gzip(_)
                | StepSpec::Zstd(_)
                | StepSpec::Zip(_)
                | StepSpec::Tar(_)
                | StepSpec::Extract(_)
                | StepSpec::Encrypt(_)
                | StepSpec::Decrypt(_)
                | StepSpec::Sign(_)
                | StepSpec::Verify(_)
                | StepSpec::Checksum(_)
                | StepSpec::Scan(_)
                | StepSpec::As2(_)
                | StepSpec::Transcode(_)
                | StepSpec::Split(_)
        )
    }

    /// Whether it works in an account's view, whatever file steps work on.
    pub fn needs_account(&self) -> bool {
        match self {
            StepSpec::Delete(_) | StepSpec::Copy(_) | StepSpec::Split(_) | StepSpec::Join(_) => {
                true
            }
            StepSpec::Mkdir(mkdir) => mkdir.endpoint.is_none(),
            StepSpec::Extract(extract) => extract.to.is_some(),
            StepSpec::Verify(verify) => verify.signature.is_some(),
            StepSpec::Checksum(checksum) => checksum.verify.is_some(),
            _ => false,
        }
    }

    /// The keys that it names.
    pub fn keys(&self) -> Vec<KeyUse<'_>> {
        use KeyHalf::{Private, Public};
        match self {
            StepSpec::Encrypt(it) => {
                let signers = KeyUse::of("encrypt.signers", Private, &it.signers);
                KeyUse::of("encrypt.keys", Public, &it.keys).chain(signers).collect()
            }
            StepSpec::Decrypt(it) => {
                let signed_by = KeyUse::of("decrypt.signed_by", Public, &it.signed_by);
                KeyUse::of("decrypt.keys", Private, &it.keys).chain(signed_by).collect()
            }
            StepSpec::Sign(it) => {
                vec![KeyUse { field: "sign.key", name: &it.key, half: Private }]
            }
            StepSpec::Verify(it) => KeyUse::of("verify.signed_by", Public, &it.signed_by).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether nobody but the other side knows, after a crash, if it did what it does.
    pub fn is_unkeyed(&self) -> bool {
        matches!(self, StepSpec::Exec(_) | StepSpec::Http(_))
    }

    /// Whether it depends on nothing that may be different at the next try.
    pub(crate) fn ends_alike(&self) -> bool {
        matches!(
            self,
            StepSpec::Set(_)
                | StepSpec::Check(_)
                | StepSpec::Stop(_)
                | StepSpec::Wait(_)
                | StepSpec::Approve(_)
                | StepSpec::Refuse(_)
        )
    }

    /// Whether the end of the job changes something where the step took its file from.
    pub fn takes_source(&self) -> bool {
        matches!(self, StepSpec::Fetch(fetch) if fetch.after != AfterFetch::Keep)
    }
}

impl Step {
    /// The endpoint that it names.
    pub fn endpoint(&self) -> Option<StepEndpoint<'_>> {
        let (field, name, usage) = match &self.spec {
            StepSpec::Deliver(it) => ("deliver.endpoint", &it.endpoint, EndpointUse::Files),
            StepSpec::Fetch(FetchSpec { endpoint: Some(name), .. }) => {
                ("fetch.endpoint", name, EndpointUse::Files)
            }
            StepSpec::Mkdir(MkdirSpec { endpoint: Some(name), .. }) => {
                ("mkdir.endpoint", name, EndpointUse::Files)
            }
            StepSpec::Each(EachSpec { find: Some(find), .. }) => {
                ("each.find.endpoint", &find.endpoint, EndpointUse::Files)
            }
            StepSpec::Http(it) => ("http.endpoint", &it.endpoint, EndpointUse::Web),
            StepSpec::Mail(it) => ("mail.endpoint", &it.endpoint, EndpointUse::Mail),
            StepSpec::Scan(it) => ("scan.endpoint", &it.endpoint, EndpointUse::Scanner),
            StepSpec::As2(it) => ("as2.endpoint", &it.endpoint, EndpointUse::As2),
            StepSpec::Webhook(it) => ("webhook.endpoint", &it.endpoint, EndpointUse::Webhook),
            _ => return None,
        };
        Some(StepEndpoint { field, name, usage })
    }

    /// Whether the steps inside it run beside each other.
    pub fn runs_beside(&self) -> bool {
        match &self.spec {
            StepSpec::Parallel(_) => true,
            StepSpec::Each(each) => each.at_once > 1,
            _ => false,
        }
    }

    /// The lists of steps inside it, each with its key in the document.
    pub fn branches(&self) -> Vec<(&'static str, &[Step])> {
        match &self.spec {
            StepSpec::If(branch) => {
                vec![("then", branch.then.as_slice()), ("else", branch.otherwise.as_slice())]
            }
            StepSpec::Each(each) => vec![("do", each.steps.as_slice())],
            StepSpec::Parallel(parallel) => parallel.lists(),
            _ => Vec::new(),
        }
    }

    /// Its expressions, those of steps inside it left out.
    pub fn expressions(&self) -> Vec<StepExpression<'_>> {
        use ExpressionValue::{Any, Flag, Instant, List};
        let mut found = Vec::new();
        let mut add = |field, text, gives| found.push(StepExpression::new(field, text, gives));
        if let Some(text) = &self.condition {
            add("if", text, Flag);
        }
        match &self.spec {
            StepSpec::If(branch) => add("if.when", &branch.when, Flag),
            StepSpec::Check(check) => add("check.that", &check.that, Flag),
            StepSpec::Each(EachSpec { list: Some(text), .. }) => add("each.in", text, List),
            StepSpec::Join(JoinSpec { count: Some(text), .. }) => add("join.count", text, Any),
            StepSpec::Wait(WaitSpec { until: Some(text), .. }) => add("wait.until", text, Instant),
            StepSpec::Call(call) => {
                call.with.values().for_each(|text| add("call.with", text, Any));
            }
            StepSpec::Set(set) => {
                set.0.iter().for_each(|variable| add("set", &variable.expression, Any));
            }
            _ => {}
        }
        if let StepSpec::Wait(WaitSpec { event: Some(awaited), .. }) = &self.spec
            && let Some(text) = &awaited.condition
        {
            let expression = StepExpression::new("wait.event.if", text, Flag);
            found.push(StepExpression { event: Some(&awaited.kind), ..expression });
        }
        found
    }
}

/// Run a program: the argument list as it stands, never a shell. Exit code 0 is done, 1 is done
/// with a warning, anything else failed, unless `exit` says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecSpec {
    /// Absolute path of a program that the process file allows, and its arguments. In each
    /// argument alone placeholders are replaced once; see `docs/configuration.md`.
    pub argv: Vec<String>,
    /// More environment; placeholders as in `argv`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdin: ExecStdin,
    /// It is killed, with all it started, when this is over.
    #[serde(default = "exec_seconds", skip_serializing_if = "is_exec_seconds")]
    pub timeout_seconds: u32,
    /// Its address space in MiB.
    #[serde(default = "exec_memory", skip_serializing_if = "is_exec_memory")]
    pub memory_mib: u32,
    /// What its exit codes say: each a number, or `*` for all others. One that is not named means
    /// what it means without this.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exit: BTreeMap<ExitCode, ExitMeaning>,
    /// What becomes of what it writes to standard output, at most 64 KiB unless it becomes a file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdout: ExecStdout,
    /// With `stdout: file`: what the file is called; placeholders as in `deliver`. Unset: `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With `stdout: file`: most MiB of it. A program that writes more is killed.
    #[serde(default = "exec_output", skip_serializing_if = "is_exec_output")]
    pub output_mib: u32,
    /// In a rule `after` a command: whether the reply waits for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reply: ReplyTime,
    /// Where a client waits for it: the reply code of FTP if it fails, 4xx or 5xx. A client of
    /// SFTP is told that the request failed (4xx) or is denied (5xx).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<u16>,
}

/// What a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecStdin {
    /// Standard input is empty.
    #[default]
    None,
    /// The bytes of the file.
    File,
}

/// What an exit code says of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExitMeaning {
    /// It did what it was to do.
    Done,
    /// It may do so later: it is tried again as the rule says.
    Retry,
    /// It never will.
    Fail,
}

/// An exit code, or all that are not named.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum ExitCode {
    /// From 0 to 255.
    Is(u8),
    /// As text `*`.
    Other,
}

impl TryFrom<String> for ExitCode {
    type Error = String;

    fn try_from(text: String) -> Result<ExitCode, String> {
        if text == "*" {
            return Ok(ExitCode::Other);
        }
        let code = text.parse().map(ExitCode::Is);
        code.map_err(|_| {
            format!("'{text}' is no exit code from 0 to 255, and not '*' for all others")
        })
    }
}

impl From<ExitCode> for String {
    fn from(code: ExitCode) -> String {
        match code {
            ExitCode::Is(code) => code.to_string(),
            ExitCode::Other => "*".to_owned(),
        }
    }
}

/// What becomes of the output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecStdout {
    /// Its last words are in the event of its end, where it says nothing to standard error.
    #[default]
    None,
    /// It is there for later steps as `steps.NAME.out`, a text in UTF-8 without the line ends
    /// behind it.
    Text,
    /// The same, as the JSON that it is.
    Json,
    /// It is the file that later steps work on.
    File,
}

/// When the reply of a command leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplyTime {
    /// At once; the step is one of a durable job.
    #[default]
    Leave,
    /// When the step has ended well; else the client is told of the failure.
    Wait,
}

/// Refuse the command with these words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefuseSpec {
    /// The reply code of FTP, any 4xx or 5xx. A client of SFTP is told that the request failed
    /// (4xx) or is denied (5xx).
    #[serde(default = "refuse_code")]
    pub code: u16,
    /// One line that the client gets: why it was refused, and what to do. 1,000 bytes at most.
    pub text: String,
}

fn refuse_code() -> u16 {
    550
}

fn exec_seconds() -> u32 {
    60
}

pub(crate) fn exec_output() -> u32 {
    10_240
}

fn exec_memory() -> u32 {
    1024
}

// The signatures are what serde's `skip_serializing_if` asks for.
fn is_exec_seconds(seconds: &u32) -> bool {
    *seconds == exec_seconds()
}

fn is_exec_output(mib: &u32) -> bool {
    *mib == exec_output()
}

fn is_exec_memory(mib: &u32) -> bool {
    *mib == exec_memory()
}

/// Copy the file to an endpoint: read through the account's mounts, written under a temporary
/// name and published whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliverSpec {
    /// The endpoint that gets the copy.
    pub endpoint: Name,
    /// Path there. `{name}`, `{stem}`, `{extension}`, `{account}`, `{date}` (UTC, `2026-11-21`),
    /// `{transfer}` are replaced once, from the event.
    #[serde(default = "name_pattern")]
    pub path: String,
    /// What if a file of that name is there.
    #[serde(default)]
    pub existing: Existing,
}

fn name_pattern() -> String {
    "{name}".to_owned()
}

/// What to do about a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Existing {
    /// The new one takes its place, whole.
    #[default]
    Replace,
    /// The step fails and is not tried again.
    Refuse,
}

/// Rename the file within what the account sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveSpec {
    /// New path; the same placeholders as [`DeliverSpec::path`].
    pub to: String,
    /// What if a file of that name is there.
    #[serde(default)]
    pub existing: Existing,
}

/// Remove the file.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSpec {
    /// Another file than the one of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<VPath>,
}
