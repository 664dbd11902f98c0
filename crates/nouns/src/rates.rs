//! Rates of transfer: what policies set, for all times or for certain hours.

use crate::noun::FieldError;

/// A rate for each direction, bytes a second; none: not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerDirection {
    /// From the peer to us.
    pub upload: Option<u64>,
    /// From us to the peer.
    pub download: Option<u64>,
}

/// The rates of a policy, by who shares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of each session by itself.
    pub session: PerDirection,
    /// Of all sessions of an account.
    pub account: PerDirection,
    /// Of everything that the policy is set on.
    pub shared: PerDirection,
    /// Of all sites.
    pub global: PerDirection,
}

impl Rates {
    /// Every rate is large enough; `of` leads the names of its fields.
    pub(crate) fn check(&self, of: &str) -> Result<(), FieldError> {
        let all = [
            ("session_", self.session),
            ("", self.account),
            ("shared_", self.shared),
            ("global_", self.global),
        ];
        for (who, pair) in all {
            for (direction, rate) in [("upload", pair.upload), ("download", pair.download)] {
                if rate.is_some_and(|rate| rate < 1024) {
                    let field = format!("{of}{who}{direction}_bytes_per_second");
                    return Err(FieldError::new(field, "the least rate is 1024 bytes a second"));
                }
            }
        }
        Ok(())
    }
}
