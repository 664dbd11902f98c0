//! What the tests share.
#![allow(dead_code)]

pub(crate) mod model;
#[allow(unreachable_pub)] // It is public where it lives.
#[path = "../../../testkit/src/transcript.rs"]
pub(crate) mod transcript;
