//! TN3270 (RFC 1576), TN3270E (RFC 2355) and the 3270 data stream (IBM GA23-0059) as machines
//! without any IO: bytes go in; screens, records and bytes come out.
//!
//! - [`Terminal`] is a whole terminal: connection, screen and keyboard.
//! - [`client::Client`] is its connection alone, and [`host::Host`] the other end of it.
//! - [`observer::Observer`] follows a connection between two others.
//! - [`CodePage`] says what the codes of a screen mean; [`trace`] reads and writes recordings.

pub mod address;
mod bind;
pub mod client;
mod code_page;
pub mod codes;
pub mod enhanced;
mod fuzzing;
mod graphics;
pub mod host;
mod inbound;
mod key;
mod keyboard;
pub mod limits;
pub mod model;
mod nvt;
pub mod observer;
mod outbound;
mod query;
pub mod screen;
mod sketch;
mod structured;
mod telnet;
mod terminal;
pub mod text;
pub mod trace;
pub mod typed;

pub use code_page::CodePage;
pub use codes::Aid;
pub use fuzzing::fuzz;
pub use key::Key;
pub use keyboard::{Direction, Lock, NumericFields};
pub use screen::Screen;
pub use sketch::Sketch;
pub use terminal::{Refusal, Terminal, TerminalEvent, TerminalOptions};
