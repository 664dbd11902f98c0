//! FTP (RFC 959 and what grew on it), both roles as machines without any IO. Bytes go in,
//! requests and replies come out; time is an argument.
//!
//! - [`Server`] turns the bytes of a control connection into [`Request`]s and takes [`Answer`]s;
//!   every reply is made in it.
//! - [`client::Client`] runs one operation at a time against any server.
//! - [`table`] lists every verb once; dispatch, FEAT, HELP and the coverage page use it.
//! - [`listing`], [`facts`], [`ascii`], [`zlib`], [`pattern`] and [`hostport`] are the formats of
//!   data connections as plain functions.

mod answer;
pub mod ascii;
pub mod client;
pub mod entry;
pub mod facts;
mod fuzzing;
pub mod hostport;
pub mod limits;
mod lines;
pub mod listing;
pub mod path;
pub mod pattern;
pub mod reply;
mod request;
pub mod server;
mod settings;
pub mod table;
mod time;
pub mod zlib;

pub use answer::{Answer, End, Login, Refusal, Why};
pub use fuzzing::fuzz;
pub use request::{ByteRange, Changes, Channel, Command, Data, Request, Secret, StoreHow, Target};
pub use server::Server;
pub use settings::{ActivePolicy, Algorithm, AsciiPolicy, Settings, SiteVerbs, TlsMode};
pub use time::{Civil, Time};
