//! WebDAV (RFC 4918), the server's side without any IO: what stands in headers and bodies beyond
//! HTTP, as plain functions over text. Time is an argument.
//!
//! - [`headers`]: Depth, Destination, Overwrite, Timeout, Lock-Token.
//! - [`condition`]: the If header, and whether it holds.
//! - [`request`]: the bodies of PROPFIND, PROPPATCH and LOCK.
//! - [`multistatus`]: the body of a 207.
//! - [`locks`]: who has locked what, and who may change it.

mod bad_body;
pub mod condition;
pub mod element;
mod fuzzing;
pub mod headers;
pub mod limits;
pub mod locks;
pub mod multistatus;
pub mod request;

pub use bad_body::BadBody;
pub use condition::{Condition, If, State};
pub use element::{DAV, Element, Node, PropertyName};
pub use fuzzing::fuzz;
pub use headers::{BadHeader, Depth, Overwrite};
pub use locks::{Asks, Change, Lock, Locks, Scope, Taken, WantedLock};
pub use multistatus::{MultiStatus, PropStat, Property, Value};
pub use request::{LockInfo, PropFind, PropertyChange};
