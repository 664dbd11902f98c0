//! The nouns of Entrepot as plain data: what is stored, shown, named in an API path, a table, a
//! CLI verb and a configuration document. No async, no IO.
//!
//! ARCHITECTURE.md lists the nouns; each has one file here.

pub mod account;
pub mod any_noun;
pub mod certificate;
pub mod command;
pub mod crash;
mod document;
pub mod endpoint;
pub mod env;
pub mod event;
pub mod ftp;
pub mod hours;
pub mod ids;
pub mod job;
pub mod key;
pub mod limits;
pub mod listener;
pub mod login;
pub mod mount;
pub mod name;
pub mod noun;
pub mod path;
pub mod policy;
pub mod rates;
pub mod retention;
pub mod rule;
pub mod secret;
pub mod session;
pub mod site;
pub mod source;
pub mod time;
pub mod tls;
pub mod transfer;

pub use account::{Account, AccountType, AuthMethod, LoginProtocol};
pub use any_noun::AnyNoun;
pub use certificate::CertificateName;
pub use command::{CommandFact, CommandOrigin, CommandPattern};
pub use endpoint::{Endpoint, EndpointTarget};
pub use env::Env;
pub use event::{Displaced, Event, EventClock, Fact};
pub use hours::{Hours, Window};
pub use ids::*;
pub use job::{Job, JobHolder, JobState};
pub use key::{Key, KeyType};
pub use listener::{Listener, Protocol};
pub use mount::{ModeMask, Mount, MountOption, Quota, Right, Rights};
pub use name::Name;
pub use noun::{FieldError, Kind, Noun, Reference, Stored};
pub use path::{StorePath, VPath};
pub use policy::{AlgorithmPreset, LegacyAlgorithm, Policy};
pub use rates::{PerDirection, Rates};
pub use retention::{Keep, Retention, RetentionExport};
pub use rule::Rule;
pub use secret::{Sealed, Secret};
pub use session::SessionInfo;
pub use site::{HostName, Site};
pub use source::Source;
pub use time::Timestamp;
pub use transfer::{Digests, Direction, Transfer, TransferState};
