//! What the integration tests share: a server over files in memory, and packets as text.
#![allow(dead_code)] // Each test binary uses its part.

pub(crate) mod model;
pub(crate) mod text;
#[allow(unreachable_pub)] // It is public where it lives.
#[path = "../../../testkit/src/transcript.rs"]
pub(crate) mod transcript;
