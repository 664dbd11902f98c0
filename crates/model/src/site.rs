//! Sites: tenants.

use serde::{Deserialize, Serialize};

use crate::login::LoginCheck;
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun};

/// A tenant: owns everything below it. The default site is `main` and never needs naming.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its name.
    pub name: Name,
    /// The policy of all its accounts and listeners that name none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Name>,
    /// Who is asked about passwords of names that have none here, by listeners that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginCheck>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Noun for Site {
    const KIND: Kind = Kind::Site;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<(Kind, Name)> {
        self.policy.iter().map(|name| (Kind::Policy, name.clone())).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        self.login.as_ref().map_or(Ok(()), LoginCheck::check)
    }
    fn programs(&self) -> Vec<&str> {
        self.login.as_ref().and_then(LoginCheck::program).into_iter().collect()
    }
}
